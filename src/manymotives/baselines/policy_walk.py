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

from manymotives.baselines.common import Problem, Result, checked_number, checked_problem
from manymotives.baselines.walks import GAUSSIAN, LAPLACIAN, UNIFORM, invert, walk_on
from manymotives.errors import InputError, quoted
from manymotives.inference import Metropolis
from manymotives.inference.diagnostics import mixing
from manymotives.models.choice import Softmax
from manymotives.planning import in_parallel, reliable_plan
from manymotives.planning.problem import allowed_actions
from manymotives.planning.warm_start import world_of

AT_A_TIME = 600_000  # random numbers of a walker
LARGEST = 2_000  # states; beyond, a walk of single rewards gets nowhere, and its inverse takes gigabytes


@dataclass(frozen=True)
class UniformPrior:
    """All rewards between −limit and limit, on a grid through 0, are equally likely.

    Parameters
    ----------
    limit
        The largest reward.
    spacing
        Spacing of the grid of rewards.
    """

    limit: float = 1.0
    spacing: float = 0.1

    kind: ClassVar[int] = UNIFORM

    def __post_init__(self) -> None:
        checked_number(self.limit, "UniformPrior: limit", above=True)
        checked_number(self.spacing, "UniformPrior: spacing", above=True)
        if self.spacing > self.limit:
            raise InputError(
                f"UniformPrior: the grid has one point: its spacing, {self.spacing:g}, is above the limit, "
                f"{self.limit:g}."
            )

    def draw(self, rng: np.random.Generator, size: Any) -> np.ndarray:
        return rng.uniform(-self.limit, self.limit, size)


@dataclass(frozen=True)
class GaussianPrior:
    """Rewards are normal with mean 0, on a grid through 0.

    Parameters
    ----------
    scale
        The standard deviation.
    spacing
        Spacing of the grid of rewards.
    """

    scale: float = 1.0
    spacing: float = 0.1

    kind: ClassVar[int] = GAUSSIAN

    def __post_init__(self) -> None:
        checked_number(self.scale, "GaussianPrior: scale", above=True)
        checked_number(self.spacing, "GaussianPrior: spacing", above=True)

    def draw(self, rng: np.random.Generator, size: Any) -> np.ndarray:
        return rng.normal(0.0, self.scale, size)


@dataclass(frozen=True)
class LaplacianPrior:
    """p(ρ) ∝ exp(−|ρ| / scale) on a grid through 0: most rewards are near 0.

    Parameters
    ----------
    scale
        The mean of |ρ|.
    spacing
        Spacing of the grid of rewards.
    """

    scale: float = 1.0
    spacing: float = 0.1

    kind: ClassVar[int] = LAPLACIAN

    def __post_init__(self) -> None:
        checked_number(self.scale, "LaplacianPrior: scale", above=True)
        checked_number(self.spacing, "LaplacianPrior: spacing", above=True)

    def draw(self, rng: np.random.Generator, size: Any) -> np.ndarray:
        return rng.laplace(0.0, self.scale, size)


def policy_walk(
    environment: Any,
    demonstrations: Any,
    *,
    prior: Any = UniformPrior(),
    choice: Any = Softmax(inverse_temperature=5.0),
    method: Any = Metropolis(chains=4, draws=1000, warmup=500, thin=10),
    normalised: bool = True,
    on: str = "state",
    seed: Any = 0,
) -> Result:
    """The posterior mean reward of each task by PolicyWalk, and the policy that is optimal for it.

    `details["reward_draws"]` contains the draws (chain, draw, task, state).

    Parameters
    ----------
    environment, demonstrations
        The environment, and the demonstrations in it.
    prior
        `UniformPrior(limit)`, `GaussianPrior(scale)` or `LaplacianPrior(scale)`, with the spacing of their grid.
    choice
        `Softmax(c)` with a number c, the confidence in the demonstrator. Only the product of c and the rewards matters.
    method
        `Metropolis(...)`, task by task; in each of its sweeps one change is proposed to every reward on average.
    normalised
        Whether the probabilities of the actions in a state sum to one (see the top of the file).
    on
        What has a reward: "state" or "state_action".
    seed
        Seed of the random numbers; task k has stream k.

    Returns
    -------
    Result
        `policies` (task, state, action), `rewards` if the method infers them, `details` and `warnings`.
    """
    problem = checked_problem(environment, demonstrations, seed=seed)
    if not isinstance(prior, UniformPrior | GaussianPrior | LaplacianPrior):
        raise InputError(f"prior must be UniformPrior(), GaussianPrior() or LaplacianPrior(); found {prior!r}.")
    if isinstance(prior, LaplacianPrior) and not normalised:
        raise InputError(
            "with normalised=False the likelihood may grow faster than a LaplacianPrior() falls, so the "
            "posterior may not exist. Use UniformPrior() or GaussianPrior()."
        )
    temperature = _temperature(choice)
    if not isinstance(method, Metropolis):
        raise InputError(f"method must be mm.Metropolis(...); found {quoted(method)}.")
    if on not in ("state", "state_action"):
        raise InputError(f'on must be "state" or "state_action"; found {on!r}.')
    if problem.environment.num_states > LARGEST:
        raise InputError(
            f"policy_walk is for up to {LARGEST} states; there are {problem.environment.num_states}. Use mm.fit."
        )
    pairs = problem.environment.available
    cells = np.flatnonzero(pairs) if on == "state_action" else np.arange(problem.environment.num_states)
    drawn, accepted = _walked(problem, prior, temperature, cells, method, bool(normalised), on)
    shape = pairs.shape if on == "state_action" else pairs.shape[:1]
    table = np.full((*drawn.shape[:-1], int(np.prod(shape))), np.nan)
    table[..., cells] = drawn
    table = table.reshape(*drawn.shape[:-1], *shape)  # [M, chains, draws, S or S, A]
    mean = np.nan_to_num(drawn.mean(axis=(1, 2)))
    flat = np.zeros((problem.num_tasks, int(np.prod(shape))))
    flat[:, cells] = mean
    rewards = flat.reshape(problem.num_tasks, *shape)
    axes = ("chain", "draw", "task", "state", "action")[: table.ndim]
    reward_draws = problem.labelled(np.moveaxis(table, 0, 2), *axes)
    details = {"reward_draws": reward_draws, "acceptance": problem.labelled(accepted, "task", "chain")}
    policies = reliable_plan(problem.environment, rewards, on=on).policy
    return problem.result(
        "policy_walk", policies, rewards, details, mixing(xr.Dataset({"reward": reward_draws})).warnings
    )


def _temperature(choice: Any) -> float:
    number = getattr(choice, "inverse_temperature", None)
    if not isinstance(choice, Softmax) or not isinstance(number, int | float | np.number) or choice.lapse != 0.0:
        raise InputError(f"choice must be Softmax(c) with one number c and without lapses; found {choice!r}.")
    return float(number)


def _walked(
    problem: Problem,
    prior: Any,
    temperature: float,
    cells: np.ndarray,
    method: Metropolis,
    normalised: bool,
    on: str,
) -> tuple[np.ndarray, np.ndarray]:
    """Draws [M, chains, draws, C], and the share of steps taken [M, chains]."""
    chains, length, skipped, spacing = method.chains, method.draws, method.warmup, prior.spacing
    environment, size = problem.environment, len(cells)
    stride = method.thin * size
    edge = prior.limit if isinstance(prior, UniformPrior) else np.inf
    limit = int(edge / spacing + 1e-9) if np.isfinite(edge) else np.iinfo(np.int64).max // 2
    streams = [rng.spawn(chains) for rng in problem.streams()]
    drawn = np.empty((problem.num_tasks, chains, length, size))
    accepted = np.zeros((problem.num_tasks, chains))
    world = world_of(environment)
    per_state = environment.num_actions if on == "state_action" else 1
    at_once = max(1, AT_A_TIME // (3 * stride))

    def walk(begin: int, end: int) -> None:
        for walker in range(begin, end):
            task, chain = divmod(walker, chains)
            rng = streams[task][chain]
            grid = np.clip(np.rint(prior.draw(rng, size) / spacing), -limit, limit).astype(np.int64)
            counts = problem.counts[task : task + 1].copy()
            actions = allowed_actions(environment).argmax(axis=1)
            inverse = np.empty((environment.num_states, environment.num_states))
            invert(world, actions, inverse)
            settings = (spacing, limit, prior.kind, float(getattr(prior, "scale", 1.0)), temperature, normalised)
            for done in range(-skipped, length, at_once):
                some = min(at_once, length - done)
                out = np.empty((some, size))
                uniforms = rng.random((some * stride, 3))
                arrays = (uniforms, stride, grid, actions, inverse, out)
                taken = walk_on(world, counts, cells, per_state, *settings, *arrays)
                kept = out[max(-done, 0) :]  # none while the warm-up lasts
                drawn[task, chain, max(done, 0) : max(done, 0) + len(kept)] = kept
                accepted[task, chain] += taken / ((skipped + length) * stride)

    steps = (skipped + length) * stride
    in_parallel(walk, problem.num_tasks * chains, cost=20 * steps * environment.matrix.nnz, block=1)
    return drawn, accepted
