"""What is best where the environment is not known: one policy under a belief, and bounds on what it could attain.

    V^π_ω = E_ω V^π_ν ≤ max_π E_ω V^π_ν ≤ E_ω V*_ν

The first is what a policy is worth to somebody who does not know ν; the last, what the best is worth to somebody who
does. Policies are memoryless: they do not learn about ν while they act.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.planning.compiled import plan_dense, suits
from manymotives.planning.multi_mdp import MultiMDP
from manymotives.planning.problem import Solution, checked_rewards
from manymotives.planning.sparse import plan_sparse

ENVIRONMENTS = 200  # values are then known to a fourteenth of what they differ between environments


@dataclass(frozen=True, eq=False)
class BeliefPlan:
    """The best policy found without knowing the environment, as arrays that begin with the batch shape of the rewards.

    Two policies are compared by their average value from the start distribution: the one that is optimal in the mean
    environment, and one by multi-MDP backward induction, improved by single switches. They are computed from one set of
    environments, compared in a second and evaluated in a third, so that `value`, `upper` and `mean_policy_value` are
    free of selection bias. (If the two policies are very similar, `value` may therefore be below `mean_policy_value` by
    chance; `gain_error` is the size of that error.)
    """

    actions: Any  # [..., S] of the better policy; the first one in terminal states, where nothing is chosen
    value: Any  # [..., S] what it is worth under the belief: no more than the best memoryless policy is
    upper: Any  # [..., S] what knowing the environment would be worth: no policy attains more
    mean_policy_value: Any  # [..., S] what the mean environment's policy is worth under the belief
    value_error: Any  # [..., S] Monte Carlo standard errors: of `value`,
    upper_error: Any  # [..., S] of `upper`,
    gain_error: Any  # [..., S] and of `value` − `mean_policy_value`, from the same environments
    by_induction: Any  # [...] whether the better one is that of induction and not the mean environment's
    settled: Any  # [...] whether induction settled on one policy; if not, on the best of those it goes round
    converged: Any  # [...] whether switches came to their end: no other action in one state is better
    environments: int  # drawn, in each of the three sets
    num_actions: int

    @property
    def policy(self) -> Float[np.ndarray, "*batch S A"]:
        """π(a|s), [..., S, A]: one-hot at `actions`."""
        return np.eye(self.num_actions)[self.actions]


class Candidates(NamedTuple):
    """Policies [S] for one reward, from the simplest to the best on the environments they were made from."""

    mean: np.ndarray  # optimal in the mean environment
    induced: np.ndarray  # by backward induction
    switched: np.ndarray  # the better of the two, improved by switches
    settled: bool
    converged: bool

    @property
    def policies(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self.mean, self.induced, self.switched


def plan_under_belief(belief: DynamicsBelief, rewards: Any, *, on: str, environments: Any, seed: Any) -> BeliefPlan:
    """`plan` where transitions are not known."""
    known = belief.mean
    given = checked_rewards(known, rewards, on)
    if given.is_jax:
        raise InputError("under a belief, rewards must be NumPy arrays; JAX arrays are for known environments.")
    count = checked_environments(environments)
    making, choosing, valuing = (belief.draws(count, rng) for rng in generator(seed).spawn(3))
    flat = np.ascontiguousarray(given.values.reshape(-1, *given.values.shape[-2:]))
    of_mean = solved(known, flat).actions

    sample = MultiMDP.from_probabilities(belief, making)
    tried = [candidates(sample, reward[None], first) for reward, first in zip(flat, of_mean)]

    sample = MultiMDP.from_probabilities(belief, choosing)
    chosen, by_induction = of_mean.copy(), np.zeros(len(flat), dtype=bool)
    for n, each in enumerate(tried):
        worth = [sample.average(sample.values(actions, flat[n : n + 1])) for actions in (each.mean, each.switched)]
        by_induction[n] = worth[1] > worth[0]
        chosen[n] = each.switched if by_induction[n] else each.mean

    sample = MultiMDP.from_probabilities(belief, valuing)
    attained, by_mean = (_values(sample, policies, flat) for policies in (chosen, of_mean))
    optimal = optimal_values(belief, valuing, flat)
    arrays = {
        "actions": chosen,
        "value": attained.mean(axis=1),
        "upper": optimal.mean(axis=1),
        "mean_policy_value": by_mean.mean(axis=1),
        "value_error": _error(attained),
        "upper_error": _error(optimal),
        "gain_error": _error(attained - by_mean),
        "by_induction": by_induction,
        "settled": np.array([each.settled for each in tried], dtype=bool),
        "converged": np.array([each.converged for each in tried], dtype=bool),
    }
    shaped = {name: array.reshape(given.batch + array.shape[1:]) for name, array in arrays.items()}
    return BeliefPlan(**shaped, environments=count, num_actions=known.num_actions)


def candidates(sample: MultiMDP, rewards: Float[np.ndarray, "_ S _A"], of_mean: Int[np.ndarray, " S"]) -> Candidates:
    """Policies worth comparing for one reward, or for one reward in each environment: rewards [K or 1, S, A or 1]."""
    induced, settled = sample.induced(rewards, of_mean)
    worth = [sample.average(sample.values(actions, rewards)) for actions in (of_mean, induced)]
    switched, ended = sample.switched(rewards, induced if worth[1] > worth[0] else of_mean)
    return Candidates(of_mean, induced, switched, settled, ended)


def optimal_values(
    belief: DynamicsBelief, probabilities: Float[np.ndarray, "K E"], rewards: Float[np.ndarray, "N S _A"]
) -> Float[np.ndarray, "N K S"]:
    """V*_ν in each of K environments."""
    return np.stack([solved(belief.environment(each), rewards).value for each in probabilities], axis=1)


def solved(environment: Environment, rewards: Float[np.ndarray, "N S _A"]) -> Solution:
    """Plans in a known environment."""
    return (plan_dense if suits(environment) else plan_sparse)(environment, rewards, None, None)


def checked_environments(environments: Any) -> int:
    """How many environments to draw from a belief."""
    if environments is None:
        return ENVIRONMENTS
    if not isinstance(environments, int | np.integer) or isinstance(environments, bool) or environments < 1:
        raise InputError(f"environments must be a whole number of at least 1; found {environments!r}.")
    return int(environments)


def generator(seed: Any) -> np.random.Generator:
    """The stream of environments drawn from a belief."""
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0; found {seed!r}.")
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=(8,)))


def _values(
    sample: MultiMDP, policies: Int[np.ndarray, "N S"], rewards: Float[np.ndarray, "N S _A"]
) -> Float[np.ndarray, "N K S"]:
    """V^π_k of a policy for each reward."""
    values = np.empty((len(policies), *sample.transitions.shape[:2]))
    for n, actions in enumerate(policies):
        values[n] = sample.values(actions, rewards[n : n + 1])
    return values


def _error(values: Float[np.ndarray, "N K S"]) -> Float[np.ndarray, "N S"]:
    """Of the mean over environments; nothing is known of it from one."""
    if values.shape[1] == 1:
        return np.full((len(values), values.shape[2]), np.nan)
    return values.std(axis=1, ddof=1) / np.sqrt(values.shape[1])
