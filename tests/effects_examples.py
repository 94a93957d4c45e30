"""Small problems with covariates, for the tests of their effects: tasks, choices, exact posteriors."""

import numpy as np
from arviz_stats import ess

import manymotives as mm
import oracle_regression as oracle

DISCOUNT, TEMPERATURE, EFFECT_SCALE = 0.8, 2.0, 1.3
RULES = {"Softmax": mm.Softmax, "SoftOptimal": mm.SoftOptimal}


def two_states(seed=3):
    return mm.Environment(np.random.default_rng(seed).dirichlet(np.ones(2), size=(2, 2)), discount=DISCOUNT)


def chosen(method, draws=1000, warmup=300, thin=2, chains=4):
    """A method with these sizes and one round."""
    settings = {"chains": chains, "draws": draws, "warmup": warmup, "thin": thin}
    return method(**settings, max_rounds=1) if method is mm.HMC else method(**settings)


def one_weight(rule, formula="condition", **more):
    """Three tasks, one of them treated; weights of one feature. The model, the environment, the choices."""
    environment, feature = two_states(), np.array([[1.0], [-0.5]])
    weights = np.array([0.5, 1.5, 0.2])
    choice = RULES[rule](TEMPERATURE)
    choices = mm.simulate(
        environment, weights[:, None] * feature[:, 0], choice, steps=30, seed=1, tasks=["a", "b", "c"]
    )
    table = {"task": ["a", "b", "c"], "condition": ["no", "yes", "no"]}
    reward = mm.GaussianReward(feature, mean=mm.Normal(0.0, 1.0), scale=mm.HalfNormal(0.7))
    sharing = mm.Hierarchical(formula, covariates=table, effect_scale=EFFECT_SCALE, **more)
    return mm.RewardPolicyModel(reward, choice, sharing), environment, choices


def for_oracle(model, environment, choices):
    """The same choices as the oracle takes them."""
    return [oracle.Environment(environment.tensor, DISCOUNT, model.reward.features, choices.counts.astype(float))]


def check_moments(draws, mean, sd, mean_error=0.0, sd_error=0.0, what=""):
    """Mean and variance of draws [chain, draw] within 4 Monte Carlo standard errors of both sides."""
    for word, values, expected, theirs in (
        ("mean", draws, mean, mean_error),
        ("variance", (draws - mean) ** 2, sd**2, 2 * sd * sd_error + mean_error**2),
    ):
        error = np.hypot(values.std() / np.sqrt(ess(values, method="mean")), theirs)
        assert abs(values.mean() - expected) < 4 * error, (what, word, values.mean(), expected, error)
