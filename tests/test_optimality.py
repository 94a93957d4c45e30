"""What the policy-optimality model promises its users: conformance, properties, warnings."""

import json
from contextlib import contextmanager
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

import manymotives as mm
from cases import in_step
from goodness_of_fit import SIGNIFICANCE
from manymotives.inference import Progress, sample
from places import HOUSE, TRIANGLE

REWARDS = {
    "Dirichlet": mm.DirichletReward(),
    "Gaussian on pairs": mm.GaussianReward(on="state_action"),
    "an array": np.eye(3)[:, :],
    "a set on pairs": mm.optimality.RewardSet(
        np.random.default_rng(0).random((4, 3, 2)), [0.1, 0.2, 0.3, 0.4], ["a", "b", "c", "d"], on="state_action"
    ),
}
SHARING = {"Hierarchical": mm.Hierarchical(), "Separate": mm.Separate(), "Pooled": mm.Pooled()}
SET = mm.optimality.RewardSet(
    np.random.default_rng(0).dirichlet(np.ones(3), size=8), np.random.default_rng(1).dirichlet(np.full(8, 3.0))
)


def demonstrations(environment=HOUSE, tasks=("ann", "bob"), steps=20, episodes=3, seed=0):
    rewards = np.random.default_rng(seed).dirichlet(np.ones(environment.num_states), size=len(tasks))
    return mm.simulate(
        environment, rewards, mm.Softmax(3.0), steps=steps, episodes=episodes, seed=seed, tasks=list(tasks)
    )


def run(model, environment, counts, draws=500, seed=0):
    target = model.target(environment, tuple(range(len(counts))), np.asarray(counts, dtype=float))
    return sample(mm.OptimalityMonteCarlo(draws=draws), target, seed=seed)


@pytest.mark.parametrize(
    ("reward", "sharing", "factorisation"),
    in_step(REWARDS, SHARING, ["reward_given_policy", "policy_given_reward"]),
)
def test_every_model_gives_a_whole_posterior(reward, sharing, factorisation, tmp_path):
    model = mm.PolicyOptimalityModel(REWARDS[reward], sharing=SHARING[sharing], factorisation=factorisation)
    given = reward in ("an array", "a set on pairs")
    method = mm.OptimalityMonteCarlo(draws=60, num_rewards=None if given else 40)
    made = mm.fit(model, HOUSE, demonstrations(), method, seed=1, progress=False)
    cells = ("state",) if model.reward.on == "state" else ("state", "action")
    assert made.rewards.dims == ("chain", "draw", "task", *cells)
    assert made.rewards.sizes["chain"] * made.rewards.sizes["draw"] == 60
    assert made.mean_reward.dims == ("task", *cells)
    assert made.mean_reward["task"].values.tolist() == ["ann", "bob"]
    assert made.weights.dims == ("task", "candidate")
    np.testing.assert_allclose(made.weights.sum("candidate"), 1.0)
    assert (
        made.weights.sizes["candidate"]
        == made.reward_set.sizes["candidate"]
        == (len(model.reward.rewards) if given else 40)
    )
    assert (made.gaps > made.losses).all()
    assert made.gaps.dims == made.losses.dims == ("chain", "draw", "task")
    for policies in (made.policies(), made.predictive_policies()):
        assert policies.dims == ("task", "state", "action")
        np.testing.assert_allclose(policies.sum("action"), 1.0)
        assert (policies.where(~HOUSE.available).fillna(0.0) == 0).isel(state=[0, 1]).all()
    frame = made.to_frame()
    assert {"task", "state", "mean", "sd", "lower", "upper"} <= set(frame)
    assert "Theorem 1" in repr(made.summary())
    assert "Theorem 1" in made.summary()._repr_html_()
    assert made.data["log_likelihood"]["choices"].sizes["episode"] == 6
    assert np.isfinite(made.data["log_likelihood"]["choices"].values).all()

    again = mm.fit(model, HOUSE, demonstrations(), method, seed=1, progress=False)
    np.testing.assert_array_equal(again.rewards, made.rewards)
    made.save(tmp_path / "run.nc")
    back = mm.load(tmp_path / "run.nc")
    assert type(back) is type(made)
    assert repr(back.summary()) == repr(made.summary())
    np.testing.assert_array_equal(back.mean_reward, made.mean_reward)
    assert back.data.attrs["model"] == made.data.attrs["model"]
    if model.shares_rewards or sharing == "Pooled":
        assert made.population()["reward"].dims == ("chain", "draw", *cells)
    else:
        with pytest.raises(mm.errors.InputError, match="do not inform each other"):
            made.population()


def test_a_table_of_rewards_brings_its_names():
    """Columns in any order: a reward goes to the state that it names."""
    table = pd.DataFrame(
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]], index=["eat", "rest"], columns=["garden", "hall", "kitchen"]
    )
    made = mm.fit(mm.PolicyOptimalityModel(table), HOUSE, demonstrations(), progress=False)
    assert made.weights["candidate"].values.tolist() == ["eat", "rest"]
    assert made.reward_set.sel(candidate="eat", state="kitchen") == 1.0
    assert made.reward_set.sel(candidate="rest", state="garden") == 1.0
    with pytest.raises(mm.errors.InputError, match="the rewards of the set: unknown state 'attic'"):
        mm.fit(
            mm.PolicyOptimalityModel(table.rename(columns={"hall": "attic"})), HOUSE, demonstrations(), progress=False
        )


def test_policies_that_are_not_kept_have_the_same_mean(monkeypatch):
    counts = np.random.default_rng(3).integers(0, 9, size=(2, 3, 2))
    for empty_set in ("condition", "drop", "prior"):
        model = mm.PolicyOptimalityModel(SET, optimality=mm.optimality.ExponentialOptimality(20.0), empty_set=empty_set)
        kept = run(model, TRIANGLE, counts)
        monkeypatch.setattr("manymotives.inference.optimality.rewards_given_policies.LARGEST_POLICIES", 0)
        lost = run(model, TRIANGLE, counts)
        monkeypatch.undo()
        assert lost.policies is None
        np.testing.assert_array_equal(lost.policy_mean, kept.policy_mean)
        np.testing.assert_allclose(kept.policies[0].mean(axis=0), kept.policy_mean, atol=0.05)


def test_a_reward_of_no_weight_is_nobodys():
    strict = mm.PolicyOptimalityModel(
        mm.optimality.RewardSet(np.eye(3), weights=[1.0, 1.0, 0.0]),
        mm.optimality.DirichletPolicy(0.5),
        mm.optimality.ExponentialOptimality(3000.0),
    )
    best = 1000 * mm.plan(TRIANGLE, np.eye(3)).policy
    for factorisation in ("reward_given_policy", "policy_given_reward"):
        found = run(replace(strict, factorisation=factorisation), TRIANGLE, best)
        assert np.isfinite(found.weights).all()
        assert (found.weights[:, 2] == 0).all()
        assert (found.index < 2).all()


def test_a_strict_prior_does_not_rule_out_who_is_good():
    """Nobody who has not been seen is that good: the average over policies beforehand needs those of the tasks."""
    goals = np.vstack([np.eye(3), [[0.5, 0.5, 0.5001]]])
    best = 1000 * mm.plan(TRIANGLE, goals[:1]).policy
    model = mm.PolicyOptimalityModel(
        goals,
        mm.optimality.DirichletPolicy(1.0),
        mm.optimality.UniformOptimality(0.02),
        sharing=mm.Separate(),
        factorisation="policy_given_reward",
    )
    assert run(model, TRIANGLE, best).weights[0].argmax() == 0


def test_names_of_rewards_are_kept(tmp_path):
    wishes = mm.optimality.RewardSet(np.eye(3), names=["hall", "kitchen", "garden"])
    made = mm.fit(mm.PolicyOptimalityModel(wishes), HOUSE, demonstrations(), progress=False)
    assert made.weights["candidate"].values.tolist() == ["hall", "kitchen", "garden"]
    made.save(tmp_path / "run.nc")
    assert mm.load(tmp_path / "run.nc").model.reward.names == ("hall", "kitchen", "garden")


def test_a_distribution_is_saved_by_name(tmp_path):
    prior = mm.optimality.DistributionOptimality(stats.weibull_min(1.5, scale=2.0))
    made = mm.fit(mm.PolicyOptimalityModel(np.eye(3), optimality=prior), HOUSE, demonstrations(), progress=False)
    assert "weibull_min(1.5, scale=2.0)" in json.loads(made.data.attrs["model"])["optimality"]["distribution"]
    made.save(tmp_path / "run.nc")
    back = mm.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(back.policies(), made.policies())
    with pytest.raises(mm.errors.InputError, match="holds only the name"):
        mm.fit(back.model, HOUSE, demonstrations(), progress=False)


# ---- properties ----------------------------------------------------------------------------------------------------


def test_as_printed_other_tasks_say_nothing():
    """What docs/optimality-theory.md proves: with a known concentration, a task's weights are its own."""
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 9, size=(3, 3, 2))
    others = counts.copy()
    others[1:] = rng.integers(0, 9, size=(2, 3, 2))
    model = mm.PolicyOptimalityModel(SET, optimality=mm.optimality.ExponentialOptimality(5.0))
    np.testing.assert_array_equal(run(model, TRIANGLE, counts).weights[0], run(model, TRIANGLE, others).weights[0])
    shared = replace(model, factorisation="policy_given_reward", reward_concentration=0.5)
    difference = run(shared, TRIANGLE, counts).weights[0] - run(shared, TRIANGLE, others).weights[0]
    assert np.abs(difference).max() > 0.02


def test_without_choices_policies_are_the_prior_and_rewards_what_it_implies():
    model = mm.PolicyOptimalityModel(SET, factorisation="policy_given_reward", sharing=mm.Separate())
    found = run(model, TRIANGLE, np.zeros((1, 3, 2)), draws=4000)
    np.testing.assert_allclose(found.weights[0], SET.weights, atol=0.02)
    printed = run(mm.PolicyOptimalityModel(SET), TRIANGLE, np.zeros((1, 3, 2)), draws=4000)
    assert stats.kstest(printed.policies[0, :, 0, 0, 0], "uniform").pvalue > SIGNIFICANCE


def test_many_optimal_choices_find_the_reward():
    """Which of the rewards of a set were they acting on? With enough choices and a strict prior, there is no doubt."""
    wishes = np.eye(3)
    best = mm.plan(TRIANGLE, wishes).policy
    model = mm.PolicyOptimalityModel(
        wishes, mm.optimality.DirichletPolicy(0.5), mm.optimality.ExponentialOptimality(20.0)
    )
    for factorisation in ("reward_given_policy", "policy_given_reward"):
        found = run(replace(model, factorisation=factorisation), TRIANGLE, 1000 * best)
        assert (found.weights.argmax(axis=1) == np.arange(3)).all()
        assert found.weights.max(axis=1).min() > 0.95


def test_blocks_do_not_matter(monkeypatch):
    """Policies come in chunks of their own: the same numbers however many are judged at a time."""
    counts = np.random.default_rng(3).integers(0, 9, size=(2, 3, 2))
    for factorisation in ("reward_given_policy", "policy_given_reward"):
        model = mm.PolicyOptimalityModel(SET, factorisation=factorisation)
        whole = run(model, TRIANGLE, counts, draws=450)
        for module in ("rewards_given_policies", "policies_given_rewards"):
            monkeypatch.setattr(f"manymotives.inference.optimality.{module}.AT_A_TIME", 1)
        parts = run(model, TRIANGLE, counts, draws=450)
        monkeypatch.undo()
        np.testing.assert_allclose(parts.weights, whole.weights, rtol=1e-12)
        np.testing.assert_array_equal(parts.index, whole.index)
        np.testing.assert_array_equal(parts.policies, whole.policies)


class Impatient(Progress):
    """Somebody who presses Ctrl-C after two hundred policies."""

    @contextmanager
    def of(self, total, unit):
        yield self

    def update(self, done, note=""):
        if done >= 200:
            raise KeyboardInterrupt


def test_ctrl_c_keeps_what_there_is(monkeypatch):
    counts = np.random.default_rng(3).integers(0, 9, size=(2, 3, 2))
    target = mm.PolicyOptimalityModel(SET).target(TRIANGLE, ("a", "b"), counts.astype(float))
    monkeypatch.setattr("manymotives.inference.optimality.rewards_given_policies.AT_A_TIME", 1)
    found = sample(mm.OptimalityMonteCarlo(draws=1000), target, seed=0, progress=Impatient())
    assert found.index.shape == (1, 200, 2)
    assert "interrupted after 200 of 1000 policies." in found.warnings
    short = sample(mm.OptimalityMonteCarlo(draws=200), target, seed=0)
    np.testing.assert_allclose(found.weights, short.weights, rtol=1e-12)


def test_pictures():
    made = mm.fit(mm.PolicyOptimalityModel(np.eye(3)), HOUSE, demonstrations(), progress=False)
    assert mm.plots.weights(made).get_title() == "Which reward each task has"
    assert "in units of reward" in mm.plots.optimality(made).get_xlabel()
    mm.plots.rewards(made)
    plt.close("all")


def test_a_small_concentration_does_not_underflow():
    policies = mm.optimality.DirichletPolicy().draw(
        np.random.default_rng(0), np.full(1000, 1e-3), np.zeros((3, 2)), np.ones((3, 2), bool)
    )
    assert np.isfinite(policies).all()
    np.testing.assert_allclose(policies.sum(axis=2), 1.0)
    assert abs(policies[:, 0, 0].mean() - 0.5) < 4 * 0.5 / np.sqrt(1000)


def test_warnings_say_what_a_statistician_would():
    flat = np.vstack([np.eye(3), [[0.5, 0.5, 0.5001]]])
    made = mm.fit(mm.PolicyOptimalityModel(flat), HOUSE, demonstrations(), progress=False)
    assert not any("nearly every policy" in warning for warning in made.warnings)  # a terminal state: constants matter
    made = mm.fit(mm.PolicyOptimalityModel(flat), TRIANGLE, demonstrations(TRIANGLE), progress=False)
    assert any("nearly every policy is nearly optimal for reward 3" in warning for warning in made.warnings)
    calm = mm.fit(mm.PolicyOptimalityModel(flat, scale_free=True), TRIANGLE, demonstrations(TRIANGLE), progress=False)
    assert not any("nearly every policy" in warning for warning in calm.warnings)
    assert float(calm.weights.sel(candidate=3).max()) < float(made.weights.sel(candidate=3).min())

    frame = {"subject": ["ann"] * 3 + ["bob"] * 3, "state": [0, 0, 0, 1, 1, 1], "action": [0, 1, 0, 1, 0, 1]}
    seen = mm.Demonstrations.from_frame(
        pd.DataFrame(frame), environment=TRIANGLE, task="subject", state="state", action="action"
    )
    made = mm.fit(mm.PolicyOptimalityModel(np.eye(3)), TRIANGLE, seen, progress=False)
    assert any("nobody made a choice in 1 of 3 states ('2')" in warning for warning in made.warnings)
    assert any("2 of 2 tasks made no choices" in warning for warning in made.warnings)

    sharp = mm.PolicyOptimalityModel(np.eye(3), optimality=mm.optimality.UniformOptimality(0.6))
    made = mm.fit(sharp, TRIANGLE, demonstrations(TRIANGLE), progress=False)
    assert any("lose more than the prior of the optimality gap allows" in warning for warning in made.warnings)

    blind = mm.PolicyOptimalityModel(np.eye(3), optimality=mm.optimality.ExponentialOptimality(20.0))
    made = mm.fit(blind, TRIANGLE, demonstrations(TRIANGLE), progress=False)
    assert any("lose more than the prior of the gap anticipated" in warning for warning in made.warnings)

    coarse = mm.OptimalityMonteCarlo(draws=100, num_rewards=4)
    made = mm.fit(mm.PolicyOptimalityModel(), TRIANGLE, demonstrations(TRIANGLE), coarse, progress=False)
    assert any("the set is too coarse" in warning for warning in made.warnings)
