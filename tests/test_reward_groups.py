"""Weights that have a scale in common, and a residual behind features: layout, prior density, three samplers."""

import numpy as np
import pytest
from arviz_stats import ess
from scipy import stats

import manymotives as mm
from manymotives.inference.draws import sample
from manymotives.posterior.feature_weights import population_weights

FEATURES = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, -0.5], [0.5, 0.5, 1.0], [0.0, 0.0, 1.0]])
NAMES = ["near", "far", "loud"]


def a_problem(reward, sharing=None, tasks=3):
    environment = mm.worlds.Chain(states=4, discount=0.9)
    rng = np.random.default_rng(0)
    demonstrations = mm.simulate(
        environment, rng.normal(size=(tasks, 4)), mm.SoftOptimal(inverse_temperature=1.0), steps=30, seed=1
    )
    model = mm.RewardPolicyModel(reward, mm.SoftOptimal(), sharing or mm.Hierarchical())
    return model, environment, demonstrations


def test_a_known_residual_is_one_more_feature_for_each_state():
    """To the last bit."""
    known = mm.GaussianReward(FEATURES, mean=0.0, scale=0.7, residual=0.3)
    spelt_out = mm.GaussianReward(
        np.hstack([FEATURES, np.eye(4)]), mean=0.0, scale=np.concatenate([np.full(3, 0.7), np.full(4, 0.3)])
    )
    method = mm.HMC(chains=1, draws=20, warmup=20, max_rounds=1)
    drawn = [sample(method, model.bind(*data), seed=0).tasks for model, *data in map(a_problem, (known, spelt_out))]
    assert np.array_equal(*drawn)


def test_the_prior_density_is_that_of_shared_scales():
    reward = mm.GaussianReward(
        FEATURES, mean=0.0, scale=mm.HalfNormal(2.0), groups=["where", "where", "sound"], residual=mm.HalfNormal(0.4)
    )
    model, *data = a_problem(reward)
    target = model.bind(*data)
    assert [(block.name, block.end - block.begin, block.over) for block in target.blocks] == [
        ("reward_scale", 2, "group"),
        ("residual_scale", 1, ""),
    ]
    rng = np.random.default_rng(3)
    hyper, u = rng.normal(size=(1, 1, 3)), rng.normal(size=(1, 3, 7))
    scales = np.exp(hyper[0, 0])
    each = np.concatenate([scales[[0, 0, 1]], np.full(4, scales[2])])
    expected = stats.norm.logpdf(u[0], 0.0, each).sum()
    expected += (stats.halfnorm.logpdf(scales, scale=[2.0, 2.0, 0.4]) + hyper[0, 0]).sum()  # densities of logarithms
    assert target.log_prior(hyper, u)[0] == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(target.rewards(u)[0], u[0, :, :3] @ FEATURES.T + u[0, :, 3:], rtol=1e-12)


@pytest.mark.long
def test_three_samplers_agree():
    reward = mm.GaussianReward(FEATURES, mean=0.0, groups=["where", "where", "sound"], residual=True, names=NAMES)
    model, *data = a_problem(reward)
    target, found = model.bind(*data), {}
    settings = {"chains": 4, "draws": 600, "warmup": 200}
    for method in (mm.HMC(**settings, max_rounds=1), mm.Gibbs(**settings), mm.Metropolis(**settings)):
        draws = sample(method, target, seed=2)
        values = np.concatenate([draws.hyper[:, :, 0], draws.tasks.reshape(4, 600, -1)], axis=2)
        size = np.array([ess(values[..., k], method="mean") for k in range(values.shape[2])])
        found[type(method).__name__] = values.mean((0, 1)), values.std((0, 1)) / np.sqrt(size)
    for other in ("Gibbs", "Metropolis"):
        (mean, error), (its_mean, its_error) = found["HMC"], found[other]
        assert np.abs((mean - its_mean) / np.hypot(error, its_error)).max() < 4.5  # of 24 quantities


@pytest.mark.parametrize(
    "sharing", [mm.Hierarchical(), pytest.param(mm.Pooled(), marks=pytest.mark.long), mm.Separate()]
)
def test_results_have_groups_by_name_and_reload(sharing, tmp_path):
    reward = mm.GaussianReward(FEATURES, names=NAMES, groups=["where", "where", "sound"], residual=True)
    model, environment, demonstrations = a_problem(reward, sharing)
    method = mm.HMC(chains=2, draws=20, warmup=20, max_rounds=1)
    posterior = mm.fit(model, environment, demonstrations, method, seed=0, progress=False)
    drawn = posterior.data["posterior"].dataset
    assert drawn["reward_scale"]["group"].values.tolist() == ["where", "sound"]
    assert drawn["weight"]["feature"].values.tolist() == NAMES
    assert drawn["residual_scale"].dims == (("chain", "draw", "task") if model.is_separate else ("chain", "draw"))
    posterior.save(tmp_path / "run.nc")
    again = mm.load(tmp_path / "run.nc")
    assert again.data["posterior"].dataset.equals(drawn)
    assert again.to_frame().equals(posterior.to_frame())
    assert len(posterior.summary().table)
    assert "mean weight" in str(posterior.summary())
    if model.is_hierarchical:
        scales = population_weights(posterior).set_index(["parameter", "feature"]).loc["scale"]
        of_groups = drawn["reward_scale"].mean(("chain", "draw")).values
        assert scales["mean"].tolist() == pytest.approx(of_groups[[0, 0, 1]].tolist())
        assert scales["prior_mean"].tolist() == pytest.approx([scales["prior_mean"].iloc[0]] * 3)
    assert mm.report(posterior, tmp_path / "report.html").stat().st_size
