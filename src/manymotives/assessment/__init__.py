"""Is it honest, and what could it show? Calibration and parameter recovery."""
