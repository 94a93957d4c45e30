"""Which column is what, guessed from what columns are usually called; whoever guesses also says so."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from manymotives.data.tables import MANY, Column, column_name
from manymotives.errors import InputError, listed, quoted

USUAL: dict[str, tuple[str, ...]] = {
    "task": (
        *("subject", "subject_id", "participant", "participant_id", "subj", "subj_id", "subid", "sub", "ppt", "pid"),
        *(
            "mouse",
            "mouse_id",
            "rat",
            "rat_id",
            "animal",
            "animal_id",
            "monkey",
            "agent",
            "agent_id",
            "teacher",
            "driver",
        ),
        *("player", "player_id", "user", "user_id", "person", "task", "id"),
    ),
    "state": (
        *("state", "state_id", "s", "location", "node", "place", "position", "cell", "room", "site", "context"),
        *("stimulus", "observation", "obs"),
    ),
    "action": ("action", "action_id", "a", "act", "choice", "response", "resp", "decision", "move", "chosen"),
    "next_state": (
        *("next_state", "state_next", "nextstate", "new_state", "following_state", "s_next", "next_s", "s_prime"),
        *("next_location", "next_node", "next_place", "next_position", "next_cell", "next_room"),
        *("next_observation", "next_obs", "leads_to", "to", "to_state", "destination", "successor"),
    ),
    "episode": (
        *("episode", "episode_id", "trajectory", "trajectory_id", "traj", "traj_id", "bout", "session", "session_id"),
        *("block", "run", "game", "round", "day"),
    ),
    "step": ("step", "t", "timestep", "time_step", "tick", "time", "timestamp", "onset"),
    "probability": ("probability", "prob", "p", "transition_probability"),
}
TRIAL = ("trial", "trial_id", "trial_number", "trial_index", "trialnum", "trial_num", "trial_no")


class Columns(NamedTuple):
    """What each column is; None where there is none."""

    task: Column | None
    state: Column
    action: Column
    next_state: Column | None
    episode: Column | None
    step: str | None

    def __str__(self) -> str:
        words = {"task": "subject", "next_state": "next state"}
        return ", ".join(
            f"{words.get(word, word)} = {column_name(column)}" for word, column in self._asdict().items() if column
        )


def choice_columns(columns: Sequence[str], given: Mapping[str, Column | None], file: str) -> Columns:
    """The columns of a table of choices: those given, and a guess at the others."""
    usual = {word: given.get(word) or _usual(columns, USUAL[word], word, file) for word in Columns._fields}
    # a trial is an episode where steps are counted inside it, and a step where they are not
    trial = _usual(columns, TRIAL, "trial", file)
    taken = {each for column in usual.values() if column for each in _each(column)}
    if trial is not None and trial not in taken:
        if usual["step"] is None:
            usual["step"] = trial
        elif not given.get("episode"):
            usual["episode"] = trial if usual["episode"] is None else [*_each(usual["episode"]), trial]
    for word in ("state", "action"):
        if usual[word] is None:
            raise InputError(
                f"no column of {file} looks like the {word}. Name it with --{word}; its columns are "
                f"{listed(columns, MANY)}."
            )
    return Columns(**usual)  # type: ignore[arg-type]


def environment_columns(columns: Sequence[str], choices: Columns | None, file: str) -> dict[str, Column]:
    """The columns of an environment table: those that the table of choices has, else the usual ones."""
    found: dict[str, Column | None] = {}
    for word in ("state", "action", "next_state", "probability"):
        same = getattr(choices, word, None)
        if word == "next_state" and same is None and choices is not None and not isinstance(choices.state, str):
            same = [f"next_{each}" for each in choices.state]
        has_it = same is not None and all(each in columns for each in _each(same))
        found[word] = same if has_it else _usual(columns, USUAL[word], word, file)
    missing = [word for word, column in found.items() if column is None]
    if missing:
        raise InputError(
            f"no column of {file} looks like the {missing[0].replace('_', ' ')}. An environment table has the columns "
            f"state, action, next_state and probability; this one has {listed(columns, MANY)}. Rename its columns."
        )
    return {word: column for word, column in found.items() if column is not None}


def environment_name_column(columns: Sequence[str], table: str) -> str | None:
    """The column that says in which of several environments a row is."""
    return _usual(columns, ("environment",), "environment", table)


def task_column(columns: Sequence[str], table: str) -> str:
    """The column that names tasks in a table with a row for each of them: `task`, else the usual one."""
    found = "task" if "task" in columns else _usual(columns, USUAL["task"], "task", table)
    if found is None:
        raise InputError(
            f"no column of {table} looks like the task. Name it with task=...; the columns are "
            f"{listed(columns, MANY) or 'none'}."
        )
    return found


def covariate_task_columns(columns: Sequence[str], choices: Columns, file: str) -> Column:
    """The columns that name subjects in a table of covariates: those of the table of choices, else the usual one."""
    same = choices.task
    if same is not None and all(each in columns for each in _each(same)):
        return same
    found = "task" if "task" in columns else _usual(columns, USUAL["task"], "subject", file)
    if found is None or not (same is None or isinstance(same, str)):
        raise InputError(
            f"{file} has no column {quoted(column_name(same))}, which names subjects in the table of choices. Use "
            f"the same name in both; the columns of this one are {listed(columns, MANY)}."
        )
    return found


def feature_columns(columns: Sequence[str], choices: Columns, file: str) -> tuple[Column, Column | None]:
    """The columns with the states and, where there is one, the actions of a table of features; the others are features.

    They are called as in the table of choices, or `state` and `action`: anything else may be a feature.
    """
    found: list[Column | None] = []
    for word, same in (("state", choices.state), ("action", choices.action)):
        has_it = all(each in columns for each in _each(same))
        found.append(same if has_it else _usual(columns, (word,), word, file))
    state, action = found
    if state is None:
        called = " or ".join(map(quoted, dict.fromkeys([column_name(choices.state), "state"])))
        raise InputError(
            f"{file} has no column {called}. A table of features has one row per state and one column for each "
            f"feature; this one has {listed(columns, MANY)}."
        )
    return state, action


def _usual(columns: Sequence[str], names: Sequence[str], word: str, file: str) -> str | None:
    """The column with the first of these names that the table has, however it is written."""
    for name in names:
        alike = [column for column in columns if _plain(column) == name]
        if len(alike) > 1:
            raise InputError(
                f"columns {' and '.join(map(quoted, alike))} of {file} could both be the {word.replace('_', ' ')}. "
                "Rename one of them."
            )
        if alike:
            return alike[0]
    return None


def _plain(name: str) -> str:
    """Subject ID, subjectId and subject-id are one name."""
    return re.sub(r"[\s.\-_]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)).strip("_").lower()


def _each(column: Column) -> list[str]:
    return [column] if isinstance(column, str) else list(column)
