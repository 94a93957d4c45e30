"""Many environments, one policy: what it is worth in each of them, and which policy is best on average.

    Q_k(s, a) = ρ_k(s, a) + γ Σ_s' T_k(s'|s, a) V_k(s')

**Backward induction** for several environments at once (Dimitrakakis 2011): π(s) = argmax_a Σ_k Q_k(s, a), and each
environment keeps its own value of the common policy, V_k(s) = Q_k(s, π(s)). It need not settle, nor is what it
settles on always best: where a policy leads depends on k too.

**Switches**: with G_k = (I − γP_k)^{-1}, another action a in one state s changes the value of a policy by

    ΔV_k = G_k(·, s) (Q_k(s, a) − V_k(s)) / (1 − γ Σ_s' (T_k(s'|s, a) − T_k(s'|s, π(s))) G_k(s', s))

exactly. The switch that gains most on average is made, or several that together gain more, until none gains: no single
change improves the policy then.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int

from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.planning.problem import allowed_actions

LARGEST = 2**30  # bytes of transitions held at a time
STAGES = 1000  # of backward induction, at most
QUIET = 20  # stages without a policy that is new, after which there will be none
SMALL = 16  # states
SLIGHT = 1e-12  # of the largest value: a gain below this is rounding
SWITCHES = 20  # rounds for each state, at most; they end by themselves, as each gains


@dataclass(frozen=True, eq=False)
class MultiMDP:
    """Environments that are equally likely to be the true one."""

    transitions: Float[np.ndarray, "K S A S"]  # γT_k; zero where an action does not exist, and in terminal states
    allowed: Bool[np.ndarray, "S A"]
    start: Float[np.ndarray, " S"]  # what weighs states when policies are compared

    @classmethod
    def from_transitions(cls, transitions: Float[np.ndarray, "K S A S"], known: Environment) -> "MultiMDP":
        """Of transitions drawn, perhaps together with rewards; `known` is what the environments have in common."""
        return cls(known.discount * transitions, allowed_actions(known), known.start)

    @classmethod
    def from_probabilities(cls, belief: DynamicsBelief, probabilities: Float[np.ndarray, "K E"]) -> "MultiMDP":
        """Of draws from a belief, as `DynamicsBelief.draws` gives them."""
        known = belief.mean
        shape = (len(probabilities), known.num_states, known.num_actions, known.num_states)
        if 8 * np.prod(shape, dtype=float) > LARGEST:
            raise InputError(
                f"{len(probabilities)} environments with {known.num_states} × {known.num_actions} states and actions "
                f"would take {8 * np.prod(shape, dtype=float) / 2**30:.1f} GiB. Use fewer, or the mean of the belief."
            )
        transitions = np.zeros(shape)
        transitions[:, *belief.transition_index.T] = probabilities
        return cls.from_transitions(transitions, known)

    def weighing(self, start: Float[np.ndarray, " S"]) -> "MultiMDP":
        """The same with other weights of states."""
        return replace(self, start=start)

    # ---- what policies are worth ---------------------------------------------------------------------------

    def values(self, actions: Int[np.ndarray, " S"], rewards: Float[np.ndarray, "_ S _A"]) -> Float[np.ndarray, "K S"]:
        """V^π_k of a policy; rewards [K or 1, S, A or 1]."""
        of_policy = self.transitions[:, self._states, actions]
        gain = np.broadcast_to(self._gain(actions, rewards), of_policy.shape[:2])
        return np.linalg.solve(self._unit - of_policy, gain[..., None])[..., 0]

    def mean_visits(self, policies: Float[np.ndarray, "P S A"]) -> Float[np.ndarray, "P S S"]:
        """Σ_k (I − γP_k)^{-1} / K of each policy: its value is linear in the reward, and this is the matrix."""
        count, size = self.transitions.shape[:2]
        steps = np.matmul(self._pairs, policies.transpose(1, 2, 0)).reshape(size, size, count * len(policies))
        visits = _inverted(self._unit[..., None] - steps).reshape(size, size, count, len(policies))
        return np.ascontiguousarray(visits.mean(axis=2).transpose(2, 0, 1))

    def action_values(self, values: np.ndarray, rewards: np.ndarray) -> Float[np.ndarray, "K S A"]:
        """Q_k(s, a) before values [K, S]."""
        count, size, width, _ = self.transitions.shape
        ahead = np.matmul(self.transitions.reshape(count, size * width, size), values[..., None])
        return rewards + ahead.reshape(count, size, width)

    # ---- which policy is best ------------------------------------------------------------------------------

    def induced(
        self, rewards: Float[np.ndarray, "_ S _A"], first: Int[np.ndarray, " S"]
    ) -> tuple[Int[np.ndarray, " S"], bool]:
        """Backward induction from the values of a first policy, and whether it settled.

        Of policies among which it goes on changing, the one that is best.
        """
        values, actions = self.values(first, rewards), first
        last_seen, newest = {first.tobytes(): 0}, 0
        for stage in range(1, STAGES + 1):
            q = self.action_values(values, rewards)
            average = np.where(self.allowed, q.mean(axis=0), -np.inf)
            taken = average[self._states, actions]
            gains = average.max(axis=1) > taken + SLIGHT * max(1.0, float(np.abs(taken).max()))
            actions = np.where(gains, average.argmax(axis=1), actions)  # a tie is no reason to change
            values = q[:, self._states, actions]
            newest = newest if actions.tobytes() in last_seen else stage
            last_seen[actions.tobytes()] = stage
            if stage - newest >= QUIET:
                break
        recent = [np.frombuffer(key, dtype=actions.dtype) for key, seen in last_seen.items() if seen > stage - QUIET]
        worth = [self.average(self.values(each, rewards)) for each in recent]
        return recent[int(np.argmax(worth))].copy(), len(recent) == 1

    def switched(
        self, rewards: Float[np.ndarray, "_ S _A"], first: Int[np.ndarray, " S"]
    ) -> tuple[Int[np.ndarray, " S"], bool]:
        """A policy at least as good as the first that no change in one state improves, and whether it was reached."""
        actions = first.copy()
        for _ in range(SWITCHES * len(actions)):
            visits = np.linalg.inv(self._unit - self.transitions[:, self._states, actions])  # G_k
            values = (visits * self._gain(actions, rewards)[:, None]).sum(axis=-1)
            returns = np.matmul(self.transitions, visits.swapaxes(1, 2)[..., None])[
                ..., 0
            ]  # γ Σ_s' T_k(s'|s, a) G_k(s', s)
            slope = 1 - returns + returns[:, self._states, actions][..., None]
            better = self.action_values(values, rewards) - values[..., None]
            gained = ((self.start @ visits)[..., None] * better / slope).mean(axis=0)
            gained[~self.allowed] = -np.inf
            best, slight = gained.max(axis=1), SLIGHT * max(1.0, float(np.abs(values).max()))
            if best.max() <= slight:
                return actions, True
            order = np.argsort(-best)[: int((best > slight).sum())]
            goal = self.average(values) + best.max()
            while True:  # many at once, if together they gain as much as the best alone; half of them, if not
                trial = actions.copy()
                trial[order] = gained[order].argmax(axis=1)
                if len(order) == 1 or self.average(self.values(trial, rewards)) >= goal:
                    break
                order = order[: (len(order) + 1) // 2]
            actions = trial
        return actions, False

    def average(self, values: Float[np.ndarray, "K S"]) -> float:
        """The value of starting where episodes start, in all environments together."""
        return float(values.mean(axis=0) @ self.start)

    # ---- inside --------------------------------------------------------------------------------------------

    @cached_property
    def _states(self) -> np.ndarray:
        return np.arange(self.transitions.shape[1])

    @cached_property
    def _pairs(self) -> np.ndarray:
        """The same transitions as [S, S·K, A]: s; s' and k; a."""
        count, size, width, _ = self.transitions.shape
        return np.ascontiguousarray(self.transitions.transpose(1, 3, 0, 2)).reshape(size, size * count, width)

    @cached_property
    def _unit(self) -> np.ndarray:
        return np.eye(self.transitions.shape[1])

    def _gain(self, actions: np.ndarray, rewards: np.ndarray) -> np.ndarray:
        """[K or 1, S] what is received at once."""
        return rewards[..., 0] if rewards.shape[-1] == 1 else rewards[:, self._states, actions]


def _inverted(matrices: Float[np.ndarray, "S S B"]) -> Float[np.ndarray, "S S B"]:
    """The inverse of I − γP for many P, in the place of what came in.

    Small ones by Gauss–Jordan elimination of all at once: six times as fast as one after the other at 4 states, three
    times at 8, no faster past 20. The matrices are diagonally dominant by rows, so no pivoting is needed.
    """
    if len(matrices) > SMALL:
        return np.moveaxis(np.linalg.inv(np.moveaxis(matrices, -1, 0)), 0, -1)
    for p, row in enumerate(matrices):
        scale = 1 / row[p]
        row[p] = 1.0
        row *= scale
        factor = matrices[:, p].copy()
        factor[p] = 0.0
        matrices[np.arange(len(matrices)) != p, p] = 0.0
        matrices -= factor[:, None] * row
    return matrices
