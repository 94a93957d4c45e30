"""The oracle of unknown transitions against itself: quadrature, weighted draws, limits, simulated agents."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import special, stats

import grid_posterior
from belief_examples import ALL_ROWS, ONE_ROW, THREE_STATE_EXAMPLES, THREE_STATES, TWO_ROWS, TWO_STATE_EXAMPLES
from belief_oracle import action_values, advantages, by_quadrature, by_sampling, optimal_values
from goodness_of_fit import SIGNIFICANCE

EXAMPLES = TWO_STATE_EXAMPLES | THREE_STATE_EXAMPLES
STANDARD_ERRORS = 4.5  # a hundred or so correlated comparisons an example: by chance in about one run of a thousand

# posterior (mean, sd), exact and with the mean of the belief plugged in, as seen when these examples were chosen;
# those of three states are means of 900 000 draws: good to 0.001, and to 0.003 for Gaussian rewards
SEEN = {
    "one row": ("reward[0, 0]", (0.2922, 0.1102), (0.3610, 0.0466)),
    "two rows": ("reward[0, 0]", (0.2832, 0.1159), (0.3737, 0.0561)),
    "disputed": ("reward[1, 0]", (0.5368, 0.1262), (0.5512, 0.0502)),
    "same beliefs": ("reward[0, 0]", (0.3709, 0.0615), (0.4484, 0.0513)),
    "unknown temperature": ("reward[0, 0]", (0.2452, 0.1216), (0.3365, 0.0741)),
    "Gaussian": ("reward[0, 0]", (-0.4262, 0.7615), (-0.2459, 0.7155)),
    "three states": ("reward[0, 1]", (0.3315, 0.2590), (0.1416, 0.1264)),
    "three states, Gaussian": ("reward[0, 1]", (0.2029, 1.1617), (0.7192, 0.9000)),
}


@cache
def answer(name, treatment="exact"):
    if name in TWO_STATE_EXAMPLES:
        return by_quadrature(EXAMPLES[name], treatment)
    return by_sampling(EXAMPLES[name], treatment, draws=20_000, inner=20)


def deviations(exact, sampled, draws):
    """Differences from quadrature in standard errors: of all means, sds and CDFs, and of the evidence."""
    evidence_error = math.sqrt(1 / sampled.effective_draws - 1 / draws)
    found = [(sampled.log_evidence - exact.log_evidence) / evidence_error]
    for name, truth in exact.marginals.items():
        estimate = sampled[name]
        np.testing.assert_allclose(estimate.points, truth.points)
        found += [(estimate.mean - truth.mean) / estimate.mean_error, (estimate.sd - truth.sd) / estimate.sd_error]
        often = (truth.cdf > 0.01) & (truth.cdf < 0.99)  # elsewhere too few draws decide
        found += list(((estimate.cdf - truth.cdf) / estimate.cdf_error)[often])
    return np.abs(found)


# ---------------------------------------------------------------------------------------------- planning


@pytest.mark.parametrize("name", THREE_STATE_EXAMPLES)
def test_best_of_all_policies_solves_the_bellman_equation(name):
    example, rng = EXAMPLES[name], np.random.default_rng(0)
    transitions = np.moveaxis(rng.dirichlet(np.ones(3), size=(3, 2, 500)), 3, 2)
    rewards = rng.standard_normal((2, 3, 500))
    values = optimal_values(transitions, example.discount, rewards)
    np.testing.assert_allclose(
        action_values(transitions, example.discount, rewards, values).max(axis=2), values, atol=1e-12
    )


def test_optimal_values_of_two_states_have_a_closed_form():
    rng = np.random.default_rng(1)
    to_first, contrast = rng.uniform(size=(2, 2, 50)), rng.uniform(-1, 1, size=20)
    rewards = np.array([(1 + contrast) / 2, (1 - contrast) / 2])
    found = advantages(to_first, 0.9, contrast)
    for n in range(50):
        transitions = np.stack([to_first[:, :, n], 1 - to_first[:, :, n]], axis=-1)
        values = grid_posterior.optimal_values(transitions, 0.9, rewards)
        expected = 0.9 * (transitions[:, 0] - transitions[:, 1]) @ values
        np.testing.assert_allclose(found[:, n], expected, atol=1e-12)


# ---------------------------------------------------------------------------------------------- two oracles


@pytest.mark.parametrize("name", TWO_STATE_EXAMPLES)
def test_weighted_draws_agree_with_quadrature(name):
    sampled = by_sampling(EXAMPLES[name], draws=20_000, seed=2)
    assert deviations(answer(name), sampled, 20_000).max() < STANDARD_ERRORS


def test_weighted_draws_of_everything_at_once_agree_with_quadrature():
    sampled = by_sampling(TWO_ROWS, draws=100_000, inner=1, seed=2)
    assert deviations(answer("two rows"), sampled, 100_000).max() < STANDARD_ERRORS


@pytest.mark.long
def test_weighted_draws_agree_with_quadrature_when_nothing_is_certain():
    assert deviations(by_quadrature(ALL_ROWS), by_sampling(ALL_ROWS), 100_000).max() < STANDARD_ERRORS


def test_weighted_draws_do_not_agree_with_wrong_treatments():
    sampled = by_sampling(TWO_ROWS, draws=2_000, seed=2)["reward[0, 0]"]
    for treatment in ("plug_in", "cut"):
        assert abs(sampled.mean - answer("two rows", treatment)["reward[0, 0]"].mean) > 10 * sampled.mean_error


@pytest.mark.parametrize("name", ["one row", "two rows", "same beliefs", "Gaussian"])
def test_more_nodes_change_nothing(name):
    finer = by_quadrature(EXAMPLES[name], finer=2)
    for quantity, coarse in answer(name).marginals.items():
        assert coarse.mean == pytest.approx(finer[quantity].mean, abs=2e-5)
        assert coarse.sd == pytest.approx(finer[quantity].sd, abs=2e-5)
        np.testing.assert_allclose(coarse.cdf, finer[quantity].cdf, atol=5e-5)


# ---------------------------------------------------------------------------------------------- limits


def test_the_known_environment_is_what_much_experience_leads_to():
    surely = replace(TWO_ROWS, alpha=1e8 * TWO_ROWS.alpha)
    exact, known = by_quadrature(surely), by_quadrature(TWO_ROWS, "plug_in")
    for name, expected in known.marginals.items():
        assert exact[name].mean == pytest.approx(expected.mean, abs=1e-6)
        assert exact[name].sd == pytest.approx(expected.sd, abs=1e-6)
        np.testing.assert_allclose(exact[name].cdf, expected.cdf, atol=1e-6)


def test_a_known_environment_agrees_with_the_oracle_of_known_environments():
    known = by_quadrature(TWO_ROWS, "plug_in")
    nodes = (np.arange(4000) + 0.5) / 4000  # a uniform prior
    log_chances = grid_posterior.choice_log_probabilities(
        TWO_ROWS.mean_environment, TWO_ROWS.discount, np.array([nodes, 1 - nodes]), 8.0, "softmax"
    )
    for m, log_likelihood in enumerate(grid_posterior.log_likelihoods_of(TWO_ROWS.counts, log_chances)):
        mean, variance = grid_posterior.mean_and_variance(nodes, np.exp(log_likelihood))
        assert known[f"reward[{m}, 0]"].mean == pytest.approx(mean, abs=1e-6)
        assert known[f"reward[{m}, 0]"].sd == pytest.approx(math.sqrt(variance), abs=1e-6)


@pytest.mark.long
def test_three_states_with_much_experience_are_known():
    surely = replace(THREE_STATES, alpha=1e8 * THREE_STATES.alpha)
    exact, known = by_sampling(surely, draws=5_000, inner=20, seed=3), answer("three states", "plug_in")
    for name, expected in known.marginals.items():
        error = math.hypot(exact[name].mean_error, expected.mean_error)
        assert abs(exact[name].mean - expected.mean) < STANDARD_ERRORS * error


def priors(example):
    """By name, of all that has a prior in closed form."""
    found = {f"transition[{s}, {a}, {t}]": example.move_prior(s, a, t) for s, a, t in example.uncertain}
    for m, s in np.ndindex(example.counts.shape[:2]):
        found[f"reward[{m}, {s}]"] = example.reward_prior(s)
        if math.isfinite(example.temperature_shape):
            found[f"inverse_temperature[{m}]"] = example.temperature_prior()
    return found


@pytest.mark.parametrize("name", TWO_STATE_EXAMPLES)
def test_without_choices_quadrature_gives_the_prior(name):
    example = replace(EXAMPLES[name], counts=0 * EXAMPLES[name].counts)
    found = by_quadrature(example)
    assert found.log_evidence == pytest.approx(0, abs=1e-12)
    for quantity, prior in priors(example).items():
        assert found[quantity].mean == pytest.approx(prior.mean(), abs=1e-5, rel=1e-5)
        assert found[quantity].sd == pytest.approx(prior.std(), rel=5e-5)
        np.testing.assert_allclose(found[quantity].cdf, np.arange(1, 10) / 10, atol=1e-5)


@pytest.mark.parametrize("name", THREE_STATE_EXAMPLES)
def test_without_choices_draws_are_those_of_the_prior(name):
    example = replace(EXAMPLES[name], counts=0 * EXAMPLES[name].counts)
    found = by_sampling(example, draws=5_000, seed=4)
    assert found.effective_draws == pytest.approx(5_000)
    for quantity, prior in priors(example).items():
        drawn = found[quantity]
        assert abs(drawn.mean - prior.mean()) < STANDARD_ERRORS * drawn.mean_error
        assert abs(drawn.sd - prior.std()) < STANDARD_ERRORS * drawn.sd_error
        assert np.all(np.abs(drawn.cdf - np.arange(1, 10) / 10) < STANDARD_ERRORS * drawn.cdf_error)


def test_names_of_states_actions_and_tasks_do_not_matter():
    other = replace(TWO_ROWS, alpha=TWO_ROWS.alpha[::-1, ::-1, ::-1], counts=TWO_ROWS.counts[::-1, ::-1, ::-1])
    found, expected = by_quadrature(other), answer("two rows")
    assert found["reward[1, 1]"].mean == pytest.approx(expected["reward[0, 0]"].mean, abs=1e-9)
    assert found["transition[1, 0, 1]"].mean == pytest.approx(expected["transition[0, 1, 0]"].mean, abs=1e-9)
    assert found["choice[1, 1]"].mean == pytest.approx(1 - expected["choice[0, 0]"].mean, abs=1e-9)


# ---------------------------------------------------------------------------------------------- wrong treatments


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name == "three states, Gaussian")) for name in SEEN]
)
def test_examples_tell_exact_from_plug_in(name):
    quantity, *seen = SEEN[name]
    exact, plugged = answer(name)[quantity], answer(name, "plug_in")[quantity]
    for found, (mean, sd) in zip((exact, plugged), seen):
        assert found.mean == pytest.approx(mean, abs=1e-4 + 5 * found.mean_error)
        assert found.sd == pytest.approx(sd, abs=1e-4 + 5 * found.sd_error)
    assert abs(plugged.mean - exact.mean) > 0.1 * exact.sd
    assert plugged.sd < 0.95 * exact.sd


@pytest.mark.parametrize("name", TWO_STATE_EXAMPLES)
def test_examples_tell_exact_from_cut(name):
    exact, cut = answer(name), answer(name, "cut")
    assert abs(cut["reward[0, 0]"].mean - exact["reward[0, 0]"].mean) > 0.2 * exact["reward[0, 0]"].sd
    moves = [quantity for quantity in exact.marginals if quantity.startswith("transition")]
    assert max(abs(cut[move].mean - exact[move].mean) / exact[move].sd for move in moves) > 0.9


def test_examples_tell_a_shared_environment_from_separate_ones():
    shared, alone = answer("disputed"), by_quadrature(TWO_STATE_EXAMPLES["disputed"].only(1))
    assert shared["reward[1, 0]"].mean == pytest.approx(0.5368, abs=1e-4)
    assert alone["reward[0, 0]"].mean == pytest.approx(0.7055, abs=1e-4)


# ---------------------------------------------------------------------------------------------- simulated agents


def simulated(rng):
    """An environment and a reward from the prior of ONE_ROW, and choices of an agent that plans by value iteration."""
    transitions = ONE_ROW.mean_environment.copy()
    transitions[0, 1] = rng.dirichlet(ONE_ROW.alpha[0, 1])
    reward = rng.dirichlet(ONE_ROW.reward_concentration)
    values = np.zeros(2)
    for _ in range(100):
        preferences = reward[:, None] + ONE_ROW.discount * transitions @ values
        values = preferences.max(axis=1)
    chances = special.softmax(ONE_ROW.inverse_temperature * preferences, axis=1)
    return transitions[0, 1, 0], reward[0], rng.multinomial(200, chances)[None]


def test_posteriors_are_calibrated_on_simulated_agents_and_the_plug_in_is_not():
    rng = np.random.default_rng(5)
    moves, rewards, plugged = [], [], []
    for _ in range(150):
        move, reward, counts = simulated(rng)
        exact = by_quadrature(replace(ONE_ROW, counts=counts))
        moves.append((move, exact["transition[0, 1, 0]"]))
        rewards.append((reward, exact["reward[0, 0]"]))
        plugged.append((reward, by_quadrature(replace(ONE_ROW, counts=counts), "plug_in")["reward[0, 0]"]))
    for pairs in (moves, rewards):
        error = np.array([truth - found.mean for truth, found in pairs])
        mean, sd = np.array([(found.mean, found.sd) for _, found in pairs]).T
        for expected_zero in (error, error * mean, error**2 - sd**2):
            assert stats.ttest_1samp(expected_zero, 0).pvalue > SIGNIFICANCE
    # no distribution has more than a ninth of itself further than three sds from its mean
    far = sum(abs(truth - found.mean) > 3 * found.sd for truth, found in plugged)
    assert stats.binomtest(far, len(plugged), 1 / 9, alternative="greater").pvalue < 1e-3
