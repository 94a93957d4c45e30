"""Effects of covariates: against exact posteriors, resumed, saved, scored; and what they leave alone."""

import numba
import numpy as np
import pytest

import manymotives as mm
import oracle_regression as oracle
from effects_examples import EFFECT_SCALE, TEMPERATURE, check_moments, chosen, for_oracle, one_weight
from manymotives.fitting.checkpoints import fit_in_blocks, is_unfinished
from manymotives.fitting.run import Run
from manymotives.inference import Draws
from manymotives.inference.mcmc.effects import EffectSampler
from oracle_regression_draws import nested_posterior, sampled_posterior

LONG = pytest.mark.long
SHORT = mm.HMC(chains=2, draws=20, warmup=20, thin=1, max_rounds=1)


# ---- exact posteriors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "rule", "sizes"),
    [
        (mm.HMC, "SoftOptimal", (150, 60, 1)),
        pytest.param(mm.HMC, "SoftOptimal", (2000, 300, 1), marks=LONG),
        pytest.param(mm.HMC, "Softmax", (2000, 300, 1), marks=LONG),
        pytest.param(mm.Gibbs, "Softmax", (2000, 300, 2), marks=LONG),
        pytest.param(mm.Gibbs, "SoftOptimal", (2000, 300, 2), marks=LONG),
        pytest.param(mm.Metropolis, "Softmax", (2000, 300, 4), marks=LONG),
        pytest.param(mm.Metropolis, "SoftOptimal", (2000, 300, 4), marks=LONG),
    ],
)
def test_posteriors_of_one_weight_are_exact(method, rule, sizes):
    model, environment, choices = one_weight(rule)
    prior = oracle.Prior(scale=0.7, coefficient_scale=EFFECT_SCALE, log_temperature=(float(np.log(TEMPERATURE)), 0.0))
    covariates = np.array([[0.0], [1.0], [0.0]])
    exact = oracle.exact_posterior(
        for_oracle(model, environment, choices), covariates, prior, rule == "SoftOptimal", (0.5,), lattice=0.4, nodes=32
    )
    draws, warmup, thin = sizes
    posterior = mm.fit(model, environment, choices, chosen(method, draws, warmup, thin), seed=5, progress=False)
    drawn = posterior.data["posterior"].dataset
    for name, variable in (
        ("mean", "reward_mean"),
        ("coefficient", "reward_effect"),
        ("scale", "reward_scale"),
        ("weight", "weight"),
    ):
        values, true = drawn[variable].values.reshape(4, draws, -1), exact[name]
        for k in range(values.shape[2]):
            check_moments(values[..., k], np.ravel(true.mean)[k], np.ravel(true.sd)[k], what=f"{name} {k}")
    table = posterior.effects()
    assert list(table["term"]) == ["condition[yes]"]
    assert table["mean"][0] == pytest.approx(float(drawn["reward_effect"].mean()))
    assert table["p_positive"][0] == float((drawn["reward_effect"] > 0).mean())


def members(rule, formula, steps=15):
    """Three subjects under two conditions: six tasks with two weights and an unknown inverse temperature."""
    rng = np.random.default_rng(8)
    environment = mm.Environment(rng.dirichlet(np.ones(3), size=(3, 2)), discount=0.8)
    features = np.array([[1.0, 0.0], [-0.5, 0.7], [0.0, -1.0]])
    weights = np.array([[1.0, 0.0], [1.5, 0.8], [0.2, -0.5], [1.0, 0.4], [-0.3, 0.0], [0.4, 1.2]])
    names = [f"{subject}, {condition}" for subject in "abc" for condition in ("no", "yes")]
    choices = mm.simulate(environment, weights @ features.T, rule(1.5), steps=steps, seed=1, tasks=names)
    table = {"task": names, "subject": [name[0] for name in names], "condition": ["no", "yes"] * 3}
    reward = mm.GaussianReward(features, mean=mm.Normal(0.0, 1.0), scale=mm.HalfNormal(0.7))
    sharing = mm.Hierarchical({"reward": formula}, covariates=table, effect_scale=0.8)
    choice = rule(mm.LogNormal(mean=0.3, scale=0.4))
    return mm.RewardPolicyModel(reward, choice, sharing), environment, choices


@LONG
@pytest.mark.parametrize(
    ("method", "rule", "by"),
    [
        (mm.HMC, mm.Softmax, "integrals"),
        (mm.Gibbs, mm.SoftOptimal, "integrals"),
        (mm.Metropolis, mm.Softmax, "integrals"),
        (mm.HMC, mm.SoftOptimal, "Metropolis chains"),
    ],
)
def test_posteriors_with_a_level_are_those_of_the_oracle(method, rule, by):
    model, environment, choices = members(rule, "condition + (1 | subject)")
    prior = oracle.Prior(scale=0.7, coefficient_scale=0.8, level_scale=0.8, log_temperature=(0.3, 0.4))
    given = for_oracle(model, environment, choices), np.tile([[0.0], [1.0]], (3, 1)), prior, rule is mm.SoftOptimal
    groups = np.array([[0, 0, 1, 1, 2, 2]])
    if by == "integrals":
        exact, effective = nested_posterior(*given, groups=groups, log2_draws=12, points=121)
        assert effective > 1000
        found = {name: (each.mean, each.sd, each.mean_error, each.sd_error) for name, each in exact.items()}
    else:
        drawn = sampled_posterior(*given, groups=groups, chains=1500, warmup=400, steps=800)
        found = {}
        for name, values in drawn.items():
            mean, sd = values.mean((0, 1)), values.std((0, 1))
            of_chains = values.mean(1), ((values - mean) ** 2).mean(1)
            errors = [each.std(0, ddof=1) / np.sqrt(len(values)) for each in of_chains]
            found[name] = mean, sd, errors[0], errors[1] / (2 * sd)
    thin = 8 if method is mm.Metropolis else 4
    posterior = mm.fit(model, environment, choices, chosen(method, 3000, 600, thin), seed=2, progress=False)
    drawn = posterior.data["posterior"].dataset.assign(
        log_temperature=np.log(posterior.data["posterior"].dataset["inverse_temperature"])
    )
    for name, variable in (
        ("mean", "reward_mean"),
        ("coefficient", "reward_effect"),
        ("scale", "reward_scale"),
        ("level_scale_0", "reward_spread"),
        ("level_0", "reward_deviation"),
        ("weight", "weight"),
        ("log_temperature", "log_temperature"),
    ):
        if name not in found:
            continue
        values = drawn[variable].values.reshape(4, 3000, -1)
        for k, true in enumerate(zip(*map(np.ravel, found[name]))):
            check_moments(values[..., k], *true, what=f"{name} {k}")


# ---- what covariates leave alone -------------------------------------------------------------------------------


@pytest.mark.parametrize("sharing", [mm.Hierarchical("1"), mm.Hierarchical({"reward": "1"})], ids=["1", "reward: 1"])
def test_a_formula_without_covariates_changes_no_bit(sharing):
    _, environment, choices = one_weight("Softmax")
    drawn = [
        mm.fit(mm.RewardPolicyModel(mm.DirichletReward(), sharing=each), environment, choices, SHORT, progress=False)
        for each in (mm.Hierarchical(), sharing)
    ]
    same_draws(*drawn)


def test_loops_are_compiled_once_however_many_covariates_there_are():
    kinds = set()
    for formula in ("age", "age + dose"):
        table = {"task": ["a", "b", "c"], "age": [1.0, 2.0, 4.0], "dose": [0.0, 3.0, 1.0]}
        room = mm.worlds.Chain(states=3, discount=0.9)
        data = mm.simulate(room, np.eye(3), mm.Softmax(2.0), steps=5, seed=0, tasks=table["task"])
        reward = mm.GaussianReward(np.eye(3)[:, [2]], names=["far"])
        target = mm.RewardPolicyModel(reward, sharing=mm.Hierarchical(formula, covariates=table)).bind(room, data)
        kinds.add(numba.typeof(EffectSampler(target).known))
    assert len(kinds) == 1


@LONG
def test_effects_on_the_lapse_next_to_nothing_leave_everything_as_it_is():
    """A formula for the lapse alone has effects on no reward; with a tiny scale it is the model without covariates."""
    model, environment, choices = one_weight("Softmax", {"lapse": "condition"})
    choice = mm.Softmax(TEMPERATURE, lapse=mm.Beta(1.0, 9.0))
    table, made = model.sharing.covariates, {}
    for name, sharing in (
        ("without", mm.Hierarchical()),
        ("with", mm.Hierarchical({"lapse": "condition"}, covariates=table, effect_scale=1e-3)),
    ):
        one = mm.RewardPolicyModel(model.reward, choice, sharing)
        made[name] = mm.fit(one, environment, choices, chosen(mm.Gibbs, 1000), seed=1, progress=False)
    drawn = {name: each.data["posterior"].dataset for name, each in made.items()}
    assert set(drawn["with"]) - set(drawn["without"]) == {"lapse_effect"}
    assert abs(drawn["with"]["lapse_effect"]).max() < 0.01
    for name in drawn["without"].data_vars:
        one, other = (drawn[word][name].values.reshape(4, 1000, -1) for word in ("without", "with"))
        for k in range(one.shape[2]):
            sd = other[..., k].std()
            few = np.sqrt(400.0)  # effective draws, at least
            check_moments(one[..., k], other[..., k].mean(), sd, sd / few, sd / few, what=f"{name} {k}")


# ---- resumed, saved, cut -----------------------------------------------------------------------------------------


def same_draws(one, other):
    found, expected = (each.data["posterior"].dataset for each in (one, other))
    assert set(found) == set(expected)
    for name in expected.data_vars:
        np.testing.assert_array_equal(found[name], expected[name])
    np.testing.assert_array_equal(*(each.data["sample_stats"]["lp"] for each in (one, other)))


METHODS = [
    pytest.param(mm.HMC, id="HMC", marks=LONG),  # as below, where a run is cut
    pytest.param(mm.Gibbs, id="Gibbs", marks=LONG),
    pytest.param(mm.Metropolis, id="Metropolis", marks=LONG),
]


@pytest.mark.parametrize("method", METHODS)
def test_a_run_that_goes_on_ends_as_one_that_did_not_stop(method, tmp_path):
    model, environment, choices = members(mm.Softmax, "condition + (1 | subject)", steps=5)
    settings = {"warmup": 10, "thin": 1, "chains": 2}
    half, whole = (
        mm.fit(model, environment, choices, chosen(method, draws, **settings), seed=4, progress=False)
        for draws in (10, 20)
    )
    half.save(tmp_path / "half.nc")
    loaded = mm.load(tmp_path / "half.nc")
    same_draws(loaded, half)
    assert loaded.effects().equals(half.effects())
    assert repr(loaded.model.sharing) == repr(model.sharing)
    short = chosen(method, 10, **settings)
    for start in (half, loaded):
        same_draws(mm.fit(model, environment, choices, short, seed=4, start=start, progress=False), whole)


class Killed(Exception):
    """In place of the operating system, between two blocks."""


def test_a_run_that_was_cut_ends_as_one_that_was_not(tmp_path):
    model, environment, choices = members(mm.Softmax, "condition", steps=5)
    method, path = mm.HMC(chains=1, draws=60, warmup=10, thin=1, max_rounds=1), tmp_path / "run.nc"

    def killed(made, wanted, rate):
        if made >= 50:
            raise Killed

    def run():
        return Run(model, environment, choices, method, seed=3)

    with pytest.raises(Killed):
        fit_in_blocks(run(), path, progress=False, every=0.0, on_checkpoint=killed)
    assert is_unfinished(mm.load(path))
    resumed = fit_in_blocks(run(), path, progress=False, resume=True, every=1e9)
    same_draws(resumed, mm.fit(model, environment, choices, method, seed=3, progress=False))


# ---- what is made of posteriors ----------------------------------------------------------------------------------


def test_predictions_and_scores_are_of_tasks_with_their_covariates():
    model, environment, _ = one_weight("SoftOptimal")
    rewards = np.outer([0.5, 1.5, 0.2], model.reward.features[:, 0])
    names = ["a", "b", "c"]
    choices = mm.simulate(environment, rewards, model.choice, steps=10, episodes=3, seed=1, tasks=names)
    method = mm.Gibbs(chains=2, draws=20, warmup=10, thin=1)
    posterior = mm.fit(model, environment, choices, method, seed=5, progress=False)
    flat = posterior.weights.values.reshape(-1, 3, 1) @ model.reward.features.T
    policies = model.choice.policies(environment, flat.reshape(-1, 2)).reshape(-1, 3, 2, 2)
    np.testing.assert_allclose(posterior.predictive_policies().values, policies.mean(axis=0), atol=1e-9)
    np.testing.assert_allclose(posterior.drawn_policies(1), policies[:, 1], atol=1e-9)
    score = mm.score(posterior, hold_out=("episodes", 3), beside=[], seed=1, progress=False)
    assert np.isfinite(score.by_task["log_likelihood"]).all()
    prior = posterior.data["prior"].dataset
    variance = 1.0 + 0.7**2 + EFFECT_SCALE**2 / 3  # of any task: one of three is treated
    assert float(prior["weight"].var()) == pytest.approx(variance, rel=0.2)


@LONG
def test_a_population_without_choices_is_the_prior():
    """All updates together, of a level with a slope, leave the prior as it is."""
    model, environment, choices = members(mm.Softmax, "(condition | subject)", steps=1)
    target = model.target(environment, choices.tasks, np.zeros(choices.counts.shape))
    method = chosen(mm.Gibbs, 2500, 100, 1)
    draws: Draws = method.advance(method.init(target, 1), 2500, mm.inference.Progress(False))[1]
    z, log_spread = draws.effects
    half = np.sqrt(2 / np.pi)
    for k, d in np.argwhere(target.effects.has_slope):
        tau = np.exp(log_spread[:, :, k, d]) / 0.8
        check_moments(tau, half, np.sqrt(1 - half**2), what=f"spread {k}, {d}")
    for e, d in np.argwhere(target.effects.applies):
        check_moments(z[:, :, e, d], 0.0, 1.0, what=f"z {e}, {d}")
