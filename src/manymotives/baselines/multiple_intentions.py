"""Multiple intentions (Babeş-Vroman, Marivate, Subramanian & Littman 2011): I rewards, and which of them each task has.

    z_mi ∝ p_i Π_{s,a} π_i(a|s)^{n_m(s,a)}                                    expectation: responsibilities
    p_i = mean_m z_mi,   w_i = argmax Σ_m z_mi Σ_{s,a} n_m(s,a) log π_i(a|s)    maximisation: maximum-likelihood IRL
    until the likelihood Σ_m log Σ_i p_i Π π_i^{n_m} stops growing; the best of several starts

It assumes that the number of intentions is known and that tasks choose by a given rule, SoftOptimal or Softmax, whose
inverse temperature is known (rewards have no other scale). The authors' own rule averages values by the choice
probabilities, which can have several solutions; log Σ exp has one. A wide prior on the weights, w ~ N(0, 1/κ) with
κ = 0.01, keeps them finite where some things are never done.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from manymotives.baselines.common import Problem, Result, checked_count, checked_problem, listed
from manymotives.baselines.expectations import Features, checked_features
from manymotives.errors import InputError, quoted
from manymotives.models.choice import Softmax, SoftOptimal
from manymotives.models.target import log_choice_probabilities
from manymotives.planning import plan
from manymotives.planning.visits import discounted_visits

PENALTY = 0.01  # κ
ROUNDS = 200  # of expectation and maximisation, at most
GAIN = 1e-6  # of the penalised log-likelihood, in nats: less than this in a round and it has settled
FEW = 200  # weights
ROUNDS_INSIDE = 30  # steps of (L-)BFGS in one maximisation, begun where the last one ended


def multiple_intentions(
    environment: Any,
    demonstrations: Any,
    *,
    intentions: int | None = None,
    choice: Any = SoftOptimal(inverse_temperature=1.0),
    starts: int = 5,
    features: Any = None,
    on: str = "state",
    seed: Any = 0,
) -> Result:
    """The reward of each group of tasks, and the probability that each task belongs to each group.

    `details["responsibilities"]` (task, intention) sum to one; `details["intention_rewards"]` are the rewards of the
    groups, the most common first. The `rewards` of a task are their average, weighted by its responsibilities, and
    `policies` are optimal for it.

    Parameters
    ----------
    environment, demonstrations
        The environment, and the demonstrations in it.
    intentions
        I: the number of rewards; by default 2, or 1 if there is a single task.
    choice
        The choice rule of all tasks: `SoftOptimal(c)` or `Softmax(c)` with a number c, without lapses. Choices identify
        the product c w only, and w has a prior standard deviation of 10, so the prior is stronger the smaller c is.
    starts
        The number of runs from random responsibilities, of which the best is returned.
    features, on
        φ: [S, K], or [S, A, K] with `on="state_action"`. By default, every state (or pair) has a weight of its own.
    seed
        Seed of the starts.

    Returns
    -------
    Result
        `policies` (task, state, action), `rewards` if the method infers them, `details` and `warnings`.
    """
    problem = checked_problem(environment, demonstrations, seed=seed, may_pool=False)
    basis = checked_features(environment, features, on)
    number = checked_count(min(2, problem.num_tasks) if intentions is None else intentions, "intentions")
    if number > problem.num_tasks:
        raise InputError(f"there are {problem.num_tasks} tasks: they cannot have {number} intentions.")
    _check_choice(choice)
    runs = checked_count(starts, "starts")
    climb = Climb(problem, basis, choice, PENALTY)
    found = [climb.run(number, np.random.default_rng([problem.seed, run]), ROUNDS) for run in range(runs)]
    heights = np.array([run.path[-1] for run in found])
    best = found[int(np.argmax(heights))]
    order = np.argsort(-best.shares, kind="stable")
    rewards = basis.rewards(best.weights[order])
    responsibilities = best.responsibilities[:, order]
    mean = np.einsum("mi,i...->m...", responsibilities, rewards)
    on_what = ("state", "action")[: rewards.ndim - 1]
    details = {
        "responsibilities": problem.labelled(responsibilities, "task", "intention", intention=np.arange(number)),
        "intention_rewards": problem.labelled(rewards, "intention", *on_what, intention=np.arange(number)),
        "shares": problem.labelled(best.shares[order], "intention", intention=np.arange(number)),
        "objective": problem.labelled(np.array(best.path), "iteration"),
        "log_likelihood": problem.labelled(np.array(best.log_likelihood)),
        "objective_by_start": problem.labelled(heights, "start"),
    }
    policies = plan(problem.environment, mean, on=on).policy
    return problem.result("multiple_intentions", policies, mean, details, _warnings(problem, best, responsibilities))


def _warnings(problem: Problem, best: "_Run", responsibilities: np.ndarray) -> tuple[str, ...]:
    warnings = []
    if not best.converged:
        warnings.append(
            f"expectation–maximisation had not converged after {len(best.path) - 1} rounds: try another seed, or "
            "fewer intentions."
        )
    unsure = np.flatnonzero(responsibilities.max(axis=1) < 0.9)
    if unsure.size:
        names = [quoted(problem.demonstrations.tasks[task]) for task in unsure]
        warnings.append(f"the intention of {listed(names)} is uncertain: no responsibility is above 0.9.")
    empty = int((best.shares * problem.num_tasks < 0.5).sum())
    if empty:
        some = "an intention explains" if empty == 1 else f"{empty} intentions explain"
        warnings.append(f"{some} less than half a task. Use fewer intentions.")
    return tuple(warnings)


class _Run(NamedTuple):
    """Where one start ended."""

    responsibilities: np.ndarray  # [M, I]
    shares: np.ndarray  # [I]
    weights: np.ndarray  # [I, K]
    path: list[float]  # penalised log-likelihood after each round
    log_likelihood: float
    converged: bool


class Climb(NamedTuple):
    """Expectation and maximisation for one problem."""

    problem: Problem
    basis: Features
    choice: Any
    penalty: float

    def run(self, number: int, rng: np.random.Generator, most: int) -> _Run:
        """From random responsibilities until nothing is gained."""
        num_tasks = self.problem.num_tasks
        responsibilities = rng.dirichlet(np.full(number, 0.3), size=num_tasks)
        weights = np.zeros((number, self.basis.size))
        path: list[float] = []
        converged = False
        while len(path) <= most:
            shares = responsibilities.mean(axis=0)
            weights = np.stack([self.likeliest(responsibilities[:, i], weights[i]) for i in range(number)])
            with np.errstate(divide="ignore"):
                joint = np.log(shares) + self.log_likelihoods(weights)
            by_task = logsumexp(joint, axis=1)
            responsibilities = np.exp(joint - by_task[:, None])
            path.append(float(by_task.sum() - self.penalty / 2 * (weights**2).sum()))
            if len(path) > 1 and path[-1] - path[-2] < GAIN:
                converged = True
                break
        return _Run(responsibilities, shares, weights, path, float(by_task.sum()), converged)

    def log_likelihoods(self, weights: np.ndarray) -> np.ndarray:
        """log Π π_i(a|s)^{n_m(s,a)} [M, I]."""
        log_policies = self._log_policies(weights)[0]
        counts = self.problem.counts
        return np.einsum("msa,isa->mi", counts, np.where(np.isfinite(log_policies), log_policies, 0.0))

    def likeliest(self, responsibilities: np.ndarray, begin: np.ndarray) -> np.ndarray:
        """Maximum-likelihood IRL: weights [K] for choices weighted by who is responsible; never worse than `begin`."""
        counts = np.tensordot(responsibilities, self.problem.counts, axes=1)

        def depth(weights: np.ndarray) -> tuple[float, np.ndarray]:
            height, slope = self.height_and_slope(weights, counts)
            return -height, -slope

        # for few weights BFGS: L-BFGS-B calls threads for every small product, and waits for them on a busy machine
        method = "BFGS" if len(begin) <= FEW else "L-BFGS-B"
        found = minimize(depth, begin, jac=True, method=method, options={"maxiter": ROUNDS_INSIDE, "gtol": 1e-8})
        return found.x if found.fun <= depth(begin)[0] else begin

    def height_and_slope(self, weights: np.ndarray, counts: np.ndarray) -> tuple[float, np.ndarray]:
        """Σ n(s, a) log π(a|s) − κ |w|² / 2 and its gradient.

        With log π = c (Q − V), the derivative by Q is g(s, a) = c (n(s, a) − n(s) π(a|s)); the adjoint of V collects it
        over the Q that lead to a state, and over those of the states before: u = γ Pᵀ g + γ P_πᵀ u. The derivative by
        the reward of (s, a) is g(s, a) + u(s) π(a|s).
        """
        log_policies, followed = self._log_policies(weights[None])
        log_policy = log_policies[0]
        exists = np.isfinite(log_policy)
        height = float((counts * np.where(exists, log_policy, 0.0)).sum())
        policy = np.where(exists, np.exp(log_policy), 0.0)
        q_gradient = self.choice.inverse_temperature * (counts - counts.sum(axis=1, keepdims=True) * policy)
        environment = self.problem.environment
        arrives = environment.discount * (environment.matrix.T @ q_gradient.ravel())
        value_adjoint = discounted_visits(environment, followed, arrives[None])[0]
        cells = q_gradient + value_adjoint[:, None] * followed[0]
        cells = cells.sum(axis=1) if self.basis.on == "state" else cells.ravel()
        return height - self.penalty / 2 * weights @ weights, self.basis.matrix.T @ cells - self.penalty * weights

    def _log_policies(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log π [I, S, A], and the policies that values belong to: soft, or greedy."""
        c = float(self.choice.inverse_temperature)
        soft = c if self.choice.is_soft else None
        found = plan(self.problem.environment, self.basis.rewards(weights), on=self.basis.on, inverse_temperature=soft)
        numbers = np.full(len(weights), c)
        return log_choice_probabilities(found.q, numbers, np.zeros(len(weights))), found.policy


def _check_choice(choice: Any) -> None:
    known = isinstance(choice, Softmax | SoftOptimal) and isinstance(
        choice.inverse_temperature, int | float | np.number
    )
    if not known or choice.inverse_temperature <= 0 or choice.lapse != 0.0:
        raise InputError(
            "choice must be SoftOptimal(c) or Softmax(c) with one positive number c and without lapses; found "
            f"{quoted(choice)}."
        )
