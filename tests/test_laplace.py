"""Mass matrices from Fisher information, where tasks have too many coordinates to learn them from draws."""

import threading
import warnings

import numpy as np
import pytest
from arviz_stats import ess
from arviz_stats.base import array_stats
from benchmarks.mixing import one_grid

import manymotives as mm
from manymotives.inference.laplace import improves_step_size, mass_factors
from manymotives.inference.mcmc import adaptation, chains
from manymotives.inference.mcmc.density import log_density_and_gradient
from manymotives.planning.warm_start import world_of
from test_hmc import HOUSE, MODELS, RNG, bound

EXACT = ["Dirichlet, Softmax", "separate", "pooled", "Beta, lapses", "Gaussian, known lapse", "features", "smooth"]


@pytest.mark.parametrize("name", EXACT)
def test_mass_factors_are_those_of_the_information_in_choices(name):
    """F Fᵀ against (1 + information)⁻¹, with the information from finite differences of log π(a|s)."""
    target, data, workspace = bound(name)
    rng = np.random.default_rng(5)
    hyper_z = rng.normal(size=(target.num_groups, target.num_hyper))
    task_z = rng.normal(size=(target.num_tasks, target.num_coordinates))
    world = world_of(HOUSE)
    visits = target.counts.sum(axis=2, keepdims=True)

    def log_policies(hyper_z, task_z):
        log_density_and_gradient(world, target.layout, data, workspace, hyper_z, task_z)
        tasks = workspace.tasks[: target.num_tasks].copy()
        found = target.log_policies(tasks, np.arange(target.num_tasks))
        return np.where(np.isfinite(found), found, 0.0)

    def slopes(move, count):
        """Derivatives [count, M, S, A] of all log π."""
        step = 1e-5
        return np.stack([(move(i, step) - move(i, -step)) / (2 * step) for i in range(count)])

    def moved_task(i, step):
        return log_policies(hyper_z, task_z + step * np.eye(target.num_coordinates)[i])

    def moved_population(i, step):
        return log_policies(hyper_z + step * np.eye(target.num_hyper)[i], task_z)

    weight = visits * np.exp(log_policies(hyper_z, task_z)) * HOUSE.available
    by_task, by_population = slopes(moved_task, target.num_coordinates), slopes(moved_population, target.num_hyper)
    log_density_and_gradient(world, target.layout, data, workspace, hyper_z, task_z)
    u_by = workspace.u_by_z, workspace.u_by_a, workspace.u_by_b
    found = mass_factors(
        target, workspace.tasks[: target.num_tasks].copy(), *u_by, workspace.hyper_by_z, workspace.values
    )
    for m, mass_factor in enumerate(found[0]):
        information = np.einsum("isa,jsa,sa->ij", by_task[:, m], by_task[:, m], weight[m])
        assert np.array_equal(mass_factor, np.tril(mass_factor))
        np.testing.assert_allclose(
            mass_factor @ mass_factor.T, np.linalg.inv(information + np.eye(len(information))), rtol=1e-4, atol=1e-5
        )
    for g, mass_factor in enumerate(found[1]):
        mine = target.group == g
        information = np.einsum("imsa,jmsa,msa->ij", by_population[:, mine], by_population[:, mine], weight[mine])
        np.testing.assert_allclose(
            mass_factor @ mass_factor.T, np.linalg.inv(information + np.eye(len(information))), rtol=1e-4, atol=1e-5
        )


@pytest.mark.long
@pytest.mark.parametrize("name", ["Gaussian, known lapse", "Dirichlet, Softmax"])
def test_such_mass_matrices_leave_the_posterior_as_it_is(name, monkeypatch):
    """Against the same method with mass matrices learnt from draws."""
    rewards = RNG.dirichlet(np.ones(HOUSE.num_states), size=3)
    demonstrations = mm.simulate(HOUSE, rewards, mm.Softmax(6.0), steps=12, episodes=5, seed=1)
    method = mm.HMC(chains=4, draws=600, warmup=200, thin=2, max_rounds=1)
    means, errors = [], []
    for many in (adaptation.MANY_COORDINATES, 1):
        monkeypatch.setattr(adaptation, "MANY_COORDINATES", many)
        drawn = mm.fit(MODELS[name], HOUSE, demonstrations, method, progress=False).rewards.values[..., 0, :]
        assert max(array_stats.rhat(drawn[..., s], chain_axis=0, draw_axis=1) for s in range(drawn.shape[2])) < 1.05
        means.append(drawn.mean(axis=(0, 1)))
        errors.append([array_stats.mcse(drawn[..., s], chain_axis=0, draw_axis=1) for s in range(drawn.shape[2])])
    away = np.abs(means[0] - means[1]) / np.hypot(*errors)
    assert away.max() < 4.0


def test_mass_factors_lengthen_steps_where_curvature_is_alike():
    sharp = np.diag([1.0, 0.1, 1.0])[None]  # steps ten times as long, if what is sharp here is sharp there
    assert improves_step_size(sharp, sharp)
    assert improves_step_size(sharp, np.diag([0.9, 0.15, 1.0])[None])
    assert not improves_step_size(sharp, np.diag([1.0, 1.0, 0.1])[None])
    assert not improves_step_size(np.eye(3)[None], np.eye(3)[None])  # nothing is sharp


@pytest.mark.parametrize(
    ("discount", "steps", "spread", "uses_curvature"), [(0.5, 2500, 1.0, True), (0.9, 50, 100.0, False)]
)
def test_chains_use_curvature_only_where_it_helps(discount, steps, spread, uses_curvature, monkeypatch):
    """Many choices between things much alike; few between things of which one is a hundred times too good."""
    monkeypatch.setattr(adaptation, "MANY_COORDINATES", 20)
    grid = mm.worlds.GridWorld((5, 5), slip=0.0, discount=discount)
    rng = np.random.default_rng(0)
    seen = mm.simulate(grid, [rng.normal(0.0, spread, size=25)], mm.Softmax(1.0), steps=steps, seed=0)
    model = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=max(10.0, spread)), mm.Softmax(1.0))
    target = model.bind(grid, seen)
    chain = chains.MarkovChain(chains.hamiltonian_draws, target, 25, np.random.SeedSequence(0))
    assert chain.uses_curvature
    chain.run(100, 5, 1, threading.Event())
    assert chain.uses_curvature == uses_curvature


@pytest.mark.long
def test_one_task_with_many_rewards_mixes():
    """The largest grid of `benchmarks.mixing`: 130 effective draws or so; 15, with mass matrices from curvature."""
    model, grid, seen = one_grid(12)
    drawn = mm.fit(model, grid, seen, mm.HMC(draws=200, warmup=300, max_rounds=1), progress=False).rewards
    assert float(ess(drawn.rename("reward"), method="bulk").min()) > 50


def test_one_task_with_many_rewards_says_nothing_on_the_way(capfd):
    """No population, whose mass matrix would be of no size; means of zero, which are no scales."""
    grid = mm.worlds.GridWorld((11, 10), slip=0.0, discount=0.9)
    seen = mm.simulate(grid, np.zeros(grid.num_states), mm.Softmax(1.0), steps=5, seed=0)
    model = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=10.0), mm.Softmax(1.0), mm.Separate())
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        mm.fit(model, grid, seen, mm.HMC(chains=1, draws=4, warmup=20, max_rounds=1), progress=False)
    assert "DTRTRI" not in "".join(capfd.readouterr())
