"""A table of steps in, in any order; checked, sorted and linked steps out, each knowing what came next."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from manymotives.data.environment import Environment
from manymotives.data.labels import Label
from manymotives.data.tables import LARGEST_WHOLE, numbers_in
from manymotives.errors import InputError, RowError, listed, quoted

SHOWN = 20  # actions that a message lists
LARGEST_STEP = 2.0**62  # whole numbers beyond are ordered as floating-point ones
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
    rows: dict[str, np.ndarray],
    *,
    tasks: tuple[Label, ...],
    episodes: tuple[Label, ...],
    states: tuple[Label, ...],
    columns: Mapping[str, str],
) -> Steps:
    """Sort the rows, refuse repeated steps, and find what followed each of them.

    Nothing follows across a gap: a jump in whole-numbered steps, or a row without a state. `columns`: what users call
    the columns that they have.
    """
    order = None if _is_sorted(rows) else np.lexsort((rows["step"], rows["episode"]))  # episodes are sorted by task
    if order is not None:
        rows = {name: column[order] for name, column in rows.items()}
    users = (lambda at: int(at)) if order is None else (lambda at: int(order[at]))  # the users' row of a sorted row
    step, episode = rows["step"], rows["episode"]
    same_episode = _as_above(episode)
    repeated = np.flatnonzero(same_episode & _as_above(step))
    if repeated.size:
        at = repeated[0]
        whose, which = quoted(tasks[rows["task"][at]]), quoted(episodes[episode[at]])
        same = {"task": whose, "episode": which, "step": str(step[at])}
        named = ", ".join(f"{columns[word]} {value}" for word, value in same.items() if word in columns)
        more = f"; {repeated.size - 1} more such" if repeated.size > 1 else ""
        raise RowError(
            f"column {quoted(columns['step'])}, ",  # without it, steps are counted, and differ
            sorted((users(at - 1), users(at))),
            f": the same step occurs twice ({named}{more}). Keep one of them, or number them in order.",
        )

    state, action, given = rows["state"], rows["action"], rows["next_state"]
    known = state != NONE
    adjacent = same_episode
    if step.dtype.kind in "iu":
        adjacent = same_episode & np.append(False, np.diff(step) == 1)
    follows = adjacent & known & np.append(False, known[:-1])
    has_follower = np.append(follows[1:], False)
    follower = np.append(state[1:], NONE)
    clash = np.flatnonzero(has_follower & (given != NONE) & (given != follower))
    if clash.size:
        at = clash[0]
        raise RowError(
            f"column {quoted(columns['next_state'])}, ",
            (users(at),),
            f": {quoted(states[given[at]])} is given as the next state, but the following step is in "
            f"{quoted(states[follower[at]])}. Mark where episodes begin, or leave the column out.",
        )
    if not (known & (action != NONE)).any():
        raise InputError(
            f"no row has both a state (column {quoted(columns['state'])}) and an action (column "
            f"{quoted(columns['action'])}), so there are no choices. Fill in both wherever something was chosen."
        )

    warnings = []
    if not known.all():
        warnings.append(f"{(~known).sum()} rows have no state and are left out; no transition is counted across them.")
    gaps = int((same_episode & ~adjacent).sum())
    if gaps:
        warnings.append(f"{gaps} gaps in the steps: no transition is counted across them.")
    kept = slice(None) if known.all() else known
    return Steps(
        task=rows["task"][kept],
        episode=episode[kept],
        step=step[kept],
        state=state[kept],
        action=action[kept],
        next_state=np.where(has_follower & (given == NONE), follower, given)[kept],
        follows=follows[kept],
        warnings=tuple(warnings),
    )


def _as_above(column: np.ndarray) -> np.ndarray:
    """Whether each entry is that of the row above."""
    return np.append(False, column[1:] == column[:-1])


def _is_sorted(rows: dict[str, np.ndarray]) -> bool:
    """Whether rows already come by episode and step."""
    episode, step = rows["episode"], rows["step"]
    ahead, behind = episode[1:], episode[:-1]
    return bool(((ahead > behind) | ((ahead == behind) & (step[1:] >= step[:-1]))).all())


def check_choices(rows: dict[str, np.ndarray], environment: Environment, column: str) -> None:
    """Every action taken exists where it was taken; `column`: what users call that of actions."""
    state, action = rows["state"], rows["action"]
    chosen = np.flatnonzero((state != NONE) & (action != NONE))
    wrong = chosen[~environment.available[state[chosen], action[chosen]]]
    if wrong.size == 0:
        return
    at = wrong[0]
    where, what = environment.states[state[at]], environment.actions[action[at]]
    more = f" ({wrong.size - 1} more such rows)" if wrong.size > 1 else ""
    if environment.is_terminal[state[at]]:
        raise RowError(
            f"column {quoted(column)}, ",
            (at,),
            f": action {quoted(what)} is taken in state {quoted(where)}, which is terminal{more}. Leave the "
            "action empty there, or start a new episode.",
        )
    possible = [environment.actions[a] for a in np.flatnonzero(environment.available[state[at]])]
    raise RowError(
        f"column {quoted(column)}, ",
        (at,),
        f": action {quoted(what)} does not exist in state {quoted(where)}{more}. Available there: "
        f"{listed(possible, SHOWN)}. Correct it, or add the action to the environment.",
    )


def ordered_steps(column: pd.Series, name: str) -> np.ndarray:
    """Steps as whole numbers where they are, as they came otherwise."""
    kinds = pd.api.types
    column = _as_times(column, name)
    if kinds.is_datetime64_any_dtype(column.dtype) or kinds.is_timedelta64_dtype(column.dtype):
        return column.to_numpy()
    numbers = numbers_in(column)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        found = column.iloc[wrong[0]]
        raise RowError(
            f"column {quoted(name)}, ",
            (wrong[0],),
            f": {quoted(found.item() if isinstance(found, np.generic) else found)} is neither a number nor a "
            "time, so it does not determine the order of steps. Write one of these.",
        )
    if kinds.is_integer_dtype(column.dtype) and np.abs(numbers).max() < LARGEST_STEP:
        return column.to_numpy(dtype=np.int64)
    whole = (numbers == numbers.round()).all() and np.abs(numbers).max() < LARGEST_WHOLE
    return numbers.astype(np.int64) if whole else numbers


def _as_times(column: pd.Series, name: str) -> pd.Series:
    """Times of several zones, or with one, in UTC; a time without a zone beside one that has it cannot be ordered."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        return column.dt.tz_convert("UTC").dt.tz_localize(None)
    if column.dtype != object or pd.api.types.infer_dtype(column) not in ("datetime", "datetime64"):
        return column
    zoned = np.array([time.tzinfo is not None for time in column])
    if zoned.any() and not zoned.all():
        raise RowError(
            f"column {quoted(name)}, ",
            sorted((int(np.argmax(zoned)), int(np.argmin(zoned)))),
            ": one of these times has a time zone and the other has none, so they do not determine the order of "
            "steps. Give a time zone to all of them, or to none.",
        )
    try:
        return pd.to_datetime(column, utc=True).dt.tz_localize(None)
    except (ValueError, OverflowError):
        return column


def distinct_pairs(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different pairs [n, 2] of two columns of indices, and which of them each row has; −1 is an index too."""
    size = int(second.max()) + 2
    keys, where = np.unique(
        (first.astype(np.int64) + 1) * size + second + 1, return_inverse=True
    )  # as one number: fast
    return np.stack(np.divmod(keys, size), axis=1) - 1, where.ravel()


def about_unused(present: Collection[Any], wanted: Mapping[str, Any]) -> tuple[str, ...]:
    """A warning for each column whose name says that it orders steps, if it was not asked for."""
    uses = {"episode": "distinguishes the episodes of a task", "step": "orders the rows of an episode"}
    return tuple(
        f"the table has a column {word!r} that was not used; pass {word}={word!r} if it {use}."
        for word, use in uses.items()
        if wanted[word] is None and word in present
    )
