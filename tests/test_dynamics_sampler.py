"""Updates of uncertain dynamics leave the posterior as it is, however slowly they explore it.

Truth and choices are drawn from the model, and a chain begins at the truth. That is a draw from the posterior, so if
the updates are right, what they lead to is one as well: over many data sets, it has the distribution of the truth. No
chain has to mix for that, and none has to be long.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import manymotives as mm
from manymotives.assessment.simulators import _rule
from manymotives.families import log_gammas
from manymotives.inference.mcmc.chains import MarkovChain
from manymotives.inference.mcmc.sweeps import gibbs_draws

TASKS, STATES, ACTIONS = 3, 3, 2
POSSIBLE = np.ones((STATES, ACTIONS, STATES), dtype=bool)
POSSIBLE[0, 1, 2] = False
PRIOR = mm.DynamicsBelief(np.zeros((STATES, ACTIONS, STATES)), discount=0.8, prior=1.5, possible=POSSIBLE)
WIDE = mm.Gamma(shape=2.0, rate=1.0)
MODELS = {
    "Dirichlet": mm.RewardPolicyModel(mm.DirichletReward(concentration=WIDE), mm.Softmax(15.0), mm.Hierarchical()),
    "temperature and lapse": mm.RewardPolicyModel(
        mm.DirichletReward(concentration=WIDE), mm.Softmax(WIDE, lapse=mm.Beta(1.0, 4.0)), mm.Hierarchical()
    ),
    "separate": mm.RewardPolicyModel(mm.DirichletReward(concentration=WIDE), mm.Softmax(15.0), mm.Separate()),
    "known concentrations": mm.RewardPolicyModel(
        mm.DirichletReward(concentration=[0.5, 1.0, 2.0]), mm.Softmax(15.0), mm.Hierarchical()
    ),
    "Beta": mm.RewardPolicyModel(mm.BetaReward(WIDE, WIDE), mm.Softmax(8.0), mm.Hierarchical()),
    "Gaussian": mm.RewardPolicyModel(
        mm.GaussianReward(mean=mm.Normal(0.0, 1.0), scale=WIDE), mm.Softmax(3.0), mm.Hierarchical()
    ),
    "soft": mm.RewardPolicyModel(mm.DirichletReward(concentration=WIDE), mm.SoftOptimal(15.0), mm.Hierarchical()),
}


def ways(model: Any, replications: int, error: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Quantities [N, Q] of the truth, and of where some rounds of updates lead from it."""
    names, nothing = tuple(range(TASKS)), np.zeros((TASKS, STATES, ACTIONS))
    origin = model.target(PRIOR.mean, names, nothing)
    here, there = [], []
    for number in range(replications):
        rng = np.random.default_rng([5, number])
        hyper = origin.draw_hyper(rng, 1)
        tasks = origin.draw_tasks(rng, hyper)[0]
        transitions = PRIOR.draws(1, rng)[0]
        place = PRIOR.environment(transitions)
        rule = _rule(model, origin, tasks)
        seen = mm.simulate(place, origin.rewards(tasks), rule, steps=10, seed=number, on=origin.on)
        target = model.target(PRIOR.after(seen), names, seen.counts.astype(float))
        chain = MarkovChain(gibbs_draws, target, target.num_coordinates, np.random.SeedSequence(number))
        dynamics = chain.dynamics
        assert dynamics is not None
        logs = _logs(rng, dynamics, transitions)
        dynamics.begin = lambda _, logs=logs, dynamics=dynamics, place=place: _begin(dynamics, logs, place)  # type: ignore[method-assign]
        chain._set_state(np.ascontiguousarray(tasks), hyper[0])
        dynamics.rows.kept[:] = 0.3
        dynamics.rows.concentration[:] += error
        here.append(quantities(origin, chain))
        for _ in range(2):
            dynamics.update(chain.rng, chain.layout, chain.data, chain.state)
        there.append(quantities(origin, chain))
        again = target.log_likelihood(chain.state.tasks, np.arange(TASKS), PRIOR.environment(_probabilities(dynamics)))
        np.testing.assert_allclose(chain.state.log_likelihood, again, rtol=1e-9, atol=1e-9)
    return np.array(here), np.array(there)


def _logs(rng: np.random.Generator, dynamics: Any, transitions: np.ndarray) -> np.ndarray:
    """log x of the rows: their shares are the truth, their sums drawn given the belief."""
    logs = np.log(np.maximum(transitions, 1e-300))
    pointers = dynamics.belief.concentration.indptr
    for begin, end in pairwise(pointers):
        logs[begin:end] += log_gammas(rng, dynamics.rows.concentration[begin:end].sum()[None, None])[0, 0]
    return logs


def _begin(dynamics: Any, logs: np.ndarray, place: mm.Environment) -> mm.Environment:
    dynamics.rows.logs[:] = logs
    dynamics._update_world()
    return place


def _probabilities(dynamics: Any) -> np.ndarray:
    return dynamics.belief.normalised(dynamics.rows.logs)


def quantities(origin: Any, chain: MarkovChain) -> np.ndarray:
    """What is compared: rewards, hyperparameters, transitions, how rewards and transitions go together, likelihoods."""
    state, transitions = chain.state, _probabilities(chain.dynamics)
    rewards = origin.rewards(state.tasks)
    both = [
        rewards[0, 0] * transitions[0],
        rewards[0, 1] * transitions[1],
        rewards[1, 2] * transitions[-1],
        rewards[2, 0] * transitions[-3],
    ]
    return np.concatenate([rewards.ravel(), state.hyper.ravel(), transitions, both, [state.log_likelihood.sum()]])


def furthest(here: np.ndarray, there: np.ndarray) -> float:
    """How many standard errors the mean, or the mean square, of any quantity has moved."""
    worst = 0.0
    for power in (1, 2):
        change = there**power - here**power
        error = change.std(axis=0, ddof=1) / np.sqrt(len(change))
        worst = max(worst, float((np.abs(change.mean(axis=0)) / np.maximum(error, 1e-12)).max()))
    return worst


@pytest.mark.parametrize(
    ("name", "replications"),
    [pytest.param("Dirichlet", 200, marks=pytest.mark.long)]
    + [pytest.param(name, 3000, marks=pytest.mark.long) for name in MODELS],
)
def test_where_the_truth_leads_is_as_likely_as_the_truth(name, replications):
    here, there = ways(MODELS[name], replications)
    moved = (here != there).mean(axis=0)
    assert moved[: TASKS * STATES].min() > (0.02 if replications > 1000 else 0.0)  # rewards are exchanged …
    assert furthest(here, there) < 4.2  # … of some sixty comparisons


@pytest.mark.long
def test_moves_for_another_belief_are_seen():
    here, there = ways(MODELS["Dirichlet"], 400, error=3.0)
    assert furthest(here, there) > 6.0
