"""Held-out prediction against brute force: rewards and populations on a grid, tables of counts by plain loops."""

import math
from functools import cache

import numpy as np
import pytest
from scipy import special, stats

import manymotives as mm
from grid_posterior import optimal_values
from manymotives.scoring import held_out_tasks
from manymotives.scoring.cells import Cells
from manymotives.scoring.counts import COUNTS, HISTORY, OWN_COUNTS, OWN_HISTORY, UNIFORM, Smoothing, count_models
from manymotives.scoring.splits import by_tasks

# ---- models: two states, two actions, rewards (x, 1 − x) ----------------------------------------------------------

TRANSITIONS = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.7, 0.3], [0.1, 0.9]]])
DISCOUNT, TEMPERATURE = 0.6, 4.0
PLACE = mm.Environment(TRANSITIONS, discount=DISCOUNT)
SHAPE, RATE = 2.0, 1.0  # of each concentration
X = (np.arange(200) + 0.5) / 200
ALPHA = np.exp(np.linspace(np.log(0.01), np.log(15.0), 40))


def log_policies_on_grid():
    """log π(a|s) [200, 2, 2] for rewards (x, 1 − x)."""
    rewards = np.stack([X, 1 - X])
    values = optimal_values(TRANSITIONS, DISCOUNT, rewards)
    q = rewards[:, None] + DISCOUNT * np.tensordot(TRANSITIONS, values, axes=1)  # [S, A, X]
    logits = TEMPERATURE * q
    return np.moveaxis(logits - special.logsumexp(logits, axis=1, keepdims=True), -1, 0)


@cache
def populations_on_grid():
    """Log prior of each population (α, β) [1600], and its probabilities of rewards [1600, 200]."""
    first, second = np.meshgrid(ALPHA, ALPHA, indexing="ij")
    prior = stats.gamma.logpdf(first, SHAPE, scale=1 / RATE) + stats.gamma.logpdf(second, SHAPE, scale=1 / RATE)
    prior = prior + np.log(first) + np.log(second)  # the grid is even in log α
    a, b = first.ravel()[:, None], second.ravel()[:, None]
    return prior.ravel(), np.diff(special.betainc(a, b, np.linspace(0, 1, len(X) + 1)[None]), axis=1)


def exact_new_task(counts, known, task):
    """log E π(a|s) [2, 2] of a task, from what the others did (counts [M, 2, 2]) and its own known counts [2, 2]."""
    logs = log_policies_on_grid()
    weight, of_reward = populations_on_grid()
    for m, seen in enumerate(counts):
        if m != task:
            weight = weight + np.log(of_reward @ np.exp((seen * logs).sum(axis=(1, 2))))
    population = np.exp(weight - weight.max())
    rewards = (population / population.sum()) @ of_reward * np.exp((known * logs).sum(axis=(1, 2)))
    return np.log(np.tensordot(rewards / rewards.sum(), np.exp(logs), axes=1))


def demonstrations(tasks=5, episodes=3, steps=8):
    rng = np.random.default_rng(3)
    rewards = rng.dirichlet([0.5, 0.5], size=tasks)
    return mm.simulate(PLACE, rewards, mm.Softmax(TEMPERATURE), steps=steps, episodes=episodes, seed=3)


@pytest.mark.parametrize("way", ["reweighted", "continued", pytest.param("refit", marks=pytest.mark.long)])
def test_new_tasks_are_predicted_as_by_brute_force(way, monkeypatch):
    """However the prediction is made: from one fit, by chains that went on, from the beginning."""
    if way != "reweighted":
        monkeypatch.setattr(held_out_tasks, "_new_tasks", lambda posterior, seed: None)
    if way == "refit":
        monkeypatch.setattr(held_out_tasks, "_continued", lambda *_: None)
    data = demonstrations()
    model = mm.RewardPolicyModel(mm.DirichletReward(mm.Gamma(SHAPE, RATE)), mm.Softmax(TEMPERATURE))
    method = mm.Gibbs(draws=200 if way == "refit" else 500, warmup=100, thin=4)
    found = mm.score(model, PLACE, data, method, hold_out=("tasks", (0, 1)), beside=(), progress=False)
    mine = found.by_task[found.by_task["model"] == "MRP"].set_index(["own_episodes", "task"])["log_likelihood"]
    assert set(found.how["how"]) == {way}
    splits, _ = by_tasks(data, (0, 1))
    cells = Cells.of(PLACE, data)
    errors = []
    for split in splits:
        learnt, mine_are = cells.counts(split.trains), cells.task == split.task
        known, tested = np.zeros((2, 2)), np.zeros((2, 2))
        np.add.at(known, cells.state[mine_are], learnt[mine_are])
        np.add.at(tested, cells.state, cells.counts(split.tested))
        exact = (tested * exact_new_task(data.counts, known, split.task)).sum() / tested.sum()
        errors.append(mine[split.own_episodes, split.task] - exact)
    # the least that is drawn, by chains that go on: 4 × 100 draws, worth some 100 of the population; a log-probability
    # then has an error of about (sd of π / π ≈ 0.3) / √100 = 0.03 a task, and 0.01 on average of ten
    assert np.abs(errors).max() < 3 * 0.03
    assert abs(np.mean(errors)) < 3 * 0.01


def test_brute_force_would_notice_a_leak():
    """Negative control: with the task's own choices in its population and reward, predictions are too good."""
    data = demonstrations()
    splits, _ = by_tasks(data, (0,))
    gains = []
    for split in splits:
        everything = data.counts[split.task]
        fair = (everything * exact_new_task(data.counts, 0 * everything, split.task)).sum()
        leaky = (everything * exact_new_task(data.counts, everything, split.task)).sum()
        gains.append((leaky - fair) / everything.sum())
    assert np.mean(gains) > 2 * 3 * 0.01  # twice the tolerance of the test above


def test_pooled_and_left_out_episodes_are_predicted_as_by_brute_force():
    data = demonstrations()
    model = mm.RewardPolicyModel(mm.DirichletReward(1.5), mm.Softmax(TEMPERATURE), mm.Pooled())
    posterior = mm.fit(model, PLACE, data, mm.HMC(draws=1000, warmup=200, max_rounds=1), progress=False)
    found = mm.score(posterior, method="psis")
    logs = log_policies_on_grid()
    prior = np.diff(special.betainc(1.5, 1.5, np.linspace(0, 1, len(X) + 1)))
    total, choices = np.zeros(data.num_tasks), np.zeros(data.num_tasks)
    for episode in range(data.num_episodes):
        inside = data.episode == episode
        held = np.zeros((2, 2))
        np.add.at(held, (data.state[inside], data.action[inside]), 1)
        log_weight = ((data.counts.sum(axis=0) - held) * logs).sum(axis=(1, 2))
        weight = prior * np.exp(log_weight - log_weight.max())
        policy = np.tensordot(weight / weight.sum(), np.exp(logs), axes=1)
        task = data.task[inside][0]
        total[task] += (held * np.log(policy)).sum()
        choices[task] += held.sum()
    mine = found.by_task[found.by_task["model"] == "RP"]["log_likelihood"].to_numpy()
    assert mine == pytest.approx(total / choices, abs=0.01)
    assert (found.how["pareto_k"] < 0.7).all()


# ---- counts -------------------------------------------------------------------------------------------------------


def choices_by_loop(data, rows):
    """(task, state before, state, action) of each choice in these rows."""
    listed = []
    for row in np.flatnonzero(rows):
        if data.action[row] >= 0:
            before = data.state[row - 1] if data.follows[row] else None
            listed.append((data.task[row], before, data.state[row], data.action[row]))
    return listed


def plain_predictions(training, available, smoothing, task, before, state, action):
    """Every table's p(a), by counting through the list each time."""

    def count(**wanted):
        total, same = 0, 0
        for m, b, s, a in training:
            row = {"task": m, "before": b, "state": s}
            fits = all(
                (row[name[4:]] != value) if name.startswith("not_") else (row[name] == value)
                for name, value in wanted.items()
            )
            total += fits
            same += fits and a == action
        return same, total

    def around(counts, base, worth):
        return (counts[0] + worth * base) / (counts[1] + worth)

    uniform = 1 / available[state].sum()
    k = smoothing
    others = around(count(state=state, not_task=task), uniform, k.counts)
    elsewhere = around(count(state=state, not_before=before), uniform, k.counts)
    others_elsewhere = around(count(state=state, not_before=before, not_task=task), uniform, k.counts)
    others_after = around(count(state=state, before=before, not_task=task), others_elsewhere, k.history)
    return {
        UNIFORM: uniform,
        COUNTS: around(count(state=state), uniform, k.counts),
        OWN_COUNTS: around(count(state=state, task=task), others, k.own_counts),
        HISTORY: around(count(state=state, before=before), elsewhere, k.history),
        OWN_HISTORY: around(count(state=state, before=before, task=task), others_after, k.own_history),
    }


def test_tables_of_counts_are_those_of_plain_loops():
    place = mm.worlds.Labyrinth(levels=2)
    data = mm.simulate(place, np.eye(place.num_states)[:3], mm.Softmax(5.0), steps=15, episodes=3, seed=1)
    cells = Cells.of(place, data)
    trains = data.episode % 3 != 1
    smoothing = Smoothing(0.7, 2.0, 3.0, 5.0)
    tables, _ = count_models(cells, cells.counts(trains), smoothing)
    training = choices_by_loop(data, trains)
    which = {key: number for number, key in enumerate(zip(cells.task, cells.context))}
    assert len(which) == len(cells.task)
    tested = choices_by_loop(data, ~trains)
    cell_of_row = dict(zip(cells.row.tolist(), cells.cell.tolist()))
    rows = [row for row in np.flatnonzero(~trains) if data.action[row] >= 0]
    for row, (task, before, state, action) in zip(rows, tested):
        expected = plain_predictions(training, place.available, smoothing, task, before, state, action)
        for name, probability in expected.items():
            assert tables[name][cell_of_row[int(row)], action] == pytest.approx(math.log(probability), rel=1e-12)


def test_every_table_is_a_distribution_over_what_can_be_done():
    place = mm.worlds.Labyrinth(levels=2)
    data = mm.simulate(place, np.eye(place.num_states)[:3], mm.Softmax(5.0), steps=15, episodes=3, seed=1)
    cells = Cells.of(place, data)
    tables, _ = count_models(cells, cells.counts(data.episode % 3 != 1))
    for table in tables.values():
        assert np.exp(table).sum(axis=1) == pytest.approx(np.ones(len(table)), abs=1e-12)
        assert (np.isfinite(table) == place.available[cells.state]).all()


def test_smoothing_is_the_one_with_the_most_evidence():
    place = mm.worlds.RandomMDP(states=4, actions=3, seed=0)
    data = mm.simulate(place, np.eye(4), mm.Softmax(1.0), steps=200, seed=0)
    _, smoothing = count_models(Cells.of(place, data), Cells.of(place, data).counts(np.ones(len(data.task), bool)))
    counts = data.counts.sum(axis=0)
    tried = np.exp(np.linspace(np.log(0.01), np.log(1e5), 4000))
    evidence = [
        sum(stats.dirichlet_multinomial.logpmf(row, np.full(3, worth / 3), row.sum()) for row in counts)
        for worth in tried
    ]
    assert smoothing.counts == pytest.approx(tried[int(np.argmax(evidence))], rel=0.02)
