"""How far policies are from optimal where the environment is not known: ℓ_ij = max_s V*_ωj(s) − V^{π_i}_ωj(s).

V^π_ω = E_ω (I − γP^π_ν)^{-1} r_π is linear in the reward, so a policy needs one average of inverses, and each reward
one product with it. V*_ω(s), the most that a memoryless policy is worth in s, is approximated from below by the best of
many that are good for some reward (`_good_policies`). A policy better than these in every state sets the mark for
itself: its loss is 0. What no policy exceeds, E_ω V*_ν, is kept beside it.

The belief is replaced by environments drawn from it once, and everything is exact for these.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.planning.belief import candidates, optimal_values, solved
from manymotives.planning.compiled import in_parallel
from manymotives.planning.multi_mdp import MultiMDP
from manymotives.planning.problem import check_spans, checked_rewards

NUMBERS = 500_000  # of inverses, or of values, at a time: what the caches hold
POLICIES = 16  # at a time, at most
SEARCHED = 100  # rewards with a search of their own; more found nothing that mattered (docs/unknown-dynamics.md)


@dataclass(frozen=True, eq=False)
class BeliefPlannedRewards:
    """`PlannedRewards` under a belief: values are averages over environments that may be the true one."""

    sample: MultiMDP
    rewards: np.ndarray  # [N, S] or [N, S, A]
    on: str
    scale_free: bool
    best: np.ndarray  # [N, S] the most that a policy found is worth under the belief, in each state
    upper: np.ndarray  # [N, S] what the best is worth to somebody who knows the environment: none exceeds it
    spans: np.ndarray  # [N] what there is to lose: down to the worst policy found in the same way

    @classmethod
    def of_rewards(
        cls,
        belief: DynamicsBelief,
        rewards: np.ndarray,
        *,
        on: str = "state",
        scale_free: bool = False,
        environments: int,
        rng: np.random.Generator,
    ) -> "BeliefPlannedRewards":
        """Of rewards [N, S] or [N, S, A]."""
        known, probabilities = belief.mean, belief.draws(environments, rng)
        values = np.ascontiguousarray(checked_rewards(known, rewards, on).values)  # [N, S, 1 or A]
        lives = ~known.is_terminal
        sample = MultiMDP.from_probabilities(belief, probabilities)
        sample = sample.weighing(lives / lives.sum())  # all states: losses are, too
        best, worst = _extreme_values(sample, _good_policies(sample, known, values), values)
        upper = optimal_values(belief, probabilities, values).mean(axis=1)
        spans = (best - worst).max(axis=1)
        if scale_free:
            check_spans(spans, best)
        given = values[..., 0] if on == "state" else values
        return cls(sample, given, on, scale_free, best, upper, spans)

    def among(self, some: np.ndarray) -> "BeliefPlannedRewards":
        """The same for some of the rewards."""
        parts = {name: getattr(self, name)[some] for name in ("rewards", "best", "upper", "spans")}
        return replace(self, **parts)

    @property
    def shortfall(self) -> Float[np.ndarray, " N"]:
        """How much larger losses could be if the best policy had been found: in its worst state, to the upper bound."""
        short = np.maximum(self.upper - self.best, 0.0).max(axis=1)
        return short / self.spans if self.scale_free else short

    def losses(self, policies: Float[np.ndarray, "K S A"]) -> Float[np.ndarray, "K N"]:
        """ℓ_ij of these policies; in units of the spans if that is what was asked for."""
        count, size = self.sample.transitions.shape[:2]
        out = np.empty((len(policies), len(self.rewards)))
        block = max(1, min(POLICIES, NUMBERS // (size * max(count * size, len(self.rewards)))))
        marks = np.ascontiguousarray(self.best.T)
        rewards = self.rewards[..., None] if self.on == "state" else self.rewards
        received = np.ascontiguousarray(np.moveaxis(rewards, 0, -1))

        def work(begin: int, end: int) -> None:
            for first in range(begin, end, block):
                some = policies[first : min(first + block, end)]
                values = _values(self.sample, some, received)
                out[first : first + len(some)] = (marks - values).max(axis=1)

        in_parallel(work, len(policies), cost=size**2 * (count * size + len(self.rewards)))
        np.maximum(out, 0.0, out=out)
        if self.scale_free:
            out /= self.spans
        return out


def _good_policies(
    sample: MultiMDP, known: Environment, rewards: Float[np.ndarray, "N S _A"]
) -> Float[np.ndarray, "D S A"]:
    """Policies that are optimal in the mean environment for one of the rewards or its opposite, and some more.

    They serve all rewards: what is best for one is good for those like it. So only some have a search of their own.
    """
    found = []
    for signed in (rewards, -rewards):
        of_mean = solved(known, signed).actions
        found.extend(of_mean)
        for reward, actions in zip(signed[:SEARCHED], of_mean):
            found.extend(candidates(sample, reward[None], actions).policies)
    return np.eye(known.num_actions)[np.unique(found, axis=0)]


def _extreme_values(
    sample: MultiMDP, policies: Float[np.ndarray, "D S A"], rewards: Float[np.ndarray, "N S _A"]
) -> tuple[Float[np.ndarray, "N S"], Float[np.ndarray, "N S"]]:
    """The most and the least that one of the policies is worth on average, in each state on its own."""
    best, worst = np.full((2, *rewards.shape[1::-1]), -np.inf)  # [S, N]
    received = np.moveaxis(rewards, 0, -1)
    for begin in range(0, len(policies), POLICIES):
        values = _values(sample, policies[begin : begin + POLICIES], received)
        best, worst = np.maximum(best, values.max(axis=0)), np.maximum(worst, -values.min(axis=0))
    return best.T, -worst.T


def _values(
    sample: MultiMDP, policies: Float[np.ndarray, "P S A"], rewards: Float[np.ndarray, "S _A N"]
) -> Float[np.ndarray, "P S N"]:
    """V^π_ω."""
    on_states = rewards.shape[1] == 1
    gain = rewards[:, 0] if on_states else np.matmul(policies.swapaxes(0, 1), rewards).swapaxes(0, 1)
    return np.matmul(sample.mean_visits(policies), gain)
