"""Ragged trajectories at random, as tables of any library, and what tests of demonstrations compare."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import manymotives as mm

BACKENDS = ["pandas", "polars", "pyarrow"]
S, A = 4, 3
ANYWHERE = mm.Environment(np.full((S, A, S), 1 / S), discount=0.9)  # everything can follow everything
ARRAYS = ("task", "episode", "step", "state", "action", "next_state")


def ragged(seed, num_tasks=4, episodes=5, longest=7):
    """Random trajectories (task, states, actions): unequal lengths, some without a last action.

    The first of each task is complete, so that every task has a choice and tasks appear in order.
    """
    rng = np.random.default_rng(seed)
    trajectories = []
    for task in range(num_tasks):
        for episode in range(rng.integers(1, episodes + 1)):
            length = int(rng.integers(1, longest + 1))
            states = rng.integers(S, size=length).tolist()
            shorter = episode > 0 and rng.random() < 0.5
            actions = rng.integers(A, size=length - shorter).tolist()
            trajectories.append((task, states, actions))
    return trajectories


def columns(trajectories):
    """The long table of trajectories, one row a state."""
    rows = {"task": [], "episode": [], "step": [], "state": [], "action": []}
    number = {}
    for task, states, actions in trajectories:
        number[task] = number.get(task, -1) + 1
        for step, state in enumerate(states):
            rows["task"].append(task)
            rows["episode"].append(number[task])
            rows["step"].append(step)
            rows["state"].append(state)
            rows["action"].append(actions[step] if step < len(actions) else None)
    return rows


def table(backend, rows):
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}[backend](rows)


def read(trajectories, environment=ANYWHERE, backend="pandas"):
    frame = table(backend, columns(trajectories))
    return mm.Demonstrations.from_frame(frame, environment, episode="episode", step="step")


def moves_of(demonstrations, task=None):
    shape = len(demonstrations.states), len(demonstrations.actions), len(demonstrations.states)
    return demonstrations.transition_counts(task).toarray().reshape(shape)


def assert_identical(found, expected):
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)
    for name in ("tasks", "states", "actions", "episodes"):
        assert getattr(found, name) == getattr(expected, name), name
