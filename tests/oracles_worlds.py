"""Chains, grids, problems at random and counts of choices by plain loops, sharing no code with the library."""

import numpy as np


def chain_values(states, slip, discount, rewards, always) -> np.ndarray:
    """V [S] of always going forward (always=1) or always back (always=0) on the chain, in closed form.

    Let f be the probability of advancing: 1 - slip for forward, slip for back. With state rewards r and last
    state n - 1,

        V(s)     = r(s)     + γ f V(s + 1) + γ (1 - f) V(0)    for s < n - 1,
        V(n - 1) = r(n - 1) + γ f V(n - 1) + γ (1 - f) V(0).

    Both are affine in V(0): V(s) = α(s) + β(s) V(0). The last state gives α(n - 1) = r(n - 1) / (1 - γ f) and
    β(n - 1) = γ (1 - f) / (1 - γ f); the others give α(s) = r(s) + γ f α(s + 1) and
    β(s) = γ (1 - f) + γ f β(s + 1). The last state's β solves β = γ (1 - f) + γ f β, so it is the β of every
    state, and unrolling α gives

        α(s) = Σ_{k = s}^{n - 2} (γ f)^(k - s) r(k) + (γ f)^(n - 1 - s) r(n - 1) / (1 - γ f).

    At s = 0, V(0) = α(0) + β V(0), so V(0) = α(0) / (1 - β) = α(0) (1 - γ f) / (1 - γ), and finally

        V(s) = α(s) + β V(0) = α(s) + γ (1 - f) α(0) / (1 - γ).
    """
    assert always in (0, 1)
    assert len(rewards) == states
    advance = 1 - slip if always == 1 else slip
    ratio = discount * advance
    last = states - 1
    alpha = []
    for state in range(states):
        total = ratio ** (last - state) * float(rewards[last]) / (1 - ratio)
        for later in range(state, last):
            total += ratio ** (later - state) * float(rewards[later])
        alpha.append(total)
    values = []
    for state in range(states):
        values.append(alpha[state] + discount * (1 - advance) * alpha[0] / (1 - discount))
    return np.array(values)


def chain_transitions(states, slip) -> np.ndarray:
    """P [S, 2, S] of the chain, whose actions are back (0) and forward (1).

    P(s + 1 | s, forward) = 1 - slip and P(0 | s, forward) = slip; P(0 | s, back) = 1 - slip and
    P(s + 1 | s, back) = slip; in the last state, s + 1 means staying there.
    """
    transitions = np.zeros((states, 2, states))
    for state in range(states):
        following = state + 1 if state + 1 < states else state
        transitions[state, 0, 0] += 1 - slip
        transitions[state, 0, following] += slip
        transitions[state, 1, following] += 1 - slip
        transitions[state, 1, 0] += slip
    return transitions


def grid_transitions(lines, slip) -> tuple[np.ndarray, list[tuple[int, int]]]:
    """P [S, 4, S] of a text map and the (row, column) of each state.

    '#' is a wall and every other character a cell; states are the cells, row by row. Actions are 0 up,
    1 right, 2 down, 3 left. P(t | s, a) = (1 - slip) [t = step(s, a)] + (slip / 2) [t = step(s, a turned
    left)] + (slip / 2) [t = step(s, a turned right)], where a step into a wall or off the map stays in s. No
    cell is treated as terminal.
    """
    cells = []
    for row in range(len(lines)):
        assert len(lines[row]) == len(lines[0])
        for column in range(len(lines[row])):
            if lines[row][column] != "#":
                cells.append((row, column))
    moves = [(-1, 0), (0, 1), (1, 0), (0, -1)]
    transitions = np.zeros((len(cells), 4, len(cells)))
    for state in range(len(cells)):
        row, column = cells[state]
        for action in range(4):
            turned_right = (action + 1) % 4
            turned_left = (action + 3) % 4
            outcomes = [(action, 1 - slip), (turned_left, slip / 2), (turned_right, slip / 2)]
            for direction, probability in outcomes:
                target = (row + moves[direction][0], column + moves[direction][1])
                following = cells.index(target) if target in cells else state
                transitions[state, action, following] += probability
    return transitions, cells


def count_choices(trajectories, num_tasks, num_states, num_actions) -> tuple[np.ndarray, np.ndarray]:
    """How often each action was chosen, [task, S, A], and each transition seen, [S, A, S].

    choices[i, s, a] = the number of steps k of trajectories of task i with s_k = s and a_k = a;
    moves[s, a, t] = the number of steps k of all trajectories with s_k = s, a_k = a and s_{k + 1} = t.

    A trajectory is (task, states, actions), with as many actions as states or one fewer; when as many, the
    last action counts as a choice and not as a transition.
    """
    choices = np.zeros((num_tasks, num_states, num_actions), dtype=int)
    moves = np.zeros((num_states, num_actions, num_states), dtype=int)
    for task, states, actions in trajectories:
        assert 0 <= task < num_tasks
        assert len(actions) in (len(states), len(states) - 1)
        for state in states:
            assert 0 <= state < num_states
        for step in range(len(actions)):
            assert 0 <= actions[step] < num_actions
            choices[task, states[step], actions[step]] += 1
            if step + 1 < len(states):
                moves[states[step], actions[step], states[step + 1]] += 1
    return choices, moves


def random_problem(
    rng: np.random.Generator,
    states: int,
    actions: int,
    *,
    discount: float,
    with_terminal: bool = False,
    with_missing_actions: bool = False,
    dense: bool = True,
) -> dict:
    """A random problem, as a dictionary of the six arguments every oracle takes.

    P(· | s, a) ~ Dirichlet(1, …, 1), over all states when dense and otherwise over one to three random ones;
    r(s, a) ~ Normal(0, 1); terminal_value(s) ~ Normal(0, 1) where terminal and 0 elsewhere.

    With terminal states there are between 1 and max(1, S // 3) of them; with missing actions at least one
    pair is missing, and every non-terminal state keeps at least one action. Transitions are zero at missing
    pairs and in terminal states; rewards are random there too, because nothing should read them.
    """
    terminal = np.zeros(states, dtype=bool)
    if with_terminal:
        assert states >= 2
        how_many = rng.integers(1, max(1, states // 3) + 1)
        for state in rng.choice(states, size=how_many, replace=False):
            terminal[state] = True

    available = np.zeros((states, actions), dtype=bool)
    continuing = [state for state in range(states) if not terminal[state]]
    for state in continuing:
        available[state, :] = True
    if with_missing_actions:
        assert actions >= 2
        for state in continuing:
            missing = rng.integers(0, actions)
            for action in rng.choice(actions, size=missing, replace=False):
                available[state, action] = False
        if all(available[state].all() for state in continuing):
            available[rng.choice(continuing), rng.integers(actions)] = False

    transitions = np.zeros((states, actions, states))
    for state in continuing:
        for action in range(actions):
            if not available[state, action]:
                continue
            reached = range(states)
            if not dense:
                how_many = rng.integers(1, min(3, states) + 1)
                reached = rng.choice(states, size=how_many, replace=False)
            probabilities = rng.dirichlet(np.ones(len(reached)))
            for following, probability in zip(reached, probabilities):
                transitions[state, action, following] = probability

    terminal_value = np.zeros(states)
    for state in range(states):
        if terminal[state]:
            terminal_value[state] = rng.normal()
    return {
        "transitions": transitions,
        "available": available,
        "terminal": terminal,
        "rewards": rng.normal(size=(states, actions)),
        "terminal_value": terminal_value,
        "discount": discount,
    }
