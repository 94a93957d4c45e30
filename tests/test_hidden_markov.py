"""Free policies that switch: against all paths of hidden states, one by one; causal; and every odd shape of data."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

import manymotives as mm
from manymotives.scoring import hidden_markov
from manymotives.scoring.hidden_markov import HiddenMarkov, Training, fitted_hidden_markov
from manymotives.scoring.histories import Histories

TWO = mm.Environment(np.full((2, 2, 2), 0.5), discount=0.5)
MODEL = HiddenMarkov(
    np.array([[[0.9, 0.1], [0.3, 0.7]], [[0.2, 0.8], [0.6, 0.4]], [[0.5, 0.5], [0.05, 0.95]]]),
    np.array([[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.2, 0.6]]),
    np.array([0.5, 0.3, 0.2]),
    concentration=2.0,
)


def few():
    """Three episodes; one with a gap, one with a choice that was not recorded."""
    data = mm.Demonstrations.from_lists(
        [([0, 1, 1, 0], [0, 1, 0, 1]), ([1, 0, 0, 1, 1], [1, None, 0, 0, 1]), ([1], [0])], TWO, tasks=["a", "a", "b"]
    )
    return replace(data, follows=data.follows & (np.arange(10) != 2))


def switching(rng, tasks=8, episodes=3, steps=60, stay=0.95):
    """Choices of two policies that differ in four of five states, and the model they come from."""
    place = mm.Environment(np.full((5, 3, 5), 0.2), discount=0.5)
    data = mm.simulate(place, np.zeros((tasks, 5)), mm.Softmax(0.0), steps=steps, episodes=episodes, seed=0)
    policies = np.full((2, 5, 3), 0.1)
    policies[0, :, 0] = policies[1, :4, 1] = policies[1, 4, 0] = 0.8
    transitions = np.array([[stay, 1 - stay], [1 - stay, stay]])
    action, hidden = np.empty(len(data.state), dtype=int), 0
    for row in range(len(action)):
        hidden = rng.choice(2, p=transitions[hidden] if data.follows[row] else [0.5, 0.5])
        action[row] = rng.choice(3, p=policies[hidden, data.state[row]])
    return place, replace(data, action=action), HiddenMarkov(policies, transitions, np.array([0.5, 0.5]), 1.0)


# ---- an oracle: every path of hidden states -------------------------------------------------------------------------


def segments(data):
    found = []
    for row in range(len(data.state)):
        if data.follows[row]:
            found[-1].append(row)
        else:
            found.append([row])
    return found


def paths(model, data, rows):
    """Every path of hidden states through these rows, with its probability and that of the choices."""
    for path in itertools.product(range(len(model.initial)), repeat=len(rows)):
        chance = model.initial[path[0]] if path else 1.0
        for one, next_one in itertools.pairwise(path):
            chance *= model.transitions[one, next_one]
        for hidden, row in zip(path, rows):
            if data.action[row] >= 0:
                chance *= model.policies[hidden, data.state[row], data.action[row]]
        yield path, chance


def by_enumeration(model, data, smoothed=False):
    """log p of each choice given those before it in its segment; `smoothed`: cheating, with z inferred from all."""
    found = np.full(len(data.state), np.nan)
    for rows in segments(data):
        for position, row in enumerate(rows):
            if data.action[row] < 0:
                continue
            if smoothed:
                shares = np.zeros(len(model.initial))
                for path, chance in paths(model, data, rows):
                    shares[path[position]] += chance
                found[row] = math.log(shares @ model.policies[:, data.state[row], data.action[row]] / shares.sum())
            else:
                until, before = (
                    sum(chance for _, chance in paths(model, data, rows[:end])) for end in (position + 1, position)
                )
                found[row] = math.log(until / before)
    return found


def test_predictions_are_those_of_all_paths():
    data = few()
    np.testing.assert_allclose(MODEL.log_probability(data), by_enumeration(MODEL, data), rtol=1e-12)


def step_by_enumeration(model, data, trains, pooled):
    """One step of EM: how often what is expected given all that trains, and the mode given that."""
    told = replace(data, action=np.where(trains, data.action, -1))
    size = len(model.initial)
    chosen, moved, begun = np.zeros(model.policies.shape), np.zeros((size, size)), np.zeros(size)
    for rows in segments(data):
        if not any(told.action[row] >= 0 for row in rows):
            continue
        rows = [row for row in rows if row <= max(row for row in rows if told.action[row] >= 0)]
        total = sum(chance for _, chance in paths(model, told, rows))
        for path, chance in paths(model, told, rows):
            begun[path[0]] += chance / total
            for one, next_one in itertools.pairwise(path):
                moved[one, next_one] += chance / total
            for hidden, row in zip(path, rows):
                if told.action[row] >= 0:
                    chosen[hidden, data.state[row], told.action[row]] += chance / total
    chosen = chosen + model.concentration * pooled[None]
    moved = moved + 9 * np.eye(size) + 1 / size
    begun = begun + 1 / size
    return chosen / chosen.sum(2, keepdims=True), moved / moved.sum(1, keepdims=True), begun / begun.sum()


@pytest.mark.parametrize("which", ["all", "an episode", "the beginning"])
def test_a_step_of_em_is_that_of_all_paths(which):
    data = few()
    row = np.arange(10)
    trains = {"all": row >= 0, "an episode": data.episode == 1, "the beginning": row < 3}[which]
    training = Training.of(TWO, data, trains)
    found = training.improved(MODEL, 1)
    expected = step_by_enumeration(MODEL, data, trains, training.pooled)
    for mine, theirs in zip((found.policies, found.transitions, found.initial), expected):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_em_climbs_to_a_mode():
    """The objective never falls, and at the end no small change of any parameter raises it."""
    place, data, _ = switching(np.random.default_rng(0), tasks=2)
    everything = np.ones(len(data.state), dtype=bool)
    training = Training.of(place, data, everything)
    model = training.begun(2, 0, 3.0)
    for _ in range(30):
        better = training.improved(model, 1)
        assert better.objective >= model.objective - 1e-9 * abs(model.objective)  # rounding
        model = better
    model = training.improved(model, 5000)
    assert model.converged

    def objective(policies, transitions, initial):
        changed = HiddenMarkov(policies, transitions, initial, 3.0)
        prior = 3.0 * (training.pooled[None] * np.log(policies)).sum() + np.log(initial).sum() / 2
        prior += ((9 * np.eye(2) + 0.5) * np.log(transitions)).sum()
        return np.nansum(changed.log_probability(data)) + prior

    best = objective(model.policies, model.transitions, model.initial)
    assert best == pytest.approx(model.objective, rel=1e-12)
    rng = np.random.default_rng(1)
    for _ in range(50):
        moved = [each * np.exp(0.05 * rng.normal(size=each.shape)) for each in (model.policies, model.transitions)]
        moved = [each / each.sum(axis=-1, keepdims=True) for each in moved]
        assert objective(*moved, model.initial) < best


def test_what_switches_is_found_and_predicted():
    """As well as by the model that made the choices, up to what it costs to learn 23 numbers from 960 choices."""
    place, data, truth = switching(np.random.default_rng(0))
    trains = data.episode % 3 != 0
    found, alone = (fitted_hidden_markov(place, data, trains, size, seed=0) for size in (2, 1))
    mine, theirs, plain = (each.log_probability(data)[~trains] for each in (found, truth, alone))
    assert found.converged
    assert mine.mean() == pytest.approx(theirs.mean(), abs=3 * 23 / (2 * 960))
    assert np.diag(found.transitions) == pytest.approx([0.95, 0.95], abs=3 * math.sqrt(0.05 * 0.95 / 480) * 2)
    histories = Histories.of(place, data)
    counts = histories.log_probability(trains, ~trains, histories.tuned(trains, "episodes"))[~trains]
    for gap in (mine - plain, mine - counts):
        assert gap.mean() > 3 * gap.std() / math.sqrt(len(gap))  # three standard errors: once in 700


def test_where_nothing_switches_one_policy_does_as_well():
    place, data, _ = switching(np.random.default_rng(0), stay=0.5)
    trains = data.episode % 3 != 0
    one, three = (fitted_hidden_markov(place, data, trains, size).log_probability(data)[~trains] for size in (1, 3))
    gap = three - one
    cost = 28 / (2 * 960)  # of as many numbers more, learnt from 960 choices
    assert abs(gap.mean()) < 3 * gap.std() / math.sqrt(len(gap)) + cost


# ---- causal ---------------------------------------------------------------------------------------------------------


def test_predictions_know_nothing_of_what_comes_later():
    """Other choices from some moment on: the same predictions before it, to the last bit; smoothed, others."""
    place, data, _ = switching(np.random.default_rng(0), tasks=3, steps=8)
    trains = data.episode % 3 != 0
    moment = int(np.flatnonzero(~trains & (data.step == 4))[0])
    later = ~trains & (np.arange(len(trains)) >= moment)
    pair = data, replace(data, action=np.where(later, (data.action + 1) % 3, data.action))
    models = [fitted_hidden_markov(place, each, trains, 2, seed=1) for each in pair]
    for name in ("policies", "transitions", "initial"):
        assert np.array_equal(*(getattr(model, name) for model in models))
    one, two = (model.log_probability(each) for model, each in zip(models, pair))
    assert np.array_equal(one[:moment], two[:moment])
    assert not np.array_equal(one[moment + 1 : moment + 4], two[moment + 1 : moment + 4])
    # the control: z inferred from the whole episode
    one, two = (by_enumeration(models[0], each, smoothed=True) for each in pair)
    assert not np.array_equal(one[:moment], two[:moment])


def test_smoothing_would_predict_coin_flips():
    """Negative control: filtered, chance; smoothed, better than it."""
    _, data, model = switching(np.random.default_rng(0), tasks=3, steps=8)
    data = replace(data, action=np.random.default_rng(2).integers(3, size=len(data.action)))
    fair, cheating = model.log_probability(data), by_enumeration(model, data, smoothed=True)
    assert fair.mean() < -math.log(3) + 3 * fair.std() / math.sqrt(len(fair))
    assert cheating.mean() > fair.mean() + 0.1


def test_the_same_seed_gives_the_same_model():
    place, data, _ = switching(np.random.default_rng(0), tasks=2)
    trains = data.episode % 3 != 0
    one, two = (fitted_hidden_markov(place, data, trains, 3, seed=5).log_probability(data) for _ in range(2))
    assert np.array_equal(one, two)


# ---- every shape of data --------------------------------------------------------------------------------------------


def lists(*trajectories):
    return mm.Demonstrations.from_lists(trajectories, TWO)


@pytest.mark.parametrize(
    ("data", "trains"),
    [
        (lists(([0], [1])), [False]),  # one choice, nothing to learn from
        (lists(([0], [1])), [True]),  # one choice, nothing to predict
        (lists(([0, 1, 0], [1, 1, 0])), [True, True, False]),  # one task, one episode
        (lists(([0], [1]), ([1], [0]), ([0], [1])), [True, True, False]),  # single steps
        (lists(([0, 1], [None, None]), ([0, 1], [0, 1])), [True, True, False, False]),  # nothing recorded in training
        (replace(lists(([0, 1], [0, 1])), action=np.array([-1, -1])), [True, False]),  # nothing recorded at all
        (lists(([0, 0], [1, 1]), ([1, 1], [0, 1])), [True, True, False, False]),  # states not seen before
    ],
)
@pytest.mark.parametrize("hold_out", ["episodes", "tasks"])
def test_odd_data_are_predicted(data, trains, hold_out):
    for size in (1, 3):
        found = fitted_hidden_markov(TWO, data, np.array(trains), size, hold_out=hold_out)
        assert found.converged
        np.testing.assert_allclose(found.log_probability(data), by_enumeration(found, data), rtol=1e-12)
        for each in (found.policies, found.transitions, found.initial):
            assert each.sum(axis=-1) == pytest.approx(np.ones(each.shape[:-1]), abs=1e-12)


def test_an_impossible_choice_has_probability_zero_and_teaches_nothing():
    available = np.array([[True, False], [True, True]])
    place = mm.Environment(np.full((2, 2, 2), 0.5), discount=0.5, available=available)
    data = lists(([1, 0, 1], [1, 1, 0]), ([1, 1, 1], [1, 1, 0]))
    found = fitted_hidden_markov(place, data, data.episode == 1, 2)
    told = found.log_probability(data)
    assert told[1] == -np.inf
    forgotten = replace(data, action=np.where(np.arange(6) == 1, -1, data.action))
    assert np.array_equal(told[[0, 2]], found.log_probability(forgotten)[[0, 2]])


def test_c_is_chosen_within_the_training_set():
    """By episodes, or tasks, that are predicted from the others; a single episode is split in time."""
    data = lists(*(([0, 1] * 3, [0, 1] * 3) for _ in range(7)))
    trains = data.task != 6
    learns, checks = hidden_markov._parts(data, trains, "tasks")
    assert not (learns & checks).any()
    assert np.array_equal(learns | checks, trains)
    assert set(data.task[checks]) == {0, 5}
    learns, checks = hidden_markov._parts(data, data.task == 3, "tasks")
    assert np.array_equal(np.flatnonzero(checks), [23])
    assert np.array_equal(np.flatnonzero(learns), [18, 19, 20, 21, 22])


@pytest.mark.parametrize("stay", [0.95, 0.5])
def test_c_is_the_one_that_predicts_best_as_far_as_was_tried(stay):
    """From one model, by as many steps for each; larger, or else smaller, as long as it helps."""
    place, data, _ = switching(np.random.default_rng(1), stay=stay)
    learns, checks = hidden_markov._parts(data, np.ones(len(data.state), dtype=bool), "tasks")
    part = Training.of(place, data, learns)
    settled = part.improved(part.begun(2, 0, hidden_markov.USUAL), hidden_markov.SETTLED)
    found = hidden_markov._tuned(settled, part, data, checks)
    scores = {
        c: part.improved(replace(settled, concentration=c), hidden_markov.TUNED).log_probability(data)[checks].mean()
        for c in hidden_markov.CONCENTRATIONS
    }
    assert scores[found.concentration] == found.log_probability(data)[checks].mean()
    assert scores[found.concentration] > max(scores.values()) - 2 * hidden_markov.HELPS
    assert (found.concentration > hidden_markov.USUAL) == (
        stay == 0.5
    )  # where nothing switches, all policies are alike
