"""What a model predicts for one split, and how that was found."""

from typing import NamedTuple

import numpy as np

FIT, REWEIGHTED, CONTINUED, REFIT = "fit", "reweighted", "continued", "refit"
NOT_ASKED = float("nan")  # k̂ where nothing was weighted


class Prediction(NamedTuple):
    log_policy: np.ndarray  # [S, A] of the split's task, or [M, S, A] of every task
    how: str
    pareto_k: float = NOT_ASKED
    mixed: bool = True  # whether the chains behind it had
    by_row: np.ndarray | None = None  # [rows] log p of what was chosen, where it depends on more than the state
