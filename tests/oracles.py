"""Plain, slow reference answers for tabular decision problems, sharing no code with the library."""

import itertools
import math
from fractions import Fraction

import numpy as np
from scipy.optimize import linprog

# Every problem is given by the same six arguments, in this order:
#
# - transitions [S, A, S]: transitions[s, a, t] = P(t | s, a);
# - available [S, A]: which actions exist (none in a terminal state);
# - terminal [S]: states that end the episode, so that nothing is chosen there and nothing follows;
# - rewards [S, A]: r(s, a), read only at available pairs of non-terminal states;
# - terminal_value [S]: V(s) of a terminal state, read only where terminal;
# - discount: γ, with 0 <= γ < 1.
#
# They are the keys of the dictionary oracles_worlds.random_problem returns: best_by_value_iteration(**problem) works.


def _as_lists(transitions, available, terminal, rewards, terminal_value, discount):
    """The arrays as nested lists of Python numbers, after checking that they describe a problem."""
    transitions = np.asarray(transitions, dtype=float).tolist()
    available = np.asarray(available, dtype=bool).tolist()
    terminal = np.asarray(terminal, dtype=bool).tolist()
    rewards = np.asarray(rewards, dtype=float).tolist()
    terminal_value = np.asarray(terminal_value, dtype=float).tolist()
    assert 0 <= discount < 1
    assert len(transitions) == len(available) == len(terminal) == len(rewards) == len(terminal_value)
    for state in range(len(terminal)):
        assert len(transitions[state]) == len(available[state]) == len(rewards[state])
        if terminal[state]:
            assert math.isfinite(terminal_value[state])
            continue
        assert any(available[state]), f"state {state} is not terminal and has no action"
        for action in range(len(available[state])):
            if available[state][action]:
                assert len(transitions[state][action]) == len(terminal)
                assert min(transitions[state][action]) >= 0
                assert abs(sum(transitions[state][action]) - 1) < 1e-6
                assert math.isfinite(rewards[state][action])
    return transitions, available, terminal, rewards, terminal_value


def _check_policy(available, terminal, policy):
    """Assert Σ_a π(a | s) = 1 over available actions and π(a | s) = 0 for the others, where s goes on."""
    for state in range(len(terminal)):
        if terminal[state]:
            continue
        total = 0.0
        for action in range(len(available[state])):
            assert policy[state][action] >= 0
            if available[state][action]:
                total += policy[state][action]
            else:
                assert policy[state][action] == 0, f"the policy takes a missing action in state {state}"
        assert abs(total - 1) < 1e-6


def _action_value(transitions, rewards, discount, values, state, action):
    """Q(s, a) = r(s, a) + γ Σ_t P(t | s, a) V(t)."""
    expected = 0.0
    for following in range(len(values)):
        expected += transitions[state][action][following] * values[following]
    return rewards[state][action] + discount * expected


def _action_values(transitions, available, terminal, rewards, discount, values):
    """Q(s, a) = r(s, a) + γ Σ_t P(t | s, a) V(t) where an action can be chosen, -inf elsewhere."""
    table = []
    for state in range(len(terminal)):
        row = []
        for action in range(len(available[state])):
            if terminal[state] or not available[state][action]:
                row.append(-math.inf)
            else:
                row.append(_action_value(transitions, rewards, discount, values, state, action))
        table.append(row)
    return table


def _has_settled(old_values, new_values, available, terminal, rewards, tolerance):
    """max_s |V'(s) - V(s)| <= tolerance × the largest of all |V'(s)| and |r(s, a)|.

    Rewards enter the scale because values may cancel to (nearly) zero while rewards do not.
    """
    change = 0.0
    scale = 0.0
    for state in range(len(terminal)):
        change = max(change, abs(new_values[state] - old_values[state]))
        scale = max(scale, abs(new_values[state]))
        for action in range(len(available[state])):
            if available[state][action] and not terminal[state]:
                scale = max(scale, abs(rewards[state][action]))
    return change <= tolerance * scale


def _starting_values(terminal, terminal_value):
    """V(s) = the terminal value where s is terminal, 0 elsewhere."""
    return [terminal_value[state] if terminal[state] else 0.0 for state in range(len(terminal))]


def policy_value(
    transitions, available, terminal, rewards, terminal_value, discount, policy, tolerance=1e-13
) -> np.ndarray:
    """V [S] of a stochastic policy [S, A], by substituting V into the right-hand side until it settles.

    V(s) = Σ_a π(a | s) (r(s, a) + γ Σ_t P(t | s, a) V(t)), and V(s) = terminal_value(s) where terminal.

    Stops when the relative change is at most the tolerance: the error is then at most γ / (1 - γ) times that.
    The policy's rows in terminal states are not read.
    """
    transitions, available, terminal, rewards, terminal_value = _as_lists(
        transitions, available, terminal, rewards, terminal_value, discount
    )
    policy = np.asarray(policy, dtype=float).tolist()
    _check_policy(available, terminal, policy)
    values = _starting_values(terminal, terminal_value)
    while True:
        new_values = list(values)
        for state in range(len(terminal)):
            if terminal[state]:
                continue
            new_values[state] = 0.0
            for action in range(len(available[state])):
                if available[state][action]:
                    new_values[state] += policy[state][action] * _action_value(
                        transitions, rewards, discount, values, state, action
                    )
        if _has_settled(values, new_values, available, terminal, rewards, tolerance):
            return np.array(new_values)
        values = new_values


def _solve_exactly(matrix, right_side):
    """x with M x = b over the rationals: Gaussian elimination, then back substitution."""
    size = len(right_side)
    matrix = [list(row) for row in matrix]
    right_side = list(right_side)
    for column in range(size):
        pivot = column
        while matrix[pivot][column] == 0:
            pivot += 1
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        right_side[column], right_side[pivot] = right_side[pivot], right_side[column]
        for row in range(column + 1, size):
            factor = matrix[row][column] / matrix[column][column]
            if factor == 0:
                continue
            for other in range(column, size):
                matrix[row][other] -= factor * matrix[column][other]
            right_side[row] -= factor * right_side[column]
    solution = [Fraction(0)] * size
    for row in reversed(range(size)):
        remainder = right_side[row]
        for column in range(row + 1, size):
            remainder -= matrix[row][column] * solution[column]
        solution[row] = remainder / matrix[row][row]
    return solution


def policy_value_exact(transitions, available, terminal, rewards, terminal_value, discount, policy) -> np.ndarray:
    """V [S] of a stochastic policy [S, A], in exact rational arithmetic, rounded to floats only at the end.

    Solves V(s) - γ Σ_t (Σ_a π(a | s) P(t | s, a)) V(t) = Σ_a π(a | s) r(s, a) where s goes on, and
    V(s) = terminal_value(s) where it is terminal. Every float is taken at its exact binary value, so rows
    that sum to one only up to rounding are not normalised. For small S only: the fractions grow.
    """
    transitions, available, terminal, rewards, terminal_value = _as_lists(
        transitions, available, terminal, rewards, terminal_value, discount
    )
    policy = np.asarray(policy, dtype=float).tolist()
    _check_policy(available, terminal, policy)
    size = len(terminal)
    exact_discount = Fraction(float(discount))
    matrix = []
    right_side = []
    for state in range(size):
        row = [Fraction(0)] * size
        row[state] = Fraction(1)
        constant = Fraction(0)
        if terminal[state]:
            constant = Fraction(terminal_value[state])
        else:
            for action in range(len(available[state])):
                if not available[state][action]:
                    continue
                weight = Fraction(policy[state][action])
                constant += weight * Fraction(rewards[state][action])
                for following in range(size):
                    probability = Fraction(transitions[state][action][following])
                    row[following] -= exact_discount * weight * probability
        matrix.append(row)
        right_side.append(constant)
    return np.array([float(value) for value in _solve_exactly(matrix, right_side)])


def best_by_enumeration(
    transitions, available, terminal, rewards, terminal_value, discount, tolerance=1e-10
) -> tuple[np.ndarray, list[np.ndarray]]:
    """V* [S] and every optimal deterministic policy, by trying all of them.

    V*(s) = max_d V_d(s), where V_d = r_d + γ P_d V_d is solved for each d that picks one available action in
    each non-terminal state. A policy is optimal when V_d(s) >= V*(s) - tolerance × max(1, max_s |V*(s)|)
    in every state; at least one must be (asserted). A policy is an integer array [S] of actions, with -1 in
    terminal states.
    """
    transitions, available, terminal, rewards, terminal_value = _as_lists(
        transitions, available, terminal, rewards, terminal_value, discount
    )
    size = len(terminal)
    options = []
    for state in range(size):
        if terminal[state]:
            options.append([-1])
        else:
            options.append([action for action in range(len(available[state])) if available[state][action]])
    tried = []
    for choice in itertools.product(*options):
        matrix = np.eye(size)
        right_side = np.zeros(size)
        for state in range(size):
            if terminal[state]:
                right_side[state] = terminal_value[state]
            else:
                right_side[state] = rewards[state][choice[state]]
                for following in range(size):
                    matrix[state, following] -= discount * transitions[state][choice[state]][following]
        tried.append((np.array(choice), np.linalg.solve(matrix, right_side)))
    best = np.full(size, -np.inf)
    for _, values in tried:
        for state in range(size):
            best[state] = max(best[state], values[state])
    allowance = tolerance * max(1.0, float(np.max(np.abs(best))))
    optimal = []
    for choice, values in tried:
        if all(values[state] >= best[state] - allowance for state in range(size)):
            optimal.append(choice)
    assert optimal, "no single policy attains the best value in every state"
    return best, optimal


def best_by_linear_program(transitions, available, terminal, rewards, terminal_value, discount) -> np.ndarray:
    """V* [S] by linear programming.

    Minimise Σ_s V(s) subject to V(s) >= r(s, a) + γ Σ_t P(t | s, a) V(t) for every available pair, and
    V(s) = terminal_value(s) where terminal.
    """
    transitions, available, terminal, rewards, terminal_value = _as_lists(
        transitions, available, terminal, rewards, terminal_value, discount
    )
    size = len(terminal)
    upper_rows, upper_limits = [], []
    bounds = []
    for state in range(size):
        if terminal[state]:
            bounds.append((terminal_value[state], terminal_value[state]))
            continue
        bounds.append((None, None))
        for action in range(len(available[state])):
            if not available[state][action]:
                continue
            row = [discount * transitions[state][action][following] for following in range(size)]
            row[state] -= 1.0
            upper_rows.append(row)
            upper_limits.append(-rewards[state][action])
    if not upper_rows:
        return np.array(terminal_value)
    result = linprog(
        c=np.ones(size),
        A_ub=np.array(upper_rows),
        b_ub=np.array(upper_limits),
        bounds=bounds,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert result.status == 0, result.message
    return np.array(result.x)


def best_by_value_iteration(
    transitions, available, terminal, rewards, terminal_value, discount, tolerance=1e-13
) -> tuple[np.ndarray, np.ndarray]:
    """V* [S] and Q* [S, A], by repeating the Bellman equation until it settles.

    V(s) = max over available a of Q(s, a), with Q(s, a) = r(s, a) + γ Σ_t P(t | s, a) V(t), and
    V(s) = terminal_value(s) where terminal. Q is -inf at missing actions and in terminal states.

    Stops when the relative change is at most the tolerance: the error is then at most γ / (1 - γ) times that.
    """
    transitions, available, terminal, rewards, terminal_value = _as_lists(
        transitions, available, terminal, rewards, terminal_value, discount
    )
    values = _starting_values(terminal, terminal_value)
    while True:
        table = _action_values(transitions, available, terminal, rewards, discount, values)
        new_values = list(values)
        for state in range(len(terminal)):
            if not terminal[state]:
                new_values[state] = max(table[state])
        if _has_settled(values, new_values, available, terminal, rewards, tolerance):
            table = _action_values(transitions, available, terminal, rewards, discount, new_values)
            return np.array(new_values), np.array(table)
        values = new_values


def _soft_maximum(numbers, inverse_temperature):
    """log(Σ_i exp(c x_i)) / c = m + log(Σ_i exp(c (x_i - m))) / c with m = max_i x_i (no overflow)."""
    largest = max(numbers)
    total = 0.0
    for number in numbers:
        total += math.exp(inverse_temperature * (number - largest))
    return largest + math.log(total) / inverse_temperature


def soft_by_value_iteration(
    transitions,
    available,
    terminal,
    rewards,
    terminal_value,
    discount,
    inverse_temperature,
    tolerance=1e-13,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """V [S], Q [S, A] and policy [S, A] of the soft (logit, maximum causal entropy) Bellman equation.

    V(s) = log(Σ over available a of exp(c Q(s, a))) / c, with Q(s, a) = r(s, a) + γ Σ_t P(t | s, a) V(t) and
    V(s) = terminal_value(s) where terminal; π(a | s) = exp(c (Q(s, a) - V(s))). Here c > 0 is the inverse
    temperature. At missing actions and in terminal states Q is -inf and the policy is 0.

    Stops when the relative change is at most the tolerance: the error is then at most γ / (1 - γ) times that.
    """
    assert inverse_temperature > 0
    transitions, available, terminal, rewards, terminal_value = _as_lists(
        transitions, available, terminal, rewards, terminal_value, discount
    )
    values = _starting_values(terminal, terminal_value)
    settled = False
    while not settled:
        table = _action_values(transitions, available, terminal, rewards, discount, values)
        new_values = list(values)
        for state in range(len(terminal)):
            if not terminal[state]:
                new_values[state] = _soft_maximum(table[state], inverse_temperature)
        settled = _has_settled(values, new_values, available, terminal, rewards, tolerance)
        values = new_values
    table = _action_values(transitions, available, terminal, rewards, discount, values)
    policy = []
    for state in range(len(terminal)):
        if terminal[state]:
            policy.append([0.0] * len(available[state]))
            continue
        level = _soft_maximum(table[state], inverse_temperature)
        policy.append([math.exp(inverse_temperature * (number - level)) for number in table[state]])
    return np.array(values), np.array(table), np.array(policy)
