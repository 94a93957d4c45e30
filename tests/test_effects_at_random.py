"""Models with covariates at random: are draws finite, likelihoods those of the drawn rewards, do samplers agree?"""

import numpy as np
import pytest
from arviz_stats import ess

import manymotives as mm
from effects_examples import chosen

NAMES = [f"task {m}" for m in range(6)]
TABLE = {"task": NAMES, "x": [0.3, -1.2, 2.0, 0.1, 0.9, -0.4], "g": ["a", "b"] * 3, "s": ["p", "p", "q", "q", "r", "r"]}
FORMULAS = ("x", "g", "x + g", "g + (1 | s)", "(x | s)")
DATA = ("plain", "alike", "one choice", "one silent")


def a_model(seed):
    """A model, its environment, choices."""
    rng = np.random.default_rng(seed)
    environment = mm.Environment(rng.dirichlet(np.ones(3), size=(3, 2)), discount=0.8)
    on = ("state", "state_action")[seed % 2]
    scale = mm.HalfNormal(1.0)
    features = rng.normal(size=(3, 2) if on == "state" else (3, 2, 2))
    reward = (
        mm.DirichletReward(on=on),
        mm.BetaReward(on=on),
        mm.GaussianReward(scale=scale, on=on),
        mm.GaussianReward(features, scale=scale, on=on),
    )[seed // 2 % 4]
    rule = (mm.Softmax, mm.SoftOptimal)[int(rng.integers(2))]
    temperature = (3.0, mm.LogNormal(mean=mm.Normal(1.0, 0.5), scale=mm.HalfNormal(0.5)), mm.Gamma(4.0, 2.0))
    choice = rule(temperature[int(rng.integers(3))], lapse=(0.0, mm.Beta(1.0, 9.0))[int(rng.integers(2))])
    formula, data = FORMULAS[seed % 5], DATA[int(rng.integers(4))]
    model = mm.RewardPolicyModel(reward, choice, mm.Hierarchical(formula, covariates=TABLE))
    return model, environment, some_choices(rng, environment, data)


def some_choices(rng, environment, data):
    def episode(length):
        return rng.integers(0, 3, size=length).tolist(), rng.integers(0, 2, size=length).tolist()

    lists = [episode(1 if data == "one choice" else 12) for _ in NAMES]
    if data == "alike":
        lists = lists[:1] * len(NAMES)
    if data == "one silent":
        lists[-1] = ([0], [None])
    return mm.Demonstrations.from_lists(lists, environment, tasks=NAMES)


def check_draws(posterior, model, environment, choices):
    """Finite; log likelihoods are those of the drawn rewards, temperatures and lapse rates, and at most 0."""
    drawn = posterior.data["posterior"].dataset
    for name, values in drawn.data_vars.items():
        assert np.isfinite(values).all(), name
    assert np.isfinite(posterior.data["sample_stats"]["lp"]).all()
    parts = (posterior.rewards, posterior.inverse_temperatures, posterior.lapses)
    rewards, temperature, lapse = (each.transpose("chain", "draw", "task", ...).values for each in parts)
    tasks = posterior.data["log_likelihood"]["choices"].values  # one episode each
    assert (tasks <= 0).all()
    size = rewards.shape[:3]
    rule = type(model.choice)(inverse_temperature=temperature.ravel(), lapse=lapse.ravel())
    policies = rule.policies(environment, rewards.reshape(-1, *rewards.shape[3:]), on=model.reward.on)
    again = (choices.counts * np.log(policies).reshape(*size, 3, 2)).sum(axis=(3, 4))
    np.testing.assert_allclose(tasks, again, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("seed", [2, pytest.param(5, marks=pytest.mark.long)])
def test_draws_are_finite_and_likelihoods_theirs(seed):
    model, environment, choices = a_model(seed)
    for method in (mm.HMC, mm.Gibbs):
        posterior = mm.fit(model, environment, choices, chosen(method, 6, 6, 1, 1), seed=seed, progress=False)
        check_draws(posterior, model, environment, choices)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(12))
def test_samplers_agree(seed):
    model, environment, choices = a_model(seed)
    made = []
    for method, draws, thin in ((mm.HMC, 400, 1), (mm.Gibbs, 400, 3)):
        posterior = mm.fit(model, environment, choices, chosen(method, draws, 200, thin), seed=seed, progress=False)
        check_draws(posterior, model, environment, choices)
        made.append(posterior.data["posterior"].dataset)
    names = [name for name in made[0].data_vars if str(name).endswith(("_effect", "_spread", "_deviation"))]
    assert names
    for name in names:
        one, other = (each[name].values.reshape(4, 400, -1) for each in made)
        for k in range(one.shape[2]):
            sizes = [ess(each[..., k], method="mean") for each in (one, other)]
            if min(sizes) < 100:
                continue
            error = np.hypot(*(each[..., k].std() / np.sqrt(size) for each, size in zip((one, other), sizes)))
            assert abs(one[..., k].mean() - other[..., k].mean()) < 5 * error, (name, k, sizes)
