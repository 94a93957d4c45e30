"""Prior-predictive simulators: truth and data from a model, and what a method makes of the data.

Each returns replication(rng, seed, m): quantities of the truth and draws of the same quantities, by name, of task m and
of what tasks share. A kind of model registers its own with `replications_of`.
"""

from dataclasses import dataclass, replace
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.special import softmax

from manymotives.assessment.mixture import drawn_mixture, mixture_quantities
from manymotives.assessment.switching import Quantities, Replication, switching_replications
from manymotives.data.belief import DynamicsBelief, EnvironmentOrBelief, split_environment
from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.errors import InputError
from manymotives.families import log_gammas
from manymotives.inference import Method, OptimalityDraws, sample
from manymotives.inference.optimality_monte_carlo import NUM_REWARDS
from manymotives.models import Model, OptimalityTarget, PolicyOptimalityModel, RewardPolicyModel, Target
from manymotives.models.choice import Softmax, SoftOptimal
from manymotives.models.effects import POPULATION, Effects
from manymotives.models.optimality import gaps_beyond, log_survival_of
from manymotives.models.priors import Prior
from manymotives.models.rewards import RewardSet
from manymotives.planning import PlannedRewards
from manymotives.worlds import simulate

PATIENCE = 1_000_000  # policies tried for one that a reward allows …
TRIED = 64  # … so many at a time


@singledispatch
def replications_of(
    model: Model, source: Model, environment: EnvironmentOrBelief, method: Method, tasks: int, steps: int
) -> Replication:
    """Simulated data sets of so many tasks and steps: truth drawn from `source`, inferred with `model`."""
    raise NotImplementedError(type(model))


# ---- rewards, temperatures, softmax choices --------------------------------------------------------------------


@replications_of.register
def _reward_policy(
    model: RewardPolicyModel,
    source: RewardPolicyModel,
    environment: EnvironmentOrBelief,
    method: Method,
    tasks: int,
    steps: int,
) -> Replication:
    """Where the environment is a belief, the true one is drawn from it, and what is seen of it joins the belief."""
    if model.switching is not None or source.switching is not None:
        return switching_replications(model, source, environment, method, tasks, steps)
    belief, known = split_environment(environment)
    nothing = np.zeros((tasks, known.num_states, known.num_actions))
    names = tasks_with_covariates(source) or tasks_with_covariates(model) or tuple(range(tasks))
    origin = source.target(known, names, nothing)
    episodes = len(known.members) if isinstance(known, Environments) else 1  # each starts in one of several

    def replication(rng: np.random.Generator, seed: int, m: int) -> tuple[Quantities, Quantities]:
        hyper = origin.draw_hyper(rng, 1)
        u = origin.draw_tasks(rng, hyper)
        coefficients = None if origin.effects is None else origin.effects.draw(rng)
        if origin.effects is not None and coefficients is not None:
            u = u + origin.effects.offsets(origin.effects.coefficients(*coefficients))
        shared = None
        if origin.partitions is not None:
            u, shared = drawn_mixture(rng, origin, u)
        rule, own = _rule(source, origin, u[0]), origin.discounts(u[0], np.arange(origin.num_tasks))
        moves = np.empty(0) if belief is None else belief.draws(1, rng)[0]
        true = origin.environment if belief is None else belief.environment(moves)
        rewards = origin.rewards(u[0])
        sizes: Any = {"steps": steps, "episodes": episodes, "seed": seed}
        demonstrations = simulate(true, rewards, rule, **sizes, on=origin.on, discount=own, depth=origin.depth)
        dynamics = known if belief is None else belief.after(demonstrations)
        target = model.target(dynamics, names, demonstrations.counts.astype(float))
        draws = sample(method, target, seed=seed)
        likelihood = replace(origin, counts=target.counts).log_likelihood(u[0], np.arange(tasks), true)[None, None]
        truth = _quantities(origin, u[None], hyper[None], likelihood, m)
        found = _quantities(target, draws.tasks, draws.hyper, draws.log_likelihood, m)
        if coefficients is not None and origin.effects is not None:
            truth |= _effects(origin.effects, *(each[None, None] for each in coefficients))
        if draws.effects is not None and target.effects is not None:
            found |= _effects(target.effects, *draws.effects)
        if shared is not None and origin.partitions is not None:
            truth |= mixture_quantities(origin.partitions, shared, m)
        if draws.mixture is not None and target.partitions is not None:
            found |= mixture_quantities(target.partitions, draws.mixture, m)
        if belief is not None and draws.transition_probabilities is not None:
            for number, (position, move) in enumerate(
                zip(belief.transition_index[belief.is_uncertain], moves[belief.is_uncertain])
            ):
                name = "move " + ", ".join(map(str, position))
                truth[name], found[name] = np.full((1, 1), move), draws.transition_probabilities[:, :, number]
        return truth, found

    return replication


def tasks_with_covariates(model: Any) -> tuple[Any, ...]:
    """The tasks whose covariates a model knows; none where it has no covariates."""
    if not getattr(model, "has_covariates", False):
        return ()
    return tuple(dict.fromkeys(model.sharing.covariates.tasks))


def _effects(effects: Effects, z: np.ndarray, log_spread: np.ndarray) -> Quantities:
    """Draws [chain, draw] of the population's coefficients, and of spreads of levels."""
    coefficients = effects.coefficients(z, log_spread)
    found = {
        f"effect of {effects.names[e]} on {d}": coefficients[:, :, e, d]
        for e, d in np.argwhere(effects.applies)
        if effects.slope[e] == POPULATION
    }
    return found | {
        f"spread of {effects.slope_names[k]} on {d}": np.exp(log_spread[:, :, k, d])
        for k, d in np.argwhere(effects.has_slope)
    }


def _rule(model: RewardPolicyModel, target: Target, u: np.ndarray) -> Softmax | SoftOptimal:
    """How tasks with coordinates u [M, D] choose, in numbers."""
    owner = np.arange(len(u))
    return type(model.choice)(inverse_temperature=target.temperatures(u, owner), lapse=target.lapses(u, owner))


def _quantities(target: Target, tasks: np.ndarray, hyper: np.ndarray, log_likelihood: np.ndarray, m: int) -> Quantities:
    """Draws [chain, draw] of what is ranked, of task m and its population."""
    group, layout = target.group[m], target.layout
    reward = target.rewards(tasks[:, :, m])
    made = layout.features.exist and not target.has_shared_rewards
    free = np.arange(layout.features.matrix.shape[0]) if made else layout.reward_index
    found = {f"reward {position}": reward.reshape(*tasks.shape[:2], -1)[..., position] for position in free}
    owner = np.full(tasks.shape[:2], m)
    if layout.temperature >= 0:
        found["inverse temperature"] = target.temperatures(tasks[:, :, m], owner)
    if layout.lapse >= 0:
        found["lapse"] = target.lapses(tasks[:, :, m], owner)
    discounts = target.discounts(tasks[:, :, m], owner)
    if discounts is not None:
        found["discount"] = discounts
    for block in target.blocks:
        for position in range(block.begin, block.end):
            name = block.name.replace("_", " ")
            found[f"{name} {position - block.begin}" if block.over else name] = hyper[:, :, group, position]
    found["log-likelihood"] = log_likelihood.sum(axis=2)
    return found


# ---- policies, gaps, rewards from a set --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Truth:
    """One draw of everything, for M tasks."""

    index: np.ndarray  # [M] the reward
    gap: np.ndarray  # [M]
    loss: np.ndarray  # [M]
    policies: np.ndarray  # [M, S, A]
    concentration: np.ndarray  # [M]
    kappa: float | None


@dataclass(frozen=True)
class Played:
    """A choice rule that plays given policies, whatever the rewards."""

    table: np.ndarray

    def policies(self, environment: Environment, rewards: Any, *, on: str = "state") -> np.ndarray:
        return self.table


@replications_of.register
def _policy_optimality(
    model: PolicyOptimalityModel,
    source: PolicyOptimalityModel,
    environment: EnvironmentOrBelief,
    method: Any,
    tasks: int,
    steps: int,
) -> Replication:
    if isinstance(environment, DynamicsBelief):
        raise InputError(f"a {type(model).__name__} can only be calibrated in a known environment. Give belief.mean.")
    if source is not model and not _same_set(source.reward, model.reward, environment):
        raise InputError(
            "truth and model must have the same set of rewards, to which they may give different weights. Give "
            "both a RewardSet(...)."
        )
    if not isinstance(model.reward, RewardSet):  # one set, for truth and fit alike
        count = getattr(method, "num_rewards", None) or NUM_REWARDS
        nothing = np.zeros((1, environment.num_states, environment.num_actions))
        rewards, weights = model.target(environment, (0,), nothing).reward_set(np.random.default_rng(0), count)
        model = replace(model, reward=RewardSet(rewards, weights, on=model.reward.on))
        source = model
        if getattr(method, "num_rewards", None) is not None:
            method = replace(method, num_rewards=None)
    names = tuple(range(tasks))
    none = np.zeros((tasks, environment.num_states, environment.num_actions))
    origin = source.target(environment, names, none)
    rewards, measure = origin.reward_set(np.random.default_rng(0), 0)
    planned = PlannedRewards.of_rewards(environment, rewards, on=origin.on, scale_free=source.scale_free)

    def replication(rng: np.random.Generator, seed: int, m: int) -> tuple[Quantities, Quantities]:
        truth = _drawn(rng, origin, planned, measure)
        rule: Any = Played(truth.policies)
        demonstrations = simulate(environment, rewards[truth.index], rule, steps=steps, seed=seed, on=origin.on)
        target = model.target(environment, names, demonstrations.counts.astype(float))
        draws = sample(method, target, seed=seed)
        return _of_truth(truth, rewards, target.counts, m), _of_draws(draws, target, m)

    return replication


def _same_set(one: Any, other: Any, environment: Environment) -> bool:
    if not isinstance(one, RewardSet) or not isinstance(other, RewardSet):
        return False
    return np.array_equal(one.for_environment(environment), other.for_environment(environment))


def _drawn(rng: np.random.Generator, origin: OptimalityTarget, planned: PlannedRewards, measure: np.ndarray) -> _Truth:
    """The generative story, step by step."""
    model = origin.model
    concentration = origin.draw_concentrations(rng, 1)[0]
    kappa, weights = None, measure
    if model.shares_rewards:
        kappa = float(origin.draw_reward_concentrations(rng, 1)[0])
        weights = _dirichlet(rng, kappa * measure)
    simulator = _policy_for_a_reward if model.factorisation == "policy_given_reward" else _reward_for_a_policy
    each = [simulator(rng, origin, planned, weights, concentration[m : m + 1]) for m in range(origin.num_tasks)]
    index, gap, loss, policies = (np.array(column) for column in zip(*each))
    return _Truth(index, gap, loss, policies, concentration, kappa)


def _dirichlet(rng: np.random.Generator, concentrations: np.ndarray) -> np.ndarray:
    """Weights from a Dirichlet distribution, in logarithms because most parameters are tiny."""
    return softmax(log_gammas(rng, concentrations[None])[0])


def _reward_for_a_policy(
    rng: np.random.Generator, origin: OptimalityTarget, planned: PlannedRewards, weights: np.ndarray, a: np.ndarray
) -> tuple[int, float, float, np.ndarray]:
    """π ~ ξ, ε ~ β, ρ ~ λ among the rewards for which π is ε-optimal."""
    log_survival, empty_set = log_survival_of(origin.model.optimality), origin.model.empty_set
    for _ in range(PATIENCE):
        policy = origin.draw_policies(rng, a, None)
        losses = planned.losses(policy)[0]
        wanted = np.log(1.0 - rng.random(1))
        if empty_set == "condition":
            wanted = wanted + log_survival(losses[weights > 0].min(keepdims=True))
        gap = gaps_beyond(origin.model.optimality, wanted)[0]
        allowed = np.where(losses < gap, weights, 0.0)
        if allowed.sum() == 0 and empty_set == "prior":
            allowed = weights
        if allowed.sum() > 0:
            j = int(rng.choice(len(weights), p=allowed / allowed.sum()))
            return j, float(gap), float(losses[j]), policy[0]
    raise InputError("the prior of the gap is so strict that no policy was found that any reward explains.")


def _policy_for_a_reward(
    rng: np.random.Generator, origin: OptimalityTarget, planned: PlannedRewards, weights: np.ndarray, a: np.ndarray
) -> tuple[int, float, float, np.ndarray]:
    """ρ ~ ω, then π ~ ξ and ε ~ β until π is ε-optimal for ρ."""
    j = int(rng.choice(len(weights), p=weights))
    for _ in range(PATIENCE // TRIED):
        policies = origin.draw_policies(rng, np.repeat(a, TRIED), None)
        losses = planned.losses(policies)[:, j]
        gaps = gaps_beyond(origin.model.optimality, np.log(1.0 - rng.random(TRIED)))
        if (losses < gaps).any():
            first = int(np.argmax(losses < gaps))
            return j, float(gaps[first]), float(losses[first]), policies[first]
    raise InputError("the prior of the gap is so strict that no policy was found that its reward allows.")


def _of_truth(truth: _Truth, rewards: np.ndarray, counts: np.ndarray, m: int) -> Quantities:
    with np.errstate(divide="ignore", invalid="ignore"):
        log_policy = np.where(counts > 0, np.log(truth.policies), 0.0)
    found = {f"reward {position}": value for position, value in enumerate(rewards[truth.index[m]].ravel())}
    found |= {f"policy in state {s}": value for s, value in enumerate(truth.policies[m, :, -1])}
    found |= {
        "optimality gap": truth.gap[m],
        "policy loss": truth.loss[m],
        "log-likelihood": (counts * log_policy).sum(),
        "policy concentration": truth.concentration[m],
        "tasks alike": len(truth.index) - len(np.unique(truth.index)),
    }
    if truth.kappa is not None:
        found["reward concentration"] = truth.kappa
    return {name: np.asarray(value) for name, value in found.items()}


def _of_draws(draws: OptimalityDraws, target: OptimalityTarget, m: int) -> Quantities:
    shape = draws.index.shape[:2]
    if draws.policies is None:
        raise InputError(
            "calibrate needs all policies that were drawn, which are too many to keep. Use fewer draws, tasks or "
            "states."
        )
    reward = draws.rewards[draws.index[:, :, m]].reshape(*shape, -1)
    found = {f"reward {position}": reward[..., position] for position in range(reward.shape[-1])}
    lives = np.flatnonzero(target.environment.available[:, -1])
    found |= {f"policy in state {s}": draws.policies[:, :, m, s, -1] for s in lives}
    found |= {
        "optimality gap": draws.gap[:, :, m],
        "policy loss": draws.loss[:, :, m],
        "log-likelihood": draws.log_likelihood.sum(axis=2),
    }
    if isinstance(target.model.policy.concentration, Prior):
        found["policy concentration"] = draws.concentration[:, :, m]
    if target.model.shares_rewards and target.num_tasks > 1:
        ordered = np.sort(draws.index, axis=2)
        found["tasks alike"] = (np.diff(ordered, axis=2) == 0).sum(axis=2)
        if isinstance(target.model.weights_concentration, Prior):
            found["reward concentration"] = draws.reward_concentration
    return found
