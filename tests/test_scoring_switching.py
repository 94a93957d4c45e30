"""Held-out choices of agents whose motives switch: predicted by filtering, with free policies that switch beside."""

from dataclasses import replace

import numpy as np
import pytest

import manymotives as mm

PLACE = mm.worlds.Chain(states=5, discount=0.9)
QUICK = mm.HMC(chains=2, draws=60, warmup=60, thin=2, max_rounds=1)
MODEL = mm.RewardPolicyModel(
    mm.GaussianReward(mean=0.0, scale=1.0), mm.SoftOptimal(), mm.Pooled(), mm.Switching(motives=2)
)


@pytest.fixture(scope="module")
def choices():
    """Four agents that want one end of a corridor, then the other, by turns of about twenty steps."""
    rng = np.random.default_rng(0)
    rewards = np.zeros((2, 5))
    rewards[0, 0] = rewards[1, -1] = 3.0
    policies = mm.SoftOptimal(inverse_temperature=1.0).policies(PLACE, rewards)
    lists, tasks = [], []
    for task in range(4):
        for _ in range(3):
            states, actions, state, motive = [], [], 2, int(rng.integers(2))
            for _ in range(60):
                action = int(rng.random() < policies[motive, state, 1])
                states.append(state)
                actions.append(action)
                state = int(rng.choice(5, p=PLACE.tensor[state, action]))
                motive = 1 - motive if rng.random() < 0.05 else motive
            lists.append((states, actions))
            tasks.append(f"subject {task}")
    named = [([PLACE.states[s] for s in states], [PLACE.actions[a] for a in actions]) for states, actions in lists]
    return mm.Demonstrations.from_lists(named, PLACE, tasks=tasks)


@pytest.mark.parametrize("hold_out", [("episodes", 2), "tasks"])
def test_motives_that_switch_predict_better_than_those_that_do_not(choices, hold_out):
    found = mm.score(MODEL, PLACE, choices, QUICK, hold_out=hold_out, beside=[], progress=False).table
    score = found.set_index("model")["log_likelihood"]
    assert "free policies, 2 that switch" in score
    assert score["RP, 2 motives"] > score["counts"] + 0.05
    assert score["RP, 2 motives"] > score["free policies, 2 that switch"] - 0.02
    assert (score <= 0).all()


@pytest.fixture(scope="module")
def posterior(choices):
    return mm.fit(MODEL, PLACE, choices, QUICK, seed=0, progress=False)


def test_predictions_do_not_know_what_they_predict(choices, posterior):
    """What is chosen later in a held-out episode changes no prediction before it, to the last bit."""
    late = np.arange(len(choices.action)) >= 40
    other = replace(choices, action=np.where(late, 1 - choices.action, choices.action))
    before, after = (posterior.log_predictions(each) for each in (choices, other))
    assert np.array_equal(before[:40], after[:40])
    assert not np.array_equal(before[40:60], after[40:60])
    smoothed, cheating = (posterior.motives(each, "smoothed").values for each in (choices, other))
    assert not np.allclose(smoothed[:40], cheating[:40])  # the control: probabilities given the whole episode
    filtered, honest = (posterior.motives(each, "filtered").values for each in (choices, other))
    assert np.array_equal(filtered[:40], honest[:40])


def test_draws_of_motives_cannot_be_reweighted(posterior):
    with pytest.raises(ValueError, match="cannot be reweighted"):
        mm.score(posterior, method="psis", progress=False)
