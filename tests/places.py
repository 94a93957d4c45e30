"""Small environments that several tests share."""

import numpy as np
import scipy.sparse as sp

import manymotives as mm
import oracles_worlds

HOUSE = mm.Environment(  # a terminal state, and an action that does not exist everywhere
    [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.0, 0.2, 0.8], [1.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]],
    discount=0.9,
    states=["hall", "kitchen", "garden"],
    actions=["on", "back"],
    available=[[True, False], [True, True], [False, False]],
    terminal=["garden"],
    start={"hall": 1.0},
)
TRIANGLE = mm.Environment(  # every action matters, and none leads anywhere for certain
    [
        [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]],
        [[0.1, 0.1, 0.8], [0.6, 0.3, 0.1]],
        [[0.1, 0.8, 0.1], [0.3, 0.1, 0.6]],
    ],
    discount=0.8,
)
# Rows are divided by their sums, which are 1 to a few units in the last place.
ROUNDING = 1e-15


def random_environment(seed, *, sparse=False, size=(5, 3), **options):
    """A random environment with a terminal state and missing actions, and the arrays it was made from."""
    case = oracles_worlds.random_problem(
        np.random.default_rng(seed),
        *size,
        discount=0.9,
        with_terminal=True,
        with_missing_actions=True,
        dense=False,
    )
    labels = options.get("states") or list(range(size[0]))
    rows = case["transitions"]
    environment = mm.Environment(
        sp.csr_array(rows.reshape(-1, size[0])) if sparse else rows,
        discount=0.9,
        available=case["available"],
        terminal=[labels[s] for s in np.flatnonzero(case["terminal"])],
        **options,
    )
    return environment, case


def two_places(**options):
    """ "stay" and "go" between two places."""
    transitions = np.zeros((2, 2, 2))
    transitions[0, 0, 0] = transitions[0, 1, 1] = transitions[1, 0, 1] = transitions[1, 1, 0] = 1.0
    return mm.Environment(transitions, **dict(discount=0.9, states=["here", "there"], actions=["stay", "go"]) | options)


def corridor(**options):
    """Three rooms and an exit: "on" mostly goes on, "back" goes back; "wait" exists in the first room only."""
    transitions = np.zeros((4, 3, 4))
    available = np.zeros((4, 3), dtype=bool)
    for room in range(3):
        transitions[room, 0, room + 1], transitions[room, 0, room] = 0.7, 0.3
        transitions[room, 1, max(room - 1, 0)] = 1.0
        available[room, :2] = True
    transitions[0, 2, 0] = 1.0
    available[0, 2] = True
    return mm.Environment(
        transitions,
        **dict(
            discount=0.9,
            states=["first", "second", "third", "exit"],
            actions=["on", "back", "wait"],
            available=available,
            terminal=["exit"],
        )
        | options,
    )
