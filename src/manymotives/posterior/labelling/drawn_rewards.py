"""Draws of rewards, where rewards are made of features: weighted sums of them.

Twenty tasks on ten thousand states have 1.6 MB of rewards in each draw, but 16 kB of weights. Where there would be many
numbers, rewards are a Dask array, computed from the weights when something reads them, a few states at a time; files
have the weights only.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from manymotives.models import Target

if TYPE_CHECKING:
    from manymotives.posterior.reward_policy import RewardPolicyPosterior

MOST_KEPT = 30_000_000  # numbers
AT_ONCE = 4_000_000  # numbers that are computed together


def cells_of(target: Target) -> tuple[str, ...]:
    """What rewards lie on."""
    return ("state",) if target.on == "state" else ("state", "action")


def drawn_rewards(target: Target, tasks: np.ndarray) -> Any:
    """Rewards [chain, draw, M, S] or [chain, draw, M, S, A] from coordinates u [chain, draw, M, D].

    NaN where an action does not exist.
    """
    numbers = tasks[..., 0].size * int(np.prod(_sizes(target)))
    if numbers > MOST_KEPT and target.layout.num_rewards == target.num_weights:
        return _computed_when_read(target, tasks[..., : target.num_weights])
    return _without_unavailable(target, target.rewards(tasks), slice(None))


def _sizes(target: Target) -> tuple[int, ...]:
    return target.environment.available.shape[: len(cells_of(target))]


def _computed_when_read(target: Target, weights: np.ndarray) -> Any:
    """The same as a Dask array, from weights [chain, draw, M, K]; a block of it has all draws of some states."""
    import dask.array as da

    features = target.layout.features.array if target.layout.features.is_dense else target.layout.features.matrix
    sizes = _sizes(target)
    per_state = int(np.prod(sizes[1:]))

    def block(states: np.ndarray) -> np.ndarray:
        """Rewards of some states that follow each other."""
        rows = features[states[0] * per_state : (states[-1] + 1) * per_state]
        made = (rows @ weights.reshape(-1, target.num_weights).T).T
        return _without_unavailable(target, made.reshape(*weights.shape[:-1], len(states), *sizes[1:]), states)

    at_once = max(1, AT_ONCE // (weights[..., 0].size * per_state))
    states = da.arange(sizes[0], chunks=at_once)
    whole = tuple((size,) for size in weights.shape[:-1])
    actions = tuple((size,) for size in sizes[1:])
    behind = range(4, 4 + len(actions))
    chunks = (*whole, states.chunks[0], *actions)
    return da.map_blocks(block, states, new_axis=[0, 1, 2, *behind], chunks=chunks, meta=np.empty(0))


def _without_unavailable(target: Target, rewards: np.ndarray, states: Any) -> np.ndarray:
    if target.on == "state":
        return rewards
    return np.where(target.environment.available[states], rewards, np.nan)


# ---- files -------------------------------------------------------------------------------------------------


def with_computed(posterior: "RewardPolicyPosterior") -> None:
    """The same again, from a file."""
    drawn, target = posterior.data["posterior"].to_dataset(), posterior.target
    if "reward" in drawn or not target.num_weights:
        return
    weights, cells = drawn["weight"], cells_of(target)
    has_axis = "task" in weights.dims
    rewards = _computed_when_read(target, weights.values if has_axis else weights.values[:, :, None])
    dims = (*weights.dims[:-1], *cells)
    known = posterior.data["observed_data"].dataset["counts"]
    made = drawn.assign(reward=(dims, rewards if has_axis else rewards[:, :, 0]))
    posterior.data["posterior"] = xr.DataTree(made.assign_coords({name: known[name] for name in cells}))
