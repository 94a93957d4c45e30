"""What is best, and how good is this: optimal values and policies, the value of a given policy, and its loss.

NumPy in, NumPy out: compiled for the CPU, in float64. JAX in, JAX out: traceable and differentiable, on the device
and in the precision of what came in.
"""

import warnings
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from manymotives.arrays import is_jax, numerics
from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.planning.belief import BeliefPlan, plan_under_belief
from manymotives.planning.compiled import evaluate_dense, plan_dense, suits
from manymotives.planning.finite_horizon import checked_depth, plan_ahead
from manymotives.planning.problem import (
    Rewards,
    check_known,
    checked_discount,
    checked_policies,
    checked_rewards,
    checked_start,
    checked_temperature,
)
from manymotives.planning.sparse import evaluate_sparse, plan_sparse

CONVERGED = 1e-9  # Bellman residual, relative to the size of the values where that exceeds 1


class Plan(NamedTuple):
    """Optimal values and policies, as arrays that begin with the batch shape of the rewards.

    `actions` breaks ties in favour of the lowest index; actions are tied if their values differ by no more than
    rounding errors. `q` is −inf for actions that do not exist. No action is chosen in terminal states, where the first
    action is a placeholder.
    """

    q: Any  # [..., S, A] values of acting once and then optimally
    value: Any  # [..., S]
    actions: Any  # [..., S]
    residual: Any  # [...] largest |V − TV|: the value is wrong by at most residual / (1 − γ)
    converged: Any  # [...] whether the residual is at rounding: below 1e-9, or 1e-9 of the largest value
    solves: Any  # [...] linear systems solved, a measure of the work (rewards planned together share the largest)
    inverse_temperature: Any = None  # [...] of soft optimality

    @property
    def policy(self) -> Any:
        """π(a|s), [..., S, A]: one-hot at `actions`, or softmax(c q) for soft optimality."""
        xp = numerics(self.q)
        if self.inverse_temperature is None:
            return (self.actions[..., None] == xp.arange(self.q.shape[-1])).astype(self.q.dtype)
        above = self.q - self.q.max(axis=-1, keepdims=True)
        with np.errstate(over="ignore"):  # of what is never done at this temperature
            weight = xp.exp(self.inverse_temperature[..., None, None] * above)
        return weight / weight.sum(axis=-1, keepdims=True)


@overload
def plan(
    environment: Environment,
    rewards: ArrayLike,
    *,
    on: str = "state",
    inverse_temperature: ArrayLike | None = None,
    start: ArrayLike | None = None,
    discount: ArrayLike | None = None,
    depth: int | None = None,
) -> Plan: ...
@overload
def plan(
    environment: DynamicsBelief,
    rewards: ArrayLike,
    *,
    on: str = "state",
    environments: int | None = None,
    seed: int = 0,
) -> BeliefPlan: ...
def plan(
    environment: Environment | DynamicsBelief,
    rewards: ArrayLike,
    *,
    on: str = "state",
    inverse_temperature: ArrayLike | None = None,
    start: ArrayLike | None = None,
    discount: ArrayLike | None = None,
    depth: int | None = None,
    environments: int | None = None,
    seed: int = 0,
) -> Plan | BeliefPlan:
    """Optimal values and policies for each reward of a batch.

    Parameters
    ----------
    environment
        An `Environment`; or a `DynamicsBelief`, for the best policy found without knowing the environment, and bounds
        on the value of the best such policy (a `BeliefPlan`).
    rewards
        [..., S], or [..., S, A] with `on="state_action"`, with any batch shape.
    on
        What has a reward: "state" or "state_action".
    inverse_temperature
        If None, greedy optimality, V(s) = max_a Q(s, a). With a positive number c (or one for each reward), soft
        optimality, also called logit or maximum causal entropy: V(s) = log Σ_a exp(c Q(s, a)) / c.
    start
        Actions [..., S] from which policy iteration begins, such as the plan of a similar reward.
    discount
        A number above 0 and below 1, or one for each reward. If None, the environment's.
    depth
        The number of steps that agents look ahead. If None, an infinite horizon. With a whole number n, agents plan n
        steps ahead, afresh at every step; `q` contains the values of actions with n steps left, and `policy` the best
        actions by these values. With n = 1, agents are myopic. `evaluate` gives the long-run value of such a policy,
        and `loss` its long-run loss.
    environments, seed
        Under a belief: the number of environments drawn from it (by default 200), and the seed of these draws.

    Returns
    -------
    Plan
        `value` [..., S], `q` [..., S, A], `actions` [..., S], `policy` [..., S, A] and `converged`; under a belief, a
        `BeliefPlan`.
    """
    if isinstance(environment, DynamicsBelief):
        given_words: dict[str, Any] = {"inverse_temperature": inverse_temperature, "start": start}
        given_words |= {"discount": discount, "depth": depth}
        for word in (word for word, value in given_words.items() if value is not None):
            raise InputError(f"under a belief a plan has no {word}. Leave it out, or plan in belief.mean.")
        return plan_under_belief(environment, rewards, on=on, environments=environments, seed=seed)
    check_known(environment)
    if environments is not None:
        raise InputError("environments= is for a DynamicsBelief, and this environment is known. Leave it out.")
    given = checked_rewards(environment, rewards, on)
    temperatures = checked_temperature(inverse_temperature, given.batch)
    first = checked_start(environment, start, given.batch)
    discounts, steps = checked_discount(discount, given.batch), checked_depth(depth, "plan: depth")
    flat = _flattened(given)
    if temperatures is not None:
        temperatures = temperatures.reshape(-1)
    if discounts is not None:
        discounts = discounts.reshape(-1)
    if first is not None:
        first = first.reshape(-1, environment.num_states).astype(int)

    xp = numerics(given.values, temperatures, discounts)
    if steps is not None and xp is not np:
        raise InputError("plan: depth is not available for JAX arrays yet. Give NumPy arrays, or leave it out.")
    if steps is not None and first is not None:
        raise InputError("plan: start is for an infinite horizon. Leave it out, or leave out depth.")
    if xp is not np:
        from manymotives.planning.dense import plan_traced

        solve: Any = plan_traced
        flat = xp.asarray(flat)
        flat = flat if xp.issubdtype(flat.dtype, xp.floating) else flat.astype(float)
        temperatures = None if temperatures is None else xp.asarray(temperatures)
        discounts = None if discounts is None else xp.asarray(discounts)
    else:
        solve = plan_dense if suits(environment) else plan_sparse
    if steps is not None:
        found = plan_ahead(environment, flat, temperatures, discounts, steps)
    else:
        found = solve(environment, flat, temperatures, first, discounts)

    converged = found.residual <= CONVERGED
    if xp is not np or not converged.all():  # large values, or float32: judge by what the precision can hold
        scale = xp.maximum(xp.abs(found.value).max(axis=-1), 1.0)
        converged = found.residual <= scale * max(CONVERGED, 64 * float(np.finfo(found.q.dtype).eps))
    arrays = found._asdict() | {"converged": converged}
    shaped = {name: array.reshape(given.batch + array.shape[1:]) for name, array in arrays.items()}
    soft = None if temperatures is None else temperatures.reshape(given.batch)
    return Plan(**shaped, inverse_temperature=soft)


def evaluate(
    environment: Environment,
    policies: ArrayLike,
    rewards: ArrayLike,
    *,
    on: str = "state",
    discount: ArrayLike | None = None,
) -> Any:
    """The value V^π [..., S] of policies [..., S, A] for rewards [..., S]: expected discounted sums, in their unit.

    It is the long-run value, also for policies that look only a few steps ahead (`plan` with a depth).

    Parameters
    ----------
    environment
        An `Environment`.
    policies
        π(a|s) [..., S, A]; batch shapes of policies and rewards broadcast.
    rewards
        [..., S], or [..., S, A] with `on="state_action"`.
    on
        What has a reward: "state" or "state_action".
    discount
        A number, or one for each element of the batch. If None, the environment's.

    Returns
    -------
    ndarray
        V^π [..., S].
    """
    check_known(environment)
    given = checked_rewards(environment, rewards, on)
    checked = checked_policies(environment, policies)
    try:
        batch = np.broadcast_shapes(given.batch, checked.shape[:-2])
    except ValueError:
        raise InputError(
            f"policies of batch shape {list(checked.shape[:-2])} do not fit rewards of batch shape {list(given.batch)}."
        ) from None
    discounts = checked_discount(discount, batch)
    xp = numerics(given.values, checked, discounts)
    num_states, num_actions = environment.num_states, environment.num_actions
    flat_rewards = xp.broadcast_to(given.values, (*batch, *given.values.shape[-2:]))
    flat_rewards = flat_rewards.reshape(-1, *given.values.shape[-2:])
    flat_policies = xp.broadcast_to(checked, (*batch, num_states, num_actions))
    flat_policies = flat_policies.reshape(-1, num_states, num_actions)
    each = None if discounts is None else xp.asarray(discounts).reshape(-1)
    if xp is not np:
        from manymotives.planning.dense import evaluate_traced

        value: Any = evaluate_traced(environment, flat_policies, flat_rewards, each)
    elif suits(environment):
        whole = np.ascontiguousarray(flat_policies), np.ascontiguousarray(flat_rewards)
        value = evaluate_dense(environment, *whole, each)
    else:
        value = evaluate_sparse(environment, flat_policies, flat_rewards, each)
    return value.reshape(*batch, num_states)


def loss(
    environment: Environment,
    policies: ArrayLike,
    rewards: ArrayLike,
    *,
    on: str = "state",
    discount: ArrayLike | None = None,
) -> Any:
    """The paper's L1 loss, Σ_s V*(s) − V^π(s), for each policy–reward pair of the batch, in the unit of the rewards.

    V* and V^π are long-run values, also for policies that look only a few steps ahead (`plan` with a depth).

    Parameters
    ----------
    environment
        An `Environment`.
    policies
        π(a|s) [..., S, A]; batch shapes of policies and rewards broadcast.
    rewards
        [..., S], or [..., S, A] with `on="state_action"`.
    on
        What has a reward: "state" or "state_action".
    discount
        A number, or one for each element of the batch. If None, the environment's.

    Returns
    -------
    ndarray
        One number for each policy–reward pair of the batch.
    """
    check_known(environment)
    best = reliable_plan(environment, rewards, on=on, discount=discount).value
    attained = evaluate(environment, policies, rewards, on=on, discount=discount)
    # rounding may leave −1e-15 for an optimal policy
    return numerics(attained).maximum((best - attained).sum(axis=-1), 0.0)


def reliable_plan(environment: Environment, rewards: Any, **options: Any) -> Plan:
    """A plan for others to build on, who would not look at `converged` themselves: warns if it is not."""
    found = plan(environment, rewards, **options)
    if not is_jax(found.converged) and not np.all(found.converged):
        failed = int((~found.converged).sum())
        warnings.warn(f"planning did not converge for {failed} of {found.converged.size} rewards.", stacklevel=3)
    return found


def _flattened(given: Rewards) -> Any:
    shape = given.values.shape[-2:]
    flat = given.values.reshape(-1, *shape)
    return flat if given.is_jax else np.ascontiguousarray(flat)
