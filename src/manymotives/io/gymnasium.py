"""Gymnasium's tabular environments (FrozenLake, Taxi, CliffWalking, …) as environments of ours."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from manymotives.data.environment import Environment
from manymotives.data.transitions import handy
from manymotives.errors import InputError, quoted


def from_gymnasium(environment: Any, *, discount: float) -> Environment:
    """Convert a Gymnasium environment, given as an object or by name, with its own reward on state–action pairs.

    Gymnasium marks transitions that end an episode. A state that is only ever entered by such transitions becomes
    terminal. If a state can also be entered without ending the episode, transitions that end there lead to an extra
    terminal state instead, named "end". Rewards are the expected reward of each pair; terminal states add nothing to
    them.

    Parameters
    ----------
    environment
        A Gymnasium environment with a table of transitions, or its name, such as "FrozenLake-v1".
    discount
        γ.

    Returns
    -------
    Environment
        States and actions are numbers, as in Gymnasium.
    """
    if isinstance(environment, str):
        try:
            import gymnasium
        except ModuleNotFoundError:
            raise InputError("Gymnasium is not installed. Install it with: pip install gymnasium") from None

        try:
            environment = gymnasium.make(environment)
        except gymnasium.error.Error as error:
            said = str(error).rstrip(". ")
            raise InputError(
                f"Gymnasium cannot create {quoted(environment)}: {said}. Correct the name, or install the "
                "package that provides it."
            ) from None
    raw = environment.unwrapped
    table = getattr(raw, "P", None)
    if table is None:
        raise InputError(
            f"{raw} has no transition table `P`: only tabular environments such as FrozenLake, Taxi and "
            "CliffWalking can be read."
        )
    num_states, num_actions = int(raw.observation_space.n), int(raw.action_space.n)
    moves = [
        (state, action, float(probability), int(following), float(reward), bool(done))
        for state in range(num_states)
        for action in range(num_actions)
        for probability, following, reward, done in table[state][action]
        if probability > 0
    ]
    start = np.asarray(getattr(raw, "initial_state_distrib", np.full(num_states, 1 / num_states)), dtype=float)
    starts = set(np.flatnonzero(start > 0).tolist())
    ended = {following for *_, following, _, done in moves if done}
    terminal = ended - starts
    while True:  # transitions out of a terminal state are never made, so they cannot show that a state is lived in
        lived = {following for state, *_, following, _, done in moves if not done and state not in terminal}
        if terminal.isdisjoint(lived):
            break
        terminal -= lived
    extra = num_states if ended - terminal else None

    size = num_states + (extra is not None)
    rows, columns, probabilities = [], [], []
    reward_of_pair = np.zeros((size, num_actions))
    for state, action, probability, following, reward, done in moves:
        if state in terminal:
            continue
        goal = extra if done and following not in terminal else following
        rows.append(state * num_actions + action)
        columns.append(goal)
        probabilities.append(probability)
        reward_of_pair[state, action] += probability * reward
    matrix = sp.csr_array((probabilities, (rows, columns)), shape=(size * num_actions, size))
    names: list[Any] = [*range(num_states), *(["end"] if extra is not None else [])]
    return Environment(
        handy(matrix),
        discount=discount,
        states=names,
        terminal=[names[s] for s in sorted(terminal | ({extra} if extra is not None else set()))],
        start=np.append(start, np.zeros(size - num_states)),
        reward=reward_of_pair,
    )
