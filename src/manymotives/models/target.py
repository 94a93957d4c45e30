"""A model bound to an environment and data: everything a sampler reads, as plain arrays.

Tasks have coordinates u [M, D]: K for the reward, then one for the discount, one for the inverse temperature and one
for the lapse rate where these are inferred: all that plans depend on comes first. Populations have coordinates h
[G, H], the hyperparameters. A hierarchical model is one population of M tasks; a separate one, M populations of one
task each; a pooled one, one population of one task, which made all choices.
`families` says what a coordinate is.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from manymotives import families
from manymotives.by_reference import by_reference
from manymotives.data.belief import DynamicsBelief
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.labels import Label
from manymotives.errors import InputError, quoted
from manymotives.models.assignment import Assignment
from manymotives.models.effects import Effects
from manymotives.models.episodes import EpisodeCounts
from manymotives.models.features import Features
from manymotives.models.likelihood import LARGEST_LOG_C, LARGEST_LOGIT, SMALLEST_LOG_C, log_likelihoods
from manymotives.models.mixture import Partitions
from manymotives.models.rewards import LINEAR, NORMALISED
from manymotives.models.smooth_scales import NOT_SMOOTH, SmoothScales
from manymotives.planning import Plan, plan

CONSTANT = -1  # a parameter that is no hyperparameter
FIXED = -1  # the index of a discount, temperature or lapse rate that is known
LARGEST_LOG = 708.0  # of what can be written down as a positive and finite number
BATCH = 2_000_000  # numbers of q at a time when likelihoods are computed for many draws


@by_reference
class ParameterLayout(NamedTuple):
    """The parameter layout: the family of each coordinate and where its parameters come from, for compiled loops."""

    families: np.ndarray  # [D] of the tasks' coordinates
    source: np.ndarray  # [D, 2] the hyperparameter that each parameter is, or CONSTANT
    constants: np.ndarray  # [D, 2] its value in that case
    hyper_families: np.ndarray  # [H]
    hyper_constants: np.ndarray  # [H, 2]
    num_rewards: int  # K
    link: int
    reward_index: np.ndarray  # [K] where in the reward table [S·(1 or A)] each coordinate goes
    features: Features  # Φ [S·(1 or A), K], or without rows
    discount: int  # its index among the coordinates, or FIXED
    temperature: int
    lapse: int
    is_soft: bool
    on_pairs: bool
    group_size: int  # tasks in a population: M or 1
    smooth: SmoothScales = NOT_SMOOTH  # the second parameter of reward coordinates, where one for all is inferred

    def copied(self) -> "ParameterLayout":
        """The same with arrays of its own: threads that share an array also fight over its reference count."""
        parts: Any = (np.array(part) if isinstance(part, np.ndarray) else part for part in self)
        smooth = self.smooth._replace(eigenvalues=self.smooth.eigenvalues.copy())
        return ParameterLayout(*parts)._replace(features=self.features.copied(), smooth=smooth)


class Block(NamedTuple):
    """A named run of hyperparameters."""

    name: str
    begin: int
    end: int
    over: str  # "reward": one for each weight or reward; "group": one for each group of them; "": a single one


@dataclass(frozen=True, eq=False)
class Target:
    """The posterior to sample from, up to a constant."""

    environment: Environment
    on: str
    tasks: tuple[Any, ...]  # names of those the coordinates belong to; one, "everybody", where they are pooled
    counts: np.ndarray  # [M, S, A] floats
    layout: ParameterLayout
    blocks: tuple[Block, ...]  # of hyperparameters
    fixed_temperature: np.ndarray  # [M], read where the temperature is known
    fixed_lapse: np.ndarray  # [M]
    num_weights: int = 0  # of features: the first coordinates; further ones are their residual
    has_shared_rewards: bool = False  # of several cells each, as Φ says; `reward_index` is then the first of them
    groups: tuple[Label, ...] = ()  # names of those that have a scale in common
    belief: DynamicsBelief | None = None  # where dynamics are not known; `environment` is then its mean
    episodes: EpisodeCounts | None = None  # the choices of each episode, where somebody will ask for them
    effects: Effects | None = None  # of covariates: tasks' u is then what the population says and what these add
    assignment: Assignment | None = None  # where motives switch: tasks above are motives (of units), counts not known
    partitions: Partitions | None = None  # where tasks share motives
    depth: int | None = None  # how many steps ahead tasks look; None: for ever
    names: tuple[Any, ...] = ()  # [D] of coordinates: features, states or pairs, "residual …", "inverse_temperature", …

    @property
    def num_tasks(self) -> int:
        return len(self.counts)

    @property
    def num_groups(self) -> int:
        return self.num_tasks // self.layout.group_size

    @property
    def num_coordinates(self) -> int:
        return len(self.layout.families)

    @property
    def num_hyper(self) -> int:
        return len(self.layout.hyper_families)

    @cached_property
    def group(self) -> np.ndarray:
        """[M] the population of each task."""
        return np.repeat(np.arange(self.num_groups), self.layout.group_size)

    def without_episodes(self) -> "Target":
        """The same for samplers that do not note the choices of each episode."""
        return replace(self, episodes=None)

    # ---- the generative model: populations, then tasks, then choices ---------------------------------------------

    def draw_hyper(self, rng: np.random.Generator, draws: int) -> np.ndarray:
        """Coordinates h [draws, G, H] of populations from the hyperprior η."""
        layout = self.layout
        shape = (draws * self.num_groups, self.num_hyper, 2)
        constants = np.ascontiguousarray(np.broadcast_to(layout.hyper_constants, shape))
        return families.draw_all(rng, layout.hyper_families, constants).reshape(draws, self.num_groups, self.num_hyper)

    def draw_tasks(self, rng: np.random.Generator, hyper: np.ndarray) -> np.ndarray:
        """Coordinates u [draws, M, D] of tasks from their populations h [draws, G, H]: ρ ~ ψ, c ~ Gamma(g1, g2)."""
        parameters = self.parameters(hyper)[:, self.group]
        flat = np.ascontiguousarray(parameters.reshape(-1, self.num_coordinates, 2))
        return families.draw_all(rng, self.layout.families, flat).reshape(len(hyper), self.num_tasks, -1)

    def parameters(self, hyper: np.ndarray) -> np.ndarray:
        """[..., D, 2]: the parameters of the tasks' coordinates, given their population's h [..., H]."""
        return self.parameters_at(self.natural_hyper(hyper))

    def parameters_at(self, values: np.ndarray) -> np.ndarray:
        """The same, given the hyperparameters themselves [..., H]."""
        layout = self.layout
        known = np.broadcast_to(layout.constants, (*values.shape[:-1], *layout.constants.shape))
        if self.num_hyper == 0:
            return known
        found = np.where(layout.source == CONSTANT, known, values[..., np.maximum(layout.source, 0)])
        if layout.smooth.exist:
            found[..., : layout.num_rewards, 1] = layout.smooth.scales(values)
        return found

    def natural_hyper(self, hyper: np.ndarray) -> np.ndarray:
        """The hyperparameters themselves, from their coordinates h [..., H]."""
        flat = np.ascontiguousarray(hyper.reshape(int(np.prod(hyper.shape[:-1])), self.num_hyper))
        return families.natural_all(self.layout.hyper_families, flat).reshape(hyper.shape)

    def rewards(self, u: np.ndarray) -> np.ndarray:
        """[..., S] or [..., S, A], as `on` says, from coordinates u [..., D]."""
        layout = self.layout
        part = u[..., : layout.num_rewards]
        if layout.link == NORMALISED:
            weight = np.exp(part - part.max(axis=-1, keepdims=True))
            x = weight / weight.sum(axis=-1, keepdims=True)
        else:
            flat = np.ascontiguousarray(part.reshape(-1, layout.num_rewards))
            x = families.natural_all(layout.families[: layout.num_rewards], flat).reshape(part.shape)
        size = (self.environment.num_states, self.environment.num_actions)[: 1 if self.on == "state" else 2]
        if layout.features.exist:
            flat = x.reshape(-1, layout.num_rewards)
            return layout.features.times(flat).reshape(*u.shape[:-1], *size)
        table = np.zeros((*u.shape[:-1], int(np.prod(size))))
        table[..., layout.reward_index] = x
        return table.reshape(*u.shape[:-1], *size)

    def reward_derivatives(self, u: np.ndarray, rewards: np.ndarray) -> np.ndarray:
        """dρ/du [M, S·(1 or A), K] at the reward coordinates of u [M, D], whose `rewards` are known."""
        layout, size = self.layout, self.layout.num_rewards
        cells = rewards[0].size
        if layout.features.exist:
            spread = layout.features.array
        else:
            spread = np.zeros((cells, size))
            spread[layout.reward_index, np.arange(size)] = 1.0
        if layout.link == NORMALISED:
            flat = rewards.reshape(len(u), -1)[:, layout.reward_index]
            return spread @ (flat[:, :, None] * (np.eye(size) - flat[:, None, :]))
        if layout.link == LINEAR:
            return np.broadcast_to(spread, (len(u), cells, size))
        value = 1.0 / (1.0 + np.exp(-u[:, :size]))
        return spread * (value * (1 - value))[:, None, :]

    def on_cells(self, values: np.ndarray) -> np.ndarray:
        """Values [..., K] of coordinates that are rewards themselves, on their cells [..., S·(1 or A)]; NaN: none."""
        layout, sizes = self.layout, (self.environment.num_states, self.environment.num_actions)
        table = np.full((*values.shape[:-1], int(np.prod(sizes[: 1 if self.on == "state" else 2]))), np.nan)
        if self.has_shared_rewards:
            table[..., np.diff(layout.features.begin) > 0] = values[..., layout.features.column]
        else:
            table[..., layout.reward_index] = values
        return table

    def temperatures(self, u: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Inverse temperatures c [...] of coordinates u [..., D] that belong to tasks `owner` [...]."""
        return self._temperatures(u, owner, -LARGEST_LOG, LARGEST_LOG)

    def felt_temperatures(self, u: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """The same within the range in which they change choices: what plans and likelihoods are computed with."""
        return self._temperatures(u, owner, SMALLEST_LOG_C, LARGEST_LOG_C)

    def _temperatures(self, u: np.ndarray, owner: np.ndarray, least: float, largest: float) -> np.ndarray:
        index = self.layout.temperature
        if index == FIXED:
            return np.broadcast_to(self.fixed_temperature[owner], u.shape[:-1])
        return np.exp(np.clip(u[..., index], least, largest))

    def lapses(self, u: np.ndarray, owner: np.ndarray) -> np.ndarray:
        """Lapse rates [...]."""
        index = self.layout.lapse
        if index == FIXED:
            return np.broadcast_to(self.fixed_lapse[owner], u.shape[:-1])
        return 1.0 / (1.0 + np.exp(-u[..., index]))

    def discounts(self, u: np.ndarray, owner: np.ndarray) -> np.ndarray | None:
        """Discounts [...] where they are inferred, from 1e-6 to 1 − 1e-6; None: that of the environment."""
        index = self.layout.discount
        if index == FIXED:
            return None
        return 1.0 / (1.0 + np.exp(-np.clip(u[..., index], -LARGEST_LOGIT, LARGEST_LOGIT)))

    # ---- densities ---------------------------------------------------------------------------------------------

    def log_likelihood(self, u: np.ndarray, owner: np.ndarray, environment: Environment | None = None) -> np.ndarray:
        """log p(d_m | u) [N] for coordinates u [N, D] of tasks `owner` [N]; in another environment, if one is given."""
        environment = environment or self.environment
        found = np.empty(len(u))
        step = max(1, BATCH // (self.environment.num_states * self.environment.num_actions))
        for begin in range(0, len(u), step):
            part = slice(begin, begin + step)
            temperature, lapse = self.felt_temperatures(u[part], owner[part]), self.lapses(u[part], owner[part])
            q = self.planned(u[part], owner[part], environment).q
            found[part] = log_likelihoods(q, self.counts, owner[part], temperature.copy(), lapse.copy())
        return found

    def log_policies(self, u: np.ndarray, owner: np.ndarray, environment: Environment | None = None) -> np.ndarray:
        """log π(a|s) [N, S, A] of coordinates u [N, D]; −inf where an action does not exist."""
        q = self.action_values(u, owner, environment)
        return log_choice_probabilities(q, self.felt_temperatures(u, owner), self.lapses(u, owner))

    def action_values(self, u: np.ndarray, owner: np.ndarray, environment: Environment | None = None) -> np.ndarray:
        """Q(s, a) [N, S, A] of coordinates u [N, D]; −inf where an action does not exist."""
        return self.planned(u, owner, environment).q

    def planned(self, u: np.ndarray, owner: np.ndarray, environment: Environment | None = None) -> Plan:
        """What is best for coordinates u [..., D] of tasks `owner` [...]."""
        soft = self.felt_temperatures(u, owner) if self.layout.is_soft else None
        return plan(
            environment or self.environment,
            self.rewards(u),
            on=self.on,
            inverse_temperature=soft,
            discount=self.discounts(u, owner),
            depth=self.depth,
        )

    def episode_log_likelihoods(self, u: np.ndarray, q: np.ndarray) -> np.ndarray:
        """log p of each episode [N, E], of coordinates u [N, M, D] and the values q [N, V, A] in visited states."""
        assert self.episodes is not None
        every, owner = np.arange(self.num_tasks), self.episodes.task
        temperature, lapse = self.felt_temperatures(u, every)[:, owner], self.lapses(u, every)[:, owner]
        return self.episodes.log_likelihoods(log_choice_probabilities(q[:, :, None], temperature, lapse)[:, :, 0])

    def log_prior(self, hyper: np.ndarray, u: np.ndarray) -> np.ndarray:
        """log p(h, u) [N] for coordinates h [N, G, H] and u [N, M, D]."""
        found = np.empty(len(u))
        step = max(1, BATCH // (self.num_tasks * self.num_coordinates))
        for begin in range(0, len(u), step):
            part = slice(begin, begin + step)
            found[part] = self._log_prior(hyper[part], u[part])
        return found

    def _log_prior(self, hyper: np.ndarray, u: np.ndarray) -> np.ndarray:
        layout, draws = self.layout, len(u)
        constants = np.broadcast_to(layout.hyper_constants, (draws * self.num_groups, self.num_hyper, 2)).copy()
        flat = hyper.reshape(draws * self.num_groups, self.num_hyper).copy()
        populations = families.log_density_all(layout.hyper_families, flat, constants).reshape(draws, -1)
        parameters = self.parameters(hyper)[:, self.group].reshape(-1, self.num_coordinates, 2).copy()
        tasks = families.log_density_all(layout.families, u.reshape(-1, self.num_coordinates).copy(), parameters)
        return populations.sum(axis=1) + tasks.reshape(draws, -1).sum(axis=1)


def checked_choices(environment: Environment, demonstrations: Demonstrations) -> np.ndarray:
    """Counts [M, S, A] of choices that the environment allows."""
    if demonstrations.states != environment.states or demonstrations.actions != environment.actions:
        raise InputError(
            "the states or actions of the demonstrations differ from those of the environment. Read them with "
            "it: Demonstrations.from_frame(frame, environment, ...)."
        )
    counts = demonstrations.counts.astype(float)
    impossible = (counts > 0).any(axis=0) & ~environment.available
    if impossible.any():
        state, action = np.argwhere(impossible)[0]
        raise InputError(
            f"action {quoted(environment.actions[action])} was taken in state "
            f"{quoted(environment.states[state])}, where it is not available in this environment."
        )
    return counts


def check_everyone_chose(demonstrations: Demonstrations, counts: np.ndarray) -> None:
    """Without a population, nothing can be said of a task without choices."""
    silent = [task for task, made in zip(demonstrations.tasks, counts.sum(axis=(1, 2))) if made == 0]
    if silent:
        raise InputError(
            f"no choices were recorded for {', '.join(map(quoted, silent[:5]))}{' …' if len(silent) > 5 else ''}: "
            "under Separate() nothing can be inferred about them. Use Hierarchical(), or leave them out."
        )


def log_choice_probabilities(q: np.ndarray, temperature: np.ndarray, lapse: np.ndarray) -> np.ndarray:
    """log π(a|s) [..., S, A] from values, inverse temperatures and lapse rates [...]; −inf where it cannot be done."""
    exists = np.isfinite(q)
    above = np.where(exists, q - q.max(axis=-1, keepdims=True), 0.0) * temperature[..., None, None]
    above = np.where(exists, above, -np.inf)
    intended = above - np.log(np.exp(above).sum(axis=-1, keepdims=True))
    share = lapse[..., None, None]
    if not share.any():
        return np.minimum(intended, 0.0)
    with np.errstate(divide="ignore"):
        blind = np.where(exists, np.log(share / exists.sum(axis=-1, keepdims=True)), -np.inf)
        return np.minimum(np.logaddexp(np.log1p(-share) + intended, blind), 0.0)  # not above it by rounding
