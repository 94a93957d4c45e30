"""Draws of tasks that share motives in the ArviZ schema: who acts on which motive, and how many there are."""

from typing import Any

import numpy as np
import xarray as xr

from manymotives.inference.draws import MixtureDraws
from manymotives.models import Target
from manymotives.models.mixture import FiniteNumber, PartitionPrior
from manymotives.posterior.labelling.common import sample_coordinates
from manymotives.posterior.partitions import together_of

LABELS = ("motive", "motive_reward", "motive_weight")  # their numbers mean something within a draw only
MOST_PAIRS = 500  # of tasks, whose probability of sharing a motive is watched


def labelled_mixture(target: Target, drawn: MixtureDraws, beside: xr.Dataset, of_motives: dict[str, Any]) -> xr.Dataset:
    """Motives of tasks (chain, draw, task) and their number, and where they are inferred, α and σ.

    Which number a motive has means nothing: only who has the same. `of_motives`: what tasks' motives want, as
    variables, where tasks are spread around them.
    """
    assert target.partitions is not None
    prior, spread = target.partitions
    made: dict[str, Any] = {
        "motive": (("chain", "draw", "task"), drawn.motive),
        "number_of_motives": (("chain", "draw"), drawn.motive.max(axis=2) + 1),
    }
    if prior.is_process and not prior.alpha.is_known:
        made["concentration"] = (("chain", "draw"), drawn.concentration)
    if spread is not None:
        if not spread.is_known:
            made["spread"] = (("chain", "draw"), drawn.spread)
        for name in ("reward", "weight"):
            if name in of_motives:
                behind, values = of_motives[name]
                made[f"motive_{name}"] = (("chain", "draw", "task", *behind), values)
    coordinates = {name: beside[name] for name in ("task", "state", "action", "feature") if name in beside.coords}
    used = {dim for dims, _ in made.values() for dim in dims}
    coordinates = {name: values for name, values in coordinates.items() if name in used}
    return xr.Dataset(made, coords=coordinates | sample_coordinates(*drawn.motive.shape[:2]))


def prior_spread(target: Target, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """What tasks' rewards are away from their motive's before the data [draws, ..., R]; σ is drawn for each draw."""
    assert target.partitions is not None
    spread = target.partitions.spread
    if spread is None:
        return np.zeros(shape)
    scale = np.array([spread.draw(rng) for _ in range(shape[0])])
    return rng.standard_normal(shape) * scale.reshape(-1, *(1 for _ in shape[1:]))


def prior_numbers(prior: PartitionPrior, rng: np.random.Generator, draws: int) -> np.ndarray:
    """How many motives so many tasks act on [draws], before the data."""
    tasks = prior.num_tasks
    found = np.empty(draws, dtype=np.int64)
    for n in range(draws):
        if prior.is_process:
            alpha = prior.alpha.draw(rng)
            found[n] = (rng.random(tasks) < alpha / (alpha + np.arange(tasks))).sum()
            continue
        motives = prior.motives
        number = 1 + int(rng.poisson(motives.mean - 1.0)) if isinstance(motives, FiniteNumber) else int(motives)
        found[n] = (rng.multinomial(tasks, rng.dirichlet(np.full(number, prior.share))) > 0).sum()
    return found


def judged(drawn: xr.Dataset, lp: np.ndarray) -> xr.Dataset:
    """What chains must agree on: all but labels; in their place, which tasks share a motive, and the log density.

    Of pairs of tasks, those that neither always share one nor never do; the least certain, where there are many.
    """
    motive = drawn["motive"].values
    together = together_of(motive.reshape(-1, motive.shape[2]))
    first, second = np.triu_indices(len(together), 1)
    share = together[first, second]
    open_pairs = np.flatnonzero((share > 0) & (share < 1))
    order = np.argsort(np.abs(share[open_pairs] - 0.5), kind="stable")[:MOST_PAIRS]
    open_pairs = np.sort(open_pairs[order])
    first, second = first[open_pairs], second[open_pairs]
    names = drawn["task"].values
    found = drawn.drop_vars([name for name in LABELS if name in drawn]).assign(lp=(("chain", "draw"), lp))
    if not len(open_pairs):
        return found
    labels = np.array([f"{names[a]} and {names[b]}" for a, b in zip(first, second)], dtype=object)
    same = (motive[..., first] == motive[..., second]).astype(float)
    return found.assign(same_motive=(("chain", "draw", "pair"), same)).assign_coords(pair=labels)
