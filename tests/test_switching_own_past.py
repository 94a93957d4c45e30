"""Models whose motives switch, scored with a held-out task's own past: causal, at first everybody's, and worth it."""

from dataclasses import replace

import numpy as np
import pytest

import manymotives as mm
from manymotives.models.hidden_markov import log_predictions
from manymotives.scoring import own_past
from manymotives.scoring.splits import only
from places import TRIANGLE
from switching_examples import STAY

FIRST_LOOK = mm.EmpiricalBayes(draws=5, starts=1)
REWARDS = {
    "Pooled": mm.GaussianReward(mean=0.0, scale=mm.HalfNormal(1.0), groups="all", on="state_action"),
    "Hierarchical": mm.GaussianReward(groups="all", on="state_action"),
}


def habits(spread, seed=0, tasks=6, steps=300):
    """Tasks with two motives each, around common ones."""
    rng = np.random.default_rng(seed)
    common = np.array([[[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [[0.0, 2.0], [1.0, 0.0], [0.0, 2.0]]])
    wanted = np.stack([common + spread * rng.normal(size=common.shape) for _ in range(tasks)])
    environment = mm.Environment(TRIANGLE.transitions, discount=0.0)
    agent = mm.worlds.SwitchingAgent(mm.SoftOptimal(1.0), STAY)
    found, _ = mm.simulate(environment, wanted, agent, steps=steps, episodes=2, seed=seed, on="state_action")
    return environment, found


def fitted(sharing, environment, chosen, task=0, by="everywhere"):
    model = mm.RewardPolicyModel(REWARDS[sharing], mm.SoftOptimal(), getattr(mm, sharing)(), mm.Switching(2, by=by))
    return mm.fit(model, environment, only(chosen, chosen.task != task), FIRST_LOOK, progress=False)


@pytest.mark.parametrize(("sharing", "by"), [("Pooled", "everywhere"), ("Hierarchical", "state")])
def test_predictions_are_everybodys_at_first_and_never_know_what_comes_later(sharing, by):
    environment, chosen = habits(1.0)
    posterior = fitted(sharing, environment, chosen, by=by)
    found = own_past.predict_with_own_past(posterior, chosen, 0)
    mine = np.flatnonzero(chosen.task == 0)
    assert (found[chosen.task != 0] == 0).all()
    assert (found[mine] < 0).all()
    one = own_past._one_task(posterior, 0)
    everybody = own_past._everybody(posterior, one, 0)
    segments = own_past._segments(posterior, chosen, chosen.task == 0)
    cold = log_predictions(segments, everybody.rows, one.log_policies(everybody.motives.mean, np.arange(2)))
    first = own_past.LONGEST
    np.testing.assert_array_equal(found[mine][:first], cold[:first])
    assert (found[mine][first:] != cold[first:]).any()
    cut = mine[400]
    later = np.arange(len(chosen.action)) > cut
    other = replace(chosen, action=np.where(later & (chosen.task == 0), 1 - chosen.action, chosen.action))
    changed = own_past.predict_with_own_past(posterior, other, 0)
    np.testing.assert_array_equal(changed[: cut + 1], found[: cut + 1])
    assert (changed[cut + 1 : mine[-1]] != found[cut + 1 : mine[-1]]).any()


@pytest.mark.parametrize("spread", [1.2, 0.0])
def test_own_past_is_worth_something_where_tasks_differ_and_costs_little_where_not(spread):
    environment, chosen = habits(spread, seed=1)
    gains = []
    for task in (0, 3):
        posterior = fitted("Pooled", environment, chosen, task)
        own = own_past.predict_with_own_past(posterior, chosen, task)
        gains.append((own - posterior.log_predictions(chosen))[chosen.task == task])
    gain = np.concatenate(gains)
    assert gain.mean() > (2 * gain.std() / np.sqrt(len(gain)) if spread else -0.01)


def test_scores_have_a_row_with_own_past():
    environment, chosen = habits(0.5, tasks=2, steps=20)
    model = mm.RewardPolicyModel(REWARDS["Pooled"], mm.SoftOptimal(), mm.Pooled(), mm.Switching(2))
    score = mm.score(
        {"motives": model}, environment, chosen, FIRST_LOOK, hold_out=("tasks", "own past"), beside=[], progress=False
    )
    assert {"motives", "motives and own past"} < set(score.by_task["model"])
    assert np.isfinite(score.by_task["log_likelihood"]).all()
    assert not any("mixed" in warning or "without own past" in warning for warning in score.warnings)


def test_models_without_own_past_are_named():
    environment, chosen = habits(0.5, tasks=2, steps=20)
    model = mm.RewardPolicyModel(switching=mm.Switching(2), sharing=mm.Pooled())
    method = mm.Gibbs(chains=1, draws=5, warmup=5)
    score = mm.score(
        {"shares": model}, environment, chosen, method, hold_out=("tasks", "own past"), beside=[], progress=False
    )
    assert any(warning.startswith("shares: scored without own past.") for warning in score.warnings)
    assert "shares and own past" not in set(score.by_task["model"])


def test_a_task_whose_others_did_nothing():
    """Nobody shows how tasks differ: its own past is learnt from all the same."""
    environment, chosen = habits(0.5, tasks=2, steps=100)
    posterior = fitted("Pooled", environment, only(chosen, chosen.task == 0), task=0)
    found = own_past.predict_with_own_past(posterior, only(chosen, chosen.task == 0), 0)
    assert np.isfinite(found).all()
    assert (found < 0).all()


def test_coordinates_are_found_again_with_a_residual():
    """Weights and residual of a posterior give its rewards back."""
    environment, chosen = habits(0.5, tasks=3, steps=40)
    features = np.random.default_rng(0).normal(size=(3, 2, 2))
    reward = mm.GaussianReward(features, mean=0.0, scale=1.0, on="state_action", residual=True)
    model = mm.RewardPolicyModel(reward, mm.SoftOptimal(), mm.Pooled(), mm.Switching(2))
    posterior = mm.fit(model, environment, chosen, FIRST_LOOK, progress=False)
    one, drawn = own_past._one_task(posterior, 0), posterior.data["posterior"].dataset.mean(("chain", "draw"))
    found = one.rewards(own_past._coordinates(one, drawn))
    np.testing.assert_allclose(found, drawn["reward"].values, atol=1e-10)
