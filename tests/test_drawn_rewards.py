"""Draws of rewards made of features, where they are too many to be kept: computed from weights when they are read."""

import numpy as np
import pytest
import xarray as xr

import manymotives as mm
from manymotives.posterior.archive import is_computed
from manymotives.posterior.labelling import drawn_rewards
from places import TRIANGLE

QUICK = mm.Metropolis(chains=2, draws=30, warmup=50, thin=1)
ON_STATES = mm.GaussianReward(features=np.array([[1.0, 0.5], [0.0, 1.0], [0.0, 0.0]]), names=["food", "noise"])


def on_pairs():
    features = np.zeros((*TRIANGLE.available.shape, 2))
    features[..., 0] = np.arange(TRIANGLE.num_states)[:, None]
    features[:, 1:, 1] = 1.0
    return mm.GaussianReward(features=np.where(TRIANGLE.available[..., None], features, 0.0), on="state_action")


@pytest.fixture(scope="module", params=["states", "pairs", "pooled"])
def both(request):
    """The same draws, with rewards that are kept and rewards that are computed."""
    reward = on_pairs() if request.param == "pairs" else ON_STATES
    model = mm.RewardPolicyModel(reward, sharing=mm.Pooled() if request.param == "pooled" else mm.Hierarchical())
    data = mm.simulate(TRIANGLE, np.eye(3)[:2], mm.Softmax(1.0), steps=40, seed=1)
    kept = mm.fit(model, TRIANGLE, data, QUICK, seed=0, progress=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawn_rewards, "MOST_KEPT", 0)
        patch.setattr(drawn_rewards, "AT_ONCE", 150)  # a state or two at a time
        yield kept, mm.fit(model, TRIANGLE, data, QUICK, seed=0, progress=False)


def test_they_are_those_that_would_have_been_kept(both):
    kept, computed = both
    assert is_computed(computed.rewards)
    assert not is_computed(kept.rewards)
    xr.testing.assert_allclose(computed.rewards.compute(), kept.rewards)
    xr.testing.assert_allclose(computed.mean_reward, kept.mean_reward)
    assert not is_computed(computed.mean_reward)
    assert np.isnan(computed.rewards.values).any() == np.isnan(kept.rewards.values).any()
    assert computed.warnings == kept.warnings
    assert str(computed.summary()) == str(kept.summary())
    np.testing.assert_allclose(computed.canonical()["reward"].values, kept.canonical()["reward"].values, atol=1e-9)


def test_files_have_the_weights_and_rewards_are_computed_again(both, tmp_path):
    _, computed = both
    computed.save(tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as stored:
        assert "reward" not in stored["posterior"]
        assert "weight" in stored["posterior"]
    again = mm.load(tmp_path / "run.nc")
    assert is_computed(again.rewards)
    xr.testing.assert_identical(again.rewards.compute(), computed.rewards.compute())
    assert "reward" in computed.data["posterior"]  # saving took nothing away
    longer = mm.fit(again.model, TRIANGLE, again.demonstrations, QUICK, start=again, progress=False)
    assert longer.rewards.sizes["draw"] == 60
    assert is_computed(longer.rewards)
