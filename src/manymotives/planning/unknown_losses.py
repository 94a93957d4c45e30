"""How far policies are from optimal where the environment is not known: ℓ_ij = max_s V*_ωj(s) − V^{π_i}_ωj(s).

V^π_ω = E_ω (I − γP^π_ν)^{-1} r_π is linear in the reward, so a policy needs one average of inverses, and each reward
one product with it. V*_ω(s), the most that a memoryless policy is worth in s, is approximated from below by the best of
a few that are good (`unknown.candidates`). A policy better than these in every state sets the mark for itself: its
loss is 0. What no policy exceeds, E_ω V*_ν, is kept beside it.

The belief is replaced by environments drawn from it once, and everything is exact for these.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from manymotives.dynamics import DynamicsBelief
from manymotives.environment import Environment
from manymotives.planning.compiled import in_parallel
from manymotives.planning.possibilities import Possibilities
from manymotives.planning.problem import check_spans, checked_rewards
from manymotives.planning.unknown import candidates, optimal_values, solved

NUMBERS = 500_000  # of inverses, or of values, at a time: what the caches hold
POLICIES = 16  # at a time, at most


@dataclass(frozen=True, eq=False)
class BeliefContest:
    """As `Contest`: rewards planned for once, to be held against as many policies as one likes."""

    sample: Possibilities
    rewards: np.ndarray  # [N, S] or [N, S, A]
    on: str
    scale_free: bool
    best: np.ndarray  # [N, S] the most that a policy found is worth under the belief, in each state
    upper: np.ndarray  # [N, S] what the best is worth to somebody who knows the environment: none exceeds it
    spans: np.ndarray  # [N] what there is to lose: down to the worst policy found in the same way

    @classmethod
    def between(
        cls,
        belief: DynamicsBelief,
        rewards: np.ndarray,
        *,
        on: str = "state",
        scale_free: bool = False,
        environments: int,
        rng: np.random.Generator,
    ) -> "BeliefContest":
        """Of rewards [N, S] or [N, S, A]."""
        known, moves = belief.mean, belief.draws(environments, rng)
        values = np.ascontiguousarray(checked_rewards(known, rewards, on).values)  # [N, S, 1 or A]
        lives = ~known.is_terminal
        sample = Possibilities.from_moves(belief, moves).weighing(lives / lives.sum())  # all states: losses are, too
        best, lowest = (_best_values(sample, known, each) for each in (values, -values))
        upper = optimal_values(belief, moves, values).mean(axis=1)
        spans = (best + lowest).max(axis=1)
        if scale_free:
            check_spans(spans, best)
        given = values[..., 0] if on == "state" else values
        return cls(sample, given, on, scale_free, best, upper, spans)

    def among(self, some: np.ndarray) -> "BeliefContest":
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
        count, size = self.sample.moves.shape[:2]
        out = np.empty((len(policies), len(self.rewards)))
        block = max(1, min(POLICIES, NUMBERS // (size * max(count * size, len(self.rewards)))))
        marks = np.ascontiguousarray(self.best.T)
        received = np.ascontiguousarray(np.moveaxis(self.rewards, 0, -1))  # [S, N] or [S, A, N]

        def work(begin: int, end: int) -> None:
            for first in range(begin, end, block):
                some = policies[first : min(first + block, end)]
                gain = received if self.on == "state" else np.matmul(some.swapaxes(0, 1), received).swapaxes(0, 1)
                values = np.matmul(self.sample.mean_visits(some), gain)
                out[first : first + len(some)] = (marks - values).max(axis=1)

        in_parallel(work, len(policies), cost=size**2 * (count * size + len(self.rewards)))
        np.maximum(out, 0.0, out=out)
        if self.scale_free:
            out /= self.spans
        return out


def _best_values(
    sample: Possibilities, known: Environment, rewards: Float[np.ndarray, "N S _A"]
) -> Float[np.ndarray, "N S"]:
    """The most that one of the candidates is worth on average, in each state on its own."""
    best = np.empty((len(rewards), known.num_states))
    for n, first in enumerate(solved(known, rewards).actions):
        reward = rewards[n : n + 1]
        good = {actions.tobytes(): actions for actions in candidates(sample, reward, first).policies}.values()
        best[n] = np.max([sample.values(actions, reward).mean(axis=0) for actions in good], axis=0)
    return best
