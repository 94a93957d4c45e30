"""Small environments that several tests share."""

import manymotives as mm

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
