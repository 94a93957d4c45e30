"""What agents did: trajectories of any length in, counts out. Every choice keeps its place in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from jaxtyping import Bool, Int

from manymotives.data.environment import Environment
from manymotives.data.environments import Environments
from manymotives.data.labels import Label, checked_labels, indices_of, sorted_labels
from manymotives.data.lists import table_of_lists
from manymotives.data.steps import NONE, about_unused, check_choices, distinct_pairs, linked_steps, ordered_steps
from manymotives.data.tables import Backend, Column, column_name, columns_of, frame_of
from manymotives.data.union_rows import (
    columns_present,
    environment_and_column,
    environment_of_rows,
    union_episodes,
    union_states,
)
from manymotives.errors import InputError, RowError, listed, quoted


@dataclass(frozen=True, eq=False, repr=False)
class Demonstrations:
    """The choices of many tasks (subjects, teachers, …), with one row per visited state.

    Rows are sorted by task, episode and step, so the rows above a choice are what preceded it. `action` is −1 in a
    state without a recorded action (often the last of an episode); `next_state` is −1 if it is unknown, at the end of
    an episode or before a gap.

    Attributes
    ----------
    tasks, states, actions
        Names.
    episodes
        The name of each episode in your data; episodes of different tasks may have the same name.
    task, state, action
        [rows] indices into these names.
    episode
        [rows] indices into `episodes`, different for every episode of every task.
    step
        [rows] step numbers or times, as in your data.
    next_state
        [rows] indices of states.
    follows
        [rows] whether a row is the step immediately after the row above it.
    warnings
        Warnings about the data.
    """

    tasks: tuple[Label, ...]
    states: tuple[Label, ...]
    actions: tuple[Label, ...]
    episodes: tuple[Label, ...]  # the users' name of each episode; episodes of different tasks may share one
    task: Int[np.ndarray, " rows"]
    episode: Int[np.ndarray, " rows"]  # index into `episodes`, different for every episode of every task
    step: np.ndarray  # the users' own numbers or times
    state: Int[np.ndarray, " rows"]
    action: Int[np.ndarray, " rows"]
    next_state: Int[np.ndarray, " rows"]
    follows: Bool[np.ndarray, " rows"]  # whether a row is the very next step after the row above it
    warnings: tuple[str, ...] = ()  # what a careful reader of the data would want to know

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        environments: Environment | Mapping[Any, Environment] | None = None,
        *,
        task: Column | None = "task",
        state: Column = "state",
        action: Column = "action",
        episode: Column | None = None,
        step: str | None = None,
        next_state: Column | None = None,
        environment: Any = None,
    ) -> "Demonstrations":
        """Read demonstrations from a data frame with one row per step (pandas, polars, pyarrow, …).

        Parameters
        ----------
        frame
            The table. An empty `action` is a state in which nothing was chosen; an empty `state` is a gap.
        environments
            The environment, or several by name. It provides the names of states and actions, and says which actions
            exist in which state. Without it, the names are taken from the table and sorted.
        task, state, action
            Names of the columns; several, such as `state=["room", "hour"]`, are combined into one. With `task=None`,
            all rows belong to one task.
        episode
            The column that distinguishes the episodes of a task. Without it, each task has one episode.
        step
            The column that orders an episode: whole numbers (a missing number is a gap), other numbers or times.
            Without it, rows are taken to be in order.
        next_state
            The column of next states. Without it, the next state is the state of the next step.
        environment
            With several environments, the column that names the environment of a row; "environment" if there is such a
            column. An episode ends if the environment changes. (The environment itself may also be given under this
            name.)

        Returns
        -------
        Demonstrations
            Checked, sorted and linked.
        """
        present = columns_present(frame)
        known, where_column = environment_and_column(environments, environment, present)
        several = known if isinstance(known, Environments) else None
        wanted: dict[str, Column | None] = {
            "task": task,
            "state": state,
            "action": action,
            "episode": episode,
            "step": step,
            "next_state": next_state,
            "environment": where_column,
        }
        optional = ("task", "episode", "step", "next_state", "environment")
        table = columns_of(frame, wanted, "the table of choices", optional=optional)
        for word in ("task", "episode", "step"):
            if word in table and table[word].isna().any():
                row = int(np.flatnonzero(table[word].isna())[0])
                raise RowError(f"column {quoted(column_name(wanted[word]))} is empty in ", (row,), ". Fill it in.")
        if known is None:
            seen = [table["state"]] + ([table["next_state"]] if "next_state" in table else [])
            states = sorted_labels(pd.concat(seen))
            actions = sorted_labels(table["action"])
        else:
            states, actions = known.states, known.actions
        where = None if several is None else environment_of_rows(table, several, where_column)

        def numbered(word: str, column: Column | None) -> np.ndarray:
            if several is None or where is None:
                return indices_of(table[word], states, "state", column_name(column))
            return union_states(table[word], where, several, column_name(column))

        rows = {
            "state": numbered("state", state),
            "action": indices_of(table["action"], actions, "action", column_name(action)),
            "next_state": numbered("next_state", next_state) if "next_state" in table else np.full(len(table), NONE),
        }
        rows["task"], tasks = _codes(table["task"]) if "task" in table else (np.zeros(len(table), int), (0,))
        # an episode is one label within one task
        label_codes, label_names = _codes(table["episode"]) if "episode" in table else (0, (0,))
        if several is not None and where is not None:
            label_codes, label_names = union_episodes(rows["task"], label_codes, label_names, where, several)
        appearance, pairs = pd.factorize(rows["task"] * len(label_names) + label_codes)
        order = np.argsort(pairs // len(label_names), kind="stable")  # by task, then as they first appear
        pairs = pairs[order]
        rows["episode"] = np.argsort(order)[appearance]
        rows["step"] = (
            ordered_steps(table["step"], str(step))
            if "step" in table
            else pd.Series(rows["episode"]).groupby(rows["episode"]).cumcount().to_numpy()
        )
        del table, appearance, label_codes  # ten million rows are to fit in two gigabytes
        if known is not None:
            check_choices(rows, known, column_name(action))
        episodes = tuple(label_names[int(pair) % len(label_names)] for pair in pairs)
        columns = {word: column_name(column) for word, column in wanted.items() if column}
        steps = linked_steps(rows, tasks=tasks, episodes=episodes, states=states, columns=columns)
        demonstrations = cls(tasks=tasks, states=states, actions=actions, episodes=episodes, **steps._asdict())
        demonstrations = replace(demonstrations, warnings=demonstrations.warnings + about_unused(present, wanted))
        return demonstrations if known is None else demonstrations._with_impossible_moves(known)

    @classmethod
    def from_lists(
        cls,
        trajectories: Sequence[Sequence[Sequence[Any]]],
        environment: Environment | Mapping[Any, Environment] | None = None,
        *,
        tasks: Sequence[Label] | None = None,
        environments: Sequence[Label] | None = None,
    ) -> "Demonstrations":
        """Make demonstrations from pairs (states, actions) of names, of any lengths; the last state may lack an action.

        Parameters
        ----------
        trajectories
            (states, actions) pairs.
        environment
            As `environments` for `from_frame`.
        tasks
            The task of each trajectory; trajectories of the same task are its episodes. If None, every trajectory is a
            task of its own.
        environments
            With several environments, the name of the environment of each trajectory.

        Returns
        -------
        Demonstrations
            Checked and linked.
        """
        frame = table_of_lists(trajectories, tasks, environments)
        return cls.from_frame(frame, environment, episode="episode", step="step")

    # ---- counts --------------------------------------------------------------------------------------------

    @cached_property
    def counts(self) -> Int[np.ndarray, "task S A"]:
        """How often each task took each action in each state: the sufficient statistics of a memoryless policy."""
        shape = (self.num_tasks, len(self.states), len(self.actions))
        made = self.action != NONE
        flat = np.ravel_multi_index((self.task[made], self.state[made], self.action[made]), shape)
        return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)

    @cached_property
    def visits(self) -> Int[np.ndarray, "task S"]:
        """How often each task visited each state, with or without a recorded choice."""
        shape = (self.num_tasks, len(self.states))
        flat = np.ravel_multi_index((self.task, self.state), shape)
        return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape)

    def transition_counts(self, task: Label | None = None) -> sp.csr_array:
        """How often each next state followed each state–action pair.

        Parameters
        ----------
        task
            The name of a task. If None, all tasks together.

        Returns
        -------
        csr_array
            [S·A, S], row s·A + a.
        """
        used = (self.action != NONE) & (self.next_state != NONE)
        if task is not None:
            if task not in self.tasks:
                raise InputError(f"there is no task {quoted(task)}. The tasks are {listed(self.tasks, 20)}.")
            used &= self.task == self.tasks.index(task)
        shape = (len(self.states) * len(self.actions), len(self.states))
        rows = self.state[used] * len(self.actions) + self.action[used]
        counts = sp.csr_array((np.ones(used.sum(), dtype=np.int64), (rows, self.next_state[used])), shape=shape)
        counts.sum_duplicates()
        return counts

    @property
    def num_tasks(self) -> int:
        return len(self.tasks)

    @property
    def num_episodes(self) -> int:
        return len(self.episodes)

    @property
    def num_steps(self) -> int:
        """The number of choices."""
        return int((self.action != NONE).sum())

    # ---- out again -----------------------------------------------------------------------------------------

    def to_frame(self, backend: Backend = "pandas") -> Any:
        """A data frame with names and one row per step, in order of task, episode and step: the inverse of
        `from_frame` if its columns of episodes, steps and next states are named there.

        Parameters
        ----------
        backend
            The library of the data frame: "pandas", "polars" or "pyarrow".

        Returns
        -------
        DataFrame
            A data frame of that library.
        """

        def named(index: np.ndarray, names: tuple[Label, ...]) -> list[Label | None]:
            return [None if i == NONE else names[i] for i in index.tolist()]

        return frame_of(
            {
                "task": named(self.task, self.tasks),
                "episode": named(self.episode, self.episodes),
                "step": self.step,
                "state": named(self.state, self.states),
                "action": named(self.action, self.actions),
                "next_state": named(self.next_state, self.states),
            },
            backend,
        )

    def pooled(self) -> "Demonstrations":
        """The same choices as if one task, "all", had made them; episodes are named after their task and their own
        name.

        Returns
        -------
        Demonstrations
            Demonstrations of one task.
        """
        first = np.append(True, np.diff(self.episode) != 0)
        owners = [self.tasks[task] for task in self.task[first]]
        episodes = tuple(f"{owner}, {name}" for owner, name in zip(owners, self.episodes))
        return replace(self, tasks=("all",), task=np.zeros_like(self.task), episodes=episodes)

    def by_episode(self) -> "Demonstrations":
        """The same choices with each episode as a task of its own, such as "mouse 3, episode 2".

        A task with a single episode keeps its name.

        Returns
        -------
        Demonstrations
            With as many tasks as episodes.
        """
        first = np.append(True, np.diff(self.episode) != 0)
        owners = self.task[first]
        is_only = np.bincount(owners, minlength=self.num_tasks) == 1
        numbers, episode = np.unique(self.episode, return_inverse=True)
        names = [self.episodes[number] for number in numbers]
        tasks = [
            self.tasks[owner] if is_only[owner] else f"{self.tasks[owner]}, episode {name}"
            for owner, name in zip(owners, names)
        ]
        labels = checked_labels(tasks, len(tasks), "episode")
        return replace(self, tasks=labels, task=episode, episode=episode, episodes=tuple(names))

    def with_memory(self, environment: Environment) -> "Demonstrations":
        """The same choices in an environment made by `Environment.with_memory`, whose states are pairs of states.

        Parameters
        ----------
        environment
            An environment made by `Environment.with_memory`.

        Returns
        -------
        Demonstrations
            Demonstrations whose states are pairs.
        """
        if environment.pairs is None:
            raise InputError("this environment has no memory: create one that has with environment.with_memory().")
        names = [*map(str, self.states), ""]  # the last one's number is NONE
        known = environment.pairs.max() < len(self.states) and environment.actions == self.actions
        if not known or environment.states != tuple(f"{names[p]}→{names[s]}" for p, s in environment.pairs.tolist()):
            raise InputError(
                "these demonstrations have different states or actions from those of the original environment. "
                "Read them with that environment: Demonstrations.from_frame(..., environment)."
            )
        previous = np.where(self.follows, np.roll(self.state, 1), NONE)
        number = {(int(p), int(s)): index for index, (p, s) in enumerate(environment.pairs)}
        distinct, where = distinct_pairs(previous, self.state)
        unknown = [(p, s) for p, s in distinct.tolist() if (p, s) not in number]
        if unknown:
            p, s = unknown[0]
            if p == NONE:
                raise InputError(
                    f"state {quoted(self.states[s])} occurs in the data without a previous state, which this "
                    "environment does not allow. Name it in with_memory(firsts=...)."
                )
            raise InputError(
                f"state {quoted(self.states[s])} follows {quoted(self.states[p])} in the data, which is "
                "impossible in this environment."
            )
        state = np.array([number[p, s] for p, s in distinct.tolist()])[where]
        continues = np.append(self.follows[1:], False)
        # the pair that comes next: the next row's where there is one, else (this state, what followed)
        moves, which = distinct_pairs(self.state, self.next_state)
        after = np.array([number.get((s, t), NONE) for s, t in moves.tolist()])[which]
        next_state = np.where(continues, np.roll(state, -1), after)
        return replace(self, states=environment.states, state=state, next_state=next_state)

    def __repr__(self) -> str:
        def some(count: int, what: str) -> str:
            return f"{count} {what}{'' if count == 1 else 's'}"

        return (
            f"Demonstrations({some(self.num_tasks, 'task')}, {some(self.num_episodes, 'episode')}, "
            f"{some(self.num_steps, 'choice')}, {int((self.visits.sum(axis=0) > 0).sum())} of "
            f"{some(len(self.states), 'state')} visited)"
        )

    def _with_impossible_moves(self, environment: Environment) -> "Demonstrations":
        """The same, with a warning if transitions were observed that the environment calls impossible."""
        seen = self.transition_counts().tocoo()
        if seen.nnz == 0:
            return self
        bad = np.flatnonzero(np.asarray(environment.matrix[seen.row, seen.col]).ravel() <= 0)
        if bad.size == 0:
            return self
        state, action = divmod(int(seen.row[bad[0]]), len(self.actions))
        warning = (
            f"{seen.data[bad].sum()} observed transitions are impossible in this environment, for example "
            f"{quoted(self.states[state])} --{quoted(self.actions[action])}--> {quoted(self.states[seen.col[bad[0]]])}."
        )
        return replace(self, warnings=(*self.warnings, warning))


def _codes(column: pd.Series) -> tuple[np.ndarray, tuple[Label, ...]]:
    """Numbers for the values of a column, in order of first appearance, and the values."""
    codes, names = pd.factorize(column)
    return codes, checked_labels(list(names), len(names), "task")
