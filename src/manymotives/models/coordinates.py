"""Which coordinates a model's tasks and populations have: from priors, as a user wrote them, to a parameter layout."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from manymotives.data.alignment import aligned
from manymotives.data.labels import Label
from manymotives.errors import InputError
from manymotives.models.priors import Normal, Prior
from manymotives.models.target import CONSTANT, FIXED, Block


class RewardCoordinates(NamedTuple):
    """What coordinates of rewards there are."""

    component: Prior  # of each
    words: tuple[str, ...]  # what its parameters are called
    rewarded: Sequence[Label]  # what has one
    groups: tuple[Label, ...] | None = None  # which of them have the second parameter in common
    residual: Any = None  # the scale of a residual behind them, a number or a prior …
    num_residuals: int = 0  # … and how many it is of
    further: Mapping[str, Prior] = {}  # hyperparameters that are no coordinate's own, such as how far likeness reaches


def coordinates_of(
    rewards: RewardCoordinates, further: Mapping[str, Any]
) -> tuple[dict[str, np.ndarray], tuple[Block, ...], dict[str, int]]:
    """Arrays of `ParameterLayout` for rewards, then `further` parameters where they are inferred; where these are."""
    rewarded = rewards.rewarded
    kinds: list[int] = []
    source: list[list[int]] = []
    constants: list[list[float]] = []
    hyper_kinds: list[int] = []
    hyper_constants: list[list[float]] = []
    blocks: list[Block] = []

    def add(name: str, prior: Prior, size: int, words: tuple[str, ...], groups: Any = None) -> int:
        """So many coordinates of one prior; `groups`: numbers of those that have the second parameter in common."""
        begin = len(kinds)
        kinds.extend([prior.family] * size)
        where = np.full((size, 2), CONSTANT)
        value = np.zeros((size, 2))
        for column, (word, given) in enumerate(zip(words, prior.parameters)):
            if isinstance(given, Prior):
                first = len(hyper_kinds)
                shared = groups is not None and column == 1
                owner = np.asarray(groups) if shared else np.arange(size)
                count = int(owner.max()) + 1 if size else 0
                hyper_kinds.extend([given.family] * count)
                numbers = np.zeros((count, 2))
                for k, number in enumerate(given.parameters):
                    numbers[:, k] = sized(number, count, f"{name}, {word}: {given.parameter_names[k]}", shared)
                hyper_constants.extend(numbers.tolist())
                where[:, column] = first + owner
                over = "" if name != "reward" else "group" if shared else "reward"
                blocks.append(Block(f"{name}_{word}", first, first + count, over))
            else:
                value[:, column] = sized(given, size, f"{name}, {word}")
        source.extend(where.tolist())
        constants.extend(value.tolist())
        return begin

    def sized(number: Any, size: int, what: str, shared: bool = False) -> np.ndarray:
        labels = rewarded if what.startswith("reward,") and not shared else None
        values = np.asarray(aligned(number, what, reward=labels), dtype=float)
        if values.ndim > 1 or (values.ndim == 1 and len(values) != size):
            raise InputError(
                f"{what} must be one number or {size} of them; found an array of shape {list(values.shape)}."
            )
        return np.broadcast_to(values, (size,))

    numbers_of = {name: number for number, name in enumerate(dict.fromkeys(rewards.groups or ()))}
    groups = None if rewards.groups is None else [numbers_of[name] for name in rewards.groups]
    add("reward", rewards.component, len(rewarded), rewards.words, groups)
    for name, hyperprior in rewards.further.items():
        blocks.append(Block(name, len(hyper_kinds), len(hyper_kinds) + 1, ""))
        hyper_kinds.append(hyperprior.family)
        named = zip(hyperprior.parameter_names, hyperprior.parameters)
        values = [float(sized(number, 1, f"{name.replace('_', ' ')}: {word}")[0]) for word, number in named]
        hyper_constants.append([*values, 0.0][:2])
    if rewards.residual is not None:
        prior = Normal(mean=0.0, scale=rewards.residual)
        add("residual", prior, rewards.num_residuals, ("mean", "scale"), [0] * rewards.num_residuals)
    positions = {
        name: add(name, given, 1, given.parameter_names) if isinstance(given, Prior) else FIXED
        for name, given in further.items()
    }
    arrays = {
        "families": np.array(kinds),
        "source": np.array(source).reshape(-1, 2),
        "constants": np.array(constants, dtype=float).reshape(-1, 2),
        "hyper_families": np.array(hyper_kinds, dtype=np.int64),
        "hyper_constants": np.array(hyper_constants, dtype=float).reshape(-1, 2),
    }
    return arrays, tuple(blocks), positions
