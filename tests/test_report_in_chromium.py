"""The report in a real browser: quiet, alone, usable with a mouse, on a phone, in the dark and on paper."""

import json
import os
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import chromium
import manymotives as mm
from cases import in_step
from manymotives.cli import app
from test_report import NASTY, FakeScore

FIELD = mm.worlds.GridWorld((3, 3), slip=0.1, discount=0.9)
TRUTH = np.random.default_rng(0).dirichlet(np.full(9, 0.3), size=8)
NAMES = [*NASTY, *(f"subject {number}" for number in range(4, 9))]


@pytest.fixture(scope="module")
def browser():
    if chromium.program() is None:
        said = "Chromium is not installed: apt-get install chromium, and these tests will run."
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    opened = chromium.Chromium()
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """One page of each model, and one that went the way of the command line, with the scores that `compare` wrote."""
    folder = tmp_path_factory.mktemp("pages")
    data = mm.simulate(FIELD, TRUTH, mm.Softmax(5.0), steps=60, seed=0, tasks=NAMES)
    quick = mm.Metropolis(chains=2, draws=50, warmup=50, thin=1)
    posterior = mm.fit(mm.RewardPolicyModel(), FIELD, data, quick, seed=0, progress=False)
    reward = mm.GaussianReward(features=np.eye(9)[:, [0, 4, 8]], names=["corner <i>", "middle", "far away"])
    weighed = mm.fit(mm.RewardPolicyModel(reward), FIELD, data, quick, seed=0, progress=False)
    brief = mm.HMC(chains=2, draws=15, warmup=15, thin=1, max_rounds=1)
    model = mm.RewardPolicyModel(reward, mm.Softmax(5.0), mm.Mixture())
    shared = mm.fit(model, FIELD, data, brief, seed=0, progress=False)
    other = mm.fit(mm.PolicyOptimalityModel(), FIELD, data, mm.OptimalityMonteCarlo(draws=50), seed=0, progress=False)
    return {
        "mrp": mm.report(posterior, folder / "mrp.html", score=[FakeScore()], truth=TRUTH, title="<h1>Field</h1>"),
        "mpo": mm.report(other, folder / "mpo.html"),
        "mixture": mm.report(shared, folder / "mixture.html"),
        "features": mm.report(weighed, folder / "features.html"),
        "scored": scored(folder),
    }


def scored(folder):
    """From a run to its scores to its page, each from the file before."""
    place = mm.worlds.GridWorld((2, 2), discount=0.9)
    data = mm.simulate(place, TRUTH[:3, :4], mm.Softmax(5.0), steps=12, episodes=2, seed=0, tasks=NAMES[:3])
    quick = mm.Metropolis(chains=2, draws=20, warmup=20, thin=1)
    run, page, given = folder / "run.nc", folder / "scored.html", []
    mm.fit(mm.RewardPolicyModel(), place, data, quick, seed=0, progress=False).save(run)
    for what in (("episodes", "--folds", "2"), ("subjects", "--first", "0,1")):
        out = folder / f"{what[0]}.json"
        words = ["compare", str(run), "--hold-out", *what, "--beside", "counts", "--out", str(out), "--json"]
        said = CliRunner().invoke(app, words)
        assert said.exit_code == 0, said.output
        assert json.loads(said.stdout) == json.loads(out.read_text(encoding="utf-8"))
        given += ["--score", str(out)]
    made = CliRunner().invoke(app, ["report", str(run), *given, "--out", str(page)])
    assert made.exit_code == 0, made.output
    return page


@pytest.mark.parametrize(
    ("name", "dark", "width"),
    in_step(["mrp", "mpo", "scored", "features", "mixture"], [False, True], [375, 1200]),
)
def test_the_page_is_quiet_alone_and_fits(browser, pages, name, width, dark):
    browser.open(pages[name], width=width, dark=dark)
    assert browser.complaints == []
    assert browser.requests == []
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert browser.run("[...document.querySelectorAll('.plot')].every((plot) => plot.querySelector('svg *'))")
    light = sum(map(int, re.findall(r"\d+", browser.run("getComputedStyle(document.body).backgroundColor"))[:3]))
    assert light < 150 if dark else light > 600


def test_the_comparison_has_every_model_and_says_what_was_held_out(browser, pages):
    browser.open(pages["scored"])
    plain = ["uniform", "counts", "counts, own", "counts with history", "counts with history, own"]
    plain += ["counts with longer history"]
    held_out = (
        "episodes of the same subjects (72 ",
        "without any choices of their own (36 ",
        "after their first episode (36 ",
    )
    for number, what in enumerate(held_out):
        assert what in browser.run(f"document.getElementById('plot-comparison{number}').closest('figure').textContent")
        drawn = browser.run(
            f"[...document.querySelectorAll('#plot-comparison{number} .row')].map((row) => row.dataset.tip)"
        )
        assert [tip.partition("\n")[0] for tip in drawn] == [*plain, "MRP"]
        rows = f"[...document.querySelectorAll('#prediction table')[{number}].tBodies[0].rows]"
        assert browser.run(f"{rows}.map((row) => row.children[0].textContent)") == [*plain, "MRP"]
        assert browser.run(f"{rows}.at(-1).children[3].textContent") == "–"  # nothing lies above or below itself


def test_names_stay_text(browser, pages):
    browser.open(pages["mrp"])
    assert browser.run("document.querySelector('h1').textContent") == "<h1>Field</h1>"
    assert browser.run("document.title") == "<h1>Field</h1>"
    assert browser.run("document.querySelectorAll('#choose-wanted option')[1].textContent") == NASTY[0]


def test_hovering_shows_values(browser, pages):
    browser.open(pages["mrp"])
    assert browser.run("document.getElementById('tip').hidden")
    browser.hover(*browser.middle_of("#plot-ranked .row"))
    assert not browser.run("document.getElementById('tip').hidden")
    said = browser.run("document.getElementById('tip').textContent")
    assert re.match(r"r\dc\d\nposterior [−\d.]+ \(95 %: [−\d.]+ to [−\d.]+\)\nprior ", said)
    browser.hover(2, 2)
    assert browser.run("document.getElementById('tip').hidden")


def test_tables_sort_by_number_and_by_name(browser, pages):
    browser.open(pages["mrp"])
    column = "[...document.querySelectorAll('#check table')[0].tBodies[0].rows].map((row) => row.children[{}].{})"
    browser.click("#check table th:nth-child(3) button")
    numbers = browser.run(column.format(2, "dataset.value * 1"))
    assert numbers == sorted(numbers, reverse=True)
    assert (
        browser.run("document.querySelector('#check table th:nth-child(3)').getAttribute('aria-sort')") == "descending"
    )
    browser.click("#check table th:nth-child(3) button")
    assert browser.run(column.format(2, "dataset.value * 1")) == numbers[::-1]
    browser.click("#check table th:nth-child(1) button")
    names = browser.run(column.format(0, "textContent"))
    assert [name for name in names if name.startswith("subject")] == [f"subject {n}" for n in range(4, 9)]


def test_choosing_a_subject_draws_it(browser, pages):
    browser.open(pages["mrp"])
    texts = "[...document.querySelectorAll('#plot-ranked .row')].map((row) => row.dataset.tip).join()"
    before = browser.run(texts)
    assert "truth" not in before  # a population has none
    browser.click("button[data-step='1'][data-for='wanted']")
    after = browser.run(texts)
    assert after != before
    assert "truth" in after
    assert browser.run("document.getElementById('choose-wanted').selectedIndex") == 1
    assert browser.run("document.querySelectorAll('#plot-reward-map svg > text').length") > 3
    assert browser.run("document.querySelectorAll('#table-acted tbody tr').length") == 9
    assert browser.complaints == []


def test_choosing_a_feature_draws_every_subject(browser, pages):
    browser.open(pages["features"])
    rows = "[...document.querySelectorAll('#plot-feature-subjects .row')].map((row) => row.dataset.tip)"
    tips = browser.run(rows)
    assert tips[0].startswith("population mean\n")
    assert len(tips) == 9
    assert all(re.search(r"\ncorner <i>: [−\d.]+ \(95 %: [−\d.]+ to [−\d.]+\)\nprior, 95 %: ", tip) for tip in tips)
    browser.click("button[data-step='1'][data-for='feature']")
    assert all("\nmiddle: " in tip for tip in browser.run(rows))
    listed = browser.run("document.querySelectorAll('#feature-differences li').length")
    assert (listed == 0) != browser.run("document.getElementById('no-feature-differences').hidden")
    assert len(browser.run("[...document.querySelectorAll('#plot-feature-weights .row')].map((row) => 1)")) == 3
    browser.click("#features table:last-of-type th:nth-child(3) button")
    assert browser.complaints == []


def test_the_button_changes_the_colours(browser, pages):
    browser.open(pages["mrp"])
    colour = "getComputedStyle(document.body).backgroundColor"
    light = browser.run(colour)
    browser.click("#theme")
    assert browser.run(colour) != light
    browser.click("#theme")
    assert browser.run(colour) == light


def test_it_prints_in_black_on_white_even_from_the_dark(browser, pages):
    browser.open(pages["mrp"], dark=True)
    assert browser.printed().startswith(b"%PDF")
    browser.send(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"


def test_a_page_with_a_fault_is_noticed(browser, tmp_path):
    """That the tests above can fail: an error, a request and a page too wide."""
    bad = tmp_path / "bad.html"
    bad.write_text("<body style='width:2000px'><script>fetch('http://127.0.0.1:9/x').catch(() => 0); nobody()</script>")
    browser.open(bad, width=375)
    assert browser.complaints
    assert browser.requests
    assert not browser.run("document.documentElement.scrollWidth <= innerWidth")
