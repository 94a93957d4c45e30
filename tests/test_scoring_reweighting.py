"""Scores from one fit: its draws reweighted (PSIS), or its chains gone on with where a task or episode is left out."""

from dataclasses import replace

import arviz_stats
import numpy as np
import pandas as pd
import pytest

import manymotives as mm
from manymotives.inference.importance import pareto_k, smoothed
from manymotives.scoring import held_out_tasks
from manymotives.scoring.splits import by_each_episode, by_tasks, only
from manymotives.scoring.verb import _unscored
from scoring_examples import PLACE, QUICK, demonstrations


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # it is compared, not used
def test_weights_are_those_of_arviz():
    data = demonstrations(steps=5)
    posterior = mm.fit(mm.RewardPolicyModel(), PLACE, data, replace(QUICK, draws=300), progress=False)
    theirs = arviz_stats.loo(posterior.data, pointwise=True, reff=1.0)
    by_episode = posterior.data["log_likelihood"].dataset["choices"].stack(sample=("chain", "draw"))
    for episode in range(data.num_episodes):
        likelihood = by_episode.isel(episode=episode).values
        log_weights, shape = smoothed(-likelihood)
        elpd = np.logaddexp.reduce(log_weights + likelihood) - np.logaddexp.reduce(log_weights)
        assert elpd == pytest.approx(float(theirs.elpd_i[episode]), abs=1e-9)
        assert shape == pytest.approx(float(theirs.pareto_k[episode]), abs=1e-9)


@pytest.mark.parametrize("size", [50, 300, 20_000])
def test_weights_that_are_no_numbers_are_not_trusted(size):
    """Beside the largest, e⁷⁴⁵ times as large as the others, these are all 0: a tail whose shape nobody knows."""
    log_weights = np.random.default_rng(0).normal(size=size) - 1e4
    log_weights[0] = 0.0
    same, shape = smoothed(log_weights)
    assert shape == pareto_k(log_weights) == np.inf
    assert np.array_equal(same, log_weights)


def test_weights_whose_largest_are_alike_have_no_tail():
    log_weights = np.minimum(np.random.default_rng(0).normal(size=400), 0.0)
    assert smoothed(log_weights)[1] == pareto_k(log_weights) == -np.inf


@pytest.mark.long
def test_where_weights_are_no_numbers_predictions_are_those_of_a_fit_without_the_task():
    """40 000 choices: beside one draw of the population, the weights of all others are 0."""
    env = mm.worlds.RandomMDP(states=4, actions=3, discount=0.8, seed=1)
    truth = np.array([[0.85, 0.05, 0.05, 0.05]] * 3 + [[0.05, 0.05, 0.05, 0.85]])
    data = mm.simulate(env, truth, mm.Softmax(12.0), steps=40_000, seed=0)
    model = mm.RewardPolicyModel(mm.GaussianReward(mean=mm.Normal(0.0, 10.0), scale=10.0), mm.Softmax(1.0))
    method = mm.HMC(chains=2, draws=150, warmup=100, thin=2, max_rounds=1)
    posterior = mm.fit(model, env, data, method, progress=False)
    found = mm.score(posterior, hold_out="tasks", beside=[], progress=False)
    mine = found.by_task[found.by_task["model"] == "MRP"]["log_likelihood"].to_numpy()
    assert np.isfinite(mine).all()
    assert (found.how["how"][:3] == "continued").all()
    with pytest.raises(mm.errors.InputError, match="cannot be scored by reweighting one fit"):
        mm.score(posterior, hold_out="tasks", beside=[], method="psis", progress=False)
    split = by_tasks(data, (0,))[0][0]
    anew = mm.fit(model, env, only(data, split.trains), replace(method, draws=600), seed=1, progress=False)
    policy = anew.predictive_policies().values[0]
    honest = (data.counts[0] * np.log(policy)).sum() / data.counts[0].sum()
    # chains that go on keep 60 draws, worth some 40; π of a state varies between populations by about half of it, so
    # log π has an error of 0.07 in each of four states, 0.04 on average, and 0.025 in three tasks that are alike
    assert mine[:3].mean() == pytest.approx(honest, abs=3 * 0.025)


def test_a_score_that_is_no_number_is_said_to_be_none():
    frame = pd.DataFrame(
        {"model": ["MRP", "MRP", "RP"], "task": ["Ann", "Bo", "Ann"], "log_likelihood": [np.nan, -1.0, -np.inf]}
    )
    none, worst = _unscored(frame)
    assert none.startswith("MRP: there is no score for 'Ann', because")
    assert worst.startswith("RP: it gave probability 0 to some choice of 'Ann'")


def test_reweighting_agrees_with_leaving_out():
    data = demonstrations(tasks=2, episodes=4, steps=3)
    method = mm.Gibbs(chains=4, draws=500, warmup=100, thin=2)
    model = mm.RewardPolicyModel(mm.DirichletReward(2.0), mm.Softmax(2.0))
    quick = mm.score(mm.fit(model, PLACE, data, method, progress=False), method="psis")
    assert (quick.how["how"] == "reweighted").all()
    total = np.zeros(2)
    for split in by_each_episode(data):
        learnt = mm.fit(model, PLACE, only(data, split.trains), method, progress=False)
        policy = np.log(learnt.predictive_policies().values[split.task])
        total[split.task] += policy[data.state[split.tested], data.action[split.tested]].sum()
    mine = quick.by_task[quick.by_task["model"] == "MRP"]["log_likelihood"].to_numpy()
    assert mine == pytest.approx(total / 12, abs=0.02)  # 2 000 draws, worth some 500, in each of two estimates


def test_pooled_chains_that_go_on_predict_as_fits_from_the_beginning_do(monkeypatch):
    env = mm.worlds.RandomMDP(states=4, actions=3, discount=0.8, seed=1)
    truth = np.random.default_rng(0).dirichlet(np.full(4, 0.5), size=3)
    data = mm.simulate(env, truth, mm.Softmax(inverse_temperature=8.0), steps=80, seed=0)  # too many to be reweighted
    model = mm.RewardPolicyModel(sharing=mm.Pooled())
    method = mm.Gibbs(chains=2, draws=1000, warmup=200, thin=2)
    posterior = mm.fit(model, env, data, method, progress=False)
    found = [mm.score(posterior, hold_out="tasks", beside=[])]
    monkeypatch.setattr(held_out_tasks, "_continued", lambda *_: None)
    found.append(mm.score(posterior, hold_out="tasks", beside=[]))
    for how, each in zip(("continued", "refit"), found):
        assert how in set(each.how["how"])
    ours, theirs = (each.by_task[each.by_task["model"] == "RP"]["log_likelihood"].to_numpy() for each in found)
    np.testing.assert_allclose(ours, theirs, atol=0.01)  # nats a choice, where what is at stake is 0.1
    # the control: chains that did not forget the task predict it better than they should
    everybody = np.log(posterior.predictive_policies().values)
    counts = data.counts
    cheating = (counts * np.where(counts > 0, everybody, 0.0)).sum(axis=(1, 2)) / counts.sum(axis=(1, 2))
    assert (cheating - theirs).max() > 0.02
