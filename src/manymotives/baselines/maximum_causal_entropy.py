"""Maximum causal entropy (Ziebart, Bagnell & Dey 2010): the most random policy that collects what was collected.

    maximise  E Σ_t γ^t H(π(·|s_t))  such that  μ(π) = μ(demonstrator);  the answer is π(a|s) = exp(Q(s, a) − V(s)),
    Q = φ w + γ P V,  V = log Σ_a exp Q:  soft optimality at inverse temperature 1, for the w that
    maximises  E Σ_t γ^t log π_w(a_t|s_t) = [w · μ(demonstrator) / (1 − γ)] − E_start V_w,  which is concave

It assumes that agents choose soft-optimally for a reward linear in the features, for ever, with the environment's
discount. Episodes may have any length, since the demonstrator's μ is that of the policy its choices show (see
`expectations`). Where agents never do some things no finite w is best: the weights are then taken as far as it matters,
and a warning says so.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize

from manymotives.baselines.common import (
    Result,
    checked_count,
    checked_number,
    checked_problem,
    demonstrated_policies,
    listed,
)
from manymotives.baselines.expectations import Features, checked_features, value_slopes
from manymotives.data.environment import Environment
from manymotives.planning import plan
from manymotives.planning.visits import discounted_visits

NEWTON = 4_000_000  # numbers in ∂Q/∂w; beyond, L-BFGS, which needs the gradient alone
MATCH = 1e-9  # of normalised expectations, for a feature of size 1: nearer than this they need not be
MISSED = 1e-6  # more than this is told
FURTHEST = 20.0  # that one step may move a weight, for a feature of size 1
FLAT = 1e-11  # curvature, of the largest: none at all
RUNAWAY = 14.0  # log odds (a millionth) of an action against the best that only grow because nobody ever took it


def maximum_causal_entropy(
    environment: Any,
    demonstrations: Any,
    *,
    penalty: float = 0.0,
    features: Any = None,
    on: str = "state",
    start: Any = None,
    smoothing: float = 0.0,
    iterations: int = 200,
) -> Result:
    """The reward of each task and the soft-optimal policy for it, whose feature expectations match the observed ones.

    `details["log_likelihood"]` is (1 − γ) E Σ_t γ^t log π(a_t|s_t) for the demonstrator's choices, without the penalty.
    `policies` are soft; `mm.plan(environment, result.rewards.values)` gives the greedy ones.

    Parameters
    ----------
    environment, demonstrations
        The environment, and the demonstrations in it.
    penalty
        κ: κ |w|² / 2 is subtracted from the log-likelihood, which is that of one infinite episode, however many choices
        were observed; normalised features then match up to (1 − γ) κ w.
    features, on, start
        As for `mwal`. The signs of weights do not matter here.
    smoothing
        The pseudo-count of every available action with which the demonstrator's policy is estimated. With any positive
        number the reward is finite.
    iterations
        The largest number of iterations of Newton's method, which stops if every feature matches to a billionth of its
        largest value.

    Returns
    -------
    Result
        `policies` (task, state, action), `rewards` if the method infers them, `details` and `warnings`.
    """
    problem = checked_problem(environment, demonstrations, start=start)
    basis = checked_features(environment, features, on)
    penalty, most = checked_number(penalty, "penalty"), checked_count(iterations, "iterations")
    shown = demonstrated_policies(problem, checked_number(smoothing, "smoothing"))
    scale = 1 - problem.environment.discount
    visits = discounted_visits(problem.environment, shown, problem.starts)
    demonstrated = basis.collected(visits, shown)
    use_newton = problem.environment.num_states * problem.environment.num_actions * basis.size <= NEWTON
    climb = _newton if use_newton else _gradient_only
    found = [
        climb(Dual(problem.environment, basis, target, begin, penalty), MATCH / scale, most)
        for target, begin in zip(demonstrated, problem.starts)
    ]
    weights = np.stack([point.weights for point in found])
    policies = np.stack([point.policy for point in found])
    missed = scale * np.array([np.abs(point.gradient / basis.sizes).max() for point in found])
    heights = np.array([point.height - penalty / 2 * point.weights @ point.weights for point in found])
    expected = scale * np.stack([point.expected for point in found])
    details = {
        "weights": problem.labelled(weights, "task", "feature", feature=basis.names),
        "demonstrated": problem.labelled(scale * demonstrated, "task", "feature", feature=basis.names),
        "expected": problem.labelled(expected, "task", "feature", feature=basis.names),
        "log_likelihood": problem.labelled(-scale * heights, "task"),
        "iterations": problem.labelled(np.array([point.iterations for point in found]), "task"),
    }
    never = (shown == 0) & problem.environment.available & (visits[..., None] > 0)
    least = np.where(never, policies, 1.0).min(axis=(1, 2))
    return problem.result(
        "maximum_causal_entropy",
        policies,
        basis.rewards(weights),
        details,
        _warnings([problem.named(task) for task in range(problem.num_tasks)], missed, least, penalty),
    )


def _warnings(names: list[str], missed: np.ndarray, least: np.ndarray, penalty: float) -> tuple[str, ...]:
    warnings = []
    if (missed > MISSED).any():
        far = [name for name, gap in zip(names, missed) if gap > MISSED]
        warnings.append(
            f"the fit has not converged for {listed(far)}: features are missed by up to {missed.max():.2g} of their "
            "size. Raise `iterations`, or pass a small `penalty`."
        )
    run = [name for name, probability in zip(names, least) if probability < np.exp(-RUNAWAY)]
    if run and penalty == 0:
        warnings.append(
            f"no finite reward fits {listed(run)} best, who never took some available actions: rewards are as "
            "large as matching the features requires, and their size has no meaning. Pass smoothing=0.5 or "
            "penalty=0.01."
        )
    return tuple(warnings)


class _Point(NamedTuple):
    """A weight and what follows from it; unnormalised, as sums over γ^t."""

    weights: np.ndarray  # [K]
    policy: np.ndarray  # [S, A]
    expected: np.ndarray  # [K]
    height: float  # minus the log-likelihood, penalised
    gradient: np.ndarray  # [K]
    iterations: int = 0


class Dual(NamedTuple):
    """What is to be minimised: E_start V_w − w · μ + κ |w|² / 2."""

    environment: Environment
    basis: Features
    target: np.ndarray  # [K]
    start: np.ndarray  # [S]
    penalty: float

    def at(self, weights: np.ndarray) -> _Point:
        soft = plan(self.environment, self.basis.rewards(weights), on=self.basis.on, inverse_temperature=1.0)
        policy = soft.policy
        visits = discounted_visits(self.environment, policy[None], self.start[None])
        expected = self.basis.collected(visits, policy[None])[0]
        height = self.start @ soft.value - weights @ self.target + self.penalty / 2 * weights @ weights
        return _Point(weights, policy, expected, float(height), expected - self.target + self.penalty * weights)

    def curvature(self, point: _Point, on_pairs: np.ndarray) -> np.ndarray:
        """The Hessian [K, K]: Σ_s d(s) Cov_{a ~ π}[∂Q(s, a)/∂w], plus κ."""
        value, q = value_slopes(self.environment, point.policy, on_pairs)
        visits = discounted_visits(self.environment, point.policy[None], self.start[None])[0]
        centred = (q - value[:, None, :]) * np.sqrt(visits[:, None, None] * point.policy[..., None])
        flat = centred.reshape(-1, centred.shape[-1])
        return flat.T @ flat + self.penalty * np.eye(flat.shape[1])


def _newton(dual: Dual, tolerance: float, most: int) -> _Point:
    """Newton's method, with steps halved until they help.

    Where the best w is infinite some twenty do too: log odds grow by one a step, what is missed shrinks as exp of that.
    """
    on_pairs, sizes = dual.basis.on_pairs(), dual.basis.sizes
    point = dual.at(np.zeros(dual.basis.size))
    # some directions change no choice (a constant, without terminal states): they have neither slope nor curvature,
    # here or anywhere else, and rounding would carry the weights away along them
    size, direction = np.linalg.eigh(dual.curvature(point, on_pairs) / np.outer(sizes, sizes))
    matters = direction[:, size > FLAT * max(size[-1], 1e-300)] / sizes[:, None]  # as if all features were of size 1
    for number in range(most if matters.size else 0):
        slope = point.gradient
        if np.abs(slope / sizes).max() <= tolerance:
            break
        curvature = matters.T @ dual.curvature(point, on_pairs) @ matters
        curvature.flat[:: len(curvature) + 1] += 1e-13 * np.trace(curvature) / len(curvature)
        step = -matters @ np.linalg.solve(curvature, matters.T @ slope)
        step *= min(1.0, FURTHEST / max(np.abs(step * sizes).max(), 1e-300))
        length, downhill = 1.0, slope @ step
        while True:
            trial = dual.at(point.weights + length * step)
            enough = trial.height <= point.height + 1e-4 * length * downhill
            # near the optimum heights differ by less than rounding, and slopes still tell
            if enough or np.abs(trial.gradient / sizes).max() < 0.9 * np.abs(slope / sizes).max():
                break
            length /= 2
            if length < 1e-8:
                return point._replace(iterations=number)
        point = trial._replace(iterations=number + 1)
    return point


def _gradient_only(dual: Dual, tolerance: float, most: int) -> _Point:
    """L-BFGS, for many states or features."""

    sizes = dual.basis.sizes

    def height_and_slope(scaled: np.ndarray) -> tuple[float, np.ndarray]:  # as if all features were of size 1
        point = dual.at(scaled / sizes)
        return point.height, point.gradient / sizes

    options = {"gtol": tolerance, "ftol": 0.0, "maxiter": 10 * most, "maxfun": 20 * most, "maxcor": 30}
    begin = np.zeros(dual.basis.size)
    found = minimize(height_and_slope, begin, jac=True, method="L-BFGS-B", options=options)
    return dual.at(found.x / sizes)._replace(iterations=int(found.nit))
