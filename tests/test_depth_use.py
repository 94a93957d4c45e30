"""What is made of agents who look some steps ahead: files, reports, what choices can show, profiles, commands."""

from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import manymotives as mm
from cases import in_turn
from manymotives.io.records import record_of
from oracle_depth import log_likelihood
from places import HOUSE, TRIANGLE
from test_commands import QUICK, run
from test_depth import FEATURE, RULES, SIX, WHERE, on_pairs


def test_draws_are_saved_resumed_and_used_as_the_model_says(tmp_path):
    rewards = np.repeat(FEATURE[None], 3, axis=0)
    choices = mm.simulate(SIX, rewards, mm.Softmax(4.0), steps=80, seed=1, depth=2, tasks=["a", "b", "c"])
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(2.0), mm.Hierarchical(), depth=2)
    assert model.abbreviation == "MRP, depth 2"
    short = mm.HMC(chains=2, draws=30, warmup=30, max_rounds=1)
    posterior = mm.fit(model, SIX, choices, short, progress=False)
    posterior.save(tmp_path / "run.nc")
    again = mm.load(tmp_path / "run.nc")
    assert again.model.depth == 2
    on = mm.fit(again.model, SIX, choices, short, start=again, progress=False)
    whole = mm.fit(model, SIX, choices, mm.HMC(chains=2, draws=60, warmup=30, max_rounds=1), progress=False)
    np.testing.assert_array_equal(on.rewards.values[:, -30:], whole.rewards.values[:, 30:])
    mean = posterior.mean_reward.values
    np.testing.assert_array_equal(posterior.policies(), mm.plan(SIX, mean, depth=2).policy)
    drawn = posterior.rewards.values[0, :5, 1]
    expected = mm.Softmax(2.0).policies(SIX, drawn, depth=2)
    np.testing.assert_allclose(posterior.drawn_policies(1)[:5], expected, rtol=1e-12)
    elsewhere = posterior.transfer(SIX)
    np.testing.assert_array_equal(elsewhere["policy"], posterior.policies())
    assert (elsewhere["expected_loss"] >= 0).all()
    np.testing.assert_allclose(elsewhere["choice"], posterior.predictive_policies(), rtol=1e-9)
    assert record_of(model)["depth"] == 2
    assert "depth" not in record_of(mm.RewardPolicyModel())  # files of other models stay the same
    known = replace(model, reward=mm.GaussianReward(mean=0.0, scale=1.0), sharing=mm.Separate())
    for method in (mm.EmpiricalBayes(draws=20), mm.NestedMonteCarlo(draws=20)):
        assert mm.fit(known, SIX, choices, method, progress=False).model.depth == 2


def test_the_report_says_how_many_steps_ahead_they_look(tmp_path):
    choices = mm.simulate(SIX, np.stack([FEATURE, 1 - FEATURE]), mm.Softmax(4.0), steps=80, seed=1, depth=3)
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(2.0), mm.Hierarchical(), depth=3)
    posterior = mm.fit(model, SIX, choices, mm.Gibbs(chains=2, draws=40, warmup=30), progress=False)
    page = mm.report(posterior, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "each looks 3 steps ahead" in page
    assert "over the next 3 steps" in page
    assert "Not shown" not in page


# ---- what choices can show -----------------------------------------------------------------------------------

CORRIDOR = mm.Environment(  # left, right between four places, the last of which ends an episode
    np.eye(4)[np.array([[0, 1], [0, 2], [1, 3], [3, 3]])], discount=0.9, states=list("abcd"), terminal=["d"]
)


@pytest.mark.parametrize("on", WHERE)
@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_what_choices_cannot_show_is_what_changes_no_policy(depth, on):
    rng = np.random.default_rng(0)
    for environment in (HOUSE, CORRIDOR, SIX, mm.worlds.GridWorld((2, 3), discount=0.8)):
        known = mm.identifiability(environment, on=on, depth=depth, visited=np.ones(environment.num_states))
        size = environment.num_states if on == "state" else environment.available.size
        shape = (size,) if on == "state" else environment.available.shape

        def logits(flat, environment=environment, shape=shape):
            """What soft choices show: differences between action values, in every state."""
            rewards = flat.reshape(-1, *shape)
            q = mm.plan(environment, rewards, on=on, inverse_temperature=1.0, depth=depth).q
            return np.where(environment.available, q - q.max(axis=-1, keepdims=True), 0.0).reshape(len(flat), -1)

        slopes = []
        for _ in range(6):
            at, step = rng.standard_normal(size), 1e-5 * np.eye(size)
            slopes.append(((logits(at + step) - logits(at - step)) / 2e-5).T)
        seen = np.concatenate(slopes)[:, known.exists]
        hidden = known.directions[known.exists]
        singular = np.linalg.svd(seen, compute_uv=False)
        unseen = seen.shape[1] - int((singular > 1e-6).sum())
        assert hidden.shape[1] == unseen
        assert abs(seen @ hidden).max(initial=0.0) < 1e-7


def test_a_myopic_agent_says_nothing_of_states():
    myopic = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(1.0), mm.Pooled(), depth=1)
    assert "depth=1" in myopic.warnings[0]
    assert not mm.RewardPolicyModel(mm.GaussianReward(on="state_action"), mm.Softmax(1.0), depth=1).warnings


# ---- profiles ------------------------------------------------------------------------------------------------

DEPTHS = [1, 2, 3, 4, 6, 10]


def road(length=8, discount=0.95):
    """A small reward here for who turns back, a large one some steps on: only who looks far enough goes for it."""
    on, back = np.minimum(np.arange(length) + 1, length - 1), np.zeros(length, dtype=int)
    return mm.Environment(np.eye(length)[np.stack([on, back], axis=1)], discount=discount, actions=["on", "back"])


@pytest.mark.parametrize(("depth", "rule"), in_turn([2, 3, 4], RULES, every=2))
def test_a_profile_finds_the_depth_where_choices_tell_it(depth, rule):
    place, features = road(), np.eye(8)[:, [0, 4]]
    reward = mm.GaussianReward(features, names=["near", "far"], mean=[1.0, 4.0], scale=0.3)
    truth = np.array([1.0, 4.0]) @ features.T
    choices = mm.simulate(place, truth[None], RULES[rule](2.0), steps=20, episodes=10, seed=1, depth=depth)
    model = mm.RewardPolicyModel(reward, RULES[rule](2.0), mm.Pooled())
    found = mm.profile(model, place, choices, "depth", DEPTHS, progress=False)
    assert found.best == depth
    assert found.identified
    assert found.interval == (depth, depth)
    assert str(found) == f"The choices support a depth of {depth}."
    if depth != 3:
        return
    z = np.linspace(-5.0, 5.0, 17)
    prior = -(z**2) / 2
    exact = []
    for each in DEPTHS:
        joint = [
            log_likelihood(
                place.tensor,
                place.discount,
                on_pairs(np.array([1.0 + 0.3 * first, 4.0 + 0.3 * second]) @ features.T, place),
                each,
                2.0,
                choices.counts[0],
                rule == "soft",
            )
            + prior[i]
            + prior[j]
            for i, first in enumerate(z)
            for j, second in enumerate(z)
        ]
        top = max(joint)
        exact.append(top + np.log(np.exp(np.array(joint) - top).sum()))
    relative = np.array(exact) - max(exact)
    likely = relative > -20
    # Laplace: a normal for what is nearly one
    np.testing.assert_allclose(found.table["relative"][likely], relative[likely], atol=0.3)


def test_what_profiles_say_of_depths():
    nowhere = mm.Environment(np.full((2, 2, 2), 0.5), discount=0.9)  # what is done changes nothing but the reward
    rng = np.random.default_rng(0)
    choices = mm.simulate(nowhere, rng.normal(size=(1, 2, 2)), mm.Softmax(1.0), steps=50, on="state_action")
    reward = mm.GaussianReward(on="state_action", mean=0.0, scale=1.0)
    model = mm.RewardPolicyModel(reward, mm.Softmax(1.0), mm.Pooled())
    flat = mm.profile(model, nowhere, choices, "depth", progress=False)
    assert flat.table["value"].tolist() == [1, 2, 3, 5, 10]
    assert abs(flat.table["relative"]).max() < 1e-6
    assert not flat.identified
    assert str(flat).startswith("The depth is not identified: every value from 1 to 10")
    near_sighted = road(discount=0.5)
    far = mm.simulate(near_sighted, 4 * np.eye(8)[[4]], mm.Softmax(2.0), steps=20, episodes=10, seed=1)
    reward = mm.GaussianReward(np.eye(8)[:, [4]], mean=4.0, scale=0.3)
    model = mm.RewardPolicyModel(reward, mm.Softmax(2.0), mm.Pooled())
    enough = mm.profile(model, near_sighted, far, "depth", [1, 2, 5, 20, 40], progress=False)
    assert not enough.identified
    assert "a depth of at least 5; values up to the end of the grid, 40" in str(enough)
    truth = 2 * rng.normal(size=(3, 2))
    near = mm.simulate(TRIANGLE, truth[None], mm.Softmax(2.0), steps=200, on="state_action", depth=1)
    reward = mm.GaussianReward(truth[..., None], on="state_action", mean=1.0, scale=0.2)
    model = mm.RewardPolicyModel(reward, mm.Softmax(2.0), mm.Pooled())
    myopic = mm.profile(model, TRIANGLE, near, "depth", progress=False)
    assert str(myopic) == "The choices support a depth of 1."
    assert myopic.identified
    axes = mm.plots.profile(enough)
    assert axes.get_xlabel() == "depth"
    plt.close(axes.figure)


# ---- with other parts of the library -------------------------------------------------------------------------


@pytest.mark.long
def test_depths_beside_covariates_several_environments_and_scores():
    choices = mm.simulate(SIX, np.repeat(FEATURE[None], 4, axis=0), mm.Softmax(4.0), steps=40, seed=1, depth=2)
    table = pd.DataFrame({"task": choices.tasks, "age": [1.0, 2.0, 3.0, 4.0]})
    sharing = mm.Hierarchical("age", covariates=table)
    reward = mm.GaussianReward(FEATURE[:, None], names=["food"], scale=0.5)
    short = mm.HMC(chains=2, draws=20, warmup=20, thin=1, max_rounds=1)
    model = mm.RewardPolicyModel(reward, mm.Softmax(4.0), sharing, depth=2)
    posterior = mm.fit(model, SIX, choices, short, progress=False)
    at = posterior.predict_at({"age": [2.0]})
    chosen = at.loc[at["quantity"] == "choice", "mean"]
    assert chosen.between(0, 1).all()
    known = mm.RewardPolicyModel(reward, mm.Softmax(4.0), mm.Hierarchical(), depth=2)
    found = mm.recover(known, SIX, tasks=3, steps=30, method=short, progress=False)
    assert (found.losses.drop(columns="task") >= -1e-9).all(axis=None)
    both = {"one": SIX, "other": mm.worlds.RandomMDP(states=6, actions=3, seed=4, discount=0.9)}
    together = mm.simulate(both, np.tile(FEATURE, 2)[None], mm.Softmax(4.0), steps=40, episodes=2, seed=1, depth=2)
    free = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(2.0), mm.Pooled(), depth=2)
    assert mm.fit(free, both, together, short, progress=False).model.depth == 2
    scored = mm.score({"two": known, "three": replace(known, depth=3)}, SIX, choices, short, progress=False)
    assert {"two", "three"} <= set(scored.by_task["model"])


def test_depth_on_the_command_line(tmp_path):
    made = run("simulate", "grid", "--out", tmp_path / "made", "--subjects", 2, "--steps", 20, "--size", 2)
    assert made.exit_code == 0, made.output
    tables = (tmp_path / "made" / "choices.csv", "--environment", tmp_path / "made" / "environment.csv")
    said = run("fit", *tables, "--depth", 3, "--dry-run")
    assert "looking 3 steps ahead" in " ".join(said.output.split())
    result = run("fit", *tables, "--depth", 3, *QUICK, "--out", tmp_path / "run.nc")
    assert result.exit_code == 0, result.output
    assert mm.load(tmp_path / "run.nc").model.depth == 3
    wrong = run("fit", *tables, "--depth", 0, "--dry-run")
    assert wrong.exit_code == 2
    assert "--depth must be a whole number of steps" in " ".join(wrong.output.split())
