"""The page itself: what every kind of fit makes of it, and what must never be in it."""

import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app
from manymotives.reporting.html import data_block, element
from places import HOUSE, TRIANGLE

QUICK = mm.Metropolis(chains=2, draws=20, warmup=20, thin=1)
NASTY = ["<script>alert(1)</script>", 'O\'Brien & "co" </title>', "🐭 " + "x" * 300]
TRUTH = np.random.default_rng(0).dirichlet(np.ones(3), size=3)
DATA = mm.simulate(TRIANGLE, TRUTH, mm.Softmax(4.0), steps=30, seed=1, tasks=NASTY)
GRID = mm.worlds.GridWorld((2, 3), discount=0.8)

MODELS = {
    "states": mm.RewardPolicyModel(),
    "pairs": mm.RewardPolicyModel(mm.BetaReward(on="state_action"), mm.SoftOptimal()),
    "separate": mm.RewardPolicyModel(mm.GaussianReward(), sharing=mm.Separate()),
    "pooled": mm.RewardPolicyModel(sharing=mm.Pooled()),
    "lapses": mm.RewardPolicyModel(choice=mm.Softmax(3.0, lapse=mm.Beta(1.0, 9.0))),
    "features": mm.RewardPolicyModel(mm.GaussianReward(features=np.eye(3)[:, :2])),
    "optimality": mm.PolicyOptimalityModel(),
    "shared optimality": mm.PolicyOptimalityModel(factorisation="policy_given_reward"),
    "one of a set": mm.PolicyOptimalityModel(np.eye(3), sharing=mm.Pooled()),
}


class FakeScore:
    """What a report reads of a score."""

    hold_out = "episodes"
    warnings = ("few <b>episodes</b>",)
    table = pd.DataFrame(
        {
            "model": ["uniform", "counts", "MRP <i>"],
            "log_likelihood": [-1.1, -0.9, -0.8],
            "standard_error": [0.0, 0.02, np.nan],
            "choices": [90, 90, 90],
        }
    )


def fitted(model, environment=TRIANGLE, data=DATA):
    method = mm.OptimalityMonteCarlo(draws=40) if isinstance(model, mm.PolicyOptimalityModel) else QUICK
    return mm.fit(model, environment, data, method, seed=0, progress=False)


class Page(HTMLParser):
    """Elements, attributes and text of a page, read by somebody else's parser."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.stack, self.texts, self.blocks = [], [], [], {}
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "br", "input", "col"):
            self.stack.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack.pop()[0] == tag

    def handle_data(self, text):
        tag, attributes = self.stack[-1] if self.stack else ("", {})
        if tag == "script" and "id" in attributes:
            self.blocks[attributes["id"]] = json.loads(text)
        elif tag not in ("script", "style"):
            self.texts.append(text)


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_of_fit_has_a_whole_page(name, tmp_path):
    posterior = fitted(MODELS[name])
    path = mm.report(posterior, tmp_path / "page.html", score=FakeScore(), title="What <they> want")
    source = path.read_text(encoding="utf-8")
    page = Page(source)
    assert not page.stack
    said = " ".join(page.texts)
    for heading in (
        "What was fitted",
        "What they want",
        "What the data can and cannot tell",
        "Who resembles whom",
        "Does it predict",
        "Could the model have produced these choices?",
        "What would be best",
        "Did the sampler work?",
        "How to cite",
    ):
        assert heading in said
    for warning in posterior.warnings:
        assert warning in said
    assert "It was taken as known, not estimated" in said
    places = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(places) == len(set(places))
    links = {attributes["href"] for tag, attributes in page.elements if tag == "a"}
    assert links <= {f"#{place}" for place in places}
    for figure in page.blocks["data-figures"]:
        assert f"plot-{figure}" in places
    assert not list(tmp_path.glob(".*"))  # nothing half-written


@pytest.mark.parametrize("name", ["states", "optimality"])
def test_names_are_text_and_nothing_is_fetched(name, tmp_path):
    source = mm.report(
        fitted(MODELS[name]), tmp_path / "p.html", title="</title><script>", score=FakeScore()
    ).read_text()
    page = Page(source)
    assert {tag for tag, _ in page.elements if tag in ("img", "link", "iframe", "object", "i", "base")} == set()
    assert len([tag for tag, _ in page.elements if tag == "script"]) == 4  # three blocks of data, one script
    assert not any(word.startswith("on") for _, attributes in page.elements for word in attributes)
    assert not re.search(r"""(src|href)=(?!"#)|url\(|@import|https?://(?!www\.w3\.org/2000/svg)""", source)
    assert NASTY[0] in page.blocks["data-policies"]["who"]
    assert "few <b>episodes</b>" in " ".join(page.texts)


def test_markup_is_only_what_we_made():
    assert element("p", "<b>", element("b", "&"), title='"') == '<p title="&quot;">&lt;b&gt;<b>&amp;</b></p>'
    assert "</script" not in data_block("x", {"a": "</script><!--"})[:-9]
    assert json.loads(re.sub(r"<[^>]*>", "", data_block("x", ["</script>", "\u2028", "&amp;"]))) == [
        "</script>",
        "\u2028",
        "&amp;",
    ]


def test_the_page_has_the_numbers_of_the_posterior(tmp_path):
    posterior = fitted(MODELS["states"])
    page = Page(mm.report(posterior, tmp_path / "p.html", truth=TRUTH).read_text())
    told = page.blocks["data-rewards"]
    canonical = posterior.canonical()["reward"].mean(("chain", "draw")).values
    assert np.array(told["mean"][1:]) / 1000 == pytest.approx(canonical, abs=6e-4)
    prior = posterior.data["prior"].dataset["reward"].values[0]
    centred = prior - prior.mean(axis=1, keepdims=True)
    before = centred / np.ptp(centred, axis=1)[:, None]
    assert np.array(told["prior"]["mean"]) / 1000 == pytest.approx(before.mean(axis=0), abs=6e-4)
    truth = TRUTH - TRUTH.mean(axis=1, keepdims=True)
    assert np.array(told["truth"][1:]) / 1000 == pytest.approx(truth / np.ptp(truth, axis=1)[:, None], abs=6e-4)
    acted = page.blocks["data-policies"]
    assert acted["best"] == posterior.policies().values.argmax(axis=2).tolist()
    assert np.array(acted["made"]).sum() == 90


def test_features_come_first_and_states_second(tmp_path):
    """Weights of the population and of each subject, who differs; the rewards they make of states after that."""
    names = ["<b>food</b>", "noise"]
    model = mm.RewardPolicyModel(mm.GaussianReward(features=np.eye(3)[:, :2], names=names))
    posterior = fitted(model)
    page = Page(mm.report(posterior, tmp_path / "p.html").read_text())
    places = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert places.index("features") < places.index("wants")
    figures = page.blocks["data-figures"]
    means = posterior.data["posterior"].dataset["reward_mean"].mean(("chain", "draw")).values
    assert [row["mid"] for row in figures["feature-weights"]["rows"]] == pytest.approx(means, rel=1e-3)
    assert [row["label"] for row in figures["feature-weights"]["rows"]] == names
    assert all(row["plo"] < 0 < row["phi"] for row in figures["feature-weights"]["rows"])
    weight = posterior.weights.mean(("chain", "draw"))
    for number, feature in enumerate(figures["feature-subjects"]["features"]):
        told = {row[0]: row[1] for row in feature["rows"][1:]}
        assert [told[name] for name in posterior.tasks] == pytest.approx(weight.values[:, number], rel=1e-3)
        assert [row[1] for row in feature["rows"][1:]] == sorted(told.values(), reverse=True)
    assert "".join(page.texts).count("<b>food</b>") >= 3  # as text, in the tables of features and of subjects
    plain = Page(mm.report(fitted(MODELS["states"]), tmp_path / "q.html").read_text())
    assert "features" not in [attributes.get("id") for _, attributes in plain.elements]


@pytest.mark.parametrize(
    ("choice", "sharing", "tasks", "average"),
    [
        pytest.param(mm.Softmax(), mm.Separate(), 3, "mean of the subjects", marks=pytest.mark.long),
        pytest.param(mm.Softmax(), mm.Pooled(), 3, "everybody", marks=pytest.mark.long),
        (mm.Softmax(mm.Gamma(shape=2.0, rate=2.0)), mm.Hierarchical(), 3, "weight × inverse temperature"),
        (mm.Softmax(), mm.Separate(), 1, "one subject alone"),
    ],
)
def test_every_kind_of_sharing_has_features(choice, sharing, tasks, average, tmp_path):
    names = ["a", "b", "c"] if tasks == 3 else ["one subject alone"]
    data = mm.simulate(TRIANGLE, TRUTH[:tasks], mm.Softmax(4.0), steps=30, seed=1, tasks=names)
    model = mm.RewardPolicyModel(mm.GaussianReward(features=np.eye(3)[:, :1]), choice, sharing)
    fitted(model, data=data).save(tmp_path / "run.nc")
    posterior = mm.load(tmp_path / "run.nc")
    page = Page(mm.report(posterior, tmp_path / "p.html").read_text())
    whole = " ".join(page.texts) + json.dumps(page.blocks["data-figures"], ensure_ascii=False)
    assert average in whole
    assert "feature 0" in whole
    figure = mm.plots.feature_weights(posterior)
    figure.savefig(tmp_path / "picture.png")
    assert figure.axes[0].get_title() in ("feature 0", "everybody", "one subject alone")


def test_a_map_is_drawn_where_states_have_places(tmp_path):
    data = mm.simulate(GRID, np.eye(6)[:2], mm.Softmax(4.0), steps=20, seed=0)
    page = Page(mm.report(fitted(mm.RewardPolicyModel(), GRID, data), tmp_path / "p.html").read_text())
    layout = page.blocks["data-rewards"]["layout"]
    assert layout["square"]
    assert len(layout["edges"]) == 7  # 2 × 3 cells
    right = page.blocks["data-policies"]["actions"].index("right")
    assert page.blocks["data-policies"]["moves"][0][right] == [1.0, 0.0]
    memory = mm.worlds.Labyrinth(levels=1).with_memory()
    walks = mm.simulate(memory, np.eye(memory.num_states)[:2], mm.Softmax(1.0), steps=30, seed=0)
    page = Page(mm.report(fitted(mm.RewardPolicyModel(), memory, walks), tmp_path / "p.html").read_text())
    layout = page.blocks["data-rewards"]["layout"]
    assert sorted(state for place in layout["members"] for state, _ in place) == list(range(memory.num_states))
    assert all(sum(weight for _, weight in place) == pytest.approx(1.0, abs=1e-3) for place in layout["members"])


def test_terminal_states_and_one_subject(tmp_path):
    data = mm.simulate(HOUSE, [[0.0, 0.2, 1.0]], mm.Softmax(2.0), steps=10, seed=0)
    page = Page(mm.report(fitted(mm.RewardPolicyModel(), HOUSE, data), tmp_path / "p.html").read_text())
    said = " ".join(page.texts)
    assert "nobody to compare" in said  # a section that fails says so
    assert "Because episodes end" in said
    assert "to the reward of “garden” changes no choice in this environment" in said  # a constant is not, this is


def test_a_failure_leaves_the_old_page_alone(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("the old one")
    monkeypatch.setattr(sys.modules["manymotives.reporting"], "page", lambda content: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        mm.report(fitted(MODELS["states"]), path)
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]
    assert path.read_text() == "the old one"


def test_the_command_writes_the_page_and_says_where(tmp_path):
    fitted(MODELS["states"]).save(tmp_path / "run.nc")
    out = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", str(tmp_path / "run.nc"), "--out", str(out), "--title", "Mice & men"])
    assert result.exit_code == 0, result.output
    assert result.output.strip().endswith("page.html")
    assert "<title>Mice &amp; men</title>" in out.read_text()
    for bad in (["nowhere.nc"], [str(out)], [str(tmp_path / "run.nc"), "--out", str(tmp_path / "no" / "p.html")]):
        result = CliRunner().invoke(app, ["report", *bad])
        assert result.exit_code == 2
        assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    "draw",
    [
        lambda p: mm.plots.policies(p),
        lambda p: mm.plots.policies(p, NASTY[1]),
        lambda p: mm.plots.similarity(p),
        lambda p: mm.plots.comparison(FakeScore()),
        lambda p: mm.plots.ppc(p),
        lambda p: mm.plots.learning(p),
        lambda p: mm.plots.temperatures(p),
    ],
)
def test_plots_return_axes(draw, tmp_path):
    axes = draw(fitted(MODELS["states"]))
    assert axes.get_title()
    assert axes.get_xlabel()
    axes.figure.savefig(tmp_path / "picture.png")


def test_plots_and_report_show_the_same_numbers(tmp_path):
    posterior = fitted(MODELS["states"])
    page = Page(mm.report(posterior, tmp_path / "p.html").read_text())
    drawn = mm.plots.ppc(posterior).collections
    shown = page.blocks["data-figures"]["shares"]["points"]
    assert sorted(round(x, 4) for marks in drawn[1:] for x, _ in marks.get_offsets().tolist()) == pytest.approx(
        sorted(point["x"] for point in shown)
    )


@pytest.mark.long
def test_a_hundred_subjects_and_380_states_make_a_small_page(tmp_path):
    environment = mm.worlds.Labyrinth(levels=6).with_memory()
    rewards = np.random.default_rng(0).dirichlet(np.full(environment.num_states, 0.1), size=110)
    data = mm.simulate(environment, rewards, mm.Softmax(20.0), steps=300, seed=0)
    method = mm.Metropolis(chains=2, draws=5, warmup=0, thin=1)
    posterior = mm.fit(mm.RewardPolicyModel(), environment, data, method, seed=0, progress=False)
    assert mm.report(posterior, tmp_path / "big.html").stat().st_size < 5_000_000
