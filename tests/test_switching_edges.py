"""Switching motives at the edges: few choices, subjects alike, choices nearly certain, κ and ν extreme.

And models at random (`zoo_switching.py`).
"""

import warnings

import numpy as np
import pytest

import manymotives as mm
import zoo_switching as zoo
from cases import in_turn
from manymotives.posterior.labelling.relabelling import _matched
from places import TRIANGLE, corridor
from switching_examples import SHARINGS, quick, switching_data, switching_model

SEED = 22
SHORT = {"chains": 2, "draws": 150, "warmup": 60, "thin": 1}


def check(posterior):
    """Finite, probabilities that sum to one, log likelihoods not above 0."""
    drawn = posterior.data["posterior"].dataset
    for name, values in drawn.data_vars.items():
        assert np.isfinite(values.values).all(), name
    assert np.isfinite(posterior.data["sample_stats"].dataset["lp"].values).all()
    assert all((each.values <= 0).all() for each in posterior.data["log_likelihood"].dataset.data_vars.values())
    np.testing.assert_allclose(drawn["motive_transition"].sum("next_motive"), 1.0, atol=1e-12)
    np.testing.assert_allclose(drawn["motive_start"].sum("motive"), 1.0, atol=1e-12)
    for kind in ("filtered", "smoothed"):
        np.testing.assert_allclose(posterior.motives(kind=kind).sum("motive"), 1.0, atol=1e-9)
    assert (posterior.log_predictions(posterior.demonstrations) <= 0).all()


def fit(model, chosen, method=mm.Gibbs, environment=TRIANGLE):
    settings = quick(method, draws=40, warmup=20)
    return mm.fit(model, environment, chosen, settings, seed=0, progress=False)


def alike():
    return mm.simulate(TRIANGLE, np.tile([3.0, 0.0, 0.0], (4, 1)), mm.Softmax(2.0), steps=30, seed=1)


def one_choice():
    return mm.Demonstrations.from_lists([([0], [1])], TRIANGLE)


def nothing_chosen():
    return mm.Demonstrations.from_lists([([0, 1], [None, None]), ([2], [0])], TRIANGLE, tasks=["silent", "heard"])


EXTREMES = [
    {"stickiness": 0.0, "concentration": 1e-6, "motives": 4},
    {"stickiness": mm.HalfNormal(scale=1e-3), "concentration": mm.HalfNormal(scale=1e-3)},
    {"stickiness": 1e12, "concentration": 1e12},
    {"stickiness": 0.0},
    {"stickiness": mm.Gamma(shape=0.1, rate=0.1)},
    {"concentration": 1e-6},
    {"concentration": 1e12},
]


@pytest.mark.parametrize(
    "settings",
    [pytest.param(each, marks=[] if n < 3 else pytest.mark.long) for n, each in enumerate(EXTREMES)],
    ids=str,
)
def test_extreme_stickiness_and_concentration(settings):
    chosen, _ = switching_data(steps=15)
    posterior = fit(switching_model("Hierarchical", "state", **settings), chosen)
    check(posterior)


@pytest.mark.parametrize(("sharing", "choices"), in_turn(SHARINGS, (alike, one_choice), every=3))
def test_subjects_alike_and_one_choice(sharing, choices):
    check(fit(switching_model(sharing, "state", motives=3), choices(), mm.HMC))


@pytest.mark.parametrize("sharing", ["Pooled", "Hierarchical"])
def test_a_task_without_choices(sharing):
    posterior = fit(switching_model(sharing, "state", motives=4), nothing_chosen())
    check(posterior)
    assert posterior.motives().sizes["row"] == 3


def test_terminal_states_and_states_with_one_action():
    environment = corridor()
    wanted = np.array([[[0.0, 0, 0, 3], [3.0, 0, 0, 0]]])
    agent = mm.worlds.SwitchingAgent(mm.Softmax(2.0), np.full((2, 2), 0.5))
    chosen, _ = mm.simulate(environment, wanted, agent, steps=10, episodes=6, seed=0)
    check(fit(switching_model("Pooled", "state"), chosen, environment=environment))


@pytest.mark.parametrize("rule", [mm.Softmax, mm.SoftOptimal])
def test_choices_that_are_nearly_certain(rule):
    chosen, _ = switching_data(tasks=1, steps=20)
    switching = mm.Switching(2, stickiness=2.0)
    for temperature in (50.0, mm.LogNormal(mean=5.0, scale=2.0)):
        model = mm.RewardPolicyModel(mm.GaussianReward(), rule(temperature, lapse=0.01), mm.Pooled(), switching)
        check(fit(model, chosen))


def test_choices_that_no_motive_allows_are_refused():
    model = mm.RewardPolicyModel(
        mm.GaussianReward(mean=0.0, scale=1e6), mm.Softmax(1e308), mm.Pooled(), mm.Switching(2)
    )
    chosen, _ = switching_data(tasks=1, steps=40)
    with pytest.raises(mm.errors.InputError, match="impossible"):
        fit(model, chosen)


def test_the_last_draw_does_not_decide_how_motives_are_matched():
    """Draws in order, the last unlike all others: compared with it alone, a doubtful draw would stay as it is."""
    usual, last, doubtful = [(0.9, 0.6), (0.1, 0.4)], [(0.6, 0.9), (0.4, 0.1)], [(0.2, 0.8), (0.3, 0.6)]
    shares = np.array([usual] * 9 + [doubtful, last])  # [draw, motive, state] of the first action
    log_policies = np.log(np.stack([shares, 1 - shares], axis=-1).reshape(11, 2, 4)).astype(np.float32)
    used = np.tile([0.6, 0.4], (11, 1))
    found = _matched(log_policies, np.ones(4), used)
    assert found[-2].tolist() == [1, 0]
    order = np.argsort(np.random.default_rng(0).random((11, 2)), axis=1)
    rows = np.arange(11)[:, None]
    again = _matched(log_policies[rows, order], np.ones(4), used[rows, order])
    np.testing.assert_array_equal(order[rows, again], found)


# ---- models at random ------------------------------------------------------------------------------------------


@pytest.mark.long  # short: the exact posteriors of test_switching_exact.py
@pytest.mark.parametrize("index", [0, 1])
def test_methods_on_a_model_at_random(index):
    record = zoo.examine(SEED, index, SHORT, ("HMC", "Gibbs"))
    assert not zoo.is_bad(record), zoo.described(record)


@pytest.mark.long
def test_many_models_at_random():
    size = {"chains": 4, "draws": 400, "warmup": 250, "thin": 2}
    records = [zoo.examine(SEED + 1, index, size) for index in range(30)]
    assert not any(map(zoo.is_bad, records)), "\n".join(map(zoo.described, filter(zoo.is_bad, records)))
    value, count, _ = zoo.rms(records)
    assert count > 1000
    assert 0.85 < value < 1.15  # quantities of one model are correlated


@pytest.mark.long
def test_one_mode_of_many_models_at_random():
    """Where EM has formulas: finite, within the prior's reach, densities recomputed."""
    found = []
    for index in range(250):
        one = zoo.switching_specimen(5, index)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                posterior = zoo.fitted(one, mm.EmpiricalBayes(draws=30), 1)
        except mm.errors.InputError:
            continue  # other priors than normal ones, or how many motives there are is not known
        reach = zoo.log_reach(one, np.random.default_rng([5, index, 1]))
        found.append(zoo.problems_of(one, posterior, reach))
    assert len(found) > 15
    assert not any(found), found
