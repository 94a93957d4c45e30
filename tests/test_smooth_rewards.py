"""Rewards that are smooth over a graph: covariances and densities from dense matrices, three samplers, edges."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from arviz_stats import ess
from scipy import stats
from typer.testing import CliRunner

import manymotives as mm
from cases import seeds_from
from goodness_of_fit import SIGNIFICANCE
from manymotives.cli import app

GRID = mm.worlds.GridWorld((4, 4), discount=0.9)
SMALL = mm.worlds.GridWorld((3, 3), discount=0.8)


def grid_graph(rows, columns):
    """1 between cells that share an edge."""
    cells = [(row, column) for row in range(rows) for column in range(columns)]
    return np.array([[float(abs(a - c) + abs(b - d) == 1) for c, d in cells] for a, b in cells])


def covariance(weights, scale, distance):
    """scale² c ((8 / range²) + L)⁻², with c such that its mean diagonal is scale²."""
    laplacian = np.diag(weights.sum(axis=1)) - weights
    root = 8 / distance**2 * np.eye(len(weights)) + laplacian
    found = np.linalg.inv(root @ root)
    return scale**2 * found / np.diag(found).mean()


def a_problem(reward, sharing, environment=GRID, tasks=3, steps=40):
    wanted = np.random.default_rng(0).normal(size=(tasks, environment.num_states))
    demonstrations = mm.simulate(environment, wanted, mm.Softmax(1.0), steps=steps, seed=1)
    return mm.RewardPolicyModel(reward, mm.Softmax(), sharing), environment, demonstrations


def target_of(reward, sharing, environment=GRID, **size):
    model, *data = a_problem(reward, sharing, environment, **size)
    return model.bind(*data)


# ---- the prior -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scale", "distance"), [(1.0, 1.0), (0.3, 4.0), (2.0, 30.0)])
def test_rewards_have_the_covariance_of_the_dense_matrix(scale, distance):
    target = target_of(mm.SmoothReward(scale, distance), mm.Pooled())
    vectors, parameters = target.layout.features.array, target.parameters(np.zeros((1, 0)))[0]
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(16), atol=1e-12)
    found = vectors @ np.diag(parameters[:, 1] ** 2) @ vectors.T
    np.testing.assert_allclose(found, covariance(grid_graph(4, 4), scale, distance), rtol=1e-9, atol=1e-12)


def test_rewards_a_range_apart_are_hardly_correlated():
    size, distance = 21, 6
    world = mm.worlds.GridWorld((size, size), discount=0.9)
    model = mm.RewardPolicyModel(mm.SmoothReward(1.0, float(distance)), sharing=mm.Pooled())
    target = model.target(world, ("everybody",), np.zeros((1, size**2, 4)))
    scaled = target.layout.features.array * target.parameters(np.zeros((1, 0)))[0, :, 1]
    middle = size**2 // 2
    here, there = scaled[middle], scaled[middle + distance]
    correlation = here @ there / np.sqrt((here @ here) * (there @ there))
    assert 0.05 < correlation < 0.2


def test_draws_of_the_prior_have_this_covariance():
    weights = np.triu(np.random.default_rng(2).uniform(size=(9, 9)), 1)
    weights = weights + weights.T
    target = target_of(mm.SmoothReward(0.8, 2.0, graph=sp.csr_array(weights)), mm.Pooled(), SMALL)
    count = 40_000
    drawn = target.rewards(target.draw_tasks(np.random.default_rng(3), np.zeros((count, 1, 0))))[:, 0]
    expected = covariance(weights, 0.8, 2.0)
    spread = np.sqrt((np.outer(np.diag(expected), np.diag(expected)) + expected**2) / count)
    assert np.abs((np.cov(drawn.T) - expected) / spread).max() < 5


def test_the_log_prior_is_that_of_dense_normals():
    """Of tasks around a population's reward, itself smooth, with scale and range inferred."""
    target = target_of(mm.SmoothReward(mm.HalfNormal(0.7), mm.Gamma(3.0, 0.5)), mm.Hierarchical(), SMALL)
    assert [(block.name, block.end - block.begin) for block in target.blocks] == [
        ("reward_mean", 9),
        ("reward_scale", 1),
        ("reward_range", 1),
    ]
    rng = np.random.default_rng(4)
    hyper = target.draw_hyper(rng, 1)
    u = target.draw_tasks(rng, hyper)
    vectors, graph = target.layout.features.array, grid_graph(3, 3)
    centre, scale, distance = vectors @ hyper[0, 0, :9], *np.exp(hyper[0, 0, 9:])
    median = stats.gamma.median(3.0, scale=2.0)
    expected = stats.multivariate_normal.logpdf(centre, cov=covariance(graph, 1.0, median))
    expected += stats.halfnorm.logpdf(scale, scale=0.7) + np.log(scale)  # densities of logarithms
    expected += stats.gamma.logpdf(distance, 3.0, scale=2.0) + np.log(distance)
    tasks = stats.multivariate_normal(centre, covariance(graph, scale, distance))
    expected += tasks.logpdf(target.rewards(u)[0]).sum()
    assert target.log_prior(hyper, u)[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("reward", [mm.SmoothReward(), mm.SmoothReward(mean=0)])
@pytest.mark.parametrize("sharing", [mm.Pooled(), mm.Separate(), mm.Hierarchical()])
def test_only_a_population_has_a_mean(reward, sharing):
    names = [block.name for block in target_of(reward, sharing).blocks]
    has_mean = isinstance(sharing, mm.Hierarchical) and reward.mean is None
    assert names == [*(["reward_mean"] if has_mean else []), "reward_scale", "reward_range"]


def test_few_eigenvectors_are_the_smoothest_and_keep_the_variance():
    every, few = (target_of(mm.SmoothReward(0.5, 3.0, basis=basis), mm.Pooled()) for basis in (None, 5))
    assert few.layout.features.array.shape == (16, 5)
    scaled = few.layout.features.array * few.parameters(np.zeros((1, 0)))[0, :, 1]
    assert (scaled**2).sum(axis=1).mean() == pytest.approx(0.25)
    assert np.all(np.diff(every.parameters(np.zeros((1, 0)))[0, :, 1]) <= 1e-12)


def test_a_sparse_solver_finds_the_same_space():
    """Beyond 1,500 states; eigenvalues of a grid are known: 4 − 2 cos(π i / n) − 2 cos(π j / n)."""
    size = 42
    world = mm.worlds.GridWorld((size, size), discount=0.9)
    found = mm.SmoothReward(basis=30).eigenvectors(world)
    one = 2 - 2 * np.cos(np.pi * np.arange(size) / size)
    expected = np.sort((one[:, None] + one).ravel())[:30]
    np.testing.assert_allclose(found.values, expected, atol=1e-10)
    laplacian = sp.csr_array(sp.diags_array(grid_degrees(size).ravel())) - mm.SmoothReward().neighbours(world)
    np.testing.assert_allclose(laplacian @ found.vectors, found.vectors * found.values, atol=1e-8)
    assert np.array_equal(found.vectors, mm.SmoothReward(basis=30).eigenvectors(world).vectors)


def grid_degrees(size):
    inner = np.minimum(np.arange(size), 1) + np.minimum(np.arange(size)[::-1], 1)
    return (inner[:, None] + inner).astype(float)


# ---- samplers ------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("reward", [mm.SmoothReward(1.0, 3.0), mm.SmoothReward()], ids=["known", "inferred"])
@pytest.mark.parametrize("sharing", [mm.Pooled(), mm.Hierarchical()], ids=["pooled", "hierarchical"])
def test_three_samplers_agree(reward, sharing):
    """Means of rewards, and of scale and range, within Monte Carlo error."""
    model, *data = a_problem(reward, sharing)
    found = []
    for method in (
        mm.HMC(draws=500, warmup=300, max_rounds=1),
        mm.Gibbs(draws=1000, warmup=500, thin=20),
        mm.Metropolis(draws=1000, warmup=500, thin=40),
    ):
        drawn = mm.fit(model, *data, method, seed=2, progress=False).data["posterior"].dataset
        error = drawn.std(("chain", "draw")) / np.sqrt(ess(drawn))
        found.append((drawn.mean(("chain", "draw")), error))
    for mean, error in found[1:]:
        for name in mean.data_vars:
            apart = (mean[name] - found[0][0][name]) / np.hypot(error[name], found[0][1][name])
            assert np.abs(apart).max() < 5, name


CALIBRATED = {
    "HMC": mm.HMC(chains=1, draws=40, warmup=50, thin=2, max_rounds=1),
    "Gibbs": mm.Gibbs(chains=1, draws=40, warmup=50, thin=20),
    "Metropolis": mm.Metropolis(chains=1, draws=40, warmup=50, thin=40),
}


@pytest.mark.parametrize(
    ("method", "sharing"),
    [
        pytest.param(method, sharing, marks=[] if (method, sharing) == ("HMC", "Hierarchical") else pytest.mark.long)
        for method in CALIBRATED
        for sharing in ("Pooled", "Hierarchical")
    ],
)
def test_the_truth_is_one_more_draw(method, sharing):
    """Simulation-based calibration; six of them, each refused below 0.01 / 6."""
    model = mm.RewardPolicyModel(mm.SmoothReward(range=mm.Gamma(4.0, 2.0)), sharing=getattr(mm, sharing)())
    found = mm.calibrate(model, SMALL, CALIBRATED[method], seeds=seeds_from(5, 30), tasks=2, steps=15, progress=False)
    assert found.p_value > SIGNIFICANCE, found


# ---- what is kept --------------------------------------------------------------------------------------------------


def test_a_posterior_has_rewards_and_no_weights(tmp_path):
    reward = mm.SmoothReward(graph=sp.csr_array(grid_graph(3, 3)))
    model, *data = a_problem(reward, mm.Hierarchical(), SMALL)
    method = mm.HMC(chains=2, draws=30, warmup=30, max_rounds=1)
    made = mm.fit(model, *data, method, progress=False)
    drawn = made.data["posterior"].dataset
    assert set(drawn.data_vars) == {"reward", "reward_mean", "reward_scale", "reward_range"}
    assert drawn["reward_mean"].dims == ("chain", "draw", "state")
    assert drawn["reward_scale"].dims == ("chain", "draw")
    assert not made.has_features
    made.save(tmp_path / "run.nc")
    again = mm.load(tmp_path / "run.nc")
    assert again.data["posterior"].dataset.equals(drawn)
    hyper = again.hyperparameters()  # weights of the population's reward are found again
    field = again.target.layout.features.times(hyper[:, :9])
    np.testing.assert_allclose(field, drawn["reward_mean"].values.reshape(-1, 9), atol=1e-10)
    assert again.population()["reward"].shape == (2, 30, 9)
    longer = mm.fit(model, *data, method, start=again, progress=False)
    assert longer.data["posterior"].sizes["draw"] == 60
    assert "neighbouring" in mm.report(made, tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_command_line_fits_them(tmp_path):
    def run(*arguments):
        return CliRunner().invoke(app, [str(word) for word in arguments])

    assert run("simulate", "grid", "--out", tmp_path, "--subjects", 2, "--steps", 20, "--size", 3).exit_code == 0
    tables = (tmp_path / "choices.csv", "--environment", tmp_path / "environment.csv", "--reward", "smooth")
    quick = ("--chains", 2, "--draws", 20, "--warmup", 20, "--max-rounds", 1)
    result = run("fit", *tables, *quick, "--out", tmp_path / "run.nc")
    assert result.exit_code == 0, result.output
    assert "reward_range" in mm.load(tmp_path / "run.nc").data["posterior"].dataset
    assert run("export", tmp_path / "run.nc", "--out", tmp_path / "tables").exit_code == 0
    refused = run("fit", *tables, "--on", "pairs", "--dry-run")
    assert refused.exit_code == 2
    assert "pairs have no neighbours" in refused.output


@pytest.mark.parametrize(
    "method",
    [
        mm.MonteCarlo(draws=200),
        mm.NestedMonteCarlo(draws=20),
        pytest.param(mm.EmpiricalBayes(20), marks=pytest.mark.long),
    ],
)
def test_other_methods_take_them(method):
    model, *data = a_problem(mm.SmoothReward(), mm.Hierarchical(), SMALL)
    made = mm.fit(model, *data, method, progress=False)
    assert np.isfinite(made.rewards.values).all()


def test_motives_that_switch_may_be_smooth():
    model, *data = a_problem(mm.SmoothReward(), mm.Hierarchical(), SMALL)
    model = replace(model, switching=mm.Switching(2))
    drawn = mm.fit(model, *data, mm.HMC(chains=1, draws=10, warmup=10, max_rounds=1), progress=False).data["posterior"]
    assert drawn["reward"].dims == ("chain", "draw", "task", "motive", "state")
    assert drawn["reward_mean"].dims == ("chain", "draw", "motive", "state")
    assert drawn["reward_range"].dims == ("chain", "draw", "motive")


def test_states_of_a_labelled_graph_come_in_any_order():
    weights = np.triu(np.random.default_rng(2).uniform(size=(9, 9)), 1)
    weights = weights + weights.T
    order = np.random.default_rng(0).permutation(9)
    names = [SMALL.states[k] for k in order]
    frame = pd.DataFrame(weights[np.ix_(order, order)], index=names, columns=names)
    found = mm.SmoothReward(graph=frame).neighbours(SMALL).toarray()
    np.testing.assert_allclose(found, weights)


# ---- edges ---------------------------------------------------------------------------------------------------------


def test_parts_without_links_are_independent_and_this_is_said():
    weights = grid_graph(3, 3)
    weights[:3, 3:] = weights[3:, :3] = 0.0
    model, *data = a_problem(mm.SmoothReward(1.0, 2.0, graph=weights), mm.Pooled(), SMALL)
    target = model.bind(*data)
    scaled = target.layout.features.array * target.parameters(np.zeros((1, 0)))[0, :, 1]
    np.testing.assert_allclose((scaled @ scaled.T), covariance(weights, 1.0, 2.0), atol=1e-12)
    assert np.abs((scaled @ scaled.T)[:3, 3:]).max() < 1e-12
    made = mm.fit(model, *data, mm.HMC(chains=1, draws=10, warmup=10, max_rounds=1), progress=False)
    assert any("2 parts without a link" in said for said in made.warnings)


def test_terminal_absorbing_and_unreachable_states_have_neighbours_like_others():
    transitions = np.zeros((4, 2, 4))
    transitions[0, :, 1] = transitions[1, 0, 2] = transitions[1, 1, 1] = transitions[2, :, 2] = transitions[3, :, 0] = (
        1.0
    )
    world = mm.Environment(transitions, discount=0.9, terminal=[2], start=[1.0, 0.0, 0.0, 0.0])
    expected = np.zeros((4, 4))
    for one, other in ((0, 1), (1, 2), (0, 3)):
        expected[one, other] = expected[other, one] = 1.0
    assert np.array_equal(mm.SmoothReward().neighbours(world).toarray(), expected)
    steps = mm.Demonstrations.from_lists([([0, 1, 2], [0, 0])], world)
    method = mm.HMC(chains=1, draws=10, warmup=10, max_rounds=1)
    made = mm.fit(mm.RewardPolicyModel(mm.SmoothReward()), world, steps, method, progress=False)
    assert np.isfinite(made.rewards.values).all()


def test_a_complete_graph_is_said_to_be():
    world = mm.worlds.RandomMDP(states=5, actions=2, seed=1, discount=0.9)
    model, *_ = a_problem(mm.SmoothReward(), mm.Pooled(), world)
    said = model.warnings_in(world)
    assert len(said) == (mm.SmoothReward().neighbours(world).nnz == 20)
