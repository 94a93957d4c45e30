"""Rows of steps in several environments in, by name; numbers of states of their union, and episodes, out."""

from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from manymotives.data.environment import Environment
from manymotives.data.environments import Environments, environment_of
from manymotives.data.labels import Label, indices_of
from manymotives.data.tables import Column, column_name
from manymotives.errors import InputError, RowError, listed, quoted

COLUMN = "environment"  # what the column is called unless a user says otherwise


def environment_and_column(
    given: Any, environment: Any, present: tuple[str, ...]
) -> tuple[Environment | None, Column | None]:
    """The environment, or the union of several, and the column that says in which of them a row is.

    `environment` names the column; or, where nothing else is given, it is the environment itself. `present`: columns
    that there are.
    """
    if given is None and not isinstance(environment, str | list | tuple):
        given, environment = environment, None
    known = environment_of(given)
    if known is not None and not isinstance(known, Environment):
        raise InputError(f"environment must be mm.Environment, or several by name; found {type(known).__name__}.")
    if isinstance(known, Environments):
        return known, environment if environment is not None else COLUMN if COLUMN in present else None
    if environment is not None:
        raise InputError(
            f"environment={quoted(environment)} names the column that says to which of several environments a row "
            'belongs, but there is only one environment. Give several by name: {"maze A": a, "maze B": b}.'
        )
    return known, None


def columns_present(frame: Any) -> tuple[str, ...]:
    """The names of a data frame's columns; none where it is no data frame."""
    try:
        return tuple(nw.from_native(frame, eager_only=True).columns)
    except Exception:  # what is wrong with it, whoever reads its columns says
        return ()


def environment_of_rows(table: pd.DataFrame, environments: Environments, column: Column | None) -> np.ndarray | None:
    """[rows] the number of each row's environment; None where states are named with theirs already ("maze A: s1")."""
    if column is None:
        if table["state"].dropna().isin(environments.states).all():
            return None
        raise InputError(
            f"the table of choices has no column {quoted(COLUMN)} that says to which environment each row "
            f"belongs: {listed(environments.names)}. Add it, or name another with environment=…."
        )
    found = indices_of(table["environment"], environments.names, "environment", column_name(column))
    if (found < 0).any():
        row = int(np.argmin(found))
        raise RowError(f"column {quoted(column_name(column))} is empty in ", (row,), ". Fill it in.")
    return found


def union_states(values: pd.Series, where: np.ndarray, environments: Environments, column: str) -> np.ndarray:
    """Numbers [rows] of the union's states, from names of states and the environment of each row; −1: none."""
    found = np.full(len(values), -1)
    for m, (name, each, first) in enumerate(zip(environments.names, environments.members, environments.first)):
        mine = where == m
        if not mine.any():
            continue
        try:
            index = indices_of(values[mine], each.states, "state", column)
        except RowError as error:
            raise RowError(f"environment {quoted(name)}, {error.before}", error.rows, error.after) from None
        found[mine] = np.where(index < 0, -1, index + first)
    return found


def in_every_environment(
    table: pd.DataFrame, environments: Environments, state: str, where: str | None
) -> pd.DataFrame:
    """Rows about names of states as rows about states of the union: one for each environment that has the name.

    `where`: the column that says which environment a row is about, if there is one. Other rows stay as they are.
    """
    of_name: dict[tuple[str, str | None], list[Label]] = {}
    for label, m, name in zip(environments.states, environments.member, environments.state_name):
        own = str(environments.state_names[name])
        of_name.setdefault((own, None), []).append(label)
        of_name.setdefault((own, str(environments.names[m])), []).append(label)
    there = [None] * len(table) if where is None else [str(name) for name in table[where]]
    labels = [of_name.get((str(name), place), [name]) for name, place in zip(table[state], there)]
    made = table.loc[table.index.repeat([len(each) for each in labels])].copy()
    made[state] = pd.Series([label for each in labels for label in each], index=made.index, dtype=object)
    return made if where is None else made.drop(columns=where)


def union_episodes(
    task: np.ndarray, label: Any, labels: tuple[Label, ...], where: np.ndarray, environments: Environments
) -> tuple[np.ndarray, tuple[Label, ...]]:
    """Episodes that end where an environment does: numbers [rows] of labels, and the labels.

    Labels are the users' own, with the environment's name before them where a task has one label in several.
    """
    names = environments.names
    label = np.broadcast_to(label, task.shape)
    keys = np.unique(np.stack([task, label, where], axis=1), axis=0)
    is_clear = len(np.unique(keys[:, :2], axis=0)) == len(keys)
    if len(labels) == 1:
        made: list[Label] = list(names)
    else:
        made = [each if is_clear else f"{name}: {each}" for each in labels for name in names]
    return label * len(names) + where, tuple(made)
