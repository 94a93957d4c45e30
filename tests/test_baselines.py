"""Every baseline, alike: labels, shapes, probabilities, seeds, masks, terminal states, and what it says of bad data.

What each of them computes is held against oracles in test_baselines_exact*.py.
"""

import importlib

import numpy as np
import pytest
import xarray as xr

import manymotives as mm
from places import HOUSE, TRIANGLE

BASELINES = {
    "imitation": {},
    "linear_program": {"penalty": [0.5, 0.0, 0.9]},
    "maximum_causal_entropy": {},
    "multiple_intentions": {"starts": 2},
    "mwal": {"iterations": 200},
    "policy_walk": {"method": mm.Metropolis(chains=2, draws=50, warmup=10, thin=2)},
    "projection": {"iterations": 50},
}
HAVE_REWARDS = {"linear_program", "maximum_causal_entropy", "multiple_intentions", "policy_walk"}
RANDOM = {"multiple_intentions", "policy_walk"}
ALONE = sorted(set(BASELINES) - {"multiple_intentions"})  # one task at a time
ON_PAIRS = sorted(set(BASELINES) - {"imitation"})


def mostly(names):
    """All of them; those that search for seconds are long where they take the way of another."""
    return [pytest.param(name, marks=[pytest.mark.long] * (name == "multiple_intentions")) for name in names]


# episodes of unequal length; the terminal state with and without a row of its own; a gap
RAGGED = mm.Demonstrations.from_lists(
    [
        (["hall", "kitchen", "kitchen", "garden"], ["on", "on", "on"]),
        (["kitchen", "hall", "kitchen"], ["back", "on", "on"]),
        (["hall"], ["on"]),
        (["hall", "kitchen", "hall"], ["on", "back"]),
    ],
    HOUSE,
    tasks=["ann", "ann", "bob", "cid"],
)
THREE = mm.simulate(
    TRIANGLE, np.eye(3), mm.Softmax(inverse_temperature=3.0), steps=12, episodes=3, seed=1, tasks=["x", "y", "z"]
)


def run(name, environment, demonstrations, **options):
    return getattr(mm.baselines, name)(environment, demonstrations, **(BASELINES[name] | options))


@pytest.mark.parametrize(("environment", "demonstrations"), [(HOUSE, RAGGED), (TRIANGLE, THREE)])
@pytest.mark.parametrize("name", BASELINES)
def test_every_baseline_returns_labelled_policies(name, environment, demonstrations):
    found = run(name, environment, demonstrations)
    assert isinstance(found, mm.baselines.Result)
    assert found.method == name
    policies = found.policies
    assert policies.dims == ("task", "state", "action")
    assert tuple(policies["task"].values) == demonstrations.tasks
    assert tuple(policies["state"].values) == environment.states
    assert tuple(policies["action"].values) == environment.actions
    assert (policies.values >= 0).all()
    np.testing.assert_allclose(policies.sum("action"), 1.0, atol=1e-12)
    lives = ~environment.is_terminal
    assert (policies.values[:, lives][:, ~environment.available[lives]] == 0).all()
    assert (policies.values[:, environment.is_terminal, 0] == 1).all()  # nominal, as in plans
    assert np.isfinite(mm.evaluate(environment, policies.values, np.eye(environment.num_states)[0])).all()
    if name in HAVE_REWARDS:
        assert found.rewards.dims == ("task", "state")
        assert np.isfinite(found.rewards).all()
    else:
        assert found.rewards is None
    assert isinstance(found.details, xr.Dataset)
    assert all(isinstance(warning, str) and warning.endswith(".") for warning in found.warnings)
    assert name in repr(found)


@pytest.mark.parametrize("name", mostly(BASELINES))
def test_the_same_seed_gives_the_same_answer(name):
    seed = {"seed": 3} if name in RANDOM else {}
    once, again = (run(name, TRIANGLE, THREE, **seed) for _ in range(2))
    xr.testing.assert_allclose(
        once.policies, again.policies, atol=1e-12
    )  # linear algebra may round by where arrays lie
    xr.testing.assert_allclose(once.details, again.details, atol=1e-9)
    assert once.warnings == again.warnings


def test_another_seed_walks_elsewhere_and_a_task_does_not_see_the_others():
    three, other = (run("policy_walk", TRIANGLE, THREE, seed=seed).details["reward_draws"] for seed in (0, 1))
    assert not np.array_equal(three, other)
    first = mm.Demonstrations.from_frame(THREE.to_frame().query("task == 'x'"), TRIANGLE, episode="episode")
    alone = run("policy_walk", TRIANGLE, first).details["reward_draws"]
    np.testing.assert_array_equal(alone.sel(task="x"), three.sel(task="x"))


@pytest.mark.parametrize("name", sorted(set(ALONE) - {"policy_walk"}))  # whose walkers have streams of their own
def test_tasks_stand_apart(name):
    frame = THREE.to_frame()
    turned = mm.Demonstrations.from_frame(
        frame.iloc[::-1].sort_values("task", ascending=False, kind="stable"), TRIANGLE, episode="episode", step="step"
    )
    assert turned.tasks == ("z", "y", "x")
    one, two = run(name, TRIANGLE, THREE), run(name, TRIANGLE, turned)
    np.testing.assert_allclose(one.policies, two.policies.sel(task=["x", "y", "z"]), atol=1e-9)


@pytest.mark.parametrize("name", ALONE)
def test_pooled_is_one_task_with_all_choices(name):
    pooled = run(name, TRIANGLE, THREE.pooled())
    assert pooled.policies["task"].values.tolist() == ["all"]
    merged = mm.Demonstrations.from_frame(
        THREE.to_frame().assign(task="all", episode=lambda frame: np.arange(len(frame)) // 12), TRIANGLE,
        episode="episode",
    )  # fmt: skip
    np.testing.assert_array_equal(pooled.policies, run(name, TRIANGLE, merged).policies)


@pytest.mark.parametrize("name", mostly(ON_PAIRS))
def test_rewards_and_features_may_lie_on_pairs(name):
    found = run(name, HOUSE, RAGGED, on="state_action")
    np.testing.assert_allclose(found.policies.sum("action"), 1.0, atol=1e-12)
    if name in HAVE_REWARDS:
        assert found.rewards.dims == ("task", "state", "action")
        assert (found.rewards.values[:, ~HOUSE.available] == 0).all()


@pytest.mark.parametrize("name", mostly(sorted(set(ON_PAIRS) - {"policy_walk"})))
def test_identity_features_are_the_states(name):
    """And pair features that repeat a state's over its actions are the same features."""
    plain = run(name, TRIANGLE, THREE)
    same = run(name, TRIANGLE, THREE, features=np.eye(3))
    spread = run(name, TRIANGLE, THREE, features=np.repeat(np.eye(3)[:, None], 2, axis=1), on="state_action")
    np.testing.assert_allclose(plain.policies, same.policies, atol=1e-9)
    np.testing.assert_allclose(plain.policies, spread.policies, atol=1e-6)


@pytest.mark.parametrize("name", mostly(BASELINES))
def test_the_simulators_truth_is_never_read(name):
    """An environment that carries its own reward and start gives the answer of one that does not."""
    told = mm.Environment(TRIANGLE.transitions, discount=0.8, reward=[5.0, -3.0, 1.0], start=[0.0, 0.0, 1.0])
    np.testing.assert_allclose(run(name, told, THREE).policies, run(name, TRIANGLE, THREE).policies, atol=1e-12)


@pytest.mark.parametrize("name", BASELINES)
def test_hard_places(name):
    """An absorbing state, one state seen, one task, a discount of .99: finite answers, or a warning that says why."""
    moves = np.zeros((4, 2, 4))
    moves[0, 0, 0] = moves[0, 1, 1] = moves[1, 0, 0] = moves[1, 1, 2] = moves[2, 0, 1] = moves[2, 1, 3] = 1.0
    moves[3, :, 3] = 1.0
    row = mm.Environment(moves, discount=0.99)
    seen = mm.Demonstrations.from_lists([([0, 0, 0], [0, 1, 0])], row)
    options = {"intentions": 1} if name == "multiple_intentions" else {}
    found = run(name, row, seen, **options)
    assert np.isfinite(found.policies).all()
    np.testing.assert_allclose(found.policies.sum("action"), 1.0, atol=1e-9)


@pytest.mark.parametrize("name", ["mwal", "projection", "maximum_causal_entropy"])
def test_large_environments_go_the_sparse_way(name):
    """The same grid, once small enough for dense algebra and once as states that nobody can reach make it large."""
    grid = mm.worlds.GridWorld((3, 3), slip=0.1, discount=0.8)
    demos = mm.simulate(grid, np.eye(9)[8], mm.Softmax(inverse_temperature=3.0), steps=8, episodes=5, seed=0)
    size = 200
    moves = np.zeros((size, 4, size))
    moves[:9, :, :9] = grid.tensor
    moves[np.arange(9, size), :, np.arange(9, size)] = 1.0
    available = np.ones((size, 4), dtype=bool)
    available[:9] = grid.available
    available[9:, 1:] = False  # and nothing to choose there
    large = mm.Environment(moves, discount=0.8, available=available)
    again = mm.Demonstrations.from_frame(
        demos.to_frame().assign(
            state=demos.state, action=demos.action, next_state=[None if n < 0 else n for n in demos.next_state]
        ),
        large, episode="episode",
    )  # fmt: skip
    few = {"iterations": 30}
    small, wide = run(name, grid, demos, **few), run(name, large, again, **few, features=np.eye(size)[:, :9])
    np.testing.assert_allclose(wide.policies.values[:, :9], small.policies, atol=2e-5)


def test_the_start_is_the_datas_or_given():
    given = run("mwal", TRIANGLE, THREE, start={0: 1.0}).details["demonstrated"]
    same = run("mwal", TRIANGLE, THREE, start=[1.0, 0.0, 0.0]).details["demonstrated"]
    np.testing.assert_array_equal(given, same)
    assert not np.allclose(given, run("mwal", TRIANGLE, THREE).details["demonstrated"])


def test_greedy_imitation_shares_ties():
    found = mm.baselines.imitation(HOUSE, RAGGED, greedy=True).policies
    np.testing.assert_array_equal(found.sel(task="bob", state="kitchen"), [0.5, 0.5])  # never seen there
    np.testing.assert_array_equal(found.sel(task="ann", state="kitchen"), [1.0, 0.0])


def test_trouble_is_carried_by_the_result(monkeypatch):
    found = run("mwal", TRIANGLE, THREE, iterations=2)
    assert any("has not converged after 2 rounds" in warning for warning in found.warnings)
    found = run("projection", TRIANGLE, THREE, iterations=1, tolerance=1e-9)
    assert any("still missed" in warning for warning in found.warnings)
    found = run("maximum_causal_entropy", TRIANGLE, THREE, iterations=1)
    assert any("not converged" in warning for warning in found.warnings)
    with monkeypatch.context() as patch:
        patch.setattr(importlib.import_module("manymotives.baselines.multiple_intentions"), "ROUNDS", 1)
        found = run("multiple_intentions", TRIANGLE, THREE, starts=1)
    assert any("had not converged" in warning for warning in found.warnings)
    found = run("policy_walk", TRIANGLE, THREE)
    assert any("effective sample size" in warning for warning in found.warnings)
    one_way = mm.Demonstrations.from_lists([([0, 0, 1, 1, 2, 2], [0, 1, 0, 1, 0, 1])], TRIANGLE)
    found = run("linear_program", TRIANGLE, one_way)
    assert any("the reward is zero everywhere" in warning for warning in found.warnings)
    chain = mm.worlds.Chain(states=3)
    never = mm.Demonstrations.from_lists([([0, 1, 2], ["forward"] * 3)], chain)
    found = run("maximum_causal_entropy", chain, never)
    assert any("no finite reward fits" in warning for warning in found.warnings)
    assert "  ! " in repr(found)
