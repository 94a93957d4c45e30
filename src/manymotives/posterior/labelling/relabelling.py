"""Motives in one order throughout.

The posterior is the same for every order of the motives, and chains change it (label switching). So motives are put in
one order *after* sampling, draw by draw: that in which their policies are most like those of a reference, the average
over draws (Stephens 2000); of the motives so matched, the one used most comes first.
"""

import numpy as np
import xarray as xr
from scipy.optimize import linear_sum_assignment

from manymotives.data.environment import Environment
from manymotives.models import RewardPolicyModel
from manymotives.models.target import log_choice_probabilities
from manymotives.planning import plan

FLOOR = 1e-12  # of a policy's probabilities, when motives are compared
ROUNDS = 20  # of matching, at most
AT_A_TIME = 2_000_000  # numbers of q


def in_one_order(
    drawn: xr.Dataset, model: RewardPolicyModel, environment: Environment, known: xr.Dataset, visits: np.ndarray
) -> xr.DataArray:
    """Positions (chain, draw[, task], motive): which motive of a draw is to be the first, the second, …

    `known`: temperatures and lapse rates that were not inferred; `visits` [S]: how often each state was acted in.
    """
    blocks = ("task",) if model.is_separate else ()
    reward, *choosing = (_averaged(part, model) for part in _choosing(drawn, known))
    order = ("chain", "draw", *blocks, "motive")
    reward = reward.transpose(*order, ...).fillna(0.0)
    lead = reward.shape[: len(order)]
    temperature, lapse = (_spread(part, reward, order).reshape(-1) for part in choosing)
    flat = reward.values.reshape(-1, *reward.shape[len(order) :])
    log_policies = np.empty((len(flat), *environment.available.shape), dtype=np.float32)
    step = max(1, AT_A_TIME // environment.available.size)
    for begin in range(0, len(flat), step):
        part = slice(begin, begin + step)
        soft = temperature[part] if model.choice.is_soft else None
        q = plan(environment, flat[part], on=model.reward.on, inverse_temperature=soft).q
        policies = np.exp(log_choice_probabilities(q, temperature[part], lapse[part]))
        log_policies[part] = np.log(np.maximum(policies, FLOOR))
    chosen = environment.available[:, :] & (environment.available.sum(axis=1, keepdims=True) > 1)
    weights = (visits[:, None] * chosen).ravel()
    kept = np.flatnonzero(weights)
    per_draw = log_policies.reshape(lead[0] * lead[1], -1, lead[-1], weights.size)[..., kept]
    share = (
        drawn["motive_share"].transpose("chain", "draw", "task", "motive").values.reshape(len(per_draw), -1, lead[-1])
    )
    share = share if blocks else share.mean(axis=1, keepdims=True)
    positions = np.stack(
        [_matched(per_draw[:, block], weights[kept], share[:, block]) for block in range(per_draw.shape[1])], axis=1
    )
    return xr.DataArray(positions.reshape(lead), dims=order)


def _matched(log_policies: np.ndarray, weights: np.ndarray, share: np.ndarray) -> np.ndarray:
    """[N, K] positions that bring motives of draws [N, K, cells] into one order; `share` [N, K] of steps."""
    count, num_motives, _ = log_policies.shape
    positions = np.tile(np.arange(num_motives), (count, 1))
    if num_motives == 1:
        return positions
    rows = np.arange(count)[:, None]
    reference = np.exp(log_policies[-1])
    for matching in range(ROUNDS):
        cost = -np.einsum("nkc,lc->nlk", log_policies, reference * weights, optimize=True)
        new = np.stack([linear_sum_assignment(each)[1] for each in cost])
        if matching > 0 and np.array_equal(new, positions):  # the first reference is one draw, and no average yet
            break
        positions = new
        reference = np.exp(log_policies[rows, positions]).mean(axis=0)
    most_used = np.argsort(-share[rows, positions].mean(axis=0), kind="stable")
    return positions[:, most_used]


def reordered(data: xr.Dataset, positions: xr.DataArray) -> xr.Dataset:
    """The same draws with their motives in this order."""

    def along(values: np.ndarray, where: np.ndarray) -> np.ndarray:
        shape = np.broadcast_shapes(values.shape, where.shape)
        return np.take_along_axis(np.broadcast_to(values, shape), np.broadcast_to(where, shape), axis=-1)

    found = {}
    for name, values in data.data_vars.items():
        dims = values.dims
        for dim in ("motive", "next_motive"):
            if dim in dims and "draw" in dims:
                where = positions.rename(motive=dim)
                values = xr.apply_ufunc(
                    along, values, where, input_core_dims=[[dim], [dim]], output_core_dims=[[dim]]
                ).transpose(*dims)
        found[name] = values
    return xr.Dataset(found, coords=data.coords, attrs=data.attrs)


def _choosing(drawn: xr.Dataset, known: xr.Dataset) -> tuple[xr.DataArray, xr.DataArray, xr.DataArray]:
    """Rewards, inverse temperatures and lapse rates, drawn or known."""
    words = ("inverse_temperature", "lapse")
    temperature, lapse = (drawn[word] if word in drawn else known[word] for word in words)
    return drawn["reward"], temperature, lapse


def _averaged(values: xr.DataArray, model: RewardPolicyModel) -> xr.DataArray:
    """Over tasks, where a motive is a population's: what it has in common decides which one it is."""
    return values.mean("task") if model.is_hierarchical and "task" in values.dims else values


def _spread(values: xr.DataArray, like: xr.DataArray, order: tuple[str, ...]) -> np.ndarray:
    """The same for all that `like` has of these dimensions."""
    shape = {dim: like.sizes[dim] for dim in order}
    missing = {dim: size for dim, size in shape.items() if dim not in values.dims}
    return np.ascontiguousarray(values.expand_dims(missing).transpose(*order).values, dtype=float)
