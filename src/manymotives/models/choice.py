"""How agents choose: from values to the probabilities of actions."""

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from manymotives.arrays import is_traced, numerics
from manymotives.data.alignment import is_labelled, labelled
from manymotives.data.environment import Environment
from manymotives.errors import InputError, quoted
from manymotives.io.records import Recorded
from manymotives.models.priors import Prior, check_parameter
from manymotives.planning import reliable_plan


@runtime_checkable
class ChoiceRule(Protocol):
    """Anything that turns rewards into a stationary policy."""

    def policies(
        self, environment: Environment, rewards: Any, *, on: str = "state", discount: Any = None, depth: Any = None
    ) -> Any:
        """π(a|s) for each reward of the batch, [..., S, A].

        `discount`: one for each, or None, the environment's. `depth`: how many steps ahead agents look; None: for ever.
        """
        ...


@dataclass(frozen=True, eq=False)
class Softmax(Recorded):
    """π(a|s) ∝ exp(c Q*(s, a)): agents know the optimal action values and make errors in acting on them (paper, section
    3.1).

    Parameters
    ----------
    inverse_temperature
        c ≥ 0: choices are random at 0 and approach the optimal ones as c grows. A number, or one for each reward, is
        taken as known; with a prior, one c is inferred for each task. If None, the default of the model's reward prior
        is used (see there).
    lapse
        The probability of a random choice, uniform over the available actions: a number or a prior.
    """

    inverse_temperature: Any = None
    lapse: Any = 0.0

    is_soft: ClassVar[bool] = False  # whether agents plan with their own errors in mind

    def __post_init__(self) -> None:
        _check_rule(self, minimum=0.0)

    def policies(
        self, environment: Environment, rewards: Any, *, on: str = "state", discount: Any = None, depth: Any = None
    ) -> Any:
        """The probability of each action in each state, for each reward; the temperature and the lapse rate must be
        numbers.

        Parameters
        ----------
        environment
            The environment in which agents choose.
        rewards
            [..., S], or [..., S, A] with `on="state_action"`, with any batch shape.
        on
            What has a reward: "state" or "state_action".
        discount
            A number, or one for each reward. If None, the environment's.
        depth
            The number of steps that agents look ahead. If None, an infinite horizon.

        Returns
        -------
        ndarray
            π(a|s) [..., S, A]; a JAX array if the rewards are one.
        """
        temperature, lapse = _numbers(self)
        q = reliable_plan(environment, rewards, on=on, discount=discount, depth=depth).q
        xp = numerics(q)
        exists = xp.isfinite(q)
        c = xp.asarray(temperature, dtype=q.dtype)[..., None, None]
        weight = xp.where(exists, xp.exp(c * xp.where(exists, q - q.max(axis=-1, keepdims=True), 0.0)), 0.0)
        return _with_lapses(weight / weight.sum(axis=-1, keepdims=True), exists, lapse)


@dataclass(frozen=True, eq=False)
class SoftOptimal(Recorded):
    """π(a|s) = exp(c (Q(s, a) − V(s))) with V = log Σ exp(c Q) / c: agents anticipate their own later errors.

    This rule is also called dynamic logit or maximum causal entropy. c must be positive.

    Parameters
    ----------
    inverse_temperature, lapse
        As for `Softmax`. Agents do not anticipate lapses.
    """

    inverse_temperature: Any = None
    lapse: Any = 0.0

    is_soft: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_rule(self, minimum=np.finfo(float).tiny)

    def policies(
        self, environment: Environment, rewards: Any, *, on: str = "state", discount: Any = None, depth: Any = None
    ) -> Any:
        """The probability of each action in each state, for each reward; the temperature and the lapse rate must be
        numbers.

        Parameters
        ----------
        environment
            The environment in which agents choose.
        rewards
            [..., S], or [..., S, A] with `on="state_action"`, with any batch shape.
        on
            What has a reward: "state" or "state_action".
        discount
            A number, or one for each reward. If None, the environment's.
        depth
            The number of steps that agents look ahead. If None, an infinite horizon.

        Returns
        -------
        ndarray
            π(a|s) [..., S, A]; a JAX array if the rewards are one.
        """
        temperature, lapse = _numbers(self)
        how: Any = {"inverse_temperature": temperature, "discount": discount, "depth": depth}
        found = reliable_plan(environment, rewards, on=on, **how)
        xp = numerics(found.q)
        return _with_lapses(found.policy, xp.isfinite(found.q), lapse)


def _with_lapses(policy: Any, exists: Any, lapse: Any) -> Any:
    """The same choices with probability 1 − lapse, blind ones otherwise."""
    if isinstance(lapse, float) and lapse == 0.0:
        return policy
    share = np.asarray(lapse)[..., None, None]
    return (1 - share) * policy + share * exists / exists.sum(axis=-1, keepdims=True)


def _check_rule(rule: Softmax | SoftOptimal, minimum: float) -> None:
    name = type(rule).__name__
    value = rule.inverse_temperature
    if isinstance(value, Prior):
        check_parameter(value, f"{name}: inverse_temperature", "positive", levels=2)
    elif value is not None and not is_traced(value):
        try:
            values = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise InputError(
                f"{name}: the inverse temperature must be a number or a prior; found {quoted(value)}."
            ) from None
        if not (np.isfinite(values).all() and (values >= minimum).all()):
            kind = "positive" if minimum > 0 else "not negative"
            raise InputError(f"{name}: the inverse temperature must be finite and {kind}; found {quoted(value)}.")
    check_parameter(rule.lapse, f"{name}: lapse", "unit", levels=2)


def _numbers(rule: Softmax | SoftOptimal) -> tuple[Any, Any]:
    """Inverse temperature and lapse of a rule that has both as numbers."""
    for word in ("inverse_temperature", "lapse"):
        if getattr(rule, word) is None or isinstance(getattr(rule, word), Prior):
            raise InputError(
                f"{type(rule).__name__}: for policies and simulation, {word} must be a number, such as "
                f"{word}={'4.0' if word == 'inverse_temperature' else '0.1'}; found {quoted(getattr(rule, word))}."
            )
        if is_labelled(getattr(rule, word)) and any(
            labels is not None for labels in labelled(getattr(rule, word)).labels
        ):
            raise InputError(
                f"{type(rule).__name__}: {word} has labels, but the rewards have none to match them with. Give "
                "numbers without labels (.to_numpy()), in the order of the rewards."
            )
    return rule.inverse_temperature, rule.lapse
