"""Every baseline on unlimited optimal data; imitation and the linear program by enumeration and plain sums."""

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog

import manymotives as mm
import oracles
from baseline_oracles import CHAIN, SMALL, loss_of, problem_of

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
    with pytest.raises(mm.errors.InputError, match="were predicted"):  # no proof, where most of the policy is a guess
        mm.baselines.linear_program(CHAIN, one, margin=100.0)
    relaxed = mm.baselines.linear_program(CHAIN, data, margin=100.0, relax=True)
    assert "falls short least" in relaxed.warnings[0]
    reward = relaxed.rewards.values[0]
    short = np.maximum(100.0 - margins_of(CHAIN, done.astype(float), reward, done), 0.0).sum()
    assert float(relaxed.details["shortfall"][0]) == pytest.approx(short, rel=1e-6)
    rng = np.random.default_rng(0)
    for other in rng.uniform(-1, 1, size=(50, 5)):
        assert short <= np.maximum(100.0 - margins_of(CHAIN, done.astype(float), other, done), 0.0).sum() + 1e-6
