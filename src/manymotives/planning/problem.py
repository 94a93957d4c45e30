"""The door to planning: rewards and policies of any batch shape are checked here and trusted afterwards."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from manymotives.arrays import is_jax, is_traced, numerics
from manymotives.data.alignment import aligned
from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.errors import InputError, quoted

LIMIT = 1000  # policy iterations; ordinary problems need fewer than 20, adversarial ones up to the number of states
CONSTANT = 1e-11  # of the size of values: a span below this is rounding
REWARD_LIMIT = 1e290  # rewards past this would meet the marker of forbidden actions
_is_alone: ContextVar[bool] = ContextVar("_is_alone", default=False)


@dataclass(frozen=True, eq=False)
class Rewards:
    """Rewards as planners want them: [*batch, S, 1] on states, [*batch, S, A] on pairs."""

    values: Any
    batch: tuple[int, ...]
    is_jax: bool  # JAX in, JAX out


class Solution(NamedTuple):
    """What every planner returns for rewards [B, S, 1 or A]; NumPy or JAX arrays."""

    q: Any  # [B, S, A]; −inf where an action does not exist
    value: Any  # [B, S]
    actions: Any  # [B, S]; the lowest index among actions that rounding cannot tell apart
    residual: Any  # [B] max |V − TV|
    solves: Any  # [B] linear systems solved


def check_known(environment: Any) -> None:
    """Refuse what is not an environment."""
    if isinstance(environment, DynamicsBelief):
        raise InputError(
            "a known environment is needed here; found a DynamicsBelief. Use its mean, or average over its samples."
        )
    if not isinstance(environment, Environment):
        raise InputError(f"environment must be mm.Environment; found {type(environment).__name__}.")


def checked_rewards(environment: Environment, rewards: Any, on: str) -> Rewards:
    """Rewards with the shape that `on` promises; zero in terminal states where they lie on pairs."""
    if on not in ("state", "state_action"):
        raise InputError(f'on must be "state" or "state_action"; found {quoted(on)}.')
    axes = {"state": environment.states} | ({"action": environment.actions} if on == "state_action" else {})
    rewards = aligned(rewards, "rewards", **axes)
    traceable = is_jax(rewards)
    values = rewards if traceable else _numbers(rewards, "rewards")
    if traceable and values.dtype.name in ("float16", "bfloat16"):
        raise InputError(f"rewards in {values.dtype} are too imprecise for planning. Use float32 or float64.")
    num_states, num_actions = environment.num_states, environment.num_actions
    expected = (num_states,) if on == "state" else (num_states, num_actions)
    if values.shape[-len(expected) :] != expected:
        described = f"[..., {', '.join(map(str, expected))}]"
        hint = ""
        if on == "state" and values.shape[-2:] == (num_states, num_actions):
            hint = ' For rewards on pairs pass on="state_action".'
        raise InputError(
            f"rewards on {on.replace('_', '–')}s must have the shape {described}; found {list(values.shape)}.{hint}"
        )
    if not traceable and values.size and not (values.max() < REWARD_LIMIT and values.min() > -REWARD_LIMIT):
        position = np.argwhere(~(np.abs(values) < REWARD_LIMIT))[0]
        state = environment.states[position[-len(expected)]]
        raise InputError(
            f"the reward of state {quoted(state)} is {values[tuple(position)]:g}. Rewards must be finite numbers."
        )
    if on == "state":
        return Rewards(values[..., None], values.shape[:-1], traceable)
    # nothing is chosen in a terminal state, so no pair is rewarded there
    lives = ~environment.is_terminal[:, None]
    return Rewards(values * np.broadcast_to(lives, values.shape), values.shape[:-2], traceable)


def checked_policies(environment: Environment, policies: Any) -> Any:
    """Probabilities [..., S, A] over available actions; rows of terminal states do not matter."""
    policies = aligned(policies, "policies", state=environment.states, action=environment.actions)
    values = policies if is_jax(policies) else _numbers(policies, "policies")
    expected = (environment.num_states, environment.num_actions)
    if values.shape[-2:] != expected:
        raise InputError(
            f"policies must have the shape [..., {expected[0]}, {expected[1]}] (states, actions); found "
            f"{list(values.shape)}."
        )
    nominal = np.eye(1, expected[1])[0]  # as in `allowed_actions`
    if is_jax(values):
        ends = np.broadcast_to(environment.is_terminal[:, None], values.shape)
        return numerics(values).where(ends, np.broadcast_to(nominal, values.shape).astype(values.dtype), values)
    values = np.where(environment.is_terminal[:, None], nominal, values)
    wrong = (
        ~np.isfinite(values)
        | (values < -1e-12)
        | (~allowed_actions(environment) & (values > 1e-12))
        | (np.abs(values.sum(axis=-1, keepdims=True) - 1) > 1e-6)
    )
    if wrong.any():
        state, action = np.argwhere(wrong)[0][-2:]
        found = values[np.nonzero(wrong.any(axis=(-2, -1)))][0] if values.ndim > 2 else values
        name = environment.states[state]
        if abs(found[state].sum() - 1) > 1e-6:
            raise InputError(
                f"a policy's probabilities in state {quoted(name)} sum to {found[state].sum():.6g}, not 1."
            )
        raise InputError(
            f"a policy takes action {quoted(environment.actions[action])} in state {quoted(name)} with "
            f"probability {found[state, action]:.6g}, but the action is not available there, or this is not a "
            "probability."
        )
    return values


def checked_start(environment: Environment, start: Any, batch: tuple[int, ...]) -> Any:
    """Actions [..., S] to start policy iteration from, one for each reward of the batch."""
    if start is None:
        return None
    if is_traced(start):
        return numerics(start).broadcast_to(start, (*batch, environment.num_states))
    actions = np.asarray(aligned(start, "start", state=environment.states))
    if actions.shape[-1:] != (environment.num_states,) or not np.issubdtype(actions.dtype, np.integer):
        raise InputError(
            f"start must hold action indices of shape [..., {environment.num_states}]; found {actions.dtype} of shape "
            f"{list(actions.shape)}."
        )
    if actions.size and (actions.min() < 0 or actions.max() >= environment.num_actions):
        raise InputError(f"start must hold action indices from 0 to {environment.num_actions - 1}.")
    actions = np.where(environment.is_terminal, 0, actions)
    exists = allowed_actions(environment)[np.arange(environment.num_states), actions]
    if not exists.all():
        state = np.argwhere(~exists)[0][-1]
        raise InputError(
            f"start takes an action in state {quoted(environment.states[state])} that is not available there."
        )
    try:
        return np.broadcast_to(actions, (*batch, environment.num_states))
    except ValueError:
        raise InputError(
            f"start of shape {list(actions.shape)} does not fit a batch of rewards of shape {list(batch)}."
        ) from None


def checked_temperature(inverse_temperature: Any, batch: tuple[int, ...]) -> Any:
    """Inverse temperatures broadcast over the batch of rewards; None for greedy optimality."""
    if inverse_temperature is None:
        return None
    values = inverse_temperature
    if not is_jax(values):
        values = _numbers(values, "inverse temperatures")
    if not is_traced(values) and not (np.isfinite(values).all() and (values > 0).all()):
        raise InputError("the inverse temperature of soft optimality must be positive and finite.")
    return _over_batch(values, batch, "inverse temperatures")


def checked_discount(discount: Any, batch: tuple[int, ...]) -> Any:
    """Discounts broadcast over the batch of rewards; None: the environment's."""
    if discount is None:
        return None
    values = discount if is_jax(discount) else _numbers(discount, "discounts")
    if not is_traced(values) and not ((values > 0) & (values < 1)).all():
        raise InputError("discounts of rewards must be above 0 and below 1.")
    return _over_batch(values, batch, "discounts")


def _over_batch(values: Any, batch: tuple[int, ...], what: str) -> Any:
    """Numbers broadcast over the batch of rewards."""
    try:
        return numerics(values).broadcast_to(values, batch)
    except ValueError:
        raise InputError(
            f"{what} of shape {list(values.shape)} do not fit a batch of rewards of shape {list(batch)}."
        ) from None


def check_spans(span: np.ndarray, best: np.ndarray) -> None:
    """Refuse rewards without anything to lose: `span` [N] beside values `best` [N, S]."""
    flat = span <= max(CONSTANT, 64 * np.finfo(best.dtype).eps) * np.abs(best).max(axis=1)
    if flat.any():
        raise InputError(
            f"reward {int(np.argmax(flat))} is constant, so every policy is optimal for it and its scale-free "
            "loss is undefined. Leave it out, or use scale_free=False."
        )


def cores() -> int:
    """How many cores this process may use; one, inside `one_core`."""
    if _is_alone.get():
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def one_core() -> Iterator[None]:
    """Within it, this thread computes on one core: the others have work of their own."""
    before = _is_alone.set(True)
    try:
        yield
    finally:
        _is_alone.reset(before)


def rounding(size: Any, terms: int, epsilon: float) -> Any:
    """What cannot be told apart in a backup of values up to `size`: twice the error bound of a dot product."""
    return max(64.0, 2.0 * terms) * epsilon * size


def _numbers(values: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} must be numbers, in an array or in lists of equal lengths.") from None


def allowed_actions(environment: Environment) -> Bool[np.ndarray, "S A"]:
    """Actions a planner may compare: the available ones, and a nominal one, the first, in a terminal state.

    One, not all: soft optimality would count several as a choice, worth log(A) / c, where nothing is chosen.
    """
    allowed = environment.available.copy()
    allowed[environment.is_terminal, 0] = True
    return allowed
