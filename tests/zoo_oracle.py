"""A written-down model, a world and draws in; log likelihoods, log prior densities and prior tail probabilities out.

Plain NumPy and SciPy, from the definitions in the documentation; nothing of the library is imported. Optimal values
are found by enumeration of all deterministic policies, soft-optimal ones by Newton's method on the soft Bellman
equation; where discounts are inferred, both by `oracle_discount`; where agents look some steps ahead, by backward
induction. Densities are those of unconstrained coordinates (log x for positive x, logit x for x in (0, 1)), in centred
form.
"""

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import special, stats

from oracle_discount import scaled_action_values

EPSILON = np.finfo(float).eps
SMALLEST = 1e-307  # below it a number cannot be written as drawn
POSITIVE = ("Gamma", "HalfNormal", "LogNormal")
PARAMETERS = {
    "Gamma": ("shape", "rate"),
    "Beta": ("alpha", "beta"),
    "Normal": ("mean", "scale"),
    "HalfNormal": ("scale",),
    "LogNormal": ("mean", "scale"),
}


@dataclass(frozen=True)
class Distribution:
    """As a user writes it: parameters are numbers, arrays (one number for each reward) or distributions."""

    kind: str
    parameters: tuple[Any, ...]

    def __repr__(self) -> str:
        shown = (p if isinstance(p, Distribution) else np.round(p, 3).tolist() for p in self.parameters)
        named = (f"{name}={value!r}" for name, value in zip(PARAMETERS[self.kind], shown))
        return f"{self.kind}({', '.join(named)})"


@dataclass(frozen=True)
class World:
    """A controlled Markov process, or several beside each other. In a terminal state nothing is available."""

    transitions: np.ndarray  # [S, A, S]
    discount: float
    available: np.ndarray  # [S, A]
    names: tuple[int, ...] | None = None  # [S] of several: what their states are called; one name, one reward
    first_of_second: int = 0  # where the second of several begins

    @property
    def is_terminal(self) -> np.ndarray:
        return ~self.available.any(axis=1)

    @cached_property
    def values_of_policies(self) -> np.ndarray:
        """[P, S, S·A]: what each deterministic policy is worth from each state, linear in the reward of pairs.

        A terminal state has one nominal action, its first, after which nothing comes.
        """
        states, actions = self.available.shape
        choices = [np.flatnonzero(row) if row.any() else np.zeros(1, int) for row in self.available]
        policies = np.array(list(itertools.product(*choices)))
        every = np.arange(states)
        moves = self.transitions[every, policies] * ~self.is_terminal[:, None]  # [P, S, S]
        inverse = np.linalg.inv(np.eye(states) - self.discount * moves)
        values = np.zeros((len(policies), states, states, actions))
        for number, policy in enumerate(policies):
            values[number][:, every, policy] = inverse[number]
        return values.reshape(len(policies), states, states * actions)

    def optimal_action_values(self, rewards: np.ndarray) -> np.ndarray:
        """Q* [B, S, A] for rewards [B, S, A]; −∞ where an action does not exist."""
        values = self.values_of_policies
        policies, states, pairs = values.shape
        best = np.empty((len(rewards), states))
        batch = max(1, 4_000_000 // (policies * states))
        for begin in range(0, len(rewards), batch):
            part = rewards[begin : begin + batch].reshape(-1, pairs)
            found = values.reshape(-1, pairs) @ part.T
            best[begin : begin + batch] = found.reshape(policies, states, -1).max(axis=0).T
        return self._backup(rewards, best)

    def soft_action_values(self, rewards: np.ndarray, inverse_temperatures: np.ndarray) -> np.ndarray:
        """c Q [B, S, A] where V = log Σ exp(c Q) / c; −∞ where an action does not exist."""
        scaled = rewards * inverse_temperatures[:, None, None]
        end = np.where(self.is_terminal, scaled[:, :, 0], 0.0)  # c V where nothing is chosen

        def improved(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            backup = self._backup(scaled, values)
            return backup, np.where(self.is_terminal, end, special.logsumexp(backup, axis=2))

        values = special.logsumexp(self._backup(scaled, np.zeros_like(end)), axis=2)
        values = np.where(self.is_terminal, end, values)
        for _ in range(200):  # Newton: V ← the value of acting by π_V for ever; monotone, as policy iteration
            backup, better = improved(values)
            policy = np.where(self.available, np.exp(backup - better[:, :, None]), 0.0)
            moves = np.einsum("bsa,sat->bst", policy, self.transitions)
            step = np.linalg.solve(np.eye(len(self.available)) - self.discount * moves, (better - values)[..., None])
            values = values + step[..., 0]
            if (np.abs(step[..., 0]) <= 16 * EPSILON * np.maximum(1.0, np.abs(values))).all():
                break
        return improved(values)[0]

    def scaled_values_ahead(self, scaled: np.ndarray, discounts: np.ndarray, soft: bool, depth: int) -> np.ndarray:
        """c Q_n [B, S, A] from c r [B, S, A], of those who look n steps ahead; −∞ where an action does not exist."""
        end = np.where(self.is_terminal, scaled[:, :, 0], 0.0)
        values, found = np.zeros_like(end), scaled
        for _ in range(depth):
            later = np.einsum("sat,bt->bsa", self.transitions, values)
            found = np.where(self.available, scaled + discounts[:, None, None] * later, -np.inf)
            best = special.logsumexp(found, axis=2) if soft else found.max(axis=2)
            values = np.where(self.is_terminal, end, best)
        return found

    def _backup(self, rewards: np.ndarray, values: np.ndarray) -> np.ndarray:
        later = np.einsum("sat,bt->bsa", self.transitions, values)
        return np.where(self.available, rewards + self.discount * later, -np.inf)

    def log_policies(
        self,
        rewards: np.ndarray,
        inverse_temperatures: np.ndarray,
        lapses: np.ndarray,
        foresees_errors: bool,
        discounts: np.ndarray | None = None,  # [B] instead of the world's
        depth: int | None = None,  # steps ahead; None: for ever
    ) -> tuple[np.ndarray, np.ndarray]:
        """log π [B, S, A], and by how much rounding alone may change each of them [B]."""
        if depth is not None:
            own = np.full(len(rewards), self.discount) if discounts is None else discounts
            scaled = rewards * inverse_temperatures[:, None, None]
            scaled = self.scaled_values_ahead(scaled, own, foresees_errors, depth)
        elif discounts is not None:
            scaled = rewards * inverse_temperatures[:, None, None]
            scaled = scaled_action_values(self.transitions, discounts, scaled, foresees_errors, self.available)
        elif foresees_errors:
            scaled = self.soft_action_values(rewards, inverse_temperatures)
        else:
            scaled = self.optimal_action_values(rewards) * inverse_temperatures[:, None, None]
            scaled = np.where(self.available, scaled, -np.inf)
        size = np.abs(np.where(np.isfinite(scaled), scaled, 0.0)).max(axis=(1, 2))
        with np.errstate(invalid="ignore", divide="ignore"):
            log_policy = scaled - special.logsumexp(scaled, axis=2, keepdims=True)
            blind = np.log(self.available / np.maximum(self.available.sum(axis=1, keepdims=True), 1))
            share = lapses[:, None, None]
            mixed = np.logaddexp(np.log1p(-share) + log_policy, np.log(share) + blind)
        mixed = np.where(share > 0, mixed, log_policy)
        largest = self.discount if discounts is None else discounts
        return np.where(self.available, mixed, 0.0), 16 * EPSILON * size / (1 - largest)


@dataclass(frozen=True)
class Model:
    """Reward prior × choice rule × sharing, as numbers and distributions."""

    reward: Distribution  # of one coordinate: Gamma(concentration, 1) stands for Dirichlet, Beta, Normal
    on: str
    features: np.ndarray | None  # [S, K] or [S, A, K]
    foresees_errors: bool  # SoftOptimal, not Softmax
    inverse_temperature: Any  # a number or a Distribution
    lapse: Any
    sharing: str
    discount: Any = None  # a Distribution, or None: the world's
    depth: int | None = None  # how many steps ahead tasks look; None: for ever
    smooth: Any = None  # of `oracle_smooth`: what rewards of states are, instead of `reward`

    @property
    def is_dirichlet(self) -> bool:
        return self.reward.kind == "Gamma"

    @property
    def words(self) -> tuple[str, ...]:
        """What the parameters of the reward's distribution are called."""
        return ("concentration", "rate") if self.is_dirichlet else PARAMETERS[self.reward.kind]


@dataclass
class Draws:
    """n draws of everything unknown. M tasks (one if pooled), G populations, K coordinates of a reward."""

    rewards: np.ndarray  # [n, M, S, A]: on pairs, 0 where there is none
    coordinates: np.ndarray  # [n, M, K]: weights, or rewards of states or available pairs
    inverse_temperatures: np.ndarray  # [n, M]
    lapses: np.ndarray  # [n, M]
    hyperparameters: dict[str, np.ndarray] = field(default_factory=dict)  # [n, G, K] or [n, G]
    discounts: np.ndarray | None = None  # [n, M]; None: the world's

    def __len__(self) -> int:
        return len(self.rewards)


@dataclass(frozen=True)
class Variable:
    """Draws of one block of unknowns with the parameters of its conditional prior, broadcast against it."""

    name: str
    kind: str
    values: np.ndarray
    first: np.ndarray
    second: np.ndarray


def rewards_of_pairs(world: World, model: Model, coordinates: np.ndarray) -> np.ndarray:
    """Coordinates [..., K] as rewards [..., S, A]; a reward of a state is had whatever is done there."""
    states, actions = world.available.shape
    if model.features is not None:
        table = coordinates @ model.features.reshape(-1, model.features.shape[-1]).T
    else:
        cells, owner = owners(world, model)
        table = np.zeros((*coordinates.shape[:-1], states * (1 if model.on == "state" else actions)))
        table[..., cells] = coordinates[..., owner]
    if model.on == "state":
        return np.repeat(table[..., None], actions, axis=-1)
    return np.where(world.available, table.reshape(*table.shape[:-1], states, actions), 0.0)


def num_coordinates(world: World, model: Model) -> int:
    if model.features is not None:
        return model.features.shape[-1]
    return int(owners(world, model)[1].max()) + 1


def owners(world: World, model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Cells that have a reward, states or available pairs, and which coordinate is each one's: one for each name."""
    states, actions = world.available.shape
    cells = np.arange(states) if model.on == "state" else np.flatnonzero(world.available)
    names = range(states) if world.names is None else world.names
    numbers: dict[Any, int] = {}
    owner = []
    for cell in cells.tolist():
        key = names[cell] if model.on == "state" else (names[cell // actions], cell % actions)
        owner.append(numbers.setdefault(key, len(numbers)))
    return cells, np.array(owner)


def first_cells(world: World, model: Model) -> np.ndarray:
    """The first cell of each coordinate that is a reward."""
    cells, owner = owners(world, model)
    return cells[np.unique(owner, return_index=True)[1]]


def draw(kind: str, first: np.ndarray, second: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    if kind == "Gamma":
        return rng.gamma(first, 1 / second)
    if kind == "Beta":
        return rng.beta(first, second)
    if kind == "HalfNormal":
        return np.abs(first * rng.standard_normal(np.shape(first)))
    normal = first + second * rng.standard_normal(np.broadcast_shapes(np.shape(first), np.shape(second)))
    return np.exp(normal) if kind == "LogNormal" else normal


def prior_draws(world: World, model: Model, num_tasks: int, size: int, rng: np.random.Generator) -> Draws:
    """Forward simulation of the prior."""
    tasks = 1 if model.sharing == "Pooled" else num_tasks
    groups = num_tasks if model.sharing == "Separate" else 1
    count = num_coordinates(world, model)
    hyperparameters: dict[str, np.ndarray] = {}

    def of_tasks(distribution: Any, name: str, words: tuple[str, ...], behind: tuple[int, ...]) -> np.ndarray:
        if not isinstance(distribution, Distribution):
            return np.full((size, tasks, *behind), float(distribution))
        given = []
        for word, parameter in zip(words, distribution.parameters):
            if isinstance(parameter, Distribution):
                numbers = [np.full((size, groups, *behind), float(value)) for value in parameter.parameters]
                found = draw(parameter.kind, numbers[0], numbers[-1], rng)
                hyperparameters[f"{name}_{word}"] = found
            else:
                found = np.asarray(parameter, dtype=float)
            given.append(np.broadcast_to(found, (size, tasks, *behind)))
        return draw(distribution.kind, given[0], given[-1], rng)

    if model.smooth is None:
        coordinates = of_tasks(model.reward, "reward", model.words, (count,))
    else:
        coordinates = model.smooth.draw(size, tasks, groups, hyperparameters, rng)
    if model.is_dirichlet:
        coordinates = np.maximum(coordinates, np.finfo(float).tiny)
        coordinates = coordinates / coordinates.sum(axis=-1, keepdims=True)
    rule = [
        of_tasks(value, name, PARAMETERS[value.kind] if isinstance(value, Distribution) else (), ())
        for name, value in (("inverse_temperature", model.inverse_temperature), ("lapse", model.lapse))
    ]
    discounts = None
    if model.discount is not None:
        discounts = of_tasks(model.discount, "discount", PARAMETERS[model.discount.kind], ())
    return Draws(rewards_of_pairs(world, model, coordinates), coordinates, rule[0], rule[1], hyperparameters, discounts)


def log_likelihoods(
    world: World, model: Model, draws: Draws, counts: np.ndarray, owner: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of episodes with counts [E, S, A], each of the task owner[e]: [n, E], and what rounding may change in each."""
    size, tasks = draws.inverse_temperatures.shape
    log_policy, error = world.log_policies(
        draws.rewards.reshape(size * tasks, *draws.rewards.shape[2:]),
        draws.inverse_temperatures.ravel(),
        draws.lapses.ravel(),
        model.foresees_errors,
        None if draws.discounts is None else draws.discounts.ravel(),
        model.depth,
    )
    owner = np.zeros_like(owner) if tasks == 1 else owner
    log_policy = log_policy.reshape(size, tasks, *counts.shape[1:])[:, owner]
    log_policy = np.where(counts > 0, log_policy, 0.0)  # what was not chosen does not count, however unlikely
    found = np.einsum("nesa,esa->ne", log_policy, counts)
    return found, error.reshape(size, tasks)[:, owner] * counts.sum(axis=(1, 2))


def variables(model: Model, draws: Draws) -> list[Variable]:
    """Everything unknown, each with its conditional prior given its parents in the same draw."""
    found: list[Variable] = []

    def add(name: str, distribution: Any, words: tuple[str, ...], values: np.ndarray) -> None:
        if not isinstance(distribution, Distribution):
            return
        given = []
        for word, parameter in zip(words, distribution.parameters):
            if isinstance(parameter, Distribution):
                hyper = draws.hyperparameters[f"{name}_{word}"]
                numbers = [np.broadcast_to(float(value), hyper.shape) for value in parameter.parameters]
                found.append(Variable(f"{name}_{word}", parameter.kind, hyper, numbers[0], numbers[-1]))
            else:
                hyper = np.asarray(parameter, dtype=float)
            given.append(np.broadcast_to(hyper, values.shape))
        found.append(Variable(name, distribution.kind, values, given[0], given[-1]))

    if model.smooth is None:
        add("reward", model.reward, model.words, draws.coordinates)
    else:
        found += model.smooth.variables(draws)
    for name, value, drawn in (
        ("inverse_temperature", model.inverse_temperature, draws.inverse_temperatures),
        ("lapse", model.lapse, draws.lapses),
    ):
        add(name, value, PARAMETERS[value.kind] if isinstance(value, Distribution) else (), drawn)
    if draws.discounts is not None:
        add("discount", model.discount, PARAMETERS[model.discount.kind], draws.discounts)
    return found


def log_prior(model: Model, draws: Draws) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log p [n] of unconstrained coordinates, what rounding of stored draws may change in it, and Σ α [n, M].

    Dirichlet rewards are x / Σ x with x_k ~ Gamma(α_k, 1). The total s = Σ x is not stored: what depends on it,
    A log s − s with A = Σ α for each task, is left out, and A is returned.
    """
    total, error = np.zeros(len(draws)), np.zeros(len(draws))
    concentrations = np.zeros((len(draws), 0))
    if model.smooth is not None:  # its temperature and lapse are known
        return (*model.smooth.log_prior(draws), concentrations)
    for variable in variables(model, draws):
        if variable.name == "reward" and model.is_dirichlet:
            alpha, share = variable.first, variable.values
            with np.errstate(divide="ignore"):
                density = alpha * np.log(share) - special.gammaln(alpha)
            doubt = np.where(share > 0, EPSILON * alpha, np.inf)
            concentrations = alpha.sum(axis=-1)
        else:
            density, doubt = log_density(variable)
        total += density.reshape(len(draws), -1).sum(axis=1)
        error += doubt.reshape(len(draws), -1).sum(axis=1)
    return total, error, concentrations


def log_density(variable: Variable) -> tuple[np.ndarray, np.ndarray]:
    """Of the unconstrained coordinate, and what the rounding of a stored number may change in it."""
    x, first, second = variable.values, variable.first, variable.second
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_x = np.log(x) if variable.kind != "Normal" else x
        if variable.kind == "Gamma":
            density = stats.gamma.logpdf(x, first, scale=1 / second) + log_x
            return density, np.where(x > SMALLEST, EPSILON * (first + second * x), np.inf)
        if variable.kind == "Beta":
            density = stats.beta.logpdf(x, first, second) + log_x + np.log1p(-x)
            return density, np.where((x > 0) & (x < 1), EPSILON * (first + second / (1 - x)), np.inf)
        if variable.kind == "HalfNormal":
            return stats.halfnorm.logpdf(x, scale=first) + log_x, EPSILON * (1 + (x / first) ** 2)
        z = (log_x - first) / second
        doubt = EPSILON * np.maximum(np.abs(log_x), np.abs(first)) / second  # in z
        return stats.norm.logpdf(log_x, first, second), doubt * (np.abs(z) + doubt)


def log_tail_probabilities(model: Model, variable: Variable) -> np.ndarray:
    """log of the prior probability, given its parents, of a value as extreme as this or more, to either side.

    Under the prior these are uniform, whatever the parents are.
    """
    kind, x, first, second = variable.kind, variable.values, variable.first, variable.second
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if variable.name == "reward" and model.is_dirichlet:  # a share's marginal
            kind, second = "Beta", first.sum(axis=-1, keepdims=True) - first
            if variable.values.shape[-1] == 1:
                return np.zeros(x.shape)
        if kind in ("Gamma", "Beta"):  # small shapes reach below what a float can hold: no further than it can
            x = np.maximum(x, np.finfo(float).tiny)
        if kind == "HalfNormal":
            z = x / first
            lower, upper = np.log(special.erf(z / np.sqrt(2))), np.log(2) + special.log_ndtr(-z)
            lower = np.where(z < 1e-8, 0.5 * np.log(2 / np.pi) + np.log(z), lower)
        elif kind == "Gamma":
            z = second * x
            lower, upper = np.log(special.gammainc(first, z)), np.log(special.gammaincc(first, z))
            lower = np.where(np.isfinite(lower), lower, first * np.log(z) - special.gammaln(first + 1))
            upper = np.where(np.isfinite(upper), upper, (first - 1) * np.log(z) - z - special.gammaln(first))
        elif kind == "Beta":
            rest = np.maximum(1 - x, EPSILON / 2)
            lower, upper = np.log(special.betainc(first, second, x)), np.log(special.betainc(second, first, rest))
            edge = special.betaln(first, second)
            lower = np.where(np.isfinite(lower), lower, first * np.log(x) - np.log(first) - edge)
            upper = np.where(np.isfinite(upper), upper, second * np.log(rest) - np.log(second) - edge)
        else:
            value = np.log(x) if kind == "LogNormal" else x
            rounding = 2 * EPSILON * np.maximum(np.abs(value), np.abs(first))
            z = np.maximum(np.abs(value - first) - rounding, 0.0) / second
            lower = upper = special.log_ndtr(-z)
        return np.minimum(np.log(2) + np.minimum(lower, upper), 0.0)
