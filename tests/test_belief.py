"""Beliefs over transitions: what they are made of, and what is inferred where the environment is not known."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import manymotives as mm
from cases import seeds_from
from goodness_of_fit import SIGNIFICANCE
from manymotives.fitting.checkpoints import fit_in_blocks, identity_of
from manymotives.fitting.run import Run
from manymotives.inference import Progress, RunState
from manymotives.models import Target

NOTHING = np.zeros((3, 2, 3))
PRIOR = mm.DynamicsBelief(NOTHING, discount=0.9, prior=2.0)
REWARDS = np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1]])
TRUTH = PRIOR.sample(1, seed=4)[0]
CHOICES = mm.simulate(TRUTH, REWARDS, mm.Softmax(10.0), steps=40, seed=0)
MODEL = mm.RewardPolicyModel(
    mm.DirichletReward(concentration=mm.Gamma(shape=2.0, rate=1.0)), mm.Softmax(10.0), mm.Hierarchical()
)
SHORT = mm.HMC(chains=2, draws=60, warmup=60, thin=1, max_rounds=1)
METHODS = [SHORT, mm.Gibbs(2, 40, 40, 2), mm.Metropolis(2, 40, 40, 2)]


# ---- what a belief is made of ------------------------------------------------------------------------------------


def test_counts_and_prior_add_up():
    belief = PRIOR.after(CHOICES)
    expected = CHOICES.transition_counts().toarray() + 2.0 / 3.0
    np.testing.assert_allclose(belief.concentration.toarray(), expected)
    np.testing.assert_allclose(
        belief.mean.tensor.reshape(6, 3), expected / expected.sum(axis=1, keepdims=True), rtol=1e-12
    )
    same = mm.DynamicsBelief(CHOICES.transition_counts(), discount=0.9, prior=2.0)
    np.testing.assert_allclose(same.concentration.toarray(), expected)


def test_samples_have_the_dirichlets_moments():
    belief = PRIOR.after(CHOICES)
    drawn = belief.draws(40_000, np.random.default_rng(0))
    alpha = belief.concentration.toarray()
    mean = alpha / alpha.sum(axis=1, keepdims=True)
    spread = np.sqrt(mean * (1 - mean) / (alpha.sum(axis=1, keepdims=True) + 1))
    np.testing.assert_array_less(np.abs(drawn.mean(axis=0) - mean.ravel()), 4.5 * spread.ravel() / 200)
    np.testing.assert_allclose(drawn.std(axis=0), spread.ravel(), rtol=0.05)
    np.testing.assert_allclose(drawn.reshape(-1, 6, 3).sum(axis=2), 1.0)


def test_intervals_are_exact():
    table = PRIOR.after(CHOICES).to_frame(level=0.9)
    row = table[(table.state == 0) & (table.action == 1) & (table.next_state == 2)].iloc[0]
    alpha = CHOICES.transition_counts().toarray()[1] + 2.0 / 3.0
    assert row["lower"] == pytest.approx(stats.beta(alpha[2], alpha.sum() - alpha[2]).ppf(0.05))
    assert row["upper"] == pytest.approx(stats.beta(alpha[2], alpha.sum() - alpha[2]).ppf(0.95))


def test_impossible_moves_stay_impossible():
    possible = np.ones((3, 2, 3), dtype=bool)
    possible[0, 0] = [False, True, False]
    belief = mm.DynamicsBelief(NOTHING, discount=0.9, possible=possible)
    for place in belief.sample(20, seed=1):
        assert place.tensor[0, 0].tolist() == [0.0, 1.0, 0.0]
    assert not belief.is_uncertain[:1].any()
    assert belief.is_uncertain[1:].all()
    assert "uncertain for 5 of 6 state-action pairs" in repr(belief)


def test_from_demonstrations_what_followed_a_state_may_follow_it():
    walks = [(["a", "b", "a", "c"], ["x", "x", "y"]), (["a", "a"], ["x"])]
    demos = mm.Demonstrations.from_lists(walks)
    belief = mm.DynamicsBelief.from_demonstrations(demos, discount=0.9, prior=3.0)
    table = belief.to_frame().set_index(["state", "action", "next_state"])["concentration"]
    assert table["a", "x"].to_dict() == {"a": 2.0, "b": 2.0, "c": 1.0}
    assert table["a", "y"].to_dict() == {"a": 1.0, "b": 1.0, "c": 2.0}
    assert table["b", "x"].to_dict() == {"a": 4.0}
    assert belief.mean.is_terminal.tolist() == [False, False, True]
    assert any("observed fewer than 5 times" in warning for warning in belief.warnings)


def test_from_a_table_of_counts():
    table = pd.DataFrame(
        {"state": ["a", "a", "b"], "action": ["x", "x", "x"], "next_state": ["a", "b", "c"], "count": [3, 0, 2]}
    )
    belief = mm.DynamicsBelief.from_frame(table, discount=0.9, prior=1.0)
    assert belief.to_frame()["concentration"].tolist() == [3.5, 0.5, 3.0]
    assert belief.mean.is_terminal.tolist() == [False, False, True]


def test_what_cannot_be_reached_or_was_never_seen_is_said():
    possible = np.zeros((3, 2, 3), dtype=bool)
    possible[:, :, :2] = True
    belief = mm.DynamicsBelief(NOTHING, discount=0.9, possible=possible, start=[0.5, 0.5, 0.0])
    assert "6 of 6 state-action pairs" in belief.warnings[0]
    assert "never observed" in belief.warnings[0]
    assert "state 2 cannot be reached" in belief.warnings[1]


# ---- fits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_each_draw_has_its_own_environment_and_likelihood(method):
    """Stored log-likelihoods are those of the draw's rewards in the draw's environment, computed from scratch."""
    belief = PRIOR.after(CHOICES)
    posterior = mm.fit(MODEL, belief, CHOICES, method, progress=False)
    drawn = posterior.data["posterior"].dataset
    moves = drawn["transition"].values.reshape(-1, 18)
    rewards = drawn["reward"].values.reshape(-1, 3, 3)
    stored = posterior.data["log_likelihood"]["choices"].values.reshape(len(moves), -1)
    for k in (0, 17, len(moves) - 1):
        place = mm.Environment(moves[k].reshape(3, 2, 3), discount=0.9)
        log_policies = np.log(mm.Softmax(10.0).policies(place, rewards[k]))
        np.testing.assert_allclose((CHOICES.counts * log_policies).sum(axis=(1, 2)), stored[k], rtol=1e-9)
    assert len({round(move, 12) for move in moves[:, 4]}) > 10
    assert 0.02 < posterior.data["sample_stats"]["environment_acceptance_rate"].values.min() <= 1.0
    mean = posterior.predictive_policies(draws=10_000).values
    places = [mm.Environment(move.reshape(3, 2, 3), discount=0.9) for move in moves]
    policies = [mm.Softmax(10.0).policies(place, reward) for place, reward in zip(places, rewards)]
    np.testing.assert_allclose(mean, np.mean(policies, axis=0), rtol=1e-9)


@pytest.mark.long
def test_a_belief_that_is_nearly_sure_gives_what_the_environment_gives():
    method = mm.HMC(chains=4, draws=400, warmup=100, thin=1, max_rounds=1)
    known = mm.fit(MODEL, TRUTH, CHOICES, method, seed=1, progress=False)
    believed = mm.fit(MODEL, mm.DynamicsBelief.around(TRUTH, 1e7), CHOICES, method, seed=2, progress=False)
    for name in ("reward", "reward_concentration"):
        one, other = (each.data["posterior"].dataset[name] for each in (known, believed))
        error = np.hypot(*(standard_error(each) for each in (one, other)))
        difference = np.abs(one.mean(("chain", "draw")) - other.mean(("chain", "draw"))).values
        assert (difference < 4.5 * error + 1e-4).all()
    np.testing.assert_allclose(
        believed.data["posterior"]["transition"].mean(("chain", "draw")).values.reshape(3, 2, 3),
        TRUTH.tensor,
        atol=1e-3,
    )


def standard_error(draws: Any) -> np.ndarray:
    """Of means over chains, from halves of chains as batches."""
    values = draws.transpose("chain", "draw", ...).values
    batches = values.reshape(values.shape[0] * 4, -1, *values.shape[2:]).mean(axis=1)
    return batches.std(axis=0, ddof=1) / np.sqrt(len(batches))


def test_a_belief_without_doubts_is_an_environment():
    certain = mm.DynamicsBelief(np.eye(3)[[[0, 1], [1, 2], [2, 0]]], discount=0.9, prior=0.0)
    choices = mm.simulate(certain.mean, REWARDS, mm.Softmax(10.0), steps=20, seed=0)
    one, other = (mm.fit(MODEL, place, choices, SHORT, progress=False) for place in (certain, certain.mean))
    np.testing.assert_array_equal(one.rewards.values, other.rewards.values)
    assert one.belief is None
    assert "transition" not in one.data["posterior"].dataset


def test_posteriors_come_back_and_go_on(tmp_path):
    belief = PRIOR.after(CHOICES)
    whole = mm.fit(MODEL, belief, CHOICES, SHORT, progress=False)
    half = mm.fit(MODEL, belief, CHOICES, replace(SHORT, draws=30), progress=False)
    half.save(tmp_path / "half.nc")
    loaded = mm.load(tmp_path / "half.nc")
    np.testing.assert_array_equal(loaded.belief.concentration.toarray(), belief.concentration.toarray())
    np.testing.assert_allclose(loaded.predictive_policies().values, half.predictive_policies().values)
    joined = mm.fit(MODEL, belief, CHOICES, replace(SHORT, draws=30), start=loaded, progress=False)
    for name in ("reward", "transition"):
        np.testing.assert_array_equal(
            joined.data["posterior"][name].values, whole.data["posterior"][name].values, err_msg=name
        )
    with pytest.raises(mm.errors.InputError, match="another model, environment or data set"):
        mm.fit(MODEL, PRIOR, CHOICES, SHORT, start=loaded, progress=False)
    blocks = fit_in_blocks(Run(MODEL, belief, CHOICES, SHORT), tmp_path / "run.nc", every=0.0, progress=False)
    np.testing.assert_array_equal(blocks.data["posterior"]["transition"].values, whole.data["posterior"]["transition"])
    one, other = (identity_of(Run(MODEL, place, CHOICES, SHORT))["environment"] for place in (belief, belief.mean))
    assert one != other


@pytest.mark.parametrize("hold_out", [pytest.param(("episodes", 3), marks=pytest.mark.long), "tasks"])
def test_scores(hold_out):
    several = mm.simulate(TRUTH, REWARDS, mm.Softmax(10.0), steps=10, episodes=3, seed=0)
    posterior = mm.fit(MODEL, PRIOR.after(several), several, METHODS[2], progress=False)
    found = mm.score(posterior, hold_out=hold_out, beside=[], progress=False)
    table = found.table.set_index("model")["log_likelihood"]
    assert np.isfinite(table["MRP"])
    assert table["MRP"] > table["uniform"] - 0.2


def test_methods_that_cannot_say_so():
    for method in (mm.MonteCarlo(), mm.NestedMonteCarlo(), mm.EmpiricalBayes(), mm.HMC(device="cpu")):
        with pytest.raises(mm.errors.InputError, match="cannot infer an environment together with the rewards"):
            mm.fit(MODEL, PRIOR, CHOICES, method, progress=False)


# ---- calibration: environment, rewards and choices from the model -----------------------------------------------


@dataclass(frozen=True)
class PlugIn:
    """Takes the belief's mean for the truth: what must come out as too sure."""

    method: Any
    target_type: ClassVar[type] = Target
    is_markov_chain: ClassVar[bool] = True

    @property
    def draws(self) -> int:
        return int(self.method.draws)

    def init(self, target: Any, seed: int) -> RunState:
        return self.method.init(replace(target, belief=None), seed)

    def advance(self, state: RunState, draws: int, progress: Progress) -> Any:
        return self.method.advance(state, draws, progress)


@pytest.mark.parametrize(
    ("is_plugged_in", "replications", "thin"),
    [
        pytest.param(False, 30, 8, marks=pytest.mark.long),
        pytest.param(True, 40, 8, marks=pytest.mark.long),
        pytest.param(False, 1000, 50, marks=pytest.mark.long),
    ],
)
def test_calibration_where_the_environment_is_drawn_too(is_plugged_in, replications, thin):
    """Few transitions are seen: to take their frequencies for the truth is over-confident, and shows.

    Draws must hardly depend on each other, or all looks too sure: fifty sweeps, where the worst of forty data sets
    needs fifty for an effective draw; few replications do not see the rest of dependence that eight leave.
    """
    exact = mm.HMC(chains=1, draws=20, warmup=16, thin=thin, max_rounds=1)
    method = PlugIn(exact) if is_plugged_in else exact
    model = replace(MODEL, choice=mm.Softmax(20.0))
    seeds = seeds_from(11, replications)
    found = mm.calibrate(model, PRIOR, method, tasks=3, steps=10, seeds=seeds, progress=False)
    assert (found.p_value < 1e-6) if is_plugged_in else (found.p_value > SIGNIFICANCE)


# ---- decisions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sharing", [mm.Hierarchical(), pytest.param(mm.Pooled(), marks=pytest.mark.long)], ids=["MRP", "RP"]
)
def test_decisions_are_between_their_bounds(sharing):
    """Each policy's value, averaged over pairs of drawn rewards and environments, by hand."""
    belief = PRIOR.after(CHOICES)
    posterior = mm.fit(replace(MODEL, sharing=sharing), belief, CHOICES, SHORT, progress=False)
    found = posterior.decisions()
    xr_policy = posterior.policies()
    assert xr_policy.dims == ("task", "state", "action")
    np.testing.assert_array_equal(xr_policy.values, found["policy"].values)
    drawn = posterior.data["posterior"].dataset
    moves = drawn["transition"].values.reshape(-1, 3, 2, 3)
    reward = posterior.rewards.values.reshape(-1, 3, 3)
    places = [mm.Environment(move, discount=0.9) for move in moves]
    worth = [mm.evaluate(place, found["policy"].values, each) for place, each in zip(places, reward)]
    best = [mm.plan(place, each).value for place, each in zip(places, reward)]
    for name, by_hand in (("value", worth), ("upper", best)):
        error = np.std(by_hand, axis=0) / np.sqrt(30)  # of 120 pairs, which are alike in part
        assert (np.abs(found[name].values - np.mean(by_hand, axis=0)) < 4.5 * error + 1e-6).all(), name
    assert (found["value"] <= found["upper"] + 1e-9).all()
    with pytest.raises(mm.errors.InputError, match="the environment is known"):
        mm.fit(MODEL, TRUTH, CHOICES, SHORT, progress=False).decisions()


def test_decisions_of_a_nearly_sure_belief_are_those_of_the_environment():
    posterior = mm.fit(MODEL, mm.DynamicsBelief.around(TRUTH, 1e8), CHOICES, SHORT, progress=False)
    planned = mm.plan(TRUTH, posterior.mean_reward.values)
    np.testing.assert_array_equal(posterior.policies().values, planned.policy)


def test_a_whole_report_under_a_belief(tmp_path):
    posterior = mm.fit(MODEL, PRIOR.after(CHOICES), CHOICES, SHORT, progress=False)
    mm.report(posterior, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "The environment was not known. 120 transitions were observed" in page
    assert "What this uncertainty costs" in page
    mm.report(mm.fit(MODEL, TRUTH, CHOICES, SHORT, progress=False), tmp_path / "other.html")
    assert "What this uncertainty costs" not in (tmp_path / "other.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("what", ["nothing seen", "seen once", "unreachable"])
def test_little_to_go_on_is_said_and_gives_results(what):
    """Zero counts, a single observation, a state nobody can get to: finite results near the prior, and warnings."""
    possible = np.ones((3, 2, 3), dtype=bool)
    counts = NOTHING.copy()
    if what == "seen once":
        counts[0, 1, 2] = 1
    if what == "unreachable":
        possible[:, :, 2] = False
    belief = mm.DynamicsBelief(
        counts, discount=0.9, possible=possible, start=[0.5, 0.5, 0.0] if what == "unreachable" else None
    )
    once = mm.Demonstrations.from_lists([([0], [1])], environment=belief.mean)
    posterior = mm.fit(MODEL, belief, once, replace(SHORT, draws=200), progress=False)
    said = " ".join(posterior.warnings)
    assert {
        "nothing seen": "6 of 6 state-action pairs, such as 0 in 0: each was never observed",
        "seen once": "1 of 6 state-action pairs, such as 1 in 0: each was observed fewer than 5 times",
        "unreachable": "state 2 cannot be reached",
    }[what] in said
    assert np.isfinite(posterior.rewards.values).all()
    drawn = posterior.data["posterior"]["transition"]
    np.testing.assert_allclose(drawn.groupby(["move_state", "move_action"]).sum(), 1.0, rtol=1e-9)
    assert np.isfinite(posterior.decisions()["value"].values).all()
    assert posterior.rewards.std(("chain", "draw")).min() > 0.1  # one choice tells next to nothing
