"""Who shares a motive with whom, against the enumeration of all partitions (`oracle_mixture`)."""

import numpy as np
import pytest
from arviz_stats import ess
from benchmarks.mixture_problems import grid

import manymotives as mm
import oracle_mixture as oracle
from manymotives.inference.draws import sample
from manymotives.inference.mixture import chain, collapsed
from manymotives.models.mixture import PartitionPrior, first_seen
from mixture_examples import library_inputs, problem
from oracle_evidence import World, evidence
from oracle_mixture_posterior import posterior

PRIORS = {
    "a number": (oracle.Known(3), 3),
    "process": (oracle.Restaurant((1.0, 1.0)), mm.DirichletProcess(mm.Gamma(shape=1.0, rate=1.0))),
    "finite": (oracle.Finite(3.0), mm.FiniteNumber(mean=3.0)),
}
ERRORS = 4.0  # Monte Carlo standard errors that a mean may be off


def is_close(draws, exact):
    """Whether the mean of draws [chain, draw] is as it should be, within Monte Carlo error."""
    spread = max(draws.std(), np.sqrt(exact * (1 - exact)) if 0 < exact < 1 else 0.0)
    if spread == 0:
        return bool(np.allclose(draws, exact))
    effective = float(np.asarray(ess(draws, method="mean"))) if draws.std() > 0 else draws.size
    return bool(abs(draws.mean() - exact) < ERRORS * spread / np.sqrt(effective))


def check_exact(given, prior, motives, draws, spread=None):
    """Partitions, their number, pairs and weights of tasks."""
    exact = posterior(given, prior, spread)
    sharing = mm.Mixture(motives, spread=None if spread is None else mm.HalfNormal(scale=spread))
    model, environment, choices = library_inputs(given, sharing)
    found = sample(mm.HMC(chains=4, draws=draws, warmup=150), model.bind(environment, choices), seed=1)
    motive = found.mixture.motive
    wrong = []
    for string, probability in zip(exact.partitions, exact.probability):
        if probability * motive[..., 0].size > 20:  # fewer are not normally distributed
            wrong += [] if is_close((motive == string).all(axis=2).astype(float), probability) else [string]
    for number, probability in enumerate(exact.number, start=1):
        wrong += [] if is_close((motive.max(axis=2) + 1 == number).astype(float), probability) else [number]
    for m in range(motive.shape[2]):
        wrong += [] if is_close((motive[..., m] == motive[..., 0]).astype(float), exact.together[0, m]) else [(0, m)]
        for k, mean in enumerate(exact.weight_means[m]):
            wrong += [] if is_close(found.tasks[..., m, k] + 10.0, mean + 10.0) else [("weight", m, k)]
    assert not wrong, wrong


PRIOR_CASES = ["finite", *(pytest.param(each, marks=pytest.mark.long) for each in list(PRIORS)[:2])]


@pytest.mark.parametrize("prior", PRIOR_CASES)
@pytest.mark.parametrize("is_soft", [False, pytest.param(True, marks=pytest.mark.long)])
def test_the_posterior_over_all_partitions(prior, is_soft):
    check_exact(problem(3, features=1, is_soft=is_soft), *PRIORS[prior], draws=150)


@pytest.mark.long
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("seed", range(3))
def test_two_weights_and_other_problems(prior, seed):
    check_exact(problem(seed, features=2, is_soft=seed == 1), *PRIORS[prior], draws=2000)


@pytest.mark.long
@pytest.mark.parametrize("prior", PRIORS)
def test_tasks_that_are_spread_around_their_motive(prior):
    check_exact(problem(3, features=1, is_soft=True, spread=0.5), *PRIORS[prior], draws=2000, spread=0.5)


@pytest.mark.long
@pytest.mark.parametrize("prior", PRIORS)
def test_motives_integrated_out(prior, monkeypatch):
    """The moves for rewards of many coordinates, on one of few."""
    monkeypatch.setattr(collapsed, "FEW", 0)
    check_exact(problem(3, features=1, is_soft=True), *PRIORS[prior], draws=2000)


@pytest.mark.long
@pytest.mark.parametrize(("seed", "members"), [(0, [0]), (0, [0, 5]), (0, [1, 3]), (18, [0])], ids=str)
def test_evidences_of_sets(seed, members):
    """Sixteen weights of experts who never err, whose posterior may have two modes: Z, and means of weights."""
    given, runs = grid(seed), 40
    reward = mm.GaussianReward(given.features, mean=0.0, scale=1.0)
    model = mm.RewardPolicyModel(reward, mm.Softmax(3.0), mm.Mixture())
    target = model.target(given.environment, given.demonstrations.tasks, given.demonstrations.counts)
    estimator = chain.MixtureChain(None, target, 0, np.random.SeedSequence(0)).evidences.estimator
    members, rng = np.array(members), np.random.default_rng(0)
    found = [estimator.run(rng, members) for _ in range(runs)]
    log_z = np.array([each.log_evidence for each in found])
    assert log_z.std() < 0.3
    world = World(given.environment.tensor, 0.9, given.features, 3.0)
    counts = np.asarray(given.demonstrations.counts)[members].sum(axis=0)
    against = [evidence(world, counts, np.random.default_rng(n)) for n in range(3)]
    ratios = np.exp([each[0] - log_z.mean() for each in against])
    mine = np.exp(log_z - log_z.mean())
    error = np.hypot(max(ratios.std(ddof=1), 0.05) / np.sqrt(3), mine.std() / np.sqrt(runs))
    assert abs(ratios.mean() - mine.mean()) < ERRORS * error, (ratios, mine.mean())
    away = np.mean([each.mean for each in found], axis=0) - np.mean([each[1] for each in against], axis=0)
    assert abs(away).max() < 0.2, away


@pytest.mark.parametrize("prior", PRIORS)
def test_priors_of_partitions(prior):
    """Against the oracle's, and as drawn."""
    exact, motives = PRIORS[prior]
    given = PartitionPrior(motives, 4)
    strings = oracle.partitions(4)
    expected = np.exp(oracle.log_priors(exact, 4))
    if prior != "process":
        assert np.allclose(np.exp([given.log_prior(np.bincount(each)) for each in strings]), expected, atol=1e-12)
    rng = np.random.default_rng(0)
    drawn = np.array([given.draw(rng)[0] for _ in range(4000)])
    shares = np.array([(drawn == each).all(axis=1).mean() for each in strings])
    assert (abs(shares - expected) < 4.5 * np.sqrt(expected * (1 - expected) / 4000) + 1e-12).all()


def test_a_small_concentration_that_is_known_stays():
    sharing = mm.Mixture(mm.DirichletProcess(concentration=0.001))
    model, environment, choices = library_inputs(problem(3, features=1, tasks=3), sharing)
    found = sample(mm.HMC(chains=2, draws=3, warmup=3), model.bind(environment, choices), seed=0)
    assert (found.mixture.concentration == 0.001).all()


def test_partitions_are_numbered_as_they_appear():
    assert first_seen(np.array([7, 7, 2, 9, 2])).tolist() == [0, 0, 1, 2, 1]
