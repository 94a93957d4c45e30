"""Held-out prediction: nothing leaks, errors are honest, what is saved comes back."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app
from manymotives.inference import progress
from manymotives.scoring import Score
from manymotives.scoring.contenders import contenders_of
from manymotives.scoring.counts import OWN_HISTORY, Smoothing, count_models
from manymotives.scoring.predictions import predictions_of
from manymotives.scoring.splits import by_each_episode, by_episodes, by_tasks, only
from manymotives.scoring.sums import Book
from scoring_examples import PLACE, PLAIN, QUICK, TABLES, demonstrations, score

# ---- nothing leaks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [pytest.param({"hold_out": ("episodes", 3)}, marks=pytest.mark.long), {"hold_out": ("tasks", (0, 1))}],
    ids=["episodes", "tasks"],
)
def test_coin_flips_cannot_be_predicted(options):
    table = score(demonstrations(temperature=0.0, tasks=12, episodes=3, steps=12), **options).table
    chance = np.log(1 / 3)
    luck = 3 * table["standard_error"].fillna(0.0)  # three standard errors: once in 700 models
    assert (table["log_likelihood"] <= chance + luck + 1e-12).all()
    assert set(table["model"]) == {*PLAIN, "RP", "MRP", "MPO"}


def test_a_leaky_score_predicts_coin_flips():
    """Negative control: the same sums, with the tested choices in the training set."""
    data = demonstrations(temperature=0.0, tasks=12, episodes=4, steps=12)
    leaky = tuple(split._replace(trains=split.trains | split.tested) for split in by_episodes(data, 5, 0)[0])
    book = Book(PLACE, data, leaky, "episodes")
    for number, split in enumerate(leaky):
        table, _ = count_models(book.cells, book.cells.counts(split.trains), Smoothing(1.0, 1.0, 1.0, 1.0))
        book._count(OWN_HISTORY, number, table[OWN_HISTORY])
    contender = contenders_of(mm.RewardPolicyModel(mm.DirichletReward(0.3), mm.Softmax(20.0)), QUICK, ())[0][0]
    for number, prediction in enumerate(predictions_of(contender, PLACE, book, 0, True)):
        book.add(contender.name, number, prediction)
    found = Score("episodes", OWN_HISTORY, book.by_task(), book.how(), {}).table.set_index("model")
    above_chance = found["log_likelihood"] - np.log(1 / 3)
    assert (above_chance[OWN_HISTORY] > 5 * found["standard_error"][OWN_HISTORY]).all()
    honest = score(data, contender.model, beside=()).table.set_index("model")
    assert found["log_likelihood"]["MRP"] > honest["log_likelihood"]["MRP"] + 3 * honest["standard_error"]["MRP"]


def test_predictions_do_not_know_what_they_predict():
    """Other choices in the tested episodes leave every prediction for them as it was, to the last bit."""
    data = demonstrations()
    splits, _ = by_episodes(data, 3, 0)
    flipped = np.where(splits[0].tested, (data.action + 1) % 3, data.action)
    other = replace(data, action=flipped)
    for model in (mm.RewardPolicyModel(), mm.PolicyOptimalityModel()):
        contender = contenders_of(model, QUICK, ())[0][0]
        books = [Book(PLACE, choices, splits[:1], "episodes") for choices in (data, other)]
        one, two = (next(predictions_of(contender, PLACE, book, 0, True)).log_policy for book in books)
        assert np.array_equal(one, two)
    tables = [count_models(book.cells, book.cells.counts(splits[0].trains))[0] for book in books]
    for name in TABLES:
        assert np.array_equal(tables[0][name], tables[1][name])


# ---- splits ---------------------------------------------------------------------------------------------------------


def test_every_choice_is_tested_once_and_never_trains_then():
    data = demonstrations(episodes=7)
    splits, warnings = by_episodes(data, 3, 0)
    assert warnings == ()
    assert np.array_equal(sum(split.tested.astype(int) for split in splits), np.ones(len(data.task)))
    for split in splits:
        assert not (split.trains & split.tested).any()
        assert not set(data.episode[split.trains]) & set(data.episode[split.tested])
        share = np.bincount(data.task[split.tested], minlength=6) / np.bincount(data.task)
        assert share.min() >= 2 / 7  # dealt out evenly, in each task
        assert share.max() <= 3 / 7
    alone = by_each_episode(data)
    assert np.array_equal(sum(split.tested.astype(int) for split in alone), np.ones(len(data.task)))


def test_a_single_episode_is_split_in_time():
    data = demonstrations(episodes=1, tasks=2)
    (split,), (warning,) = by_episodes(data, 5, 0)
    assert warning.startswith("'subject 0', 'subject 1' have a single episode")
    for task in (0, 1):
        assert data.step[split.trains & (data.task == task)].max() < data.step[split.tested & (data.task == task)].min()
    assert split.tested.sum() == 10


def test_held_out_tasks_are_tested_on_the_same_choices_whatever_they_have_shown():
    data = demonstrations()
    splits, _ = by_tasks(data, (0, 1, 3))
    for task in range(6):
        mine = [split for split in splits if split.task == task]
        assert [split.own_episodes for split in mine] == [0, 1, 3]
        for split in mine:
            assert np.array_equal(split.tested, mine[0].tested)
            shown = np.unique(data.episode[split.trains & (data.task == task)])
            assert len(shown) == split.own_episodes
            assert not len(shown) or shown.max() < data.episode[split.tested].min()
            assert (split.trains | (data.task == task)).all()


def test_training_sets_keep_what_followed_what():
    data = demonstrations()
    rows = data.step != 3
    kept = only(data, rows)
    assert not kept.follows[kept.step == 4].any()
    assert kept.follows[kept.step == 5].all()
    assert kept.tasks == data.tasks


# ---- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_motives_beat_counts_where_there_are_motives_and_little_data():
    found = score(demonstrations(temperature=12.0, tasks=10, steps=6, seed=2), beside=())
    table = found.table.set_index("model")
    assert found.model == "MRP"
    assert table.loc["MRP", "difference"] == 0
    assert table.loc["counts", "difference"] < -2 * table.loc["counts", "difference_se"]
    assert (table["choices"] == 240).all()
    assert (found.against("counts").set_index("model").loc["MRP", "difference"]) == pytest.approx(
        -table.loc["counts", "difference"]
    )


def test_errors_are_those_of_resampled_subjects():
    rng = np.random.default_rng(0)
    choices = rng.integers(5, 200, size=40)
    mine = pd.DataFrame(
        {"model": "a", "task": range(40), "log_likelihood": rng.normal(-1, 0.2, size=40), "choices": choices}
    )
    table = Score("episodes", "a", mine, pd.DataFrame(), {}).table
    drawn = rng.integers(40, size=(20_000, 40))
    n, x = choices[drawn], mine["log_likelihood"].to_numpy()[drawn]
    bootstrap = ((n * x).sum(axis=1) / n.sum(axis=1)).std()
    # a bootstrap of 40 subjects is itself right to about 1 / √80
    assert table["standard_error"][0] == pytest.approx(bootstrap, rel=0.12)


def test_forced_choices_are_not_counted():
    place = mm.worlds.Labyrinth(levels=2)
    data = mm.simulate(place, np.eye(place.num_states)[:4], mm.Softmax(2.0), steps=12, episodes=3, seed=1)
    found = mm.score(mm.RewardPolicyModel(), place, data, QUICK, beside=(), progress=False)
    free = place.available.sum(axis=1)[data.state] > 1
    assert 0 < free.sum() < len(free)
    assert (found.table["choices"] == free.sum()).all()
    uniform = -np.log(place.available.sum(axis=1)[data.state[free]]).mean()
    assert found.table["log_likelihood"][0] == pytest.approx(uniform, rel=1e-12)


@pytest.mark.long
def test_memory_in_the_state_needs_rewards_on_pairs():
    """Rewards on states predict the same from (x, s) and (y, s); the score says so, and that pairs would not."""
    place = PLACE.with_memory()
    data = demonstrations(tasks=3).with_memory(place)
    one, two = ([name.split("→")[1] for name in place.states].index("0"), place.states.index("1→0"))
    for reward, blind in ((mm.DirichletReward(), True), (mm.GaussianReward(on="state_action"), False)):
        model = mm.RewardPolicyModel(reward)
        found = mm.score(model, place, data, QUICK, beside=(), hold_out=("episodes", 2), progress=False)
        assert any("of 3 kinds" in warning for warning in found.warnings) == blind
        policy = mm.fit(model, place, data, QUICK, progress=False).predictive_policies().values
        assert np.allclose(policy[:, one], policy[:, two]) == blind


def test_the_same_seed_gives_the_same_score():
    data = demonstrations(tasks=3)
    one, two = (score(data, hold_out=("tasks", (0, 1)), beside=()) for _ in range(2))
    pd.testing.assert_frame_equal(one.table, two.table)
    pd.testing.assert_frame_equal(one.how, two.how)


# ---- files and the command line -------------------------------------------------------------------------------------


def test_scores_come_back_from_a_file(tmp_path):
    found = score(demonstrations(tasks=3), hold_out=("tasks", (0, 1)), beside=())
    found.save(tmp_path / "score.json")
    back = Score.load(tmp_path / "score.json")
    pd.testing.assert_frame_equal(back.table, found.table)
    pd.testing.assert_frame_equal(back.by_task, found.by_task)
    pd.testing.assert_frame_equal(back.how, found.how)
    assert (back.hold_out, back.model, back.warnings) == (found.hold_out, found.model, found.warnings)
    found.save(tmp_path / "score.csv")
    assert list(pd.read_csv(tmp_path / "score.csv")["model"]) == list(found.table["model"])
    assert "<table" in found._repr_html_()
    assert "held-out tasks" in repr(found)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    data = demonstrations(tasks=4, steps=4)
    for name, model in (("mrp", mm.RewardPolicyModel()), ("rp", mm.RewardPolicyModel(sharing=mm.Pooled()))):
        mm.fit(model, PLACE, data, QUICK, progress=False).save(folder / f"{name}.nc")
    elsewhere = demonstrations(tasks=4, steps=5)
    mm.fit(mm.RewardPolicyModel(), PLACE, elsewhere, QUICK, progress=False).save(folder / "other.nc")
    return folder


def test_compare_prints_the_table(runs, tmp_path):
    shown = CliRunner().invoke(
        app, ["compare", str(runs / "mrp.nc"), "--folds", "2", "--out", str(tmp_path / "s.json")]
    )
    assert shown.exit_code == 0, shown.output
    for word in (*PLAIN, "RP", "MRP", "MPO", "How to read it", "held-out choices (set ", "environment given"):
        assert word in shown.output
    found = Score.load(tmp_path / "s.json")
    assert list(found.table["model"]) == [*PLAIN, "RP", "MRP", "MPO"]
    named = "RP: complete pooling; MRP: partial pooling; MPO: policy-optimality model"
    assert shown.output.startswith(f"Fitting 3 models ({named}), each to 2 training sets at most: up to 6 fits. Faster")
    assert "Faster: --beside counts (only the runs and counts of choices), --method empirical-bayes" in shown.output
    assert found.abbreviations in repr(found)
    assert found.abbreviations.startswith("RP: the reward–policy model with complete pooling")


def test_each_fit_is_named_while_it_lasts(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SOON", 0.0)
    data = demonstrations(tasks=2, steps=4)
    mm.score(mm.RewardPolicyModel(), PLACE, data, mm.NestedMonteCarlo(draws=10), hold_out=("episodes", 2), beside=[])
    said = capsys.readouterr().err
    assert "Fitting MRP, 1 of 2 …" in said
    assert "Fitting MRP, 2 of 2 …" in said


def test_compare_refuses_in_the_terms_of_the_command_line(runs):
    shown = CliRunner().invoke(
        app, ["compare", str(runs / "mrp.nc"), "--hold-out", "subjects", "--method", "none", "--beside", "counts"]
    )
    assert shown.exit_code == 2
    assert "Nothing is fitted anew: draws are reweighted to leave out each subject in turn." in shown.output
    assert "Score it without --method none." in shown.output
    assert "psis" not in shown.output


@pytest.mark.long
def test_compare_speaks_to_machines(runs):
    options = ["--hold-out", "subjects", "--first", "0,1", "--beside", "counts", "--json"]
    shown = CliRunner().invoke(app, ["compare", str(runs / "mrp.nc"), str(runs / "rp.nc"), *options])
    assert shown.exit_code == 0, shown.output
    told = json.loads(shown.stdout)
    assert {row["model"] for row in told["table"]} == {*PLAIN, "mrp", "rp"}
    assert {row["own_episodes"] for row in told["table"]} == {0, 1}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["mrp.nc", "other.nc"], "other was fitted to other choices"),
        (["mrp.nc", "--first", "one"], "--first takes numbers"),
        (
            ["mrp.nc", "--own-past"],
            "--own-past is for predicting new subjects: add --hold",
        ),
        (["mrp.nc", "--own-past", "--hold-out", "subjects", "--first", "0,1"], "--own-past and --first 0,1 cannot be"),
        (["nowhere.nc"], "there is no file"),
        (["mrp.nc", "--out", "score.xlsx"], "must end in .json or .csv"),
    ],
)
def test_compare_says_what_is_wrong(runs, monkeypatch, arguments, says):
    monkeypatch.chdir(runs)
    shown = CliRunner().invoke(app, ["compare", *arguments])
    assert shown.exit_code == 2
    assert says in shown.output
    assert "Traceback" not in shown.output
