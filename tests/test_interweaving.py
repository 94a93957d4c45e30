"""Interweaving: quantiles kept exactly, and non-centred updates that leave the posterior as it is."""

import numpy as np
import pytest
from scipy import stats

import manymotives as mm
from manymotives.assessment.simulators import _rule
from manymotives.families import BETA, GAMMA
from manymotives.inference import Progress
from manymotives.inference.mcmc.chains import MarkovChain
from manymotives.inference.mcmc.interweaving import MANY_TASKS, _keep_noncentred, interweaving_directions
from manymotives.inference.mcmc.noncentred import log_tails, same_quantile
from manymotives.inference.mcmc.sweeps import gibbs_draws


@pytest.mark.parametrize("shape", [0.02, 0.4, 1.0, 5.0, 80.0])
def test_tails_and_quantiles_are_those_of_the_gamma_distribution(shape):
    u = np.log(stats.gamma(shape).ppf([0.05, 0.3, 0.5, 0.9, 0.999]))
    for place in u:
        lower, upper = log_tails(shape, place)
        assert lower == pytest.approx(stats.gamma(shape).logcdf(np.exp(place)), rel=1e-9)
        assert upper == pytest.approx(stats.gamma(shape).logsf(np.exp(place)), rel=1e-9)
        there = same_quantile(place, shape, 1.7 * shape)
        assert stats.gamma(1.7 * shape).logsf(np.exp(there)) == pytest.approx(upper, rel=1e-8)
        assert same_quantile(there, 1.7 * shape, shape) == pytest.approx(place, rel=1e-9, abs=1e-9)


def test_quantiles_far_out():
    """Where the variable itself is too small or too large to be a number, its logarithm still is."""
    there = same_quantile(-5000.0, 0.01, 0.02)
    assert log_tails(0.02, there)[0] == pytest.approx(log_tails(0.01, -5000.0)[0], rel=1e-12)
    assert log_tails(3.0, same_quantile(np.log(400.0), 2.0, 3.0))[1] == pytest.approx(log_tails(2.0, np.log(400.0))[1])


@pytest.mark.parametrize("tasks", [5, MANY_TASKS])
@pytest.mark.parametrize(
    ("family", "step"), [(GAMMA, (0.4, 0.7)), (GAMMA, (2.5, 4.0)), (GAMMA, (5.0, 9.0)), (BETA, (0.4, 4.0))]
)
def test_a_step_and_the_step_back_lead_nowhere(tasks, family, step):
    """Many tasks with small shapes use another map than with large ones: a step across the border is undone too."""
    here, there = np.array([step[0], 1.5]), np.array([step[1], 0.8])
    u = np.random.default_rng(0).normal(-0.5, 1.0, size=(tasks, 1))
    moved = u.copy()
    gain = _keep_noncentred(family, moved, np.zeros_like(u), 0, here, there)
    assert np.abs(moved - u).min() > 1e-6
    assert gain + _keep_noncentred(family, moved, np.zeros_like(u), 0, there, here) == pytest.approx(0.0, abs=1e-8)
    np.testing.assert_allclose(moved, u, rtol=1e-9, atol=1e-9)


def test_what_moves_together():
    corridor = mm.worlds.Chain(states=3, discount=0.9)
    seen = mm.simulate(corridor, np.eye(3), mm.Softmax(5.0), steps=3, seed=0)
    together = interweaving_directions(mm.RewardPolicyModel().bind(corridor, seen).layout)
    sums = together.sum(axis=1)
    assert sorted(sums) == [1, 1, 1, 1, 1, 2, 3]  # each by itself; shape and rate of temperatures; concentrations
    assert together[sums == 3][0].tolist() == [True] * 3 + [False] * 2
    gaussian = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(1.0)).bind(corridor, seen)
    assert (interweaving_directions(gaussian.layout).sum(axis=1) == 1).all()


@pytest.mark.parametrize("tasks", [pytest.param(count, marks=pytest.mark.long) for count in (8, MANY_TASKS + 5)])
def test_chains_begun_at_the_truth_stay_distributed_as_it_is(tasks):
    """Concentrations about where tasks begin to use the exact map; of few choices the population is hard to tell."""
    corridor = mm.worlds.Chain(states=3, discount=0.8)
    model = mm.RewardPolicyModel(mm.DirichletReward(concentration=mm.Gamma(shape=3.0, rate=1.0)), mm.Softmax())
    names = tuple(range(tasks))
    origin = model.target(corridor, names, np.zeros((tasks, 3, corridor.num_actions)))
    changes = []
    for number in range(1500):
        rng = np.random.default_rng([9, number])
        hyper = origin.draw_hyper(rng, 1)
        u = origin.draw_tasks(rng, hyper)[0]
        seen = mm.simulate(corridor, origin.rewards(u), _rule(model, origin, u), steps=4, seed=number)
        target = model.target(corridor, names, seen.counts.astype(float))
        chain = MarkovChain(gibbs_draws, target, target.num_coordinates, np.random.SeedSequence(number))
        chain.begin()
        chain._set_state(np.ascontiguousarray(u), hyper[0])
        here = quantities(origin, u, hyper[0])
        drawn = chain.draw_arrays(3)
        chain.advance(2, drawn, chain.acceptance_counts())
        changes.append(quantities(origin, drawn.tasks[-1], drawn.hyper[-1]) - here)
    error = np.std(changes, axis=0, ddof=1) / np.sqrt(len(changes))
    assert (np.abs(np.mean(changes, axis=0)) / error).max() < 4.0


def quantities(origin, u, hyper):
    """Hyperparameters, their squares, and moments of what tasks want."""
    rewards = origin.rewards(u)
    return np.concatenate([hyper.ravel(), hyper.ravel() ** 2, rewards.mean(axis=0), (rewards**2).mean(axis=0)])


def test_chains_of_an_earlier_version_cannot_go_on():
    corridor = mm.worlds.Chain(states=3, discount=0.9)
    seen = mm.simulate(corridor, np.eye(3), mm.Softmax(5.0), steps=3, seed=0)
    method = mm.Gibbs(chains=1, draws=5, warmup=5)
    target = mm.RewardPolicyModel().bind(corridor, seen)
    state, _ = method.advance(method.init(target, 0), 5, Progress(False))
    del state.arrays["interweaving_directions"]
    with pytest.raises(mm.errors.InputError, match="another version of manymotives, without 'interweaving_directions'"):
        method.advance(state, 5, Progress(False))
