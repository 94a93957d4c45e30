"""Posteriors of tasks that share motives: the number, who shares which, one partition, a newcomer; files, pictures."""

import json
from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.special import logsumexp

import manymotives as mm
from manymotives.errors import InputError
from manymotives.inference.checks import check_state
from manymotives.inference.diagnostics import mixing
from manymotives.inference.draws import sample
from manymotives.inference.mixture.evidences import Evidences, set_of
from manymotives.io.netcdf import write_tree
from manymotives.models.mixture import PartitionPrior, first_seen
from manymotives.posterior import MixturePosterior
from manymotives.posterior.archive import packed_state, unpacked_state
from manymotives.posterior.labelling.mixture import judged, prior_numbers
from manymotives.posterior.partitions import closest_partition, listed, partition_of, together_of
from places import TRIANGLE
from test_report import Page

WANTED = np.array([[3.0, 0.0, 0.0], [0.0, 0.0, 3.0]])
NAMES = ("ann", "bob", "cem", "dee", "eva", "<b>fay</b>")
DATA = replace(mm.simulate(TRIANGLE, WANTED[np.arange(6) % 2], mm.Softmax(2.0), steps=60, seed=0), tasks=NAMES)
SHORT = mm.HMC(chains=2, draws=60, warmup=40, max_rounds=1)
TINY = replace(SHORT, draws=10, warmup=10)


def mixture(**sharing):
    return mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=2.0), mm.Softmax(2.0), mm.Mixture(**sharing))


@pytest.fixture(scope="module")
def fitted():
    return mm.fit(mixture(), TRIANGLE, DATA, SHORT, progress=False)


@pytest.fixture(scope="module")
def spread():
    return mm.fit(mixture(spread=mm.HalfNormal(scale=0.5)), TRIANGLE, DATA, SHORT, progress=False)


def partitions(tasks):
    """All of them, each numbered as its parts appear."""
    found = {tuple(first_seen(np.array(each)).tolist()) for each in product(range(tasks), repeat=tasks)}
    return np.array(sorted(found))


def variation_of_information(one, other):
    """H(a | b) + H(b | a) in nats, by plain loops."""
    total = 0.0
    for a, b in product(set(one), set(other)):
        both = np.mean((one == a) & (other == b))
        if both:
            total -= both * (np.log(both / np.mean(one == a)) + np.log(both / np.mean(other == b)))
    return total


@cache
def distances(tasks):
    """All partitions, and how far each two are apart."""
    every = partitions(tasks)
    return every, np.array([[variation_of_information(a, b) for b in every] for a in every])


# ---- the partition that is closest to all draws


@pytest.mark.parametrize("tasks", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("seed", range(4))
def test_the_closest_partition_is_that_of_enumeration(tasks, seed):
    rng, (every, distance) = np.random.default_rng(seed), distances(tasks)
    chance = rng.dirichlet(np.full(len(every), (0.05, 0.2, 1.0, 5.0)[seed]))
    drawn = rng.choice(len(every), size=40, p=chance)
    expected = distance[:, drawn].mean(axis=1)
    found, least = closest_partition(every[drawn])
    assert np.isclose(least, expected.min(), atol=1e-12)
    assert np.isclose(expected[(every == found).all(axis=1)], expected.min(), atol=1e-12)


def noisy(tasks=30, motives=3, draws=80, share=0.2, seed=0):
    """Draws of a partition in which some tasks go astray; and the partition."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(motives, size=tasks)
    astray = rng.random((draws, tasks)) < share
    return np.stack(
        [first_seen(row) for row in np.where(astray, rng.integers(motives, size=astray.shape), truth)]
    ), truth


def test_a_partition_between_all_draws_is_found_though_none_of_them_is_it():
    labels, truth = noisy(share=0.3)
    assert not (labels == first_seen(truth)).all(axis=1).any()
    found = partition_of(labels, pd.RangeIndex(30), together_of(labels))
    assert (first_seen(found.groups.to_numpy()) == first_seen(truth)).all()
    assert found.probability == 0.0
    assert found.expected_distance > 0.3
    sizes = found.table["tasks"].tolist()
    assert sizes == sorted(np.bincount(truth).tolist(), reverse=True)
    assert sorted(sum(found.members.values(), ())) == list(range(30))


def test_names_with_commas_are_told_apart():
    assert listed(["ann", "bob"]) == "ann, bob"
    assert listed(["ann, episode 0", "bob"]) == "ann, episode 0; bob"


def test_permuting_tasks_permutes_the_partition():
    labels, _ = noisy()
    order = np.random.default_rng(1).permutation(30)
    moved = np.stack([first_seen(row) for row in labels[:, order]])
    here, there = closest_partition(labels), closest_partition(moved)
    assert (first_seen(here[0][order]) == there[0]).all()
    assert np.isclose(here[1], there[1])


def test_together_is_the_share_of_draws():
    labels, _ = noisy(tasks=5, draws=20)
    plain = np.mean([[[row[a] == row[b] for b in range(5)] for a in range(5)] for row in labels], axis=0)
    assert np.allclose(together_of(labels), plain, atol=1e-6)


# ---- what a fit returns


def test_the_number_and_who_shares_which(fitted):
    assert isinstance(fitted, MixturePosterior)
    number, together, found = fitted.number_of_motives, fitted.together, fitted.partition
    assert number.index.name == "motives"
    assert np.isclose(number.sum(), 1.0)
    assert number.idxmax() == 2
    assert together.dims == ("task", "other_task")
    assert (np.diag(together) == 1).all()
    assert np.array_equal(together, together.T)
    assert found.members == {1: ("ann", "cem", "eva"), 2: ("bob", "dee", "<b>fay</b>")}
    exact = (fitted.labels == [0, 1, 0, 1, 0, 1]).all(axis=1).mean()
    assert np.isclose(found.probability, exact)
    assert "2 motives of 6 tasks" in repr(found)
    said = repr(fitted.summary())
    assert (
        said.index("motives: 2") < said.index("how many motives") < said.index("who shares") < said.index("mean reward")
    )
    assert "motive[" not in said
    assert "number_of_motives" in fitted.summary().table.index
    assert "how many motives" not in repr(fitted.summary().table)


def test_what_motives_want(fitted):
    table = fitted.motives_table(canonical=False)
    rewards = fitted.rewards.stack(sample=("chain", "draw")).sel(task=["ann", "cem", "eva"]).mean("task")
    first = table[table["motive"] == 1]
    assert np.allclose(first["mean"], rewards.mean("sample"))
    assert np.allclose(first["upper"], rewards.quantile(0.975, "sample"))
    assert table[table["mean"] > 1][["motive", "state"]].to_numpy().tolist() == [[1, 0], [2, 2]]
    assert (table["tasks"] == 3).all()
    apart = fitted.motives_table("motive").set_index("state")
    assert apart.loc[0, "p_positive"] == 1.0
    assert apart.loc[2, "p_positive"] == 0.0


def test_the_log_density_is_the_samplers():
    model = mixture(spread=mm.HalfNormal(scale=0.5))
    drawn = sample(TINY, model.bind(TRIANGLE, DATA), seed=0)
    posterior = mm.fit(model, TRIANGLE, DATA, TINY, progress=False)
    assert np.array_equal(posterior.data["sample_stats"]["lp"], drawn.mixture.lp)
    data = posterior.data["posterior"].dataset
    assert np.array_equal(data["motive_reward"], drawn.mixture.centre)
    assert np.array_equal(data["spread"], drawn.mixture.spread)
    assert posterior.data["prior"]["reward"].std() > 2.0  # of a motive, and of a task around it


# ---- a new task


@pytest.mark.parametrize(
    "motives", [mm.FiniteNumber(mean=2.5, concentration=0.7), mm.DirichletProcess(concentration=1.5), 3, 2]
)
def test_a_newcomer_by_the_priors_of_one_task_more(fitted, motives):
    """p(z, new task's motive) / p(z), draw by draw."""
    posterior = replace(fitted, model=mixture(motives=motives))
    labels = posterior.labels[posterior.labels.max(axis=1) < (motives if isinstance(motives, int) else 9)]
    prior, expected = PartitionPrior(motives, 7), np.zeros((len(labels), 3))
    alpha = 1.5
    for n, label in enumerate(labels):
        sizes = np.bincount(label)
        ways = [prior.log_prior(sizes + np.eye(len(sizes), dtype=int)[k], alpha) for k in range(len(sizes))]
        ways.append(prior.log_prior([*sizes, 1], alpha))
        chance = np.exp(np.array(ways) - logsumexp(ways))
        for k in range(len(sizes)):
            for group in (0, 1):
                expected[n, group] += chance[k] * np.mean(np.arange(6)[label == k] % 2 == group)
        expected[n, 2] = chance[-1]
    posterior.__dict__["labels"] = labels
    found = posterior.newcomer()
    assert found.index.tolist() == [1, 2, "new"]
    assert np.allclose(found, expected.mean(axis=0))


def test_a_population_of_known_motives_and_new_ones(fitted, spread):
    made = fitted.population(seed=3)
    known = (made["reward"] == fitted.rewards).all("state").any("task")
    assert np.array_equal(known, ~made["is_new"])
    share = float(fitted.newcomer()["new"])
    assert abs(float(made["is_new"].mean()) - share) < 4 * np.sqrt(share / 120)
    made = spread.population(seed=3)
    nearest = abs(made["reward"] - spread.data["posterior"]["motive_reward"]).max("state").min("task")
    assert 0 < float(nearest.where(~made["is_new"]).mean()) < 1.5


@pytest.mark.parametrize("motives", [mm.FiniteNumber(), mm.DirichletProcess(concentration=2.0), 2])
def test_numbers_before_the_data(motives):
    prior, every = PartitionPrior(motives, 4), partitions(4)
    exact = np.zeros(5)
    for each in every:
        sizes = np.bincount(each)
        exact[len(sizes)] += np.exp(prior.log_prior(sizes, 2.0))
    drawn = prior_numbers(prior, np.random.default_rng(0), 4000)
    share = np.bincount(drawn, minlength=5) / 4000
    assert (abs(share - exact) <= 4 * np.sqrt(exact * (1 - exact) / 4000)).all()


# ---- have the chains mixed?


def chains(motive):
    """Draws in which nothing but the motives of three tasks varies."""
    motive = np.asarray(motive)
    noise = np.random.default_rng(0).normal(size=motive.shape[:2])
    return judged(
        xr.Dataset(
            {
                "motive": (("chain", "draw", "task"), motive),
                "number_of_motives": (("chain", "draw"), motive.max(axis=2) + 1),
            },
            coords={"task": ["a", "b", "c"]},
        ),
        noise,
    )


def test_chains_are_judged_by_pairs_not_by_labels():
    stuck = np.zeros((4, 200, 3), dtype=int)
    stuck[:2, :, 1], stuck[2:, :, 2] = 1, 1  # two motives everywhere, but of other tasks
    watched = chains(stuck)
    assert set(watched.data_vars) == {"number_of_motives", "lp", "same_motive"}
    assert watched["pair"].values.tolist() == ["a and b", "a and c"]  # b and c never share one
    found = mixing(watched)
    assert any("disagree" in said and "same motive" in said for said in found.warnings)


def test_what_is_constant_in_all_chains_is_fine():
    together = chains(np.zeros((4, 200, 3), dtype=int))
    assert set(together.data_vars) == {"number_of_motives", "lp"}
    assert mixing(together).warnings == ()


def test_a_number_in_which_chains_stand_still_is_no_agreement():
    stuck = np.zeros((4, 200, 3), dtype=int)
    stuck[0, :, 1:] = 1
    stuck[1] = [0, 1, 2]
    assert any("R-hat" in said for said in mixing(chains(stuck)).warnings)


def test_at_most_500_pairs_are_watched():
    labels, _ = noisy(tasks=60, draws=40)
    drawn = xr.Dataset(
        {"motive": (("chain", "draw", "task"), labels[None])}, coords={"task": [f"t{n}" for n in range(60)]}
    )
    assert judged(drawn, np.zeros((1, 40))).sizes["pair"] == 500


def test_no_clear_number_is_said(fitted):
    tree = xr.DataTree.from_dict({name: node.to_dataset() for name, node in fitted.data.children.items()})
    drawn = tree["posterior"].to_dataset()
    tree["posterior"] = xr.DataTree(
        drawn.assign(number_of_motives=drawn["number_of_motives"] * 0 + drawn["draw"] % 3 + 1)
    )
    said = MixturePosterior.warnings_about(tree, mixture(motives=mm.DirichletProcess()), ~TRIANGLE.is_terminal)
    assert any(
        "the number of motives is uncertain: the most probable, 1, has a probability of 0.33" in each for each in said
    )
    assert any("does not estimate a finite number" in each for each in said)


# ---- files


@pytest.mark.parametrize("spread", [None, pytest.param(mm.HalfNormal(scale=0.5), marks=pytest.mark.long)])
def test_a_run_cut_in_two_is_the_run(spread, tmp_path):
    model = mixture(spread=spread)
    posterior = mm.fit(model, TRIANGLE, DATA, TINY, progress=False)
    posterior.save(tmp_path / "run.nc")
    again = mm.load(tmp_path / "run.nc")
    assert isinstance(again, MixturePosterior)
    assert np.array_equal(again.labels, posterior.labels)
    longer = mm.fit(model, TRIANGLE, DATA, TINY, progress=False, start=again)
    whole = mm.fit(model, TRIANGLE, DATA, replace(TINY, draws=20), progress=False)
    for group in ("posterior", "log_likelihood"):
        assert longer.data[group].dataset.equals(whole.data[group].dataset)
    assert np.array_equal(longer.data["sample_stats"]["lp"], whole.data["sample_stats"]["lp"])


def test_sets_that_another_chain_has_met_are_not_this_chains():
    """Which of them are shared depends on who is faster, and none are after a resume: draws may not depend on it."""
    made = SimpleNamespace(shared={}, run=lambda rng, members: f"a run of {members.tolist()}")
    one, other, tasks = Evidences(made, 0), Evidences(made, 2), set_of([0, 2])
    assert one.of(tasks) == other.run(tasks, 0) == "a run of [0, 2]"
    assert one.has(tasks)
    assert not other.has(tasks)
    other.restore(one.saved(), 2)
    assert other.has(tasks)


def spoilt(arrays, name, value):
    return arrays | {f"mixture_{name}": value}


def test_a_state_that_no_chain_saved_is_refused(spread):
    arrays = unpacked_state(spread.data["sampler"].dataset)
    check_state(arrays, spread.target)
    for name, value in (
        ("label", arrays["mixture_label"] + 1),
        ("label", arrays["mixture_label"][:, :-1]),
        ("motives", np.full_like(arrays["mixture_motives"], np.nan)),
        ("numbers", -arrays["mixture_numbers"]),
        ("information", arrays["mixture_information"][:, :1]),
        ("values", -1.0 - arrays["mixture_values"]),
        ("refreshed", np.array(["{}", json.dumps({np.array([6]).tobytes().hex(): 1})])),  # there is no seventh task
        ("refreshed", np.array(["{}", "[]"])),
        ("stream", np.array(["{}", "[]"])),
        ("stream", np.array([json.dumps({"bit_generator": "MT19937"})] * 2)),
    ):
        with pytest.raises(InputError, match=f"mixture_{name}"):
            check_state(spoilt(arrays, name, value), spread.target)
    with pytest.raises(InputError, match="mixture_away"):
        check_state({key: value for key, value in arrays.items() if key != "mixture_away"}, spread.target)


@pytest.mark.parametrize("harm", ["labels", "numbers"])
def test_a_file_with_other_motives_is_refused(fitted, tmp_path, harm):
    tree = xr.DataTree.from_dict({name: node.to_dataset() for name, node in fitted.data.children.items()})
    tree.attrs = dict(fitted.data.attrs)
    drawn = tree["posterior"].to_dataset()
    changed = (
        {"motive": drawn["motive"] + 1} if harm == "labels" else {"number_of_motives": drawn["number_of_motives"] + 1}
    )
    tree["posterior"] = xr.DataTree(drawn.assign(changed))
    tree["sampler"] = xr.DataTree(packed_state({}))
    write_tree(tree, tmp_path / "run.nc", {})
    with pytest.raises(InputError, match="motives of its tasks" if harm == "labels" else "numbers of motives"):
        mm.load(tmp_path / "run.nc")


# ---- pictures and the report


def test_pictures_show_the_same_numbers(fitted):
    axes = mm.plots.together(fitted)
    order = [text.get_text() for text in axes.get_yticklabels()]
    shown = axes.images[0].get_array()
    assert np.allclose(shown, fitted.together.sel(task=order, other_task=order))
    assert {*order[:3]} == {"ann", "cem", "eva"}
    bars = mm.plots.number_of_motives(fitted).patches
    assert np.isclose(max(bar.get_height() for bar in bars), fitted.number_of_motives.max())


def test_the_report_tells_how_many_motives_there_are(spread, tmp_path):
    source = mm.report(spread, tmp_path / "page.html").read_text()
    page = Page(source)
    assert "How many motives are there?" in page.texts
    assert "Who resembles whom" not in page.texts
    figures = page.blocks["data-figures"]
    together = figures["together"]
    assert np.allclose(
        together["values"], spread.together.sel(task=together["rows"], other_task=together["cols"]), atol=1e-3
    )
    assert len(figures["number-of-motives"]["rows"]) >= 2
    assert "a mixture of reward–policy models" in source
    assert "Spread" in source


def test_one_task_has_one_motive(tmp_path):
    alone = mm.simulate(TRIANGLE, WANTED[:1], mm.Softmax(2.0), steps=20, seed=0)
    posterior = mm.fit(mixture(), TRIANGLE, alone, TINY, progress=False)
    assert posterior.number_of_motives.to_dict() == {1: 1.0}
    assert posterior.partition.expected_distance == 0.0
    mm.plots.together(posterior)
    mm.report(posterior, tmp_path / "page.html")
