"""Several environments, a discount of each task's own and covariates, all in one model."""

import numpy as np
import pytest

import manymotives as mm
from environments_examples import BOTH

TASKS = ["ann", "bob", "cem"]
TABLE = {"task": TASKS, "group": ["old", "old", "young"]}
UNION = mm.Environments(BOTH)


@pytest.fixture(scope="module")
def posterior():
    wanted = UNION.lifted([[1.0, 0.0], [0.0, 1.0], [0.5, 1.0]])
    own = [0.2, 0.5, 0.9]
    choices = mm.simulate(BOTH, wanted, mm.Softmax(2.0), steps=6, episodes=6, tasks=TASKS, discount=own)
    sharing = mm.Hierarchical({"reward": "group", "discount": "group"}, covariates=TABLE)
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(1.5), sharing, discount=mm.Beta(alpha=2.0, beta=2.0))
    return mm.fit(model, BOTH, choices, mm.HMC(chains=2, draws=8, warmup=8, thin=1, max_rounds=1), progress=False)


def test_likelihoods_are_those_of_each_environment_at_each_discount(posterior):
    likelihood = posterior.data["log_likelihood"].dataset["choices"]
    rewards, discounts, choices = posterior.rewards, posterior.discounts, posterior.demonstrations
    for task, name in enumerate(TASKS):
        last = {"chain": 1, "draw": -1, "task": task}
        reward, discount = rewards.isel(last).values, float(discounts.isel(last))
        expected = 0.0
        for m, member in enumerate(UNION.members):
            q = mm.plan(member.with_discount(discount), reward[UNION.member == m]).q
            acts = [UNION.actions.index(action) for action in member.actions]
            counts = choices.counts[task][UNION.member == m][:, acts]
            weights = np.where(np.isfinite(q), np.exp(1.5 * (q - q.max(axis=1, keepdims=True))), 0.0)
            share = weights / weights.sum(axis=1, keepdims=True)
            expected += (counts * np.log(np.where(counts > 0, share, 1.0))).sum()
        mine = likelihood.isel(chain=1, draw=-1).where(likelihood["episode_task"] == name, drop=True)
        assert float(mine.sum()) == pytest.approx(expected, rel=1e-8)


def test_it_is_told_and_read_again(posterior, tmp_path):
    listed = [str(name) for name in posterior.summary().table.index]
    assert any("reward_mean" in name for name in listed)
    assert not any(f"{name}: " in each for name in UNION.names for each in listed)  # one reward for a state's name
    assert {"discount", "reward"} <= set(posterior.effects()["parameter"])
    found = posterior.contrast({"group": "young"}, {"group": "old"})
    assert {"discount", "value", "choice"} <= set(found["quantity"])
    there = posterior.transfer(UNION.members[0])
    assert np.isfinite(there["value"].values).all()
    posterior.save(tmp_path / "run.nc")
    again = mm.load(tmp_path / "run.nc")
    assert again.environment.names == UNION.names
    np.testing.assert_array_equal(again.discounts, posterior.discounts)
    mm.report(again, tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_a_known_discount_is_every_environments(posterior):
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(1.5), mm.Pooled(), discount=0.3)
    target = model.bind(UNION, posterior.demonstrations)
    assert target.environment.discount == 0.3
    assert all(each.discount == 0.3 for each in target.environment.members)
    found = mm.profile(model, BOTH, posterior.demonstrations, "discount", [0.2, 0.5, 0.8], progress=False)
    assert np.isfinite(found.table["log_evidence"]).all()
