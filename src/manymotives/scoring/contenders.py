"""Models of motives with their methods, named, and what each predicts from a training set."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
from jaxtyping import Float

from manymotives.data.belief import EnvironmentOrBelief
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.errors import InputError, quoted
from manymotives.fitting.fit import fit, method_of
from manymotives.inference import OptimalityMonteCarlo
from manymotives.models import Model, PolicyOptimalityModel, RewardPolicyModel
from manymotives.models.rewards import RewardSet
from manymotives.models.sharing import Hierarchical, Pooled
from manymotives.models.target import log_choice_probabilities
from manymotives.planning import plan
from manymotives.posterior import PolicyOptimalityPosterior, Posterior, RewardPolicyPosterior

TEMPERATURES = np.logspace(-2, 4, 61)  # tried for MPO, in units of what the average choice is worth
QUICK_MPO = OptimalityMonteCarlo(draws=200)  # more policies take longer and change nothing in its predictions
AT_A_TIME = 4_000_000  # numbers
MANY_STATES = 2_000  # where MPO's plans take more than minutes


@dataclass(frozen=True, eq=False)
class Contender:
    """One model of a comparison."""

    name: str
    model: Any  # a Model
    method: Any
    posterior: Posterior | None = None  # of all the data, where it was given

    def dynamics(self, shared: EnvironmentOrBelief) -> EnvironmentOrBelief:
        """What this one takes the world to be: runs may differ in that, in the discount for example."""
        return shared if self.posterior is None else self.posterior.belief or self.posterior.environment


def contenders_of(model: Any, method: Any, beside: Any) -> tuple[tuple[Contender, ...], str]:
    """What was asked about and what stands beside it, in the order of the table; and the name of the former."""
    asked = _named(model, method)
    if beside is None:
        more = _models_beside(asked)
    else:
        more = _named(beside, method) if not isinstance(beside, Sequence) or len(beside) else []
    taken = {each.name for each in asked}
    everyone = [*asked, *(each for each in more if each.name not in taken)]
    names = [each.name for each in everyone]
    if len(set(names)) < len(names):
        raise InputError('two models would have the same name. Name them: score({"one": …, "other": …}, …).')
    order = ["RP", "RP, each alone", "MRP", "MRP, covariates", "MPO"]
    return tuple(sorted(everyone, key=lambda each: order.index(each.name) if each.name in order else 9)), asked[0].name


def is_slow(contender: Contender, environment: Environment, asked: str) -> bool:
    """Whether a contender nobody asked about would take much longer than all the others."""
    is_many = environment.num_states > MANY_STATES
    return is_many and contender.name != asked and isinstance(contender.model, PolicyOptimalityModel)


def _named(things: Any, method: Any) -> list[Contender]:
    listed: list[tuple[str | None, Any]]
    if isinstance(things, Mapping):
        listed = [(str(name), thing) for name, thing in things.items()]
    elif isinstance(things, list | tuple):
        listed = [(None, thing) for thing in things]
    else:
        listed = [(None, things)]
    if not listed:
        raise InputError("there is no model to score.")
    return [_contender(name, thing, method) for name, thing in listed]


def _contender(name: str | None, thing: Any, method: Any) -> Contender:
    posterior = thing if isinstance(thing, Posterior) else None
    model = thing if posterior is None else posterior.model
    if not isinstance(model, Model):
        if hasattr(thing, "policies") and hasattr(thing, "rewards"):
            raise InputError(
                "score fits models anew without the held-out choices, which the result of a baseline does not allow. "
                "Compare a baseline by hand: fit both to some of the episodes, and sum the logarithms of their "
                "policies over the others, as in docs/baselines.md."
            )
        raise InputError(f"score needs a model or a posterior, or several of them; found {quoted(thing)}.")
    if method is not None and issubclass(model.target_type, getattr(method, "target_type", object)):
        chosen = method  # also where it is none: `fit` says so
    else:
        chosen = Posterior.kind_of(model).default_method() if posterior is None else method_of(posterior)
    return Contender(name or model.abbreviation, model, chosen, posterior)


def _models_beside(asked: Sequence[Contender]) -> list[Contender]:
    """RP, MRP and MPO with the priors of the first model, and its method."""
    like = next((each for each in asked if isinstance(each.model, RewardPolicyModel)), None)
    if like is not None:
        first, method = replace(like.model, switching=None), like.method
    else:
        reward, method = asked[0].model.reward, None
        first = RewardPolicyModel() if isinstance(reward, RewardSet) else RewardPolicyModel(reward)
    rest = [replace(first, sharing=Hierarchical()), PolicyOptimalityModel(first.reward)]
    known = (first.choice.inverse_temperature, first.choice.lapse)
    if all(np.ndim(value) == 0 for value in known if not hasattr(value, "family")):
        rest.insert(0, replace(first, sharing=Pooled()))  # everybody can only be one if they are known to act alike
    return [_contender(None, model, QUICK_MPO if model.abbreviation == "MPO" else method) for model in rest]


# ---- what each predicts ------------------------------------------------------------------------------------------


def predicted(
    contender: Contender, dynamics: EnvironmentOrBelief, training: Demonstrations, seed: int
) -> tuple[Float[np.ndarray, "task S A"], bool]:
    """log π(a|s) of every task, averaged over what it may want given the training data; whether chains had mixed."""
    posterior = fit(contender.model, dynamics, training, contender.method, seed=seed, progress=False)
    mixed = "mixing" in posterior.data.attrs or not contender.method.is_markov_chain
    return log_predictions(posterior, training), mixed


@singledispatch
def log_predictions(posterior: Posterior, training: Demonstrations) -> Float[np.ndarray, "task S A"]:
    """log π(a|s) of every task, as a kind of posterior predicts choices."""
    raise NotImplementedError(type(posterior))


@log_predictions.register
def _(posterior: RewardPolicyPosterior, training: Demonstrations) -> Float[np.ndarray, "task S A"]:
    return _log(posterior.predictive_policies().values)


@log_predictions.register
def _(posterior: PolicyOptimalityPosterior, training: Demonstrations) -> Float[np.ndarray, "task S A"]:
    implied = Implied.by(posterior)
    best = int(np.argmax(implied.worth(training.counts).sum(axis=0)))
    return implied.log_policies(TEMPERATURES[best])


@dataclass(frozen=True, eq=False)
class Implied:
    """What tasks would do if they chose by a softmax of what MPO says they want.

    MPO itself predicts with its policies, which are the counts, smoothed: scoring those would say nothing of motives.
    It has no temperature either: one for all tasks is chosen on training data.
    """

    environment: Environment
    weights: Float[np.ndarray, "task N"]
    q: Float[np.ndarray, "N S A"]

    @classmethod
    def by(cls, posterior: PolicyOptimalityPosterior) -> "Implied":
        rewards = posterior.reward_set.fillna(0.0).values
        environment = posterior.environment
        q = plan(environment, rewards, on=posterior.model.reward.on).q
        lives = ~environment.is_terminal
        exists = np.isfinite(q[:, lives])
        spread = np.where(exists, q[:, lives], -np.inf).max(axis=2) - np.where(exists, q[:, lives], np.inf).min(axis=2)
        scale = float(spread.mean()) or 1.0
        return cls(environment, posterior.weights.transpose("task", "candidate").values, q / scale)

    def log_policies(self, temperature: float) -> Float[np.ndarray, "task S A"]:
        """log Σ_j w_mj softmax(c Q_j)."""
        total = np.zeros((len(self.weights), *self.q.shape[1:]))
        step = max(1, AT_A_TIME // int(np.prod(self.q.shape[1:])))
        for begin in range(0, len(self.q), step):
            part = self.q[begin : begin + step]
            ones = np.ones(len(part))
            policies = np.exp(log_choice_probabilities(part, temperature * ones, 0.0 * ones))
            total += np.einsum("mn,nsa->msa", self.weights[:, begin : begin + step], policies, optimize=True)
        return _log(total)

    def worth(self, counts: np.ndarray) -> Float[np.ndarray, "task temperature"]:
        """Log-likelihood of each task's counts [M, S, A] at each temperature that is tried."""
        found = np.empty((len(counts), len(TEMPERATURES)))
        for number, temperature in enumerate(TEMPERATURES):
            log_policies = self.log_policies(temperature)
            found[:, number] = np.where(counts > 0, counts * np.where(counts > 0, log_policies, 0.0), 0.0).sum((1, 2))
        return found


def _log(policies: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return np.log(policies)
