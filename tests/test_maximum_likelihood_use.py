"""Maximum likelihood in use: where there is no maximum and where there is, coverage, files, other models."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner

import manymotives as mm
from cases import in_turn
from goodness_of_fit import SIGNIFICANCE
from likelihood_examples import LEFT, bandit
from manymotives.cli import app

QUICK = mm.MaximumLikelihood(draws=20)
ALONE = mm.RewardPolicyModel(LEFT, mm.Softmax(1.0), mm.Pooled())
RNG = np.random.default_rng(5)
WORLD = mm.Environment(RNG.dirichlet(np.ones(4), (4, 2)), discount=0.9, states=["a", "b", "c", "d"])
FEATURES = RNG.normal(size=(4, 2))
MODEL = mm.RewardPolicyModel(mm.GaussianReward(FEATURES, names=["food", "rest"]), mm.SoftOptimal(1.0), mm.Pooled())
DATA = mm.simulate(WORLD, (FEATURES @ [0.8, -0.5])[None], mm.SoftOptimal(1.0), steps=400, episodes=3, seed=1)


def fit(model=MODEL, environment=WORLD, data=DATA, method=QUICK, **options):
    return mm.fit(model, environment, data, method, progress=False, **options)


def refusal(*given, **options):
    with pytest.raises(mm.errors.InputError) as caught:
        fit(*given, **options)
    return str(caught.value)


# ---- no maximum, and nearly none -------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", in_turn([(0, 40), (1, 0), (40, 0), (5000, 0)], every=3))
def test_separation_is_refused(made):
    said = refusal(ALONE, *bandit({"ann": made}))
    assert "no maximum" in said
    assert "weight of 'left'" in said
    assert "separation" in said


@pytest.mark.parametrize("made", [(1, 1), (39, 1), (1, 40), (50_000, 1)])
def test_one_choice_against_the_rule_is_enough_for_a_maximum(made):
    found = fit(ALONE, *bandit({"ann": made}))
    np.testing.assert_allclose(found.estimates()["estimate"], np.log(made[0] / made[1]), atol=1e-8)
    assert found.maximum.converged


def test_everybody_without_a_maximum_is_named():
    environment, data = bandit({"ann": (3, 2), "bob": (4, 0), "cem": (0, 7), "dot": (1, 1)})
    said = refusal(replace(ALONE, sharing=mm.Separate()), environment, data)
    assert "of 'bob'" in said
    assert "'cem'" in said
    assert "'ann'" not in said


def test_partial_separation_is_refused_in_two_directions_of_three():
    """Weights of food and rest can be told; one state was always left in the same way."""
    rng = np.random.default_rng(2)
    features = np.zeros((3, 2, 2))
    features[:2, 0, 0], features[2, 0, 1] = [1.0, 2.0], 1.0
    place = mm.Environment(np.full((3, 2, 3), 1 / 3), discount=0.0)
    action = np.concatenate([(rng.random(60) < 0.4).astype(int), np.zeros(30, dtype=int)])
    frame = pd.DataFrame({"task": "ann", "state": np.repeat([0, 1, 2], 30), "action": action})
    model = replace(MODEL, reward=mm.GaussianReward(features, on="state_action", names=["food", "rest"]))
    said = refusal(model, place, mm.Demonstrations.from_frame(frame, place))
    assert "the weight of 'rest' runs to infinity" in said
    frame.loc[89, "action"] = 1
    assert fit(model, place, mm.Demonstrations.from_frame(frame, place)).maximum.converged


def test_what_choices_cannot_show_is_named():
    said = refusal(replace(MODEL, reward=mm.GaussianReward()))
    assert "one combination of the rewards of 'a', 'b', 'c', 'd'" in said
    said = refusal(replace(MODEL, reward=mm.GaussianReward(np.c_[FEATURES, FEATURES.sum(axis=1)], names=list("xyz"))))
    assert "one combination of the weights of 'x', 'y', 'z'" in said
    said = refusal(replace(MODEL, choice=mm.SoftOptimal(mm.Gamma(shape=2.0, rate=1.0))))
    assert "the inverse temperature" in said
    assert "as a number" in said
    assert "np.eye" in refusal(replace(MODEL, reward=mm.GaussianReward(on="state_action")))


def test_with_a_reference_free_rewards_have_a_maximum():
    found = fit(replace(MODEL, reward=mm.GaussianReward(np.eye(4)[:, 1:], names=["b", "c", "d"])))
    assert found.maximum.converged
    assert len(found.estimates()) == 3


@pytest.mark.long
def test_a_lapse_rate_that_wants_to_be_zero_is_refused_and_another_is_found():
    model = replace(MODEL, choice=mm.SoftOptimal(1.0, lapse=mm.Beta(alpha=1.0, beta=9.0)))
    rewards = (FEATURES @ [2.0, -1.5])[None]
    data = mm.simulate(WORLD, rewards, mm.SoftOptimal(1.0, lapse=0.3), steps=3000, seed=2)
    table = fit(model, data=data).estimates().set_index("parameter")
    assert abs(table.loc["lapse", "estimate"] - 0.3) < 4 * table.loc["lapse", "standard_error"]
    assert np.isnan(table.loc["lapse", "z"])
    counted = [
        fit_or_refuse(model, mm.simulate(WORLD, rewards, mm.SoftOptimal(1.0), steps=300, seed=k)) for k in range(8)
    ]
    assert 0 < sum("lapse rate approaches 0" in said for said in counted) < 5


def fit_or_refuse(model, data):
    try:
        return str(fit(model, data=data).estimates())
    except mm.errors.InputError as said:
        return str(said)


# ---- statistics ------------------------------------------------------------------------------------------------------


def test_intervals_cover_and_ratios_are_chi_squared():
    """500 data sets as tasks of one fit; intervals half as wide do not cover, which shows that the test can fail."""
    truth, count = np.array([0.8, -0.5]), 500
    rewards = np.repeat((FEATURES @ truth)[None], count, axis=0)
    data = mm.simulate(WORLD, rewards, mm.SoftOptimal(1.0), steps=400, seed=7)
    model = replace(MODEL, sharing=mm.Separate())
    method = mm.MaximumLikelihood(draws=2, starts=1)
    found = fit(model, data=data, method=method)
    table = found.estimates()
    expected = np.tile(truth, count)
    covered = ((table["lower"] <= expected) & (table["upper"] >= expected)).to_numpy()
    half = (table["upper"] - table["lower"]) / 4
    narrow = (np.abs(table["estimate"] - expected) <= half).to_numpy()
    for weight in (0, 1):
        assert 0.93 <= covered[weight::2].mean() <= 0.97
        assert narrow[weight::2].mean() < 0.8
    full = fit(model, data=data, method=mm.MaximumLikelihood(draws=2, starts=1)).maximum.by_task["log_likelihood"]
    pinned = replace(model, reward=mm.GaussianReward((FEATURES @ truth)[:, None]), choice=mm.SoftOptimal(1.0))
    restricted = fit(pinned, data=data, method=mm.MaximumLikelihood(draws=2, starts=1)).maximum.by_task[
        "log_likelihood"
    ]
    assert stats.kstest(2 * (full - restricted), stats.chi2(1).cdf).pvalue > SIGNIFICANCE
    assert stats.kstest(2 * (full - restricted), stats.chi2(2).cdf).pvalue < 0.001


def test_draws_are_normal_around_the_estimate():
    found = fit(method=mm.MaximumLikelihood(draws=4000))
    table, drawn = found.estimates(), found.weights.isel(task=0, chain=0).values
    error = table["standard_error"].to_numpy()
    assert (np.abs(drawn.mean(axis=0) - table["estimate"]) < 4 * error / np.sqrt(4000)).all()
    assert (np.abs(drawn.std(axis=0) / error - 1) < 4 / np.sqrt(2 * 4000)).all()
    again = fit(method=mm.MaximumLikelihood(draws=4000))
    np.testing.assert_array_equal(again.weights, found.weights)


# ---- nested models ---------------------------------------------------------------------------------------------------


def test_ratio_tests_refuse_what_is_not_nested():
    full = fit()
    smaller = fit(replace(MODEL, reward=mm.GaussianReward(FEATURES[:, :1], names=["food"])))
    test = full.likelihood_ratio(smaller)
    assert test.degrees_of_freedom == 1
    assert test.statistic > 0
    other = mm.simulate(WORLD, (FEATURES @ [0.8, -0.5])[None], mm.SoftOptimal(1.0), steps=400, seed=9)
    sampled = fit(replace(MODEL, reward=mm.GaussianReward(np.eye(4)[:, :1])))
    for larger, small, said in (
        (smaller, full, "not linear combinations"),
        (full, sampled, "not linear combinations"),
        (full, fit(data=other), "different choices"),
        (full, fit(replace(MODEL, choice=mm.Softmax(1.0))), "SoftOptimal()"),
        (full, fit(replace(MODEL, choice=mm.SoftOptimal(2.0))), "inverse temperature"),
        (full, fit(replace(MODEL, depth=3)), "depths"),
        (full, fit(replace(MODEL, discount=0.5)), "discount"),
        (full, fit(method=replace(QUICK, criterion="posterior"), model=known(MODEL)), "mode of the posterior"),
    ):
        with pytest.raises(mm.errors.InputError, match=said):
            larger.likelihood_ratio(small)


def known(model):
    """With a prior that is known."""
    return replace(model, reward=replace(model.reward, mean=0.0, scale=3.0))


# ---- models and files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reward", [mm.DirichletReward(2.0), mm.BetaReward(2.0, 2.0), mm.SmoothReward(scale=1.0, range=1.0)]
)
@pytest.mark.parametrize("rule", [mm.Softmax(3.0), mm.SoftOptimal(3.0)])
def test_modes_of_every_reward_are_found(reward, rule):
    model = mm.RewardPolicyModel(reward, rule, mm.Separate())
    found = fit(model, method=replace(QUICK, criterion="posterior"))
    assert found.maximum.converged
    table = found.estimates()
    assert (table["standard_error"] > 0).all()
    assert ((table["lower"] < table["estimate"]) & (table["estimate"] < table["upper"])).all()
    if not isinstance(reward, mm.SmoothReward):
        assert (table["lower"] > 0).all()
        assert (table["upper"] < 1).all()


def test_shares_have_a_maximum_where_it_is_inside():
    """Dirichlet shares and free rewards with a reference choose alike at their maxima, if the former lies inside."""
    rewards = np.array([[0.3, 0.2, 0.1, 0.4]])
    data = mm.simulate(WORLD, rewards, mm.SoftOptimal(6.0), steps=3000, seed=3)
    shares = fit(mm.RewardPolicyModel(mm.DirichletReward(), mm.SoftOptimal(6.0), mm.Pooled()), data=data)
    table = shares.estimates()
    np.testing.assert_allclose(table["estimate"].sum(), 1.0)
    assert (np.abs(table["estimate"] - rewards[0]) < 4 * table["standard_error"]).all()
    free = fit(mm.RewardPolicyModel(mm.GaussianReward(np.eye(4)[:, 1:]), mm.SoftOptimal(6.0), mm.Pooled()), data=data)
    np.testing.assert_allclose(shares.maximum.log_likelihood, free.maximum.log_likelihood, atol=1e-7)
    assert shares.maximum.num_parameters == free.maximum.num_parameters == 3


def test_a_run_can_be_saved_and_read_again(tmp_path):
    found = fit()
    found.save(tmp_path / "run.nc")
    again = mm.load(tmp_path / "run.nc")
    pd.testing.assert_frame_equal(again.estimates(), found.estimates())
    assert again.maximum.log_likelihood == found.maximum.log_likelihood
    assert again.warnings == found.warnings
    assert "estimates by maximum likelihood" in found.warnings[0]
    assert not found.policies().isnull().any()
    assert found.likelihood_ratio(fit(replace(MODEL, reward=mm.GaussianReward(FEATURES[:, 1:])))).p < 1


def test_several_environments_share_weights():
    other = mm.Environment(RNG.dirichlet(np.ones(4), (4, 2)), discount=0.9, states=list("abcd"))
    both = mm.Environments({"first": WORLD, "second": other})
    model = replace(MODEL, reward=mm.GaussianReward(np.eye(4)[:, 1:], names=list("bcd")))
    frames = [
        mm.simulate(place, np.array([[0.0, 1.0, -1.0, 0.5]]), mm.SoftOptimal(1.0), steps=500, seed=k)
        .to_frame()
        .assign(environment=name)
        for k, (name, place) in enumerate({"first": WORLD, "second": other}.items())
    ]
    data = mm.Demonstrations.from_frame(pd.concat(frames), both)
    model = replace(MODEL, reward=mm.GaussianReward({name: np.eye(4)[:, 1:] for name in ("first", "second")}))
    table = fit(model, both, data).estimates()
    assert (np.abs(table["estimate"] - [1.0, -1.0, 0.5]) < 4 * table["standard_error"]).all()


def test_the_command_line_estimates(tmp_path):
    frame = DATA.to_frame()
    frame["task"] = np.where(frame["episode"] > 0, "ann", "bob")
    frame.to_csv(tmp_path / "choices.csv", index=False)
    rows = [
        (s, a, t, WORLD.tensor[i, j, k])
        for i, s in enumerate(WORLD.states)
        for j, a in enumerate(WORLD.actions)
        for k, t in enumerate(WORLD.states)
    ]
    pd.DataFrame(rows, columns=["state", "action", "next_state", "probability"]).to_csv(
        tmp_path / "world.csv", index=False
    )
    pd.DataFrame(FEATURES, columns=["food", "rest"]).assign(state=WORLD.states).to_csv(
        tmp_path / "features.csv", index=False
    )
    given = ["fit", str(tmp_path / "choices.csv"), "--environment", str(tmp_path / "world.csv"), "--discount", "0.9"]
    given += ["--features", str(tmp_path / "features.csv"), "--out", str(tmp_path / "run.nc")]
    told = CliRunner().invoke(app, [*given, "--model", "rp", "--method", "maximum-likelihood"])
    assert told.exit_code == 0, told.output
    assert "food" in told.output
    assert mm.load(tmp_path / "run.nc").maximum.converged
    told = CliRunner().invoke(app, [*given, "--force", "--method", "maximum-likelihood"])
    assert told.exit_code == 2
    assert "--method empirical-bayes maximises the marginal likelihood" in told.output


def test_a_profile_of_a_weight_is_that_of_the_likelihood():
    """Its largest value is the maximum, its curvature there the standard error, and nothing is above the maximum."""
    found = fit()
    row = found.estimates().set_index("parameter").loc["food"]
    grid = row["estimate"] + row["standard_error"] * np.array([-4.0, -1.0, -0.1, 0.0, 0.1, 1.0, 4.0])
    profile = mm.profile(MODEL, WORLD, DATA, "weight:food", grid, criterion="likelihood", progress=False)
    table = profile.table
    assert table["converged"].all()
    np.testing.assert_allclose(table["log_likelihood"].max(), found.maximum.log_likelihood, atol=1e-9)
    second = table["log_likelihood"].iloc[[2, 4]].sum() - 2 * table["log_likelihood"].iloc[3]
    np.testing.assert_allclose(second, -0.01, rtol=0.01)
    assert profile.identified


def test_a_summary_leaves_out_priors_that_did_not_count():
    assert "reward_scale" not in str(fit().summary())
    assert "reward_scale" in fit().data["posterior"]
