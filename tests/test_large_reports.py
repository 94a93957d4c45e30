"""Reports, tables and pictures of thousands of states: light, readable, without anything quadratic."""

import json
import re
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import manymotives as mm
from chromium import Chromium, program
from manymotives.errors import InputError
from manymotives.findings.sample import sample_of
from manymotives.posterior.tables import contrasts_of
from manymotives.reporting.layout import by_state, layout_of
from manymotives.scoring.contenders import contenders_of, is_slow

SIDE = 50


@pytest.fixture(scope="module")
def posterior():
    """2 500 states and three features; draws near the truth in place of a fit, which takes minutes."""
    env = mm.worlds.GridWorld((SIDE, SIDE), slip=0.1, discount=0.8)
    x, y = np.asarray(env.coordinates, dtype=float).T
    features = np.column_stack(
        [np.exp(-((x - a) ** 2 + (y + b) ** 2) / 200) for a, b in ((10, 10), (40, 10), (25, 40))]
    )
    weights = np.array([[2.0, -1.0, 0.0], [0.0, 2.0, -1.0]])
    data = mm.simulate(env, weights @ features.T, mm.Softmax(1.0), steps=40, seed=0)
    model = mm.RewardPolicyModel(mm.GaussianReward(features, names=["left", "right", "below"]))
    made = mm.fit(model, env, data, mm.MonteCarlo(draws=20), progress=False)
    drawn = made.data["posterior"].to_dataset()
    near = weights + 0.1 * np.random.default_rng(0).normal(size=drawn["weight"].shape)
    groups = {name: node.to_dataset() for name, node in made.data.children.items()}
    groups["posterior"] = drawn.assign(
        weight=(drawn["weight"].dims, near), reward=(drawn["reward"].dims, near @ features.T)
    )
    tree = xr.DataTree.from_dict(groups)
    tree.attrs = dict(made.data.attrs)
    return replace(made, data=tree)


@pytest.fixture(scope="module")
def page(posterior, tmp_path_factory):
    return mm.report(posterior, tmp_path_factory.mktemp("report") / "large.html")


def block(page, name):
    found = re.search(rf'<script type="application/json" id="data-{name}">(.*?)</script>', page.read_text(), re.DOTALL)
    return json.loads(found[1])


def test_the_page_of_2500_states_is_light_and_says_what_it_leaves_out(page):
    assert page.stat().st_size < 1_000_000
    layout = block(page, "rewards")["layout"]
    assert layout["many"]
    assert layout["square"]
    assert layout["size"] == 1.0
    assert "members" not in layout  # each state is a place of its own
    text = page.read_text()
    assert "the 200 most and the 200 least wanted of 2,500. The tables written by manymotives export" in text
    assert "the 400 of 2,500 states with most choices." in text


@pytest.mark.skipif(program() is None, reason="Chromium is not installed")
def test_a_map_of_many_states_is_one_image_that_answers_the_pointer(page):
    browser = Chromium()
    try:
        browser.open(page)
        assert browser.complaints == []
        assert browser.requests == [] or all(address.startswith("data:") for address in browser.requests)
        assert browser.run("document.querySelectorAll('#plot-reward-map image').length") == 2
        assert browser.run("document.querySelectorAll('#plot-reward-map rect').length") < 100
        assert browser.run("document.querySelectorAll('#table-wanted tbody tr').length") == 400
        assert browser.run("document.querySelectorAll('#table-acted tbody tr').length") == 400
        # one pixel a state: the first is as the page's own numbers say
        shown = browser.run(
            "(async () => { const image = new Image(); "
            "image.src = document.querySelectorAll('#plot-reward-map image')[1].getAttribute('href'); "
            "await image.decode(); const sheet = document.createElement('canvas'); "
            "sheet.width = image.width; sheet.height = image.height; const pen = sheet.getContext('2d'); "
            "pen.drawImage(image, 0, 0); return [image.width, image.height, "
            "'rgb(' + [...pen.getImageData(3, 7, 1, 1).data].slice(0, 3) + ')', "
            f"colour((wanted.mean[0][7 * {SIDE} + 3] - wanted.low) / (wanted.high - wanted.low))]; }})()"
        )
        assert shown[:2] == [SIDE, SIDE]
        assert shown[2] == shown[3]
        x, y = browser.middle_of("#plot-reward-map .hit")
        browser.hover(x + 1, y + 1)
        tip = browser.run("document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent")
        assert tip.startswith(f"r{SIDE // 2}c{SIDE // 2}\nposterior")
        assert 100 < browser.run("document.querySelectorAll('#plot-policy-map .arrow').length") < 1000
    finally:
        browser.close()


def test_places_are_as_before_whatever_their_number():
    env = mm.worlds.GridWorld((2, 3))
    drawn = layout_of(env, np.ones(6))
    assert not drawn["many"]
    assert drawn["size"] == 1.0
    assert [[s for s, _ in some] for some in drawn["members"]] == [[3], [0], [4], [1], [5], [2]]
    ordered = by_state(drawn)
    assert ordered["xy"] == np.asarray(env.coordinates).tolist()
    assert sorted(map(sorted, ordered["edges"])) == [[0, 1], [0, 3], [1, 2], [1, 4], [2, 5], [3, 4], [4, 5]]


def test_contrasts_of_too_many_are_refused_before_they_are_counted_out():
    values = xr.DataArray(np.zeros((1, 10_000, 2)), dims=("task", "state", "sample"))
    values = values.assign_coords(task=["ann"], state=np.arange(10_000))
    with pytest.raises(InputError, match="the table would have 49,995,000 contrasts"):
        contrasts_of(values, ["state"], 0.95)


def test_plans_in_blocks_are_the_plans(posterior):
    told = []
    sample = sample_of(posterior, 20, on_planned=told.append)
    whole = posterior.planned(sample.rewards, slice(None))
    np.testing.assert_array_equal(sample.plan.actions, whole.actions)
    assert told == [16, 20]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("manymotives.findings.sample.FEWEST", 10)
        assert len(sample_of(posterior).rewards) == 20
        patch.setattr("manymotives.findings.sample.ROOM", 0)
        assert len(sample_of(posterior).rewards) == 5


def test_pictures_show_the_states_that_matter(posterior):
    figure = mm.plots.rewards(posterior)
    assert "the 20 most and the 20 least wanted of 2,500 states" in figure.axes[0].get_ylabel()
    assert len(figure.axes[0].collections[-1].get_segments()) == 40
    some = mm.plots.rewards(posterior, states=["r3c4", "r0c0"], truth=posterior.mean_reward.values)
    assert [label.get_text() for label in some.axes[0].get_yticklabels()] == ["r3c4", "r0c0"]
    assert "40 most visited of 2,500" in mm.plots.choices(posterior.demonstrations, "up").get_title()
    assert "40 most visited of 2,500" in mm.plots.policies(posterior).get_ylabel()
    mm.plots.maps(posterior.environment, {"mean": posterior.mean_reward}, posterior.tasks)
    plt.close("all")


def test_mpo_is_left_out_of_scores_where_it_would_take_hours_unless_it_is_named(posterior):
    environment, reward = posterior.environment, posterior.model.reward
    data = mm.simulate(environment, posterior.mean_reward.values[:1], mm.Softmax(1.0), steps=5, episodes=2, seed=0)
    few = mm.MonteCarlo(draws=2)
    found = mm.score(posterior.model, environment, data, few, hold_out=("episodes", 2), progress=False)
    assert "MRP" in found.table["model"].tolist()
    assert "MPO" not in found.table["model"].tolist()
    assert any("MPO: left out" in warning for warning in found.warnings)
    asked = is_slow(contenders_of(mm.PolicyOptimalityModel(reward), None, [])[0][0], environment, "MPO")
    assert not asked
