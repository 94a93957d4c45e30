"""Simulation-based calibration where motives switch, and controls that must fail.

What is ranked does not depend on the order of motives.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import manymotives as mm
from cases import seeds_from
from goodness_of_fit import SIGNIFICANCE
from manymotives.assessment.switching import drawn_rows, filtered
from manymotives.inference.mcmc.motive_updates import resample_rows
from manymotives.inference.mcmc.motives import MotiveSampler
from manymotives.models.assignment import Assignment
from manymotives.models.hidden_markov import filtered_motives
from places import TRIANGLE

SHARINGS = {"Pooled": mm.Pooled(), "Separate": mm.Separate(), "Hierarchical": mm.Hierarchical()}
SHORT = mm.Gibbs(chains=1, draws=30, warmup=40, thin=5)
LONG = mm.HMC(chains=1, draws=40, warmup=60, thin=4, max_rounds=1)
PATIENT = mm.Gibbs(chains=1, draws=40, warmup=60, thin=20)  # motives of tasks by state change slowly: ranks show it
SIZE = {"tasks": 3, "steps": 20, "progress": False}
GAMMA = mm.Gamma(shape=2.0, rate=0.3)


def switching_model(sharing, by, stickiness=GAMMA, motives=2):
    population = mm.GaussianReward(mean=mm.Normal(mean=0.0, scale=1.0), scale=mm.HalfNormal(scale=1.0))
    reward = population if sharing == "Hierarchical" else mm.GaussianReward(mean=0.0, scale=2.0)
    switching = mm.Switching(motives, by=by, stickiness=stickiness, concentration=GAMMA)
    return mm.RewardPolicyModel(reward, mm.Softmax(2.0), SHARINGS[sharing], switching)


def test_the_truth_is_one_more_draw():
    model = switching_model("Hierarchical", "state")
    found = mm.calibrate(model, TRIANGLE, SHORT, seeds=seeds_from(41, 30), **SIZE)
    assert {"stay 0, least", "switches", "last two the same, filtered", "stickiness"} <= set(found.ranks)
    assert found.p_value > SIGNIFICANCE, found


CASES = list(enumerate(itertools.product(SHARINGS, ["everywhere", "state"])))


@pytest.mark.long
@pytest.mark.parametrize(("number", "case"), CASES)
def test_the_truth_is_one_more_draw_of_five_hundred(number, case):
    """Seeds of their own: with the same ones, truth would switch at the same steps in all cases."""
    method = PATIENT if case[0] == "Hierarchical" else LONG
    found = mm.calibrate(switching_model(*case), TRIANGLE, method, seeds=seeds_from(50 + number, 500), **SIZE)
    print(*case, found, sep="\n")
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
@pytest.mark.parametrize("motives", [1, 3])
def test_other_numbers_of_motives_rewards_and_rules_are_calibrated(motives):
    switching = mm.Switching(motives, by="state", stickiness=0.0, concentration=mm.HalfNormal(scale=5.0))
    choice = mm.SoftOptimal(mm.Gamma(shape=4.0, rate=1.0), lapse=mm.Beta(alpha=1.0, beta=9.0))
    model = mm.RewardPolicyModel(mm.DirichletReward(mm.Gamma(shape=3.0, rate=2.0)), choice, switching=switching)
    found = mm.calibrate(model, TRIANGLE, replace(PATIENT, thin=30), seeds=seeds_from(43, 200), **SIZE)
    print(motives, found, sep="\n")
    assert found.p_value > SIGNIFICANCE, found


# ---- controls: what is wrong must look wrong ------------------------------------------------------------------


def test_another_stickiness_is_seen():
    """Truth that hardly ever switches, fitted with a prior that expects it to."""
    often, never = mm.LogNormal(mean=-1.0, scale=0.3), mm.LogNormal(mean=4.0, scale=0.3)
    model, truth = (switching_model("Pooled", "everywhere", each) for each in (often, never))
    found = mm.calibrate(model, TRIANGLE, SHORT, truth=truth, seeds=seeds_from(44, 25), **SIZE)
    assert found.p_value < 1e-3
    assert found.p_values["switches"] < 0.01


@pytest.mark.long
def test_motives_that_are_never_drawn_again_are_seen(monkeypatch):
    """Rows and rewards are, given the motives with which a chain began; likelihoods, which nobody computes, are not."""

    def rows_alone(self, rng, layout, data, state):
        resample_rows(rng, self.segments, self.tree, self.state)

    monkeypatch.setattr(MotiveSampler, "update", rows_alone)
    found = mm.calibrate(switching_model("Pooled", "everywhere"), TRIANGLE, SHORT, seeds=seeds_from(45, 40), **SIZE)
    each = found.p_values.drop("log-likelihood")
    assert each.min() * len(each) < 1e-3


# ---- what truth is drawn with, and ranked by, against the sampler's own ---------------------------------------------


@pytest.mark.parametrize("by", ["everywhere", "state"])
def test_filtering_draws_one_by_one_gives_the_same(by):
    model = switching_model("Hierarchical", by, motives=3)
    rng = np.random.default_rng(0)
    rows, _, _ = drawn_rows(rng, model, 3, 2)
    chosen = mm.simulate(TRIANGLE, rng.normal(size=(2, 3)), mm.Softmax(1.0), steps=12, seed=1)
    log_policies = np.log(rng.dirichlet(np.ones(2), size=(2, 3, 3)))  # [task, motive, state, action]
    assignment = Assignment.of(model.switching, model.sharing, chosen)
    contexts = rows.swapaxes(0, 1).reshape(-1, 4, 3)
    flat = np.ascontiguousarray(log_policies.swapaxes(0, 1).reshape(6, 3, 2))
    expected, likelihood = filtered_motives(assignment.segments, contexts, flat, assignment.num_episodes)
    for task in range(2):
        mine = chosen.task == task
        found = filtered(log_policies[None, task], rows[None, task], chosen.state[mine], chosen.action[mine])
        np.testing.assert_allclose(found.last[0], expected[mine][-1], atol=1e-12)
        np.testing.assert_allclose(found.log_likelihood[0], likelihood[task], atol=1e-10)


def test_rows_from_the_prior_have_the_means_and_spreads_of_their_tree():
    """E A(j, j) = (1 + κ) / (K + κ); a child of ν has 1 / (ν + 1) of its parent's variance p (1 − p), on average."""
    switching = mm.Switching(3, by="state", stickiness=2.0, concentration=4.0)
    model = mm.RewardPolicyModel(switching=switching)
    rng = np.random.default_rng(1)
    drawn = np.stack([drawn_rows(rng, model, 2, 2)[0] for _ in range(4000)])  # [n, task, state, K + 1, K]
    stay, start = drawn[:, 0, 0, 1, 1], drawn[:, 0, 0, -1, 1]
    for values, mean in ((stay, 3 / 5), (start, 1 / 3)):
        assert abs(values.mean() - mean) < 4 * values.std() / np.sqrt(len(values))
    # tasks of one state are alike by its row, whose children they are; states by the root alone
    tasks, states = drawn[:, 0, 0, 1, 1] - drawn[:, 1, 0, 1, 1], drawn[:, 0, 0, 1, 1] - drawn[:, 0, 1, 1, 1]
    spread = 3 / 5 * 2 / 5 * (1 - 1 / 6)  # of p (1 − p) at the root, whose concentration is 5
    level = spread * (1 - 1 / 5)  # … and of a state's row
    for values, expected in ((tasks, 2 * level / 5), (states, 2 * (level / 5 + spread / 5))):
        squares = values**2
        assert abs(squares.mean() - expected) < 4 * squares.std() / np.sqrt(len(squares))
