"""Draws of a `PolicyOptimalityModel` in the ArviZ schema, and the weights of its rewards beside them."""

import numpy as np
import xarray as xr

from manymotives.data.demonstrations import Demonstrations
from manymotives.inference import OptimalityDraws
from manymotives.models import OptimalityTarget, PolicyOptimalityModel
from manymotives.models.episodes import LARGEST, EpisodeCounts
from manymotives.models.optimality import gaps_beyond
from manymotives.models.priors import Prior
from manymotives.models.rewards import RewardSet
from manymotives.posterior.labelling.common import (
    coordinate_of,
    labelled_likelihood,
    names_of,
    sample_coordinates,
    stored_constants,
    tree_of,
)

PRIOR_DRAWS = 2000


def label_policy_optimality(
    draws: OptimalityDraws,
    model: PolicyOptimalityModel,
    target: OptimalityTarget,
    demonstrations: Demonstrations,
    seed: int,
) -> xr.DataTree:
    """Draws in the ArviZ schema; group `reward_set` has the rewards chosen between, and their weights."""
    environment = target.environment
    names = names_of(environment, demonstrations)
    pooled = model.is_pooled
    chains, length, _ = draws.index.shape
    cells = ("state",) if target.on == "state" else ("state", "action")
    rewards = draws.rewards
    if target.on == "state_action":
        rewards = np.where(environment.available, rewards, np.nan)
    sample = sample_coordinates(chains, length)
    who = {} if pooled else {"task": names["task"]}
    labels = {name: names[name] for name in cells}

    def of_tasks(values: np.ndarray, *behind: str) -> tuple[tuple[str, ...], np.ndarray]:
        """Values [chain, draw, M, ...] with their dimensions; without tasks where everybody is one."""
        if pooled:
            return ("chain", "draw", *behind), values[:, :, 0]
        return ("chain", "draw", "task", *behind), values

    variables = {
        "reward": of_tasks(rewards[draws.index], *cells),
        "optimality_gap": of_tasks(draws.gap),
        "policy_loss": of_tasks(draws.loss),
    }
    if isinstance(model.policy.concentration, Prior):
        own = model.is_separate
        variables["policy_concentration"] = (
            of_tasks(draws.concentration) if own else (("chain", "draw"), draws.concentration[:, :, 0])
        )
    if draws.reward_concentration is not None:
        variables["reward_concentration"] = (("chain", "draw"), draws.reward_concentration)
    if draws.policies is not None:
        variables["policy"] = of_tasks(draws.policies, "state", "action")
    statistics = {"reward_index": of_tasks(draws.index)}
    for name, (dims, values) in draws.statistics.items():
        statistics[name] = (
            (dims, values)
            if not pooled
            else (tuple(dim for dim in dims if dim != "task"), np.take(values, 0, axis=dims.index("task")))
        )

    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2**31,)))
    before = rng.choice(len(draws.measure), size=PRIOR_DRAWS, p=draws.measure)
    log_uniform = np.log(1.0 - rng.random(PRIOR_DRAWS))
    prior = xr.Dataset(
        {
            "reward": (("chain", "draw", *cells), rewards[before][None]),
            "optimality_gap": (("chain", "draw"), gaps_beyond(model.optimality, log_uniform)[None]),
        },
        coords=labels | sample_coordinates(1, PRIOR_DRAWS),
    )
    candidates = model.reward.names if isinstance(model.reward, RewardSet) else tuple(range(len(rewards)))
    whole = () if pooled else ("task",)
    reward_set = xr.Dataset(
        {
            "reward": (("candidate", *cells), rewards),
            "measure": (("candidate",), draws.measure),
            "span": (("candidate",), draws.spans),
            "weight": ((*whole, "candidate"), draws.weights[0] if pooled else draws.weights),
            "predictive_policy": (
                (*whole, "state", "action"),
                draws.policy_mean[0] if pooled else draws.policy_mean,
            ),
        },
        coords=who | {"candidate": coordinate_of(candidates), "state": names["state"], "action": names["action"]},
    )

    if draws.bounds is not None:
        for name, values in zip(("best_value", "best_value_bound"), draws.bounds):
            reward_set[name] = (("candidate", "state"), values)

    groups = {
        "posterior": xr.Dataset(variables, coords=who | sample | {"state": names["state"], "action": names["action"]}),
        "sample_stats": xr.Dataset(statistics, coords=who | sample),
        "log_likelihood": labelled_likelihood(
            draws.log_likelihood, _by_episode(draws, model, demonstrations), demonstrations, names
        ),
        "prior": prior,
        "reward_set": reward_set,
        "constant_data": xr.Dataset(
            stored_constants(environment, target.belief), coords={"state": names["state"], "action": names["action"]}
        ),
    }
    return tree_of(groups, environment, demonstrations, seed)


def _by_episode(
    draws: OptimalityDraws, model: PolicyOptimalityModel, demonstrations: Demonstrations
) -> np.ndarray | None:
    """log p of each episode under each draw, where policies were kept and it is not too much."""
    chains, length, _ = draws.index.shape
    if draws.policies is None or chains * length * demonstrations.num_episodes > LARGEST:
        return None
    episodes = EpisodeCounts.of(demonstrations, pooled=model.is_pooled)
    with np.errstate(divide="ignore"):
        log_policies = np.log(draws.policies[:, :, episodes.task, episodes.state])
    return np.stack([episodes.log_likelihoods(of_chain) for of_chain in log_policies])
