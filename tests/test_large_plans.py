"""Plans and gradients with sparse factors, one reward at a time and eight at once, in environments of every kind."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import manymotives as mm
from cases import in_turn
from manymotives.planning import elimination, warm_start
from manymotives.planning.elimination import elimination_of, no_elimination, operations
from manymotives.planning.warm_start import empty_plans, planners_of, world_of

TASKS = 17  # two blocks of eight, and one reward alone


def mixed(seed, discount, size=60, actions=3):
    """Random transitions to a few states each: terminal states, unavailable actions, states nobody reaches, two parts
    that never meet."""
    rng = np.random.default_rng(seed)
    transitions = np.zeros((size, actions, size))
    available = rng.random((size, actions)) < 0.8
    available[:, 0] = True
    reached = np.arange(size) % 7 != 3
    for s in range(size):
        near = np.flatnonzero((np.arange(size) % 2 == s % 2) & reached & (abs(np.arange(size) - s) < 12))
        for a in range(actions):
            transitions[s, a, rng.choice(near, 3, replace=False)] = rng.dirichlet(np.ones(3))
    ends = [str(s) for s in (4, 25)]
    available[[4, 25]] = False
    return mm.Environment(
        transitions * available[..., None],
        discount=discount,
        states=[str(s) for s in range(size)],
        terminal=ends,
        available=available,
    )


def by_factors(environment, is_soft):
    world = world_of(environment, TASKS, is_soft)._replace(by_updates=False, by_factors=True)
    return world._replace(elimination=elimination_of(environment))


def gradients(world, plans, temperature, counts, rewards):
    """log p(choices) [N] for softmax choices, and its gradient in rewards [N, S, 1 or A]."""
    number = len(rewards)
    plans.rewards[:number], plans.temperature[:] = rewards, temperature
    is_soft = temperature > 0
    planners_of(world)[0](world, plans, is_soft, number)
    assert np.all(plans.residual[:number] < np.inf)
    q = plans.q
    with np.errstate(invalid="ignore"):
        below = (temperature or 1.0) * (q - q.max(axis=2, keepdims=True))
    share = np.exp(np.where(np.isfinite(q), below, -np.inf))
    total = share.sum(axis=2, keepdims=True)
    policies = np.divide(share, total, out=np.zeros_like(share), where=total > 0)
    made = counts.sum(axis=2, keepdims=True)
    q_gradient, w = np.zeros_like(q), np.zeros(q.shape[:2])
    q_gradient[:number] = (temperature or 1.0) * (counts - made * policies[:number])
    if not is_soft:
        chosen = np.eye(q.shape[2])[plans.actions]
    log_policies = np.where(np.isfinite(q), below, 0.0) - np.log(total)
    found = (counts * log_policies[:number]).sum(axis=(1, 2))
    policies = policies if is_soft else chosen
    planners_of(world)[1](world, plans, policies, q_gradient, w, number)
    by_pairs = (q_gradient + w[..., None] * policies)[:number]
    return found, by_pairs if plans.rewards.shape[2] > 1 else by_pairs.sum(axis=2, keepdims=True)


def choices(environment, seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 4, size=(TASKS, environment.num_states, environment.num_actions)) * environment.available


@pytest.mark.parametrize(
    ("discount", "temperature", "on"),
    in_turn([0.5, 0.9, 0.99], [0.0, 0.1, 1.0, 30.0], ["state", "state_action"], every=2),
)
def test_gradients_by_factors_are_those_of_the_small_path_and_of_finite_differences(discount, temperature, on):
    environment = mixed(3, discount)
    world, small = by_factors(environment, temperature > 0), world_of(environment)
    assert not small.by_factors
    per_state = 1 if on == "state" else environment.num_actions
    counts, rng = choices(environment, 1), np.random.default_rng(2)
    plans, alone = empty_plans(world, 32, per_state), empty_plans(small, 32, per_state)
    rewards = rng.normal(size=(TASKS, environment.num_states, per_state))
    for _ in range(4):  # the later ones with kept factors
        rewards = rewards + 0.03 * rng.normal(size=rewards.shape)
        found, slopes = gradients(world, plans, temperature, counts, rewards)
    expected, expected_slopes = gradients(small, alone, temperature, counts, rewards)
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    np.testing.assert_allclose(slopes, expected_slopes, rtol=0, atol=1e-8 * np.abs(expected_slopes).max())
    direction = rng.normal(size=rewards.shape)
    step = 4e-3 / max(temperature, 1.0) * (1 - discount) if temperature > 0 else 1e-7
    steps = (-2, -1, 1, 2)  # five-point differences: an error of step⁴
    sides = [gradients(world, plans, temperature, counts, rewards + step * k * direction)[0] for k in steps]
    numeric = (sides[0] - 8 * sides[1] + 8 * sides[2] - sides[3]) / (12 * step)
    rounding = 1e-15 * np.abs(expected).max() / (1 - discount) / step
    along = (slopes * direction).sum(axis=(1, 2))
    np.testing.assert_allclose(
        along, numeric, rtol=0, atol=1e-8 * np.abs(slopes).sum(axis=(1, 2)).max() + 10 * rounding
    )


@pytest.mark.parametrize("temperature", [0.0, 2.0])
def test_many_tasks_are_each_as_if_alone(temperature):
    """In lanes with others whose plans take more steps, or fail, and with factors that are kept or shared."""
    environment = mixed(5, 0.95)
    world, counts = by_factors(environment, temperature > 0), choices(environment, 4)
    rng = np.random.default_rng(6)
    rewards = rng.normal(size=(TASKS, environment.num_states, 1)) * np.geomspace(0.01, 100.0, TASKS)[:, None, None]
    plans = empty_plans(world, 32, 1)
    assert len(plans.lane_holder) == 4
    shared = plans._replace(lane_holder=plans.lane_holder[:1].copy(), lane_factors=plans.lane_factors[:1].copy())
    for together in (plans, shared):
        for _ in range(3):
            found, slopes = gradients(world, together, temperature, counts, rewards)
        for n in range(TASKS):
            one = empty_plans(world, 1, 1)
            expected, expected_slopes = gradients(world, one, temperature, counts[n : n + 1], rewards[n : n + 1])
            np.testing.assert_allclose(found[n], expected[0], rtol=1e-10, atol=1e-10)
            slack = 1e-10 * np.abs(expected_slopes).max()
            np.testing.assert_allclose(slopes[n], expected_slopes[0], rtol=0, atol=slack)
    before = plans.value[:TASKS].copy()
    plans.rewards[7, 3] = np.nan
    planners_of(world)[0](world, plans, temperature > 0, TASKS)
    assert np.flatnonzero(~np.isfinite(plans.residual[:TASKS])).tolist() == [7]
    others = np.arange(TASKS) != 7
    np.testing.assert_allclose(plans.value[:TASKS][others], before[others], rtol=1e-10)
    gradients(world, plans, temperature, counts, rewards)
    np.testing.assert_allclose(plans.value[:TASKS], before, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("discount", [0.9999, 0.999999, 1 - 1e-9])
def test_lanes_at_any_discount(discount):
    """float32 factors where they reduce residuals; one at a time in float64 where they do not."""
    environment = mm.worlds.GridWorld((7, 7), slip=0.1, discount=discount)
    world = by_factors(environment, True)
    plans = empty_plans(world, 16, 1)
    assert (len(plans.lane_holder) > 0) == (discount <= 0.9999)
    plans.rewards[:, :, 0] = np.random.default_rng(0).normal(size=(16, 49))
    planners_of(world)[0](world, plans, True, 16)
    assert np.all(plans.residual <= 1e-13 * np.abs(plans.value).max(axis=1))


@pytest.mark.parametrize("seed", range(4))
def test_the_pattern_of_factors_is_that_of_dense_elimination(seed):
    environment = mixed(seed, 0.9, size=40 + 10 * seed)
    found = elimination_of(environment)
    size = environment.num_states
    position = np.argsort(found.order)
    filled = np.eye(size, dtype=bool)
    entries = sp.coo_array(environment.matrix)
    filled[position[entries.row // environment.num_actions], position[entries.col]] = True
    for k in range(size):
        for i in range(k + 1, size):
            if filled[i, k]:
                filled[i, k:] |= filled[k, k:]
    rows, columns = np.nonzero(filled)
    np.testing.assert_array_equal(found.indices, columns)
    np.testing.assert_array_equal(found.indptr, np.searchsorted(rows, np.arange(size + 1)))
    np.testing.assert_array_equal(found.diagonal, np.flatnonzero(rows == columns))
    upper = [set(columns[(rows == i) & (columns > i)].tolist()) for i in range(size)]
    nested = [i + 1 < size and upper[i] == {i + 1, *upper[i + 1]} for i in range(size)]
    np.testing.assert_array_equal(found.is_nested, nested)


def test_ten_thousand_states_take_no_dense_array():
    environment = mm.worlds.GridWorld((100, 100), slip=0.1, discount=0.99)
    elimination_of(mm.worlds.GridWorld((5, 5)))  # compiled
    tracemalloc.start()
    found = elimination_of(environment)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40e6  # one byte for each pair of states: 100e6
    factorising, solving = operations(found)
    assert solving < 45 * 10_000
    assert factorising < 1200 * 10_000
    world = world_of(environment, TASKS, True)
    assert world.by_factors
    plans = empty_plans(world, 32, 1)
    few = 5
    # two such sets in each of four chains: less than a gigabyte
    assert plans.factors.nbytes + plans.lane_factors.nbytes < warm_start.LARGEST_FACTORS
    rng = np.random.default_rng(0)
    plans.rewards[:few, :, 0] = rng.normal(size=(few, 10_000))
    for soft, number in ((True, few), (False, 1)):
        planners_of(world)[0](world, plans, soft, number)
        q = plans.rewards[:number] + (0.99 * environment.matrix @ plans.value[:number].T).T.reshape(number, 10_000, 4)
        best = q.max(axis=2)
        backup = best + np.log(np.exp(q - best[..., None]).sum(axis=2)) if soft else best
        largest = np.abs(plans.value[:number]).max()
        np.testing.assert_allclose(backup, plans.value[:number], rtol=0, atol=1e-12 * largest)


def test_factors_that_would_be_too_large_are_refused_before_they_are_made(monkeypatch):
    """Random successors: elimination would fill a third of all pairs of states."""
    rng = np.random.default_rng(0)
    size = 6000
    rows = np.repeat(np.arange(2 * size), 3)
    matrix = sp.csr_array((np.full(6 * size, 1 / 3), (rows, rng.integers(0, size, 6 * size))), shape=(2 * size, size))
    environment = mm.Environment(matrix, discount=0.9)
    monkeypatch.setattr(elimination, "_filled", lambda *_: pytest.fail("should have been refused"))
    assert len(elimination_of(environment).indices) == 0
    assert not world_of(environment, 1, True).by_factors
    monkeypatch.undo()
    monkeypatch.setattr(elimination, "MOST_ENTRIES", 50)
    assert elimination_of(mm.worlds.GridWorld((5, 5))).indices.size == no_elimination().indices.size
