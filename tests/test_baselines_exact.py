"""Each baseline against an oracle of its own: enumeration, brute force, plain sums, other formulations, theorems."""

import itertools
import sys

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

import manymotives as mm
import oracles
from cases import in_turn
from manymotives.baselines.common import checked_problem
from manymotives.baselines.expectations import checked_features
from manymotives.baselines.maximum_causal_entropy import Dual
from manymotives.baselines.multiple_intentions import Climb
from manymotives.baselines.walks import UNIFORM, invert, walk_on
from manymotives.planning.warm_start import world_of
from places import HOUSE

CHAIN = mm.worlds.Chain()
SMALL = mm.worlds.DirichletMDP(states=3, actions=3, concentration=0.7, seed=4, discount=0.8)
DOUBLE = mm.worlds.DirichletMDP(states=2, actions=2, concentration=0.5, seed=1, discount=0.7)


def module_of(name):
    """Of a baseline, which has its name; under tests `__globals__` of the function are those of a type checker."""
    return sys.modules[f"manymotives.baselines.{name}"]


def problem_of(environment, rewards):
    """The six arguments every oracle takes, for rewards on states."""
    return {
        "transitions": environment.tensor,
        "available": environment.available,
        "terminal": environment.is_terminal,
        "rewards": np.repeat(np.asarray(rewards)[:, None], environment.num_actions, axis=1),
        "terminal_value": np.where(environment.is_terminal, rewards, 0.0),
        "discount": environment.discount,
    }


def loss_of(environment, policy, rewards):
    """Σ_s V*(s) − V^π(s), by value iteration and by substitution."""
    problem = problem_of(environment, rewards)
    best, _ = oracles.best_by_value_iteration(**problem)
    return float((best - oracles.policy_value(**problem, policy=policy)).sum())


def visits_of(environment, policy, start):
    """Σ_t γ^t P(s_t = s), term by term; a terminal state is visited and left for nowhere."""
    now, total = np.array(start, dtype=float), np.zeros(environment.num_states)
    weight = 1.0
    while weight > 1e-16:
        total += weight * now
        following = np.zeros_like(now)
        for s in range(environment.num_states):
            if not environment.is_terminal[s]:
                for a in range(environment.num_actions):
                    following += now[s] * policy[s][a] * environment.tensor[s, a]
        now, weight = following, weight * environment.discount
    return total


def frequencies(environment, counts):
    """What the choices say: their shares, evenly where there are none."""
    shares = np.zeros(counts.shape)
    for s in range(environment.num_states):
        exists = environment.available[s]
        if counts[s].sum() > 0:
            shares[s] = counts[s] / counts[s].sum()
        elif exists.any():
            shares[s] = exists / exists.sum()
        else:
            shares[s, 0] = 1.0
    return shares


def beginnings(demonstrations, task):
    """Where the episodes of a task begin."""
    frame = demonstrations.to_frame()
    firsts = frame[frame["task"] == task].groupby("episode")["state"].first()
    return np.array([(firsts == state).mean() for state in demonstrations.states])


# ---- unlimited optimal data -----------------------------------------------------------------------------------


def optimal_choices(environment, rewards, times):
    """Every state of a chain again and again, with the best action each time; one episode that begins in the first."""
    actions = oracles.best_by_value_iteration(**problem_of(environment, rewards))[1].argmax(axis=1)
    states = np.tile(np.arange(environment.num_states), times)
    names = [environment.actions[actions[s]] for s in states]
    return mm.Demonstrations.from_lists([(states.tolist(), names)], environment)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("imitation", {"smoothing": 0.0}),
        ("linear_program", {}),
        ("linear_program", {"penalty": 0.0}),
        ("policy_walk", {"method": mm.Metropolis(chains=2, draws=200, warmup=100, thin=5)}),
        ("projection", {"tolerance": 1e-9}),
        ("maximum_causal_entropy", {}),
        ("multiple_intentions", {"intentions": 1, "starts": 1}),
    ],
)
def test_unlimited_optimal_data_give_an_optimal_policy(name, options):
    """The chain shows one policy, forward everywhere, for the chain's own reward and back everywhere for another."""
    for reward in (CHAIN.reward, np.array([1.0, 0.0, 0.0, 0.0, 0.3])):
        data = optimal_choices(CHAIN, reward, times=60)
        found = getattr(mm.baselines, name)(CHAIN, data, **options)
        assert loss_of(CHAIN, found.policies.values[0], reward) < 1e-6


def test_mwal_is_within_its_bound_of_optimal_data():
    data = optimal_choices(CHAIN, CHAIN.reward, times=2)
    for iterations in (10, 100, 400):
        found = mm.baselines.mwal(CHAIN, data, iterations=iterations)
        problem = problem_of(CHAIN, CHAIN.reward)
        best, _ = oracles.best_by_value_iteration(**problem)
        missed = (1 - CHAIN.discount) * (best - oracles.policy_value(**problem, policy=found.policies.values[0]))[0]
        assert missed <= CHAIN.reward.sum() * float(found.details["bound"])  # w = ρ / Σρ, from where episodes begin
    assert missed < 0.01


# ---- imitation -----------------------------------------------------------------------------------------------


def test_imitation_is_the_mean_of_a_dirichlet():
    data = mm.simulate(SMALL, np.eye(3), mm.Softmax(2.0), steps=15, seed=0)
    found = mm.baselines.imitation(SMALL, data, smoothing=0.5).policies.values
    for m, s, a in itertools.product(range(3), range(3), range(3)):
        assert found[m, s, a] == pytest.approx((data.counts[m, s, a] + 0.5) / (data.counts[m, s].sum() + 1.5))


# ---- linear program --------------------------------------------------------------------------------------------


def margins_of(environment, policy, reward, done):
    """V^π(s) − Q^π(s, a) for every state and every action that was not done."""
    problem = problem_of(environment, reward)
    value = oracles.policy_value(**problem, policy=policy)
    q = reward[:, None] + environment.discount * environment.tensor @ value
    return np.stack([value[s] - q[s, ~done[s]] for s in range(environment.num_states)])


@pytest.mark.parametrize("penalty", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("seed", range(3))
def test_the_linear_program_is_solved_as_enumeration_of_vertices_would(penalty, seed):
    """Concave and piecewise linear: the best is where three of its kinks and walls meet."""
    truth = np.random.default_rng(seed).normal(size=3)
    best = oracles.best_by_enumeration(**problem_of(SMALL, truth))[1][0]
    data = mm.Demonstrations.from_lists([([0, 1, 2], best.tolist())], SMALL)
    found = mm.baselines.linear_program(SMALL, data, penalty=penalty)
    done = np.eye(3, dtype=bool)[best]
    by_unit = np.stack([margins_of(SMALL, done.astype(float), unit, done) for unit in np.eye(3)], axis=-1)  # [S, 2, K]
    price = float(found.details["penalty"][0])

    def height(reward):
        each = by_unit @ reward
        return -np.inf if each.min() < -1e-9 else each.min(axis=1).sum() - price * np.abs(reward).sum()

    walls = [(row, 0.0) for row in by_unit.reshape(-1, 3)]  # a constraint is tight
    walls += [(by_unit[s, 0] - by_unit[s, 1], 0.0) for s in range(3)]  # two actions are equally bad
    walls += [(unit, level) for unit in np.eye(3) for level in (-1.0, 0.0, 1.0)]
    heights = []
    for three in itertools.combinations(walls, 3):
        matrix, right = np.array([row for row, _ in three]), np.array([level for _, level in three])
        if np.linalg.matrix_rank(matrix, tol=1e-9) == 3:
            corner = np.linalg.solve(matrix, right)
            if np.abs(corner).max() <= 1 + 1e-9:
                heights.append(height(corner))
    assert max(heights) > 0
    assert height(found.rewards.values[0]) == pytest.approx(max(heights), abs=1e-7)
    assert float(found.details["objective"][0]) == pytest.approx(max(heights), abs=1e-7)


def test_beyond_the_largest_penalty_nothing_is_left_and_below_it_something_is():
    data = optimal_choices(CHAIN, CHAIN.reward, times=1)
    found = mm.baselines.linear_program(CHAIN, data, penalty=[0.0, 0.5, 0.999, 1.0])
    path = np.abs(found.details["reward_path"].values[0]).sum(axis=1)
    assert (np.diff(path) <= 1e-9).all()  # a larger penalty buys less
    assert path[2] > 1e-3
    done = np.eye(2, dtype=bool)[[1] * 5]
    by_unit = np.stack([margins_of(CHAIN, done.astype(float), unit, done)[:, 0] for unit in np.eye(5)], axis=-1)
    worth = by_unit.sum(axis=0)  # on the chain each state has one other action, so the objective is a plain sum
    feasible = linprog(-worth, A_ub=np.vstack([-by_unit]), b_ub=np.zeros(5), bounds=[(-9, 9)] * 5)
    assert feasible.fun < 0
    signs = [np.array(s) for s in itertools.product([-1.0, 1.0], repeat=5)]
    # largest worth · r with |r|₁ ≤ 1 and by_unit r ≥ 0, orthant by orthant
    most = max(
        -linprog(-worth * s, A_ub=np.vstack([-by_unit * s, np.ones((1, 5))]), b_ub=np.append(np.zeros(5), 1.0)).fun
        for s in signs
    )
    assert float(found.details["largest_penalty"][0]) == pytest.approx(most, rel=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_at_the_largest_penalty_nothing_is_left(seed):
    """Where the best reward and none are equally good, a solver may return either; a little below it is the reward."""
    environment = mm.worlds.RandomMDP(states=6, actions=3, seed=seed, discount=0.9)
    data = mm.simulate(environment, np.eye(6)[0], mm.Softmax(50.0), steps=30, episodes=6, seed=seed)
    path = mm.baselines.linear_program(environment, data, penalty=[0.99, 1.0]).details["reward_path"].values[0]
    assert np.abs(path[0]).max() > 1e-3
    assert (path[1] == 0).all()


def test_a_margin_that_cannot_be_had_is_relaxed_only_if_asked():
    data = optimal_choices(CHAIN, CHAIN.reward, times=1)
    wide = mm.baselines.linear_program(CHAIN, data, margin=0.1).rewards.values[0]
    done = np.eye(2, dtype=bool)[[1] * 5]
    assert margins_of(CHAIN, done.astype(float), wide, done).min() >= 0.1 - 1e-7
    with pytest.raises(mm.errors.InputError, match="relax=True"):
        mm.baselines.linear_program(CHAIN, data, margin=100.0)
    one = mm.Demonstrations.from_lists([([0], ["forward"])], CHAIN)
    with pytest.raises(mm.errors.InputError, match="was guessed"):  # no proof, where most of the policy is a guess
        mm.baselines.linear_program(CHAIN, one, margin=100.0)
    relaxed = mm.baselines.linear_program(CHAIN, data, margin=100.0, relax=True)
    assert "falls short least" in relaxed.warnings[0]
    reward = relaxed.rewards.values[0]
    short = np.maximum(100.0 - margins_of(CHAIN, done.astype(float), reward, done), 0.0).sum()
    assert float(relaxed.details["shortfall"][0]) == pytest.approx(short, rel=1e-6)
    rng = np.random.default_rng(0)
    for other in rng.uniform(-1, 1, size=(50, 5)):
        assert short <= np.maximum(100.0 - margins_of(CHAIN, done.astype(float), other, done), 0.0).sum() + 1e-6


# ---- policy walk -----------------------------------------------------------------------------------------------


def brute_force(environment, counts, points, log_prior, temperature, normalised=True):
    """The posterior of every point of a grid of rewards, by plain loops."""
    heights = []
    for reward in points:
        q = oracles.best_by_value_iteration(**problem_of(environment, reward))[1]
        total = log_prior(reward)
        for s, a in np.argwhere(counts > 0):
            worth = temperature * q[s, a]
            if normalised:
                worth -= np.log(np.exp(temperature * q[s]).sum())
            total += counts[s, a] * worth
        heights.append(total)
    weights = np.exp(np.array(heights) - max(heights))
    return weights / weights.sum()


def agreement(draws, points, probabilities):
    """p-value of Hotelling's test that chains visit the points as often as they should; chains are independent."""
    spacing = points[points > 0].min()
    width = int(2 * np.abs(points).max() / spacing) + 1
    codes = np.rint((draws + np.abs(points).max()) / spacing).astype(int) @ [width, 1]
    known = np.rint((points + np.abs(points).max()) / spacing).astype(int) @ [width, 1]
    common = probabilities > 0.02  # the others together are one cell, left out because all sum to one
    shares = np.stack([(codes == code).mean(axis=1) for code in known[common]], axis=1)  # [chains, cells]
    chains, cells = shares.shape
    if (shares == 0).all(axis=0).any():
        return 0.0  # nobody ever came to where one draw in fifty should be
    away = shares.mean(axis=0) - probabilities[common]
    squared = chains * away @ np.linalg.solve(np.cov(shares.T), away)
    return stats.f.sf(squared * (chains - cells) / (cells * (chains - 1)), cells, chains - cells)


@pytest.mark.parametrize(
    ("prior", "log_prior", "reach", "normalised"),
    [
        (mm.baselines.UniformPrior(1.0, spacing=0.5), lambda r: 0.0, 1.0, True),
        (mm.baselines.UniformPrior(1.0, spacing=0.5), lambda r: 0.0, 1.0, False),
        (mm.baselines.GaussianPrior(0.4, spacing=0.5), lambda r: -(r**2).sum() / 0.32, 3.0, True),
        (mm.baselines.GaussianPrior(0.4, spacing=0.5), lambda r: -(r**2).sum() / 0.32, 3.0, False),
        (mm.baselines.LaplacianPrior(0.25, spacing=0.5), lambda r: -np.abs(r).sum() / 0.25, 4.0, True),
    ],
)
def test_policy_walk_has_the_posterior_of_brute_force(prior, log_prior, reach, normalised):
    """And not that of another temperature, nor of the other likelihood: the test can tell."""
    data = mm.Demonstrations.from_lists([([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])], DOUBLE)
    options = {"method": mm.Metropolis(chains=128, draws=400, warmup=100, thin=4), "normalised": normalised}
    c = 2.0 if normalised else 0.2
    found = mm.baselines.policy_walk(DOUBLE, data, prior=prior, choice=mm.Softmax(c), seed=2, **options)
    draws = found.details["reward_draws"].values[:, :, 0]
    line = np.arange(-reach, reach + 0.1, 0.5)
    points = np.array(list(itertools.product(line, line)))

    def posterior(temperature, is_normalised):
        return brute_force(DOUBLE, data.counts[0], points, log_prior, temperature, is_normalised)

    right = posterior(c, normalised)
    assert agreement(draws, points, right) > 0.001
    error = draws.mean(axis=1).std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(found.rewards.values[0] - right @ points) < 4 * error).all()
    assert agreement(draws, points, posterior(1.3 * c, normalised)) < 1e-6
    assert agreement(draws, points, posterior(c, not normalised)) < 1e-6


@pytest.mark.parametrize("on", ["state", "state_action"])
@pytest.mark.parametrize("environment", [HOUSE, mm.worlds.GridWorld((4, 4), slip=0.2, discount=0.97)])
def test_the_walk_keeps_a_policy_that_is_optimal_and_its_inverse(environment, on):
    """After twenty thousand steps, some of which changed the policy: no error has piled up."""
    data = mm.simulate(environment, np.eye(environment.num_states)[-1], mm.Softmax(1.0), steps=10, seed=0)
    places = np.flatnonzero(environment.available) if on == "state_action" else np.arange(environment.num_states)
    rng = np.random.default_rng(0)
    grid = rng.integers(-5, 6, size=len(places))
    actions = np.where(environment.available, 1, 0).argmax(axis=1)
    inverse = np.empty((environment.num_states, environment.num_states))
    world = world_of(environment)
    invert(world, actions, inverse)
    first = actions.copy()
    draws = np.empty((20, len(places)))
    per_state = environment.num_actions if on == "state_action" else 1
    settings = (0.1, 10, UNIFORM, 1.0, 1.0, True)
    counts = data.counts[:1].astype(float)
    arrays = (rng.random((20_000, 3)), 1000, grid, actions, inverse, draws)
    taken = walk_on(world, counts, places, per_state, *settings, *arrays)
    assert 0 < taken < 20_000
    np.testing.assert_allclose(draws[-1], 0.1 * grid)
    table = np.zeros(environment.num_states * per_state)
    table[places] = 0.1 * grid
    table = table.reshape(environment.num_states, per_state)
    problem = problem_of(environment, table[:, 0] if on == "state" else np.zeros(environment.num_states))
    problem["rewards"] = np.broadcast_to(table, environment.available.shape)
    best, _ = oracles.best_by_value_iteration(**problem)
    chosen = np.eye(environment.num_actions)[actions]
    np.testing.assert_allclose(oracles.policy_value(**problem, policy=chosen), best, atol=1e-9)
    chain = np.stack([environment.tensor[s, a] for s, a in enumerate(actions)])
    np.testing.assert_allclose(
        inverse @ (np.eye(len(chain)) - environment.discount * chain), np.eye(len(chain)), atol=1e-8
    )
    if environment is not HOUSE:
        assert (actions != first).any()


@pytest.mark.parametrize("warmup", [0, 5, 23])
def test_a_walk_in_pieces_is_the_walk(warmup, monkeypatch):
    """Random numbers are drawn a few steps at a time, of which a long warm-up takes many."""
    data = mm.Demonstrations.from_lists([([0, 0, 0, 1, 1], [0, 0, 1, 1, 1])], DOUBLE)
    method = mm.Metropolis(chains=2, draws=17, warmup=warmup, thin=3)
    whole = mm.baselines.policy_walk(DOUBLE, data, method=method).details["reward_draws"]
    monkeypatch.setattr(module_of("policy_walk"), "AT_A_TIME", 4 * 3 * 3 * 2)  # four draws of two states
    np.testing.assert_array_equal(mm.baselines.policy_walk(DOUBLE, data, method=method).details["reward_draws"], whole)


# ---- MWAL ------------------------------------------------------------------------------------------------------


def value_of_the_game(environment, demonstrated, start, features):
    """max over occupancies of min_k μ_k − μ_k(demonstrator): a linear program in x(s, a) and the value."""
    size, actions, gamma = environment.num_states, environment.num_actions, environment.discount
    flow = np.zeros((size, size * actions + 1))
    less = np.zeros((features.shape[1], size * actions + 1))
    for s, a in itertools.product(range(size), range(actions)):
        flow[s, s * actions + a] += 1.0
        flow[:, s * actions + a] -= gamma * environment.tensor[s, a]
        less[:, s * actions + a] = -(1 - gamma) * features[s]
    less[:, -1] = 1.0
    cost = np.append(np.zeros(size * actions), -1.0)
    bounds = [(0, None)] * (size * actions) + [(None, None)]
    return -linprog(cost, A_ub=less, b_ub=-demonstrated, A_eq=flow, b_eq=start, bounds=bounds).fun


@pytest.mark.parametrize("seed", in_turn(range(3), every=3))
@pytest.mark.long
def test_mwal_keeps_its_bound(seed):
    environment = mm.worlds.DirichletMDP(states=5, actions=3, concentration=0.3, seed=seed, discount=0.9)
    truth = np.random.default_rng(seed).dirichlet(np.ones(5))
    data = mm.simulate(environment, truth, mm.Softmax(1.0), steps=30, episodes=3, seed=seed)
    start = beginnings(data, 0)
    visits = 0.1 * visits_of(environment, frequencies(environment, data.counts[0]), start)
    two = np.random.default_rng(seed).uniform(-1, 1, size=(5, 2))
    for features, span in ((np.eye(5), 1.0), (two, np.ptp(two))):
        shown = visits @ features
        value = value_of_the_game(environment, shown, start, features)
        for iterations in (10, 100, 500):
            found = mm.baselines.mwal(environment, data, iterations=iterations, features=features)
            np.testing.assert_allclose(found.details["demonstrated"][0], shown, atol=1e-10)
            reached = 0.1 * visits_of(environment, found.policies.values[0], start) @ features
            least = (reached - shown).min()
            assert least == pytest.approx(float(found.details["advantage"][0]), abs=1e-10)
            log_k = np.log(features.shape[1])
            bound = 2 * span * (np.sqrt(2 * log_k / iterations) + log_k / iterations)
            assert bound == pytest.approx(float(found.details["bound"]))
            assert value - bound <= least <= value + 1e-9  # the theorem, and nothing is better than the best
            assert value - least <= float(found.details["gap"][0]) + 1e-9  # the certificate is one
            assert float(found.details["gap"][0]) <= bound + 1e-9
        if features is two:
            assert least > 0.01  # a noisy demonstrator can be beaten in both; with states for features, in none
        else:
            assert value == pytest.approx(0.0, abs=1e-9)  # for visits sum to one


@pytest.mark.long
def test_where_episodes_end_more_of_the_same_is_more():
    """A feature that is 1 everywhere counts how long an episode lasts, which is a policy's choice in the house."""
    data = mm.Demonstrations.from_lists([(["hall", "kitchen", "garden"], ["on", "on"])], HOUSE)
    found = mm.baselines.mwal(HOUSE, data, features=np.ones((3, 1)))
    start = beginnings(data, 0)
    shown = visits_of(HOUSE, frequencies(HOUSE, data.counts[0]), start).sum()
    value = oracles.best_by_value_iteration(**problem_of(HOUSE, np.ones(3)))[0] @ start
    assert value > shown + 0.01
    assert float(found.details["advantage"][0]) == pytest.approx((1 - HOUSE.discount) * (value - shown), abs=1e-9)


@pytest.mark.parametrize("name", [pytest.param("mwal", marks=pytest.mark.long), "projection"])
def test_the_stationary_policy_goes_where_the_mixture_goes(name):
    data = mm.simulate(SMALL, np.eye(3)[1], mm.Softmax(2.0), steps=10, episodes=4, seed=0)
    found = getattr(mm.baselines, name)(SMALL, data)
    start = beginnings(data, 0)
    weights = found.details["mixture_weights"].values[0]
    assert weights.sum() == pytest.approx(1.0)
    mixed = np.zeros((3, 3))
    for weight, policy in zip(weights, found.details["mixture_policies"].values[0]):
        mixed += weight * visits_of(SMALL, policy, start)[:, None] * policy
    alone = found.policies.values[0]
    np.testing.assert_allclose(visits_of(SMALL, alone, start)[:, None] * alone, mixed, atol=1e-10)


# ---- projection ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_projection_comes_nearer_as_fast_as_its_lemma_says(seed):
    """Abbeel & Ng's lemma 3, in normalised expectations: t_{i+1} / t_i ≤ √K / √(K + t_i²)."""
    environment = mm.worlds.DirichletMDP(states=5, actions=3, concentration=0.3, seed=seed, discount=0.9)
    data = mm.simulate(environment, np.eye(5)[0], mm.Softmax(3.0), steps=30, episodes=2, seed=seed)
    found = mm.baselines.projection(environment, data, tolerance=1e-4)
    margins = found.details["margin"].values[0]
    assert (margins[1:] <= margins[:-1] * np.sqrt(5 / (5 + margins[:-1] ** 2)) + 1e-12).all()
    start = beginnings(data, 0)
    shown = 0.1 * visits_of(environment, frequencies(environment, data.counts[0]), start)
    reached = 0.1 * visits_of(environment, found.policies.values[0], start)
    missed = np.linalg.norm(reached - shown)
    assert missed == pytest.approx(float(found.details["distance"][0]), abs=1e-10)
    assert missed <= min(1e-4, margins[-1] + 1e-12)  # the mixture is at least as near as the projections came


# ---- maximum causal entropy ------------------------------------------------------------------------------------


def discounted_likelihood(environment, weights, shown, start):
    """E Σ_t γ^t log π_w(a_t | s_t) under the demonstrator's policy, by plain sums."""
    policy = oracles.soft_by_value_iteration(**problem_of(environment, weights), inverse_temperature=1.0)[2]
    visits = visits_of(environment, shown, start)
    total = 0.0
    for s in range(environment.num_states):
        for a in range(environment.num_actions):
            if shown[s, a] > 0 and not environment.is_terminal[s]:
                total += visits[s] * shown[s, a] * np.log(policy[s, a])
    return total


@pytest.mark.parametrize("environment", [SMALL, HOUSE])
def test_the_gradient_of_maximum_causal_entropy_is_that_of_the_likelihood(environment):
    if environment is SMALL:
        data = mm.simulate(SMALL, np.eye(3)[0], mm.Softmax(2.0), steps=20, episodes=2, seed=0)
    else:
        lists = [(["hall", "kitchen", "kitchen"], ["on", "on", "back"]), (["kitchen", "garden"], ["on"])]
        data = mm.Demonstrations.from_lists(lists, HOUSE, tasks=[0, 0])
    start = beginnings(data, 0)
    shown = frequencies(environment, data.counts[0])
    basis = checked_features(environment, None, "state")
    dual = Dual(environment, basis, visits_of(environment, shown, start), start, 0.0)
    weights = np.random.default_rng(1).normal(size=3)
    point = dual.at(weights)
    step = 1e-5
    slopes = [
        (
            discounted_likelihood(environment, weights + step * unit, shown, start)
            - discounted_likelihood(environment, weights - step * unit, shown, start)
        )
        / (2 * step)
        for unit in np.eye(3)
    ]
    np.testing.assert_allclose(-point.gradient, slopes, atol=1e-7)
    assert -point.height == pytest.approx(discounted_likelihood(environment, weights, shown, start), abs=1e-9)
    bent = [
        (dual.at(weights + step * unit).gradient - dual.at(weights - step * unit).gradient) / (2 * step)
        for unit in np.eye(3)
    ]
    np.testing.assert_allclose(dual.curvature(point, basis.on_pairs()), bent, atol=1e-6)


@pytest.mark.parametrize(
    "environment", [SMALL, CHAIN, HOUSE, pytest.param(mm.worlds.RandomMDP(discount=0.99), marks=pytest.mark.long)]
)
def test_maximum_causal_entropy_collects_what_was_collected(environment):
    truth = np.eye(environment.num_states)[-1]
    data = mm.simulate(environment, truth, mm.Softmax(2.0), steps=20, episodes=3, seed=0)
    found = mm.baselines.maximum_causal_entropy(environment, data)
    start = beginnings(data, 0)
    shown = visits_of(environment, frequencies(environment, data.counts[0]), start)
    reward = found.rewards.values[0]
    soft = oracles.soft_by_value_iteration(**problem_of(environment, reward), inverse_temperature=1.0)[2]
    soft[environment.is_terminal, 0] = 1.0
    np.testing.assert_allclose(found.policies.values[0], soft, atol=1e-8)
    reached = visits_of(environment, soft, start)
    assert (1 - environment.discount) * np.abs(reached - shown).max() < 1e-6


def test_maximum_causal_entropy_finds_a_soft_optimal_demonstrator():
    """Where data are what the model says, in the limit, it is that demonstrator's policy that comes back."""
    truth = np.array([1.0, -0.5, 0.3])
    policy = oracles.soft_by_value_iteration(**problem_of(SMALL, truth), inverse_temperature=1.0)[2]
    counts = np.rint(policy * 1e5).astype(int)
    states = np.repeat(np.arange(3), counts.sum(axis=1))
    actions = np.concatenate([np.repeat(np.arange(3), row) for row in counts])
    data = mm.Demonstrations.from_lists([(states.tolist(), actions.tolist())], SMALL)
    found = mm.baselines.maximum_causal_entropy(SMALL, data, start=np.full(3, 1 / 3))
    np.testing.assert_allclose(found.policies.values[0], policy, atol=5e-5)  # counts are rounded to 1e-5
    away = found.rewards.values[0] - truth
    np.testing.assert_allclose(away, away.mean(), atol=1e-3)  # a constant is nobody's choice


@pytest.mark.parametrize("newton", [4_000_000, 0])
@pytest.mark.parametrize("units", [1e-8, [1e-6, 1.0, 1e3], 1e6])
def test_the_unit_of_a_feature_changes_its_weight_alone(units, newton, monkeypatch):
    monkeypatch.setattr(module_of("maximum_causal_entropy"), "NEWTON", newton)
    data = mm.simulate(SMALL, np.eye(3)[0], mm.Softmax(2.0), steps=20, episodes=2, seed=0)
    plain = mm.baselines.maximum_causal_entropy(SMALL, data)
    other = mm.baselines.maximum_causal_entropy(SMALL, data, features=np.eye(3) * units)
    np.testing.assert_allclose(other.policies, plain.policies, atol=1e-6)  # features match to 1e-9, here of visits > .1
    assert other.warnings == plain.warnings


@pytest.mark.parametrize("penalty", [0.0, 0.5])
def test_the_likelihood_told_is_that_of_the_policy_told(penalty):
    data = mm.simulate(SMALL, np.eye(3)[0], mm.Softmax(2.0), steps=20, episodes=2, seed=0)
    found = mm.baselines.maximum_causal_entropy(SMALL, data, penalty=penalty)
    shown, start = frequencies(SMALL, data.counts[0]), beginnings(data, 0)
    total = discounted_likelihood(SMALL, found.rewards.values[0], shown, start)
    assert float(found.details["log_likelihood"][0]) == pytest.approx((1 - SMALL.discount) * total, abs=1e-9)
    away = found.details["demonstrated"] - found.details["expected"]
    np.testing.assert_allclose(away, (1 - SMALL.discount) * penalty * found.details["weights"], atol=1e-8)


def test_many_weights_climb_by_gradient_to_the_same_place(monkeypatch):
    data = mm.simulate(SMALL, np.eye(3)[0], mm.Softmax(1.0), steps=40, episodes=2, seed=0)
    monkeypatch.setattr(module_of("maximum_causal_entropy"), "MATCH", 1e-7)
    newton = mm.baselines.maximum_causal_entropy(SMALL, data)
    monkeypatch.setattr(module_of("maximum_causal_entropy"), "NEWTON", 0)
    slowly = mm.baselines.maximum_causal_entropy(SMALL, data)
    assert not np.array_equal(newton.policies, slowly.policies)  # it was another way
    np.testing.assert_allclose(newton.policies, slowly.policies, atol=1e-4)


# ---- multiple intentions ---------------------------------------------------------------------------------------

TWO = np.array([[2.0, 0.0, 0.0, 0.0, -1.0], [-1.0, 0.0, 0.0, 0.0, 2.0]])
WHO = [0, 1, 1, 0, 1, 0, 0, 1, 1, 1]


def test_two_intentions_are_told_apart_and_given_to_the_right_tasks():
    data = mm.simulate(CHAIN, TWO[WHO], mm.SoftOptimal(1.0), steps=40, episodes=2, seed=0)
    found = mm.baselines.multiple_intentions(CHAIN, data, seed=1)
    responsibilities = found.details["responsibilities"].values
    assert responsibilities.argmax(axis=1).tolist() == [1 - w for w in WHO]  # the commonest intention comes first
    assert responsibilities.max(axis=1).min() > 0.95
    np.testing.assert_allclose(found.details["shares"], [0.6, 0.4], atol=0.01)
    for policy, who in zip(found.policies.values, WHO):
        assert loss_of(CHAIN, policy, TWO[who]) < 1e-6
    # the responsibilities are those of the rewards and shares returned, by plain sums
    policies = [
        oracles.soft_by_value_iteration(**problem_of(CHAIN, reward), inverse_temperature=1.0)[2]
        for reward in found.details["intention_rewards"].values
    ]
    for counts, mine in zip(data.counts, responsibilities):
        joint = [
            share * np.exp((counts * np.log(policy)).sum())
            for share, policy in zip(found.details["shares"].values, policies)
        ]
        np.testing.assert_allclose(mine, np.array(joint) / sum(joint), atol=1e-6)


@pytest.mark.parametrize("choice", [mm.SoftOptimal(1.5), mm.Softmax(1.5)])
@pytest.mark.parametrize("penalty", [pytest.param(0.0, marks=pytest.mark.long), 0.05])
def test_the_likelihood_never_falls(choice, penalty, monkeypatch):
    monkeypatch.setattr(module_of("multiple_intentions"), "PENALTY", penalty)
    monkeypatch.setattr(module_of("multiple_intentions"), "ROUNDS", 5)
    data = mm.simulate(CHAIN, TWO[WHO], mm.SoftOptimal(0.7), steps=15, seed=3)
    found = mm.baselines.multiple_intentions(CHAIN, data, intentions=3, choice=choice, starts=1)
    path = found.details["objective"].values
    assert len(path) > 2
    assert np.diff(path).min() > -1e-9 * abs(path[0])


@pytest.mark.parametrize("choice", [mm.SoftOptimal(1.5), mm.Softmax(1.5)])
@pytest.mark.parametrize("on", ["state", "state_action"])
def test_the_gradient_inside_is_that_of_the_likelihood(choice, on):
    lists = [(["hall", "kitchen", "kitchen"], ["on", "on", "back"]), (["kitchen", "garden"], ["on"])]
    data = mm.Demonstrations.from_lists(lists, HOUSE, tasks=[0, 0])
    climb = Climb(checked_problem(HOUSE, data, seed=0), checked_features(HOUSE, None, on), choice, 0.1)
    weights = np.random.default_rng(0).normal(size=3)
    slope = climb.height_and_slope(weights, data.counts[0].astype(float))[1]

    def height(at):
        pairs = np.zeros((3, 2))
        pairs[HOUSE.available] = at if on == "state_action" else np.repeat(at[:, None], 2, axis=1)[HOUSE.available]
        problem = problem_of(HOUSE, at) | {"rewards": pairs}
        if on == "state_action":
            problem["terminal_value"] = np.zeros(3)
        if isinstance(choice, mm.SoftOptimal):
            policy = oracles.soft_by_value_iteration(**problem, inverse_temperature=1.5)[2]
        else:
            q = oracles.best_by_value_iteration(**problem)[1][:2]
            policy = np.exp(1.5 * (q - q.max(axis=1, keepdims=True)))
            policy = np.vstack([policy / policy.sum(axis=1, keepdims=True), [1.0, 1.0]])
        seen = data.counts[0] > 0
        return (data.counts[0][seen] * np.log(policy[seen])).sum() - 0.05 * at @ at

    step = 1e-6
    slopes = [(height(weights + step * unit) - height(weights - step * unit)) / (2 * step) for unit in np.eye(3)]
    np.testing.assert_allclose(slope, slopes, atol=1e-6)
    assert climb.height_and_slope(weights, data.counts[0].astype(float))[0] == pytest.approx(height(weights))
