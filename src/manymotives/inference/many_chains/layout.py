"""A model bound to data for JAX: what is static to the compiler (`StaticLayout`), and what are arrays (`Data`)."""

from typing import Any, NamedTuple

import numpy as np

from manymotives.models import Target
from manymotives.models.target import CONSTANT, FIXED
from manymotives.planning.problem import allowed_actions


class Run(NamedTuple):
    """Neighbouring coordinates of one family, whose parameters are neighbouring hyperparameters or constants."""

    begin: int
    end: int
    family: int
    sources: tuple[int, int]  # the first hyperparameter of each parameter, or CONSTANT


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

    transitions: Any  # [S, A, S] times the discount, unless that is inferred
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
    )


def _runs(families: Any, source: Any, cut: int) -> tuple[Run, ...]:
    """Runs as long as possible; one ends where rewards do."""
    found: list[Run] = []
    for d, family in enumerate(families):
        if found and d != cut and found[-1].family == family:
            begin, _, _, first = found[-1]
            accepted = tuple(CONSTANT if j == CONSTANT else j + d - begin for j in first)
            if accepted == tuple(source[d]):
                found[-1] = found[-1]._replace(end=d + 1)
                continue
        found.append(Run(d, d + 1, int(family), (int(source[d][0]), int(source[d][1]))))
    return tuple(found)


def data_of(target: Target) -> Data:
    """As NumPy arrays."""
    environment, parameters = target.environment, target.layout
    return Data(
        (environment.discount if parameters.discount == FIXED else 1.0) * environment.tensor,
        allowed_actions(environment),
        np.ascontiguousarray(target.counts.transpose(1, 2, 0)),
        np.array(target.fixed_temperature, dtype=float),
        np.array(target.fixed_lapse, dtype=float),
        parameters.features.matrix.toarray(),
        np.array(parameters.constants, dtype=float),
        np.array(parameters.hyper_constants, dtype=float),
    )
