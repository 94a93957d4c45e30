"""Planning against oracles that share no code with it: enumeration, linear programming, plain loops, closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

import manymotives as mm
import oracles
import oracles_worlds
from cases import in_turn
from manymotives.planning import sparse, verbs
from planning_examples import EXACT, ITERATED, planners, problems, some


@pytest.mark.parametrize(("way", "on"), in_turn(["compiled", "sparse", "jax"], ["state", "state_action"], every=2))
def test_plans_agree_with_enumeration_of_all_policies(way, on, monkeypatch):
    for environment, rewards, case in some(problems(on), way):
        best, policies = oracles.best_by_enumeration(**case)
        found = planners(monkeypatch)[way](environment, rewards, on=on)
        np.testing.assert_allclose(found.value, best, atol=EXACT)
        assert found.converged
        chosen = np.where(case["terminal"], -1, np.asarray(found.actions))
        assert any(np.array_equal(chosen, policy) for policy in policies)


def test_plans_agree_with_linear_programming():
    for environment, rewards, case in problems("state_action"):
        found = mm.plan(environment, rewards, on="state_action")
        np.testing.assert_allclose(found.value, oracles.best_by_linear_program(**case), atol=ITERATED)


@pytest.mark.parametrize(("way", "on"), in_turn(["compiled", "sparse", "jax"], ["state", "state_action"], every=2))
def test_soft_plans_agree_with_plain_value_iteration(way, on, monkeypatch):
    for environment, rewards, case in some(problems(on), way):
        for inverse_temperature in (0.3, 4.0, 200.0):
            value, q, policy = oracles.soft_by_value_iteration(**case, inverse_temperature=inverse_temperature)
            found = planners(monkeypatch)[way](environment, rewards, on=on, inverse_temperature=inverse_temperature)
            np.testing.assert_allclose(found.value, value, atol=ITERATED)
            lives = ~case["terminal"]
            np.testing.assert_allclose(np.asarray(found.policy)[lives], policy[lives], atol=1e-6)
            np.testing.assert_allclose(np.asarray(found.q)[lives], q[lives], atol=ITERATED)
            assert found.converged


@pytest.mark.parametrize("way", ["compiled", "sparse", "jax"])
def test_evaluation_agrees_with_exact_rational_arithmetic(way, monkeypatch):
    rng = np.random.default_rng(5)
    for environment, rewards, case in problems("state_action"):
        weights = rng.random(case["available"].shape) * (case["available"] | case["terminal"][:, None])
        policy = weights / weights.sum(axis=1, keepdims=True)
        if way == "sparse":
            monkeypatch.setattr(verbs, "suits", lambda environment: False)
        given = jnp.asarray(rewards) if way == "jax" else rewards
        value = mm.evaluate(environment, policy, given, on="state_action")
        np.testing.assert_allclose(value, oracles.policy_value_exact(**case, policy=policy), atol=EXACT)


@pytest.mark.parametrize("states", [2, 3, 5, 40])
@pytest.mark.parametrize("slip", [0.0, 0.2, 1.0])
def test_chain_values_match_the_closed_form(states, slip):
    environment = mm.worlds.Chain(states=states, slip=slip, discount=0.95)
    np.testing.assert_allclose(environment.tensor, oracles_worlds.chain_transitions(states, slip))
    for always in (0, 1):
        policy = np.eye(2)[np.full(states, always)]
        value = mm.evaluate(environment, policy, environment.reward)
        expected = oracles_worlds.chain_values(states, slip, 0.95, environment.reward, always)
        np.testing.assert_allclose(value, expected, atol=EXACT)


def test_forward_is_best_on_the_papers_chain():
    environment = mm.worlds.Chain()
    found = mm.plan(environment, environment.reward)
    assert [environment.actions[a] for a in found.actions] == ["forward"] * 5


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.9999])
@pytest.mark.parametrize("size", [(5, 2), (20, 4), (64, 3), (128, 2)])
@pytest.mark.parametrize("soft", [None, 3.0])
def test_bellman_residual_is_tiny_at_every_size_and_discount(size, discount, soft):
    """The residual is recomputed here, from the answer, in plain NumPy."""
    states, actions = size
    rng = np.random.default_rng(0)
    for world in (mm.worlds.RandomMDP, mm.worlds.DirichletMDP):
        environment = world(states=states, actions=actions, seed=1, discount=discount)
        rewards = rng.dirichlet(np.ones(states), size=37)
        found = mm.plan(environment, rewards, inverse_temperature=soft)
        q = rewards[:, :, None] + discount * np.einsum("sat,bt->bsa", environment.tensor, found.value)
        target = q.max(axis=2) if soft is None else np.log(np.exp(soft * (q - q.max(2, keepdims=True))).sum(2)) / soft
        target = target if soft is None else target + q.max(axis=2)
        assert np.abs(target - found.value).max() <= 1e-9
        assert found.residual.max() <= 1e-9
        assert found.converged.all()


@pytest.mark.long
def test_the_three_planners_agree_on_a_batch():
    environment = mm.worlds.RandomMDP(states=30, actions=5, seed=3, discount=0.98)
    rewards = np.random.default_rng(0).normal(size=(2, 25, 30))
    first = mm.plan(environment, rewards)
    second = mm.plan(environment, jnp.asarray(rewards))
    third = sparse.plan_sparse(environment, rewards.reshape(50, 30, 1), None, None)
    assert first.q.shape == (2, 25, 30, 5)
    np.testing.assert_allclose(second.q, first.q, atol=EXACT)
    np.testing.assert_allclose(third.q.reshape(first.q.shape), first.q, atol=EXACT)
    np.testing.assert_array_equal(second.actions, first.actions)
    np.testing.assert_array_equal(third.actions.reshape(first.actions.shape), first.actions)


def test_loss_is_the_papers_sum():
    environment = mm.worlds.Chain()
    back = np.eye(2)[np.zeros(5, int)]
    best = oracles_worlds.chain_values(5, 0.2, 0.95, environment.reward, 1)
    poor = oracles_worlds.chain_values(5, 0.2, 0.95, environment.reward, 0)
    np.testing.assert_allclose(mm.loss(environment, back, environment.reward), (best - poor).sum(), atol=EXACT)
