"""Rewards smooth over a graph, in models at random (`zoo.py`): by three methods; what must be found; the oracle."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import zoo
from goodness_of_fit import SIGNIFICANCE
from zoo_checks import log_reach, problems_of
from zoo_library import LAPLACE, library_method, sample
from zoo_oracle import (
    Distribution,
    log_likelihoods,
    log_prior,
    log_tail_probabilities,
    prior_draws,
    rewards_of_pairs,
    variables,
)
from zoo_specimens import specimen

SEED = 31
SIZE = {"chains": 2, "draws": 400, "warmup": 150, "thin": 2}
QUICK = SIZE | {"draws": 200, "thin": 1}
FAR = 6.0  # standard errors of so few draws are uncertain themselves: only what is further apart is looked at again
METHODS = ("HMC", "Gibbs", LAPLACE)


# ---- the library -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "size"),
    [
        (13, QUICK),
        *(pytest.param(n, SIZE, marks=pytest.mark.long) for n in range(30)),
    ],
)
def test_every_method_where_rewards_are_smooth(index, size):
    record = zoo.examine(SEED, index, size, METHODS, suspicious=FAR, smooth=True)
    assert not zoo.is_bad(record), zoo.described(record)


@pytest.mark.long
def test_methods_are_as_far_apart_as_their_errors_say():
    records = [zoo.examine(SEED, index, SIZE, METHODS, suspicious=FAR, smooth=True) for index in range(30, 42)]
    assert not any(map(zoo.is_bad, records)), "\n".join(map(zoo.described, filter(zoo.is_bad, records)))
    z = np.concatenate([np.array(pair["z"], float) for record in records for pair in record["pairs"].values()])
    z = z[np.isfinite(z)]
    assert len(z) > 1000
    assert 0.85 < np.sqrt((z**2).mean()) < 1.15  # of one model they are correlated: as far as a hundred may be off


def test_models_at_random_are_of_every_kind():
    """What this file is for is among the thirty."""
    some = [specimen(SEED, index, smooth=True) for index in range(30)]
    models = [one.model for one in some]
    of = [model.smooth for model in models]
    for given in ([each.scale for each in of], [each.range for each in of]):
        assert {getattr(each, "kind", None) for each in given} == {None, "Gamma", "HalfNormal", "LogNormal"}
    assert {model.sharing for model in models} == {"Pooled", "Separate", "Hierarchical"}
    assert {model.lapse for model in models} == {0.0, 0.1}
    assert {model.foresees_errors for model in models} == {True, False}
    assert {each.mean for each in of if each.is_hierarchical} == {None, 0}
    assert {each.is_given for each in of} == {each.is_sparse for each in of if each.is_given} == {True, False}
    assert {each.basis is None for each in of} == {True, False}
    assert any((each.eigen[0] == 0).sum() > 1 for each in of)  # parts without a link
    assert any(not each.is_in_span.all() and each.is_in_span.sum() > each.count for each in of)  # equal ones cut apart
    worlds = [one.world for one in some]
    assert {len(world.available) for world in worlds} == set(range(3, 8))
    assert any(world.is_terminal.any() for world in worlds)
    assert any((~world.available[~world.is_terminal]).any() for world in worlds)
    assert any(len({task for task, _, actions in one.episodes if actions}) < one.num_tasks for one in some)
    assert {one.num_tasks for one in some} == set(range(1, 6))


# ---- checks that must fail -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sampled():
    """A population whose range is known, and long, and draws of it that are in order."""
    one = specimen(SEED, 15, smooth=True)
    smooth = replace(one.model.smooth, scale=Distribution("HalfNormal", (1.0,)), range=30.0, mean=None)
    one = replace(one, model=replace(one.model, smooth=smooth))
    return one, sample(one, library_method("HMC", chains=2, draws=100, warmup=100, thin=1), seed=0)


def found(one, drawn):
    reach = log_reach(one.world, one.model, one.data, np.random.default_rng(0))
    return set(problems_of(one.world, one.model, one.data, drawn, reach))


def with_rewards(one, drawn, coordinates):
    """The same with other rewards, and the likelihoods and densities that are right for them."""
    draws = replace(drawn.draws, coordinates=coordinates, rewards=rewards_of_pairs(one.world, one.model, coordinates))
    likelihood, _ = log_likelihoods(one.world, one.model, draws, one.data.counts, one.data.owner)
    density = log_prior(one.model, draws)[0] + likelihood.sum(axis=1)
    return replace(drawn, draws=draws, log_likelihood=likelihood, log_posterior=density)


def test_draws_in_order_pass(sampled):
    one, drawn = sampled
    assert found(one, drawn) == set()
    assert found(one, with_rewards(one, drawn, drawn.draws.coordinates)) == set()


def test_a_corrupted_log_likelihood_is_seen(sampled):
    one, drawn = sampled
    assert found(one, replace(drawn, log_likelihood=drawn.log_likelihood * (1 + 1e-6))) == {"log likelihood differs"}
    assert "log likelihood above 0" in found(one, replace(drawn, log_likelihood=-drawn.log_likelihood))


@pytest.mark.parametrize("shift", [lambda draws: 1e-4, lambda draws: 1e-4 * (np.arange(draws) == draws - 1)])
def test_a_shifted_log_density_is_seen(sampled, shift):
    """All of them, or one."""
    one, drawn = sampled
    off = drawn.log_posterior + shift(len(drawn.draws))
    assert found(one, replace(drawn, log_posterior=off)) == {"log density differs"}


@pytest.mark.parametrize("what", ["mean", "range", "scale", "basis"])
def test_another_prior_is_seen(sampled, what):
    one, drawn = sampled
    smooth = one.model.smooth
    wrong = {
        "mean": {"mean": 0},
        "range": {"range": 1.001 * smooth.range},
        "scale": {"scale": Distribution("HalfNormal", (1.01,))},
        "basis": {"basis": len(one.world.available) - 1},
    }
    other = replace(one, model=replace(one.model, smooth=replace(smooth, **wrong[what])))
    assert "log density differs" in found(other, drawn)


def test_one_reward_that_ran_away_is_seen(sampled):
    """Even where likelihood and density are right for it."""
    one, drawn = sampled
    coordinates = drawn.draws.coordinates.copy()
    coordinates[11, 0, 0] = 1e6
    assert found(one, with_rewards(one, drawn, coordinates)) == {"run away"}


def test_one_draw_that_is_too_rough_is_seen(sampled):
    """Even where no reward is far from 0."""
    one, drawn = sampled
    coordinates = drawn.draws.coordinates.copy()
    roughest = one.model.smooth.eigen[1][:, -1]
    coordinates[11, 0] += drawn.draws.hyperparameters["reward_scale"][11] * roughest
    assert np.abs(coordinates).max() < 3 * np.abs(drawn.draws.coordinates).max()
    assert found(one, with_rewards(one, drawn, coordinates)) == {"run away"}


def test_rewards_rougher_than_the_eigenvectors_used_are_seen(sampled):
    one, drawn = sampled
    few = replace(one.model.smooth, basis=3)
    fields = few.draw(5, 2, 1, {}, np.random.default_rng(0))
    assert few.outside_span(fields) < 1e-12
    assert few.outside_span(drawn.draws.coordinates) > 1e-3


# ---- the oracle ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", [None, 4])
@pytest.mark.parametrize(("scale", "distance"), [(1.0, 1.0), (0.3, 4.0), (2.0, 30.0)])
def test_densities_are_those_of_dense_normals(basis, scale, distance):
    smooth = replace(specimen(SEED, 15, smooth=True).model.smooth, scale=scale, range=distance, basis=basis)
    root = 8 / distance**2 * np.eye(6) + smooth.laplacian
    used = smooth.eigen[1][:, : smooth.count]
    covariance = used.T @ np.linalg.inv(root @ root) @ used  # the trace of a projection is that of its coordinates
    covariance *= 6 * scale**2 / np.trace(covariance)
    fields = np.random.default_rng(1).normal(size=(10, smooth.count)) @ used.T
    given = np.full(10, scale), np.full(10, distance)
    expected = stats.multivariate_normal(np.zeros(smooth.count), covariance).logpdf(fields @ used)
    np.testing.assert_allclose(smooth.density(fields, *given, np.ones(10))[0], expected, rtol=1e-8)  # of inverses
    np.testing.assert_allclose(smooth.deviations(*given)[0] ** 2, np.diag(used @ covariance @ used.T), rtol=1e-8)


def test_tail_probabilities_are_uniform_under_the_prior():
    rng = np.random.default_rng(5)
    checked = set()
    for index in range(20):
        one = specimen(SEED, index, smooth=True)
        draws = prior_draws(one.world, one.model, one.num_tasks, 500, rng)
        for variable in variables(one.model, draws):
            smooth = one.model.smooth
            if variable.kind == "Normal" and smooth.is_in_span.sum() > smooth.count:  # variances at most those
                continue
            tails = np.exp(log_tail_probabilities(one.model, variable))[:, 0].reshape(500, -1)[:, 0]
            checked.add(variable.name)
            assert stats.kstest(tails, "uniform").pvalue > SIGNIFICANCE / 80, (index, variable.name)  # some 80 tests
    assert len(checked) == 6
