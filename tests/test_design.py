"""Which experiment tells most: information against brute force, bounds on the right side, and what is said of it."""

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import manymotives as mm
from goodness_of_fit import SIGNIFICANCE
from manymotives.assessment.information import expected_information, groups_of
from oracle_design import information, information_about_difference, motives, path_probabilities, policies

DISCOUNT, TEMPERATURE, STEPS = 0.8, 1.5, 3
NAMES = ["middle", "water", "home"]
FEATURES = {  # water and home have one feature each; in "both", one state has both
    "fork": np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    "slippery": np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    "blind": np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]),
    "both": np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]),
}


def fork(slip=0.0):
    """From the middle to water or home, from either back to the middle or to the same again."""
    moves = np.zeros((3, 2, 3))
    moves[0, 0], moves[0, 1] = [0.0, 1.0 - slip, slip], [0.0, slip, 1.0 - slip]
    moves[1, 0], moves[1, 1] = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]
    moves[2, 0], moves[2, 1] = [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]
    return moves


def blind():
    """Whatever is done, the same may follow."""
    return np.repeat(np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])[:, None], 2, axis=1)


MOVES = {"fork": fork(), "slippery": fork(0.35), "blind": blind(), "both": fork()}
START = [1.0, 0.0, 0.0]
PLACES = {name: mm.Environment(moves, discount=DISCOUNT, states=NAMES, start=START) for name, moves in MOVES.items()}
MODELS = {
    soft: mm.RewardPolicyModel(
        mm.GaussianReward(features=FEATURES, names=["water", "home"], mean=0.0, scale=1.0),
        (mm.SoftOptimal if soft else mm.Softmax)(TEMPERATURE),
        mm.Pooled(),
    )
    for soft in (False, True)
}


@lru_cache
def exact(name, soft, contrast=False, groups=None):
    weights, masses = motives()
    policy = policies(MOVES[name], FEATURES[name], DISCOUNT, TEMPERATURE, weights, soft)
    probabilities = path_probabilities(MOVES[name], policy, 0, STEPS)
    np.testing.assert_allclose(probabilities.sum(axis=0), 1.0)
    return information_about_difference(probabilities, groups) if contrast else information(probabilities, masses)


@pytest.mark.parametrize("soft", [False, True])
def test_information_about_the_whole_motive_is_that_of_brute_force(soft):
    found = mm.design(PLACES, MODELS[soft], steps=STEPS, draws=1000, seed=1, progress=False)
    table = found.table.set_index("candidate")
    for name in PLACES:
        row, truth = table.loc[name], exact(name, soft)
        assert abs(row["information"] - truth) <= 3.5 * row["error"] + 1e-12, name
        assert row["lower"] <= truth + 3.5 * row["error"] + 1e-12
        assert row["upper"] >= truth - 3.5 * row["error"] - 1e-12
        assert row["lower"] <= row["upper"] + 1e-12  # rounding, where both are 0
    assert table.loc["blind", "information"] == pytest.approx(0.0, abs=1e-12)
    ranked = sorted(PLACES, key=lambda name: -exact(name, soft))
    assert list(found.table["candidate"])[-1] == ranked[-1] == "blind"
    assert found.best == ranked[0]


@pytest.mark.parametrize("soft", [False, True])
def test_information_about_a_contrast_is_that_of_brute_force(soft):
    found = mm.design(PLACES, MODELS[soft], "water - home", steps=STEPS, draws=1000, seed=2, progress=False)
    table = found.table.set_index("candidate")
    for name in PLACES:
        row, truth = table.loc[name], exact(name, soft, contrast=True, groups=10)
        assert truth <= exact(name, soft, contrast=True) + 1e-9
        assert abs(row["information"] - truth) <= 3.5 * row["error"] + 1e-12, name
        assert row["lower"] <= truth + 3.5 * row["error"] + 1e-12
        assert row["upper"] >= truth - 3.5 * row["error"] - 1e-12
    assert exact("both", soft, contrast=True) == pytest.approx(
        0.0, abs=1e-9
    )  # their sum says nothing of the difference
    assert abs(table.loc["both", "information"]) <= 3.5 * table.loc["both", "error"]
    assert exact("both", soft) > 0.05
    assert found.best in ("fork", "slippery")
    assert list(table["identified"][["fork", "blind", "both"]]) == [True, False, False]
    assert found.identified


def repeated(draws, group_count=None, repetitions=300, noise=0.3):
    """Estimates from few draws of a number that is seen with normal noise, again and again: bounds, middle, error."""
    rng, found = np.random.default_rng(4), []
    for _ in range(repetitions):
        theta = rng.standard_normal(draws)
        data = theta + noise * rng.standard_normal(draws)
        group = None if group_count is None else groups_of(theta, group_count)
        each = expected_information(-0.5 * ((data[:, None] - theta) / noise) ** 2, group)
        found.append((each.lower, each.upper, each.estimate, each.error))
    return np.array(found).T


def test_bounds_enclose_a_known_truth_with_few_draws_and_errors_are_those_of_repetitions():
    lower, upper, middle, error = repeated(60)
    truth = 0.5 * np.log(1 + 1 / 0.3**2)
    spread = np.std(middle) / np.sqrt(len(middle))
    assert np.mean(lower) < truth - 3 * spread
    assert np.mean(upper) > truth + 3 * spread
    assert abs(np.mean(middle) - truth) < 0.5 * min(truth - np.mean(lower), np.mean(upper) - truth)
    assert np.mean(error) == pytest.approx(np.std(middle), rel=0.2)  # 300 repetitions know it to 4 %


def test_errors_of_a_group_are_those_of_repetitions_and_half_as_many_groups_tell_less():
    lower, upper, middle, error = repeated(200, 5, repetitions=150)
    assert np.mean(lower) < np.mean(upper)
    assert np.mean(error) == pytest.approx(np.std(middle), rel=0.25)
    fewer = repeated(200, 2, repetitions=60)[2]
    assert np.mean(fewer) < np.mean(middle) - 3 * np.std(middle) / 10
    assert np.mean(fewer) < np.log(2)


def test_a_sequence_is_the_information_of_all_together():
    """Two independent looks at the fork, against brute force: paths of both, whose probabilities multiply."""
    found = mm.design(
        {"fork": PLACES["fork"]},
        _for("fork"),
        steps=2,
        rounds=2,
        draws=1500,
        seed=5,
        progress=False,
    )
    weights, masses = motives()
    policy = policies(MOVES["fork"], FEATURES["fork"], DISCOUNT, TEMPERATURE, weights)
    once = path_probabilities(MOVES["fork"], policy, 0, 2)
    twice = (once[:, None] * once[None]).reshape(-1, once.shape[1])
    row = found.sequence.iloc[1]
    assert abs(row["information"] - information(twice, masses)) <= 3.5 * row["error"]
    assert row["gain"] < found.sequence["gain"][0]  # what is known already is not learnt again
    assert "Chosen one after the other" in str(found)


def _for(name):
    """The model with the features of one candidate."""
    reward = mm.GaussianReward(features={name: FEATURES[name]}, names=["water", "home"], mean=0.0, scale=1.0)
    return mm.RewardPolicyModel(reward, mm.Softmax(TEMPERATURE), mm.Pooled())


def test_groups_have_equally_many_draws_and_keep_equal_values_together():
    values = np.random.default_rng(0).normal(size=1000)
    assert set(np.bincount(groups_of(values, 10))) == {100}
    some = np.repeat([0.0, 1.0], 50)
    assert groups_of(some, 10).tolist() == some.astype(int).tolist()
    assert (np.bincount(groups_of(np.append(some, 2.0), 10)) > 1).all()


@pytest.mark.long
@pytest.mark.parametrize("contrast", [None, "water - home"])
def test_estimates_scatter_around_brute_force_as_their_errors_say(contrast):
    """Sixty seeds: squared distances from the truth, in errors, are χ²; from another candidate's truth they are not."""
    groups = None if contrast is None else 10
    truth = {name: exact(name, False, contrast is not None, groups) for name in ("fork", "slippery")}
    found = [
        mm.design(PLACES, MODELS[False], contrast, steps=STEPS, draws=500, seed=seed, progress=False).table
        for seed in range(100, 160)
    ]
    rows = pd.concat(found).set_index("candidate").loc["fork"]
    for name, is_right in (("fork", True), ("slippery", False)):
        z = (rows["information"] - truth[name]) / rows["error"]
        p_value = 2 * min(stats.chi2.sf((z**2).sum(), len(z)), stats.chi2.cdf((z**2).sum(), len(z)))
        assert (p_value > SIGNIFICANCE) == is_right, (name, p_value)


@pytest.mark.parametrize("executor", [ThreadPoolExecutor(2), pytest.param(2, marks=pytest.mark.long)])
def test_the_numbers_are_the_same_whoever_computes_and_resume_from_a_store(executor, tmp_path, monkeypatch):
    sizes = {"steps": STEPS, "starts": ["middle", "water"], "rounds": 2, "draws": 200, "progress": False}
    alone = mm.design(PLACES, MODELS[False], "water - home", **sizes)
    store = tmp_path / "design.db"
    shared = mm.design(PLACES, MODELS[False], "water - home", **sizes, executor=executor, store=store)
    pd.testing.assert_frame_equal(alone.table, shared.table, check_exact=True)
    pd.testing.assert_frame_equal(alone.sequence, shared.sequence, check_exact=True)
    monkeypatch.setattr("manymotives.assessment.design.informed", None)  # nothing is computed again
    again = mm.design(PLACES, MODELS[False], "water - home", **sizes, store=store)
    pd.testing.assert_frame_equal(alone.table, again.table, check_exact=True)
