"""Subjects who want the same: scales of a population that are zero, or nearly, are ordinary.

Chains used to run away there, and said that they had mixed: to weights of 1e33 where subjects were alike, and to a log
likelihood of +∞ where the inverse temperature of soft optimality overflowed. Ranks are bounded, so calibration did not
see it. `zoo.py` draws models at random; these are the two that were found first.
"""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import manymotives as mm
from cases import seeds_from
from goodness_of_fit import SIGNIFICANCE
from manymotives.inference.mcmc.chains import MarkovChain
from manymotives.inference.mcmc.consistency import InconsistentChainError, check_consistent, is_standardised
from manymotives.inference.mcmc.sweeps import hamiltonian_draws
from manymotives.models.likelihood import log_likelihoods

SHORT = {"chains": 2, "draws": 200, "warmup": 150, "thin": 1}
METHODS = {
    "HMC": mm.HMC(**SHORT, max_rounds=1),
    "Gibbs": mm.Gibbs(**SHORT),
    "Metropolis": mm.Metropolis(**SHORT),
    "JAX": mm.HMC(chains=16, draws=25, warmup=100, thin=1, device="cpu"),
}
GRID = mm.worlds.GridWorld((3, 3), slip=0.1, discount=0.9)
FEATURES = np.random.default_rng(1).normal(size=(9, 2))
ALIKE = mm.RewardPolicyModel(mm.GaussianReward(features=FEATURES), mm.Softmax())
CORRIDOR = mm.worlds.Chain(states=4, discount=0.9)
REWARDS = {"Dirichlet": mm.DirichletReward(), "Gaussian": mm.GaussianReward(), "Beta": mm.BetaReward()}
LOG_NORMAL = {
    "known": mm.LogNormal(mean=0.0, scale=1.0),
    "inferred": mm.LogNormal(mean=mm.Normal(mean=0.0, scale=1.0), scale=mm.HalfNormal(scale=1.0)),
}


def alike(seed, method):
    """Six subjects who want the same."""
    wanted = np.tile(FEATURES @ np.array([1.5, -1.0]), (6, 1))
    chosen = mm.simulate(GRID, wanted, mm.Softmax(1.0), steps=60, seed=seed)
    return mm.fit(ALIKE, GRID, chosen, method, seed=seed, progress=False)


def soft(seed, method, reward, temperature):
    """Three subjects on a corridor, with a log-normal inverse temperature of soft optimality."""
    truth = np.random.default_rng(0).normal(size=(3, 4))
    chosen = mm.simulate(CORRIDOR, truth, mm.SoftOptimal(3.0), steps=30, seed=0)
    model = mm.RewardPolicyModel(REWARDS[reward], mm.SoftOptimal(LOG_NORMAL[temperature]))
    return mm.fit(model, CORRIDOR, chosen, method, seed=seed, progress=False)


def check(posterior, largest=60.0):
    """Finite, log likelihoods not above 0, and nothing beyond what the prior reaches (its scales are all about 1)."""
    drawn = posterior.data["posterior"].dataset
    for name in drawn.data_vars:
        assert np.isfinite(drawn[name].values).all(), name
    assert np.isfinite(posterior.data["sample_stats"].dataset["lp"].values).all()
    assert all((each.values <= 0).all() for each in posterior.data["log_likelihood"].dataset.data_vars.values())
    if isinstance(posterior.model.reward, mm.GaussianReward):
        assert abs(drawn["reward"]).max() < largest
    if "inverse_temperature" in drawn:
        assert abs(np.log(drawn["inverse_temperature"])).max() < largest


@pytest.mark.parametrize("method", ["HMC", "Gibbs", "Metropolis", pytest.param("JAX", marks=pytest.mark.long)])
def test_alike_subjects_do_not_send_chains_away(method):
    check(alike(0, METHODS[method]))


@pytest.mark.parametrize(
    ("method", "reward", "temperature"),
    [("HMC", "Dirichlet", "known"), ("HMC", "Gaussian", "inferred"), ("Gibbs", "Beta", "inferred")],
)
def test_temperatures_of_soft_optimality_do_not_overflow(method, reward, temperature):
    check(soft(1, METHODS[method], reward, temperature))


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_both_examples_with_fifty_seeds(method):
    for seed in range(50):
        check(alike(seed, METHODS[method]))
        for temperature in LOG_NORMAL:
            check(soft(seed, METHODS[method], list(REWARDS)[seed % 3], temperature))


# ---- calibration where scales are nearly zero ---------------------------------------------------------------------


def narrow(scale):
    reward = mm.GaussianReward(mean=mm.Normal(mean=0.0, scale=1.0), scale=mm.HalfNormal(scale=scale))
    return mm.RewardPolicyModel(reward, mm.Softmax())


PATIENT = mm.HMC(chains=1, draws=60, warmup=100, thin=4, max_rounds=1)
SIZE = {"tasks": 4, "steps": 15, "progress": False}
PLACE = mm.worlds.Chain(states=3, discount=0.8)


@pytest.mark.long
@pytest.mark.parametrize("scale", [1e-12, 0.01, 0.1])
def test_narrow_populations_are_calibrated(scale):
    found = mm.calibrate(narrow(scale), PLACE, PATIENT, seeds=seeds_from(31, 500), **SIZE)
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
def test_a_population_that_is_wider_than_thought_is_seen():
    found = mm.calibrate(narrow(0.01), PLACE, PATIENT, truth=narrow(1.0), seeds=seeds_from(32, 200), **SIZE)
    assert found.p_value < 1e-3, found


# ---- what is said, and what stops a run ---------------------------------------------------------------------------


def test_subjects_who_do_not_differ_are_said_not_to():
    posterior = alike(3, METHODS["Gibbs"])
    (said,) = [each for each in posterior.warnings if "the data do not show whether subjects differ in" in each]
    scales = posterior.data["posterior"].dataset["reward_scale"].quantile(0.95, ("chain", "draw"))
    assert any(f"nearly zero, or up to {float(scale):.2g} (95 % quantile)." in said for scale in scales)
    wanted = FEATURES @ np.array([[1.5, -1.5] * 4, [-2.0, 2.0] * 4])
    chosen = mm.simulate(GRID, wanted.T, mm.Softmax(1.0), steps=300, seed=0)
    apart = mm.fit(ALIKE, GRID, chosen, METHODS["Gibbs"], seed=0, progress=False)
    assert not any("subjects differ" in each for each in apart.warnings)


@pytest.fixture(scope="module")
def begun():
    chosen = mm.simulate(GRID, np.tile(FEATURES[:, 0], (3, 1)), mm.Softmax(1.0), steps=20, seed=0)
    target = ALIKE.bind(GRID, chosen)
    chain = MarkovChain(hamiltonian_draws, target, target.num_coordinates, np.random.SeedSequence(0))
    chain.begin()
    return target, chain.state


@pytest.mark.parametrize(
    ("part", "wrong", "sentence"),
    [
        ("log_likelihood", 1.0, "not a number up to 0"),
        ("log_likelihood", math.inf, "not a number up to 0"),
        ("log_likelihood", -1e-3, "is noted"),
        ("tasks", math.nan, "not finite"),
        ("tasks", 1.0, "its z"),
        ("hyper", math.inf, "not finite"),
    ],
)
def test_a_chain_that_contradicts_itself_stops_the_run(begun, part, wrong, sentence):
    target, state = begun
    check_consistent(target, state)
    values = getattr(state, part).copy()
    values[0] = values[0] + wrong if part == "log_likelihood" and wrong < 0 else wrong
    with pytest.raises(InconsistentChainError, match=sentence):
        check_consistent(target, SimpleNamespace(**{**state._asdict(), part: values}))


def test_chains_of_earlier_versions_find_their_z(begun):
    target, state = begun
    assert is_standardised(target, state)
    assert not is_standardised(target, state._replace(task_z=np.zeros_like(state.task_z)))


def test_choices_are_certain_where_temperatures_overflow():
    """0 · −∞ is not a likelihood: what was never chosen does not count, however bad it is."""
    counts, q = np.array([[[3.0, 0.0]]]), np.array([[[0.0, -1e10]]])

    def found(q, counts, temperature, lapse):
        return log_likelihoods(q, counts, np.array([0]), np.array([temperature]), np.array([lapse]))[0]

    assert found(q, counts, 1e300, 0.0) == 0.0
    assert found(q, counts[:, :, ::-1].copy(), 1e300, 0.0) == -math.inf
    alone = np.array([[[0.0, -math.inf]]])  # one action only: (1 − lapse) + lapse may round to more than 1
    assert max(found(alone, counts, 1.0, lapse) for lapse in np.linspace(0.01, 0.99, 99)) == 0.0
