"""The oracle of switching motives against itself: forward–backward, finite differences, draws of the prior."""

from dataclasses import fields, replace
from functools import cache

import numpy as np
import pytest

import oracles
import switching_oracle as oracle

# hundreds of correlated comparisons: with other seeds, one run in fifty or so would fail by chance
STANDARD_ERRORS = 4
DRAWS = 30_000

# three states, two actions, a step without a recorded action, and a gap after the fifth step
TRANSITIONS = np.array(
    [[[0.1, 0.8, 0.1], [0.3, 0.1, 0.6]], [[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], [[0.2, 0.7, 0.1], [0.6, 0.2, 0.2]]]
)
STATES, ACTIONS = [np.array([0, 1, 0, 2, 1]), np.array([2, 0, 1])], [np.array([0, 0, -1, 1, 1]), np.array([1, 0, 0])]
SEGMENTS = tuple((states, actions, states) for states, actions in zip(STATES, ACTIONS))  # contexts are states
ONE_NODE = oracle.Problem(TRANSITIONS, np.array([1.0, -0.5, 0.2]), 0.4, 4.0, False, SEGMENTS, 1.5, scale=1.2)
PROBLEMS = {
    "one node": ONE_NODE,
    "one node, soft": replace(ONE_NODE, soft=True, mean=0.4),
    "two levels": replace(ONE_NODE, concentration=2.0),
    "two levels, soft": replace(ONE_NODE, soft=True, concentration=0.7, stickiness=0.0),
}


@cache
def posterior(name):
    return oracle.exact_posterior(PROBLEMS[name])


def random_rows(rng, num_contexts, num_motives):
    """Start rows [C, K] and rows [C, K, K]."""
    ones = np.ones(num_motives)
    return rng.dirichlet(ones, size=num_contexts), rng.dirichlet(ones, size=(num_contexts, num_motives))


def random_segment(seed, num_motives, length, unrecorded=0.2):
    """Log policies, rows, and one segment of a random problem, its contexts two."""
    rng = np.random.default_rng(seed)
    policies = rng.dirichlet(np.ones(2), size=(num_motives, 3))
    start_rows, rows = random_rows(rng, 2, num_motives)
    states, actions, contexts, _ = oracle.simulate(
        rng, TRANSITIONS, policies, start_rows, rows, [0, 1, 0], length, 0, unrecorded
    )
    return states, actions, np.log(policies), start_rows, rows, contexts


# ---------------------------------------------------------------------------------------------- given rows and policies


@pytest.mark.parametrize("soft", [False, True])
@pytest.mark.parametrize("on_states", [False, True])
def test_policies_are_those_of_the_plain_oracle(soft, on_states):
    rng = np.random.default_rng(0)
    available = np.array([[True, True], [True, False], [True, True]])
    reward = rng.standard_normal(3 if on_states else (3, 2))
    pairs = np.broadcast_to(reward[:, None], (3, 2)) if on_states else reward
    given = (TRANSITIONS, available, np.zeros(3, dtype=bool), pairs, np.zeros(3), 0.9)
    if soft:
        expected = oracles.soft_by_value_iteration(*given, 2.0)[2]
    else:
        weights = np.exp(2.0 * oracles.best_by_value_iteration(*given)[1])
        expected = weights / weights.sum(axis=1, keepdims=True)
    found = oracle.policies(TRANSITIONS, reward, 0.9, 2.0, soft, available)
    np.testing.assert_allclose(found, expected, rtol=1e-10)  # both within 1e-12 of the values


def forward_backward(states, actions, log_policies, start_rows, rows, contexts):
    """log p(a), filtered, predictive and smoothed probabilities, and those of neighbours."""
    length, num_motives = len(states), len(log_policies)
    chances = [np.exp(log_policies[:, s, a]) if a >= 0 else np.ones(num_motives) for s, a in zip(states, actions)]
    predictive, filtered, log_likelihood = [start_rows[contexts[0]]], [], 0.0
    for t in range(length):
        joint = predictive[t] * chances[t]
        log_likelihood += np.log(joint.sum())
        filtered.append(joint / joint.sum())
        predictive.append(filtered[t] @ rows[contexts[t]])
    future, smoothed, pairs = np.ones(num_motives), [filtered[-1]], []
    for t in reversed(range(length - 1)):
        future = future * chances[t + 1]
        pair = filtered[t][:, None] * rows[contexts[t]] * future
        pairs.insert(0, pair / pair.sum())
        smoothed.insert(0, pairs[0].sum(axis=1))
        future = rows[contexts[t]] @ future
    return log_likelihood, np.array(filtered), np.array(predictive[:-1]), np.array(smoothed), np.array(pairs)


@pytest.mark.parametrize(("num_motives", "length"), [(1, 4), (2, 1), (2, 9), (3, 7)])
def test_enumeration_is_forward_backward(num_motives, length):
    given = random_segment(2, num_motives, length)
    found = oracle.enumerate_assignments(*given)
    log_likelihood, filtered, predictive, smoothed, pairs = forward_backward(*given)
    np.testing.assert_allclose(found.log_likelihood, log_likelihood, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(found.filtered, filtered, rtol=1e-11)
    np.testing.assert_allclose(found.predictive, predictive, rtol=1e-11)
    np.testing.assert_allclose(found.smoothed, smoothed, rtol=1e-11)
    np.testing.assert_allclose(found.pairs, pairs.reshape(found.pairs.shape), rtol=1e-11)


def test_probabilities_sum_to_one_and_counts_to_steps():
    states, actions, *rest = random_segment(3, 3, 7)
    assert 0 < (actions < 0).sum() < 7
    found = oracle.enumerate_assignments(states, actions, *rest)
    for chances in (found.filtered, found.predictive, found.smoothed, found.action_probabilities):
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-12)
    sums = [part.sum() for part in (found.probabilities, found.switches, found.start_counts)]
    np.testing.assert_allclose(sums, 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.transition_counts.sum(), 6, rtol=1e-12)
    np.testing.assert_allclose(found.counts.sum(), (actions >= 0).sum(), rtol=1e-12)
    stays = found.pairs.trace(axis1=1, axis2=2).sum()
    np.testing.assert_allclose(found.switches @ np.arange(7), 6 - stays, rtol=1e-12)
    np.testing.assert_allclose(np.log(found.taken).sum(), found.log_likelihood, rtol=1e-12)
    recorded = actions >= 0
    of_taken = found.action_probabilities[np.arange(7), actions]
    np.testing.assert_allclose(found.taken[recorded], of_taken[recorded], rtol=1e-12)


def test_derivative_of_the_likelihood_is_that_of_expected_counts():
    """Fisher's identity: the gradient of log p(a) is that of sum_k,s,a E[N_k(s, a)] log pi_k(a | s), counts fixed."""
    rng = np.random.default_rng(4)
    theta, features = rng.standard_normal((2, 2)), rng.standard_normal((3, 2))
    start_rows, rows = random_rows(rng, 3, 2)
    plan = (TRANSITIONS, 0.6, 3.0, True)

    def likelihood(theta):
        return oracle.marginal_log_likelihood(theta, features, *plan, SEGMENTS, start_rows, rows)

    def logs(theta):
        return np.log([oracle.policies(TRANSITIONS, features @ weights, *plan[1:]) for weights in theta])

    counts = sum(
        oracle.enumerate_assignments(states, actions, logs(theta), start_rows, rows, contexts).counts
        for states, actions, contexts in SEGMENTS
    )
    for step in 1e-5 * np.eye(4).reshape(4, 2, 2):
        slope = (likelihood(theta + step) - likelihood(theta - step)) / 2e-5
        expected = (counts * (logs(theta + step) - logs(theta - step))).sum() / 2e-5
        np.testing.assert_allclose(slope, expected, atol=1e-7)  # central differences: h^2 and rounding / h


def test_simulated_segments_are_as_frequent_as_the_joint_says():
    rng, draws = np.random.default_rng(5), 2000
    policies = rng.dirichlet(np.ones(2), size=(2, 3))
    start_rows, rows = random_rows(rng, 3, 2)
    seen = {}
    for _ in range(draws):
        parts = oracle.simulate(rng, TRANSITIONS, policies, start_rows, rows, np.arange(3), 2, 1)
        key = tuple(np.concatenate(parts))
        seen[key] = seen.get(key, 0) + 1
    total = 0.0
    for key, count in seen.items():
        states, actions, contexts, motives = np.array(key).reshape(4, 2)
        log_joint = oracle.log_joint(motives, states, actions, np.log(policies), start_rows, rows, contexts)
        chance = np.exp(log_joint) * TRANSITIONS[states[0], actions[0], states[1]]
        assert abs(count / draws - chance) < STANDARD_ERRORS * np.sqrt(chance / draws) + 1 / draws
        total += chance
    assert total > 0.99


# ---------------------------------------------------------------------------------------------- exact posteriors


@pytest.mark.parametrize("name", PROBLEMS)
def test_finer_grids_change_nothing(name):
    finer = oracle.exact_posterior(PROBLEMS[name], order=18)
    for field in fields(finer):
        np.testing.assert_allclose(getattr(posterior(name), field.name), getattr(finer, field.name), atol=1e-8)


def prior_rows(rng, problem, draws):
    """Probabilities of motive 0 of all rows, [draws, nodes, 3]: of the root, then of contexts."""
    alpha = 1 + problem.stickiness * np.array([1.0, 0.0, 0.0])
    beta = 1 + problem.stickiness * np.array([0.0, 1.0, 0.0])
    root = rng.beta(alpha, beta, size=(draws, 3))[:, None]
    if problem.concentration is None:
        return root
    children = rng.beta(problem.concentration * root, problem.concentration * (1 - root), size=(draws, 3, 3))
    return np.concatenate([root, children], axis=1)


def contexts_of(problem):
    """Which node's rows act at each step of each segment."""
    return [contexts * 0 if problem.concentration is None else 1 + contexts for _, _, contexts in problem.segments]


@pytest.mark.parametrize("name", ["one node", "two levels"])
def test_integrated_rows_are_averages_over_rows(name):
    problem, rng = PROBLEMS[name], np.random.default_rng(6)
    rows = prior_rows(rng, problem, DRAWS)
    z = oracle.all_sequences(2, 8)[[0, 37, 90, 170, 229]]
    log_weights, moments = oracle.integrated_rows(z, problem)
    to = np.stack([rows, 1 - rows], axis=-1)  # [draws, nodes, 3, 2]
    for sequence, log_weight, moment in zip(z, log_weights, moments):
        chances = np.ones(DRAWS)
        for part, nodes in zip(np.split(sequence, [5]), contexts_of(problem)):
            chances *= to[:, nodes[0], 2, part[0]]
            for t in range(len(part) - 1):
                chances *= to[:, nodes[t], part[t], part[t + 1]]
        assert abs(chances.mean() - np.exp(log_weight)) < STANDARD_ERRORS * chances.std() / np.sqrt(DRAWS)
        for power in (1, 2):
            assert_weighted_mean(to**power, chances, moment[power - 1])


def assert_weighted_mean(values, weights, expected):
    """Weighted means of values[draws, ...] are as expected, within standard errors of their own."""
    weights = weights / weights.sum()
    mean = np.tensordot(weights, values, axes=1)
    error = np.sqrt(np.tensordot(weights**2, (values - mean) ** 2, axes=1))
    assert (np.abs(mean - expected) <= STANDARD_ERRORS * error + 1e-12).all(), (mean - expected) / error


@pytest.mark.parametrize("name", PROBLEMS)
def test_posterior_is_that_of_weighted_draws_of_the_prior(name):
    """Everything is drawn from the prior, motives too, and weighted by the probability of the choices."""
    problem, exact, rng = PROBLEMS[name], posterior(name), np.random.default_rng(7)
    theta = rng.normal(problem.mean, problem.scale, size=(DRAWS, 2))
    rows = prior_rows(rng, problem, DRAWS)
    every, parts = np.arange(DRAWS), []
    for nodes in contexts_of(problem):
        part = [(rng.random(DRAWS) > rows[:, nodes[0], 2]).astype(int)]
        for node in nodes[:-1]:
            part.append((rng.random(DRAWS) > rows[every, node, part[-1]]).astype(int))
        parts.append(np.stack(part, axis=1))
    z = np.concatenate(parts, axis=1)
    steps = oracle.step_log_probabilities(problem, theta.ravel()).reshape(DRAWS, 2, -1)
    weights = np.exp(np.take_along_axis(steps, z[:, None], axis=1).sum(axis=(1, 2)))
    assert abs(weights.mean() - np.exp(exact.log_evidence)) < STANDARD_ERRORS * weights.std() / np.sqrt(DRAWS)

    to = np.stack([rows, 1 - rows], axis=-1)
    swapped = theta[:, 0] > theta[:, 1]
    ordered = np.where(swapped[:, None, None, None], to[:, :, [1, 0, 2], ::-1], to)
    for values, prefix in ((theta, ""), (np.sort(theta), "ordered_"), (to, "rows_"), (ordered, "ordered_rows_")):
        mean, variance = getattr(exact, prefix + "mean"), getattr(exact, prefix + "variance")
        assert_weighted_mean(values, weights, mean)
        assert_weighted_mean(values**2, weights, variance + mean**2)
    assert_weighted_mean(z[:, :, None] == z[:, None], weights, exact.together)
    assert_weighted_mean(z != swapped[:, None], weights, exact.larger)
    switches = sum((part[:, 1:] != part[:, :-1]).sum(axis=1) for part in parts)
    assert_weighted_mean(switches[:, None] == np.arange(7), weights, exact.switches)


def test_names_of_motives_carry_no_information():
    exact = posterior("two levels")
    np.testing.assert_allclose(exact.mean[0], exact.mean[1], rtol=1e-10)
    np.testing.assert_allclose(exact.rows_mean, exact.rows_mean[:, [1, 0, 2], ::-1], rtol=1e-10)
    np.testing.assert_allclose(exact.ordered_mean.sum(), exact.mean.sum(), rtol=1e-10)


def test_contexts_about_a_firm_root_are_the_root():
    firm = oracle.exact_posterior(replace(ONE_NODE, concentration=1e7))
    one = posterior("one node")
    for name in ("log_evidence", "ordered_mean", "ordered_variance", "together", "larger", "switches"):
        np.testing.assert_allclose(getattr(firm, name), getattr(one, name), rtol=1e-5)  # counts / concentration
    for node in firm.ordered_rows_mean:
        np.testing.assert_allclose(node, one.ordered_rows_mean[0], rtol=1e-5)
