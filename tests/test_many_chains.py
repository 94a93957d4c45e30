"""Many chains at once in JAX: the same densities as the compiled chains', the same posterior, and honest warnings."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from arviz_stats import ess
from scipy import special

import manymotives as mm
from manymotives.families import BETA, GAMMA
from manymotives.inference import sample
from manymotives.inference.diagnostics import RHAT, mixing, nested_rhat
from manymotives.inference.many_chains.choices import _inverse
from manymotives.inference.many_chains.density import (
    log_density_given_tasks,
    log_density_of_populations,
    log_density_of_tasks,
    populations_at,
    summaries_of,
    tasks_at,
)
from manymotives.inference.many_chains.families import centred, log_gamma_draws, noncentred
from manymotives.inference.many_chains.hmc import on
from manymotives.inference.many_chains.layout import data_of, static_layout_of
from manymotives.inference.mcmc import sweeps
from manymotives.inference.mcmc.density import density_workspace, log_density_and_gradient
from manymotives.inference.mcmc.noncentred import noncentred as compiled_noncentred
from manymotives.planning.warm_start import world_of
from places import HOUSE, TRIANGLE, random_environment

SHARING = {"Hierarchical": mm.Hierarchical(), "Separate": mm.Separate(), "Pooled": mm.Pooled()}
REWARDS = {
    "Dirichlet": mm.DirichletReward(),
    "Dirichlet known": mm.DirichletReward(concentration=0.7),
    "Dirichlet on pairs": mm.DirichletReward(on="state_action"),
    "Beta": mm.BetaReward(),
    "Gaussian": mm.GaussianReward(),
    "Gaussian on pairs": mm.GaussianReward(on="state_action"),
    "features": mm.GaussianReward(features=[[1.0, 0.0], [0.5, 1.0], [0.0, -1.0]], names=["food", "noise"]),
    "features with one scale": mm.GaussianReward(
        features=[[1.0, 0.0], [0.5, 1.0], [0.0, -1.0]], groups="all", residual=True
    ),
}
INFERRED = mm.Gamma(shape=mm.Gamma(shape=2.0, rate=0.5), rate=mm.Gamma(shape=4.0, rate=4.0))
CHOICES = {
    "Softmax, lapses": mm.Softmax(INFERRED, lapse=mm.Beta(alpha=1.0, beta=mm.Gamma(shape=9.0, rate=1.0))),
    "SoftOptimal": mm.SoftOptimal(INFERRED),
}
CHAINS = 5
TOLERANCES = (1e-9, 1e-9, 1e-7, 1e-7)


def demonstrations(environment, tasks=("ann", "bob"), steps=20, seed=0):
    rewards = np.random.default_rng(seed).dirichlet(np.ones(environment.num_states), size=len(tasks))
    return mm.simulate(environment, rewards, mm.Softmax(3.0), steps=steps, seed=seed, tasks=list(tasks))


@pytest.mark.parametrize("states", [1, 8, 17, *(pytest.param(n, marks=pytest.mark.long) for n in (3, 18))])
def test_inverses_two_columns_at_a_time(states):
    rng = np.random.default_rng(states)
    moves = 0.9999 * rng.dirichlet(np.full(states, 0.1), size=(states, 3))
    policies = rng.dirichlet(np.ones(3), size=(4, 5, states))  # [M, C, S, A]
    with on("cpu"):
        found = np.asarray(jax.jit(_inverse)(jnp.asarray(moves), jnp.asarray(policies.transpose(2, 3, 0, 1))))
    expected = np.linalg.inv(np.eye(states) - np.einsum("mcsa,sat->mcst", policies, moves))
    assert abs(found - expected.transpose(2, 3, 0, 1)).max() < 1e-11 * expected.max()


def compiled(target, hyper_z, task_z):
    """Densities and gradients that the compiled chains have, for z [C, G, H] and [C, M, D]."""
    world = world_of(target.environment)
    data = sweeps.data_of(target, world, is_hamiltonian=True)
    names = ("task_density", "population_density", "task_gradient", "population_gradient")
    found = []
    for populations, tasks in zip(hyper_z, task_z):
        workspace = density_workspace(world, target.layout, target.num_tasks, target.num_groups)
        log_density_and_gradient(world, target.layout, data, workspace, populations, tasks)
        found.append([getattr(workspace, name).copy() for name in names])
    return [np.stack(each) for each in zip(*found)]


# every reward, and every sharing and choice rule with some of them: compiling takes seconds a case
SHORT = [(reward, list(SHARING)[k % 3], list(CHOICES)[k % 2]) for k, reward in enumerate(REWARDS)]
CASES = [
    case if case in SHORT[:1] else pytest.param(*case, marks=pytest.mark.long)
    for case in itertools.product(REWARDS, SHARING, CHOICES)
]


@pytest.mark.parametrize(("reward", "sharing", "choice"), CASES)
def test_densities_and_gradients_are_those_of_the_compiled_chains(reward, sharing, choice):
    model = mm.RewardPolicyModel(REWARDS[reward], CHOICES[choice], SHARING[sharing])
    target = model.bind(HOUSE, demonstrations(HOUSE))
    rng = np.random.default_rng(0)
    hyper_z = rng.normal(size=(CHAINS, target.num_groups, target.num_hyper))
    task_z = rng.normal(size=(CHAINS, target.num_tasks, target.num_coordinates))
    expected = compiled(target, hyper_z, task_z)

    layout, data = static_layout_of(target), data_of(target)
    populations, tasks = (each.transpose(2, 1, 0) for each in (hyper_z, task_z))
    actions = np.zeros((3, target.num_tasks, CHAINS), dtype=np.int32)
    for ours, theirs, tolerance in zip(ours_at(layout, data, populations, tasks, actions), expected, TOLERANCES):
        np.testing.assert_allclose(ours, theirs.T, rtol=tolerance, atol=tolerance)


HUB = random_environment(3, size=(12, 2))[0]
CROWD = mm.Environment(  # from anywhere to the first state, and on from there: far more lead to it than to others
    np.stack([np.eye(12)[np.zeros(12, dtype=int)], np.eye(12)[(np.arange(12) + 1) % 12]], axis=1), discount=0.95
)


@pytest.mark.parametrize(
    ("environment", "reward", "choice"),
    [
        (HOUSE, "features with one scale", "SoftOptimal"),
        pytest.param(CROWD, "Dirichlet", "Softmax, lapses", marks=pytest.mark.long),
        pytest.param(HUB, "Gaussian on pairs", "SoftOptimal", marks=pytest.mark.long),
    ],
)
def test_large_environments_have_the_same_densities(environment, reward, choice, monkeypatch):
    """Swept by neighbours, which needs no inverse of size states × states."""
    monkeypatch.setattr("manymotives.inference.many_chains.layout.MOST_STATES", 2)
    target = mm.RewardPolicyModel(REWARDS[reward], CHOICES[choice]).bind(environment, demonstrations(environment))
    rng = np.random.default_rng(1)
    hyper_z = rng.normal(size=(CHAINS, target.num_groups, target.num_hyper))
    task_z = rng.normal(size=(CHAINS, target.num_tasks, target.num_coordinates))
    expected = compiled(target, hyper_z, task_z)
    with on("cpu"):
        layout, data = static_layout_of(target), data_of(target)
        assert layout.is_large
        populations, tasks = (each.transpose(2, 1, 0) for each in (hyper_z, task_z))
        values = np.zeros((environment.num_states, target.num_tasks, CHAINS))
        for ours, theirs, tolerance in zip(ours_at(layout, data, populations, tasks, values), expected, TOLERANCES):
            np.testing.assert_allclose(ours, theirs.T, rtol=tolerance, atol=tolerance)


@pytest.mark.long
def test_known_temperatures_and_lapses():
    for choice in (mm.Softmax(3.0), mm.Softmax(3.0, lapse=0.1), mm.SoftOptimal(3.0)):
        CHOICES["known"] = choice
        test_densities_and_gradients_are_those_of_the_compiled_chains("Dirichlet", "Hierarchical", "known")
    del CHOICES["known"]


@partial(jax.jit, static_argnums=0)
def ours_at(layout, data, populations, tasks, actions):
    _, values, _ = populations_at(layout, data, populations)
    of_tasks = log_density_of_tasks(layout, data, values, tasks, (None, None, actions), again=False)
    of_populations = log_density_of_populations(layout, data, populations, tasks, of_tasks[2:], again=True)
    return of_tasks.density, of_populations.density, of_tasks.gradient, of_populations.gradient


@pytest.mark.long
@pytest.mark.parametrize("reward", ["Gaussian", "Dirichlet"])
def test_populations_given_their_tasks_have_the_slope_of_their_density(reward):
    models = {
        "Gaussian": mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(INFERRED)),
        "Dirichlet": mm.RewardPolicyModel(),
    }
    bound = models[reward].bind(HOUSE, demonstrations(HOUSE))
    layout, data = static_layout_of(bound), jax.tree.map(jax.numpy.asarray, data_of(bound))
    rng = np.random.default_rng(1)
    task_z = rng.normal(size=(bound.num_coordinates, bound.num_tasks, 1))
    z = rng.normal(size=(bound.num_hyper, bound.num_groups, 1))
    _, values, _ = populations_at(layout, data, jax.numpy.asarray(z))
    u = np.asarray(tasks_at(layout, data, values, jax.numpy.asarray(task_z))[0])
    summaries = summaries_of(layout, data, values, jax.numpy.asarray(u), jax.numpy.asarray(task_z))
    at = jax.jit(lambda z: log_density_given_tasks(layout, data, z, summaries))
    _, slope = at(z)
    for j in range(bound.num_hyper):
        step = np.zeros_like(z)
        step[j] = 1e-5
        rise = (at(z + step)[0] - at(z - step)[0]) / 2e-5
        np.testing.assert_allclose(slope[j], rise, rtol=1e-6, atol=1e-6)
    if reward == "Gaussian":  # no shares: the density of z given u is that of both, less what does not hang on z
        other = rng.normal(size=z.shape)
        gain = at(other)[0] - at(z)[0]
        h, there = (np.asarray(populations_at(layout, data, each)[0]).transpose(2, 1, 0) for each in (z, other))
        tasks = u.transpose(2, 1, 0)
        expected = bound.log_prior(there, tasks) - bound.log_prior(h, tasks)
        slopes = [slope_of_h(layout, data, each) for each in (z, other)]
        np.testing.assert_allclose(gain[0], expected + slopes[1] - slopes[0], atol=1e-8)


def slope_of_h(layout, data, z):
    """Σ log dh/dz."""
    total = 0.0
    for run in layout.hyper_runs:
        a, b = (data.hyper_constants[run.begin : run.end, k][:, None, None] for k in range(2))
        total += float(np.log(centred(run.family, z[run.begin : run.end], a, b)[1]).sum())
    return total


@pytest.mark.parametrize("family", [GAMMA, BETA])
def test_noncentred_coordinates_are_found_however_small_the_parameters(family):
    rng = np.random.default_rng(0)
    a, b = np.exp(rng.uniform(np.log(1e-6), np.log(1e4), size=(2, 2000)))
    z, guess = rng.normal(scale=3.0, size=(2, 2000))
    u, _ = centred(family, z, a, b)
    found = np.asarray(jax.jit(lambda *given: noncentred(family, *given))(u, a, b, guess))
    again, slope = centred(family, found, a, b)
    assert np.all(np.abs(again - u) <= 1e-9 * (np.abs(np.asarray(u)) + np.asarray(slope)))
    theirs = [compiled_noncentred(family, float(u[n]), a[n], b[n], 0.0) for n in range(0, 2000, 100)]
    np.testing.assert_allclose(found[::100], theirs, rtol=1e-6, atol=1e-6)


def test_log_gamma_draws():
    draw = jax.jit(log_gamma_draws)
    for shape in (1e-3, 0.3, 1.0, 30.0):
        drawn = np.asarray(draw(jax.random.key(0), np.full(100_000, shape)))
        exact = special.digamma(shape), np.sqrt(special.polygamma(1, shape))
        assert abs(drawn.mean() - exact[0]) < 4 * exact[1] / np.sqrt(100_000)
        assert abs(drawn.std() / exact[1] - 1) < 0.03


@pytest.mark.long
def test_many_chains_have_the_posterior_of_the_compiled_ones():
    data = demonstrations(TRIANGLE, steps=30)
    model = mm.RewardPolicyModel()
    few = mm.fit(model, TRIANGLE, data, mm.HMC(chains=2, draws=1500, thin=2, max_rounds=1), seed=1, progress=False)
    method = mm.HMC(chains=64, draws=150, warmup=120, thin=1, device="cpu")
    many = mm.fit(model, TRIANGLE, data, method, seed=1, progress=False)
    assert many.rewards.sizes["chain"] == 64
    assert not any("disagree" in warning for warning in many.warnings)
    ours, theirs = (each.data["posterior"].dataset for each in (many, few))
    error = np.sqrt(sum((each.std(("chain", "draw")) ** 2) / ess(each, method="mean") for each in (ours, theirs)))
    off = abs(ours.mean(("chain", "draw")) - theirs.mean(("chain", "draw"))) / error
    assert max(float(each.max()) for each in off.data_vars.values()) < 4
    target = model.bind(TRIANGLE, data)
    drawn = sample(method, target, seed=1)
    found = target.log_likelihood(drawn.tasks[:, -1].reshape(-1, 4), np.tile([0, 1], 64))
    np.testing.assert_allclose(drawn.log_likelihood[:, -1].ravel(), found, atol=1e-7)


def test_nested_rhat_sees_superchains_that_remember_their_start():
    rng = np.random.default_rng(0)
    mixed = rng.normal(size=(128, 10, 3))
    start = np.repeat(rng.normal(size=(16, 1, 3)), 8, axis=0)  # each superchain is stuck at its own place
    for values, is_mixed in ((mixed, True), (0.5 * mixed + start, False)):
        draws = xr.Dataset({"reward": (("chain", "draw", "state"), values)}, coords={"state": [0, 1, 2]})
        assert (float(nested_rhat(draws)["reward"].max()) <= RHAT) == is_mixed
        assert any("disagree" in warning for warning in mixing(draws).warnings) != is_mixed


def test_a_device_must_exist_and_hold_the_plans():
    data = demonstrations(TRIANGLE)
    for device, words in (("abacus", "no device 'abacus'"), (3, "device must be")):
        with pytest.raises(mm.errors.InputError, match=words):
            mm.fit(mm.RewardPolicyModel(), TRIANGLE, data, mm.HMC(device=device), progress=False)
    with pytest.raises(mm.errors.InputError, match="GiB for their plans"):
        mm.fit(mm.RewardPolicyModel(), TRIANGLE, data, mm.HMC(chains=10**8, device="cpu"), progress=False)
