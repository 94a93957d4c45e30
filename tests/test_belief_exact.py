"""Posteriors where the environment is not known, against numerical integration that shares no code."""

import numpy as np
import pytest
from arviz_stats import ess

import manymotives as mm
from belief_examples import THREE_STATE_EXAMPLES, TWO_STATE_EXAMPLES
from belief_oracle import by_quadrature, by_sampling

METHODS = {
    "HMC": mm.HMC(chains=4, draws=300, warmup=200, thin=4, max_rounds=1),
    "Gibbs": mm.Gibbs(chains=4, draws=600, warmup=200, thin=10),
    "Metropolis": mm.Metropolis(chains=4, draws=600, warmup=200, thin=10),
}
SURE = 4.5  # standard errors: one in 10⁵, and some hundred numbers are compared
TELLING = 6.0  # … by which a wrong answer must be off


def fitted(example, method, seed):
    states, actions = example.alpha.shape[:2]
    # what is counted is in alpha already: nothing was seen besides
    belief = mm.DynamicsBelief(
        np.zeros(example.alpha.shape), discount=example.discount, prior=example.alpha, possible=example.alpha > 0
    )
    reward = (
        mm.GaussianReward(mean=0.0, scale=1.0)
        if example.reward_concentration is None
        else mm.DirichletReward(concentration=example.reward_concentration)
    )
    temperature = example.inverse_temperature
    if np.isfinite(example.temperature_shape):
        temperature = mm.Gamma(shape=example.temperature_shape, rate=example.temperature_shape / temperature)
    model = mm.RewardPolicyModel(reward, mm.Softmax(temperature), mm.Hierarchical())
    rows = [
        (m, s, a)
        for m, counts in enumerate(np.asarray(example.counts).astype(int))
        for s in range(states)
        for a in range(actions)
        for _ in range(counts[s, a])
    ]
    demos = mm.Demonstrations.from_lists(
        [([s], [a]) for _, s, a in rows], environment=belief.mean, tasks=[m for m, _, _ in rows]
    )
    return mm.fit(model, belief, demos, method, seed=seed, progress=False)


def draws_of(posterior, name):
    """[chain, draw] of what the oracle calls by this name; None where nothing is drawn."""
    word, _, inside = name.rstrip("]").partition("[")
    place = tuple(int(part) for part in inside.split(","))
    drawn = posterior.data["posterior"].dataset
    if word == "reward":
        return drawn["reward"].isel(task=place[0], state=place[1]).values
    if word == "inverse_temperature":
        return drawn["inverse_temperature"].isel(task=place[0]).values if "inverse_temperature" in drawn else None
    if word == "transition":
        moves = [tuple(int(drawn[f"move_{part}"][k]) for part in ("state", "action", "next_state")) for k in drawn.move]
        return drawn["transition"].isel(move=moves.index(place)).values if place in moves else None
    return None


def distances(posterior, answer):
    """How many standard errors draws are from the answer: means, and probabilities below the prior's deciles."""
    found = {}
    for name, marginal in answer.marginals.items():
        draws = draws_of(posterior, name)
        if draws is None:
            continue
        error = np.hypot(draws.std() / np.sqrt(float(ess(draws, method="mean"))), marginal.mean_error)
        found[name] = abs(draws.mean() - marginal.mean) / error
        for point, expected, doubt in zip(marginal.points, marginal.cdf, np.broadcast_to(marginal.cdf_error, 9)):
            below = (draws <= point).astype(float)
            if 0.01 < expected < 0.99 and 0 < below.mean() < 1:
                error = np.hypot(below.std() / np.sqrt(float(ess(below, method="mean"))), doubt)
                found[f"{name} below {point:.3g}"] = abs(below.mean() - expected) / error
    return found


CASES = [("disputed", "HMC")]
MORE = [(name, method) for name in TWO_STATE_EXAMPLES for method in METHODS if (name, method) not in CASES]


@pytest.mark.parametrize(("name", "method"), [*CASES, *(pytest.param(*case, marks=pytest.mark.long) for case in MORE)])
def test_two_states_against_quadrature(name, method):
    example = TWO_STATE_EXAMPLES[name]
    posterior = fitted(example, METHODS[method], seed=3)
    off = distances(posterior, by_quadrature(example))
    assert max(off.values()) < SURE, max(off, key=off.get)
    plugged = distances(posterior, by_quadrature(example, treatment="plug_in"))  # the control: it can tell
    assert max(value for key, value in plugged.items() if key.startswith("reward")) > TELLING


@pytest.mark.long
@pytest.mark.parametrize("name", list(THREE_STATE_EXAMPLES))
def test_three_states_against_importance_sampling(name):
    example = THREE_STATE_EXAMPLES[name]
    posterior = fitted(example, METHODS["HMC"], seed=3)
    off = distances(posterior, by_sampling(example))
    assert max(off.values()) < SURE, max(off, key=off.get)
