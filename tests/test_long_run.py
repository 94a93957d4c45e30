"""How often each action is taken in the long run: against dense chains, eigenvectors, simulation, and Rust's buses."""

import numpy as np
import pytest

import manymotives as mm
import oracle_bus
import oracle_counterfactual as oracle
from counterfactual_examples import ACTIONS, STATES, concentrated, environment, fitted
from manymotives.posterior.sides import LONG_RUN, long_run_shares

ALL = np.ones((5, 3), dtype=bool)
# 1e-8 of what is far from stationary, for as long as it is, and rounding of 1e-16 / 1e-8
ERROR = 100 * (1 - LONG_RUN)


def chain_of(*where):
    """A deterministic environment in which every action leads from s to where[s]."""
    moves = np.zeros((5, 3, 5))
    moves[np.arange(5), :, where] = 1.0
    return moves


def split(seed):
    """Two classes that nobody leaves, {a, b} and {d, e}; from c either is reached, by an action of one's own."""
    moves = np.zeros((5, 3, 5))
    rng = np.random.default_rng(seed)
    moves[:2, :, :2], moves[3:, :, 3:] = rng.dirichlet([1.0, 1.0], (2, 3)), rng.dirichlet([1.0, 1.0], (2, 3))
    moves[2] = rng.dirichlet(np.ones(5), 3)
    return moves


def trap():
    """Sooner or later everybody is in e, and stays."""
    moves = 0.9 * environment().tensor + 0.1 * chain_of(4, 4, 4, 4, 4)
    moves[4] = np.eye(5)[4]
    return moves


START = {"a": 0.1, "c": 0.9}
PLACES = {
    "one class": environment(),
    "two classes": mm.Environment(split(0), discount=0.85, states=STATES, actions=ACTIONS, start=START),
    "one state that nobody leaves": mm.Environment(trap(), discount=0.85, states=STATES, actions=ACTIONS, start=START),
    "a cycle": mm.Environment(chain_of(1, 2, 3, 4, 0), discount=0.85, states=STATES, actions=ACTIONS, start={"a": 1.0}),
    "episodes that end": environment(terminal=["e"], start={"a": 0.6, "b": 0.3, "e": 0.1}),
    "a start that is forgotten": environment(start={"e": 1.0}),
}


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("rule", [mm.Softmax, mm.SoftOptimal])
def test_shares_are_those_of_the_dense_chain(name, rule):
    place, truth = PLACES[name], np.random.default_rng(7).normal(size=(2, 5))
    model = mm.RewardPolicyModel(mm.GaussianReward(), rule(2.0), mm.Hierarchical())
    found = concentrated(fitted(place, model), reward=truth).counterfactual(rewards={"b": 1.0}, available={"a": "x"})
    fewer = ALL.copy()
    fewer[0, 1:] = False
    ends = tuple(np.flatnonzero(place.is_terminal))
    for task, reward in enumerate(truth):
        for time, own, exists in (("before", reward, ALL), ("after", reward + np.eye(5)[1], fewer)):
            how = {"soft": rule is mm.SoftOptimal, "terminal": ends}
            policy = oracle.choices(place.tensor, exists, own, 0.85, 2.0, **how)
            expected = oracle.long_run(place.tensor, policy, place.start, ends)
            for end in ("", "_lower", "_upper"):  # all draws are the truth
                shown = found.data[f"long_run_share{end}"].isel(task=task).sel(time=time)
                np.testing.assert_allclose(shown, expected, atol=ERROR)
    shares = found.data["long_run_share"]
    np.testing.assert_allclose(shares.sel(time=["before", "after"]).sum("action"), 1.0, atol=1e-12)
    np.testing.assert_allclose(found.data["population_long_run_share"], shares.mean("task"), atol=1e-12)
    said = str(found)
    assert said.count("in all steps in the long run") == 2
    assert ("every episode that ends is followed by another" in said) == bool(ends)


def test_shares_of_large_environments_are_those_of_small_ones(monkeypatch):
    """The same chains by sparse systems."""
    policy = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 4, 5))
    dense = {name: long_run_shares(place, policy) for name, place in PLACES.items()}
    monkeypatch.setattr("manymotives.planning.visits.suits", lambda place: False)
    for name, place in PLACES.items():
        np.testing.assert_allclose(long_run_shares(place, policy), dense[name], atol=ERROR)


def test_shares_are_those_of_a_long_simulation():
    """Within 4 standard errors of 400 stretches of 500 steps, which hardly depend on each other."""
    place, rng = PLACES["one class"], np.random.default_rng(1)
    policy = rng.dirichlet(np.ones(3), size=5)
    choose, move = policy.cumsum(axis=1), place.tensor.cumsum(axis=2)
    state, done = np.zeros(400, dtype=int), np.zeros((400, 3))
    for step in range(600):
        action = (rng.random((400, 1)) > choose[state]).sum(axis=1).clip(max=2)
        if step >= 100:
            done[np.arange(400), action] += 1 / 500
        state = (rng.random((400, 1)) > move[state, action]).sum(axis=1).clip(max=4)
    error = done.std(axis=0) / np.sqrt(len(done))
    assert (np.abs(done.mean(axis=0) - long_run_shares(place, policy)) <= 4 * error).all()


def test_episodes_that_end_where_they_start_have_no_shares():
    place = environment(terminal=["e"], start={"e": 1.0})
    assert np.isnan(long_run_shares(place, np.full((2, 5, 3), 1 / 3))).all()


def test_what_one_side_alone_can_do_is_done_never_on_the_other():
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(2.0), mm.Hierarchical())
    moves = np.random.default_rng(0).dirichlet(np.ones(5), size=(5, 2))
    fewer = mm.Environment(moves, discount=0.85, states=STATES, actions=["y", "w"])
    found = fitted(PLACES["one class"], model).counterfactual(environment=fewer).data["long_run_share"]
    assert (found.sel(time="before", action="w") == 0).all()
    assert (found.sel(time="after", action=["x", "z"]) == 0).all()
    table = fitted(PLACES["one class"], model).counterfactual(environment=fewer).to_frame("population")
    shares = table[table["quantity"] == "long_run_share"]
    assert sorted(shares["action"]) == ["w", "x", "y", "z"]
    assert shares["identified"].eq(True).all()


def test_buses_are_replaced_as_often_as_the_true_chain_says():
    """Rust's problem at the true costs, before and after a subsidy: an eigenvector of the chain of soft values."""
    transitions, features = oracle_bus.bus_environment()
    place = mm.Environment(transitions, discount=oracle_bus.DISCOUNT, actions=["keep", "replace"], start={0: 1.0})
    names = ["replacement", "maintenance"]
    reward = mm.GaussianReward(features, on="state_action", names=names, mean=0.0, scale=20.0)
    model = mm.RewardPolicyModel(reward, mm.SoftOptimal(1.0), mm.Pooled())
    truth = features @ oracle_bus.TRUTH
    data = mm.simulate(place, truth[None], mm.SoftOptimal(1.0), steps=20, on="state_action", seed=0)
    quick = mm.HMC(chains=1, draws=2, warmup=2, max_rounds=1)
    posterior = concentrated(mm.fit(model, place, data, quick, progress=False), weight=oracle_bus.TRUTH, reward=truth)
    found = posterior.counterfactual(rewards={"replacement": -2.0}, progress=False)
    for time, subsidy in (("before", 0.0), ("after", 2.0)):
        _, log_policy = oracle_bus.soft_values(
            transitions, oracle_bus.DISCOUNT, features @ (oracle_bus.TRUTH - [subsidy, 0])
        )
        policy = np.exp(log_policy)
        values, vectors = np.linalg.eig(np.einsum("sa,sat->ts", policy, transitions))
        stationary = vectors[:, np.argmin(np.abs(values - 1))].real
        rate = stationary @ policy[:, 1] / stationary.sum()
        shown = found.data["population_long_run_share"].sel(time=time, action="replace")
        assert shown == pytest.approx(rate, rel=1e-5)  # of a transient of a hundred months, 1e-8 of it
    assert float(found.data["population_long_run_share"].sel(time="difference", action="replace")) > 0
