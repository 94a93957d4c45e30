"""EM for motives that switch: Fisher information without a matrix, modes of the marginal posterior, rows."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import special

import manymotives as mm
import switching_oracle as oracle
from cases import in_turn
from manymotives.inference import expectation_maximisation as em
from manymotives.inference.fisher import FisherInformation, conjugate_gradients
from manymotives.inference.motive_modes import Motives, Population
from manymotives.inference.motive_rows import expected_rows, first_rows
from manymotives.models.assignment import Assignment
from manymotives.models.switching import Switching
from places import TRIANGLE
from switching_examples import quick, switching_data
from test_switching_exact import DISCOUNT, an_environment, segments_of, some_episodes

RULES = {
    "soft-optimal": mm.SoftOptimal(inverse_temperature=1.5),
    "softmax": mm.Softmax(inverse_temperature=1.5),
    "lapses": mm.SoftOptimal(inverse_temperature=1.5, lapse=0.1),
}


def two_tasks(rule, on, features, discount=0.8):
    rng = np.random.default_rng(4)
    environment = mm.Environment(rng.dirichlet(np.ones(4), size=(4, 3)), discount=discount)
    chosen = [(rng.integers(0, 4, 30).tolist(), rng.integers(0, 3, 30).tolist()) for _ in range(2)]
    cells = 4 if on == "state" else 12
    table = sp.csr_array(rng.normal(size=(cells, 3)) * (rng.random((cells, 3)) < 0.7)) if features else None
    reward = mm.GaussianReward(table, on=on, residual=bool(features))
    model = mm.RewardPolicyModel(reward, rule, mm.Hierarchical())
    target = model.bind(environment, mm.Demonstrations.from_lists(chosen, environment))
    return target, rng.normal(size=(2, target.num_coordinates))


PROBLEMS = [
    ("soft-optimal", "state_action", True, 0.8),
    ("soft-optimal", "state", False, 0.8),
    ("softmax", "state_action", False, 0.8),
    ("lapses", "state_action", True, 0.0),
    ("lapses", "state", True, 0.8),
]


@pytest.mark.parametrize(("problem", "is_small"), in_turn(PROBLEMS, [True, False], every=2))
def test_fisher_information_is_that_of_finite_differences(problem, is_small, monkeypatch):
    """Products, slope and draws, against derivatives of log π that know nothing of planning."""
    rule, on, features, discount = problem
    monkeypatch.setattr("manymotives.inference.fisher.suits", lambda environment: is_small)
    target, u = two_tasks(RULES[rule], on, features, discount)
    every, step, size = np.arange(2), 1e-5, target.num_coordinates
    change = np.stack(
        [
            (target.log_policies(u + step * e, every) - target.log_policies(u - step * e, every)) / (2 * step)
            for e in np.eye(size)
        ]
    )  # [D, M, S, A]
    weight = target.counts.sum(axis=2, keepdims=True) * np.exp(target.log_policies(u, every))
    information = np.einsum("imsa,jmsa,msa->mij", change, change, weight)
    fisher = FisherInformation(target, u)
    np.testing.assert_allclose(fisher.slope(), np.einsum("imsa,msa->mi", change, target.counts), rtol=1e-4, atol=1e-4)
    x = np.random.default_rng(0).normal(size=u.shape)
    np.testing.assert_allclose(fisher.times(x), np.einsum("mij,mj->mi", information, x), rtol=1e-4, atol=1e-4)
    rng = np.random.default_rng(1)
    squares = np.mean([fisher.draw(rng) ** 2 for _ in range(3000)], axis=0)
    np.testing.assert_allclose(squares, np.einsum("mii->mi", information), rtol=0.15, atol=1e-3)  # 4 standard errors

    def product(x):
        return x + fisher.times(x)

    solved = conjugate_gradients(product, x, 1 + fisher.diagonal(rng), 200)
    np.testing.assert_allclose(product(solved), x, atol=1e-2)
    exact = np.linalg.solve(np.eye(size) + information, x[..., None])[..., 0]
    np.testing.assert_allclose(solved, exact, atol=1e-2)


def test_draws_about_a_mode_are_those_of_its_curvature(monkeypatch):
    """Without a matrix and with one: variances of z, both against the inverse of 1 + information."""
    target, u = two_tasks(RULES["soft-optimal"], "state_action", True)
    motives, population = Motives(target), Population(np.zeros_like(u), np.full_like(u, 0.7))
    z = u / 0.7
    fisher = FisherInformation(target, u)
    information = np.stack([fisher.times(np.tile(e, (2, 1))) for e in np.eye(u.shape[1])], axis=2)
    expected = np.einsum("mii->mi", np.linalg.inv(np.eye(u.shape[1]) + 0.49 * information))
    for limit in (np.inf, 0):
        monkeypatch.setattr("manymotives.inference.motive_modes.DENSE", limit)
        found = motives.spread(z, population, np.random.default_rng(2), 250).var(axis=0)
        np.testing.assert_allclose(found, expected, rtol=0.36)  # 4 standard errors


@pytest.mark.parametrize("by", ["everywhere", "state"])
def test_em_ends_at_a_mode_with_motives_summed_out(by, monkeypatch):
    """The slope of log p(choices, θ) by an oracle that sums over every hidden sequence is 0 there."""
    for name, value in (("TOGETHER", 400), ("SETTLED", 1e-13)):
        monkeypatch.setattr(em, name, value)
    environment = an_environment()
    demonstrations = some_episodes(environment, (8, 9, 7, 8))
    reward = mm.GaussianReward(mean=0.0, scale=1.0, on="state_action")
    settings = mm.Switching(2, by=by, stickiness=2.0, concentration=5.0)
    model = mm.RewardPolicyModel(reward, mm.SoftOptimal(inverse_temperature=1.0), mm.Pooled(), settings)
    target = model.bind(environment, demonstrations)
    end = em.Climb(target, 3, True, lambda step, found: None).run()
    assert end.is_settled
    rows = end.rows.rows[target.assignment.tree.context]

    def log_posterior(theta):
        policies = oracle.log_policies_of(environment.tensor, theta.reshape(2, 3, 2), DISCOUNT, 1.0, True)
        total = -0.5 * (theta**2).sum()
        for states, actions, contexts in segments_of(demonstrations, by):
            # a segment begins by the row of the state where it begins
            z = oracle.all_sequences(2, len(states))
            joint = oracle.log_joint(z, states, actions, policies, rows[:, -1], rows[:, :-1], contexts)
            total += special.logsumexp(joint)
        return total

    theta = end.standardised.ravel()
    slopes = [(log_posterior(theta + 1e-5 * e) - log_posterior(theta - 1e-5 * e)) / 2e-5 for e in np.eye(theta.size)]
    assert np.abs(slopes).max() < 2e-3, slopes
    assert end.log_likelihood == pytest.approx(log_posterior(theta) + 0.5 * (theta**2).sum(), abs=1e-8)
    away = log_posterior(theta + 0.3 * np.random.default_rng(0).normal(size=theta.size))
    assert away < log_posterior(theta)


def test_rows_given_expected_transitions():
    """One row for all: its mean. By state: a mean around the common row, which is as near as ν says."""
    demonstrations = some_episodes(an_environment(), (5, 4))
    rng = np.random.default_rng(0)
    root = Assignment.of(Switching(2, stickiness=3.0), mm.Pooled(), demonstrations).tree
    transitions = rng.gamma(2.0, size=(1, 3, 2))
    found = expected_rows(root, transitions, first_rows(root, 2)).rows[0]
    pseudo = transitions[0] + 1 + 3.0 * np.array([[1, 0], [0, 1], [0, 0]])
    np.testing.assert_allclose(found, pseudo / pseudo.sum(axis=1, keepdims=True))
    for concentration, near in ((1e5, 1e-3), (1e-3, 0.5)):
        tree = Assignment.of(Switching(2, "state", 3.0, concentration), mm.Pooled(), demonstrations).tree
        transitions = np.stack([np.full((3, 2), 40.0) * [1, 0], np.full((3, 2), 40.0) * [0, 1], np.zeros((3, 2))])
        rows = first_rows(tree, 2)
        for _ in range(20):
            rows = expected_rows(tree, transitions, rows)
        np.testing.assert_allclose(rows.rows.sum(axis=2), 1)
        top, *children = rows.rows
        np.testing.assert_allclose(children[2], top, atol=1e-9)  # nothing was seen there
        assert np.abs(children[0] - children[1]).max() == pytest.approx(0 if near < 0.1 else 1, abs=0.05)
    tree = Assignment.of(Switching(2), mm.Pooled(), demonstrations).tree
    sticky = expected_rows(tree, np.array([[[90.0, 10.0], [5.0, 95.0], [1.0, 1.0]]]), first_rows(tree, 2))
    loose = expected_rows(tree, np.array([[[50.0, 50.0], [50.0, 50.0], [1.0, 1.0]]]), first_rows(tree, 2))
    assert sticky.stickiness[0] > 5 * loose.stickiness[0]


SHARINGS = {
    "pooled": (mm.Pooled(), mm.GaussianReward(mean=0.0, scale=mm.HalfNormal(1.0), groups="all", on="state_action")),
    "hierarchical": (mm.Hierarchical(), mm.GaussianReward(groups="all", on="state_action")),
    "separate": (mm.Separate(), mm.GaussianReward(mean=0.0, scale=1.0, on="state_action")),
}


@pytest.mark.parametrize(
    "sharing", ["pooled", *(pytest.param(each, marks=pytest.mark.long) for each in ("hierarchical", "separate"))]
)
def test_em_finds_what_markov_chains_find(sharing):
    """Rewards that choices can show, and when motives are active, beside HMC."""
    chosen, _ = switching_data(tasks=3, steps=150)
    how, reward = SHARINGS[sharing]
    model = mm.RewardPolicyModel(reward, mm.SoftOptimal(), how, mm.Switching(2))
    first = mm.fit(model, TRIANGLE, chosen, mm.EmpiricalBayes(draws=100), seed=1, progress=False)
    assert "approximation" in first.warnings[0]
    chains = mm.fit(model, TRIANGLE, chosen, quick(mm.HMC, draws=150, warmup=150), seed=1, progress=False)
    ours, theirs = (each.motives(chosen, "smoothed").values for each in (first, chains))
    assert em.agreement(ours, theirs) > 0.8
    assert first.log_predictions(chosen).mean() > chains.log_predictions(chosen).mean() - 0.03


def test_one_motive_ends_at_the_mode_of_the_model_without_switching():
    chosen, _ = switching_data(tasks=2, steps=60)
    reward = mm.GaussianReward(mean=0.0, scale=0.8, on="state_action")
    model = mm.RewardPolicyModel(reward, mm.SoftOptimal(), mm.Pooled(), mm.Switching(1))
    posterior = mm.fit(model, TRIANGLE, chosen, mm.EmpiricalBayes(draws=500, starts=1), progress=False)
    plain = replace(model, switching=None).bind(TRIANGLE, chosen)
    found = posterior.rewards.mean(("chain", "draw")).values.reshape(1, -1)
    motives, population = Motives(plain), Population(np.zeros_like(found), np.full_like(found, 0.8))
    z = np.zeros_like(found)
    for _ in range(20):
        z = motives.scored(z, population, motives.diagonal(population.coordinates(z), np.random.default_rng(0)))
    error = posterior.rewards.std(("chain", "draw")).values.ravel() / np.sqrt(500)
    assert (np.abs(found - population.coordinates(z))[0] < 4.5 * error + 1e-3).all()


@pytest.mark.parametrize(
    ("sharing", "chosen"),
    in_turn(SHARINGS, ([("ab", "xx")], [("a", "x"), ("b", "y")], [("aabb", "xxxx")] * 3), every=3),
)
def test_few_choices_and_subjects_alike(sharing, chosen):
    """Scales that go to zero, single choices: finite numbers, probabilities that sum to one."""
    names = dict(zip("abxy", [*TRIANGLE.states[:2], *TRIANGLE.actions[:2]]))
    lists = [([names[s] for s in states], [names[a] for a in actions]) for states, actions in chosen]
    data = mm.Demonstrations.from_lists(lists, TRIANGLE)
    how, reward = SHARINGS[sharing]
    model = mm.RewardPolicyModel(reward, mm.SoftOptimal(), how, mm.Switching(2, by="state"))
    posterior = mm.fit(model, TRIANGLE, data, mm.EmpiricalBayes(draws=10), progress=False)
    drawn = posterior.data["posterior"].dataset
    assert all(np.isfinite(drawn[name]).all() for name in drawn.data_vars)
    assert (posterior.log_predictions(data) <= 0).all()
    np.testing.assert_allclose(drawn["motive_transition"].sum("next_motive"), 1)
