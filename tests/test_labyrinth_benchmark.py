"""The labyrinth's benchmark: features against examples by hand."""

import numpy as np
import pytest
from benchmarks.labyrinth_features import NONE, features, labels_of, last_nodes, with_memory

import manymotives as mm

MAZE = mm.worlds.Labyrinth(levels=2, discount=0.0)  # nodes 0 to 6 and home, which is number 7
WATER = 5
HOME = 7


@pytest.mark.parametrize("finest", [False, True])
@pytest.mark.parametrize("memory", [1, 2, 3])
def test_each_pair_that_exists_has_one_column_of_each_group(memory, finest):
    environments = with_memory(MAZE, memory)
    matrix, names, groups = features(environments, WATER, finest)
    exists = environments[-1].available.ravel()
    assert matrix.shape == (exists.size, len(names))
    assert len(set(names)) == len(names) == len(groups)
    for group in dict.fromkeys(groups):
        columns = matrix[:, [number for number, mine in enumerate(groups) if mine == group]].toarray()
        np.testing.assert_array_equal(columns.sum(axis=1), exists)
        assert (columns.sum(axis=0) > 0).all()
    assert set(np.unique(matrix.data)) == {1.0}
    if finest:
        assert sum(group == f"last {memory + 1} nodes" for group in groups) == exists.sum()


@pytest.mark.parametrize("memory", [1, 2, 3])
def test_states_with_memory_are_the_last_nodes_that_demonstrations_visit(memory):
    demonstrations = mm.simulate(
        MAZE, np.zeros((2, MAZE.num_states)), mm.SoftOptimal(inverse_temperature=1.0), steps=30, episodes=3, seed=0
    )
    environments = with_memory(MAZE, memory)
    remembered = demonstrations
    for environment in environments[1:]:
        remembered = remembered.with_memory(environment)
    found = last_nodes(environments)[remembered.state]
    for row in range(len(demonstrations.state)):
        begin = row
        while demonstrations.follows[begin]:
            begin -= 1
        visited = demonstrations.state[begin : row + 1][::-1].tolist()
        assert found[row].tolist() == (visited + memory * [NONE])[: memory + 1]
    np.testing.assert_array_equal(remembered.action, demonstrations.action)
    assert remembered.counts.sum() == demonstrations.counts.sum()


# the maze as it is drawn, home to the left of node 0:          3 1 4
#                                                             7   0
#                                                               5 2 6   (3 and 5 are at larger x, to the right)
BY_HAND = {
    (0, 1, 0, "right"): {  # looked into the upper half, came back down, and walks straight on
        "next node": "2",
        "step": "from left, right",
        "step by level": "from left, right, level 0",
        "turn by level": "go forward, level 0",
        "water": "towards water",
        "step after 1 turn": "from left, right, level 0, after turn back",
        "step after 2 turns": "from left, right, level 0, after turn back, after turn left",
        "last 2 nodes": "1, 0, right",
        "last 3 nodes": "0, 1, 0, right",
        "last 4 nodes": "home, 0, 1, 0, right",
    },
    (0, 1, 3, "back"): {  # down from home, left, right at the fork, and back from the leaf
        "next node": "1",
        "step": "from back, back",
        "step by level": "from back, back, level 2",
        "turn by level": "turn back, level 2",
        "water": "towards water",
        "step after 1 turn": "from back, back, level 2, after turn right",
        "step after 2 turns": "from back, back, level 2, after turn right, after turn left",
        "last 2 nodes": "1, 3, back",
        "last 3 nodes": "0, 1, 3, back",
        "last 4 nodes": "home, 0, 1, 3, back",
    },
}


@pytest.mark.parametrize("route", BY_HAND)
def test_labels_by_hand(route):
    *nodes, action = route
    environments = with_memory(MAZE, 3)
    past = last_nodes(environments).tolist()
    state = past.index([*reversed(nodes), HOME])
    pairs = list(zip(*np.nonzero(environments[-1].available)))
    pair = pairs.index((state, MAZE.actions.index(action)))
    labels = labels_of(environments, WATER, finest=True)
    assert {group: str(label[pair]) for group, label in labels.items()} == BY_HAND[route]
    matrix, names, _ = features(environments, WATER, finest=True)
    row = matrix[[state * MAZE.num_actions + MAZE.actions.index(action)]]
    assert {names[column] for column in row.indices} == {f"{group}: {label}" for group, label in BY_HAND[route].items()}


def test_the_first_step_of_an_episode_comes_from_nowhere():
    labels = labels_of(with_memory(MAZE, 2), WATER)
    assert {group: str(label[0]) for group, label in labels.items()} == {
        "next node": "0",
        "step": "from nowhere, enter",
        "step by level": "from nowhere, enter, level home",
        "turn by level": "begin, level home",
        "water": "towards water",
        "step after 1 turn": "from nowhere, enter, level home, after begin",
        "last 2 nodes": "nothing, home, enter",
    }
