"""Plans that are updated, reward after reward, are those made from nothing."""

import numpy as np
import pytest

import manymotives as mm
from cases import in_turn
from manymotives.planning.warm_start import empty_plans, planners_of, world_of

PLACES = {
    "a grid": mm.worlds.GridWorld((4, 5), slip=0.0, discount=0.9),
    "a slippery grid with a goal": mm.worlds.GridWorld(
        ["....", "....", "....", "...G"], slip=0.2, discount=0.95, terminal="G"
    ),
    "a labyrinth with missing actions": mm.worlds.Labyrinth(4, discount=0.9),
    "random": mm.worlds.RandomMDP(20, 3, seed=1, discount=0.99),
    "a large grid": mm.worlds.GridWorld((12, 11), slip=0.1, discount=0.9),
}


@pytest.mark.parametrize(("name", "on", "step"), in_turn(PLACES, ["state", "state_action"], [0.02, 1.0], every=4))
def test_updated_plans_are_plans(name, on, step):
    """Over more changes than an inverse is kept for."""
    environment = PLACES[name]
    size, actions = environment.num_states, environment.num_actions
    world = world_of(environment, rewards=2)
    assert world.by_updates
    per_state = 1 if on == "state" else actions
    plans = empty_plans(world, 16, per_state)
    rng = np.random.default_rng(2)
    plans.actions[:] = environment.available.argmax(axis=1)
    rewards = rng.normal(size=(2, size, per_state))
    for _ in range(150 if environment.num_states < 100 else 30):
        rewards += step * rng.normal(size=rewards.shape)
        if on == "state_action":
            rewards *= environment.available  # what cannot be done gives nothing
        plans.rewards[:2] = rewards
        planners_of(world)[0](world, plans, False, 2)
        assert np.all(plans.residual[:2] < np.inf)
        expected = mm.plan(environment, rewards[..., 0] if on == "state" else rewards, on=on)
        assert np.allclose(plans.value[:2], expected.value, rtol=1e-9, atol=1e-9)
        inside = environment.available
        assert np.allclose(plans.q[:2][:, inside], expected.q[:, inside], rtol=1e-9, atol=1e-9)


def test_the_first_plan_may_begin_from_actions_that_do_not_exist():
    environment = PLACES["a labyrinth with missing actions"]
    world = world_of(environment, rewards=1)
    plans = empty_plans(world, 16, 1)
    plans.rewards[0, :, 0] = np.random.default_rng(0).normal(size=environment.num_states)
    planners_of(world)[0](world, plans, False, 1)  # from action 0 everywhere, which leaves do not have
    np.testing.assert_allclose(plans.value[0], mm.plan(environment, plans.rewards[0, :, 0]).value, rtol=1e-9)


@pytest.mark.parametrize("name", PLACES)
def test_gradients_go_back_through_updated_plans(name):
    environment = PLACES[name]
    rng = np.random.default_rng(3)
    shape = (16, environment.num_states, environment.num_actions)
    rewards, q_gradient = rng.normal(size=(16, environment.num_states, 1)), rng.normal(size=shape)
    q_gradient[:, ~environment.available] = 0.0
    found = []
    for inverses in (0, 4):
        world = world_of(environment, rewards=inverses)
        plans = empty_plans(world, 16, 1)
        plans.actions[:] = environment.available.argmax(axis=1)
        plans.rewards[:] = rewards
        planners_of(world)[0](world, plans, False, 16)
        policies = np.zeros(shape)
        np.put_along_axis(policies, plans.actions[:, :, None], 1.0, axis=2)
        value_adjoint = np.zeros(shape[:2])
        planners_of(world)[1](world, plans, policies, q_gradient, value_adjoint, 16)
        found.append(value_adjoint)
    assert np.allclose(found[0], found[1], rtol=1e-9, atol=1e-9)
