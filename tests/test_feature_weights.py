"""Rewards made of features are told by their weights: of the population, of each task, who differs."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import manymotives as mm
from effects_examples import one_weight
from manymotives import families
from manymotives.findings import feature_weights
from manymotives.inference.diagnostics import mixing
from manymotives.models.moments import family_moments, weight_moments
from manymotives.posterior.feature_weights import population_weights
from manymotives.reporting import sections_features
from places import TRIANGLE

QUICK = mm.Metropolis(chains=2, draws=60, warmup=100, thin=2)


def fitted(model, rewards, steps, method=QUICK):
    demonstrations = mm.simulate(TRIANGLE, rewards, mm.Softmax(1.0), steps=steps, seed=1)
    return mm.fit(model, TRIANGLE, demonstrations, method, seed=0, progress=False)


FEATURES = np.array([[1.0, 0.5], [0.0, 1.0], [0.0, 0.0]])  # nothing is to be had in the last state


@pytest.fixture(scope="module")
def weighed():
    weights = np.array([[2.0, -2.0], [2.0, 2.0], [-1.0, 0.0]])
    model = mm.RewardPolicyModel(mm.GaussianReward(features=FEATURES, names=["food", "noise"]))
    return fitted(model, weights @ FEATURES.T, steps=150)


def test_weights_are_what_the_draws_say(weighed):
    found = feature_weights(weighed, draws=10**6)  # all of them
    draws = weighed.data["posterior"].dataset["weight"].values.reshape(-1, 3, 2)
    assert found.mean == pytest.approx(draws.mean(axis=0))
    assert found.sd == pytest.approx(draws.std(axis=0))
    assert found.upper == pytest.approx(np.quantile(draws, 0.975, axis=0))
    for k in range(2):
        for i in range(3):
            for j in range(3):
                assert found.above[k, i, j] == pytest.approx(np.mean(draws[:, i, k] > draws[:, j, k]))
    population = weighed.data["posterior"].dataset
    assert found.average["mean"].to_numpy() == pytest.approx(population["reward_mean"].values.mean(axis=(0, 1)))
    assert found.spread["sd"].to_numpy() == pytest.approx(population["reward_scale"].values.std(axis=(0, 1)))
    means = population["reward_mean"].values.reshape(-1, 2)
    assert found.above_average == pytest.approx((draws > means[:, None]).mean(axis=0))
    before = weighed.data["prior"].dataset["weight"].values[0]
    assert found.prior[["mean", "sd"]].to_numpy() == pytest.approx(np.array([[0.0, np.sqrt(2.0)]] * 2))  # exact
    assert found.prior["lower"].to_numpy() == pytest.approx(np.quantile(before, 0.025, axis=0))
    assert found.average[["prior_mean", "prior_sd"]].to_numpy() == pytest.approx(np.array([[0.0, 1.0]] * 2))
    assert found.spread["prior_mean"].to_numpy() == pytest.approx(stats.halfnorm().mean())
    shift = stats.ks_2samp(draws[:, 0, 0], before[:, 0]).statistic
    assert found.shift[0, 0] == pytest.approx(shift)
    assert found.mean[1, 1] > found.mean[0, 1]  # who likes noise is seen
    assert found.differ[1, 0, 1]
    first = found.differences().query("feature == 'noise'").iloc[0]
    assert first["probability"] == pytest.approx(np.max(found.above[1]))


def test_tables_have_a_row_for_each_task_and_feature(weighed):
    table = weighed.to_frame()
    assert table[["task", "feature"]].to_numpy().tolist() == [[i, f] for i in range(3) for f in ("food", "noise")]
    weight = weighed.weights
    assert weight.dims == ("chain", "draw", "task", "feature")
    assert table["mean"].to_numpy() == pytest.approx(weight.mean(("chain", "draw")).values.ravel())
    assert table["p_positive"].to_numpy() == pytest.approx((weight > 0).mean(("chain", "draw")).values.ravel())
    # means ~ Normal(0, 1) and scales ~ HalfNormal(1), whose square has the mean 1
    assert table["prior_mean"].tolist() == [0.0] * 6
    assert table["prior_sd"].to_numpy() == pytest.approx(np.sqrt(2.0))
    highest = weight.stack(sample=("chain", "draw")).argmax("task")
    assert table["p_highest"].to_numpy() == pytest.approx(
        np.concatenate([(highest == task).mean("sample").values for task in range(3)])
    )
    assert weighed.to_frame(tasks=[1])["p_highest"].tolist() == table["p_highest"][2:4].tolist()
    states = weighed.to_frame(of="state")
    squares = (FEATURES**2).sum(axis=1)  # rewards are sums of independent weights
    assert states["prior_sd"].to_numpy() == pytest.approx(np.tile(np.sqrt(2.0 * squares), 3))
    assert states.groupby("state")["p_highest"].sum().to_numpy() == pytest.approx(1.0)
    between = weighed.to_frame("task", features=["noise"]).iloc[0]
    noise = weight.sel(feature="noise")
    assert between["p_positive"] == pytest.approx(float((noise.isel(task=0) > noise.isel(task=1)).mean()))
    assert len(weighed.to_frame("feature")) == 3
    assert len(weighed.to_frame(of="state")) == len(weighed.to_frame(states=[0, 1, 2])) == 9
    assert set(weighed.to_frame("state").columns) >= {"state", "other_state"}
    rewards = weighed.rewards.transpose(..., "state").values
    assert weight.values @ FEATURES.T == pytest.approx(rewards)
    new_task = weighed.population()
    assert new_task["weight"].values @ FEATURES.T == pytest.approx(new_task["reward"].values)
    said = str(weighed.summary())
    assert "mean weight" in said
    assert "mean reward" not in said
    assert weighed.summary().weights.loc[1, "noise"] == pytest.approx(float(noise.isel(task=1).mean()))
    population = weighed.summary().population_weights
    assert population.loc[("food", "mean"), ["prior_mean", "prior_sd"]].tolist() == [0.0, 1.0]
    half_normal = stats.halfnorm()
    assert population.loc[("food", "scale"), ["prior_mean", "prior_sd"]].tolist() == pytest.approx(
        [half_normal.mean(), half_normal.std()]
    )
    assert "reference" not in population


def test_where_the_temperature_is_inferred_its_product_with_weights_is_told():
    """c·w: the same choices follow from ten times the weights with a tenth of the temperature."""
    reward = mm.GaussianReward(features=FEATURES, mean=0.0, scale=[1.0, 2.0])
    model = mm.RewardPolicyModel(reward, mm.Softmax(mm.Gamma(shape=2.0, rate=2.0)), mm.Hierarchical())
    posterior = fitted(model, np.eye(3), steps=40)
    product = posterior.weights * posterior.inverse_temperatures
    found = feature_weights(posterior, draws=10**6)
    assert found.is_product
    assert found.mean == pytest.approx(product.mean(("chain", "draw")).values)
    assert found.average["mean"].to_numpy() == pytest.approx(product.mean(("chain", "draw", "task")).values)
    canonical = posterior.to_frame(canonical=True)
    assert canonical["mean"].to_numpy() == pytest.approx(found.mean.ravel())
    # from 2 000 draws of the prior: Monte Carlo errors of a few hundredths, so two digits
    assert canonical["prior_sd"].to_numpy() == pytest.approx(canonical["prior_sd"].round(2).to_numpy(), abs=1e-12)
    assert posterior.canonical()["weight"].values == pytest.approx(product.values)
    known = population_weights(posterior).set_index(["feature", "parameter"])
    assert known.loc[(1, "scale"), ["mean", "sd"]].tolist() == [2.0, 0.0]  # given, not inferred
    assert "× inverse temperature" in str(posterior.summary())


def test_a_summary_says_once_what_is_the_same_for_all_tasks():
    reward = mm.GaussianReward(features=FEATURES, mean=0.0, scale=1.0)
    model = mm.RewardPolicyModel(reward, sharing=mm.Pooled())
    posterior = fitted(model, np.eye(3), steps=20, method=mm.NestedMonteCarlo(draws=20))
    said = repr(posterior.summary())
    assert said.count("\nall 3 tasks ") == 1
    assert list(posterior.summary().weights.index) == [0, 1, 2]  # for programs, a row for each
    assert "p_highest" not in posterior.to_frame()  # nobody's is higher than another's


def test_moments_of_priors_are_those_of_scipy():
    kinds = np.array([families.GAMMA, families.BETA, families.NORMAL, families.HALF_NORMAL, families.LOG_NORMAL])
    parameters = np.array([[2.0, 0.5], [2.0, 3.0], [1.0, 2.0], [1.5, 0.0], [0.3, 0.6]])
    found = family_moments(kinds, parameters)
    theirs = [
        stats.gamma(2.0, scale=2.0),
        stats.beta(2.0, 3.0),
        stats.norm(1.0, 2.0),
        stats.halfnorm(scale=1.5),
        stats.lognorm(0.6, scale=np.exp(0.3)),
    ]
    assert found.mean == pytest.approx([each.mean() for each in theirs])
    assert found.variance == pytest.approx([each.var() for each in theirs])


@pytest.mark.parametrize("formula", ["condition", "condition + (1 | condition)"])
def test_with_covariates_each_task_has_its_own_prior(formula):
    """Against draws of the prior: sds within four standard errors, as of normal numbers with some more for tails."""
    model, environment, choices = one_weight("Softmax", formula)
    target = model.target(environment, choices.tasks, choices.counts.astype(float))
    found = weight_moments(target)
    rng, effects = np.random.default_rng(0), target.effects
    plain = target.draw_tasks(rng, target.draw_hyper(rng, 4000))
    u = plain + np.stack([effects.offsets(effects.coefficients(*effects.draw(rng))) for _ in range(4000)])
    assert found.mean == pytest.approx(0.0)
    assert np.sqrt(found.variance[:, 0]) == pytest.approx(u[..., 0].std(axis=0), rel=6 / np.sqrt(2 * 4000))
    assert found.variance[1, 0] > found.variance[0, 0]  # the treated one has an effect on top


def test_rewards_that_are_constant_by_construction_have_not_stood_still(weighed):
    """All features are 0 in the last state, so its reward is 0 in every draw; a chain stuck in a weight is seen."""
    drawn = weighed.data["posterior"].dataset
    assert (drawn["reward"].isel(state=2) == 0).all()
    assert not any("did not move" in warning for warning in weighed.warnings)
    stuck = drawn.copy(deep=True)
    stuck["weight"].values[0, :, 1] = 0.3
    assert "did not move at all in some weights" in mixing(stuck).warnings[0]
    alone = drawn[["reward"]].copy(deep=True)
    alone["reward"].values[1] = 0.2
    assert "did not move at all in some rewards" in mixing(alone).warnings[0]


def test_a_reward_that_is_the_whole_unit_has_not_stood_still():
    """Shares of one unit among one state and action: always 1."""
    one = xr.Dataset({"reward": (("chain", "draw", "task", "state"), np.ones((2, 10, 3, 1)))})
    assert not any("did not move" in warning for warning in mixing(one).warnings)


def test_a_feature_nobody_could_show_is_named():
    """A feature that is the same everywhere changes no choice: its weight is the prior's, and a warning names it."""
    features = np.column_stack([np.ones(3), FEATURES[:, 0]])
    reward = mm.GaussianReward(features=features, names=["anywhere", "food"], mean=0.0, scale=1.0)
    model = mm.RewardPolicyModel(reward, sharing=mm.Separate())
    truth = np.array([[2.0, 0.0, 0.0]])
    posterior = fitted(model, truth, steps=150, method=mm.NestedMonteCarlo(draws=2000))
    # 0.1 prior sds are four standard errors of a mean of 2000 draws, and more of an sd
    assert any("the weight of 1 of 2 features ('anywhere')" in warning for warning in posterior.warnings)


def test_reports_of_many_features_name_those_that_matter_most(weighed, monkeypatch):
    found = feature_weights(weighed, draws=200)
    monkeypatch.setattr(sections_features, "NAMED", 1)
    monkeypatch.setattr(sections_features, "SPELT_OUT", 1)
    rows = sections_features._average(found)["rows"]
    largest = int(np.argmax(abs(found.average["mean"].to_numpy())))
    assert [row["label"] for row in rows] == [found.features[largest]]
    apart = found.differ.sum(axis=(1, 2)) // 2
    said = sections_features._differing(found)
    assert f"“{found.features[int(np.argmax(apart))]}” {apart.max()} of 3 pairs" in said
    assert "no more in any of the other 1, which the table has" in said
