"""Designs of every kind of model, of posteriors, with starts and odd candidates; what they say, draw and write."""

import json

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app

ROOM = mm.worlds.GridWorld((2, 3), slip=0.1, discount=0.9)
WALL = mm.worlds.GridWorld([".#.", "..."], slip=0.1, discount=0.9)
ROOMS = {"room": ROOM, "wall": WALL}
GAUSSIAN = mm.GaussianReward(mean=0.0, scale=1.0)
WEIGHTS = mm.GaussianReward(
    features={"room": np.eye(6)[:, :2], "wall": np.eye(5)[:, :2]}, names=["a", "b"], mean=0.0, scale=1.0
)
KINDS = {
    "dirichlet, a population": mm.RewardPolicyModel(),
    "beta, separate": mm.RewardPolicyModel(mm.BetaReward(alpha=1.0, beta=2.0), mm.SoftOptimal(3.0), mm.Separate()),
    "pairs": mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=1.0, on="state_action"), mm.Softmax(2.0)),
    "features, scales inferred": mm.RewardPolicyModel(WEIGHTS, mm.Softmax(mm.Gamma(shape=4.0, rate=2.0))),
    "shared motives": mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(2.0), mm.Mixture(spread=0.5)),
    "lapses": mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(2.0, lapse=mm.Beta(alpha=1.0, beta=9.0)), mm.Pooled()),
    "discounts": mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(2.0), mm.Pooled(), discount=mm.Beta(alpha=9.0, beta=1.0)),
    "a discount of its own": mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(2.0), mm.Pooled(), discount=0.5),
    "myopic": mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(2.0), mm.Pooled(), depth=1),
}


def quick(candidates, beliefs, contrast=None, **how):
    return mm.design(candidates, beliefs, contrast, **({"steps": 5, "draws": 120, "progress": False} | how))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_is_ranked(kind):
    model = KINDS[kind]
    found = quick(ROOMS, model, rounds=2)
    assert set(found.table["candidate"]) == {"room", "wall"}
    assert (found.table["lower"] <= found.table["upper"] + 1e-12).all()
    assert found.can_tell == (kind != "myopic")  # one step ahead, rewards of states are the same whatever is done
    assert found.table["probability_best"].sum() == pytest.approx(1.0)
    assert len(found.sequence) == 2
    assert ("hidden" in found.table) == (kind != "discounts")


def test_the_same_seed_is_the_same_design_and_another_is_another():
    first, again, other = (quick(ROOMS, KINDS["lapses"], seed=seed) for seed in (0, 0, 1))
    pd.testing.assert_frame_equal(first.table, again.table)
    assert (first.table["information"] != other.table["information"]).all()


@pytest.mark.parametrize(
    ("kind", "contrast"),
    [
        ("lapses", "lapse"),
        ("discounts", "discount"),
        ("features, scales inferred", "inverse_temperature"),
        ("features, scales inferred", "a - b"),
        ("pairs", "r0c0, right - r0c0, down"),
        ("lapses", ("r0c0", "r1c2")),
        ("lapses", {"r0c0": 1.0, "r0c2": -0.5, "r1c0": -0.5}),
        ("a discount of its own", "r0c0"),
    ],
)
def test_contrasts_of_every_kind(kind, contrast):
    found = quick(ROOMS, KINDS[kind], contrast)
    assert np.isfinite(found.table["information"]).all()
    assert found.contrast in str(found)


def test_smooth_rewards_are_for_one_environment_and_many_starts():
    model = mm.RewardPolicyModel(mm.SmoothReward(), mm.Softmax(2.0), mm.Pooled())
    found = quick({"room": ROOM}, model, "r0c0 - r1c2", starts=["r0c0", "r1c2"])
    assert list(found.table.columns[:2]) == ["candidate", "start"]
    assert set(found.table["start"]) == {"r0c0", "r1c2"}
    assert found.best[0] == "room"
    with pytest.raises(mm.errors.InputError, match=r"SmoothReward\(\) is for a single environment"):
        quick(ROOMS, model)


def test_a_start_belongs_to_a_candidate_and_changes_what_is_seen():
    """From the left, only left and right of the corridor is chosen; in the dead end there is nothing to choose."""
    moves = np.zeros((4, 2, 4))
    moves[0, 0, 1] = moves[0, 1, 2] = 1.0
    moves[1, :, 1] = moves[2, :, 2] = moves[3, :, 3] = 1.0
    place = mm.Environment(moves, discount=0.5, states=["fork", "left", "right", "dead end"])
    model = mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(3.0), mm.Pooled())
    found = quick({"forked": (place, "fork"), "stuck": (place, "dead end")}, model, "left - right")
    table = found.table.set_index("candidate")
    assert table.loc["stuck", "information"] == pytest.approx(0.0, abs=1e-12)
    assert table.loc["forked", "information"] > 2 * table.loc["forked", "error"]
    assert list(table["identified"][["forked", "stuck"]]) == [True, False]
    assert found.best == ("forked", "fork")
    assert "'stuck' from 'dead end' alone cannot settle left - right" in str(found)
    none = quick({"stuck": (place, "dead end")}, model, "left - right")
    assert not none.can_tell
    assert "No candidate is informative" in str(none)
    assert "rests on the prior alone" in str(none)


def test_terminal_states_unavailable_actions_and_other_states():
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 1] = moves[0, 1, 2] = moves[1, 0, 0] = 1.0
    available = [[True, True], [True, False], [False, False]]
    ends = mm.Environment(
        moves, discount=0.9, states=["r0c0", "x", "end"], available=available, terminal=["end"], start={"r0c0": 1.0}
    )
    over = mm.Environment(
        moves, discount=0.9, states=["r0c0", "x", "end"], available=available, terminal=["end"], start={"end": 1.0}
    )
    model = mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(2.0), mm.Pooled())
    found = quick({"room": ROOM, "ends": ends, "over": over}, model).table.set_index("candidate")
    assert found.loc["over", ["information", "error"]].tolist() == [0.0, 0.0]
    assert found.loc["ends", "information"] > 0


def test_more_draws_of_one_action_tell_nothing():
    one = mm.Environment(np.full((2, 1, 2), 0.5), discount=0.9)
    found = quick({"one": one}, mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(2.0), mm.Pooled()))
    assert found.table["information"][0] == 0
    assert not found.can_tell


def fitted(model=None, places=ROOMS, **how):
    model = model or mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(2.0), mm.Pooled())
    union = mm.Environments(places)
    wanted = union.lifted(np.random.default_rng(0).normal(size=(2, len(union.state_names))))
    seen = mm.simulate(union, wanted, mm.Softmax(2.0), steps=5, tasks=["ann", "bob"])
    return mm.fit(model, places, seen, mm.MonteCarlo(draws=400), progress=False, **how)


@pytest.fixture(scope="module")
def pooled():
    return fitted()


def test_a_posterior_knows_already_what_it_has_seen(pooled):
    before = quick({"room": ROOM}, pooled.model, draws=400, steps=20).table["information"][0]
    after = quick({"room": ROOM}, pooled, draws=400, steps=20).table["information"][0]
    assert 0 < after < before
    found = quick({"room": ROOM, "wall": WALL}, pooled, "r0c0 - r1c2", steps=20, rounds=2)
    assert found.identified
    assert found.draws == 120


def test_a_task_that_was_seen_or_a_new_one():
    both = fitted(mm.RewardPolicyModel(GAUSSIAN, mm.Softmax(2.0), mm.Hierarchical()))
    for task in ("ann", None):
        assert quick(ROOMS, both, task=task).can_tell
    alone = fitted(mm.RewardPolicyModel(GAUSSIAN, mm.Softmax([2.0, 3.0]), mm.Separate()))
    assert quick(ROOMS, alone, "r0c0 - r1c2", task="bob").draws == 120
    with pytest.raises(mm.errors.InputError, match="no population"):
        quick(ROOMS, alone)


def test_posteriors_of_features_and_of_pairs():
    model = mm.RewardPolicyModel(WEIGHTS, mm.Softmax(2.0), mm.Pooled())
    posterior = fitted(model)
    features = {"new": np.random.default_rng(1).normal(size=(6, 2))}
    found = quick({"new": ROOM}, posterior, "a - b", features=features)
    assert found.identified
    pairs = fitted(
        mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=1.0, on="state_action"), mm.Softmax(2.0), mm.Pooled())
    )
    found = quick({"wall": WALL}, pairs, "r0c0, down - r1c0, right")
    assert found.table["identified"].tolist() == [False]  # shaping


def test_it_is_drawn(pooled):
    found = quick(ROOMS, pooled, starts=["r0c0", "r1c0"])
    axes = mm.plots.design(found)
    assert axes.get_yticklabels()[0].get_text().startswith(str(found.table["candidate"][0]))
    plt.close("all")


def test_the_command_line_ranks_tables(pooled, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pooled.save("run.nc")
    for name, place in ROOMS.items():
        place.to_frame().to_csv(f"{name}.csv", index=False)
    asked = ["design", "run.nc", "--environment", "room.csv", "--environment", "wall.csv", "--steps", "5"]
    asked += ["--contrast", "r0c0 - r1c2", "--start", "r0c0", "--draws", "120", "--rounds", "2", "--out", "ranked.csv"]
    said = CliRunner().invoke(app, asked)
    assert said.exit_code == 0, said.output
    assert "Chosen one after the other" in said.output
    table = pd.read_csv("ranked.csv")
    expected = quick(ROOMS, pooled, "r0c0 - r1c2", starts=["r0c0"]).table
    np.testing.assert_allclose(table["information"], expected["information"])
    told = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)
    assert told["best"] == [expected["candidate"][0], "r0c0"]
