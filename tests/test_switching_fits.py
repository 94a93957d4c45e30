"""Fits of switching motives: one motive is the model without them; names of motives mean nothing; runs in parts."""

from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from arviz_stats import ess

import manymotives as mm
from cases import in_turn
from manymotives.fitting.checkpoints import fit_in_blocks
from manymotives.fitting.run import Run
from manymotives.inference import Progress
from manymotives.posterior.archive import packed_state, unpacked_state
from manymotives.posterior.labelling.relabelling import reordered
from places import TRIANGLE
from switching_examples import SHARINGS, quick, switching_data, switching_model

BYS = ("everywhere", "state")


@pytest.mark.parametrize(
    ("method", "sharing", "by"), in_turn((mm.Gibbs, mm.HMC, mm.Metropolis), SHARINGS, BYS, every=6)
)
def test_one_motive_is_the_model_without_switching(method, sharing, by):
    """Means and mean squares of all that both have, within 4 Monte Carlo standard errors."""
    model, (chosen, _) = switching_model(sharing, by, motives=1), switching_data(tasks=2)
    settings = quick(method, chains=4, draws=300, warmup=100, thin=1 if method is mm.HMC else 4)
    one = mm.fit(model, TRIANGLE, chosen, settings, seed=1, progress=False)
    none = mm.fit(replace(model, switching=None), TRIANGLE, chosen, settings, seed=2, progress=False)
    ours, theirs = one.data["posterior"].dataset.isel(motive=0), none.data["posterior"].dataset
    checks = {name: (ours[name], theirs[name]) for name in theirs.data_vars}
    likelihoods = [each.data["log_likelihood"].dataset["choices"] for each in (one, none)]
    checks["log-likelihood"] = likelihoods[0], likelihoods[1]
    for name, (first, second) in checks.items():
        for power in (1, 2):
            assert_alike(name, first**power, (second**power).transpose(*first.dims))
    assert (ours["motive_share"] == 1).all()
    assert (ours["switches"] == 0).all()


def assert_alike(name, first, second):
    flat = [each.transpose("chain", "draw", ...).values.reshape(*each.shape[:2], -1) for each in (first, second)]
    for place in range(flat[0].shape[2]):
        ours, theirs = flat[0][..., place], flat[1][..., place]
        error = np.sqrt(sum(part.var() / ess(part, method="mean") for part in (ours, theirs)))
        assert abs(ours.mean() - theirs.mean()) < 4 * error, (name, place, ours.mean(), theirs.mean(), error)


@pytest.fixture(scope="module")
def raw():
    """Labelled draws with motives as each draw has them, made once for each model."""
    made = {}

    def of(sharing, by):
        if (sharing, by) not in made:
            chosen, _ = switching_data(tasks=2, steps=25)
            run = Run(switching_model(sharing, by, motives=3), TRIANGLE, chosen, quick(draws=100), seed=1)
            run.advance(100, Progress(False))
            made[sharing, by] = run, run.kind.label(run.draws, run.model, run.target, chosen, 1)
        return made[sharing, by]

    return of


@pytest.mark.parametrize(("sharing", "by"), in_turn(SHARINGS, BYS, every=3))
def test_motives_permuted_give_the_same_labelled_posterior(raw, sharing, by):
    """Names of motives mean nothing: other ones in each draw, and the same result to the last bit."""
    run, data = raw(sharing, by)
    expected = run.kind.relabelled(data, run.model, TRIANGLE)["posterior"].dataset
    rng = np.random.default_rng(2)
    shape = (2, 100, 2, 3) if sharing == "Separate" else (2, 100, 3)
    dims = ("chain", "draw", "task", "motive") if sharing == "Separate" else ("chain", "draw", "motive")
    for _ in range(3):
        positions = xr.DataArray(np.argsort(rng.random(shape), axis=-1), dims=dims)
        other = data.copy()
        other["posterior"] = xr.DataTree(reordered(data["posterior"].to_dataset(), positions))
        found = run.kind.relabelled(other, run.model, TRIANGLE)["posterior"].dataset
        for name in expected.data_vars:
            np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.parametrize(
    "method", [pytest.param(each, marks=pytest.mark.long) for each in (mm.HMC, mm.Gibbs, mm.Metropolis)]
)
def test_runs_in_parts_are_runs_in_one(method, tmp_path):
    sharing, by = {mm.HMC: ("Hierarchical", "state"), mm.Gibbs: ("Separate", "state")}.get(method, ("Pooled", BYS[0]))
    model, (chosen, _) = switching_model(sharing, by), switching_data()
    whole = mm.fit(model, TRIANGLE, chosen, quick(method, draws=40), seed=3, progress=False)
    half = mm.fit(model, TRIANGLE, chosen, quick(method, draws=20), seed=3, progress=False)
    half.save(tmp_path / "half.nc")
    going_on = mm.fit(
        model, TRIANGLE, chosen, quick(method, draws=20), seed=3, progress=False, start=mm.load(tmp_path / "half.nc")
    )
    run = Run(model, TRIANGLE, chosen, quick(method, draws=40), seed=3)
    blocks = fit_in_blocks(run, tmp_path / "run.nc", progress=False, every=0.0)
    expected = whole.data["posterior"].dataset
    for found in (going_on, blocks, mm.load(tmp_path / "run.nc")):
        for name in expected.data_vars:
            np.testing.assert_array_equal(found.data["posterior"][name], expected[name], err_msg=name)
        for group in ("log_likelihood", "sample_stats"):
            for name, values in whole.data[group].data_vars.items():
                np.testing.assert_allclose(found.data[group][name], values, rtol=1e-12, err_msg=name)  # rates: averaged


@pytest.mark.parametrize(("sharing", "by"), in_turn(SHARINGS, BYS, every=3))
def test_a_saved_run_is_read_as_it_was(sharing, by, tmp_path, raw):
    run, _ = raw(sharing, by)
    posterior = run.posterior()
    posterior.save(tmp_path / "run.nc")
    again = mm.load(tmp_path / "run.nc")
    for group in ("posterior", "sample_stats", "log_likelihood", "constant_data", "prior"):
        xr.testing.assert_identical(again.data[group].to_dataset(), posterior.data[group].to_dataset())
    for kind in ("filtered", "smoothed"):
        found, expected = again.motives(kind=kind), posterior.motives(kind=kind)
        assert found.attrs == expected.attrs == {"kind": kind}
        np.testing.assert_allclose(found, expected, atol=1e-9)  # rows of transitions are made to sum to 1 again
    assert again.warnings == posterior.warnings
    assert again.model.switching.by == by


def test_a_run_does_not_go_on_with_the_same_choices_in_another_order():
    """Counts are the same, but when each was made is what tells motives apart."""
    model, (chosen, _) = switching_model(), switching_data(tasks=1, steps=30)
    posterior = mm.fit(model, TRIANGLE, chosen, quick(), seed=0, progress=False)
    lists = [(chosen.state[::-1].tolist(), chosen.action[::-1].tolist())]
    backwards = mm.Demonstrations.from_lists(lists, TRIANGLE)
    assert np.array_equal(backwards.counts, chosen.counts)
    with pytest.raises(mm.errors.InputError, match="data set"):
        mm.fit(model, TRIANGLE, backwards, quick(), seed=0, progress=False, start=posterior)


@pytest.mark.parametrize(
    ("name", "harm"),
    [
        ("motives_motive", lambda values: values + 2),
        ("motives_motive", lambda values: values[:, :-1]),
        ("motives_rows", lambda values: values * np.nan),
        ("motives_stickiness", lambda values: -values - 1),
        ("motives_concentration", None),
    ],
)
def test_a_sampler_with_impossible_motives_is_refused(name, harm):
    """A file can hold anything, and compiled loops would read beyond their arrays."""
    model, (chosen, _) = switching_model(), switching_data(tasks=1, steps=10)
    posterior = mm.fit(model, TRIANGLE, chosen, quick(draws=4, warmup=0), seed=0, progress=False)
    state = unpacked_state(posterior.data["sampler"].dataset)
    changed = {word: values for word, values in state.items() if word != name}
    data = posterior.data.copy()
    data["sampler"] = xr.DataTree(packed_state(changed | ({} if harm is None else {name: harm(state[name])})))
    with pytest.raises(mm.errors.InputError, match=f"{name if harm is None else 'motives_'}.* does not fit"):
        mm.fit(model, TRIANGLE, chosen, quick(), seed=0, progress=False, start=replace(posterior, data=data))


@pytest.mark.parametrize("by", BYS)
def test_one_task_alone_has_a_population_as_many_have(by):
    """What belongs to a motive's population has no axis of tasks, however few there are."""
    found = []
    for tasks in (1, 2):
        chosen, _ = switching_data(tasks=tasks, steps=10)
        posterior = mm.fit(
            switching_model("Hierarchical", by), TRIANGLE, chosen, quick(draws=5, warmup=0), seed=0, progress=False
        )
        found.append({name: values.dims for name, values in posterior.data["posterior"].data_vars.items()})
    assert found[0] == found[1]
    assert found[0]["reward_mean"] == ("chain", "draw", "motive", "state")
