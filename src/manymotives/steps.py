"""A table of steps in, in any order; checked, sorted and linked steps out, each knowing what came next."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from manymotives.environment import Environment
from manymotives.errors import InputError
from manymotives.labels import Label

NONE = -1  # no action was taken or recorded; the next state is not known


class Steps(NamedTuple):
    """Rows sorted by task, episode and step, as indices; see `Demonstrations`."""

    task: np.ndarray
    episode: np.ndarray
    step: np.ndarray
    state: np.ndarray
    action: np.ndarray
    next_state: np.ndarray
    follows: np.ndarray
    warnings: tuple[str, ...]


def linked_steps(
    rows: pd.DataFrame,
    *,
    tasks: tuple[Label, ...],
    episodes: tuple[Label, ...],
    states: tuple[Label, ...],
    next_state_column: str | None,
) -> Steps:
    """Sort the rows, refuse repeated steps, and find what followed each of them.

    Nothing follows across a gap: a jump in whole-numbered steps, or a row without a state.
    """
    order = np.lexsort((rows["step"].to_numpy(), rows["episode"].to_numpy(), rows["task"].to_numpy()))
    rows = rows.iloc[order].reset_index(drop=True)  # order[i] is the users' row of sorted row i, for messages
    same_episode = (rows["episode"].diff() == 0).to_numpy()  # as the row above
    repeated = np.flatnonzero(same_episode & (rows["step"] == rows["step"].shift()).to_numpy())
    if repeated.size:
        at = repeated[0]
        first, second = sorted(order[[at - 1, at]])
        raise InputError(
            f"rows {first} and {second} (rows count from 0) are the same step: task {tasks[rows['task'][at]]!r}, "
            f"episode {episodes[rows['episode'][at]]!r}, step {rows['step'][at]} ({repeated.size} such "
            f"pair{'s' if repeated.size > 1 else ''}). Keep one of them."
        )

    state, action = rows["state"].to_numpy(), rows["action"].to_numpy()
    known = state != NONE
    whole = pd.api.types.is_integer_dtype(rows["step"].dtype)
    adjacent = same_episode & ((rows["step"].diff() == 1).to_numpy() if whole else True)
    follows = adjacent & known & np.append(False, known[:-1])
    has_follower = np.append(follows[1:], False)
    follower = np.append(state[1:], NONE)
    given = rows["next_state"].to_numpy()
    clash = np.flatnonzero(has_follower & (given != NONE) & (given != follower))
    if clash.size:
        at = clash[0]
        raise InputError(
            f"row {order[at]} (rows count from 0) says that state {states[given[at]]!r} comes next, but the following "
            f"step is in {states[follower[at]]!r}. Mark where episodes begin, or leave {next_state_column!r} out."
        )
    if not (known & (action != NONE)).any():
        raise InputError("there is no row with both a state and an action: nothing was demonstrated.")

    warnings = []
    if not known.all():
        warnings.append(f"{(~known).sum()} rows have no state and are left out; nothing follows across them.")
    gaps = int((same_episode & ~adjacent).sum())
    if gaps:
        warnings.append(f"{gaps} gaps in the steps: no transition is counted across them.")
    return Steps(
        task=rows["task"].to_numpy()[known],
        episode=rows["episode"].to_numpy()[known],
        step=rows["step"].to_numpy()[known],
        state=state[known],
        action=action[known],
        next_state=np.where(has_follower & (given == NONE), follower, given)[known],
        follows=follows[known],
        warnings=tuple(warnings),
    )


def check_choices(rows: pd.DataFrame, environment: Environment) -> None:
    """Every action taken exists where it was taken."""
    state, action = rows["state"].to_numpy(), rows["action"].to_numpy()
    chosen = np.flatnonzero((state != NONE) & (action != NONE))
    wrong = chosen[~environment.available[state[chosen], action[chosen]]]
    if wrong.size == 0:
        return
    at = wrong[0]
    where, what = environment.states[state[at]], environment.actions[action[at]]
    more = f" ({wrong.size - 1} more such rows)" if wrong.size > 1 else ""
    if environment.is_terminal[state[at]]:
        raise InputError(
            f"row {at} (rows count from 0): action {what!r} is taken in state {where!r}, which is terminal{more}. "
            "Leave the action empty there, or start a new episode."
        )
    possible = [environment.actions[a] for a in np.flatnonzero(environment.available[state[at]])]
    raise InputError(
        f"row {at} (rows count from 0): action {what!r} does not exist in state {where!r}{more}. There one can: "
        f"{', '.join(map(repr, possible))}."
    )


def ordered_steps(column: pd.Series, name: str) -> np.ndarray:
    """Steps as whole numbers where they are, as they came otherwise."""
    kinds = pd.api.types
    if kinds.is_datetime64_any_dtype(column.dtype) or kinds.is_timedelta64_dtype(column.dtype):
        return column.to_numpy()
    try:
        numbers = pd.to_numeric(column)
    except (ValueError, TypeError):
        raise InputError(
            f"column {name!r} must hold numbers or times, which say what came first; found {column[0]!r}."
        ) from None
    return numbers.to_numpy().astype(np.int64) if (numbers == numbers.round()).all() else numbers.to_numpy()
