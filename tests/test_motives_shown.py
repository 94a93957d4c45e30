"""Motives that switch, as a person sees them: on the command line, in tables, in pictures and in the report."""

import json
import os
import re

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment
from typer.testing import CliRunner

import chromium
import manymotives as mm
from cases import in_turn
from manymotives.cli import app
from manymotives.errors import InputError
from manymotives.fitting.checkpoints import fit_in_blocks
from manymotives.fitting.run import Run
from manymotives.io.writing import write_table
from manymotives.posterior.labelling.relabelling import _matched
from manymotives.posterior.motive_tables import average_transitions, steps_left
from test_report import Page

PLACE = mm.worlds.GridWorld((2, 2), discount=0.8)
NAMES = ["<b>ann</b>", "bob"]
QUICK = mm.Metropolis(chains=2, draws=20, warmup=20, thin=1)
FEATURES = mm.GaussianReward(features=np.eye(4)[:, :2], names=["<i>food</i>", "noise"])


def some_choices(steps=12, seed=0):
    """Two episodes of each subject, who goes to one corner and then to the other; a gap in the first episode."""
    rng = np.random.default_rng(seed)
    policies = mm.Softmax(6.0).policies(PLACE, np.eye(4)[[0, 3]])
    rows = []
    for name in NAMES:
        for episode in range(2):
            state = int(rng.integers(4))
            for step in range(steps):
                action = int(rng.choice(PLACE.num_actions, p=policies[step % 8 // 4, state]))
                time = step + (5 if episode == 0 and step > 7 else 0)
                place, done = PLACE.states[state], PLACE.actions[action]
                rows.append({"task": name, "episode": episode, "step": time, "state": place, "action": done})
                state = int(rng.choice(4, p=PLACE.tensor[state, action]))
    return pd.DataFrame(rows)


DATA = mm.Demonstrations.from_frame(some_choices(), PLACE, episode="episode", step="step")


def fitted(sharing, by, reward, motives=2, method=QUICK):
    model = mm.RewardPolicyModel(reward, mm.Softmax(), sharing, mm.Switching(motives, by=by))
    return mm.fit(model, PLACE, DATA, method, seed=0, progress=False)


def run(*arguments):
    return CliRunner().invoke(app, [str(word) for word in arguments])


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A run of the command line: subjects of one population, switching by state; its page; its tables."""
    folder = tmp_path_factory.mktemp("motives")
    write_table(some_choices(), folder / "choices.csv")
    moves = [
        {"state": PLACE.states[s], "action": PLACE.actions[a], "next_state": PLACE.states[t], "probability": p}
        for (s, a, t), p in np.ndenumerate(PLACE.tensor)
        if p > 0
    ]
    write_table(pd.DataFrame(moves), folder / "environment.csv")
    places = pd.DataFrame(PLACE.coordinates, columns=["x", "y"]).assign(state=PLACE.states)
    write_table(places, folder / "places.csv")
    given = ["--environment", folder / "environment.csv", "--coordinates", folder / "places.csv", "--discount", 0.8]
    given += ["--switching", 3, "--switching-by", "state", "--method", "metropolis", "--chains", 2]
    given += ["--draws", 20, "--warmup", 20, "--thin", 1, "--out", folder / "run.nc"]
    fit = run("fit", folder / "choices.csv", *given)
    assert fit.exit_code == 0, fit.output
    return folder, fit.output, mm.load(folder / "run.nc")


@pytest.fixture(scope="module")
def page(example):
    folder, _, _ = example
    result = run("report", folder / "run.nc", "--out", folder / "page.html")
    assert result.exit_code == 0, result.output
    return folder / "page.html"


# ---- the command line ------------------------------------------------------------------------------------------------


def test_fit_says_what_each_motive_wants(example):
    _, output, posterior = example
    assert posterior.model.switching.motives == 3
    assert posterior.model.switching.by == "state"
    line = (
        r"^  motive \d: wants most r\dc\d(, r\dc\d)?( or (r\dc\d|\d others) \(too close to tell\))?; \d+% of the steps$"
    )
    assert len(re.findall(line, output, re.MULTILINE)) == 3


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--switching-by", "state"], "--switching-by needs a number of motives: add --switching 3, say."),
        (
            ["--switching", "2", "--model", "mpo"],
            "--switching is not available for the model mpo. Choose mrp, rp or separate.",
        ),
        (
            ["--switching", "2", "--method", "nested"],
            "cannot fit motives that switch: choose hmc, gibbs, metropolis or empirical-bayes.",
        ),
        (["--switching", "0"], "--switching must be a number of motives from 1 to 100"),
        (["--switching", "many"], '--switching must be a number of motives from 1 to 100, or "auto"'),
        (["--switching", "2", "--switching-by", "weather"], "--switching-by"),
    ],
)
def test_what_cannot_be_asked_for_is_said(example, options, said):
    folder, _, _ = example
    result = run("fit", folder / "choices.csv", "--dry-run", *options)
    assert result.exit_code == 2
    assert said in result.output


def test_a_dry_run_names_the_motives(example):
    folder, _, _ = example
    result = run("fit", folder / "choices.csv", "--plug-in", "--dry-run", "--switching", 2)
    assert "on states, 2 motives, switching with the same probability everywhere, by HMC" in result.output
    result = run("fit", folder / "choices.csv", "--plug-in", "--dry-run", "--switching", "auto")
    assert "on states, up to 15 motives, switching with the same probability everywhere, by HMC" in result.output


def test_export_writes_tables_of_motives(example, tmp_path):
    folder, _, posterior = example
    done = json.loads(run("export", folder / "run.nc", "--out", tmp_path / "all", "--json").stdout)
    rows = done["tables"]
    assert (rows["motive_rewards"], rows["motive_shares"], rows["motive_switches"]) == (2 * 3 * 4, 2 * 3, 2)
    assert rows["motive_probabilities"] == len(DATA.state)
    assert rows["motive_transitions"] == 2 * 4 * 3 * 3
    steps = pd.read_csv(tmp_path / "all" / "motive_probabilities.csv")
    assert list(steps) == ["subject", "episode", "step", "state", "motive_0", "motive_1", "motive_2", "kind"]
    expected = posterior.motives().values
    np.testing.assert_allclose(steps[["motive_0", "motive_1", "motive_2"]], expected, atol=1e-9)
    some = run("export", folder / "run.nc", "--out", tmp_path / "some", "--subject", "bob", "--state", "r0c0", "--json")
    rows = json.loads(some.stdout)["tables"]
    assert (rows["motive_rewards"], rows["motive_transitions"], rows["motive_probabilities"]) == (3, 9, 24)
    assert "there is no task 'eve'" in run("export", folder / "run.nc", "--out", tmp_path, "--subject", "eve").output


class Killed(Exception):
    """In place of the operating system, between two blocks."""


@pytest.mark.parametrize("sharing", [mm.Hierarchical(), pytest.param(mm.Separate(), marks=pytest.mark.long)])
def test_a_run_that_was_cut_ends_as_one_that_was_not(sharing, tmp_path):
    """Draws, and the order of the motives in them."""
    method = mm.Metropolis(chains=2, draws=90, warmup=10, thin=1)
    model = mm.RewardPolicyModel(sharing=sharing, switching=mm.Switching(3))

    def kill(made, wanted, rate):
        if made >= 50:
            raise Killed

    first, again = (Run(model, PLACE, DATA, method, seed=1) for _ in range(2))
    with pytest.raises(Killed):
        fit_in_blocks(first, tmp_path / "run.nc", every=0.0, progress=False, on_checkpoint=kill)
    resumed = fit_in_blocks(again, tmp_path / "run.nc", resume=True, every=0.0, progress=False)
    whole = mm.fit(model, PLACE, DATA, method, seed=1, progress=False)
    for name in whole.data["posterior"].data_vars:
        np.testing.assert_array_equal(resumed.data["posterior"][name], whole.data["posterior"][name])
    assert resumed.warnings == whole.warnings


def test_motives_end_in_one_order_whatever_order_they_came_in():
    rng = np.random.default_rng(0)
    rows = np.arange(30)[:, None]
    for _ in range(20):
        policies = np.log(rng.dirichlet(np.ones(3), size=(30, 3, 4))).reshape(30, 3, 12)
        share, weights = rng.dirichlet(np.ones(3), size=30), np.ones(12)
        mixed = np.argsort(rng.random((30, 3)), axis=1)
        mixed[-1] = np.arange(3)  # the last draw is what the others are compared with first
        cost = -np.einsum("nkc,lc->nlk", policies, np.exp(policies[-1]))
        already = np.stack([linear_sum_assignment(each)[1] for each in cost])
        expected = policies[rows, _matched(policies, weights, share)]
        for before in (mixed, already):
            given = policies[rows, before], weights, share[rows, before]
            np.testing.assert_array_equal(given[0][rows, _matched(*given)], expected)


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_tables_are_those_of_the_draws(example):
    _, _, posterior = example
    drawn = posterior.data["posterior"].dataset.stack(sample=("chain", "draw"))
    shares, switches = posterior.shares(level=0.5), posterior.switches()
    np.testing.assert_allclose(shares["mean"].to_numpy().reshape(2, 3), drawn["motive_share"].mean("sample"))
    np.testing.assert_allclose(shares["upper"], drawn["motive_share"].quantile(0.75, "sample").values.ravel())
    np.testing.assert_allclose(switches["mean"], drawn["switches"].mean("sample"))
    assert switches["steps"].tolist() == [24, 24]
    table = posterior.transitions().set_index(["task", "state", "motive", "next_motive"])["mean"]
    rows = drawn["motive_transition"].mean("sample")
    for task, state, motive, following in [(NAMES[0], "r0c0", 0, 1), (NAMES[1], "r1c0", 2, 2)]:
        expected = rows.sel(task=task, state=state, motive=motive, next_motive=following)
        assert table[task, state, motive, following] == pytest.approx(float(expected))
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        posterior.shares(level=2)


def test_averages_count_by_steps_that_were_left(example):
    """By plain loops."""
    _, _, posterior = example
    left = np.zeros((2, 4))
    for row in range(len(DATA.state) - 1):
        left[DATA.task[row], DATA.state[row]] += DATA.follows[row + 1]
    np.testing.assert_array_equal(steps_left(posterior), left)
    assert left.sum() == 48 - 4 - 2  # four episodes, two of which have a gap
    rows = posterior.data["posterior"].dataset["motive_transition"].transpose("chain", "draw", "task", "state", ...)
    whole = sum(left[m, s] * rows.values[:, :, m, s] for m in range(2) for s in range(4)) / left.sum()
    np.testing.assert_allclose(average_transitions(posterior), whole)
    leaving = posterior.leaving().set_index(["motive", "state"])
    here = sum(left[m, 0] * (1 - rows.values[:, :, m, 0, 1, 1]) for m in range(2)) / left[:, 0].sum()
    assert leaving.loc[(1, "r0c0"), "mean"] == pytest.approx(here.mean())
    assert leaving.loc[(1, "r0c0"), "p_above_average"] == pytest.approx((here > 1 - whole[..., 1, 1]).mean())
    assert leaving.loc[(1, "r0c0"), "steps"] == left[:, 0].sum()


# ---- pictures, summaries ---------------------------------------------------------------------------------------------


def test_pictures_of_motives(example, tmp_path):
    _, _, posterior = example
    figure = mm.plots.motives(posterior)
    assert len(figure.axes) == 4  # episodes
    figure.savefig(tmp_path / "motives.png")
    assert len(mm.plots.motives(posterior, tasks=["bob"], kind="filtered").axes) == 2
    axes = mm.plots.motive_transitions(posterior)
    shown = np.array(axes.images[0].get_array())
    np.testing.assert_allclose(shown, average_transitions(posterior).mean(("chain", "draw")))
    assert mm.plots.motive_transitions(posterior, task="bob").get_title() == "bob: how it switches"
    with pytest.raises(InputError, match="unknown task 'eve'"):
        mm.plots.motives(posterior, tasks=["eve"])
    for name in ("rewards", "policies", "temperatures", "learning", "similarity", "ppc"):
        with pytest.raises(InputError, match="a single motive"):
            getattr(mm.plots, name)(posterior)


def test_a_summary_has_a_row_for_each_motive_of_each_subject(example):
    _, _, posterior = example
    assert posterior.summary().rewards.shape == (2 * 3, 4)
    assert "switches[bob]" in repr(posterior.summary())


# ---- the report ------------------------------------------------------------------------------------------------------

SHARINGS = [mm.Pooled(), mm.Hierarchical(), mm.Separate()]
REWARDS = [FEATURES, mm.DirichletReward(), mm.GaussianReward(on="state_action")]


@pytest.mark.parametrize(("sharing", "reward", "by"), in_turn(SHARINGS, REWARDS, ["everywhere", "state"], every=9))
def test_every_kind_of_model_has_a_whole_page(sharing, reward, by, tmp_path):
    posterior = fitted(sharing, by, reward)
    page = Page(mm.report(posterior, tmp_path / "page.html").read_text(encoding="utf-8"))
    assert not page.stack
    said = " ".join(page.texts)
    for heading in ("What each motive wants", "When each motive is active", "How they switch", "What is left out"):
        assert heading in said
    assert ("What triggers switches" in said) == (by == "state")
    for warning in posterior.warnings:
        assert warning in said
    places = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(places) == len(set(places))
    assert {attributes["href"] for tag, attributes in page.elements if tag == "a"} <= {f"#{name}" for name in places}
    assert all(f"plot-{name}" in places for name in page.blocks["data-figures"])
    assert posterior.summary()._repr_html_()


def test_the_page_has_the_numbers_of_the_posterior(example, page):
    _, _, posterior = example
    whole = Page(page.read_text(encoding="utf-8"))
    figures, said = whole.blocks["data-figures"], " ".join(whole.texts)
    assert "Probabilities are smoothed" in said
    assert "the probability of switching depends on the state that is left" in said
    shares = [[mark[0] for mark in row["marks"]] for row in figures["motive-shares"]["rows"]]
    np.testing.assert_allclose(shares, posterior.shares()["mean"].to_numpy().reshape(2, 3), atol=1e-3)
    bands = [band for each in figures["motive-bands"]["each"] for band in each["rows"]]
    smoothed = posterior.motives().values
    np.testing.assert_allclose(np.concatenate([band["p"] for band in bands]) / 100, smoothed, atol=0.0051)
    assert [band["gaps"] for band in bands] == [[8], [], [8], []]
    cells = np.array(figures["motive-transitions"]["each"][0]["cells"])
    np.testing.assert_allclose(cells[..., 0], average_transitions(posterior).mean(("chain", "draw")), atol=1e-3)
    assert [each["panels"][0]["title"] for each in figures["motive-map"]["each"]] == ["motive 0"] * 3
    assert NAMES[0] in "".join(whole.texts)  # as text


def test_truth_is_refused(example, tmp_path):
    with pytest.raises(InputError, match="truth cannot be shown for motives that switch"):
        mm.report(example[2], tmp_path / "page.html", truth=np.zeros((2, 4)))


def test_the_page_in_a_browser(page):
    """Quiet and alone; an episode can be stepped through, a subject chosen; nothing is too wide for a phone."""
    if chromium.program() is None:
        said = "Chromium is not installed: apt-get install chromium, and these tests will run."
        pytest.fail(said) if os.environ.get("CI") else pytest.skip(said)
    browser = chromium.Chromium()
    try:
        for width in (1000, 380):
            browser.open(page, width=width, dark=width < 500)
            assert browser.complaints == []
            assert browser.requests == []
            assert browser.run("document.documentElement.scrollWidth") <= width
        drawn = "[...document.querySelectorAll('.plot')].filter((box) => !box.querySelector('svg')).length"
        assert browser.run(drawn) == 0
        walk, whose = (f"document.getElementById('plot-{name}').textContent" for name in ("motive-walk", "motive-map"))
        assert "step 1 of 12" in browser.run(walk)
        browser.click('button[data-for="walk"][data-step="1"]')
        assert "step 2 of 12" in browser.run(walk)
        before = browser.run(whose)
        browser.click('button[data-for="whose"][data-step="1"]')
        assert browser.run(whose) != before
        assert browser.complaints == []
    finally:
        browser.close()
