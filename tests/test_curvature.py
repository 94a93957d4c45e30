"""Shapes of paths from curvature, where tasks have too many coordinates to learn them from draws."""

import warnings

import numpy as np
import pytest
from arviz_stats.base import array_stats

import manymotives as mm
from manymotives.inference import chains
from manymotives.inference.curvature import frames
from manymotives.inference.latent import path_judge
from manymotives.planning.warm import world_of
from test_hmc import HOUSE, MODELS, RNG, bound

EXACT = ["Dirichlet, Softmax", "separate", "pooled", "Beta, lapses", "Gaussian, known lapse", "features"]


@pytest.mark.parametrize("name", EXACT)
def test_frames_are_those_of_the_information_in_choices(name):
    """F Fᵀ against (1 + information)⁻¹, with the information from finite differences of log π(a|s)."""
    target, data, room = bound(name)
    rng = np.random.default_rng(5)
    hyper_z = rng.normal(size=(target.num_groups, target.num_hyper))
    task_z = rng.normal(size=(target.num_tasks, target.num_coordinates))
    world = world_of(HOUSE)
    visits = target.counts.sum(axis=2, keepdims=True)

    def log_policies(hyper_z, task_z):
        path_judge(world, target.anatomy, data, room, hyper_z, task_z)
        tasks = room.tasks[: target.num_tasks].copy()
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
    path_judge(world, target.anatomy, data, room, hyper_z, task_z)
    found = frames(target, room.tasks[: target.num_tasks].copy(), room.bends, room.hyper_bends)
    for m, frame in enumerate(found[0]):
        information = np.einsum("isa,jsa,sa->ij", by_task[:, m], by_task[:, m], weight[m])
        assert np.array_equal(frame, np.tril(frame))
        np.testing.assert_allclose(
            frame @ frame.T, np.linalg.inv(information + np.eye(len(information))), rtol=1e-4, atol=1e-5
        )
    for g, frame in enumerate(found[1]):
        mine = target.group == g
        information = np.einsum("imsa,jmsa,msa->ij", by_population[:, mine], by_population[:, mine], weight[mine])
        np.testing.assert_allclose(
            frame @ frame.T, np.linalg.inv(information + np.eye(len(information))), rtol=1e-4, atol=1e-5
        )


@pytest.mark.long
@pytest.mark.parametrize("name", ["Gaussian, known lapse", "Dirichlet, Softmax"])
def test_paths_with_such_shapes_draw_from_the_same_posterior(name, monkeypatch):
    """Against the same method with shapes that are learnt from draws."""
    rewards = RNG.dirichlet(np.ones(HOUSE.num_states), size=3)
    demonstrations = mm.simulate(HOUSE, rewards, mm.Softmax(6.0), steps=12, episodes=5, seed=1)
    method = mm.HMC(chains=4, draws=600, warmup=200, thin=2, patience=1)
    means, errors = [], []
    for many in (chains.MANY, 1):
        monkeypatch.setattr(chains, "MANY", many)
        drawn = mm.fit(MODELS[name], HOUSE, demonstrations, method, progress=False).rewards.values[..., 0, :]
        assert max(array_stats.rhat(drawn[..., s], chain_axis=0, draw_axis=1) for s in range(drawn.shape[2])) < 1.05
        means.append(drawn.mean(axis=(0, 1)))
        errors.append([array_stats.mcse(drawn[..., s], chain_axis=0, draw_axis=1) for s in range(drawn.shape[2])])
    away = np.abs(means[0] - means[1]) / np.hypot(*errors)
    assert away.max() < 4.0


def test_one_task_with_many_rewards_says_nothing_on_the_way(capfd):
    """No population, whose frame would be of no size; means of zero, which are no scales."""
    grid = mm.worlds.GridWorld((11, 10), slip=0.0, discount=0.9)
    seen = mm.simulate(grid, np.zeros(grid.num_states), mm.Softmax(1.0), steps=5, seed=0)
    model = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=10.0), mm.Softmax(1.0), mm.Separate())
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        mm.fit(model, grid, seen, mm.HMC(chains=1, draws=4, warmup=20, patience=1), progress=False)
    assert "DTRTRI" not in "".join(capfd.readouterr())
