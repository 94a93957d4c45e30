"""Everything a report tells, computed before anything is written: what was found, or why it could not be."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from manymotives.data.alignment import aligned
from manymotives.errors import InputError
from manymotives.findings import (
    FeatureWeights,
    Learning,
    PredictiveCheck,
    Sample,
    SharedMotives,
    Similarity,
    effects,
    feature_weights,
    learning,
    predictive_check,
    sample_of,
    shared_motives,
    similarity,
)
from manymotives.findings.learning import shown_cells
from manymotives.inference import Progress
from manymotives.posterior import MixturePosterior, Posterior
from manymotives.posterior.canonical import in_unit_range
from manymotives.posterior.effects import has_effects

STEP = 25  # of a hundred: one of four


@dataclass(frozen=True, eq=False)
class About:
    """What every report is about."""

    posterior: Posterior
    title: str
    scores: tuple[Any, ...]
    counterfactuals: tuple[Any, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, eq=False)
class Content(About):
    """What a report of subjects with one motive each is about, and what was found."""

    truth: np.ndarray | None  # [tasks, cells] in canonical form
    sample: Sample
    weights: FeatureWeights | None  # where rewards are made of features
    learning: Learning
    similarity: Similarity | str  # or why there is none
    check: PredictiveCheck | str
    effects: tuple[pd.DataFrame, pd.DataFrame] | None = None  # of covariates, and spreads of levels
    motives: SharedMotives | None = None  # where tasks share motives; in the place of `similarity`


def content_of(
    posterior: Posterior, title: str, scores: tuple[Any, ...], truth: Any, asked: tuple[Any, ...] = ()
) -> Content:
    known = None if truth is None else _canonical_truth(posterior, truth)
    with Progress().of(4 * STEP, "steps") as bar:
        bar.update(0, "what was learnt")
        weights = feature_weights(posterior) if posterior.has_features else None
        learnt = learning(posterior)
        bar.update(STEP, "plans")
        sample = sample_of(
            posterior,
            on_planned=lambda done: bar.update(STEP + STEP * done // len(sample.rewards), f"plans of {done} draws"),
        )
        _ = sample.plan
        bar.update(2 * STEP, "who resembles whom")
        is_mixture = isinstance(posterior, MixturePosterior)
        motives = shared_motives(posterior) if is_mixture else None
        alike = "who shares a motive is inferred here" if is_mixture else _or_why(similarity, sample)
        bar.update(3 * STEP, "predictive check")
        check = _or_why(predictive_check, sample)
        bar.update(4 * STEP)
    explained = effects(posterior) if has_effects(posterior) else None
    found = (known, sample, weights, learnt, alike, check, explained, motives)
    return Content(posterior, title, scores, *found, counterfactuals=asked)


def _or_why(compute: Any, sample: Sample) -> Any:
    try:
        return compute(sample)
    except InputError as error:
        return str(error)


def _canonical_truth(posterior: Posterior, truth: Any) -> np.ndarray:
    """True rewards [task, S(, A)] as the report shows rewards: [task, cells]."""
    environment, on = posterior.environment, posterior.model.reward.on
    size = (len(posterior.tasks), *environment.available.shape[: posterior._reward_axes])
    try:
        axes = {"state": environment.states, "action": environment.actions}
        named = dict(list(axes.items())[: posterior._reward_axes])
        values = np.asarray(aligned(truth, "truth", task=posterior.tasks, **named), dtype=float)
    except InputError:
        raise
    except (TypeError, ValueError):
        raise InputError("truth must be numbers: the true reward of each task and state.") from None
    if values.shape != size or not np.isfinite(values).all():
        raise InputError(
            f"truth must have the shape {list(size)} (tasks, {on.replace('_', ', ')}), all finite; found "
            f"{list(values.shape)}."
        )
    dims = ("task", "state", "action")[: values.ndim]
    canonical, _ = in_unit_range(posterior.identifiability, xr.DataArray(values, dims=dims), None)
    return canonical.values.reshape(len(values), -1)[:, shown_cells(posterior)]
