"""Maximum likelihood: against closed forms, SciPy on an independent likelihood, and a nested fixed point."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, special, stats

import manymotives as mm
from likelihood_examples import LEFT, bandit, random_problem
from oracle_bus import bus_environment, choice_counts, maximum_likelihood
from oracle_bus import simulate as simulated_buses
from oracle_likelihood import hessian, maximum

QUICK = mm.MaximumLikelihood(draws=20)
SEPARATE = mm.RewardPolicyModel(LEFT, mm.Softmax(1.0), mm.Separate())
POOLED = replace(SEPARATE, sharing=mm.Pooled())


def fit(model, environment, data, method=QUICK, **options):
    return mm.fit(model, environment, data, method, progress=False, **options)


def coordinates(posterior):
    return posterior.data["estimate"]["coordinates"].values


# ---- closed forms ----------------------------------------------------------------------------------------------------


def test_two_arms_have_a_closed_form():
    environment, data = bandit({"ann": (30, 10), "bob": (5, 20)})
    found = fit(SEPARATE, environment, data)
    table = found.estimates()
    made = np.array([[30, 10], [5, 20]])
    share = made[:, 0] / made.sum(axis=1)
    error = 1 / np.sqrt(made.sum(axis=1) * share * (1 - share))
    np.testing.assert_allclose(table["estimate"], special.logit(share), atol=1e-9)
    np.testing.assert_allclose(table["standard_error"], error, rtol=1e-6)
    np.testing.assert_allclose(table["z"], special.logit(share) / error, rtol=1e-6)
    np.testing.assert_allclose(table["upper"] - table["lower"], 2 * stats.norm.ppf(0.975) * error, rtol=1e-6)
    assert table["task"].tolist() == ["ann", "bob"]
    likelihood = (made * np.log(np.stack([share, 1 - share], axis=1))).sum()
    top = found.maximum
    np.testing.assert_allclose(top.log_likelihood, likelihood, atol=1e-10)
    assert (top.num_parameters, top.num_choices, top.converged) == (2, 65, True)
    np.testing.assert_allclose([top.aic, top.bic], [4 - 2 * likelihood, 2 * np.log(65) - 2 * likelihood])
    assert top.gradient_norm < 1e-7


def test_a_ratio_test_of_two_arms_is_the_likelihood_ratio_test_of_a_table():
    environment, data = bandit({"ann": (30, 10), "bob": (5, 20)})
    full, restricted = fit(SEPARATE, environment, data), fit(POOLED, environment, data)
    test = full.likelihood_ratio(restricted)
    expected = stats.chi2_contingency([[30, 10], [5, 20]], correction=False, lambda_="log-likelihood")
    np.testing.assert_allclose([test.statistic, test.p], [expected.statistic, expected.pvalue], rtol=1e-8)
    assert test.degrees_of_freedom == 1
    assert str(test) == f"χ²(1) = {expected.statistic:.4g}, p = {expected.pvalue:.3g}"


def test_robust_errors_of_two_arms_are_those_of_clusters():
    made = np.array([(9, 1), (3, 7), (8, 2), (6, 4), (10, 0)])
    environment, data = bandit({name: tuple(row) for name, row in zip("abcde", made.tolist())})
    found = fit(POOLED, environment, data, replace(QUICK, errors="robust")).estimates()
    share = made[:, 0].sum() / made.sum()
    scores = made[:, 0] - made.sum(axis=1) * share
    information = made.sum() * share * (1 - share)
    expected = np.sqrt(5 / 4 * (scores**2).sum()) / information
    np.testing.assert_allclose(found["standard_error"], expected, rtol=1e-6)


def test_the_mode_of_the_posterior_of_two_arms():
    environment, data = bandit({"ann": (12, 0)})  # separated: only the prior holds the weight
    reward = replace(LEFT, mean=0.5, scale=2.0)
    for sharing in (mm.Pooled(), mm.Separate(), mm.Hierarchical()):
        model = mm.RewardPolicyModel(reward, mm.Softmax(1.0), sharing)
        found = fit(model, environment, data, replace(QUICK, criterion="posterior"))
        mode = optimize.minimize_scalar(
            lambda w: -12 * special.log_expit(w) + (w - 0.5) ** 2 / 8, bracket=(0, 3), tol=1e-12
        ).x
        np.testing.assert_allclose(coordinates(found)[0, 0], mode, atol=1e-6)
        curvature = 12 * special.expit(mode) * special.expit(-mode) + 1 / 4
        np.testing.assert_allclose(found.estimates()["standard_error"], 1 / np.sqrt(curvature), rtol=1e-6)
        assert np.isnan(found.maximum.aic)


# ---- independent optimisers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discount", [0.975, 0.9999])
def test_buses_are_estimated_as_by_a_nested_fixed_point(discount):
    transitions, features = bus_environment()
    bins, decisions = simulated_buses(3, discount=discount)
    environment = mm.Environment(transitions, discount=discount, actions=["keep", "replace"])
    actions = np.array(environment.actions)[decisions.ravel()]
    frame = pd.DataFrame({"bus": np.repeat(np.arange(50), 120), "state": bins.ravel(), "action": actions})
    data = mm.Demonstrations.from_frame(frame, environment, task="bus")
    names = ["replacement", "maintenance"]
    model = mm.RewardPolicyModel(
        mm.GaussianReward(features, on="state_action", names=names), mm.SoftOptimal(1.0), mm.Pooled()
    )
    exact = maximum_likelihood(choice_counts(bins, decisions), transitions, features, discount)
    starts = [(4.0, 0.0), (20.0, 0.0), (4.0, 8.0), (20.0, 8.0)]
    method = mm.MaximumLikelihood(starts=[dict(zip(names, start)) for start in starts], draws=20, errors="expected")
    found = fit(model, environment, data, method)
    table = found.estimates()
    np.testing.assert_allclose(table["estimate"], exact.parameters, atol=1e-6)
    np.testing.assert_allclose(table["standard_error"], exact.standard_errors, rtol=1e-6)
    np.testing.assert_allclose(found.maximum.log_likelihood, exact.log_likelihood, atol=1e-8)
    assert found.maximum.by_task["starts_agreeing"].tolist() == [4]


@pytest.mark.parametrize(("seed", "infers"), [(1, ()), (3, ()), (4, ())])
def test_random_models_are_estimated_as_by_scipy(seed, infers):
    _check_against_scipy(seed, infers)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10, 35))
@pytest.mark.parametrize("infers", [(), ("lapse",), ("discount",)])
def test_more_random_models_are_estimated_as_by_scipy(seed, infers):
    _check_against_scipy(seed, infers)


def _check_against_scipy(seed, infers):
    environment, model, data, problem = random_problem(seed, infers=infers)
    try:
        found = fit(model, environment, data)
    except mm.errors.InputError as error:
        refusal = str(error)
    else:
        refusal = ""
    if refusal:
        assert "no maximum" in refusal or "no single maximum" in refusal
        _check_there_is_none(problem, len(infers))
        return
    u, top = coordinates(found)[0], found.maximum
    assert top.log_likelihood <= 0
    if any("kink" in warning for warning in found.warnings):
        return
    assert top.converged
    expected, likelihood, curvature = maximum(problem, u + 0.05)
    np.testing.assert_allclose(top.log_likelihood, problem.log_likelihood(u), atol=1e-8)
    variance = np.diag(np.linalg.inv(-curvature))
    # SciPy's maximum is off by the variance times the error of gradients by differences, about 2e-8
    assert (np.abs(u - expected) <= 1e-6 + 2e-8 * variance).all()
    np.testing.assert_allclose(top.log_likelihood, likelihood, atol=1e-8)
    errors = np.sqrt(variance)
    np.testing.assert_allclose(np.sqrt(np.diag(found.data["estimate"]["covariance"].values[0])), errors, rtol=1e-3)


def _check_there_is_none(problem, more):
    """SciPy ends far away, at the end of a range, or where the curvature is singular."""
    size = problem.features.shape[-1] + more
    found = optimize.minimize(
        lambda x: -problem.log_likelihood(x), np.full(size, 0.1), method="BFGS", options={"maxiter": 60}
    )
    values = np.linalg.eigvalsh(-hessian(problem, found.x))
    assert np.abs(found.x).max() > 8 or values[0] < 1e-3 * max(values[-1], 1.0)


def test_permuting_states_and_tasks_permutes_estimates():
    rng = np.random.default_rng(0)
    transitions, features = rng.dirichlet(np.ones(4), (4, 2)), rng.normal(size=(4, 2))
    order = np.array([2, 0, 3, 1])
    environment = mm.Environment(transitions, discount=0.9, states=["a", "b", "c", "d"])
    moved = mm.Environment(transitions[order][:, :, order], discount=0.9, states=["c", "a", "d", "b"])
    rewards = rng.normal(size=(3, 2)) @ features.T
    data = mm.simulate(environment, rewards, mm.SoftOptimal(1.0), steps=300, tasks=["ann", "bob", "cem"])
    model = mm.RewardPolicyModel(mm.GaussianReward(features), mm.SoftOptimal(1.0), mm.Separate())
    other = replace(model, reward=mm.GaussianReward(features[order]))
    table = data.to_frame().sort_values("task", ascending=False, kind="stable")
    again = mm.Demonstrations.from_frame(table, moved, task="task", state="state", action="action", episode="episode")
    one = fit(model, environment, data).estimates().set_index(["task", "parameter"])
    two = fit(other, moved, again).estimates().set_index(["task", "parameter"]).loc[one.index]
    for column in ("estimate", "standard_error"):
        np.testing.assert_allclose(one[column], two[column], rtol=1e-7)
