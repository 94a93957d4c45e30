"""A posterior and a change in; whether choices could ever show what happens after the change, and where not, out.

Rewards that choose alike in the environment of the fit differ by directions that no choice there can show (see
`planning.identifiability`). A counterfactual is identified if and only if none of these directions changes choices
afterwards: then all rewards that the data cannot tell apart give the same answer. Otherwise the answer rests on the
prior along those directions, however many choices there are. Four kinds of directions are looked at:

    rewards      the null space before the change; its effect on choices after it
    scale        an inferred inverse temperature c: (ρ, c) and (kρ, c/k) choose alike, but ρ + 1 and kρ + 1 do not
    discounts    where they were inferred and a change of rewards can stand in for a change of discount
    new rewards  states that no choice before depended on, such as those that could not be reached

Effects of a direction δ on choices are exact, not simulated: dQ = δ + γ P dV and dV = Σ π dQ, whose differences between
actions vanish for every policy π, or for none but by coincidence. Policies drawn at random rule out coincidences.
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from scipy.sparse.linalg import splu

from manymotives.data.environment import Environment
from manymotives.errors import InputError
from manymotives.models.shared_rewards import reward_names
from manymotives.planning import identifiability
from manymotives.planning.potentials import reachable_states
from manymotives.planning.visits import chain_system
from manymotives.posterior.by_name import names_in, own_names
from manymotives.posterior.changes import Change
from manymotives.posterior.sides import changed_rewards
from manymotives.posterior.transfer import features_in_place, infers_discount, positions

LARGEST = 9_000_000  # numbers in a dense matrix whose null space is computed: seconds
VISIBLE = 1e-6  # of the largest effect of a direction on any value: rounding, where a null space is known to 1e-9
POLICIES = 2  # drawn at random
STEP = 1e-3  # of the size of rewards: differences of a function of them
QUANTILES = (0.05, 0.5, 0.95)  # of inferred discounts, at which directions are looked at


class ShownAfter(NamedTuple):
    """Whether choices before a change determine what happens after it."""

    choices: bool | None  # None: not computed, and `why_not` says why
    values: bool | None  # whether differences of value are determined too
    states: np.ndarray  # [S'] where choices rest on the prior
    hidden: int  # directions of reward that no choice before the change can show …
    visible: int  # … and those of them that change choices afterwards
    scale: bool  # whether the unknown scale of rewards matters
    discount: bool  # whether the unknown discount matters
    why_not: str | None = None


class Effects(NamedTuple):
    """What directions of reward change after the change."""

    states: np.ndarray  # [S'] where choices depend on any of them
    visible: int  # how many of them do so, independently of each other
    worth: list[np.ndarray]  # dV [S', n] under each of some policies


class Coordinates(NamedTuple):
    """Rewards before and after as linear functions of the same numbers x: ρ = M x."""

    before: Any  # [cells, K]; None: x are the rewards of all cells
    after: np.ndarray  # [cells', K]


def shown_after(posterior: Any, change: Change) -> ShownAfter:
    """Which parts of an answer choices could determine."""
    place, nowhere = change.place, np.zeros(change.place.num_states, dtype=bool)
    fitted, on, depth = posterior.environment, posterior.model.reward.on, posterior.model.depth
    if _size(posterior, place) > LARGEST:
        return ShownAfter(None, None, nowhere, 0, 0, False, False, f"there are {fitted.num_states:,} states")
    space, reachable = _coordinates(posterior, change), _reachable(posterior, change)
    rewards = _typical_rewards(posterior)
    states, values, hidden, visible, by_discount = nowhere.copy(), True, 0, 0, False
    for gamma in _discounts(posterior):
        before = fitted.with_discount(gamma)
        after = place if change.sets_discount else place.with_discount(gamma)
        try:
            null = _null_space(posterior, before, space)
        except InputError as error:
            return ShownAfter(None, None, nowhere, 0, 0, False, False, str(error))
        moved, size = _changes(change, space, null, rewards, on), (np.abs(space.after) @ np.abs(null)).max(axis=0)
        effects = _effects(after, moved, size, on, depth, reachable)
        states |= effects.states
        hidden, visible = null.shape[1], max(visible, effects.visible)
        values &= not _value_effects(before, after, null, space, effects.worth, on).any()
        if infers_discount(posterior):
            found = _discount_effects(posterior, change, before, after, space, null, rewards, reachable)
            by_discount |= found is not None
            states |= nowhere if found is None else found
    has_scale = "inverse_temperature" in posterior.data["posterior"].dataset
    by_scale = False
    if has_scale and change.changes_rewards:
        left, size = _unscaled(change, rewards, on)
        effects = _effects(place, left, size, _on(change, on), depth, reachable)
        by_scale = bool(effects.states.any())
        states |= effects.states
    choices = not states.any()
    is_worth = values and choices and not has_scale and not by_discount
    return ShownAfter(choices, is_worth, states, hidden, visible, by_scale, by_discount)


# ---- directions of reward ----------------------------------------------------------------------------------------


def _coordinates(posterior: Any, change: Change) -> Coordinates:
    """The numbers behind rewards: weights of features, rewards of names, or both where states have residuals."""
    fitted, place, reward = posterior.environment, change.place, posterior.model.reward
    own = reward_names(fitted, reward.on)
    has_residuals = getattr(reward, "residual_scale", None) is not None
    if posterior.has_features:
        made_of = reward.features_for(fitted).toarray()
        there = features_in_place(posterior, place, change.features)
        if not has_residuals:
            return Coordinates(made_of, there)
        names_there = _same_names(fitted, place, own, reward.on, by_owner=True)
        return Coordinates(np.hstack([made_of, own.matrix.toarray()]), np.hstack([there, names_there]))
    return Coordinates(own.matrix.toarray() if own.are_shared else None, _same_names(fitted, place, own, reward.on))


def _size(posterior: Any, place: Environment) -> int:
    """Numbers in the largest matrix."""
    reward, fitted = posterior.model.reward, posterior.environment
    cells = max(each.num_states if reward.on == "state" else each.available.size for each in (fitted, place))
    is_few = posterior.has_features and getattr(reward, "residual_scale", None) is None
    return int(cells * (posterior.data["posterior"].sizes["feature"] if is_few else cells))


def _same_names(fitted: Environment, place: Environment, own: Any, on: str, by_owner: bool = False) -> np.ndarray:
    """[cells', K] which reward of the fit each cell of the place has, by name; K: its cells, or what they share."""
    by_owner = by_owner or own.are_shared
    width = len(own.labels) if by_owner else own.num_cells
    rows = np.array(positions(own_names(place), names_in(fitted)))
    if on == "state":
        found = np.zeros((place.num_states, width))
        found[rows >= 0, rows[rows >= 0]] = 1.0
        return found
    columns = np.array(positions(place.actions, fitted.actions))
    number = {name: k for k, name in enumerate(names_in(fitted))}
    names = own_names(fitted)
    known: dict[tuple[int, int], int] = {}
    for cell, owner in zip(own.cells, own.owner):
        state, action = divmod(int(cell), fitted.num_actions)
        known.setdefault((number[names[state]], action), int(owner) if by_owner else int(cell))
    found = np.zeros((place.available.size, width))
    for state, action in np.argwhere(place.available):
        cell = known.get((int(rows[state]), int(columns[action])))
        if cell is not None:
            found[state * place.num_actions + action, cell] = 1.0
    return found


def _null_space(posterior: Any, before: Environment, space: Coordinates) -> np.ndarray:
    """[K, n] unit directions of x that no choice before the change can show."""
    on, visited = posterior.model.reward.on, posterior.data["observed_data"].dataset["counts"].values.sum(axis=(0, 2))
    how: Any = {"on": on, "visited": visited, "depth": posterior.model.depth}
    if space.before is not None:
        features = space.before
        if on == "state_action":
            features = features.reshape(before.num_states, before.num_actions, -1)
        return np.asarray(identifiability(before, features=features, **how).weights)
    known = identifiability(before, **how)
    if known.left_out is not None:
        raise InputError(known.left_out)
    never = np.flatnonzero(~known.exists)
    return np.hstack([known.directions, np.eye(len(known.exists))[:, never]])


def _changes(change: Change, space: Coordinates, null: np.ndarray, rewards: xr.DataArray, on: str) -> np.ndarray:
    """[cells', n] how rewards after the change move along these directions; of a function, by differences."""
    moved = space.after @ null
    if change.function is None or null.shape[1] == 0:
        return moved
    return np.stack([_slope(change, rewards, each, on) for each in moved.T], axis=-1)


def _slope(change: Change, rewards: xr.DataArray, direction: np.ndarray, on: str) -> np.ndarray:
    """[cells'] the derivative of a function of rewards in a direction of rewards."""
    base = _in_place(change, rewards)
    size = STEP * max(1e-3, float(np.abs(base.values).max()))
    shift = size * direction.reshape(base.shape[1:])
    return (_received(change, base + shift, on) - _received(change, base - shift, on)) / (2 * size)


def _unscaled(change: Change, rewards: xr.DataArray, on: str) -> tuple[np.ndarray, np.ndarray]:
    """[cells', 1] what the change is on a scale of its own, f(ρ) − f'(ρ) ρ; and the size of its terms."""
    base = _in_place(change, rewards)
    if change.function is None:
        left = _received(change, 0.0 * base, on)[:, None]
        return left, np.abs(left).max(axis=0)
    whole = _received(change, base, on)
    along = _slope(change, rewards, base.values.ravel(), on)
    return (whole - along)[:, None], np.array([np.abs(whole).max() + np.abs(along).max()])


def _received(change: Change, rewards: xr.DataArray, on: str) -> np.ndarray:
    return changed_rewards(change, rewards, on, None).planned.ravel()


def _on(change: Change, on: str) -> str:
    return "state_action" if change.on_pairs is not None else on


def _typical_rewards(posterior: Any) -> xr.DataArray:
    """Mean rewards (sample, state[, action]) of everybody: where derivatives are taken."""
    found = posterior.data["posterior"].dataset["reward"].fillna(0.0)
    return found.mean([dim for dim in found.dims if dim not in ("state", "action")]).expand_dims("sample")


def _in_place(change: Change, rewards: xr.DataArray) -> xr.DataArray:
    """The same where they would be received: elsewhere, rewards of no particular size."""
    size = change.place.available.shape[: rewards.ndim - 1]
    if not change.is_elsewhere and rewards.shape[1:] == size:
        return rewards
    values = np.random.default_rng(0).normal(size=(1, *size)) * max(float(rewards.std()), 1e-3)
    return xr.DataArray(values, dims=("sample", "state", "action")[: 1 + len(size)])


# ---- effects on choices and values -------------------------------------------------------------------------------


def _effects(
    after: Environment, moved: np.ndarray, size: np.ndarray, on: str, depth: int | None, reachable: np.ndarray
) -> Effects:
    """Effects of directions of reward [cells', n], computed from terms of this size [n]."""
    states, visible, worth = np.zeros(after.num_states, dtype=bool), 0, []
    if moved.shape[1] == 0:
        return Effects(states, 0, [np.zeros((after.num_states, 0))] * POLICIES)
    for seed in range(POLICIES):
        q, value = _responses(after, _policy(after, seed), moved, on, depth)
        largest = np.abs(np.where(after.available[..., None], q, 0.0)).max(axis=(0, 1))
        scale = np.maximum(np.maximum(largest, size), 1e-300)
        states |= (_spread(after, q) > VISIBLE * scale).any(axis=1)
        contrasts = _contrasts(after, q / scale, reachable)
        visible = max(visible, int(np.linalg.matrix_rank(contrasts, tol=VISIBLE)) if contrasts.size else 0)
        worth.append(value)
    return Effects(states & reachable, visible, worth)


def _responses(
    place: Environment, policy: np.ndarray, moved: np.ndarray, on: str, depth: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """dQ [S, A, n] along directions of reward [cells, n], under a policy; and dV [S, n] in the long run."""
    shape = (*place.available.shape, moved.shape[1])
    here = np.broadcast_to(moved[:, None, :], shape) if on == "state" else moved.reshape(shape)
    lives = ~place.is_terminal[:, None]
    received = np.where(lives, (policy[..., None] * here).sum(axis=1), here[:, 0] if on == "state" else 0.0)
    value = splu(chain_system(place, policy).tocsc()).solve(received)
    if depth is None:
        return here + place.discount * (place.matrix @ value).reshape(shape), value
    q, ahead = np.array(here), received
    for step in range(1, depth):  # at every step ahead another policy might be best
        q = here + place.discount * (place.matrix @ ahead).reshape(shape)
        ahead = np.where(lives, (_policy(place, 100 + step)[..., None] * q).sum(axis=1), received)
    return q, value


def _spread(place: Environment, q: np.ndarray) -> np.ndarray:
    """[S, n] how much the values of available actions differ; 0 where nothing is chosen."""
    exists = place.available[..., None]
    low, high = np.where(exists, q, np.inf).min(axis=1), np.where(exists, q, -np.inf).max(axis=1)
    return np.where(exists.any(axis=1), high - low, 0.0)


def _policy(place: Environment, seed: int) -> np.ndarray:
    """A policy drawn at random that does everything that can be done; the first action where nothing is chosen."""
    weight = np.random.default_rng(seed).exponential(size=place.available.shape) * place.available
    weight[place.is_terminal, 0] = 1.0
    return weight / weight.sum(axis=1, keepdims=True)


def _value_effects(
    before: Environment, after: Environment, null: np.ndarray, space: Coordinates, worth: list[np.ndarray], on: str
) -> np.ndarray:
    """[n] whether directions that no choice shows move value after the change more, or less, than value before it."""
    moved = null if space.before is None else space.before @ null
    found = np.zeros(null.shape[1], dtype=bool)
    same = before.with_discount(after.discount)  # values of both sides are discounted alike
    for seed, later in enumerate(worth):
        _, value = _responses(same, _policy(same, 50 + seed), moved, on, None) if null.shape[1] else (None, moved)
        gained = after.start @ later - (same.start @ value if null.shape[1] else 0.0)
        found |= np.abs(gained) > VISIBLE * np.maximum(np.abs(later).max(axis=0, initial=0.0), 1.0)
    return found


# ---- discounts ---------------------------------------------------------------------------------------------------


def _discounts(posterior: Any) -> list[float]:
    """At which discounts to look: the known one, or some of those that were inferred."""
    if not infers_discount(posterior):
        return [float(posterior.environment.discount)]
    drawn = posterior.data["posterior"].dataset["discount"].values
    return sorted({float(each) for each in np.quantile(drawn, QUANTILES)})


def _discount_effects(
    posterior: Any,
    change: Change,
    before: Environment,
    after: Environment,
    space: Coordinates,
    null: np.ndarray,
    rewards: xr.DataArray,
    reachable: np.ndarray,
) -> np.ndarray | None:
    """[S'] where choices after the change show what a change of rewards can hide before it, a change of discount.

    To first order, around typical rewards. None: choices before show the discount, or nothing later depends on it.
    """
    on, depth = posterior.model.reward.on, posterior.model.depth
    policy = _policy(before, 0)
    basis = np.eye(space.after.shape[1]) if space.before is None else space.before
    responses, _ = _responses(before, policy, basis, on, depth)
    slope = _discount_slope(before, policy, rewards.values.reshape(-1, 1), on, depth)
    counts = posterior.data["observed_data"].dataset["counts"].values.sum(axis=(0, 2))
    met = reachable_states(before, (before.start > 0) | (counts > 0))
    contrasts = _contrasts(before, responses, met), _contrasts(before, slope, met)
    solution, *_ = np.linalg.lstsq(contrasts[0], contrasts[1], rcond=1e-10)
    if np.abs(contrasts[1] - contrasts[0] @ solution).max() > VISIBLE * max(1e-300, np.abs(contrasts[1]).max()):
        return None
    moved = _changes(change, space, solution, rewards, on)
    policy = _policy(after, 0)
    later, _ = _responses(after, policy, moved, on, depth)
    if not change.sets_discount:
        base = changed_rewards(change, _in_place(change, rewards), on, None).planned.reshape(-1, 1)
        later = _discount_slope(after, policy, base, _on(change, on), depth) - later
    found = _spread(after, later)[:, 0] > VISIBLE * max(1e-300, float(np.abs(later[np.isfinite(later)]).max()))
    return found & reachable if (found & reachable).any() else None


def _discount_slope(
    place: Environment, policy: np.ndarray, rewards: np.ndarray, on: str, depth: int | None
) -> np.ndarray:
    """dQ/dγ [S, A, 1] of a policy, by central differences of values that are solved for exactly."""
    step = 1e-4 * (1 - place.discount)
    ends = [
        _responses(place.with_discount(place.discount + sign * step), policy, rewards, on, depth)[0] for sign in (1, -1)
    ]
    return (ends[0] - ends[1]) / (2 * step)


def _contrasts(place: Environment, q: np.ndarray, among: np.ndarray) -> np.ndarray:
    """[rows, n] values of actions against the average of those available, where something is chosen in these states."""
    exists = place.available[..., None]
    count = np.maximum(exists.sum(axis=1, keepdims=True), 1)
    centred = q - np.where(exists, q, 0.0).sum(axis=1, keepdims=True) / count
    return centred[place.available & among[:, None]]


def _reachable(posterior: Any, change: Change) -> np.ndarray:
    """[S'] states that are met after the change: from its start, or, in the same environment, from those visited."""
    start = change.place.start > 0
    if not change.is_elsewhere:
        start = start | (posterior.data["observed_data"].dataset["counts"].values.sum(axis=(0, 2)) > 0)
    return reachable_states(change.place, start)
