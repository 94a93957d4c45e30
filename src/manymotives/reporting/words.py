"""Models, priors and methods in words, and what choices can and cannot tell about such a model."""

import json
from functools import singledispatch
from typing import Any

import numpy as np
import pandas as pd

from manymotives.data.labels import Label
from manymotives.findings import FeatureWeights
from manymotives.models import Model, PolicyOptimalityModel, RewardPolicyModel
from manymotives.models.mixture import EPISODE, DirichletProcess, FiniteNumber, Mixture
from manymotives.models.priors import Prior
from manymotives.models.rewards import NORMALISED, BetaReward, DirichletReward, GaussianReward, RewardSet
from manymotives.models.smooth import SmoothReward
from manymotives.models.switching import STATE
from manymotives.posterior import Posterior


def amount(value: Any) -> str:
    """A parameter: a number, several, or a prior, which is inferred."""
    if isinstance(value, Prior):
        inside = ", ".join(f"{name} {amount(each)}" for name, each in zip(value.parameter_names, value.parameters))
        return f"{type(value).__name__}({inside})"
    numbers = np.asarray(value, dtype=float)
    if numbers.ndim == 0:
        return f"{float(numbers):g}"
    return f"{numbers.size} given numbers, from {numbers.min():g} to {numbers.max():g}"


def parameter(value: Any) -> str:
    """The same as a clause."""
    return f"inferred, prior {amount(value)}" if isinstance(value, Prior) else f"known, {amount(value)}"


def model_facts(posterior: Posterior) -> list[tuple[str, str]]:
    """What was assumed, as (what, how) pairs."""
    model = posterior.model
    return [
        ("What subjects may want", _rewards(model.reward)),
        *how_they_choose(model),
        ("How subjects relate", _sharing(model)),
        *(_motives_shared(model.sharing) if model.is_mixture else ()),
    ]


@singledispatch
def how_they_choose(model: Model) -> list[tuple[str, str]]:
    """What a kind of model assumes of choices, as (what, how) pairs."""
    raise NotImplementedError(type(model))


@how_they_choose.register
def _(model: RewardPolicyModel) -> list[tuple[str, str]]:
    rule = (
        "soft-optimal: like softmax, but subjects anticipate their own errors when they plan"
        if model.choice.is_soft
        else f"softmax: the better an action {_how_long(model)}, the more often it is chosen"
    )
    facts = [("How they choose", rule), ("Inverse temperature", parameter(model.inverse_temperature))]
    if isinstance(model.choice.lapse, Prior) or np.any(np.asarray(model.choice.lapse) != 0):
        facts.append(("Lapse rate", parameter(model.choice.lapse)))
    if model.depth is not None:
        steps = "one step ahead" if model.depth == 1 else f"{model.depth} steps ahead"
        facts.append(("Planning depth", f"at every step each looks {steps}; later rewards do not count"))
    if model.infers_discount:
        facts.append(("How far ahead they look", f"each has its own discount: {parameter(model.discount)}"))
    return facts if model.switching is None else [*facts, *_how_they_switch(model)]


def _how_long(model: RewardPolicyModel) -> str:
    """Over which time actions are compared."""
    if model.depth is None:
        return "in the long run"
    return "at once" if model.depth == 1 else f"over the next {model.depth} steps"


def _how_they_switch(model: RewardPolicyModel) -> list[tuple[str, str]]:
    """What is assumed of motives that switch, as (what, how) pairs."""
    switching = model.switching
    assert switching is not None
    where = (
        "the probability of switching depends on the state that is left"
        if switching.by == STATE
        else "the probability of switching is the same in all states"
    )
    facts = [
        (
            "Motives",
            f"{switching.number_said}, of which one is active at each step; which one is inferred",
        ),
        ("How they switch", f"a hidden Markov chain along each episode: {where}"),
        ("Stickiness of motives", parameter(switching.stickiness)),
    ]
    if switching.by == STATE or model.is_hierarchical:
        facts.append(("Similarity of transition probabilities", parameter(switching.concentration)))
    return facts


@how_they_choose.register
def _(model: PolicyOptimalityModel) -> list[tuple[str, str]]:
    order = {
        "reward_given_policy": "rewards given policies (the paper's Algorithm 2): subjects do not inform each other "
        "about rewards",
        "policy_given_reward": "policies given rewards: subjects inform each other about which rewards are common",
    }
    facts = [
        (
            "How they choose",
            "no choice rule: in each state, the probabilities of actions have a Dirichlet prior with concentration "
            + amount(model.policy.concentration),
        ),
        ("How far from optimal they may be", f"gap ε with prior {_optimality(model.optimality)}"),
        ("Factorisation", order[model.factorisation]),
    ]
    if model.shares_rewards:
        facts.append(("Similarity of subjects (κ)", parameter(model.weights_concentration)))
    return facts


def model_name(posterior: Posterior) -> str:
    """In a sentence."""
    return f"{plain_name(posterior)}{motives_clause(posterior)}"


def motives_clause(posterior: Posterior) -> str:
    """Between how many motives subjects switch, if they do."""
    switching = getattr(posterior.model, "switching", None)
    return "" if switching is None else f" with {switching.number_said} motives between which subjects switch"


def plain_name(posterior: Posterior) -> str:
    """Without its motives and covariates."""
    model, switching = posterior.model, getattr(posterior.model, "switching", None)
    motives = "" if switching is None else f", {switching.number_said} motives"
    depth = f", depth {model.depth}"
    return {
        "MRP": "the hierarchical reward–policy model (MRP)",
        "RP": "the pooled reward–policy model (RP)",
        "RP, each alone": "separate reward–policy models, one per subject",
        "MPO": "the policy–optimality model (MPO)",
        "mixture": "a mixture of reward–policy models (RP)",
    }[model.abbreviation.removesuffix(motives).removesuffix(depth).removesuffix(", covariates")]


def method_name(posterior: Posterior) -> str:
    record = json.loads(posterior.data.attrs["method"])
    kind = record.pop("kind")
    return f"{kind}({', '.join(f'{name}={_plain(value)}' for name, value in record.items())})"


def what_choices_tell(posterior: Posterior) -> list[str]:
    """What this kind of model can and cannot know from any number of choices, a sentence or two each."""
    model, environment = posterior.model, posterior.environment
    what, which_scale = what_a_model_tells(model)
    said = [what]
    if not environment.is_terminal.any():
        said.append(
            "Adding the same amount to every reward changes no choice, so choices cannot show whether somebody "
            "likes everything or nothing."
            + (
                " Rewards are therefore shown relative to the subject's own average."
                if model.reward.on == "state" and posterior.identifiability.is_plain
                else ""
            )
        )
    else:
        said.append(
            "Because episodes end, adding the same amount to every reward makes longer episodes better or worse, "
            "so choices can identify it."
        )
    said += [*posterior.unidentified(), which_scale]
    if model.reward.on == "state_action":
        said.append(
            "Rewards are on state–action pairs here, and a reward gained now can be paid back at the next step "
            "without changing any choice (potential “shaping”), in one way for each state with actions. The page "
            "shows what choices can identify: the cost of each action relative to the best one in the same "
            "state, which is 0 for the best."
        )
    said.append(
        "If nobody ever had to choose between two places, or a place could not be reached, the posterior is the "
        "prior: the reward there is an assumption, not a finding."
    )
    return said


@singledispatch
def what_a_model_tells(model: Model) -> tuple[str, str]:
    """What a kind of model can know from choices, and on which scale: a sentence or two each."""
    raise NotImplementedError(type(model))


@what_a_model_tells.register
def _(model: RewardPolicyModel) -> tuple[str, str]:
    free = isinstance(model.inverse_temperature, Prior)
    if model.reward.link == NORMALISED:
        scale = (
            "“Wants it a lot but acts carelessly” and “wants it a little but acts carefully” lead to the same choices. "
            + (
                "Only the prior separates the two here, so rewards are shown on a scale where the best and the "
                "worst differ by 1, and all of the strength is in the inverse temperature."
                if free
                else "The inverse temperature was taken as known, and that fixes the scale."
            )
        )
    else:
        scale = (
            "Ten times the reward with a tenth of the consistency leads to the same choices. "
            + (
                "Both were inferred, so only their product is identified; "
                if free
                else "The inverse temperature was taken as known, which sets the unit of reward; "
            )
            + "rewards are shown on a scale where the best and the worst differ by 1."
        )
    what = (
        "Choices show which of two actions somebody prefers and how consistently, so they identify differences "
        "in value, never values themselves."
    )
    return what, scale


@what_a_model_tells.register
def _(model: PolicyOptimalityModel) -> tuple[str, str]:
    what = (
        "This model depends only on how much value a policy loses. A reward that is nearly constant makes every "
        "policy nearly optimal, so the data cannot rule it out."
    )
    return what, "Rewards are shown on a scale where the best and the worst differ by 1."


@singledispatch
def _rewards(reward: Any) -> str:
    raise NotImplementedError(type(reward))


@_rewards.register
def _(reward: DirichletReward) -> str:
    return (
        f"non-negative rewards on {_cells(reward)} that sum to one (Dirichlet); concentration of each "
        f"{parameter(reward.concentration)}. With small concentrations few of them matter; with large ones all "
        "matter equally"
    )


@_rewards.register
def _(reward: BetaReward) -> str:
    return (
        f"independent rewards between 0 and 1 on {_cells(reward)} (Beta); alpha {parameter(reward.alpha)}; beta "
        f"{parameter(reward.beta)}"
    )


@_rewards.register
def _(reward: GaussianReward) -> str:
    cells = _cells(reward)
    kind = f"one free reward for each of the {cells}" if reward.features is None else f"weighted features of {cells}"
    return f"{kind}, normal; mean {parameter(reward.mean)}; scale {parameter(reward.scale)}"


@_rewards.register
def _(reward: SmoothReward) -> str:
    own = "" if reward.mean is None else "; mean 0"
    return (
        "similar in neighbouring states (a Gaussian Markov random field on the graph of states); scale "
        f"{parameter(reward.scale)}; range, in steps, {parameter(reward.range)}{own}"
    )


@_rewards.register
def _(reward: RewardSet) -> str:
    return f"one of {len(reward.rewards)} given rewards on {_cells(reward)}"


def _cells(reward: Any) -> str:
    return "states" if reward.on == "state" else "state–action pairs"


def _optimality(optimality: Any) -> str:
    if isinstance(optimality, Prior):
        return amount(optimality)
    settings = ", ".join(f"{name} {_plain(value)}" for name, value in vars(optimality).items())
    return f"{type(optimality).__name__.removesuffix('Optimality')}({settings})"


def _sharing(model: Any) -> str:
    if getattr(model, "switching", None) is not None:
        return _sharing_of_motives(model)
    if model.is_mixture:
        return (
            f"mixture: each {'episode' if model.sharing.by == EPISODE else 'subject'} acts on one of several "
            "motives, which may be shared; who shares which is inferred"
        )
    if model.is_pooled:
        return "pooled: one reward for everybody, as if a single agent had made all choices"
    if model.is_hierarchical:
        said = (
            "hierarchical (partial pooling): each subject has its own, drawn from one population that is inferred too"
        )
        return f"{said}{_depends(model)}"
    return "separate (no pooling): what is learnt about one subject says nothing about another"


def _motives_shared(sharing: Mixture) -> list[tuple[str, str]]:
    """What is assumed of motives that are shared, as (what, how) pairs."""
    motives = sharing.motives
    if isinstance(motives, FiniteNumber):
        number = (
            f"a finite, unknown number with the prior 1 + Poisson({motives.mean - 1:g}); the shares of motives "
            f"have the prior Dirichlet({motives.concentration:g}, …, {motives.concentration:g})"
        )
    elif isinstance(motives, DirichletProcess):
        number = (
            "a Dirichlet process, whose number of motives grows with that of subjects; concentration "
            f"{parameter(motives.concentration)}"
        )
    else:
        number = f"at most {motives}"
    spread = (
        "none: those who share a motive have exactly its reward"
        if sharing.spread is None
        else f"of subjects around their motive, standard deviation {parameter(sharing.spread)}"
    )
    return [("Number of motives", number), ("Spread", spread)]


def _depends(model: Any) -> str:
    """On what the population's location depends, where that is anything."""
    sharing = model.sharing
    if not sharing.has_covariates:
        return ""
    formulas = {parameter: read.text for parameter, read in sharing.formulas.items()}
    said = "; ".join(text if name is None else f"{name} ~ {text}" for name, text in formulas.items())
    prior = f"Normal(0, {sharing.effect_scale:g})"
    return f", and whose location depends on covariates ({said}; effects have the prior {prior})"


def _sharing_of_motives(model: RewardPolicyModel) -> str:
    if model.is_pooled:
        return "pooled: the same motives and the same switching for everybody"
    if model.is_hierarchical:
        return (
            "hierarchical: each subject has its own version of each motive, drawn from that motive's population, and "
            "its own transition probabilities"
        )
    return "separate: each subject has its own motives; motive 0 of one has nothing to do with motive 0 of another"


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def weights_unmoved(weights: FeatureWeights) -> str:
    """How many of the free parameters were not learnt, where rewards are made of them."""
    unmoved = weights.unmoved
    return (
        f"{int(unmoved.sum()):,} of {unmoved.size:,} weights of features are still as under the prior: no statement "
        f"about them changed its probability by more than {per_cent(weights.limit)}. Rewards follow from weights."
    )


def records(frame: pd.DataFrame) -> list[Any]:
    """Rows of a table, with its columns as attributes."""
    return list(frame.itertuples(index=False))


def listed(names: list[Label], most: int = 5) -> str:
    """Names in a sentence."""
    shown = [f"“{shortened(name)}”" for name in names[:most]]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(shown) + more


def shortened(name: Label, length: int = 60) -> str:
    """A name that fits in a line; figures show the whole of it on hover."""
    whole = str(name)
    return whole if len(whole) <= length else whole[: length - 1] + "…"


def per_cent(share: float) -> str:
    """A probability that is never rounded to certainty."""
    if 0 < share < 0.01:
        return "< 1 %"
    if 0.99 < share < 1:
        return "> 99 %"
    return f"{share:.0%}".replace("%", " %")
