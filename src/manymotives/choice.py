"""How agents choose: from values to the probabilities of actions."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from manymotives.environment import Environment
from manymotives.errors import InputError
from manymotives.planning import plan


@runtime_checkable
class ChoiceRule(Protocol):
    """Anything that turns rewards into a stationary policy."""

    def policies(self, environment: Environment, rewards: Any, *, on: str = "state") -> np.ndarray:
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

    def policies(self, environment: Environment, rewards: Any, *, on: str = "state") -> np.ndarray:
        q = plan(environment, np.asarray(rewards, dtype=float), on=on).q
        preference = np.asarray(self.inverse_temperature, dtype=float)[..., None, None] * np.where(
            np.isfinite(q), q - q.max(axis=-1, keepdims=True), 0.0
        )
        weight = np.where(np.isfinite(q), np.exp(preference), 0.0)
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

    def policies(self, environment: Environment, rewards: Any, *, on: str = "state") -> np.ndarray:
        rewards = np.asarray(rewards, dtype=float)
        return plan(environment, rewards, on=on, inverse_temperature=self.inverse_temperature).policy


def _check_temperature(value: Any, rule: str, minimum: float) -> None:
    values = np.asarray(value, dtype=float)
    if not (np.isfinite(values).all() and (values >= minimum).all()):
        kind = "positive" if minimum > 0 else "not negative"
        raise InputError(f"{rule}: the inverse temperature must be finite and {kind}; found {value!r}.")
