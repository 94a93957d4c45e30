"""Held-out prediction: nothing leaks, errors are honest, what is saved comes back."""

import json
from dataclasses import replace

import arviz_stats
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app
from manymotives.inference.importance import pareto_k, smoothed
from manymotives.scoring import Score, held_out_tasks
from manymotives.scoring.basis import Basis, basis_warnings, choices_digest, differing
from manymotives.scoring.contenders import contenders_of
from manymotives.scoring.counts import OWN_HISTORY, Smoothing, count_models
from manymotives.scoring.splits import by_each_episode, by_episodes, by_tasks, only
from manymotives.scoring.sums import Book
from manymotives.scoring.verb import _predictions, _unscored

PLACE = mm.worlds.RandomMDP(states=3, actions=3, discount=0.8, seed=1)
QUICK = mm.Gibbs(chains=2, draws=100, warmup=50, thin=1)
TABLES = ["uniform", "counts", "counts, own", "counts with history", "counts with history, own"]
PLAIN = [*TABLES, "counts with longer history"]


def demonstrations(temperature=8.0, tasks=6, episodes=4, steps=10, seed=0):
    rewards = np.random.default_rng(seed).dirichlet(np.full(3, 0.5), size=tasks)
    names = [f"subject {m}" for m in range(tasks)]
    rule = mm.Softmax(temperature)
    return mm.simulate(PLACE, rewards, rule, steps=steps, episodes=episodes, tasks=names, seed=seed)


def score(data=None, model=None, **options):
    model = model or mm.RewardPolicyModel()
    options = {"method": QUICK, "progress": False} | options
    return mm.score(model, PLACE, demonstrations() if data is None else data, **options)


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
    for number, prediction in enumerate(_predictions(contender, PLACE, book, 0, True)):
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
        one, two = (next(_predictions(contender, PLACE, book, 0, True)).log_policy for book in books)
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


# ---- one fit, reweighted ---------------------------------------------------------------------------------------------


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
    assert worst.startswith("RP: it gave some choice of 'Ann' probability 0")


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


# ---- which choices are scored ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seldom():
    """Choices in a known environment, where in some states only one action was ever seen; and the same, estimated."""
    place = mm.worlds.RandomMDP(states=12, actions=3, discount=0.8, seed=1)
    rewards = np.random.default_rng(0).dirichlet(np.full(12, 0.3), size=3)
    data = mm.simulate(place, rewards, mm.Softmax(60.0), steps=8, episodes=6, seed=2)
    return (place, data), mm.estimate_environment(data, discount=0.8)


def test_choices_that_an_estimated_environment_cannot_score_are_counted(seldom, tmp_path):
    (place, data), (estimated, kept) = seldom
    options = {"beside": (), "hold_out": ("episodes", 2), "method": QUICK, "progress": False}
    known = mm.score(mm.RewardPolicyModel(), place, data, **options)
    found = mm.score(mm.RewardPolicyModel(), estimated, kept, **options)
    made = kept.action >= 0
    scored = int((estimated.available.sum(axis=1) > 1)[kept.state[made]].sum())
    assert scored < made.sum() <= data.num_steps == 144
    assert (known.basis.environment, known.basis.held_out, known.basis.scored) == ("given", 144, 144)
    assert not any("not scored" in warning for warning in known.warnings)
    assert found.basis.environment == "estimated from the choices"
    assert (found.basis.held_out, found.basis.scored) == (made.sum(), scored)
    assert found.table["choices"].eq(scored).all()
    says = f"{made.sum() - scored} of {made.sum()} held-out choices are not scored"
    assert any(warning.startswith(says) for warning in found.warnings)
    lost = 144 - int(made.sum())
    assert any(warning.startswith(f"{lost} choices are left out") for warning in found.warnings) == bool(lost)
    assert found.basis.digest != known.basis.digest
    assert f"{scored} of {made.sum()} held-out choices (set {found.basis.digest})" in repr(found)
    assert "environment estimated from the choices" in found._repr_html_()
    found.save(tmp_path / "score.json")
    assert Score.load(tmp_path / "score.json").basis == found.basis
    assert json.loads((tmp_path / "score.json").read_text())["basis"]["scored"] == scored
    found.save(tmp_path / "score.csv")
    assert pd.read_csv(tmp_path / "score.csv")["environment"].eq("estimated from the choices").all()
    assert "cannot be compared with each other" in differing([known.basis, found.basis])
    assert differing([known.basis, known.basis, None]) is None


def test_the_same_choices_are_known_again_whatever_states_are_called(seldom):
    (place, data), _ = seldom
    assert choices_digest(data.with_memory(place.with_memory())) == choices_digest(data)
    turned = mm.Environment.from_frame(place.to_frame().iloc[::-1], discount=0.8)
    again = mm.Demonstrations.from_frame(data.to_frame(), turned, episode="episode", step="step")
    assert again.states != data.states
    assert choices_digest(again) == choices_digest(data)
    other = replace(data, action=np.where(np.arange(len(data.action)) == 3, (data.action + 1) % 3, data.action))
    assert choices_digest(other) != choices_digest(data)


def test_a_belief_that_has_only_seen_actions_says_what_it_cannot_score(seldom):
    (place, data), _ = seldom
    seen = mm.DynamicsBelief.from_demonstrations(data, discount=0.8)
    everything = np.ones(len(data.action), dtype=bool)
    scored = (seen.mean.available.sum(axis=1) > 1)[data.state]
    basis = Basis.of({"MRP": seen}, data, everything, scored)
    assert basis.environment == "inferred along with the rewards"
    assert f"{(~scored).sum()} of 144 held-out choices are not scored" in basis_warnings(seen, data, basis)[0]
    assert not basis_warnings(mm.DynamicsBelief.around(place, 3.0), data, basis)
    two = Basis.of({"one": place, "other": seen}, data, everything, scored)
    assert two.environment == "given; inferred along with the rewards by other"


def test_runs_in_an_environment_known_and_estimated_are_not_compared(seldom):
    (place, data), (estimated, kept) = seldom
    assert np.array_equal(kept.action, data.action)
    one, two = (mm.fit(mm.RewardPolicyModel(), env, kept, QUICK, progress=False) for env in (place, estimated))
    with pytest.raises(
        mm.errors.InputError, match="two was fitted to the same choices in an environment with other"
    ) as said:
        mm.score({"one": one, "two": two}, beside=())
    assert "144 in that of one" in str(said.value)


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
    assert list(Score.load(tmp_path / "s.json").table["model"]) == [*PLAIN, "RP", "MRP", "MPO"]


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
