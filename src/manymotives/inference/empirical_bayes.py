"""Empirical Bayes: one population, the likeliest; each task by its mode and curvature: an approximation.

The marginal likelihood of a population h is climbed by ratios. With draws u_nm of each task from its posterior under
the population h⁰ reached so far (a short Metropolis run),

    log p(d | h) − log p(d | h⁰) ≈ Σ_m log mean_n p(u_nm | h) / p(u_nm | h⁰),

which, together with the hyperprior, is maximised near h⁰; from there again, with ever shorter steps. The last
populations are averaged. Under the average every task is then described by the peak of its posterior and the curvature
there.

Where motives switch, the population and the motives' modes are found by expectation–maximisation instead, from several
starts (`expectation_maximisation`).
"""

import threading
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import optimize, special

from manymotives import families
from manymotives.errors import InputError
from manymotives.inference.checks import check_moves_rewards_alone, checked_counts
from manymotives.inference.draws import Draws, RunState
from manymotives.inference.expectation_maximisation import LEAST_STEPS, check_memory, check_normal, switching_draws
from manymotives.inference.laplace import peaks
from manymotives.inference.mcmc.adaptation import warm_up
from manymotives.inference.mcmc.chains import MarkovChain
from manymotives.inference.mcmc.forecast import forecast_of_plans
from manymotives.inference.mcmc.sweeps import task_draws
from manymotives.inference.progress import Forecast, Progress
from manymotives.io.records import Recorded
from manymotives.models import Target
from manymotives.models.rewards import NORMALISED

ROUNDS = 30
AVERAGED = 10  # the last rounds, whose populations are averaged
STEP, SHRINKAGE = 1.0, 0.9  # how far a hyperparameter's coordinate may move in the first round, and in each next one
WARMUP, DRAWS, THIN = 50, 200, 3  # of a round's Metropolis run …
PROPOSALS = 2  # of each task in a sweep
LONG = 4_000  # … as long as there are no more states × tasks than this; beyond, plans take most of the time:
SHORT = 20, 40, 1  # rounds, draws and thinning then; proposals adapt in the first rounds and in every tenth
LARGEST = 2_000  # states; beyond, the dense algebra of curvatures takes minutes


@dataclass(frozen=True)
class EmpiricalBayes(Recorded):
    """Hyperparameters by maximum marginal likelihood (times their prior), rewards by a normal approximation around
    their mode.

    This is an approximation, and the result carries a warning that says so. It is fast if motives switch, where chains
    take minutes, and for few weights; with a free reward for each state `HMC` is usually as fast, and exact. It leaves
    out the uncertainty about the population, and approximates posteriors that are skewed, such as those of small
    rewards, by normal distributions in their coordinates.

    Parameters
    ----------
    draws
        The number of draws from the normal approximation, with which all methods of a `Posterior` work.
    starts
        If motives switch: the number of random starts of expectation–maximisation, of which the best is kept. A warning
        says if other starts divided the behaviour differently.
    """

    draws: int = 1_000
    starts: int = 2

    target_type: ClassVar[type] = Target
    is_markov_chain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        checked_counts(self)

    def init(self, target: Target, seed: int) -> RunState:
        if target.assignment is not None:
            check_normal(target)
            check_memory(self, target)
            return RunState(target, seed)
        check_moves_rewards_alone(self, target)
        if target.environment.num_states > LARGEST:
            raise InputError(
                f"EmpiricalBayes is for up to {LARGEST} states; there are {target.environment.num_states}. Use Gibbs()."
            )
        return RunState(target, seed)

    def forecast(self, target: Target, seed: int, draws: int) -> Forecast:
        """How long the plans take on this machine: of proposals in all rounds; or of the first steps of EM."""
        rounds, made, thin = _schedule(target)
        plans = PROPOSALS * rounds * (made + WARMUP) * thin + draws
        if target.assignment is not None:
            plans = self.starts * LEAST_STEPS
        return forecast_of_plans(target, plans * target.num_tasks, "at least")

    def advance(self, state: RunState, draws: int, progress: Progress) -> tuple[RunState | None, Draws]:
        target, seed = state.target, state.seed
        if target.assignment is not None:
            return None, switching_draws(target, seed, draws, self.starts, progress)
        hyper, tasks = climb(target, seed, progress)
        peak = peaks(target, target.parameters(hyper)[target.group], tasks)
        rng = np.random.default_rng([seed, 1])
        factor = np.linalg.cholesky(peak.covariance)
        noise = rng.standard_normal((draws, *peak.tasks.shape))
        drawn = peak.tasks + np.einsum("mde,nme->nmd", factor, noise)
        # task after task: plans begin from the one before, and those of one task are alike
        owner = np.repeat(np.arange(target.num_tasks), draws)
        by_task = drawn.transpose(1, 0, 2).reshape(-1, target.num_coordinates)
        likelihood = target.log_likelihood(by_task, owner).reshape(target.num_tasks, draws).T
        warnings: tuple[str, ...] = (
            "this is an approximation by empirical Bayes: the population is taken as known and posteriors as "
            "normal in their coordinates, so intervals are rough and mostly too narrow. Confirm with HMC().",
        )
        if not peak.converged:
            warnings += ("the search for the mode of some task's posterior did not converge.",)
        made = Draws(
            tasks=drawn[None],
            hyper=np.repeat(hyper[None], draws, axis=0)[None],
            log_likelihood=likelihood[None].copy(),
            warnings=warnings,
        )
        return None, made


def climb(target: Target, seed: int, progress: Progress) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest populations [G, H], and typical coordinates [M, D] of their tasks."""
    chain = MarkovChain(task_draws, target, target.num_coordinates, np.random.SeedSequence(seed))
    chain.begin()
    # from the middle of the hyperprior
    middle = np.median(target.draw_hyper(np.random.default_rng(0), 501)[:, 0], axis=0)
    hyper = np.repeat(middle[None], target.num_groups, axis=0)
    seen = []
    rounds, draws, thin = _schedule(target)
    with progress.of(rounds, "rounds") as report:
        for number in range(rounds):
            chain.set_population(hyper)
            if not _is_short(target) or number < 3 or number % 10 == 0:
                warm_up(chain, WARMUP, thin, threading.Event())
            drawn = chain.draw_arrays(draws)
            chain.advance(thin, drawn, chain.acceptance_counts())
            tasks = drawn.tasks
            if target.num_hyper:
                reach = STEP * SHRINKAGE**number
                hyper = np.stack([_uphill(target, tasks, hyper[g], g, reach) for g in range(target.num_groups)])
            seen.append(hyper)
            report.update(number + 1)
    return np.mean(seen[-AVERAGED:], axis=0), np.median(tasks, axis=0)


def _is_short(target: Target) -> bool:
    return target.environment.num_states * target.num_tasks > LONG


def _schedule(target: Target) -> tuple[int, int, int]:
    """Rounds, draws of each, and sweeps for each draw."""
    rounds, draws, thin = SHORT if _is_short(target) else (ROUNDS, DRAWS, THIN)
    return rounds if target.num_hyper else 2, draws, thin


def _uphill(target: Target, tasks: np.ndarray, hyper: np.ndarray, g: int, reach: float) -> np.ndarray:
    """Coordinates [H] near `hyper` under which draws [N, M, D] of population g's tasks are likeliest."""
    layout = target.layout
    mine = tasks[:, target.group == g]
    is_share = layout.link == NORMALISED
    if is_share:
        shares = mine[..., : layout.num_rewards]
        total = special.logsumexp(shares, axis=-1, keepdims=True)
        mine = np.concatenate([shares - total, mine[..., layout.num_rewards :]], axis=-1)
    rows = mine.reshape(-1, mine.shape[-1])
    of_shares = layout.num_rewards if is_share else 0
    others = np.ascontiguousarray(rows[:, of_shares:])

    def log_density(values: np.ndarray) -> np.ndarray:
        """log p(u | h) [N, M]; of shares, not of the sums they are shares of."""
        parameters = target.parameters(values)
        found = families.log_density_each(
            layout.families[of_shares:], others, np.ascontiguousarray(parameters[of_shares:])
        )
        if is_share:
            concentration = parameters[:of_shares, 0]
            constant = special.gammaln(concentration.sum()) - special.gammaln(concentration).sum()
            found = found + constant + rows[:, :of_shares] @ concentration
        return found.reshape(mine.shape[:2])

    before = log_density(hyper)

    def depth(values: np.ndarray) -> float:
        ratio = special.logsumexp(log_density(values) - before, axis=0) - np.log(len(mine))
        own = families.log_density_all(layout.hyper_families, values[None], layout.hyper_constants[None])[0]
        total = float(ratio.sum() + own)
        return -total if np.isfinite(total) else 1e300

    bounds = [(value - reach, value + reach) for value in hyper]
    return optimize.minimize(depth, hyper, method="L-BFGS-B", bounds=bounds).x
