"""A seed and a number in; a model, a world and choices out, at random: everything the documentation allows, in small.

2 to 6 states and 1 to 6 tasks; every reward prior × choice rule × prior on the inverse temperature × lapse × sharing,
with hyperparameters known or not. Number k of a seed is the same whatever else is drawn.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from oracle_smooth import Smooth
from zoo_checks import Data
from zoo_oracle import Distribution, Draws, Model, World, num_coordinates, prior_draws, rewards_of_pairs

FIRST_DISCOUNT = 120  # from this number on, a quarter of models infer it; those before stay as they were
FIRST_DEPTH = 240  # from this number on, a quarter of models, others than those, look some steps ahead
SPREADS = (0.0, 0.0, 0.0, 0.01, 0.1, 1.0)  # between tasks; subjects who are alike are the ordinary case
TEMPERATURES = (0.5, 1.0, 3.0, 8.0)  # inverse ones
CHOICES = (1, 2, 5, 20, 60, 60, 150, 400)  # of a task


@dataclass(frozen=True)
class Specimen:
    """A model, a world, and choices."""

    seed: int
    index: int
    model: Model
    world: World
    episodes: list[tuple[int, list[int], list[int]]]  # task, states, actions (one fewer where the last is not known)
    num_tasks: int
    spread: float

    @property
    def data(self) -> Data:
        counts = np.zeros((len(self.episodes), *self.world.available.shape))
        for number, (_, states, actions) in enumerate(self.episodes):
            np.add.at(counts[number], (states[: len(actions)], actions), 1)
        return Data(counts, np.array([task for task, _, _ in self.episodes]), self.num_tasks)

    def __str__(self) -> str:
        model, data = self.model, self.data
        reward = {"Gamma": "Dirichlet", "Beta": "Beta", "Normal": "Gaussian"}[model.reward.kind]
        parameters = ", ".join(
            f"{w}={p!r}" for w, p in zip(model.words[: 1 if model.is_dirichlet else 2], model.reward.parameters)
        )
        if model.smooth is not None:
            reward, parameters = "Smooth", str(model.smooth)
        features = "" if model.features is None else f", {model.features.shape[-1]} features"
        rule = "SoftOptimal" if model.foresees_errors else "Softmax"
        states, actions = self.world.available.shape
        ends = f", {self.world.is_terminal.sum()} terminal" if self.world.is_terminal.any() else ""
        ahead = "" if model.depth is None else f", {model.depth} steps ahead"
        return (
            f"{reward}({parameters}{features}) on {model.on}, {rule}(c={model.inverse_temperature!r}, "
            f"lapse={model.lapse!r}), {model.sharing}; {states} states{ends}, {actions} actions, γ = "
            f"{model.discount or self.world.discount}{ahead}; {self.num_tasks} tasks, {int(data.counts.sum())} "
            f"choices, spread {self.spread}"
        )


def specimen(seed: int, index: int, gaussian: bool = False, several: bool = False, smooth: bool = False) -> Specimen:
    """Number `index` of the zoo with this seed, or of its Gaussian rewards at a known temperature.

    `several`: in two environments that have names of states in common. `smooth`: rewards are smooth over a graph, the
    temperature is known.
    """
    rng = np.random.default_rng([seed, index, 3] if smooth else [seed, index])
    world = _world_of_parts(rng) if smooth else _two_worlds(rng) if several else _world(rng)
    model = _smooth_model(rng, world) if smooth else _model(rng, world, gaussian)
    gaussian = gaussian or smooth
    if index >= FIRST_DISCOUNT and index % 4 == 0 and not gaussian:
        model = replace(model, discount=_discount(np.random.default_rng([seed, index, 1])))
    if index >= FIRST_DEPTH and index % 4 == 1 and not gaussian:
        of_depth = np.random.default_rng([seed, index, 2])
        discount = _discount(of_depth) if of_depth.random() < 0.4 else None
        model = replace(model, depth=int(of_depth.integers(1, 6)), discount=discount)
    num_tasks = int(rng.integers(1, 6 if smooth else 7))
    spread = float(rng.choice(SPREADS))
    truth = _truth(rng, world, model, num_tasks, spread)
    log_policy, _ = world.log_policies(
        truth.rewards[0],
        truth.inverse_temperatures[0],
        truth.lapses[0],
        model.foresees_errors,
        None if truth.discounts is None else truth.discounts[0],
        model.depth,
    )
    episodes: list[tuple[int, list[int], list[int]]] = []
    may_idle = num_tasks > 1 and model.sharing != "Separate"  # where nothing could be said of a task without choices
    idle = int(rng.integers(num_tasks)) if may_idle and rng.random() < (0.3 if smooth else 0.1) else -1
    for task in range(num_tasks):
        choices = 0 if task == idle else int(rng.choice(CHOICES))
        episodes += [(task, *steps) for steps in _episodes(rng, world, np.exp(log_policy[task]), choices)]
    return Specimen(seed, index, model, world, episodes, num_tasks, spread)


# ---- worlds --------------------------------------------------------------------------------------------------


def _world(rng: np.random.Generator) -> World:
    states, actions = int(rng.integers(2, 7)), int(rng.integers(2, 4))
    kind = rng.choice(["dense", "nearly deterministic", "chain", "grid"])
    if kind == "dense":
        transitions = rng.dirichlet(np.ones(states), size=(states, actions))
    elif kind == "nearly deterministic":
        transitions = np.eye(states)[rng.integers(states, size=(states, actions))] + 0.01
        transitions /= transitions.sum(axis=2, keepdims=True)
    elif kind == "chain":  # one on, or back to the first; slips do the other
        on, back = np.eye(states)[np.minimum(np.arange(states) + 1, states - 1)], np.eye(states)[np.zeros(states, int)]
        slip = float(rng.choice([0.0, 0.2]))
        transitions = np.stack([(1 - slip) * back + slip * on, (1 - slip) * on + slip * back], axis=1)
    else:  # left, right, up, down in two columns; slips stay
        rows = max(1, states // 2)
        states = 2 * rows
        row, column = np.divmod(np.arange(states), 2)
        to = [row * 2, row * 2 + 1, np.maximum(row - 1, 0) * 2 + column, np.minimum(row + 1, rows - 1) * 2 + column]
        slip = float(rng.choice([0.0, 0.1]))
        transitions = np.stack([(1 - slip) * np.eye(states)[place] + slip * np.eye(states) for place in to], axis=1)
    available = np.ones(transitions.shape[:2], bool)
    if rng.random() < 0.2:  # an action that does not exist somewhere
        available[rng.integers(states), rng.integers(available.shape[1])] = False
    if states > 2 and rng.random() < 0.25:
        available[states - 1] = False  # the last state is terminal
    return World(transitions, float(rng.choice([0.5, 0.8, 0.9, 0.95])), available)


def _two_worlds(rng: np.random.Generator) -> World:
    """Two small worlds beside each other: some names of states, and some actions, are in both."""
    small = []
    while len(small) < 2:
        world = _world(rng)
        if len(world.available) <= 4 and not world.is_terminal.all():
            small.append(world)
    sizes, actions = [len(each.available) for each in small], max(each.available.shape[1] for each in small)
    transitions, available = np.zeros((sum(sizes), actions, sum(sizes))), np.zeros((sum(sizes), actions), bool)
    for each, begin in zip(small, (0, sizes[0])):
        here = slice(begin, begin + len(each.available))
        transitions[here, : each.available.shape[1], here] = each.transitions
        available[here, : each.available.shape[1]] = each.available
    shared = int(rng.integers(1, min(sizes) + 1))
    second = [*rng.choice(sizes[0], shared, replace=False), *range(sizes[0], sizes[0] + sizes[1] - shared)]
    names = (*range(sizes[0]), *(int(name) for name in rng.permutation(second)))
    return World(transitions, small[0].discount, available, names, sizes[0])


def _world_of_parts(rng: np.random.Generator) -> World:
    """3 to 7 states: one of the worlds above, or few ways from state to state; parts without a link, lonely states."""
    while True:
        kind = rng.choice(["few ways", "any", "two parts", "a lonely state"], p=[0.3, 0.4, 0.15, 0.15])
        parts = [_few_ways(rng) if kind == "few ways" else _world(rng)]
        if kind == "two parts":
            parts.append(_world(rng))
        elif kind == "a lonely state":  # nobody comes there or gets away; it may be terminal
            parts.append(World(np.ones((1, 1, 1)), 0.5, np.array([[rng.random() < 0.7]])))
        sizes, actions = [len(each.available) for each in parts], max(each.available.shape[1] for each in parts)
        transitions, available = np.zeros((sum(sizes), actions, sum(sizes))), np.zeros((sum(sizes), actions), bool)
        for each, begin in zip(parts, np.cumsum([0, *sizes])):
            here = slice(begin, begin + len(each.available))
            transitions[here, : each.available.shape[1], here] = each.transitions
            available[here, : each.available.shape[1]] = each.available
        world = World(transitions, parts[0].discount, available)
        if 3 <= sum(sizes) <= 7 and not world.is_terminal.all() and _neighbours(world).any():
            return world


def _few_ways(rng: np.random.Generator) -> World:
    """Every action leads to one or two states; to some states none may, and none away from some."""
    states, actions = int(rng.integers(3, 8)), int(rng.integers(2, 4))
    where = rng.integers(states, size=(states, actions, 2))
    slip = float(rng.choice([0.0, 0.3]))
    transitions = (1 - slip) * np.eye(states)[where[..., 0]] + slip * np.eye(states)[where[..., 1]]
    available = rng.random((states, actions)) < 0.85
    available[:, 0] |= rng.random(states) < 0.9
    return World(transitions, float(rng.choice([0.5, 0.8, 0.9, 0.95])), available)


def _neighbours(world: World) -> np.ndarray:
    """[S, S] 1 between different states where some action leads from one to the other."""
    leads = (world.transitions * world.available[:, :, None]).sum(axis=1) > 0
    found = (leads | leads.T).astype(float)
    np.fill_diagonal(found, 0.0)
    return found


# ---- models --------------------------------------------------------------------------------------------------


def _model(rng: np.random.Generator, world: World, gaussian: bool) -> Model:
    on = "state" if rng.random() < 0.7 else "state_action"
    kind = rng.choice(["Gaussian", "features"] if gaussian else ["Dirichlet", "Beta", "Gaussian", "features"])
    features = None
    if kind == "features":
        shape = world.available.shape[: 1 if on == "state" else 2]
        features = rng.normal(size=(*shape, int(rng.integers(1, 4))))
    count = len(set(world.names or range(len(world.available)))) if features is None else features.shape[-1]
    size = count if on == "state" or features is not None else None
    if kind == "Dirichlet":
        reward = Distribution("Gamma", (_positive(rng, 1.0, size), 1.0))
    elif kind == "Beta":
        reward = Distribution("Beta", (_positive(rng, 1.5, size), _positive(rng, 1.5, size)))
    else:
        reward = Distribution("Normal", (_real(rng, size), _positive(rng, 1.0, size)))
    return Model(
        reward=reward,
        on=on,
        features=features,
        foresees_errors=bool(rng.random() < 0.5),
        inverse_temperature=float(rng.choice(TEMPERATURES)) if gaussian else _inverse_temperature(rng),
        lapse=float(rng.choice([0.0, 0.0, 0.1])) if gaussian else _lapse(rng),
        sharing=str(rng.choice(["Hierarchical", "Hierarchical", "Pooled", "Separate"])),
    )


def _smooth_model(rng: np.random.Generator, world: World) -> Model:
    states, weights = len(world.available), _neighbours(world)
    is_given = bool(rng.random() < 0.3)
    if is_given:  # any weights; some links may be missing, some states linked to themselves, which does not count
        weights = rng.gamma(1.0, float(rng.choice([0.1, 1.0])), size=(states, states)) * (rng.random((states, 1)) < 0.7)
        weights = np.where(rng.random((states, states)) < 0.6, weights, 0.0)
        weights[0, 1] += 0.5
        weights = weights + weights.T
    sharing = str(rng.choice(["Hierarchical", "Hierarchical", "Pooled", "Separate"]))
    smooth = Smooth(
        scale=_positive(rng, 1.0),
        range=_positive(rng, float(rng.choice([1.0, 4.0]))),
        mean=None if rng.random() < 0.6 else 0,
        is_hierarchical=sharing == "Hierarchical",
        basis=int(rng.integers(1, states)) if rng.random() < 0.3 else None,
        weights=weights,
        is_given=is_given,
        is_sparse=bool(rng.random() < 0.5),
    )
    return Model(
        reward=Distribution("Normal", (0.0, 1.0)),  # of no consequence
        on="state",
        features=None,
        foresees_errors=bool(rng.random() < 0.5),
        inverse_temperature=float(rng.choice(TEMPERATURES)),
        lapse=float(rng.choice([0.0, 0.0, 0.1])),
        sharing=sharing,
        smooth=smooth,
    )


def _positive(rng: np.random.Generator, about: float, size: int | None = None) -> Any:
    """A number, `size` of them, or a prior, with a median not far from `about`."""
    kind = rng.choice(["number", "Gamma", "HalfNormal", "LogNormal"], p=[0.25, 0.35, 0.25, 0.15])
    if kind == "number":
        several = about * rng.choice([0.3, 1.0, 3.0], size=size or 1)
        return several if size and rng.random() < 0.3 else float(several[0])
    if kind == "Gamma":
        shape = float(rng.choice([1.0, 2.0, 4.0]))
        return Distribution("Gamma", (shape, shape / about))
    if kind == "HalfNormal":
        return Distribution("HalfNormal", (float(about * rng.choice([0.5, 1.0, 2.0])),))
    return Distribution("LogNormal", (float(np.log(about)), float(rng.choice([0.5, 1.0]))))


def _real(rng: np.random.Generator, size: int | None) -> Any:
    kind = rng.choice(["number", "Normal", "Gamma"], p=[0.3, 0.63, 0.07])
    if kind == "number":
        several = rng.choice([0.0, 1.0, -1.0], size=size or 1)
        return several if size and rng.random() < 0.3 else float(several[0])
    if kind == "Gamma":
        return Distribution("Gamma", (2.0, 2.0))
    return Distribution("Normal", (float(rng.choice([0.0, 0.5])), float(rng.choice([0.5, 1.0, 2.0]))))


def _inverse_temperature(rng: np.random.Generator) -> Any:
    kind = rng.choice(["number", "Gamma", "LogNormal", "HalfNormal"], p=[0.3, 0.3, 0.3, 0.1])
    if kind == "number":
        return float(rng.choice(TEMPERATURES))
    hyper = rng.random(2) < 0.5
    if kind == "Gamma":
        shape = Distribution("Gamma", (2.0, 0.5)) if hyper[0] else float(rng.choice([1.0, 4.0]))
        rate = Distribution("Gamma", (4.0, 4.0)) if hyper[1] else float(rng.choice([0.3, 1.0]))
        return Distribution("Gamma", (shape, rate))
    if kind == "LogNormal":
        mean = Distribution("Normal", (0.0, 1.0)) if hyper[0] else float(rng.choice([0.0, 1.0]))
        return Distribution("LogNormal", (mean, _positive(rng, 0.7) if hyper[1] else float(rng.choice([0.3, 1.0]))))
    return Distribution("HalfNormal", (_positive(rng, 3.0),))


def _lapse(rng: np.random.Generator) -> Any:
    kind = rng.choice(["none", "number", "Beta", "nested"], p=[0.5, 0.2, 0.2, 0.1])
    if kind == "none":
        return 0.0
    if kind == "number":
        return float(rng.choice([0.02, 0.2]))
    if kind == "Beta":
        return Distribution("Beta", (1.0, float(rng.choice([1.0, 20.0]))))
    return Distribution("Beta", (Distribution("Gamma", (4.0, 4.0)), Distribution("Gamma", (4.0, 0.4))))


def _discount(rng: np.random.Generator) -> Distribution:
    """Of those who look some steps ahead; hardly ever so near 0 or 1 that the library's limits, at 1e-6, are met.

    What is stored is then the limit, and its prior density not that of the coordinate, which lies beyond.
    """
    alpha = Distribution("Gamma", (16.0, 4.0)) if rng.random() < 0.3 else float(rng.choice([1.0, 3.0, 9.0]))
    return Distribution("Beta", (alpha, float(rng.choice([1.0, 2.0]))))


# ---- data ----------------------------------------------------------------------------------------------------


def _truth(rng: np.random.Generator, world: World, model: Model, num_tasks: int, spread: float) -> Draws:
    """One draw from the prior, from which each task differs by `spread`, in unconstrained coordinates."""
    base = prior_draws(world, model, 1, 1, rng)
    shape = (1, num_tasks, num_coordinates(world, model))
    noise = spread * rng.standard_normal(shape) * (0.0 if model.sharing == "Pooled" else 1.0)
    coordinates = np.broadcast_to(base.coordinates, shape)
    if model.is_dirichlet:
        coordinates = special.softmax(np.log(coordinates) + noise, axis=-1)
    elif model.reward.kind == "Beta":
        coordinates = special.expit(special.logit(np.clip(coordinates, 1e-9, 1 - 1e-9)) + noise)
    else:
        coordinates = coordinates + noise
    drawn = isinstance(model.inverse_temperature, Distribution)
    temperature = 10 ** rng.uniform(-0.5, 1.3) if drawn else model.inverse_temperature
    lapse = rng.uniform(0.0, 0.2) if isinstance(model.lapse, Distribution) else model.lapse
    each = np.ones((1, num_tasks))
    rule = temperature * each, lapse * each
    discounts = None if model.discount is None else rng.uniform(0.3, 0.95) * each
    return Draws(rewards_of_pairs(world, model, coordinates), coordinates, *rule, discounts=discounts)


def _episodes(
    rng: np.random.Generator, world: World, policy: np.ndarray, choices: int
) -> list[tuple[list[int], list[int]]]:
    """So many choices, in episodes that end in terminal states or after thirty choices at the latest."""
    begin = np.flatnonzero(~world.is_terminal)
    if choices == 0:
        return [([int(rng.choice(begin))], [])]
    found = []
    while choices > 0:
        state, states, actions = int(rng.choice(begin)), [], []
        while choices > 0 and len(actions) < 30 and not world.is_terminal[state]:
            probability = np.where(world.available[state], policy[state], 0.0)
            action = int(rng.choice(len(probability), p=probability / probability.sum()))
            states.append(state)
            actions.append(action)
            choices -= 1
            state = int(rng.choice(len(world.available), p=world.transitions[state, action]))
        found.append(([*states, state], actions))
    return found
