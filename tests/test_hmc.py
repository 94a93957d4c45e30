"""The gradient of HMC, its non-centred coordinates, and what `fit` does until chains have mixed."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

import manymotives as mm
from manymotives import families
from manymotives.fitting.run import mixing_by_parts
from manymotives.inference import Progress
from manymotives.inference.diagnostics import mixing
from manymotives.inference.mcmc import noncentred
from manymotives.inference.mcmc.density import (
    density_workspace,
    find_noncentred,
    log_density_again,
    log_density_and_gradient,
    noncentred_draws,
)
from manymotives.inference.mcmc.sweeps import data_of
from manymotives.planning.warm_start import with_planner, world_of
from places import HOUSE

RNG = np.random.default_rng(3)
MODELS = {
    "Dirichlet, Softmax": mm.RewardPolicyModel(),
    "Dirichlet, SoftOptimal": mm.RewardPolicyModel(choice=mm.SoftOptimal()),
    "separate": mm.RewardPolicyModel(sharing=mm.Separate()),
    "pooled": mm.RewardPolicyModel(sharing=mm.Pooled()),
    "Beta, lapses": mm.RewardPolicyModel(mm.BetaReward(), mm.Softmax(lapse=mm.Beta(1.0, 9.0))),
    "Gaussian, known lapse": mm.RewardPolicyModel(mm.GaussianReward(), mm.SoftOptimal(2.0, lapse=0.05)),
    "features": mm.RewardPolicyModel(mm.GaussianReward(features=RNG.normal(size=(HOUSE.num_states, 2)))),
    "smooth": mm.RewardPolicyModel(mm.SmoothReward()),
    "smooth, pooled, with lapses": mm.RewardPolicyModel(
        mm.SmoothReward(scale=0.7, basis=3), mm.Softmax(lapse=mm.Beta(1.0, 9.0)), mm.Pooled()
    ),
    "pairs, everything inferred": mm.RewardPolicyModel(
        mm.DirichletReward(on="state_action"),
        mm.SoftOptimal(mm.LogNormal(mm.Normal(0.0, 1.0), mm.HalfNormal(1.0)), mm.Beta(mm.Gamma(1.0, 1.0), 2.0)),
    ),
}


def bound(name):
    rewards = RNG.dirichlet(np.ones(HOUSE.num_states), size=3)
    demonstrations = mm.simulate(HOUSE, rewards, mm.Softmax(6.0), steps=12, episodes=5, seed=1)
    target = MODELS[name].bind(HOUSE, demonstrations)
    world = world_of(HOUSE)
    data = data_of(target, world, is_hamiltonian=True)
    workspace = density_workspace(world, target.layout, target.num_tasks, target.num_groups)
    return target, data, workspace


# ---- coordinates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", range(5))
@pytest.mark.parametrize("a", [1e-3, 0.1, 1.0, 50.0])
def test_centred_coordinates_and_their_derivatives(family, a):
    """Against finite differences; and back again."""
    b, step = 0.7, 1e-6
    for z in (-6.0, -0.5, 0.0, 2.0):
        u, density, by_z, by_a, by_b, u_z, u_a, u_b = noncentred.noncentred_density(
            family, z, a, b, *noncentred.noncentred_constants(family, a, b)
        )
        assert noncentred.centred(family, z, a, b) == pytest.approx((u, u_z), rel=1e-12, abs=1e-12)
        normaliser, normaliser_a, normaliser_b = noncentred.noncentred_normaliser(family, a, b)
        expected = families.log_density(family, u, a, b) + np.log(u_z)
        assert density + normaliser == pytest.approx(expected, rel=1e-10, abs=1e-10)

        def at(z, a, b):
            u, density, *_ = noncentred.noncentred_density(
                family, z, a, b, *noncentred.noncentred_constants(family, a, b)
            )
            return u, density + noncentred.noncentred_normaliser(family, a, b)[0]

        for size, first, second, moved in (
            (step, u_z, by_z, lambda x, z=z: at(z + x, a, b)),
            (step * a, u_a, by_a + normaliser_a, lambda x, z=z: at(z, a + x, b)),
            (step * b, u_b, by_b + normaliser_b, lambda x, z=z: at(z, a, b + x)),
        ):
            left, right = moved(-size), moved(size)
            assert first == pytest.approx((right[0] - left[0]) / (2 * size), rel=1e-6, abs=1e-6 * (1 + abs(u)))
            assert second == pytest.approx((right[1] - left[1]) / (2 * size), rel=1e-6, abs=1e-6 / a)
        assert noncentred.noncentred(family, u, a, b, 0.3) == pytest.approx(z, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("shape", [0.02, 0.3, 2.0, 40.0])
def test_centred_coordinates_resemble_quantiles(shape):
    """z of draws is nearly standard normal, whatever the population: that is all the map is for."""
    u = families.log_gammas(np.random.default_rng(0), np.full((4000, 1), shape))[:, 0]
    z = np.array([noncentred.noncentred(families.GAMMA, value, shape, 1.0, 0.0) for value in u])
    assert abs(z.mean()) < 0.35
    assert 0.75 < z.std() < 1.3
    assert stats.kstest(z, "norm").statistic < 0.15


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_the_density(name):
    """In every coordinate, against finite differences; with dense and with sparse transitions."""
    target, data, workspace = bound(name)
    layout, worlds = target.layout, [world_of(HOUSE)]
    worlds.append(with_planner(worlds[0]._replace(transitions=np.empty((0, 0)))))
    rng = np.random.default_rng(5)
    hyper_z = 0.7 * rng.normal(size=(target.num_groups, target.num_hyper))
    task_z = 0.7 * rng.normal(size=(target.num_tasks, target.num_coordinates))
    gradients = []
    for world in worlds:
        log_density_and_gradient(world, layout, data, workspace, hyper_z, task_z)
        gradients.append((workspace.population_gradient.copy(), workspace.task_gradient.copy()))
    for dense, sparse in zip(*gradients):  # swept values are good to 1e-11 of the largest
        assert np.allclose(dense, sparse, rtol=1e-5, atol=1e-5)

    def density():
        log_density_and_gradient(worlds[0], layout, data, workspace, hyper_z, task_z)
        return workspace.population_density.sum()

    step = 1e-5
    for place, slopes in ((hyper_z, gradients[0][0]), (task_z, gradients[0][1])):
        for index in np.ndindex(place.shape):
            here = place[index]
            place[index] = here + step
            above = density()
            place[index] = here - step
            below = density()
            place[index] = here
            assert slopes[index] == pytest.approx((above - below) / (2 * step), rel=1e-6, abs=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_the_density_is_the_targets(name):
    """log p(z) is log p(h, u) + log-likelihood + log |du/dz| |dh/dz|, each from elsewhere."""
    target, data, workspace = bound(name)
    rng = np.random.default_rng(6)
    hyper = target.draw_hyper(rng, 1)
    tasks = target.draw_tasks(rng, hyper)
    hyper_z, task_z = noncentred_draws(target.layout, hyper, tasks)
    log_density_and_gradient(world_of(HOUSE), target.layout, data, workspace, hyper_z[0], task_z[0])
    assert np.allclose(workspace.hyper, hyper[0], rtol=1e-9)
    assert np.allclose(workspace.tasks[: target.num_tasks], tasks[0], rtol=1e-9)
    layout, jacobian = target.layout, 0.0
    for g, j in np.ndindex(hyper_z[0].shape):
        jacobian += np.log(
            noncentred.centred(layout.hyper_families[j], hyper_z[0, g, j], *layout.hyper_constants[j])[1]
        )
    parameters = target.parameters(hyper[0])[target.group]
    for m, d in np.ndindex(task_z[0].shape):
        jacobian += np.log(noncentred.centred(layout.families[d], task_z[0, m, d], *parameters[m, d])[1])
    likelihood = target.log_likelihood(tasks[0], np.arange(target.num_tasks)).sum()
    expected = target.log_prior(hyper, tasks)[0] + likelihood + jacobian
    assert workspace.population_density.sum() == pytest.approx(expected, rel=1e-10)

    slope = workspace.task_gradient.copy()
    log_density_again(layout, workspace, hyper_z[0], task_z[0])
    assert np.array_equal(slope, workspace.task_gradient)
    find_noncentred(layout, hyper[0], tasks[0], hyper_z[0], task_z[0])
    assert np.allclose(workspace.tasks[: target.num_tasks], tasks[0], rtol=1e-9)


# ---- until chains have mixed ---------------------------------------------------------------------------------------


def test_fit_goes_on_until_the_chains_have_mixed():
    chain = mm.worlds.Chain(states=3, discount=0.9)
    demonstrations = mm.simulate(chain, [[0.2, 0.0, 0.8]], mm.Softmax(4.0), steps=30, seed=0)
    model = mm.RewardPolicyModel(mm.DirichletReward(1.0), mm.Softmax(4.0))
    short = mm.HMC(draws=60, warmup=60, thin=2, max_rounds=1)
    impatient = mm.fit(model, chain, demonstrations, short, progress=False)
    assert impatient.rewards.sizes["draw"] == 60
    assert any("effective sample size" in warning for warning in impatient.warnings)
    patient = mm.fit(model, chain, demonstrations, mm.HMC(draws=60, warmup=60, thin=2, max_rounds=40), progress=False)
    assert patient.rewards.sizes["draw"] > 60
    assert patient.rewards.sizes["draw"] % 60 == 0
    assert not any("effective" in warning or "R-hat" in warning for warning in patient.warnings)
    assert "mixed: R-hat ≤ 1.0" in repr(patient)
    assert np.array_equal(patient.rewards[:, :60], impatient.rewards)  # the first ones are the same


def test_many_tasks_are_looked_at_in_parts_with_the_same_answer():
    rng = np.random.default_rng(0)
    chains = rng.normal(size=(4, 250, 105, 1))
    drawn = xr.Dataset(
        {
            "reward": (("chain", "draw", "task", "state"), chains),
            "reward_concentration": (("chain", "draw", "state"), rng.normal(size=(4, 250, 1))),
        }
    )
    whole, in_parts = mixing(drawn), mixing_by_parts(drawn, Progress(False))
    assert whole.warnings == ()
    assert in_parts == whole
    for name, place in (("reward", (0, slice(None), 104, 0)), ("reward_concentration", (0, slice(None), 0))):
        stuck = drawn.copy(deep=True)
        stuck[name].values[place] += 2.0
        assert "disagree" in mixing(stuck).warnings[0]
        assert mixing_by_parts(stuck, Progress(False)) is None


def test_the_default_is_hmc():
    chain = mm.worlds.Chain(states=3, discount=0.9)
    demonstrations = mm.simulate(chain, [[0.2, 0.0, 0.8]], mm.Softmax(4.0), steps=30, seed=0)
    model = mm.RewardPolicyModel(mm.DirichletReward(1.0), mm.Softmax(4.0))
    assert "draws by HMC" in repr(mm.fit(model, chain, demonstrations, progress=False))
