"""A run file holds what was fitted: every choice comes back in its place, with its names."""

import hashlib
import json
from dataclasses import fields, replace

import h5py
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import manymotives as mm
from cases import in_turn
from manymotives.fitting.fit import method_of
from manymotives.io.netcdf import read_tree, write_tree
from manymotives.io.records import record_of
from manymotives.posterior.archive import packed_state, unpacked_state

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


def test_a_file_from_before_max_rounds_had_its_name_loads(tmp_path):
    method = mm.HMC(chains=1, draws=5, warmup=5, thin=1, max_rounds=3)
    posterior = mm.fit(mm.RewardPolicyModel(), CHAIN, CHOICES, method, progress=False)
    record = json.loads(posterior.data.attrs["method"])
    record["patience"] = record.pop("max_rounds")
    posterior.data.attrs["method"] = json.dumps(record)
    posterior.save(tmp_path / "run.nc")
    loaded = mm.load(tmp_path / "run.nc")
    assert method_of(loaded) == method
    longer = mm.fit(loaded.model, CHAIN, CHOICES, method, progress=False, start=loaded)
    assert longer.rewards.sizes["draw"] == posterior.rewards.sizes["draw"] + 5


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


def test_trees_of_any_kind_come_back_and_other_programs_read_the_same(tmp_path):
    words, times = np.array(["", "größer", "\U0001f600"]), np.array(["2020-01-01", "2021-02-03"], "datetime64[ns]")
    columns = {"words": ("c", words), "flags": ("c", words != ""), "odd": ("c", [np.nan, -0.0, np.inf])}
    none = {"none": (("r", "c"), np.empty((0, 3))), "text": ((), "one"), "small": ("c", np.arange(3, dtype=np.uint8))}
    coordinates = {"c": ["a", "b", "c"], "number": ("c", [1, 2, 3]), "t": times}
    groups = {
        "/": xr.Dataset(attrs={"word": "ü", "number": 3, "empty": ""}),
        "/full": xr.Dataset(columns | none, coordinates, {"note": "x"}),
        "/empty": xr.Dataset({"words": ("q", np.array([], dtype=str))}),
    }
    tree = xr.DataTree.from_dict(groups)
    packed = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
    write_tree(tree, tmp_path / "tree.nc", {"/full": {"small": packed, "none": packed}})
    found, has_checksum = read_tree(tmp_path / "tree.nc")
    assert has_checksum
    assert found.identical(tree)
    with xr.open_datatree(tmp_path / "tree.nc", engine="h5netcdf") as stored:
        assert stored.load().equals(tree)
        for name, given in tree["full"].dataset.variables.items():
            assert found["full"].dataset[name].dtype == stored["full"].dataset[name].dtype == given.dtype
    with pytest.raises(ValueError, match="'x' is a dimension, and a variable with others"):
        write_tree(
            xr.DataTree.from_dict({"/a": xr.Dataset({"x": ("a", [1]), "y": ("x", [1, 2])})}), tmp_path / "odd.nc", {}
        )


# ---- files that are not as they were written ------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of a good run file."""
    path = tmp_path_factory.mktemp("sound") / "run.nc"
    mm.fit(mm.RewardPolicyModel(), CHAIN, CHOICES, QUICK, progress=False).save(path)
    return path.read_bytes()


@pytest.fixture(scope="module")
def unsigned(sound, tmp_path_factory):
    """The same without a checksum."""
    folder = tmp_path_factory.mktemp("unsigned")
    loaded(folder, sound).data.to_netcdf(folder / "unsigned.nc", engine="h5netcdf")
    return (folder / "unsigned.nc").read_bytes()


def loaded(folder, content):
    (folder / "run.nc").write_bytes(content)
    return mm.load(folder / "run.nc")


def test_no_bit_can_change_without_being_noticed(sound, tmp_path):
    rng = np.random.default_rng(0)
    for place in rng.integers(len(sound), size=63):
        content = bytearray(sound)
        content[place] ^= 1 << int(rng.integers(8))
        with pytest.raises(mm.errors.InputError, match=r"is damaged, or|is not a posterior"):
            loaded(tmp_path, content)


def test_no_block_can_be_lost_without_being_noticed(sound, tmp_path):
    rng = np.random.default_rng(0)
    for width in (16, 512, 4096):
        for place in rng.integers(len(sound) - width, size=30):
            content = bytearray(sound)
            content[place : place + width] = bytes(width)
            if content != sound:
                with pytest.raises(mm.errors.InputError, match=r"is damaged, or|is not a posterior"):
                    loaded(tmp_path, content)


@pytest.mark.parametrize("length", [0, 4, 100, 5_000, 100_000, -1, -138, -139, -5_000])
def test_a_file_that_was_cut_short_is_refused(length, sound, tmp_path):
    with pytest.raises(mm.errors.InputError, match=r"is damaged, or|is not a posterior"):
        loaded(tmp_path, sound[:length])


@pytest.mark.parametrize("change", ["an attribute", "a number", "a group"])
def test_a_file_changed_by_another_program_is_refused(change, sound, tmp_path):
    path = tmp_path / "run.nc"
    path.write_bytes(sound)
    if change == "a group":
        xr.Dataset({"mine": 1}).to_netcdf(path, mode="a", group="mine", engine="h5netcdf")
    else:
        with h5py.File(path, "r+") as file:
            if change == "a number":
                file["posterior/reward"][0, 0, 0, 0] = 0.5
            else:
                file.attrs["note"] = "a good run"
    with pytest.raises(mm.errors.InputError, match="was changed after it was written"):
        mm.load(path)


def test_other_programs_read_run_files(sound, tmp_path):
    posterior = loaded(tmp_path, sound)
    with xr.open_datatree(tmp_path / "run.nc") as stored:
        assert stored["posterior"].dataset.identical(posterior.data["posterior"].dataset)
        assert stored.attrs.pop("checksum").startswith("manymotives checksum")
        assert stored.attrs.keys() == posterior.data.attrs.keys()


def test_a_file_of_version_0_1_has_no_checksum_and_loads_with_a_warning(sound, tmp_path):
    posterior = loaded(tmp_path, sound)
    posterior.data.to_netcdf(tmp_path / "old.nc", engine="h5netcdf")
    old = mm.load(tmp_path / "old.nc")
    assert old.data["posterior"].dataset.identical(posterior.data["posterior"].dataset)
    assert old.warnings[1:] == posterior.warnings
    assert "without a checksum" in old.warnings[0]
    old.save(tmp_path / "new.nc")
    assert mm.load(tmp_path / "new.nc").warnings == old.warnings


NOT_WRITTEN = {
    "huge": "declares 80,000,000,000,000 bytes",
    "link": "is a link to another place or file",
    "model": "made by a method that cannot fit a PolicyOptimalityModel",
    "missing": "it has no variable 'reward' in 'posterior'",
    "index": "is damaged, or is not a posterior",
    "texts": "its texts are damaged",
}


@pytest.mark.parametrize(("old", "harm"), in_turn([True, False], NOT_WRITTEN, every=2))  # old: without a checksum
def test_what_no_fit_wrote_is_refused_before_it_is_read(old, harm, unsigned, tmp_path):
    path = tmp_path / "run.nc"
    path.write_bytes(unsigned)
    with h5py.File(path, "r+") as file:
        if harm == "huge":
            scale = file["posterior/chain"]
            del file["posterior/reward"]
            file.create_dataset("posterior/reward", shape=(10**13,), dtype="f8").dims[0].attach_scale(scale)
        elif harm == "link":
            del file["posterior/reward"]
            file["posterior/reward"] = h5py.ExternalLink("other.nc", "/posterior/reward")
        elif harm == "model":
            file.attrs["model"] = json.dumps(record_of(mm.PolicyOptimalityModel()))
        elif harm == "missing":
            del file["posterior/reward"]
        elif harm == "index":
            file["constant_data/transition_next_state"][3] = 10**9  # SciPy would write there
    if harm == "texts":  # an entry of no length: HDF5 2.0 looks for the next one forever
        content = bytearray(path.read_bytes())
        begin = content.index(b"GCOL") + 16
        content[begin : begin + 64] = bytes(64)
        path.write_bytes(content)
    if not old:
        content = path.read_bytes()
        digest = hashlib.blake2b(content, digest_size=32).hexdigest()
        line = f"\nmanymotives checksum of the {len(content):020d} bytes before this line: {digest}\n"
        path.write_bytes(content + line.encode())
    with pytest.raises(mm.errors.InputError, match=NOT_WRITTEN[harm]):
        mm.load(path)
