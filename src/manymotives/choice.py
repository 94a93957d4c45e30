"""How agents choose: from values to the probabilities of actions."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from manymotives.environment import Environment
from manymotives.errors import InputError
from manymotives.planning import reliable_plan


@runtime_checkable
class ChoiceRule(Protocol):
    """Anything that turns rewards into a stationary policy."""

    def policies(self, environment: Environment, rewards: Any, *, on: str = "state") -> Any:
        """π(a|s) for each reward of the batch, [..., S, A]."""
        ...


@dataclass(frozen=True, eq=False)
class Softmax:
    """π(a|s) ∝ exp(c Q*(s, a)): agents know what is best and err in doing it (paper, section 3.1).

    `inverse_temperature` is c ≥ 0, one number, or one for each reward: 0 is random, ∞ would be optimal.
    """

    inverse_temperature: Any

    def __post_init__(self) -> None:
        _check_temperature(self.inverse_temperature, "Softmax", minimum=0.0)

    def policies(self, environment: Environment, rewards: Any, *, on: str = "state") -> Any:
        q = reliable_plan(environment, rewards, on=on).q
        xp: Any = jnp if isinstance(q, jax.Array) else np
        exists = xp.isfinite(q)
        c = xp.asarray(self.inverse_temperature, dtype=q.dtype)[..., None, None]
        weight = xp.where(exists, xp.exp(c * xp.where(exists, q - q.max(axis=-1, keepdims=True), 0.0)), 0.0)
        return weight / weight.sum(axis=-1, keepdims=True)


@dataclass(frozen=True, eq=False)
class SoftOptimal:
    """π(a|s) = exp(c (Q(s, a) − V(s))) with V = log Σ exp(c Q) / c: agents foresee their own errors.

    Also called logit choice or maximum causal entropy. `inverse_temperature` is c > 0, one number, or one
    for each reward.
    """

    inverse_temperature: Any

    def __post_init__(self) -> None:
        _check_temperature(self.inverse_temperature, "SoftOptimal", minimum=np.finfo(float).tiny)

    def policies(self, environment: Environment, rewards: Any, *, on: str = "state") -> Any:
        return reliable_plan(environment, rewards, on=on, inverse_temperature=self.inverse_temperature).policy


def _check_temperature(value: Any, rule: str, minimum: float) -> None:
    if isinstance(value, jax.core.Tracer):
        return
    values = np.asarray(value, dtype=float)
    if not (np.isfinite(values).all() and (values >= minimum).all()):
        kind = "positive" if minimum > 0 else "not negative"
        raise InputError(f"{rule}: the inverse temperature must be finite and {kind}; found {value!r}.")
