"""A model bound to data for JAX: what is static to the compiler (`StaticLayout`), and what are arrays (`Data`)."""

from typing import Any, NamedTuple

import numpy as np

from manymotives.inference.many_chains.neighbours import neighbours_of
from manymotives.models import Target
from manymotives.models.target import CONSTANT, FIXED
from manymotives.planning.problem import allowed_actions

MOST_STATES = 128  # for which transitions are dense, and inverses of I − γ P_π kept


class Run(NamedTuple):
    """Neighbouring coordinates of one family, whose parameters are neighbouring hyperparameters or constants."""

    begin: int
    end: int
    family: int
    sources: tuple[int, int]  # the first hyperparameter of each parameter, or CONSTANT
    strides: tuple[int, int] = (1, 1)  # 0: all coordinates have that hyperparameter in common


class StaticLayout(NamedTuple):
    """The parameter layout (`models.target.ParameterLayout`) as hashable values, static to JAX's compiler."""

    runs: tuple[Run, ...]  # of tasks' coordinates
    hyper_runs: tuple[Run, ...]
    num_groups: int
    group_size: int
    num_rewards: int
    link: int
    reward_index: tuple[int, ...]
    has_features: bool
    discount: int
    temperature: int
    lapse: int
    has_lapse: bool
    is_soft: bool
    on_pairs: bool
    num_states: int
    num_actions: int
    is_large: bool  # whether transitions are those of neighbours

    @property
    def num_tasks(self) -> int:
        return self.num_groups * self.group_size

    @property
    def num_coordinates(self) -> int:
        return self.runs[-1].end

    @property
    def num_hyper(self) -> int:
        return self.hyper_runs[-1].end if self.hyper_runs else 0


class Data(NamedTuple):
    """Arrays, which may change without compiling again."""

    transitions: Any  # [S, A, S] times the discount, unless that is inferred; `Neighbours` of a large environment
    allowed: Any  # [S, A]
    counts: Any  # [S, A, M]
    temperature: Any  # [M] where it is known
    lapse: Any  # [M]
    features: Any  # [S · (1 or A), K], or empty
    constants: Any  # [D, 2]
    hyper_constants: Any  # [H, 2]


def static_layout_of(target: Target) -> StaticLayout:
    parameters = target.layout
    return StaticLayout(
        runs=_runs(parameters.families, parameters.source, parameters.num_rewards),
        hyper_runs=_runs(parameters.hyper_families, np.full((target.num_hyper, 2), CONSTANT), 0),
        num_groups=target.num_groups,
        group_size=parameters.group_size,
        num_rewards=parameters.num_rewards,
        link=parameters.link,
        reward_index=tuple(int(index) for index in parameters.reward_index),
        has_features=parameters.features.exist,
        discount=parameters.discount,
        temperature=parameters.temperature,
        lapse=parameters.lapse,
        has_lapse=parameters.lapse != FIXED or bool((target.fixed_lapse > 0).any()),
        is_soft=bool(parameters.is_soft),
        on_pairs=bool(parameters.on_pairs),
        num_states=target.environment.num_states,
        num_actions=target.environment.num_actions,
        is_large=target.environment.num_states > MOST_STATES,
    )


def _runs(families: Any, source: Any, cut: int) -> tuple[Run, ...]:
    """Runs as long as possible; one ends where rewards do."""
    found: list[Run] = []
    for d, family in enumerate(families):
        if found and d != cut and found[-1].family == family:
            strides = _strides(found[-1], source[d])
            if strides is not None:
                found[-1] = found[-1]._replace(end=d + 1, strides=strides)
                continue
        found.append(Run(d, d + 1, int(family), (int(source[d][0]), int(source[d][1]))))
    return tuple(found)


def _strides(run: Run, sources: Any) -> tuple[int, int] | None:
    """Those of a run that goes on with a coordinate of these sources, if it does."""
    found = []
    for first, stride, here in zip(run.sources, run.strides, sources):
        size = run.end - run.begin
        fits = [
            each for each in ((0, 1) if size == 1 else (stride,)) if first != CONSTANT and here == first + each * size
        ]
        if here == first == CONSTANT:
            fits = [1]
        if not fits:
            return None
        found.append(fits[0])
    return found[0], found[1]


def data_of(target: Target) -> Data:
    """As NumPy arrays."""
    environment, parameters = target.environment, target.layout
    discount = environment.discount if parameters.discount == FIXED else 1.0
    transitions: Any
    if environment.num_states > MOST_STATES:
        transitions = neighbours_of(discount * environment.matrix, environment.num_actions)
    else:
        transitions = discount * environment.tensor
    return Data(
        transitions,
        allowed_actions(environment),
        np.ascontiguousarray(target.counts.transpose(1, 2, 0)),
        np.array(target.fixed_temperature, dtype=float),
        np.array(target.fixed_lapse, dtype=float),
        parameters.features.matrix.toarray(),
        np.array(parameters.constants, dtype=float),
        np.array(parameters.hyper_constants, dtype=float),
    )
