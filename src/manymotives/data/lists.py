"""Trajectories as lists in; a table with one row a step out."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from manymotives.data.labels import Label
from manymotives.errors import InputError


def table_of_lists(
    trajectories: Sequence[Sequence[Sequence[Any]]],
    tasks: Sequence[Label] | None,
    environments: Sequence[Label] | None,
) -> pd.DataFrame:
    """Columns task, episode, step, state and action, and environment where there are several."""
    if len(trajectories) == 0:
        raise InputError("there are no trajectories.")
    owners = tuple(range(len(trajectories))) if tasks is None else tuple(tasks)
    if len(owners) != len(trajectories):
        raise InputError(f"tasks must name the task of each trajectory; found {len(owners)} for {len(trajectories)}.")
    if environments is not None and len(environments) != len(trajectories):
        raise InputError(
            f"environments must name the environment of each trajectory; found {len(environments)} for "
            f"{len(trajectories)}."
        )
    columns: dict[str, list[Any]] = {
        "task": [],
        "episode": [],
        "step": [],
        "state": [],
        "action": [],
    } | ({} if environments is None else {"environment": []})
    told: dict[Label, int] = {}
    for number, (owner, trajectory) in enumerate(zip(owners, trajectories)):
        if _is_of_pairs(trajectory):
            raise InputError(
                f"trajectory {number} looks like a list of (state, action) pairs, but its states and its actions are "
                "wanted as two lists, such as ([0, 4, 8], [1, 2, 1]). Convert each trajectory: tuple(zip(*trajectory))."
            )
        visited, taken = map(list, trajectory)
        if len(visited) - len(taken) not in (0, 1) or len(visited) == 0:
            raise InputError(
                f"trajectory {number} has {len(visited)} states, but the number of its actions is "
                f"{len(taken)}. Give one action for each state, or one fewer if the last state has none."
            )
        episode = told[owner] = told.get(owner, -1) + 1
        columns["task"] += [owner] * len(visited)
        columns["episode"] += [episode] * len(visited)
        columns["step"] += range(len(visited))
        columns["state"] += visited
        if environments is not None:
            columns["environment"] += [environments[number]] * len(visited)
        columns["action"] += taken + [None] * (len(visited) - len(taken))
    # object columns keep every label as it was given: None must not turn whole numbers into floats
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()}).astype(
        {"episode": int, "step": int}
    )


def _is_of_pairs(trajectory: Any) -> bool:
    """Whether it has a pair for each step; of two steps, which may also be lists of states and actions, if tuples."""
    pairs = [isinstance(step, Sequence) and not isinstance(step, str) and len(step) == 2 for step in trajectory]
    if len(pairs) != 2:
        return len(pairs) > 0 and all(pairs)
    return isinstance(trajectory, list) and all(pairs) and all(isinstance(step, tuple) for step in trajectory)
