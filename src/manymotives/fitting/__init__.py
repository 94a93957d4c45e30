"""From a model and data to a posterior: fit, load, checkpoints."""
