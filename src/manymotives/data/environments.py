"""Several environments in, one out: their disjoint union, in which everything else works as in any environment.

States of the union are pairs (environment, state), named "maze A: s1"; its transitions are block-diagonal; its actions
are those of any environment, available where they exist. What is alike are names: a state that two environments call
by one name has one reward, unless rewards are made of features (see `models/shared_rewards.py`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from manymotives.data.environment import Environment
from manymotives.data.labels import Label, checked_labels, index_of
from manymotives.data.transitions import handy, read_only, read_only_matrix
from manymotives.errors import InputError, quoted

GAP = 0.15  # between two environments that are drawn side by side, in widths of the widest: at least


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Environments(Environment):
    """Several environments as one: `Environments({"maze A": a, "maze B": b})`.

    Parameters
    ----------
    members
        The environments by name, all with the same discount. Episodes start in each environment with equal probability,
        and then as that environment says. If all have coordinates, they are drawn side by side; if all have rewards of
        their own, of the same kind, so does the union.
    """

    names: tuple[Label, ...]  # of the environments
    members: tuple[Environment, ...]
    member: Int[np.ndarray, " S"]  # in which environment each state is …
    own: Int[np.ndarray, " S"]  # … and its number there
    state_names: tuple[Label, ...]  # all that a state is called in any of them
    state_name: Int[np.ndarray, " S"]  # which of these names each state has

    def __init__(self, members: Any) -> None:
        names, parts = _checked_members(members)
        sizes = [each.num_states for each in parts]
        member, own = np.repeat(np.arange(len(parts)), sizes), np.concatenate([np.arange(size) for size in sizes])
        actions = tuple(dict.fromkeys(action for each in parts for action in each.actions))
        number = {action: position for position, action in enumerate(actions)}
        acts = [np.array([number[action] for action in each.actions]) for each in parts]  # in the union's numbers
        called = [each.states[s] for each in parts for s in range(each.num_states)]
        state_names = tuple(dict.fromkeys(called))
        position = {name: k for k, name in enumerate(state_names)}
        labels = [f"{names[m]}: {name}" for m, name in zip(member, called)]
        available = np.zeros((len(member), len(actions)), dtype=bool)
        for m, (each, columns) in enumerate(zip(parts, acts)):
            available[np.ix_(member == m, columns)] = each.available
        for word, value in {
            "transitions": _transitions(parts, acts, len(actions)),
            "discount": parts[0].discount,
            "states": checked_labels(labels, len(labels), "state"),
            "actions": actions,
            "available": read_only(available),
            "is_terminal": read_only(np.concatenate([each.is_terminal for each in parts])),
            "start": read_only(np.concatenate([each.start for each in parts]) / len(parts)),
            "reward": _own_rewards(parts, acts, len(actions)),
            "coordinates": _side_by_side(parts),
            "warnings": tuple(f"{name}: {said}" for name, each in zip(names, parts) for said in each.warnings),
            "pairs": None,
            "names": names,
            "members": parts,
            "member": read_only(member),
            "own": read_only(own),
            "state_names": state_names,
            "state_name": read_only(np.array([position[name] for name in called])),
        }.items():
            object.__setattr__(self, word, value)

    def __getitem__(self, name: Label) -> Environment:
        """One of the environments."""
        return self.members[index_of(name, self.names, "environment")]

    @cached_property
    def first(self) -> Int[np.ndarray, " members"]:
        """The number of the first state of each environment."""
        return read_only(np.searchsorted(self.member, np.arange(len(self.members))))

    @property
    def parts(self) -> list[dict[str, Any]]:
        """Names that only the environments have, not their union: with it, all that `of_parts` needs."""
        return [
            {"name": name, "states": list(each.states), "actions": list(each.actions)}
            for name, each in zip(self.names, self.members)
        ]

    @classmethod
    def of_parts(cls, union: Environment, parts: Sequence[Mapping[str, Any]]) -> "Environments":
        """Several environments again, from their union and their own names; of one that was read from a file."""
        members, begin = {}, 0
        for part in parts:
            here = slice(begin, begin + len(part["states"]))
            acts = [index_of(action, union.actions, "action") for action in part["actions"]]
            rows = (np.arange(here.start, here.stop)[:, None] * union.num_actions + acts).ravel()
            matrix = union.matrix[rows][:, here]
            made = Environment(
                matrix if sp.issparse(union.transitions) else handy(matrix),
                discount=union.discount,
                states=part["states"],
                actions=part["actions"],
                available=union.available[here][:, acts],
                terminal=[name for name, ends in zip(part["states"], union.is_terminal[here]) if ends],
                start=union.start[here] * len(parts),
                reward=_part_of_reward(union.reward, here, acts),
            )
            if union.coordinates is not None:
                made = made.with_coordinates(union.coordinates[here])
            members[part["name"]], begin = made, here.stop
        found = cls(members)
        if found.states != union.states or found.actions != union.actions:
            raise InputError("its environments have other states or actions than their union")
        for word in ("warnings", "coordinates"):
            object.__setattr__(found, word, getattr(union, word))
        return found

    def lifted(self, values: Any) -> np.ndarray:
        """Values [..., name, …] of state names, along the first axis of a reward, as values of all states.

        `environments.lifted([1.0, 0.0, …])` is the reward of every state that has one of `state_names`.
        """
        given = np.asarray(values, dtype=float)
        if given.ndim == 0 or given.shape[-1] != len(self.state_names):
            raise InputError(
                f"there are {len(self.state_names)} state names in these environments; found values of shape "
                f"{list(given.shape)}. Give one for each of environments.state_names, last."
            )
        return given[..., self.state_name]

    def unvisited(self, visits: Any) -> tuple[str, ...]:
        """A warning for each environment in which nobody was, from visits [S]."""
        counts = np.bincount(self.member, weights=np.asarray(visits, dtype=float), minlength=len(self.names))
        return tuple(
            f"there are no choices in environment {quoted(name)}: results for it follow from the other "
            "environments alone."
            for name, count in zip(self.names, counts)
            if count == 0
        )

    def with_discount(self, discount: float) -> "Environments":
        """The same environments, in which the next step counts this much."""
        found = Environments({name: each.with_discount(discount) for name, each in zip(self.names, self.members)})
        for word in ("warnings", "coordinates"):
            object.__setattr__(found, word, getattr(self, word))
        return found

    def with_memory(self, firsts: Sequence[Label] | None = None) -> Environment:
        raise InputError(
            "memory is not available for several environments yet. Use a single environment, or leave out the memory."
        )

    def __repr__(self) -> str:
        return f"Environments of {', '.join(map(quoted, self.names))}: {super().__repr__()}"


def environment_of(given: Any) -> Any:
    """What agents act in, as one environment: several of them, by name, are made one; others stay what they are."""
    return Environments(given) if isinstance(given, Mapping) else given


# ---- parts of the union --------------------------------------------------------------------------------------


def _checked_members(members: Any) -> tuple[tuple[Label, ...], tuple[Environment, ...]]:
    if not isinstance(members, Mapping) or not members:
        found = "an empty mapping" if isinstance(members, Mapping) else type(members).__name__
        raise InputError(
            f'several environments must be given by name, such as {{"maze A": a, "maze B": b}}; found {found}.'
        )
    for name, each in members.items():
        if not isinstance(name, str | int) or isinstance(name, bool):
            raise InputError(f"names of environments must be text or whole numbers; found {quoted(name)}.")
        if isinstance(each, Environments) or not isinstance(each, Environment):
            beliefs = type(each).__name__ == "DynamicsBelief"
            cure = " For unknown environments, use their means (belief.mean)." if beliefs else ""
            raise InputError(f"environment {quoted(name)} must be mm.Environment; found {type(each).__name__}.{cure}")
    names, parts = tuple(members), tuple(members.values())
    for name, each in zip(names, parts):
        if each.discount != parts[0].discount:
            raise InputError(
                f"environment {quoted(names[0])} has the discount {parts[0].discount:g} and {quoted(name)} has "
                f"{each.discount:g}, under which the same reward has different meanings. Give all of them the "
                "same discount."
            )
    return names, parts


def _transitions(parts: Sequence[Environment], acts: Sequence[np.ndarray], num_actions: int) -> Any:
    """Block-diagonal: sparse where one is, or where there are many states; the numbers are those of the parts."""
    if len(parts) == 1:
        return parts[0].transitions
    size = sum(each.num_states for each in parts)
    rows, columns, values, begin = [], [], [], 0
    for each, act in zip(parts, acts):
        moves = each.matrix.tocoo()
        here, action = np.divmod(moves.row, each.num_actions)
        rows.append((begin + here) * num_actions + act[action])
        columns.append(begin + moves.col)
        values.append(moves.data)
        begin += each.num_states
    where = (np.concatenate(rows), np.concatenate(columns))
    matrix = sp.csr_array((np.concatenate(values), where), shape=(size * num_actions, size))
    matrix.sort_indices()
    if any(sp.issparse(each.transitions) for each in parts) or sp.issparse(handy(matrix)):
        return read_only_matrix(matrix)
    return read_only(handy(matrix))


def _own_rewards(parts: Sequence[Environment], acts: Sequence[np.ndarray], num_actions: int) -> np.ndarray | None:
    given = [each.reward for each in parts if each.reward is not None]
    if len(given) < len(parts) or len({reward.ndim for reward in given}) > 1:
        return None
    if given[0].ndim == 1:
        return read_only(np.concatenate(given))
    tables = [np.zeros((len(reward), num_actions)) for reward in given]
    for table, reward, act in zip(tables, given, acts):
        table[:, act] = reward
    return read_only(np.concatenate(tables))


def _part_of_reward(reward: np.ndarray | None, here: slice, acts: list[int]) -> np.ndarray | None:
    if reward is None:
        return None
    return reward[here] if reward.ndim == 1 else reward[here][:, acts]


def _side_by_side(parts: Sequence[Environment]) -> Float[np.ndarray, "S 2"] | None:
    """Coordinates of all, one environment to the right of the other; those of grids stay on one grid."""
    given = [each.coordinates for each in parts]
    if len(given) == 1 or any(each is None for each in given):
        return given[0] if len(given) == 1 else None
    known = [np.asarray(each) for each in given]
    widths = [float(np.ptp(each[:, 0])) for each in known]
    spacing = min(_spacing(each) for each in known)
    gap = spacing * max(2, np.ceil(GAP * max(widths) / spacing))
    right, placed = float(known[0][:, 0].min()), []
    for each, width in zip(known, widths):
        placed.append(each + np.array([right - each[:, 0].min(), 0.0]))
        right += width + gap
    return read_only(np.concatenate(placed))


def _spacing(places: np.ndarray) -> float:
    """The smallest distance between two different places; 1 where there is only one."""
    from scipy.spatial import cKDTree  # takes a third of a second to import

    distinct = np.unique(places, axis=0)
    return 1.0 if len(distinct) < 2 else float(cKDTree(distinct).query(distinct, k=2)[0][:, 1].min())
