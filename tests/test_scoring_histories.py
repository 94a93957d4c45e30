"""Counts by longer histories: against plain loops, without a leak, in linear time; and every odd shape of data."""

import math
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import manymotives as mm
from manymotives.scoring.histories import LONGEST, SHORTEST, BackOff, Histories
from manymotives.scoring.splits import by_episodes, by_tasks

BACK_OFF = BackOff(4, (0.7, 2.0, 3.0, 5.0, 1.5))
FIRST = "nothing came before"
TWO = mm.Environment(np.full((2, 2, 2), 0.5), discount=0.5)  # two states, two actions


def walks(tasks=3, episodes=4, steps=12, states=3, seed=0, forgets=0.1):
    """Choices at random among those of a labyrinth's cousin: 2 or 3 actions a state, gaps, choices not recorded."""
    place = mm.worlds.RandomMDP(states=states, actions=3, discount=0.8, seed=1)
    available = np.ones((states, 3), dtype=bool)
    available[0, 2] = False
    place = mm.Environment(place.transitions, discount=0.8, available=available)
    rewards = np.random.default_rng(seed).dirichlet(np.ones(states), size=tasks)
    data = mm.simulate(place, rewards, mm.Softmax(3.0), steps=steps, episodes=episodes, seed=seed)
    rng = np.random.default_rng(seed)
    action = np.where(rng.random(len(data.action)) < forgets, -1, data.action)
    return place, replace(data, action=action, follows=data.follows & (rng.random(len(data.action)) > forgets))


def flips(rng, tasks, steps):
    """Fair coins, states and choices both."""
    data = mm.simulate(TWO, np.zeros((tasks, 2)), mm.Softmax(0.0), steps=steps, seed=0)
    return replace(data, action=rng.integers(2, size=len(data.action)))


# ---- an oracle that counts through lists ----------------------------------------------------------------------------


def history(data, row, order):
    """The state, the one before, …: as many as `order` allows, and at last that nothing came before."""
    found = [int(data.state[row])]
    while len(found) <= order:
        if not data.follows[row]:
            return (*found, FIRST)
        row -= 1
        found.append(int(data.state[row]))
    return tuple(found)


def probability(place, data, row, counted, back_off):
    """p of the choice in a row, from the choices in the rows `counted`."""
    found = 1 / place.available[data.state[row]].sum()
    for order in range(back_off.order + 1):
        here = history(data, row, order)
        if order > 0 and here == history(data, row, order - 1):
            break
        alike = [other for other in counted if history(data, other, order) == here]
        same = sum(data.action[other] == data.action[row] for other in alike)
        found = (same + back_off.worth[order] * found) / (len(alike) + back_off.worth[order])
    return found


def choices(data, rows):
    return [int(row) for row in np.flatnonzero(rows) if data.action[row] >= 0]


# ---- exact ----------------------------------------------------------------------------------------------------------


def test_by_hand():
    """States a b a | b a, actions x y x | y ?: what follows the last b a, in the history of order 1."""
    place = mm.Environment(np.full((2, 2, 2), 0.5), states=("a", "b"), actions=("x", "y"), discount=0.5)
    data = mm.Demonstrations.from_lists([("aba", "xyx"), ("ba", "yx")], place, tasks=["m", "m"])
    trains, tested = data.episode == 0, np.arange(5) == 4
    found = Histories.of(place, data).log_probability(trains, tested, BackOff(2, (1.0, 1.0, 1.0)))
    assert np.isnan(found[:4]).all()
    # x: in a twice of twice, after b once of once; that b was first was not seen before
    assert math.exp(found[4]) == pytest.approx(((2 + 0.5) / 3 + 1) / 2, rel=1e-14)


@pytest.mark.parametrize("hold_out", ["episodes", "tasks"])
def test_predictions_are_those_of_plain_loops(hold_out):
    place, data = walks()
    split = by_episodes(data, 3, 0)[0][0] if hold_out == "episodes" else by_tasks(data, (1,))[0][1]
    found = Histories.of(place, data).log_probability(split.trains, split.tested, BACK_OFF)
    training, tested = choices(data, split.trains), choices(data, split.tested)
    assert len(tested) > 20
    assert np.array_equal(np.flatnonzero(np.isfinite(found)), tested)
    for row in tested:
        assert math.exp(found[row]) == pytest.approx(probability(place, data, row, training, BACK_OFF), rel=1e-12)


def test_training_tasks_are_predicted_from_the_others():
    """Counts less a task's own are those of the others."""
    place, data = walks(tasks=4)
    trains = data.task != 1
    histories = Histories.of(place, data)
    found = histories.from_other_tasks(trains, BACK_OFF)
    for task in (0, 2, 3):
        mine = data.task == task
        expected = histories.log_probability(trains & ~mine, mine, BACK_OFF)[histories.row]
        told = histories.task == task
        np.testing.assert_allclose(np.log(found[told]), expected[told], rtol=1e-14)
    assert np.isnan(found[histories.task == 1]).all()


def test_every_action_has_its_share():
    """Probabilities of what could have been chosen add up to one."""
    place, data = walks(forgets=0.0)
    split = by_episodes(data, 3, 0)[0][0]
    total = np.zeros(len(data.action))
    for action in range(3):
        exists = place.available[data.state, action]
        other = replace(data, action=np.where(split.tested & exists, action, data.action))
        found = Histories.of(place, other).log_probability(split.trains, split.tested, BACK_OFF)
        total += np.where(split.tested & exists, np.exp(found), 0.0)
    assert total[split.tested] == pytest.approx(np.ones(split.tested.sum()), abs=1e-12)


@pytest.mark.parametrize("unit", ["episodes", "tasks"])
def test_smoothing_is_the_one_under_which_what_is_left_out_is_likeliest(unit):
    place, data = walks(tasks=4, episodes=3, steps=10)
    trains = data.episode % 3 != 1
    found = Histories.of(place, data).tuned(trains, unit)
    of = data.episode if unit == "episodes" else data.task
    training = choices(data, trains)

    def left_out(order, worth):
        total = 0.0
        for row in training:
            counted = [other for other in training if of[other] != of[row]]
            total += math.log(probability(place, data, row, counted, BackOff(order, worth)))
        return total

    for order in (0, 1, 3):
        best = left_out(order, found.worth)
        for factor in (0.5, 0.9, 1.1, 2.0):
            tried = float(np.clip(factor * found.worth[order], 0.01, 1e5))
            # the search ends within 0.001 of log κ, where 80 choices are as likely to within 80 × 0.001² at most
            assert left_out(order, (*found.worth[:order], tried)) <= best + 1e-4
    orders = range(SHORTEST, LONGEST + 1)
    assert found.order == max(orders, key=lambda order: left_out(order, found.worth))


def test_the_order_is_found():
    """What is done is what the state three steps ago was, nine times of ten."""
    rng = np.random.default_rng(0)
    data = flips(rng, tasks=40, steps=60)
    told = np.where(data.step >= 3, np.roll(data.state, 3), data.action)
    data = replace(data, action=np.where(rng.random(len(told)) < 0.9, told, 1 - told))
    histories = Histories.of(TWO, data)
    trains = data.task < 30
    found = histories.tuned(trains, "tasks")
    assert found.order >= 3
    score = [
        np.nanmean(histories.log_probability(trains, ~trains, found._replace(order=order)))
        for order in (2, found.order)
    ]
    best = 0.9 * math.log(0.9) + 0.1 * math.log(0.1)
    assert score[0] == pytest.approx(-math.log(2), abs=0.03)  # 600 choices: an error of 0.01, and a little noise fitted
    assert score[1] == pytest.approx(best * 57 / 60 - math.log(2) * 3 / 60, abs=3 * 0.66 / math.sqrt(600))


# ---- no leak --------------------------------------------------------------------------------------------------------


def test_predictions_know_nothing_of_the_choice_and_of_what_comes_later():
    """Other choices and states from some moment on: all predictions up to it are the same to the last bit."""
    place, data = walks()
    split = by_tasks(data, (1,))[0][0]
    tested = np.flatnonzero(split.tested)
    moment = int(tested[len(tested) // 2])
    later = split.tested & (np.arange(len(data.action)) >= moment)
    state = np.where(later & (np.arange(len(data.action)) > moment), 1 + data.state % 2, data.state)
    action = np.where(later, (data.action + 1) % 2, data.action)
    before = []
    for each in (data, replace(data, state=state, action=action)):
        histories = Histories.of(place, each)
        back_off = histories.tuned(split.trains, "tasks")
        before.append((back_off, histories.log_probability(split.trains, split.tested, back_off)[:moment]))
    assert before[0][0] == before[1][0]
    assert np.array_equal(before[0][1], before[1][1], equal_nan=True)
    # in the moment itself the state is the same, the choice another: of two, the one has what the other has not
    place, data = walks(forgets=0.0)
    pair = [replace(data, action=np.where(np.arange(len(data.action)) == 5, a, data.action)) for a in (0, 1)]
    split = by_tasks(data, (0,))[0][0]
    there = [Histories.of(place, each).log_probability(split.trains, split.tested, BACK_OFF) for each in pair]
    for part in (slice(0, 5), slice(6, None)):  # of what it did nothing is learnt
        assert np.array_equal(there[0][part], there[1][part], equal_nan=True)


def test_coin_flips_cannot_be_predicted_except_by_cheating():
    data = flips(np.random.default_rng(3), tasks=12, steps=40)
    histories = Histories.of(TWO, data)
    fair, greedy = BackOff(LONGEST, (1.0,) * (LONGEST + 1)), []
    found = np.full(len(data.action), np.nan)
    for split in by_tasks(data, (0,))[0]:
        predicted = histories.log_probability(split.trains, split.tested, histories.tuned(split.trains, "tasks"))
        found = np.where(split.tested, predicted, found)
        greedy.append(np.nanmean(histories.log_probability(split.trains | split.tested, split.tested, fair)))
    luck = 3 * found.std() * math.sqrt(len(found))  # three standard errors: once in 700
    assert found.sum() < -math.log(2) * len(found) + luck
    assert np.mean(greedy) > -math.log(2) + 0.1


# ---- every shape of data --------------------------------------------------------------------------------------------


def lists(*trajectories, tasks=None):
    return mm.Demonstrations.from_lists(trajectories, TWO, tasks=tasks)


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
def test_odd_data_are_predicted_as_by_plain_loops(data, trains):
    trains = np.array(trains)
    histories = Histories.of(TWO, data)
    for hold_out in ("episodes", "tasks"):
        back_off = histories.tuned(trains, hold_out)
        assert SHORTEST <= back_off.order <= LONGEST
        found = histories.log_probability(trains, ~trains, back_off)
        for row in choices(data, ~trains):
            assert math.exp(found[row]) == pytest.approx(
                probability(TWO, data, row, choices(data, trains), back_off), rel=1e-12
            )
        assert np.isfinite(found).sum() == len(choices(data, ~trains))


def test_memory_is_linear_and_time_too():
    """As many different histories as rows: a table of all that could be would have 200⁷ entries."""
    rng = np.random.default_rng(0)
    place = mm.Environment(np.full((200, 2, 200), 1 / 200), discount=0.5)
    data = mm.simulate(place, np.zeros((4, 200)), mm.Softmax(0.0), steps=10_000, seed=0)
    data = replace(data, action=rng.integers(2, size=len(data.action)))
    trains = data.task > 0
    tracemalloc.start()
    begun = time.perf_counter()
    histories = Histories.of(place, data)
    found = histories.log_probability(trains, ~trains, histories.tuned(trains, "tasks"))
    taken, most = time.perf_counter() - begun, tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(found).sum() == 10_000
    assert most < 40_000 * 600  # bytes: 2 numbers an order and row are kept, and some ten more used at a time
    assert taken < 10  # a third of a second; what is quadratic would take minutes
