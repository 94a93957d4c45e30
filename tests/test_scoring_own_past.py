"""Held-out tasks with their own past: nothing later is known, numbers are exact, and tables say who knew more."""

import json
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from cases import in_turn
from manymotives.cli import app
from manymotives.plots.findings import model_names
from manymotives.scoring import Score
from manymotives.scoring.histories import LONGER_HISTORY, Histories
from manymotives.scoring.own_counts import OWN_PAST, SPREAD, USUAL, OwnCounts
from manymotives.scoring.splits import by_tasks
from manymotives.scoring.sums import Book
from scoring_examples import PLACE, PLAIN, QUICK, demonstrations, score

ROWS = [*PLAIN, OWN_PAST]
HOLD_OUT = ("tasks", "own past")
AT_FIRST = "nothing came before"


def with_gaps(data, seed=0):
    """Some choices not recorded, some steps that do not follow the one above."""
    missing, gap = np.random.default_rng(seed).random((2, len(data.action))) < 0.1
    return replace(data, action=np.where(missing, -1, data.action), follows=data.follows & ~gap)


class Recorded(Book):
    """A book that keeps what it was given, row by row."""

    def __post_init__(self):
        super().__post_init__()
        self.rows = {}

    def add_rows(self, name, number, log_probability):
        self.rows[name, number] = log_probability
        super().add_rows(name, number, log_probability)


def predictions(data):
    """log p by row, of each task's split."""
    splits, _ = by_tasks(data, (0,))
    book = Recorded(PLACE, data, splits, "tasks", own_past=True)
    book.add_count_models()
    return [book.rows[OWN_PAST, number] for number in range(len(splits))]


@pytest.fixture(scope="module")
def pair():
    """The same choices scored with own past and without."""
    data = with_gaps(demonstrations(tasks=3, episodes=3, steps=8))
    return data, *(score(data, hold_out=hold_out, beside=()) for hold_out in (HOLD_OUT, "tasks"))


# ---- numbers --------------------------------------------------------------------------------------------------------


def contexts(data, row, order):
    """The state; the state and the one before; …: up to `order` before, and no further than is known."""
    seen, found = [], []
    for _ in range(order + 1):
        if seen and seen[-1] == AT_FIRST:
            break
        seen.append(AT_FIRST if row is None else int(data.state[row]))
        found.append(tuple(seen))
        row = row - 1 if row is not None and data.follows[row] else None
    return found


def from_counts(counts, here, action, worth, probability):
    """Each context's counts around what is known without it."""
    for context, each in zip(here, worth):
        probability = (counts[context, action] + each * probability) / (counts[context] + each)
    return probability


def count(counts, here, action):
    for context in here:
        counts[context] += 1
        counts[context, action] += 1


def as_it_goes(data, task, trains, back_off, own_worth):
    """p of a task's choices, one after the other: by the others' counts and its own so far; then it is counted."""
    others, own, found = Counter(), Counter(), {}
    choices = [int(row) for row in np.flatnonzero(data.action >= 0)]
    for row in choices:
        if trains[row] and data.task[row] != task:
            count(others, contexts(data, row, back_off.order), int(data.action[row]))
    for row in choices:
        if data.task[row] == task:
            action, here = int(data.action[row]), contexts(data, row, back_off.order)
            cold = from_counts(others, here, action, back_off.worth, 1 / PLACE.available[data.state[row]].sum())
            found[row] = from_counts(own, here, action, own_worth, cold)
            count(own, here, action)
    return found


def weights(data, split):
    """κ and κ' of a split."""
    histories = Histories.of(PLACE, data)
    back_off = histories.tuned(split.trains, "tasks")
    return back_off, OwnCounts.of(histories).tuned(split.trains, back_off)


def test_own_past_is_that_of_a_plain_loop_that_counts_as_it_goes(pair):
    data, found, _ = pair
    mine = found.by_task[found.by_task["model"] == OWN_PAST].reset_index(drop=True)
    rows = predictions(data)
    for split in by_tasks(data, (0,))[0]:
        expected = as_it_goes(data, split.task, split.trains, *weights(data, split))
        logs = [math.log(each) for each in expected.values()]
        told = rows[split.task]
        assert np.array_equal(np.flatnonzero(np.isfinite(told)), list(expected))
        assert told[list(expected)] == pytest.approx(logs, rel=1e-12)
        line = mine.loc[split.task]
        assert line["choices"] == len(expected)
        assert line["log_likelihood"] == pytest.approx(np.mean(logs), rel=1e-12)


def test_own_weights_are_those_under_which_training_tasks_are_likeliest():
    """Each predicted from the others of the training set and its own past; times the prior. Against a plain loop."""
    data = with_gaps(demonstrations(tasks=4, episodes=3, steps=10))
    split = by_tasks(data, (0,))[0][1]
    back_off, worth = weights(data, split)

    def log_posterior(worth):
        found = -sum(((np.log(worth) - math.log(USUAL)) / SPREAD) ** 2) / 2
        for task in (0, 2, 3):
            found += sum(map(math.log, as_it_goes(data, task, split.trains, back_off, worth).values()))
        return found

    best = log_posterior(worth)
    assert best > log_posterior(np.full(len(worth), USUAL)) + 1  # something was learnt
    for order in range(len(worth)):
        for factor in (0.5, 0.9, 1.1, 2.0):
            tried = np.where(np.arange(len(worth)) == order, factor * worth, worth)
            assert log_posterior(tried) < best + 1e-4  # the search ends where slopes are 1e-5 a choice, of 80


def test_the_less_choices_tell_the_nearer_are_weights_to_the_usual_ones():
    """One training task has no others to be predicted from; one or no choice has no past."""
    data = demonstrations(tasks=3, episodes=2, steps=8)
    own = OwnCounts.of(histories := Histories.of(PLACE, data))
    back_off = histories.tuned(data.task < 2, "tasks")
    first = np.append(True, np.diff(data.task) != 0)
    for trains in (data.task == 0, data.task < 0, (data.task < 2) & first):
        np.testing.assert_allclose(own.tuned(trains, back_off), USUAL, rtol=1e-12)
    assert not np.allclose(own.tuned(data.task < 2, back_off), USUAL)


@pytest.mark.parametrize(
    "lists",
    [
        ([([0], [1]), ([1], [2])]),  # single choices
        ([([0, 1, 2], [1, 0, 1]), ([1, 1], [2, 0])]),  # one training task
        ([([0, 1, 2], [1, 0, 1]), ([1, 1], [2, 0]), ([0, 1], [None, None])]),  # a task without choices
        ([([0], [1]), ([1], [2]), ([2], [0])]),
    ],
)
def test_odd_data_are_predicted(lists):
    named = [
        ([PLACE.states[s] for s in states], [None if a is None else PLACE.actions[a] for a in actions])
        for states, actions in lists
    ]
    data = mm.Demonstrations.from_lists(named, PLACE)
    for split, told in zip(by_tasks(data, (0,))[0], predictions(data)):
        expected = as_it_goes(data, split.task, split.trains, *weights(data, split))
        assert np.array_equal(np.flatnonzero(np.isfinite(told)), list(expected))
        assert np.exp(told[list(expected)]) == pytest.approx(list(expected.values()), rel=1e-12)


def test_the_other_rows_are_those_of_held_out_tasks_to_the_last_bit(pair):
    _, found, cold = pair
    assert list(found.table["model"]) == [*ROWS, "MRP"]
    for one, two in ((found.table, cold.table), (found.by_task, cold.by_task), (found.how, cold.how)):
        pd.testing.assert_frame_equal(one[one["model"] != OWN_PAST].reset_index(drop=True), two, check_exact=True)
    assert (found.hold_out, found.basis) == (cold.hold_out, cold.basis)
    assert found.settings == cold.settings | {"own_past": True}


def test_what_others_never_did_is_learnt_from_its_own_past():
    """Each task has a state to itself, where it always does the same: a new one can only be guessed, but once."""
    data = demonstrations(tasks=3, episodes=2, steps=20)
    data = replace(data, state=data.task, action=data.task)
    table = score(data, hold_out=HOLD_OUT, beside=()).table.set_index("model")["log_likelihood"]
    assert table[LONGER_HISTORY] == pytest.approx(math.log(1 / 3), rel=1e-12)
    assert table[OWN_PAST] > math.log(1 / 3) / 40 - 0.05  # one guess of forty, and a little smoothing


# ---- no leak --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", in_turn([0.3, 0.0, 0.7], every=3))
def test_own_past_knows_nothing_of_the_choice_and_of_what_comes_later(share):
    """Another choice in some row, and other choices and states after it: up to that row all is the same to the bit."""
    data = with_gaps(demonstrations(tasks=3, episodes=3, steps=8))
    row = np.arange(len(data.action))
    before = predictions(data)
    for task in range(3):
        mine = np.flatnonzero((data.task == task) & (data.action >= 0))
        moment = mine[int(share * len(mine))]
        later = (data.task == task) & (row > moment)
        state = np.where(later, (data.state + 1) % 3, data.state)
        action = np.where(later & (data.action >= 0), (data.action + 1) % 3, data.action)
        after = predictions(replace(data, state=state, action=action))
        assert np.array_equal(before[task][: moment + 1], after[task][: moment + 1], equal_nan=True)
        assert not np.array_equal(before[task][moment + 1 :], after[task][moment + 1 :], equal_nan=True)
        # of the choice itself only what is predicted afterwards may know
        other = np.where(row == moment, (data.action + 1) % 3, data.action)
        after = predictions(replace(data, action=other))
        assert np.array_equal(before[task][:moment], after[task][:moment], equal_nan=True)


def test_probabilities_of_what_could_have_been_chosen_add_up_to_one():
    data = demonstrations(tasks=3, episodes=2, steps=6)
    for row in (3, 11):
        tried = [replace(data, action=np.where(np.arange(36) == row, a, data.action)) for a in range(3)]
        assert sum(math.exp(predictions(each)[0][row]) for each in tried) == pytest.approx(1.0, abs=1e-12)


def test_coin_flips_cannot_be_predicted_from_ones_own_past():
    data = demonstrations(temperature=0.0, tasks=12, episodes=3, steps=12)
    table = score(data, hold_out=HOLD_OUT, beside=()).table.set_index("model")
    luck = 3 * table.loc[OWN_PAST, "standard_error"]  # three standard errors: once in 700
    assert table.loc[OWN_PAST, "log_likelihood"] < np.log(1 / 3) + luck


# ---- files, words and the command line ------------------------------------------------------------------------------


def test_a_score_says_that_some_models_had_more_to_learn_from(pair, tmp_path):
    _, found, cold = pair
    assert cold.note is None
    assert found.note.startswith('Models named "… own past" had more data to learn from than the others')
    found.save(tmp_path / "score.json")
    back = Score.load(tmp_path / "score.json")
    assert (back.settings, back.note) == (found.settings, found.note)
    pd.testing.assert_frame_equal(back.table, found.table)
    assert found.note in repr(back)
    assert "<p>Models named &quot;… own past&quot; had more" in back._repr_html_()
    assert "had more data to learn" not in repr(cold) + cold._repr_html_()
    assert model_names(found.table)[-3:] == [f"{LONGER_HISTORY}, after 0 episodes", OWN_PAST, "MRP, after 0 episodes"]


def test_from_the_command_line_to_the_report(tmp_path):
    run, out = tmp_path / "run.nc", tmp_path / "score.json"
    posterior = mm.fit(mm.RewardPolicyModel(), PLACE, demonstrations(tasks=3, steps=4), QUICK, progress=False)
    posterior.save(run)
    options = ["--hold-out", "subjects", "--own-past", "--beside", "counts", "--out", str(out)]
    shown = CliRunner().invoke(app, ["compare", str(run), *options], env={"COLUMNS": "120"})
    assert shown.exit_code == 0, shown.output
    found = Score.load(out)
    for word in (*ROWS, found.note, "without any choices of their own at first"):
        assert word in shown.output
    spoken = CliRunner().invoke(app, ["compare", str(run), *options, "--first", "0", "--json"])
    assert spoken.exit_code == 0, spoken.output
    told = json.loads(spoken.stdout)
    assert told["settings"]["own_past"] is True
    assert told["settings"]["first"] == [0]
    assert [row["model"] for row in told["table"]] == [*ROWS, "MRP"]
    page = mm.report(posterior, tmp_path / "page.html", score=found).read_text(encoding="utf-8")
    assert "own past&quot; had more data to learn from" in page
    assert "without any choices of their own at first" in page
