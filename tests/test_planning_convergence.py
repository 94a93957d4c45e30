"""Planning where it is hard: ties, single precision, patient or cold agents, many states, loops that are cut short."""

import jax.numpy as jnp
import numpy as np
import pytest

import manymotives as mm
from cases import in_turn
from manymotives.planning import compiled, sparse
from planning_examples import EXACT, planners


@pytest.mark.parametrize("way", ["compiled", "sparse", pytest.param("jax", marks=pytest.mark.long)])
def test_warm_starts_change_the_work_and_nothing_else(way, monkeypatch):
    environment = mm.worlds.RandomMDP(states=12, actions=4, seed=2)
    rewards = np.random.default_rng(3).normal(size=(20, 12))
    plan = planners(monkeypatch)[way]
    cold = plan(environment, rewards)
    warm = plan(environment, rewards, start=np.asarray(cold.actions))
    worst = plan(environment, rewards, start=np.asarray(cold.q).argmin(axis=-1))
    for other in (warm, worst):
        np.testing.assert_allclose(other.q, cold.q, atol=EXACT)
        np.testing.assert_array_equal(other.actions, cold.actions)
    assert np.max(warm.solves) == 1
    assert np.mean(worst.solves) > 1


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1 / 3, -7.7])
def test_exact_ties_do_not_cycle(dtype, constant):
    """Every policy is optimal for a constant reward: nothing may loop, and the declared tie-break must show."""
    for world in (mm.worlds.RandomMDP, mm.worlds.DirichletMDP):
        environment = world(states=16, actions=4, seed=0, discount=0.999)
        found = mm.plan(environment, jnp.full((3, 16), constant, dtype))
        assert found.q.dtype == dtype
        assert np.max(found.solves) <= 3
        assert np.all(found.converged)
        np.testing.assert_array_equal(found.actions, 0)
        host = mm.plan(environment, np.full((3, 16), constant))
        assert host.solves.max() <= 3
        np.testing.assert_array_equal(host.actions, 0)


def test_twin_actions_tie_and_the_lower_index_is_reported():
    """Two identical actions in every state: a tie of the kind that rounding breaks one way or the other."""
    base = mm.worlds.DirichletMDP(states=20, actions=3, seed=5)
    doubled = mm.Environment(np.concatenate([base.tensor, base.tensor], axis=1), discount=0.95)
    rewards = np.random.default_rng(1).normal(size=(40, 20))
    np.testing.assert_array_equal(mm.plan(doubled, rewards).actions, mm.plan(base, rewards).actions)
    single = mm.plan(doubled, jnp.asarray(rewards, jnp.float32))
    assert np.all(single.converged)
    assert np.max(single.actions) <= 2


@pytest.mark.parametrize("discount", [pytest.param(0.95, marks=pytest.mark.long), 0.9999])
def test_float32_decides_as_float64_does(discount):
    """As γ → 1 all values share a constant of size 1/(1 − γ); kept apart, it does not drown what decides.

    Values agree to the precision's own error bound, S ε; actions may differ where their values differ by less.
    """
    environment = mm.worlds.DirichletMDP(states=64, actions=4, seed=1, discount=discount)
    rewards = np.random.default_rng(0).dirichlet(np.ones(64), size=100)
    exact = mm.plan(environment, rewards)
    single = mm.plan(environment, jnp.asarray(rewards, jnp.float32))
    assert np.all(single.converged)
    scale = np.abs(exact.value).max(axis=1, keepdims=True)
    assert np.abs(np.asarray(single.value) - exact.value).max() <= (64 * 2.0**-23 * scale).max()
    taken = np.take_along_axis(exact.q, np.asarray(single.actions)[..., None], axis=-1)[..., 0]
    regret = exact.value - taken
    spread = exact.value.max() - exact.value.min()
    assert regret.max() <= 2 * 128 * 2.0**-23 * (spread + rewards.max())


def test_a_capped_loop_says_that_it_did_not_converge(monkeypatch):
    environment = mm.worlds.RandomMDP(states=30, actions=4, seed=0, discount=0.99)
    rewards = np.random.default_rng(0).normal(size=(64, 30))
    monkeypatch.setattr(compiled, "LIMIT", 1)
    worst = mm.plan(environment, rewards).q.argmin(axis=-1)
    found = mm.plan(environment, rewards, start=worst)
    assert not found.converged.all()
    assert (found.residual[~found.converged] > 1e-9).all()
    monkeypatch.setattr(sparse, "LIMIT", 1 - environment.num_states)  # its cap grows with the states
    large = sparse.plan_sparse(environment, rewards[:2, :, None], None, worst[:2])
    assert (large.residual > 1e-9).all()


def test_large_environments_are_solved_without_dense_matrices(monkeypatch):
    """A grid and a random graph of 2 500 states: narrow and wide, factorised and by Krylov steps."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    size = 2500
    columns = rng.integers(size, size=(size * 3, 4))
    weights = rng.dirichlet(np.ones(4), size=size * 3)
    graph = sp.csr_array((weights.ravel(), (np.repeat(np.arange(size * 3), 4), columns.ravel())), (size * 3, size))
    monkeypatch.setattr(sparse, "FACTOR_ENTRIES", 1e6)
    for discount in (0.99, 0.9999):
        wide = mm.Environment(graph, discount=discount)
        narrow = mm.worlds.GridWorld((50, 50), slip=0.2, discount=discount)
        assert sparse._graph_of(wide).is_narrow is False
        assert sparse._graph_of(narrow).is_narrow is True
        for environment in (wide, narrow):
            rewards = rng.random(size)
            found = mm.plan(environment, rewards)
            q = rewards[:, None] + discount * (environment.matrix @ found.value).reshape(size, -1)
            assert np.abs(q.max(axis=1) - found.value).max() <= 1e-9
            assert found.converged
            again = mm.plan(environment, rewards, start=found.actions)
            np.testing.assert_allclose(again.value, found.value, atol=1e-7)
            attained = mm.evaluate(environment, found.policy, rewards)
            np.testing.assert_allclose(attained, found.value, atol=1e-7)
    home = sp.csr_array((np.ones(500_000), (np.arange(500_000), np.zeros(500_000, int))), (500_000, 500_000))
    huge = mm.Environment(home, discount=0.5)
    with pytest.raises(mm.errors.InputError, match="would take 1863 GiB"):
        mm.plan(huge, jnp.zeros(500_000))


@pytest.mark.parametrize(
    ("dtype", "inverse_temperature"), in_turn([jnp.float32, jnp.float64], [1.0, 30.0, 1000.0], every=6)
)
def test_soft_plans_of_patient_agents_converge_and_their_policies_sum_to_one(dtype, inverse_temperature):
    """γ = .9999: values of 10⁴, of which a softmax feels the fourth decimal."""
    environment = mm.worlds.RandomMDP(states=8, actions=4, discount=0.9999)
    rewards = np.random.default_rng(0).dirichlet(np.ones(8), size=50)
    exact = mm.plan(environment, rewards, inverse_temperature=inverse_temperature)
    found = mm.plan(environment, jnp.asarray(rewards, dtype), inverse_temperature=inverse_temperature)
    epsilon = float(jnp.finfo(dtype).eps)
    assert np.all(found.converged)
    assert np.max(found.solves) <= 25
    # the compiled planner, which keeps the constant, has a forward error of ε / (1 − γ) itself
    np.testing.assert_allclose(found.value, exact.value, rtol=64 * (epsilon + 2.0**-52 / (1 - 0.9999)))
    np.testing.assert_allclose(np.asarray(found.policy).sum(axis=-1), 1.0, atol=16 * epsilon)
    np.testing.assert_allclose(exact.policy.sum(axis=-1), 1.0, atol=1e-14)


def test_a_long_chain_may_take_more_steps_than_the_usual_cap():
    """3 000 states in a row, moves without slip, γ = .9999: policies turn round state by state."""
    import scipy.sparse as sp

    size = 3000
    place = np.arange(size)
    targets = np.stack([np.maximum(place - 1, 0), np.minimum(place + 1, size - 1)], axis=1)
    matrix = sp.csr_array((np.ones(2 * size), (np.arange(2 * size), targets.ravel())), shape=(2 * size, size))
    environment = mm.Environment(matrix, discount=0.9999)
    found = mm.plan(environment, np.random.default_rng(3).normal(size=size))
    assert found.converged


@pytest.mark.parametrize("way", ["compiled", "sparse", "jax"])
@pytest.mark.parametrize(
    "log_temperature", [*(pytest.param(x, marks=pytest.mark.long) for x in (7.0, 50.0, 700.0)), 709.7]
)
def test_ever_colder_soft_plans_become_greedy_ones(way, log_temperature, monkeypatch):
    """c q overflows, and is rounded by more than a softmax bears; c (q − max q) is at most 0 by construction."""
    environment = mm.worlds.GridWorld((4, 5), slip=0.1, discount=0.99)
    rewards = np.random.default_rng(0).normal(size=(2, 20))
    rewards[1] = np.round(rewards[1])  # ties
    expected = mm.plan(environment, rewards)
    found = planners(monkeypatch)[way](environment, rewards, inverse_temperature=np.exp(log_temperature))
    assert np.all(found.converged)
    # soft values lie above greedy ones, by log A / c a step at most
    above = np.log(environment.num_actions) / np.exp(log_temperature) / (1 - environment.discount)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-12, atol=above)
    np.testing.assert_allclose(np.asarray(found.policy).sum(axis=-1), 1.0, rtol=1e-12)


@pytest.mark.parametrize("soft", [None, 2.0])
def test_many_rewards_in_a_sparse_environment_are_planned_for_as_one_is(soft):
    environment = mm.worlds.GridWorld((12, 13), slip=0.1, discount=0.95)
    rewards = np.random.default_rng(0).normal(size=(9, 156))
    found = mm.plan(environment, rewards, inverse_temperature=soft)
    assert found.converged.all()
    for n in range(9):
        alone = mm.plan(environment, rewards[n], inverse_temperature=soft)
        # residuals of both are at rounding: values differ by 1 / (1 − γ) times that
        np.testing.assert_allclose(found.value[n], alone.value, atol=64 * 2**-52 * 20 * np.abs(alone.value).max())
        np.testing.assert_array_equal(found.actions[n], alone.actions)


def test_what_builds_on_a_plan_that_did_not_converge_says_so(monkeypatch):
    environment = mm.worlds.RandomMDP(states=30, actions=4, seed=0, discount=0.99)
    rewards = np.random.default_rng(0).normal(size=(64, 30))
    monkeypatch.setattr(compiled, "LIMIT", 0)
    with pytest.warns(UserWarning, match="planning did not converge for"):
        mm.Softmax(1.0).policies(environment, rewards)


def test_dense_environments_past_128_states_are_planned_for_in_batches():
    environment = mm.worlds.DirichletMDP(states=160, actions=3, seed=0)
    assert compiled.suits(environment)
    assert not compiled.suits(mm.worlds.GridWorld((13, 13)))
    rewards = np.random.default_rng(0).normal(size=(20, 160))
    found = mm.plan(environment, rewards)
    other = sparse.plan_sparse(environment, rewards[:, :, None], None, None)
    np.testing.assert_allclose(found.value, other.value, atol=EXACT)
