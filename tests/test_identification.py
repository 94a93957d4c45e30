"""Which differences between rewards each environment shows, and which only all of them: against numerical ranks."""

import re

import numpy as np
import pytest

import manymotives as mm
from environments_examples import BOTH, environment_from
from environments_oracle import action_values, random_world

SHORT = mm.HMC(chains=2, draws=30, warmup=30, max_rounds=1)


def fork(first, second):
    """From a hub one goes to one of two places, and back."""
    states = ["hub", first, second]
    moves = {
        "hub": {"one": {first: 1.0}, "other": {second: 1.0}},
        first: {"back": {"hub": 1.0}},
        second: {"back": {"hub": 1.0}},
    }
    full = {s: {a: {t: row.get(t, 0.0) for t in states} for a, row in moves[s].items()} for s in states}
    return {"states": states, "actions": ["one", "other", "back"], "moves": full, "discount": 0.9}


FORKS = {"A": fork("x", "y"), "B": fork("y", "z")}  # x against y, and y against z: x against z only in both


def jacobian(world, names, rng, step=1e-6):
    """Of differences between values of actions in the rewards of names, by finite differences at a random reward."""
    reward = dict(zip(names, rng.normal(size=len(names))))

    def contrasts(change):
        q = action_values(world, lambda s, a: reward[s] + change.get(s, 0.0))
        return np.array([each - next(iter(q[s].values())) for s in world["states"] for each in q[s].values()])

    return np.stack([(contrasts({name: step}) - contrasts({name: -step})) / (2 * step) for name in names], axis=1)


def hidden(matrix):
    return matrix.shape[1] - np.linalg.matrix_rank(matrix, tol=1e-5)


def test_only_both_environments_together_show_a_difference():
    environments = {name: environment_from(world) for name, world in FORKS.items()}
    found = mm.findings.identification(environments)
    assert found.rewards == ("hub", "x", "y", "z")
    assert found.only_together == [("x", "z")]
    table = found.to_frame().set_index(["reward", "other_reward"])
    assert table.loc[("x", "y")].tolist() == [True, False, True]
    assert table.loc[("y", "z")].tolist() == [False, True, True]
    assert table.loc[("hub", "x")].tolist() == [False, False, False]  # a constant on both places changes no choice


@pytest.mark.parametrize("seed", range(8))
def test_hidden_directions_are_those_of_numerical_ranks(seed):
    rng = np.random.default_rng(seed)
    if seed == 0:
        worlds = FORKS
    else:
        few = ["l"] if seed % 2 else ["l", "r"]  # without a choice an environment shows nothing
        worlds = {
            "A": random_world(rng, ["w", "x", "y"], few),
            "B": random_world(rng, ["x", "z", "end"], ["l", "r"], terminal=["end"] if seed > 4 else ()),
        }
    environments = {name: environment_from(world) for name, world in worlds.items()}
    names = list(mm.Environments(environments).state_names)
    each = [jacobian(world, names, rng) for world in worlds.values()]
    found = mm.findings.identification(environments)
    assert found.hidden.tolist() == [hidden(matrix) for matrix in each]
    assert found.hidden_together == hidden(np.concatenate(each))


def test_weights_of_features_are_identified_together():
    environments = {name: environment_from(world) for name, world in FORKS.items()}
    features = {"A": [[0.0, 0.0], [1.0, 0.0], [0.0, 0.0]], "B": [[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]]}
    found = mm.findings.identification(environments, reward=mm.GaussianReward(features=features))
    assert found.of_features
    assert found.hidden.tolist() == [1, 1]
    assert found.hidden_together == 0
    assert found.only_together == [(0, 1)]


def fitted(reward=None):
    environments = {name: environment_from(world) for name, world in FORKS.items()}
    both = mm.Environments(environments)
    rewards = both.lifted([[0.0, 1.0, 0.0, 2.0]] * 2)
    choices = mm.simulate(environments, rewards, mm.Softmax(2.0), steps=10, episodes=8, seed=3)
    model = mm.RewardPolicyModel(reward or mm.GaussianReward(mean=0.0, scale=1.0))
    return mm.fit(model, environments, choices, SHORT, progress=False)


def test_a_posterior_says_what_its_environments_identified(tmp_path):
    posterior = fitted()
    assert mm.findings.identification(posterior).only_together == [("x", "z")]
    said = " ".join(posterior.unidentified())
    assert "among “x”, “y” and “z”" in said
    assert "the reward of “hub”" in said
    contrasts = posterior.to_frame("state").set_index(["state", "other_state"])["identified"]
    assert contrasts.loc[("x", "z")].all()
    assert not contrasts.loc[("hub", "z")].any()
    page = tmp_path / "report.html"
    mm.report(posterior, page)
    text = page.read_text(encoding="utf-8")
    assert "What each environment can show" in text
    assert "only by choices in several together: those between “x” and “z”" in text
    assert re.search(r'"cells": ?\["hub", ?"x", ?"y", ?"z"\]', text)  # what is wanted is shown by names


def test_each_environment_narrows_what_it_shows():
    found = mm.findings.contraction(fitted(), mm.HMC(chains=2, draws=200, warmup=100, max_rounds=1)).set_index("state")
    assert list(found.columns) == ["prior_sd", "sd_without_A", "sd_without_B", "sd"]
    assert found.loc["x", "sd"] < found.loc["x", "sd_without_A"]  # only A has x
    assert found.loc["z", "sd"] < found.loc["z", "sd_without_B"]


def test_pictures_and_tables_are_drawn_of_several(tmp_path):
    choices = mm.simulate(BOTH, [[1.0, 0.0, 1.0, 0.0]] * 2, mm.Softmax(2.0), steps=5, episodes=4)
    for reward in (mm.DirichletReward(), mm.GaussianReward(features=np.eye(4)[:, :2], residual=True)):
        posterior = mm.fit(mm.RewardPolicyModel(reward), BOTH, choices, SHORT, progress=False)
        mm.plots.rewards(posterior, truth=[[1.0, 0.0, 1.0, 0.0]] * 2)
        mm.plots.learning(posterior)
        mm.report(posterior, tmp_path / "report.html", truth=np.array([[1.0, 0.0, 1.0, 0.0]] * 2))
    switching = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(2.0), switching=mm.Switching(motives=2))
    mm.report(mm.fit(switching, BOTH, choices, SHORT, progress=False), tmp_path / "motives.html")
