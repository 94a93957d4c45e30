"""Bayesian IRL by PolicyWalk (Ramachandran & Amir 2007): the posterior of a reward, walked over a grid.

    p(ρ | choices) ∝ p(ρ) Π_{s,a} [exp(c Q*(s, a; ρ)) / Σ_b exp(c Q*(s, b; ρ))]^{n(s,a)}
    a step moves one entry of ρ by ± spacing, plans again from the policy it had, and is taken with min(1, p'/p)
    the mean of the draws is the reward; the policy optimal for it minimises the expected loss (their theorem 3)

It assumes one task at a time, a softmax of optimal values with known inverse temperature, and rewards independent
beforehand: uniform, Gaussian or Laplacian. The paper leaves the likelihood's normaliser open; here choices are
normalised in each state. With `normalised=False` it is literally exp(c Σ Q*), which asks for large values everywhere,
not for better ones.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import xarray as xr

from manymotives.baselines.common import Problem, Result, checked_count, checked_number, checked_problem
from manymotives.baselines.walks import GAUSSIAN, LAPLACIAN, UNIFORM, grid_walk, new_walkers
from manymotives.choice import Softmax
from manymotives.diagnostics import mixing_warnings
from manymotives.errors import InputError
from manymotives.planning import in_parallel, reliable_plan
from manymotives.planning.lanes import WIDTH
from manymotives.planning.warm import world_of

AT_A_TIME = 3_000_000  # random numbers of a block of walkers


@dataclass(frozen=True)
class UniformPrior:
    """Every reward between −limit and limit is equally likely."""

    limit: float = 1.0

    kind: ClassVar[int] = UNIFORM

    def __post_init__(self) -> None:
        checked_number(self.limit, "UniformPrior: limit", above=True)

    def draw(self, rng: np.random.Generator, size: Any) -> np.ndarray:
        return rng.uniform(-self.limit, self.limit, size)


@dataclass(frozen=True)
class GaussianPrior:
    """Rewards are normal with mean 0 and this standard deviation."""

    scale: float = 1.0

    kind: ClassVar[int] = GAUSSIAN

    def __post_init__(self) -> None:
        checked_number(self.scale, "GaussianPrior: scale", above=True)

    def draw(self, rng: np.random.Generator, size: Any) -> np.ndarray:
        return rng.normal(0.0, self.scale, size)


@dataclass(frozen=True)
class LaplacianPrior:
    """p(ρ) ∝ exp(−|ρ| / scale): most rewards are near 0."""

    scale: float = 1.0

    kind: ClassVar[int] = LAPLACIAN

    def __post_init__(self) -> None:
        checked_number(self.scale, "LaplacianPrior: scale", above=True)

    def draw(self, rng: np.random.Generator, size: Any) -> np.ndarray:
        return rng.laplace(0.0, self.scale, size)


def policy_walk(
    environment: Any,
    demonstrations: Any,
    *,
    prior: Any = UniformPrior(),
    choice: Any = Softmax(inverse_temperature=5.0),
    spacing: float = 0.1,
    chains: int = 4,
    draws: int = 1000,
    warmup: int = 500,
    thin: int = 10,
    normalised: bool = True,
    on: str = "state",
    pooled: bool = False,
    seed: Any = 0,
) -> Result:
    """The posterior mean reward of each task, and the policy that is optimal for it.

    Parameters
    ----------
    prior
        `UniformPrior(limit)`, `GaussianPrior(scale)` or `LaplacianPrior(scale)`.
    choice
        `Softmax(c)` with a number c: how far the demonstrator is to be trusted. Only c times the rewards matters.
    spacing
        Of the grid, through 0.
    chains, draws, warmup, thin
        Walkers a task; draws kept of each, after so many left out; between two of them, each reward is tried `thin`
        times on average.
    normalised
        Whether the probabilities of the actions in a state sum to one (see the top of the file).
    on
        "state" or "state_action": what the rewards lie on.
    pooled
        One reward for all tasks, from all choices.
    seed
        Task k walks with stream k of this seed.

    `details["reward_draws"]` has the draws (chain, draw, task, state).
    """
    problem = checked_problem(environment, demonstrations, seed=seed, pooled=pooled)
    if not isinstance(prior, UniformPrior | GaussianPrior | LaplacianPrior):
        raise InputError(f"prior must be UniformPrior(), GaussianPrior() or LaplacianPrior(); found {prior!r}.")
    if isinstance(prior, LaplacianPrior) and not normalised:
        raise InputError(
            "with normalised=False the likelihood may grow faster than a LaplacianPrior() falls, and there is no "
            "posterior. Use UniformPrior() or GaussianPrior()."
        )
    temperature = _temperature(choice)
    spacing = checked_number(spacing, "spacing", above=True)
    if isinstance(prior, UniformPrior) and spacing > prior.limit:
        raise InputError(f"the grid has one point: its spacing, {spacing:g}, is above the limit, {prior.limit:g}.")
    numbers = [checked_count(value, word) for value, word in ((chains, "chains"), (draws, "draws"), (thin, "thin"))]
    skipped = checked_count(warmup, "warmup", least=0)
    if on not in ("state", "state_action"):
        raise InputError(f'on must be "state" or "state_action"; found {on!r}.')
    pairs = problem.environment.available
    places = np.flatnonzero(pairs) if on == "state_action" else np.arange(problem.environment.num_states)
    drawn, accepted = _walked(problem, prior, temperature, spacing, places, (*numbers, skipped), bool(normalised), on)
    shape = pairs.shape if on == "state_action" else pairs.shape[:1]
    table = np.full((*drawn.shape[:-1], int(np.prod(shape))), np.nan)
    table[..., places] = drawn
    table = table.reshape(*drawn.shape[:-1], *shape)  # [M, chains, draws, S or S, A]
    mean = np.nan_to_num(drawn.mean(axis=(1, 2)))
    flat = np.zeros((problem.num_tasks, int(np.prod(shape))))
    flat[:, places] = mean
    rewards = flat.reshape(problem.num_tasks, *shape)
    axes = ("chain", "draw", "task", "state", "action")[: table.ndim]
    reward_draws = problem.labelled(np.moveaxis(table, 0, 2), *axes)
    watched = xr.Dataset({"reward": reward_draws.isel(task=[0]) if pooled else reward_draws})
    details = {"reward_draws": reward_draws, "acceptance": problem.labelled(accepted, "task", "chain")}
    policies = reliable_plan(problem.environment, rewards, on=on).policy
    return problem.result("policy_walk", policies, rewards, details, mixing_warnings(watched))


def _temperature(choice: Any) -> float:
    number = getattr(choice, "inverse_temperature", None)
    if not isinstance(choice, Softmax) or not isinstance(number, int | float) or choice.lapse != 0.0:
        raise InputError(f"choice must be Softmax(c) with one number c and without lapses; found {choice!r}.")
    return float(number)


def _walked(
    problem: Problem,
    prior: Any,
    temperature: float,
    spacing: float,
    places: np.ndarray,
    sizes: tuple[int, ...],
    normalised: bool,
    on: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Draws [M, chains, draws, C], and the share of steps taken [M, chains]."""
    chains, length, thin, skipped = sizes
    environment, size = problem.environment, len(places)
    stride = thin * size
    limit = int(np.floor(prior.limit / spacing + 1e-9)) if prior.kind == UNIFORM else np.iinfo(np.int64).max // 2
    streams = [rng.spawn(chains) for rng in problem.streams()]
    walkers = [(task, chain) for task in range(problem.num_tasks) for chain in range(chains)]
    drawn = np.empty((problem.num_tasks, chains, length, size))
    accepted = np.zeros((problem.num_tasks, chains))
    world = world_of(environment)
    per_state = environment.num_actions if on == "state_action" else 1
    edge = getattr(prior, "limit", np.inf)

    def walk_together(begin: int, end: int) -> None:
        for first in range(begin, end, WIDTH):
            group = walkers[first : first + WIDTH]
            group = group + [group[-1]] * (WIDTH - len(group))  # the kernels plan for WIDTH rewards at a time
            rngs = [streams[task][chain] for task, chain in dict.fromkeys(group)]
            rngs += [np.random.default_rng(0)] * (WIDTH - len(rngs))
            grid = np.stack([np.rint(prior.draw(rng, size).clip(-edge, edge) / spacing) for rng in rngs])
            grid = np.clip(grid.astype(np.int64), -limit, limit)
            counts = np.ascontiguousarray(problem.counts[[task for task, _ in group]])
            plans = new_walkers(world, WIDTH, per_state)
            actions = np.zeros((WIDTH, environment.num_states), dtype=np.int64)
            actions[:] = (~world.forbidden.reshape(environment.num_states, -1)).argmax(axis=1)
            plans.actions[:] = actions
            height, taken = np.full(WIDTH, np.inf), np.zeros(WIDTH, dtype=np.int64)
            step = max(1, AT_A_TIME // (3 * WIDTH * stride))
            for skip, count in ((True, skipped), (False, length)):
                taken[:] = 0
                for done in range(0, count, step):
                    some = min(step, count - done)
                    uniforms = np.stack([rng.random((some * stride, 3)) for rng in rngs])
                    out = np.empty((WIDTH, some, size))
                    grid_walk(
                        world, plans, actions, grid, height, counts, places, spacing, limit, prior.kind,
                        float(getattr(prior, "scale", 1.0)), temperature, normalised, uniforms, stride, out, taken,
                    )  # fmt: skip
                    if not skip:
                        for lane, (task, chain) in enumerate(walkers[first : first + WIDTH]):
                            drawn[task, chain, done : done + some] = out[lane]
            for lane, (task, chain) in enumerate(walkers[first : first + WIDTH]):
                accepted[task, chain] = taken[lane] / (length * stride)

    in_parallel(walk_together, len(walkers), cost=stride * length * 200 * environment.num_states)
    return drawn, accepted
