"""Pairs of environments that share names of states, for several tests."""

import numpy as np
import pandas as pd

import manymotives as mm


def environment_from(world, **options):
    """What `environments_oracle` describes by dictionaries, as the library has it."""
    states, actions = world["states"], world["actions"]
    transitions = np.zeros((len(states), len(actions), len(states)))
    available = np.zeros((len(states), len(actions)), dtype=bool)
    for s, state in enumerate(states):
        for action, row in world["moves"][state].items():
            available[s, actions.index(action)] = True
            transitions[s, actions.index(action)] = [row[there] for there in states]
    ends = [state for state in states if not world["moves"][state]]
    return mm.Environment(
        transitions,
        discount=world["discount"],
        states=states,
        actions=actions,
        available=available,
        terminal=ends,
        **options,
    )


def demonstrations_of(counts, environments, task="one"):
    """Choices with these counts {environment: {(state, action): count}} of one task, in no order."""
    rows = [
        {"task": task, "environment": name, "state": state, "action": action}
        for name, table in counts.items()
        for (state, action), count in table.items()
        for _ in range(count)
    ]
    frame = pd.DataFrame(rows).assign(step=lambda table: 2 * np.arange(len(table)))  # gaps: nothing follows
    return mm.Demonstrations.from_frame(frame, environments, step="step", environment="environment")


# two states, and in each environment only one of them is a place where choosing matters
LEFT = mm.Environment(
    [[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.5, 0.5]]], discount=0.8, states=["food", "water"], actions=["a", "b"]
)
RIGHT = mm.Environment(
    [[[0.3, 0.7], [0.3, 0.7]], [[0.8, 0.2], [0.1, 0.9]]], discount=0.8, states=["food", "water"], actions=["b", "c"]
)
BOTH = {"left": LEFT, "right": RIGHT}
