"""Chains around a Laplace approximation: their algebra against dense matrices, their draws against other samplers."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from arviz_stats import mcse

import manymotives as mm
from manymotives.inference.fisher import FisherInformation
from manymotives.inference.mcmc import laplace_chains
from manymotives.inference.mcmc.laplace_adaptation import summed
from manymotives.inference.mcmc.laplace_reference import Quadratic, Reference, quadratic_at, shrunk_covariance
from manymotives.inference.progress import Progress

RNG = np.random.default_rng(0)
GRID = mm.worlds.GridWorld((4, 4), slip=0.1, discount=0.9)
FEATURES = np.random.default_rng(1).standard_normal((16, 5))
SOFT = mm.SoftOptimal(inverse_temperature=1.0)
MODELS = {
    "pooled": mm.RewardPolicyModel(mm.GaussianReward(FEATURES, mean=0.0, scale=1.0), SOFT, mm.Pooled()),
    "one scale": mm.RewardPolicyModel(mm.GaussianReward(FEATURES, groups="all"), SOFT, mm.Hierarchical()),
    "single scales": mm.RewardPolicyModel(
        mm.GaussianReward(np.concatenate([FEATURES, RNG.standard_normal((16, 3))], axis=1)), SOFT, mm.Hierarchical()
    ),
    "separate": mm.RewardPolicyModel(mm.GaussianReward(FEATURES, groups="all"), SOFT, mm.Separate()),
    "smooth": mm.RewardPolicyModel(mm.SmoothReward(), SOFT, mm.Pooled()),
    "smooth population": mm.RewardPolicyModel(mm.SmoothReward(), SOFT, mm.Hierarchical()),
    "greedy": mm.RewardPolicyModel(mm.SmoothReward(), mm.Softmax(inverse_temperature=1.0), mm.Pooled()),
    "on pairs": mm.RewardPolicyModel(
        mm.GaussianReward(mean=0.0, scale=mm.HalfNormal(1.0), on="state_action", groups="all"), SOFT, mm.Pooled()
    ),
}
QUICK = ("smooth",)


def choices(tasks: int = 3, steps: int = 60) -> mm.Demonstrations:
    rewards = np.random.default_rng(2).standard_normal((tasks, 16))
    return mm.simulate(GRID, rewards, SOFT, steps=steps, seed=3)


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    """These chains for every model that they can be for."""
    monkeypatch.setattr(laplace_chains, "MANY_COORDINATES", 0)


# ---- algebra -------------------------------------------------------------------------------------------------


def some_quadratic(tasks: int = 2, rows: int = 4, size: int = 6) -> tuple[Quadratic, np.ndarray, np.ndarray]:
    quadratic = Quadratic(RNG.standard_normal((tasks, rows, size)), RNG.standard_normal((tasks, size)))
    return quadratic, RNG.standard_normal((tasks, size)), RNG.uniform(0.3, 2.0, (tasks, size))


def dense(quadratic: Quadratic, mean: np.ndarray, scale: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Λ and c of task m."""
    information = quadratic.rows[m].T @ quadratic.rows[m]
    precision = np.eye(len(mean[m])) + scale[m][:, None] * information * scale[m]
    return precision, np.linalg.solve(precision, scale[m] * (quadratic.slope[m] - information @ mean[m]))


def test_reference_against_dense_matrices() -> None:
    quadratic, mean, scale = some_quadratic()
    reference = Reference.of(quadratic, mean, scale)
    x = RNG.standard_normal(mean.shape)
    for m in range(len(x)):
        precision, centre = dense(quadratic, mean, scale, m)
        values, turn = np.linalg.eigh(precision)
        np.testing.assert_allclose(reference.centre[m], centre, rtol=1e-9)
        for exponent in (-1.0, -0.5, 0.5):
            np.testing.assert_allclose(
                reference.power(x, exponent)[m], turn @ (values**exponent * (turn.T @ x[m])), rtol=1e-9, atol=1e-12
            )
        np.testing.assert_allclose(reference.log_determinant[m], -0.5 * np.log(values).sum(), rtol=1e-9)


def test_correction_by_draws() -> None:
    """Draws under another quadratic in the same directions lead to its Λ and c, but for sampling error."""
    assumed, mean, scale = some_quadratic()
    turn = np.eye(4) + 0.4 * np.random.default_rng(5).standard_normal((2, 4, 4))
    true = Quadratic(np.matmul(turn, assumed.rows), assumed.slope + 0.5 * assumed.rows.sum(axis=1))
    reference, rng, count = Reference.of(true, mean, scale), np.random.default_rng(4), 4_000
    drawn = [reference.centre + reference.power(rng.standard_normal(mean.shape), -0.5) for _ in range(count)]
    found = assumed.corrected([(mean, scale, z) for z in drawn])
    for m in range(2):
        (right, centre), (precision, its_centre) = (dense(each, mean, scale, m) for each in (true, found))
        ratios = np.linalg.eigvals(np.linalg.solve(right, precision)).real
        # sampled eigenvalues deviate by 2 √(4 / n); from twice that on they are told from 1, n being half the draws
        assert np.abs(np.log(ratios)).max() < 3 * 2 * np.sqrt(4 / (count / 2))
        away = its_centre - centre
        assert away @ right @ away < 5**2 * 6 / count


def test_covariance_of_few_draws_is_nearly_that_of_independent_variables() -> None:
    """Thirty variables, a hundred draws: one direction of variance 9 is found, and nothing else is made of noise."""
    rng = np.random.default_rng(6)
    direction = np.full(30, 30**-0.5)
    draws = rng.standard_normal((100, 30))
    draws += 2.0 * (draws @ direction)[:, None] * direction
    values, axes = np.linalg.eigh(shrunk_covariance(draws))
    assert 4.0 < values[-1] < 16.0
    assert abs(axes[:, -1] @ direction) > 0.9
    assert values[0] > 0.5
    assert values[-2] < 2.0


def test_slope_of_the_evidence_in_scales() -> None:
    quadratic, mean, scale = some_quadratic()

    def evidence(b: np.ndarray, m: int) -> float:
        precision, centre = dense(quadratic, mean, np.stack([b, b]), m)
        return float(0.5 * centre @ precision @ centre - 0.5 * np.linalg.slogdet(precision)[1])

    found = quadratic.by_scale(mean, scale)
    for m in range(2):
        for d in range(3):
            step = 1e-5 * np.eye(6)[d]
            slope = (evidence(scale[m] + step, m) - evidence(scale[m] - step, m)) / 2e-5
            assert found[m, d] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("name", ["pooled", "smooth", "on pairs", "greedy"])
def test_rows_of_fisher_information(name: str) -> None:
    target = MODELS[name].bind(GRID, choices())
    hyper = target.draw_hyper(RNG, 1)
    u = target.draw_tasks(RNG, hyper)[0]
    fisher, x = FisherInformation(target, u), RNG.standard_normal(u.shape)
    rows = fisher.rows(0)
    np.testing.assert_allclose(rows.T @ (rows @ x[0]), fisher.times(x)[0], rtol=1e-8, atol=1e-10)
    scale = np.full_like(u, 1e3)  # where nothing is negligible
    quadratic = quadratic_at(target, u, scale)
    np.testing.assert_allclose(quadratic.information(x), fisher.times(x), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(quadratic.slope - quadratic.information(u), fisher.slope(), rtol=1e-6, atol=1e-6)


def test_sums_by_index() -> None:
    found = summed(np.arange(8.0).reshape(2, 4), np.array([1, -1, 1, 2]), 2)
    np.testing.assert_array_equal(found, [[0.0, 2.0], [0.0, 10.0]])


# ---- draws -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in MODELS]
)
def test_draws_are_those_of_other_chains(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = MODELS[name], choices()
    more, warmup = (1, 60) if name in QUICK else (15, 120)
    other = mm.fit(model, GRID, data, mm.HMC(draws=80 * more, warmup=warmup, max_rounds=1), seed=2, progress=False)
    monkeypatch.setattr(laplace_chains, "MANY_COORDINATES", 0)
    assert laplace_chains.suits_laplace(model.bind(GRID, data))
    ours = mm.fit(model, GRID, data, mm.HMC(draws=120 * more, warmup=warmup, max_rounds=1), seed=1, progress=False)
    check_alike(ours, other)


def check_alike(ours: Any, other: Any) -> None:
    """Means and mean squares of all that was inferred, within Monte Carlo error."""
    scores = []
    for word in ours.data["posterior"].dataset.data_vars:
        for power in (1, 2):
            mine, others = (each.data["posterior"][word] ** power for each in (ours, other))
            error = np.hypot(mcse(mine).values, mcse(others).values)
            away = (mine.mean(("chain", "draw")) - others.mean(("chain", "draw"))).values
            scores.append(np.ravel(away / error)[np.ravel(error) > 0])
    z = np.concatenate(scores)
    assert np.abs(z).max() < 5.0, z
    assert np.median(np.abs(z)) < 1.5  # they depend on each other: one mean that is off by chance moves many


@pytest.mark.long
@pytest.mark.parametrize("rule", [mm.SoftOptimal, mm.Softmax])
def test_both_kinds_of_chains_on_144_states(rule: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Around a Laplace approximation with sparse factors, as in large environments; and as in small ones."""
    field = mm.worlds.GridWorld((12, 12), slip=0.1, discount=0.9)
    row, column = np.divmod(np.arange(144), 12)
    bumps = [np.exp(-((row - r) ** 2 + (column - c) ** 2) / 8) for r in (2, 6, 10) for c in (2, 6, 10)]
    features, weights = np.stack(bumps, axis=1), 2.0 * np.random.default_rng(1).standard_normal((3, 9))
    data = mm.simulate(field, weights @ features.T, rule(1.0), steps=25, episodes=8, seed=1)
    reward = mm.GaussianReward(features, mean=mm.Normal(0.0, 2.0), scale=mm.HalfNormal(2.0), groups="all")
    model = mm.RewardPolicyModel(reward, rule(1.0), mm.Hierarchical())
    other = mm.fit(model, field, data, mm.HMC(draws=500, warmup=300, max_rounds=1), seed=2, progress=False)
    monkeypatch.setattr(laplace_chains, "MANY_STATES", 100)
    assert laplace_chains.suits_laplace(model.bind(field, data))
    check_alike(mm.fit(model, field, data, mm.HMC(draws=1000, max_rounds=1), seed=1, progress=False), other)


def test_runs_go_on_to_the_last_bit(forced: None) -> None:
    """Ten draws, then ten more, are twenty."""
    target = replace(MODELS["smooth population"].bind(GRID, choices()), episodes=None)
    method = mm.HMC(chains=2, draws=20, warmup=10, max_rounds=1)
    _, whole = method.advance(method.init(target, 5), 20, Progress(False))
    state, first = method.advance(method.init(target, 5), 10, Progress(False))
    assert state is not None
    _, second = method.advance(state, 10, Progress(False))
    np.testing.assert_array_equal(whole.tasks, np.concatenate([first.tasks, second.tasks], axis=1))
    np.testing.assert_array_equal(whole.hyper, np.concatenate([first.hyper, second.hyper], axis=1))


def test_one_choice_and_none(forced: None) -> None:
    """Populations of tasks that hardly did anything: what comes out is the prior."""
    frame = pd.DataFrame({"task": ["a", "b"], "state": ["r0c0", "r3c3"], "action": ["up", "up"]})
    data = mm.Demonstrations.from_frame(frame, GRID, task="task")
    model = mm.RewardPolicyModel(mm.SmoothReward(scale=1.0, range=3.0), SOFT, mm.Separate())
    posterior = mm.fit(model, GRID, data, mm.HMC(draws=150, warmup=60, max_rounds=1), seed=0, progress=False)
    spread = posterior.rewards.std(("chain", "draw")).values
    assert np.all((spread > 0.7) & (spread < 1.5))


def test_only_for_normal_coordinates_and_many() -> None:
    data = choices()
    assert not laplace_chains.suits_laplace(MODELS["pooled"].bind(GRID, data))
    inferred = mm.RewardPolicyModel(
        mm.GaussianReward(), mm.SoftOptimal(inverse_temperature=mm.Gamma(2.0, 2.0)), mm.Pooled()
    )
    assert not laplace_chains.suits_laplace(inferred.bind(GRID, data))
