"""Every sampling method against the exact posterior of a problem small enough for brute force.

Two tasks, two states, two actions; rewards, temperatures and hyperparameters are all integrated on grids by
`grid_posterior`, which shares no code with the library. Agreement is judged in Monte Carlo standard errors.
"""

import functools
import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from arviz_stats import mcse

import manymotives as mm
from grid_posterior import posterior, posterior_beta, posterior_gaussian

ENVIRONMENT = mm.Environment([[[0.9, 0.1], [0.3, 0.7]], [[0.2, 0.8], [0.7, 0.3]]], discount=0.8)
COUNTS = np.array([[[12, 3], [4, 9]], [[2, 10], [7, 1]]])
STANDARD_ERRORS = 4.0
RULES = {"softmax": mm.Softmax, "soft_optimal": mm.SoftOptimal}
# shapes above 4: below, log c has no fourth moment and its variance no standard error
HYPER = {"alpha_shape": 2.0, "alpha_rate": 1.0, "g1_shape": 6.0, "g1_rate": 1.0, "g2_shape": 6.0, "g2_rate": 4.0}
CHAINS = {
    "HMC": mm.HMC(chains=4, draws=1000, warmup=200, thin=2, max_rounds=1),
    "Metropolis": mm.Metropolis(chains=4, draws=1500, warmup=300, thin=10),
    "Gibbs": mm.Gibbs(chains=4, draws=1500, warmup=300, thin=10),
}
WEIGHTED = {
    "MonteCarlo": mm.MonteCarlo(draws=40_000),
    "NestedMonteCarlo": mm.NestedMonteCarlo(draws=2_000, inner=100),
}
REPEATS = 8  # runs of the weighted methods, whose spread is their standard error


def demonstrations(counts=COUNTS, environment=ENVIRONMENT):
    """Choices with these counts; in which order they were made does not matter."""
    task, state, action = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
    step = 2 * np.arange(len(task))  # gaps, so that no transition is implied
    return mm.Demonstrations.from_frame(
        pd.DataFrame({"task": task, "state": state, "action": action, "step": step}), environment, step="step"
    )


def dirichlet_model(rule):
    temperature = mm.Gamma(
        shape=mm.Gamma(shape=HYPER["g1_shape"], rate=HYPER["g1_rate"]),
        rate=mm.Gamma(shape=HYPER["g2_shape"], rate=HYPER["g2_rate"]),
    )
    concentration = mm.Gamma(shape=HYPER["alpha_shape"], rate=HYPER["alpha_rate"])
    return mm.RewardPolicyModel(mm.DirichletReward(concentration), RULES[rule](temperature), mm.Hierarchical())


def dirichlet_quantities(fitted):
    drawn = fitted.data["posterior"].dataset
    found = {}
    for m in range(2):
        found[f"reward[{m}]"] = drawn["reward"].isel(task=m, state=0)
        found[f"log_inverse_temperature[{m}]"] = np.log(drawn["inverse_temperature"].isel(task=m))
    for k in range(2):
        found[f"log_concentration[{k}]"] = np.log(drawn["reward_concentration"].isel(state=k))
    for word in ("shape", "rate"):
        found[f"log_inverse_temperature_{word}"] = np.log(drawn[f"inverse_temperature_{word}"])
    return found


def gaussian_quantities(fitted):
    drawn = fitted.data["posterior"].dataset
    found = {}
    for s in range(2):
        for m in range(2):
            found[f"reward[{m}, {s}]"] = drawn["reward"].isel(task=m, state=s)
        found[f"mean[{s}]"] = drawn["reward_mean"].isel(state=s)
        found[f"log_scale[{s}]"] = np.log(drawn["reward_scale"].isel(state=s))
    return found


def beta_quantities(fitted):
    drawn = fitted.data["posterior"].dataset
    return {f"reward[{m}, {s}]": drawn["reward"].isel(task=m, state=s) for m in range(2) for s in range(2)}


def scores_of_chains(found, exact):
    """How many standard errors each mean and variance is off."""
    scores = {}
    for name, values in found.items():
        mean, variance = exact[name]
        squares = (values - mean) ** 2
        scores[f"mean of {name}"] = float((values.mean() - mean) / mcse(values, method="mean"))
        scores[f"variance of {name}"] = float((squares.mean() - variance) / mcse(squares, method="mean"))
    return scores


def scores_of_runs(runs, exact):
    scores = {}
    for name, (mean, variance) in exact.items():
        estimates = np.array([[run[name].mean(), ((run[name] - mean) ** 2).mean()] for run in runs])
        error = estimates.std(axis=0, ddof=1) / np.sqrt(len(runs))
        off = (estimates.mean(axis=0) - [mean, variance]) / error
        scores |= {f"mean of {name}": off[0], f"variance of {name}": off[1]}
    return scores


def assert_close(scores):
    worst = max(scores, key=lambda name: abs(scores[name]))
    assert abs(scores[worst]) < STANDARD_ERRORS, f"{worst} is off by {scores[worst]:.1f} standard errors"


@pytest.fixture(scope="module", params=["softmax", pytest.param("soft_optimal", marks=pytest.mark.long)])
def dirichlet(request):
    exact = posterior(ENVIRONMENT.tensor, ENVIRONMENT.discount, COUNTS, **HYPER, rule=request.param)
    exact.pop("log_evidence")
    return request.param, exact


@functools.cache
def chains_of(rule, method, longer=1):
    settings = replace(CHAINS[method], draws=longer * CHAINS[method].draws)
    return mm.fit(dirichlet_model(rule), ENVIRONMENT, demonstrations(), settings, seed=1)


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=pytest.mark.long if name == "Metropolis" else ()) for name in CHAINS]
)
def test_chains_agree_with_brute_force(dirichlet, method):
    """Chance can take a short run beyond the limit, as it has one of these; a longer one only brings bias out."""
    rule, exact = dirichlet
    scores = scores_of_chains(dirichlet_quantities(chains_of(rule, method)), exact)
    if max(map(abs, scores.values())) >= STANDARD_ERRORS:
        scores = scores_of_chains(dirichlet_quantities(chains_of(rule, method, longer=10)), exact)
    assert_close(scores)


@pytest.mark.parametrize("method", WEIGHTED)
def test_weighted_draws_agree_with_brute_force(dirichlet, method):
    rule, exact = dirichlet
    data = demonstrations()
    runs = [
        dirichlet_quantities(mm.fit(dirichlet_model(rule), ENVIRONMENT, data, WEIGHTED[method], seed=seed))
        for seed in range(REPEATS)
    ]
    assert_close(scores_of_runs(runs, exact))


def test_the_yardstick_sees_a_wrong_hyperprior():
    """Negative control: the exact posterior of slightly different hyperparameters is far off in standard errors."""
    wrong = posterior(ENVIRONMENT.tensor, ENVIRONMENT.discount, COUNTS, **HYPER | {"alpha_rate": 1.3})
    wrong.pop("log_evidence")
    fitted = chains_of("softmax", "Gibbs")
    with pytest.raises(AssertionError, match="standard errors"):
        assert_close(scores_of_chains(dirichlet_quantities(fitted), wrong))


@pytest.mark.long
@pytest.mark.parametrize("method", CHAINS)
@pytest.mark.parametrize("rule", RULES)
def test_gaussian_rewards_agree_with_brute_force(rule, method):
    exact = posterior_gaussian(
        ENVIRONMENT.tensor, ENVIRONMENT.discount, COUNTS, m0=0.5, s0=1.0, t0=0.7, inverse_temperature=1.5, rule=rule
    )
    exact.pop("log_evidence")
    prior = mm.GaussianReward(mean=mm.Normal(mean=0.5, scale=1.0), scale=mm.HalfNormal(scale=0.7))
    model = mm.RewardPolicyModel(prior, RULES[rule](1.5), mm.Hierarchical())
    fitted = mm.fit(model, ENVIRONMENT, demonstrations(), CHAINS[method], seed=2)
    assert_close(scores_of_chains(gaussian_quantities(fitted), exact))


# the default sampler; the others in `make test-long` (and with Dirichlet rewards above)
CASES = [
    pytest.param(rule, method, marks=[pytest.mark.long] * (method != "HMC" or rule == "soft_optimal"))
    for rule, method in itertools.product(RULES, CHAINS)
]


@pytest.mark.parametrize(("rule", "method"), CASES)
def test_beta_rewards_agree_with_brute_force(rule, method):
    exact = posterior_beta(
        ENVIRONMENT.tensor, ENVIRONMENT.discount, COUNTS, a=[0.7, 2.0], b=[1.5, 1.0], inverse_temperature=3.0, rule=rule
    )
    exact.pop("log_evidence")
    model = mm.RewardPolicyModel(mm.BetaReward([0.7, 2.0], [1.5, 1.0]), RULES[rule](3.0), mm.Separate())
    fitted = mm.fit(model, ENVIRONMENT, demonstrations(), CHAINS[method], seed=3)
    assert_close(scores_of_chains(beta_quantities(fitted), exact))
