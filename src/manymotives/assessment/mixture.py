"""Truth from the prior of a model whose tasks share motives, and what is ranked of a partition.

Motives have no order: what is ranked is their number, who shares one with whom, and what each task's motive wants.
"""

import numpy as np

from manymotives.assessment.switching import Quantities
from manymotives.inference.draws import MixtureDraws
from manymotives.models import Target
from manymotives.models.mixture import Partitions

PAIRS = 2  # of a task with others, whose sharing of a motive is ranked


def drawn_mixture(rng: np.random.Generator, target: Target, tasks: np.ndarray) -> tuple[np.ndarray, MixtureDraws]:
    """Coordinates [1, M, D] of tasks that share motives, from those of tasks on their own; and who shares which."""
    assert target.partitions is not None
    prior, spread = target.partitions
    size, u = target.layout.num_rewards, tasks.copy()
    label, concentration = prior.draw(rng)
    centre = tasks[:, label, :size]  # of M rewards drawn, the first belong to the motives in use
    scale = 0.0 if spread is None else spread.draw(rng)
    u[:, :, :size] = centre + scale * rng.standard_normal(centre.shape)
    one = np.ones((1, 1))
    return u, MixtureDraws(label[None, None], concentration * one, scale * one, centre[None], lp=np.nan * one)


def mixture_quantities(partitions: Partitions, drawn: MixtureDraws, m: int) -> Quantities:
    """Draws [chain, draw] of what is ranked of a partition, of task m and some of the others."""
    label, found = drawn.motive, {"number of motives": drawn.motive.max(axis=2) + 1.0}
    count = label.shape[2]
    for other in range(1, min(count, PAIRS + 1)):
        found[f"shares a motive with task {other} further on"] = label[..., m] == label[..., (m + other) % count]
    found["tasks on its motive"] = (label == label[..., m : m + 1]).sum(axis=2)
    if not partitions.prior.alpha.is_known:
        found["concentration of the process"] = drawn.concentration
    if partitions.spread is not None:
        for position in range(drawn.centre.shape[3]):
            found[f"coordinate {position} of its motive"] = drawn.centre[:, :, m, position]
        if not partitions.spread.is_known:
            found["spread"] = drawn.spread
    return {name: np.asarray(values, dtype=float) for name, values in found.items()}
