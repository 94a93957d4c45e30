"""How far many policies are from optimal for many rewards: ℓ_ij = max_s V*_j(s) − V^{π_i}_j(s) (paper, section 4)."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from jaxtyping import Float
from numpy.typing import ArrayLike

from manymotives.arrays import is_jax, is_traced
from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.planning.belief import checked_environments, generator
from manymotives.planning.belief_losses import BeliefPlannedRewards
from manymotives.planning.compiled import discounted, in_parallel, suits
from manymotives.planning.loss_kernels import POLICIES, fill_losses
from manymotives.planning.problem import check_known, check_spans, checked_policies, checked_rewards
from manymotives.planning.simd import WIDTH
from manymotives.planning.verbs import reliable_plan

NUMBERS = 4_000_000  # on the right-hand side of a sparse solve, at a time


def loss_matrix(
    environment: Environment | DynamicsBelief,
    policies: ArrayLike,
    rewards: ArrayLike,
    *,
    on: str = "state",
    scale_free: bool = False,
    environments: int | None = None,
    seed: int = 0,
) -> Any:
    """The loss [K, N] of policies [K, S, A] for rewards [N, S]: the value lost in the worst state.

    Parameters
    ----------
    environment
        An `Environment`; or a `DynamicsBelief`: V^π is then E V^π under the belief, and V* the value of the best
        memoryless policy found (docs/unknown-dynamics.md).
    policies
        π(a|s) [K, S, A].
    rewards
        [N, S] or [N, S, A].
    on
        What has a reward: "state", or "state_action" with rewards [N, S, A].
    scale_free
        Whether to divide the loss by max_s V*(s) − V°(s), where V° is the value of the worst policy. Without this,
        every policy is nearly optimal for a reward that hardly differs between states.
    environments, seed
        Under a belief: the number of environments drawn from it (by default 200), and the seed of these draws.

    Returns
    -------
    ndarray
        max_s V*(s) − V^π(s), [K, N].
    """
    belief = environment if isinstance(environment, DynamicsBelief) else None
    known = environment.mean if isinstance(environment, DynamicsBelief) else environment
    check_known(known)
    if belief is None and environments is not None:
        raise InputError("environments= is for a DynamicsBelief, and this environment is known. Leave it out.")
    given = checked_rewards(known, rewards, on)
    checked = checked_policies(known, policies)
    for word, shape, batch in (
        ("policies", checked.shape, checked.shape[:-2]),
        ("rewards", np.shape(rewards), given.batch),
    ):
        if len(batch) != 1:
            raise InputError(f"{word} must be a list of several, with one axis in front; found {list(shape)}.")
    if given.batch == (0,):
        raise InputError("there are no rewards.")
    values = given.values if on == "state_action" else given.values[..., 0]
    traceable = is_jax(given.values, checked)
    if belief is not None:
        if traceable:
            raise InputError(
                "under a belief, rewards and policies must be NumPy arrays; JAX arrays are for known environments."
            )
        count, rng = checked_environments(environments), generator(seed)
        made = BeliefPlannedRewards.of_rewards(
            belief, values, on=on, scale_free=scale_free, environments=count, rng=rng
        )
        return made.losses(checked)
    if traceable:
        from manymotives.planning.dense_losses import losses_traced

        found = losses_traced(known, checked, given.values)
        if not scale_free:
            return found
        best = reliable_plan(known, values, on=on).value
        scale = spans(known, values, on=on, best=best)
        if not is_traced(scale):
            check_spans(np.asarray(scale), np.asarray(best))
        return found / scale[None]
    return PlannedRewards.of_rewards(known, values, on=on, scale_free=scale_free).losses(checked)


def spans(environment: Environment, rewards: Any, *, on: str = "state", best: Any = None) -> Any:
    """What there is to lose [N]: max_s V*(s) − V°(s) between the best policy and the worst; `best` is V*, if known."""
    if best is None:
        best = reliable_plan(environment, rewards, on=on).value
    return (best + reliable_plan(environment, -rewards, on=on).value).max(axis=-1)


@dataclass(frozen=True, eq=False)
class PlannedRewards:
    """Rewards with their optimal values, planned for once: losses of any number of policies follow."""

    environment: Environment
    rewards: np.ndarray  # [N, S] or [N, S, A]
    on: str
    scale_free: bool
    best: np.ndarray  # V* [N, S]
    regrets: np.ndarray  # V* − Q*: tiles [N / WIDTH, S·A, WIDTH] for the compiled loops, or [N, S·A]

    @classmethod
    def of_rewards(
        cls, environment: Environment, rewards: np.ndarray, *, on: str = "state", scale_free: bool = False
    ) -> "PlannedRewards":
        """Of rewards [N, S] or [N, S, A]."""
        found = reliable_plan(environment, rewards, on=on)
        regret = np.where(np.isfinite(found.q), np.maximum(found.value[..., None] - found.q, 0.0), 0.0)
        regret = regret.reshape(len(regret), -1)
        if suits(environment):
            missing = -len(regret) % WIDTH
            regret = np.concatenate([regret, np.zeros((missing, regret.shape[1]))])
            regret = np.ascontiguousarray(regret.reshape(-1, WIDTH, regret.shape[1]).swapaxes(1, 2))
        made = cls(environment, rewards, on, scale_free, found.value, regret)
        if scale_free:
            check_spans(made.spans, made.best)
        return made

    def among(self, some: np.ndarray) -> "PlannedRewards":
        """The same for some of the rewards."""
        return PlannedRewards.of_rewards(self.environment, self.rewards[some], on=self.on, scale_free=self.scale_free)

    @cached_property
    def spans(self) -> np.ndarray:
        """What there is to lose [N]."""
        return spans(self.environment, self.rewards, on=self.on, best=self.best)

    def losses(self, policies: Float[np.ndarray, "K S A"]) -> Float[np.ndarray, "K N"]:
        """ℓ_ij of these policies; in units of the spans if that is what was asked for."""
        found = self._dense(policies) if suits(self.environment) else self._sparse(policies)
        if self.scale_free:
            found /= self.spans
        return found

    def _dense(self, policies: np.ndarray) -> np.ndarray:
        policies = np.require(policies, requirements=["C_CONTIGUOUS", "WRITEABLE"])
        out = np.empty((len(policies), len(self.regrets) * WIDTH))
        transitions = discounted(self.environment)

        def work(begin: int, end: int) -> None:
            fill_losses(transitions, policies, self.regrets, begin, end, out)

        in_parallel(work, len(policies), cost=policies.shape[1] ** 2 * out.shape[1], block=POLICIES)
        return out[:, : len(self.rewards)]

    def _sparse(self, policies: np.ndarray) -> np.ndarray:
        """One sparse factorisation a policy; as many rewards at a time as memory likes."""
        environment = self.environment
        num_states, num_actions = environment.num_states, environment.num_actions
        out = np.empty((len(policies), len(self.rewards)))
        step = max(1, NUMBERS // num_states)
        rows, pairs = np.repeat(np.arange(num_states), num_actions), np.arange(num_states * num_actions)
        for k, policy in enumerate(policies):
            chosen = sp.csr_array((policy.ravel(), (rows, pairs)), shape=(num_states, len(pairs)))
            matrix = sp.eye_array(num_states) - environment.discount * (chosen @ environment.matrix)
            factors = spl.splu(matrix.tocsc())
            for begin in range(0, len(self.rewards), step):
                part = slice(begin, begin + step)
                out[k, part] = factors.solve(chosen @ self.regrets[part].T).max(axis=0)
        return np.maximum(out, 0.0, out=out)
