"""A table of steps in, in any order; checked, sorted and linked steps out, each knowing what came next."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from manymotives.environment import Environment
from manymotives.errors import InputError, RowError
from manymotives.labels import Label
from manymotives.tables import LARGEST_WHOLE

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
    next_state_column: str,
) -> Steps:
    """Sort the rows, refuse repeated steps, and find what followed each of them.

    Nothing follows across a gap: a jump in whole-numbered steps, or a row without a state.
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
        raise RowError(
            "",
            sorted((users(at - 1), users(at))),
            f" are the same step: task {tasks[rows['task'][at]]!r}, episode {episodes[episode[at]]!r}, step "
            f"{step[at]} ({repeated.size} such pair{'s' if repeated.size > 1 else ''}). Keep one of them.",
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
            "",
            (users(at),),
            f" says that state {states[given[at]]!r} comes next, but the following step is in "
            f"{states[follower[at]]!r}. Mark where episodes begin, or leave {next_state_column!r} out.",
        )
    if not (known & (action != NONE)).any():
        raise InputError("there is no row with both a state and an action: nothing was demonstrated.")

    warnings = []
    if not known.all():
        warnings.append(f"{(~known).sum()} rows have no state and are left out; nothing follows across them.")
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


def check_choices(rows: dict[str, np.ndarray], environment: Environment) -> None:
    """Every action taken exists where it was taken."""
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
            "",
            (at,),
            f": action {what!r} is taken in state {where!r}, which is terminal{more}. Leave the action empty there, or "
            "start a new episode.",
        )
    possible = [environment.actions[a] for a in np.flatnonzero(environment.available[state[at]])]
    raise RowError(
        "",
        (at,),
        f": action {what!r} does not exist in state {where!r}{more}. There one can: {', '.join(map(repr, possible))}.",
    )


def ordered_steps(column: pd.Series, name: str) -> np.ndarray:
    """Steps as whole numbers where they are, as they came otherwise."""
    kinds = pd.api.types
    if kinds.is_datetime64_any_dtype(column.dtype) or kinds.is_timedelta64_dtype(column.dtype):
        return column.to_numpy()
    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=float)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if wrong.size:
        found = column.iloc[wrong[0]]
        raise RowError(
            f"column {name!r} must hold numbers or times, which say what came first; in ",
            (wrong[0],),
            f" it holds {found.item() if isinstance(found, np.generic) else found!r}.",
        )
    if kinds.is_integer_dtype(column.dtype):
        return column.to_numpy(dtype=np.int64)
    whole = (numbers == numbers.round()).all() and np.abs(numbers).max() < LARGEST_WHOLE
    return numbers.astype(np.int64) if whole else numbers
