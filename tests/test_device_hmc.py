"""Many chains at once in JAX: the same densities as the compiled chains', the same posterior, and honest warnings."""

from functools import partial

import jax
import numpy as np
import pytest
import xarray as xr

import manymotives as mm
from manymotives.diagnostics import mixing
from manymotives.families import BETA, GAMMA
from manymotives.families import latent as compiled_latent
from manymotives.inference import Progress
from manymotives.inference.device_density import (
    data_of,
    judge_given_tasks,
    judge_populations,
    judge_tasks,
    latent,
    layout_of,
    log_gamma_draws,
    placed,
    populations_at,
    sums_of,
    tasks_at,
)
from manymotives.inference.latent import judge, latent_room
from manymotives.inference.sweeps import Data
from manymotives.planning.warm import world_of
from places import HOUSE, TRIANGLE

SHARING = {"Hierarchical": mm.Hierarchical(), "Separate": mm.Separate(), "Pooled": mm.Pooled()}
REWARDS = {
    "Dirichlet": mm.DirichletReward(),
    "Dirichlet known": mm.DirichletReward(concentration=0.7),
    "Dirichlet on pairs": mm.DirichletReward(on="state_action"),
    "Beta": mm.BetaReward(),
    "Gaussian": mm.GaussianReward(),
    "Gaussian on pairs": mm.GaussianReward(on="state_action"),
    "features": mm.GaussianReward(features=[[1.0, 0.0], [0.5, 1.0], [0.0, -1.0]], names=["food", "noise"]),
}
INFERRED = mm.Gamma(shape=mm.Gamma(shape=2.0, rate=0.5), rate=mm.Gamma(shape=4.0, rate=4.0))
CHOICES = {
    "Softmax": mm.Softmax(3.0),
    "Softmax, lapses": mm.Softmax(INFERRED, lapse=mm.Beta(alpha=1.0, beta=mm.Gamma(shape=9.0, rate=1.0))),
    "SoftOptimal": mm.SoftOptimal(3.0),
    "SoftOptimal, inferred": mm.SoftOptimal(INFERRED),
}
CHAINS = 5
TOLERANCES = (1e-9, 1e-9, 1e-7, 1e-7)


def demonstrations(environment, tasks=("ann", "bob"), steps=20, seed=0):
    rewards = np.random.default_rng(seed).dirichlet(np.ones(environment.num_states), size=len(tasks))
    return mm.simulate(environment, rewards, mm.Softmax(3.0), steps=steps, seed=seed, tasks=list(tasks))


def compiled(target, hyper_z, task_z):
    """Densities and gradients that the compiled chains have, for z [C, G, H] and [C, M, D]."""
    data = Data(target.counts.copy(), target.fixed_temperature.copy(), target.fixed_lapse.copy())
    world = world_of(target.environment)
    names = ("task_density", "population_density", "task_slope", "population_slope")
    found = []
    for populations, tasks in zip(hyper_z, task_z):
        room = latent_room(world, target.anatomy, target.num_tasks, target.num_groups)
        judge(world, target.anatomy, data, room, populations, tasks, False)
        found.append([getattr(room, name).copy() for name in names])
    return [np.stack(each) for each in zip(*found)]


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("reward", REWARDS)
def test_densities_and_gradients_are_those_of_the_compiled_chains(reward, sharing, choice):
    model = mm.RewardPolicyModel(REWARDS[reward], CHOICES[choice], SHARING[sharing])
    target = model.bind(HOUSE, demonstrations(HOUSE))
    rng = np.random.default_rng(0)
    hyper_z = rng.normal(size=(CHAINS, target.num_groups, target.num_hyper))
    task_z = rng.normal(size=(CHAINS, target.num_tasks, target.num_coordinates))
    expected = compiled(target, hyper_z, task_z)

    layout, data = layout_of(target), data_of(target)
    populations, tasks = (each.transpose(2, 1, 0) for each in (hyper_z, task_z))
    actions = np.zeros((3, target.num_tasks, CHAINS), dtype=np.int32)
    for ours, theirs, tolerance in zip(ours_at(layout, data, populations, tasks, actions), expected, TOLERANCES):
        np.testing.assert_allclose(ours, theirs.T, rtol=tolerance, atol=tolerance)


@partial(jax.jit, static_argnums=0)
def ours_at(layout, data, populations, tasks, actions):
    _, values, _ = populations_at(layout, data, populations)
    of_tasks = judge_tasks(layout, data, values, tasks, (None, None, actions), again=False)
    of_populations = judge_populations(layout, data, populations, tasks, of_tasks[2:], again=True)
    return of_tasks.density, of_populations.density, of_tasks.slope, of_populations.slope
