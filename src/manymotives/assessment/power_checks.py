"""What is given to a power analysis, checked before the work: sizes, models, environments, contrasts."""

from typing import Any, NamedTuple

import numpy as np

from manymotives.assessment.contrasts import REWARD, WEIGHT, Contrast
from manymotives.assessment.power_truths import Recruits, Truths, truths_of_model, truths_of_pilot
from manymotives.data.belief import DynamicsBelief
from manymotives.data.environment import Environment
from manymotives.data.environments import Environments, environment_of
from manymotives.errors import InputError, quoted
from manymotives.models import RewardPolicyModel, Target
from manymotives.models.covariates import Covariates
from manymotives.models.effects import POPULATION
from manymotives.models.rewards import GaussianReward
from manymotives.models.shared_rewards import reward_names
from manymotives.planning import identifiability
from manymotives.posterior import Posterior
from manymotives.posterior.predictions import typical_coordinates

SEEN = 1e-8  # of a contrast of unit length: what choices cannot show of it, beyond rounding


class Sizes(NamedTuple):
    """What is simulated."""

    subjects: tuple[int, ...]
    steps: tuple[int, ...]
    replications: int


def checked_sizes(
    subjects: Any, steps: Any, replications: Any, target: Any, stop: Any, effect: Any, seed: Any
) -> Sizes:
    """Whole numbers, probabilities, a finite effect."""
    found = []
    for name, given in (("subjects", subjects), ("steps", steps)):
        listed = [given] if _is_whole(given) else given
        listed = list(listed) if isinstance(listed, list | tuple | range | np.ndarray) else []
        if not listed or not all(_is_whole(each) and each >= 1 for each in listed):
            raise InputError(
                f"power: {name} must be whole numbers of at least 1, such as [8, 16]; found {quoted(given)}."
            )
        found.append(tuple(sorted({int(each) for each in listed})))
    if not _is_whole(replications) or replications < 2:
        raise InputError(f"power: replications must be a whole number of at least 2; found {quoted(replications)}.")
    if not _is_number(target) or not 0 < target < 1:
        raise InputError(f"power: target must be a probability between 0 and 1; found {quoted(target)}.")
    if stop is not None and not (_is_number(stop) and 0 <= stop < 1):
        raise InputError(
            "power: stop must be the distance from the target at which a size is decided early, such as 0.05, or "
            f"None; found {quoted(stop)}."
        )
    if effect is not None and not (_is_number(effect) and np.isfinite(effect)):
        raise InputError(f"power: effect must be a number, the true value of the contrast; found {quoted(effect)}.")
    if not _is_whole(seed) or seed < 0:
        raise InputError(f"power: seed must be a whole number of at least 0; found {quoted(seed)}.")
    return Sizes(found[0], found[1], int(replications))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_whole(value) or isinstance(value, float | np.floating)


def checked_source(
    pilot: Any, environment: Any, analysis: Any, episodes: Any
) -> tuple[Truths, RewardPolicyModel, Covariates | None]:
    """Where truths come from, the model of the analysis, and the rows of covariates that subjects may have."""
    is_pilot = isinstance(pilot, Posterior)
    model = pilot.model if is_pilot else pilot
    if not isinstance(model, RewardPolicyModel):
        raise InputError(
            "power: the first argument must be a posterior of a RewardPolicyModel(...), such as mm.load reads, or such "
            f"a model; found {type(model).__name__}."
        )
    fitted = model if analysis is None else analysis
    if not isinstance(fitted, RewardPolicyModel):
        raise InputError(f"power: analysis must be a RewardPolicyModel(...); found {type(fitted).__name__}.")
    for word, each in (("", model), ("analysis: ", fitted)):
        _check_has_population(each, word)
    place = _checked_environment(pilot, environment, is_pilot, episodes)
    truths = truths_of_pilot(pilot, place) if is_pilot else truths_of_model(model, place)
    return truths, fitted, _rows(model, fitted)


def _check_has_population(model: RewardPolicyModel, word: str) -> None:
    if model.is_separate:
        raise InputError(
            f"power: {word}under Separate() tasks have no population whose contrast could be inferred. Use "
            "Hierarchical() or Pooled()."
        )
    if model.is_mixture:
        raise InputError(
            f"power: {word}under Mixture() the population has several motives, so a contrast has no single value. "
            "Use Hierarchical() or Pooled()."
        )
    if model.switching is not None:
        raise InputError(
            f"power: {word}if motives switch, the population has several of them, so a contrast has no single "
            "value. Leave out switching=."
        )
    for name, given in (("inverse_temperature", model.inverse_temperature), ("lapse", model.choice.lapse)):
        if np.ndim(given) > 0:
            raise InputError(
                f"power: {word}{name} is given for each task, but not for new subjects. Give one number, or a prior."
            )


def _checked_environment(pilot: Any, environment: Any, is_pilot: bool, episodes: Any) -> Environment:
    if environment is None and not is_pilot:
        raise InputError("power: a model alone does not say in which environment subjects act. Pass environment=….")
    place = pilot.belief or pilot.environment if environment is None else environment_of(environment)
    if isinstance(place, DynamicsBelief):
        raise InputError(
            "power: new subjects need a known environment, and this is a belief about one. Pass "
            "environment=belief.mean, or another that could be true."
        )
    if not isinstance(place, Environment):
        raise InputError(f"power: environment must be mm.Environment; found {type(place).__name__}.")
    if episodes is None:
        several = isinstance(place, Environments) and len(place.members) > 1
        if several or place.is_terminal.any():
            why = "each episode begins in one of several environments" if several else "terminal states end episodes"
            raise InputError(
                f"power: {why}. Say how many episodes each subject has: episodes=…, each of `steps` choices."
            )
    elif not _is_whole(episodes) or episodes < 1:
        raise InputError(f"power: episodes must be a whole number of at least 1; found {quoted(episodes)}.")
    return place


def _rows(model: RewardPolicyModel, analysis: RewardPolicyModel) -> Covariates | None:
    """The table of covariates that has all columns of both models."""
    tables = [each.sharing.covariates for each in (model, analysis) if each.has_covariates]
    needed = {name for table in tables for name in table.names}
    for table in tables:
        if needed <= set(table.names):
            return table
    if tables:
        missing = sorted(needed - set(tables[0].names))
        raise InputError(
            f"power: no table of covariates has all the columns that truth and analysis use: {quoted(missing[0])} "
            "is only in that of the analysis. Give the analysis a table with all of them."
        )
    return None


def check_learnable(contrast: Contrast, target: Target, recruits: Recruits) -> None:
    """Refuse an analysis to which the contrast is one known number."""
    rng = np.random.default_rng(0)
    hyper = target.draw_hyper(rng, 2)
    if len(target.tasks) == 1 and target.layout.group_size == 1:  # pooled: the one task itself
        values = contrast.at(target, target.draw_tasks(rng, hyper)[:, 0], None, {})
    else:
        coefficients = None
        if target.effects is not None:
            drawn = [target.effects.coefficients(*target.effects.draw(rng)) for _ in hyper]
            coefficients = np.stack(drawn)[:, target.effects.slope == POPULATION]
        location = typical_coordinates(target, target.parameters(hyper[:, 0]))
        values = contrast.at(target, location, coefficients, recruits.covariates)
    if np.ptp(values) == 0:
        raise InputError(
            f"power: in the model of the analysis “{contrast.text}” is a known number, {float(values[0]):g}, so "
            "there is nothing to infer: its mean is given as a number, or its formula does not use the "
            "covariate. Pass analysis=…, a model with a prior for it."
        )


def contrast_warnings(
    contrast: Contrast, model: RewardPolicyModel, environment: Environment, target: Target
) -> tuple[str, ...]:
    """Whether choices in this environment can show the contrast at all, for Gaussian rewards, which add up."""
    kind, reward = contrast.quantity.kind, model.reward
    if not isinstance(reward, GaussianReward) or reward.residual_scale is not None or kind not in (WEIGHT, REWARD):
        return ()
    own, made_of = reward_names(environment, target.on), reward.features_for(environment)
    made_of = own.matrix if made_of is None and own.are_shared else made_of
    features = None if made_of is None else made_of.toarray()
    if features is not None and target.on == "state_action":
        features = features.reshape(environment.num_states, environment.num_actions, -1)
    known = identifiability(environment, on=target.on, features=features, depth=model.depth)
    if known.left_out is not None:
        return ()
    unseen = known.weights if kind == WEIGHT else known.directions
    change = np.zeros(len(unseen))
    change[contrast.quantity.index] = 1.0
    if contrast.less is not None:
        change[contrast.less.index] -= 1.0
    if np.abs(change @ unseen).max(initial=0.0) < SEEN:
        return ()
    return (
        f"choices in this environment cannot fully identify “{contrast.text}”: some rewards that differ in it "
        "imply the same choices (see mm.identifiability), so the result depends in part on the prior. "
        "Differences such as “water - food” are often identified where “water” alone is not.",
    )
