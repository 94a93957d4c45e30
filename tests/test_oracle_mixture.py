"""The oracle of shared motives, checked by known values and by other integrals before anything is held against it."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from arviz_stats import mcse
from scipy import integrate, special, stats

import manymotives as mm
import mixture_examples
import oracle_discount
from goodness_of_fit import SIGNIFICANCE
from oracle_mixture import Finite, Known, Restaurant, log_priors, new_motive_probabilities, partitions, weight_nodes
from oracle_mixture_posterior import (
    block_evidence,
    posterior,
    posterior_of,
    spread_evidence,
    spread_nodes,
    variation_of_information,
)

PRIORS = [Known(1), Known(3), Known(8, 0.5), Restaurant(0.7), Restaurant((1.0, 1.0)), Restaurant((3.0, 0.5))]
PRIORS += [Finite(3.0), Finite(1.5, 0.3)]


def test_partitions_are_counted_by_bell_numbers() -> None:
    assert [len(partitions(tasks)) for tasks in range(1, 7)] == [1, 2, 5, 15, 52, 203]
    assert partitions(3).tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1], [0, 1, 2]]


@pytest.mark.parametrize("prior", PRIORS, ids=str)
def test_priors_sum_to_one_and_forget_the_last_task(prior) -> None:
    """Leaving out a task gives the prior of the others; with sizes alone deciding, no order of tasks matters."""
    for tasks in range(1, 6):
        more, fewer = np.exp(log_priors(prior, tasks + 1)), np.exp(log_priors(prior, tasks))
        assert more.sum() == pytest.approx(1.0, abs=1e-11)
        index = {tuple(string): n for n, string in enumerate(partitions(tasks))}
        left_out = np.bincount([index[tuple(string[:-1])] for string in partitions(tasks + 1)], more)
        np.testing.assert_allclose(left_out, fewer, rtol=1e-10, atol=1e-14)


def test_priors_have_their_known_values() -> None:
    def together(prior) -> float:
        return float(np.exp(log_priors(prior, 2)[0]))

    np.testing.assert_allclose(np.exp(log_priors(Restaurant(1.0), 3)), [1 / 3, 1 / 6, 1 / 6, 1 / 6, 1 / 6])
    np.testing.assert_allclose(new_motive_probabilities(Restaurant(2.0), 4), 2 / 6)
    # α ~ Exponential(1): E[1 / (1 + α)] = e E₁(1)
    assert together(Restaurant((1.0, 1.0))) == pytest.approx(np.e * special.exp1(1.0), rel=1e-10)
    assert together(Known(4, 0.5)) == pytest.approx(1.5 / 3.0)
    np.testing.assert_allclose(new_motive_probabilities(Known(3), 3), [2 / 6, 1 / 6, 1 / 6, 1 / 6, 0], atol=1e-15)
    # K = 1 + Poisson(2): E[2 / (K + 1)], where 1/(K + 1) is E[x^K] for x uniform
    expected = 2 * integrate.quad(lambda x: x * np.exp(-2 * (1 - x)), 0, 1)[0]
    assert together(Finite(3.0, 1.0)) == pytest.approx(expected, rel=1e-10)
    assert together(Finite(1.0 + 1e-12)) == pytest.approx(1.0)


@pytest.mark.long
def test_a_restaurant_draws_what_its_prior_says() -> None:
    """Task after task at the tables of a Chinese restaurant; and tasks of a finite mixture with a random number."""
    rng, draws = np.random.default_rng(0), 20_000
    index = {tuple(string): n for n, string in enumerate(partitions(4))}
    seated, mixed = np.zeros(len(index)), np.zeros(len(index))
    for _ in range(draws):
        string = [0]
        for n in range(1, 4):
            chance = np.append(np.bincount(string), 0.7) / (n + 0.7)
            string.append(int(rng.choice(len(chance), p=chance)))
        seated[index[tuple(string)]] += 1
        shares = rng.dirichlet(np.full(1 + rng.poisson(2.0), 0.6))
        drawn = rng.choice(len(shares), size=4, p=shares)
        mixed[index[tuple({z: k for k, z in enumerate(dict.fromkeys(drawn.tolist()))}[z] for z in drawn)]] += 1
    for found, prior in ((seated, Restaurant(0.7)), (mixed, Finite(3.0, 0.6))):
        assert stats.chisquare(found, draws * np.exp(log_priors(prior, 4))).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("is_soft", [False, True])
@pytest.mark.parametrize("on_pairs", [False, True])
def test_likelihoods_equal_those_of_another_oracle(is_soft: bool, on_pairs: bool) -> None:
    problem = mixture_examples.problem(1, actions=3, features=2, is_soft=is_soft, on_pairs=on_pairs)
    weights = np.random.default_rng(0).normal(size=(7, 2))
    rewards = np.einsum("gd,sad->gsa", weights, problem.pair_features)
    discounts, temperatures = np.full(7, problem.discount), np.full(7, problem.inverse_temperature)
    expected = oracle_discount.log_likelihoods(
        problem.transitions, discounts, rewards, temperatures, problem.counts, is_soft
    )
    np.testing.assert_allclose(problem.log_likelihoods(weights), expected, rtol=1e-11)


@pytest.mark.parametrize("is_soft", [False, True])
@pytest.mark.parametrize("features", [1, pytest.param(2, marks=pytest.mark.long)])
def test_evidence_does_not_depend_on_the_number_of_nodes(is_soft: bool, features: int) -> None:
    problem = mixture_examples.problem(2, tasks=3, features=features, is_soft=is_soft)
    coarse, fine = (block_evidence(problem, nodes) for nodes in (14, 20))
    np.testing.assert_allclose(coarse.log_evidence, fine.log_evidence, atol=1e-9)
    np.testing.assert_allclose(coarse.moments, fine.moments, atol=1e-8)
    assert np.exp(weight_nodes(problem)[1]).sum() == pytest.approx(1.0, abs=1e-12)


def test_evidence_of_one_feature_equals_an_adaptive_integral() -> None:
    problem = replace(mixture_examples.problem(3, tasks=3), mean=0.4, scale=1.7)

    def integrand(w: float, power: int) -> float:
        prior = stats.norm.pdf(w, 0.4, 1.7)
        return w**power * prior * np.exp(problem.log_likelihoods(np.array([[w]]))[0, [0, 2]].sum())

    moments = [
        sum(integrate.quad(integrand, *ends, args=(power,), epsabs=0, epsrel=1e-11, limit=200)[0] for ends in SIDES)
        for power in range(3)
    ]
    found = block_evidence(problem)
    assert found.log_evidence[0, 0b101] == pytest.approx(np.log(moments[0]), abs=1e-9)
    np.testing.assert_allclose(found.moments[0, 0b101, :, 0, 0], np.array(moments[1:]) / moments[0], rtol=1e-8)
    assert (found.moments[0, 0b101, :, 1] == 0).all()


SIDES = ((-16.0, -4.0), (-4.0, 0.0), (0.0, 4.0), (4.0, 16.0))


def test_evidence_with_spread_equals_a_sum_over_a_fine_grid() -> None:
    """By the trapezoidal rule for w and μ, whose error with a kink falls with the square of the width."""
    problem = mixture_examples.problem(4, tasks=3, spread=0.5)
    sigma = 0.6
    w = np.arange(-12.0, 12.0, 0.004)
    likelihood = np.exp(problem.log_likelihoods(w[:, None]))
    motive = np.arange(-8.0, 8.0, 0.02)
    blurred = 0.004 * stats.norm.pdf(w[None], motive[:, None], sigma) @ likelihood
    expected = np.log(0.02 * (stats.norm.pdf(motive) * blurred[:, 0] * blurred[:, 1]).sum())
    found = spread_evidence(problem, np.array([sigma]), np.zeros(1))
    assert found.log_evidence[0, 0b011] == pytest.approx(expected, abs=1e-5)


def test_hardly_any_spread_equals_none_and_one_task_knows_no_motive() -> None:
    problem = mixture_examples.problem(5, tasks=3)
    narrow, none = spread_evidence(problem, np.array([1e-4]), np.zeros(1)), block_evidence(problem)
    np.testing.assert_allclose(narrow.log_evidence, none.log_evidence, atol=1e-5)
    np.testing.assert_allclose(narrow.moments, none.moments, atol=1e-4)
    wide = spread_evidence(problem, np.array([0.75]), np.zeros(1))  # w alone has the variance of μ and σ together
    alone = block_evidence(replace(problem, scale=1.25))
    np.testing.assert_allclose(wide.log_evidence[0, [1, 2, 4]], alone.log_evidence[0, [1, 2, 4]], atol=1e-9)
    assert np.exp(spread_nodes(0.5)[1]).sum() == pytest.approx(1.0, abs=1e-10)


@pytest.mark.parametrize("spread", [None, pytest.param(0.5, marks=pytest.mark.long)])
def test_without_choices_the_posterior_is_the_prior(spread: float | None) -> None:
    silent = mixture_examples.problem(0, tasks=4)
    found = posterior(replace(silent, counts=0 * silent.counts), Finite(3.0), spread)
    np.testing.assert_allclose(found.probability, np.exp(log_priors(Finite(3.0), 4)), atol=1e-10)
    np.testing.assert_allclose(found.weight_means, 0.0, atol=1e-10)
    assert found.log_evidence == pytest.approx(0.0, abs=1e-10)
    if spread:
        assert found.spread_mean == pytest.approx(spread * np.sqrt(2 / np.pi), rel=1e-9)


@pytest.mark.parametrize("prior", [Known(3), Restaurant((1.0, 1.0)), Finite(3.0)], ids=str)
def test_posteriors_are_as_they_must_be(prior) -> None:
    """Permuting tasks permutes the answer; probabilities are those of partitions, counted in another way."""
    problem = mixture_examples.problem(0, tasks=5)
    found = posterior(problem, prior)
    assert found.probability.sum() == pytest.approx(1.0, abs=1e-12)
    order = np.array([3, 0, 4, 2, 1])
    moved = posterior(replace(problem, counts=problem.counts[order]), prior)
    np.testing.assert_allclose(moved.together, found.together[np.ix_(order, order)], atol=1e-12)
    np.testing.assert_allclose(moved.number, found.number, atol=1e-12)
    np.testing.assert_allclose(moved.weight_means, found.weight_means[order], atol=1e-12)
    pair = sum(p for string, p in zip(found.partitions, found.probability) if string[1] == string[3])
    assert found.together[1, 3] == pytest.approx(pair, abs=1e-12)
    np.testing.assert_allclose(np.diag(found.together), 1.0)


def test_one_motive_is_one_block_and_a_concentrated_prior_is_all_blocks_apart() -> None:
    problem = mixture_examples.problem(0, tasks=4, features=2)
    evidence = block_evidence(problem, 16)
    one = posterior_of(evidence, Known(1), 4)
    assert one.number[0] == 1.0
    assert one.log_evidence == pytest.approx(evidence.log_evidence[0, 0b1111])
    apart = posterior_of(evidence, Restaurant(1e9), 4)
    assert apart.log_evidence == pytest.approx(evidence.log_evidence[0, [1, 2, 4, 8]].sum(), abs=1e-6)
    np.testing.assert_allclose(apart.weight_means[2], evidence.moments[0, 0b0100, 0, 2], atol=1e-6)


def test_variation_of_information_has_its_known_values() -> None:
    strings = partitions(4)
    distance = variation_of_information(strings)
    np.testing.assert_allclose(distance, distance.T)
    np.testing.assert_allclose(np.diag(distance), 0.0, atol=1e-15)
    assert distance[0, -1] == pytest.approx(np.log(4))  # all together, all apart
    halves = {tuple(string): n for n, string in enumerate(strings)}
    assert distance[halves[0, 0, 1, 1], halves[0, 1, 0, 1]] == pytest.approx(2 * np.log(2))
    assert distance[halves[0, 0, 1, 1], halves[0, 0, 1, 2]] == pytest.approx(0.5 * np.log(2))
    sides = distance[:, :, None] <= distance[:, None, :] + distance[None] + 1e-12  # a metric
    assert sides.all()


def test_the_best_partition_is_the_one_nearest_to_draws() -> None:
    problem = mixture_examples.problem(0, tasks=4, choices=60)
    found = posterior(problem, Finite(3.0))
    rng = np.random.default_rng(1)
    drawn = rng.choice(len(found.partitions), p=found.probability, size=20_000)
    here = (found.partitions == found.best).all(axis=1).argmax()
    distance = variation_of_information(found.partitions)[here, drawn]
    assert found.best_probability == pytest.approx(found.probability[here])
    assert abs(distance.mean() - found.expected_distance) < 4 * distance.std() / np.sqrt(len(drawn))


@pytest.mark.parametrize("features", [1, pytest.param(2, marks=pytest.mark.long)])
def test_one_motive_is_pooled_and_motives_apart_are_separate(features: int) -> None:
    """What the library says already of these two ends, within 4.5 standard errors."""
    problem = mixture_examples.problem(6, tasks=3, features=features, is_soft=features == 2)
    evidence = block_evidence(problem, 16)
    for sharing, prior in ((mm.Pooled(), Known(1)), (mm.Separate(), Restaurant(1e12))):
        model, environment, demonstrations = mixture_examples.library_inputs(problem, sharing)
        np.testing.assert_array_equal(demonstrations.counts, problem.counts)
        found = mm.fit(model, environment, demonstrations, mm.HMC(chains=2, draws=1000), seed=1, progress=False)
        weights, expected = found.weights, posterior_of(evidence, prior, 3)
        error = mcse(xr.Dataset({"weight": weights}))["weight"].values
        assert (np.abs(weights.mean(("chain", "draw")).values - expected.weight_means) < 4.5 * error).all()
        np.testing.assert_allclose(weights.std(("chain", "draw")).values, expected.weight_sds, rtol=0.1)
