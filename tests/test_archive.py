"""A run file holds what was fitted: every choice comes back in its place, with its names."""

from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import manymotives as mm
from manymotives.archive import packed_state, unpacked_state

CHAIN = mm.worlds.Chain(states=3)
CHOICES = mm.simulate(CHAIN, np.eye(3)[[0, 1]], mm.Softmax(4.0), steps=20, episodes=2, tasks=["ann", "bob"])
QUICK = mm.Metropolis(chains=1, draws=5, warmup=5, thin=1)


def kept(demonstrations, folder, model=None):
    posterior = mm.fit(model or mm.RewardPolicyModel(), CHAIN, demonstrations, QUICK, progress=False)
    posterior.save(folder / "run.nc")
    return posterior.demonstrations, mm.load(folder / "run.nc").demonstrations


@pytest.mark.parametrize(
    "step",
    [
        lambda number: number * 10**12 - 5,
        lambda number: 0.37 * number,
        lambda number: pd.Timestamp("2021-03-04") + pd.to_timedelta(number, "s"),
        lambda number: pd.to_timedelta(number, "ms"),
    ],
    ids=["whole", "broken", "times", "durations"],
)
def test_choices_come_back_from_a_file(step, tmp_path):
    frame = CHOICES.to_frame().assign(step=lambda rows: step(rows["step"]))
    given = mm.Demonstrations.from_frame(frame, CHAIN, episode="episode", step="step")
    for found in kept(given, tmp_path):
        pd.testing.assert_frame_equal(found.to_frame(), given.to_frame())
        assert np.array_equal(found.follows, given.follows)
        assert (found.tasks, found.states, found.actions) == (given.tasks, given.states, given.actions)
        assert (found.episodes, found.warnings) == (given.episodes, given.warnings)
        assert np.array_equal(found.counts, given.counts)


def test_times_with_a_zone_are_kept_in_greenwich(tmp_path):
    begin = pd.Timestamp("2021-03-04", tz="Europe/Berlin")
    frame = CHOICES.to_frame().assign(step=lambda rows: begin + pd.to_timedelta(rows["step"], "s"))
    _, found = kept(mm.Demonstrations.from_frame(frame, CHAIN, episode="episode", step="step"), tmp_path)
    assert found.step[0] == np.datetime64("2021-03-03T23:00:00")
    assert np.array_equal(found.state, CHOICES.state)


def test_pooled_choices_keep_their_tasks(tmp_path):
    _, found = kept(replace(CHOICES, warnings=("beware",)), tmp_path, mm.RewardPolicyModel(sharing=mm.Pooled()))
    assert found.tasks == ("ann", "bob")
    assert found.warnings == ("beware",)
    assert np.array_equal(found.task, CHOICES.task)


def test_an_estimated_environment_of_pairs_comes_back_with_its_mark(tmp_path):
    place, choices = mm.estimate_environment(CHOICES, discount=0.9)
    place = place.with_memory()
    posterior = mm.fit(mm.RewardPolicyModel(), place, choices.with_memory(place), QUICK, progress=False)
    posterior.save(tmp_path / "run.nc")
    loaded = mm.load(tmp_path / "run.nc")
    assert "estimated from these data" in loaded.environment.warnings[0]
    assert_same(loaded.environment, place)
    assert (loaded.demonstrations.transition_counts() != posterior.demonstrations.transition_counts()).nnz == 0


def test_an_environment_comes_back_with_its_own_reward(tmp_path):
    assert CHAIN.reward is not None
    posterior = mm.fit(mm.RewardPolicyModel(), CHAIN, CHOICES, QUICK, progress=False)
    posterior.save(tmp_path / "run.nc")
    assert_same(mm.load(tmp_path / "run.nc").environment, CHAIN)


def assert_same(found, given):
    for field in fields(mm.Environment):
        one, other = getattr(found, field.name), getattr(given, field.name)
        if isinstance(other, np.ndarray):
            np.testing.assert_allclose(one, other, rtol=1e-15, err_msg=field.name)
        else:
            assert one == other, field.name


def test_where_a_sampler_stands_comes_back_to_the_bit(tmp_path):
    state = {
        "numbers": np.array([[np.nan, -0.0], [np.inf, 1e-310]]),
        "whole": np.arange(3),
        "flags": np.array([[True], [False]]),
        "words": np.array(["{}", "größer"]),
        "alone": np.array(7),
        "nothing": np.empty((2, 0)),
    }
    packed_state(state).to_netcdf(tmp_path / "state.nc", engine="h5netcdf")
    apart = xr.Dataset({name: ([f"{name}_{k}" for k in range(v.ndim)], v) for name, v in state.items()})
    for found in (unpacked_state(xr.load_dataset(tmp_path / "state.nc", engine="h5netcdf")), unpacked_state(apart)):
        assert found.keys() == state.keys()
        for name, values in state.items():
            assert found[name].dtype == values.dtype
            assert found[name].shape == values.shape
            assert found[name].tobytes() == values.tobytes()
    assert unpacked_state(packed_state({})) == {}
