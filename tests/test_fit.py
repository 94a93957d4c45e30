"""What every model, method and posterior promises: one conformance test over all of them, and properties."""

import json
import signal
import threading
import time
from _thread import interrupt_main

import arviz_stats
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from arviz_stats import mcse
from scipy import special, stats

import manymotives as mm
from cases import in_step, in_turn
from goodness_of_fit import SIGNIFICANCE
from manymotives import families
from manymotives.inference import sample
from manymotives.inference.importance import effective_size, pareto_k, resampled
from manymotives.planning import plan
from places import HOUSE

RNG = np.random.default_rng(0)
CHAIN = mm.worlds.Chain(states=3, discount=0.9)
METHODS = {
    "HMC": mm.HMC(chains=2, draws=30, warmup=40, thin=1, max_rounds=1),
    "Gibbs": mm.Gibbs(chains=2, draws=30, warmup=40, thin=2),
    "Metropolis": mm.Metropolis(chains=2, draws=30, warmup=40, thin=2),
    "NestedMonteCarlo": mm.NestedMonteCarlo(draws=60, inner=40),
    "MonteCarlo": mm.MonteCarlo(draws=400),
    "EmpiricalBayes": mm.EmpiricalBayes(draws=50),
}
REWARDS = {
    "Dirichlet": mm.DirichletReward(),
    "Dirichlet on pairs": mm.DirichletReward(on="state_action"),
    "Beta": mm.BetaReward(),
    "Gaussian": mm.GaussianReward(),
    "Gaussian on pairs": mm.GaussianReward(on="state_action"),
    "smooth": mm.SmoothReward(),
    "features": mm.GaussianReward(features=[[1.0, 0.0], [0.5, 1.0], [0.0, -1.0]], names=["food", "noise"]),
}
SHARING = {"Hierarchical": mm.Hierarchical(), "Separate": mm.Separate(), "Pooled": mm.Pooled()}


def demonstrations(environment=CHAIN, tasks=("ann", "bob"), steps=20, episodes=2, seed=0):
    rewards = np.random.default_rng(seed).dirichlet(np.ones(environment.num_states), size=len(tasks))
    return mm.simulate(
        environment, rewards, mm.Softmax(3.0), steps=steps, episodes=episodes, seed=seed, tasks=list(tasks)
    )


@pytest.mark.parametrize(("sharing", "reward", "method"), in_step(SHARING, REWARDS, METHODS))
def test_every_model_and_method_gives_a_whole_posterior(sharing, reward, method, tmp_path, monkeypatch):
    monkeypatch.setattr("manymotives.inference.empirical_bayes.ROUNDS", 3)  # what it returns, not how good it is
    monkeypatch.setattr("manymotives.inference.empirical_bayes.AVERAGED", 2)
    environment = HOUSE
    model = mm.RewardPolicyModel(REWARDS[reward], mm.Softmax(lapse=0.05), SHARING[sharing])
    data = demonstrations(environment)
    found = mm.fit(model, environment, data, METHODS[method], seed=1, progress=False)
    if reward == "Dirichlet":
        again = mm.fit(model, environment, data, METHODS[method], seed=1, progress=False)
        assert np.array_equal(found.rewards, again.rewards, equal_nan=True)

    on_pairs = "pairs" in reward
    dims = ("chain", "draw", "task", "state", "action")[: 5 if on_pairs else 4]
    assert found.rewards.dims == dims
    assert found.mean_reward.dims == dims[2:]
    assert found.rewards["task"].values.tolist() == ["ann", "bob"]
    if "Dirichlet" in reward:
        totals = found.rewards.sum(dims[3:]).values
        assert np.allclose(totals, 1.0)
    for policy in (found.policies(), found.predictive_policies(draws=40)):
        assert policy.dims == ("task", "state", "action")
        assert np.allclose(policy.sum("action"), 1.0)
        exists = environment.available | environment.is_terminal[:, None]
        assert (policy.values[:, ~exists] == 0).all()
    canonical = found.canonical()
    over = dims[3:]
    spread = canonical["reward"].max(over) - canonical["reward"].min(over)
    assert np.allclose(spread.values[spread.values > 1e-9], 1.0)

    cells = found.mean_reward.notnull().sum().item()
    assert len(found.to_frame(of="state")) == cells
    frame = found.to_frame()
    assert len(frame) == (4 if reward == "features" else cells)  # features first: two of them, two tasks
    assert (frame["lower"] <= frame["upper"]).all()
    assert {"p_positive", "mean"} <= set(found.to_frame("state").columns)
    if sharing == "Pooled":
        with pytest.raises(mm.errors.InputError, match="nothing to compare"):
            found.to_frame("task")
    else:
        assert set(found.to_frame("task")["other_task"]) == {"bob"}
    if sharing == "Separate":
        with pytest.raises(mm.errors.InputError, match="no population"):
            found.population()
    else:
        assert found.population()["reward"].sizes["draw"] == found.rewards.sizes["draw"]

    for rate in (found.data["sample_stats"].dataset.get(word) for word in ("acceptance_rate", "prior_acceptance_rate")):
        assert rate is None or ((rate >= 0) & (rate <= 1)).all()
    total = found.data["log_likelihood"].dataset["choices"].sum("episode")
    assert total.shape == found.rewards.shape[:2]
    assert np.isfinite(total).all()
    assert str(found.summary()).startswith("Posterior of 2 tasks")
    found.save(tmp_path / "run.nc")
    loaded = mm.load(tmp_path / "run.nc")
    assert np.array_equal(loaded.rewards, found.rewards, equal_nan=True)
    assert loaded.warnings == found.warnings
    assert loaded.tasks == found.tasks
    assert np.array_equal(loaded.policies(), found.policies())
    assert json.loads(loaded.data.attrs["model"]) == json.loads(found.data.attrs["model"])


# ---- properties ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reward", "method"), in_turn(["Dirichlet", "Beta", "Gaussian"], ["Gibbs", "Metropolis"], every=4)
)
def test_random_choice_teaches_nothing(method, reward):
    """With an inverse temperature of zero the posterior is the prior."""
    kind = {"Gibbs": mm.Gibbs, "Metropolis": mm.Metropolis}[method]
    prior = {
        "Dirichlet": mm.DirichletReward(mm.Gamma(shape=3.0, rate=2.0)),
        "Beta": mm.BetaReward(mm.Gamma(shape=3.0, rate=2.0), mm.Gamma(shape=3.0, rate=2.0)),
        "Gaussian": mm.GaussianReward(),
    }[reward]
    model = mm.RewardPolicyModel(prior, mm.Softmax(0.0))
    found = mm.fit(model, CHAIN, demonstrations(), kind(draws=1500, warmup=300, thin=10), seed=3)
    drawn, before = found.data["posterior"].dataset, found.data["prior"].dataset
    for name in drawn.data_vars:
        values = drawn[name].isel(task=1) if "task" in drawn[name].dims else drawn[name]
        for state in range(3):
            mine, prior_draws = values.isel(state=state), before[name].isel(state=state).values.ravel()
            if name != "reward" and name != "reward_mean":
                mine, prior_draws = np.log(mine), np.log(prior_draws)
            error = np.hypot(float(mcse(mine)), prior_draws.std() / np.sqrt(len(prior_draws)))
            assert abs(float(mine.mean()) - prior_draws.mean()) < 4 * error


def test_one_task_with_fixed_hyperparameters_is_the_single_task_model():
    """Hierarchical and Separate are then the same density: the same draws, to the last bit."""
    data = demonstrations(tasks=("ann",))
    for reward in (mm.DirichletReward(2.0), mm.BetaReward(2.0, 1.0), mm.GaussianReward(mean=0.0, scale=1.0)):
        one, other = (
            mm.fit(mm.RewardPolicyModel(reward, mm.Softmax(3.0), sharing), CHAIN, data, METHODS["Gibbs"])
            for sharing in (mm.Hierarchical(), mm.Separate())
        )
        assert np.array_equal(one.rewards, other.rewards)


@pytest.mark.parametrize(
    ("rule", "kind"),
    in_turn([mm.Softmax(4.0, lapse=0.1), mm.SoftOptimal(4.0)], [mm.Gibbs, mm.Metropolis], every=2),
    ids=str,
)
def test_the_compiled_likelihood_is_the_one_of_numpy(kind, rule):
    """Chains carry the log-likelihood that planning and plain NumPy give their draws; also where planning sweeps."""
    tall = mm.worlds.GridWorld((12, 12), slip=0.1, discount=0.9)  # past what is solved densely
    features = np.random.default_rng(0).normal(size=(3, 2, 2))  # of pairs, some of which do not exist
    on_pairs = mm.GaussianReward(features=features, on="state_action")
    cases = [(CHAIN, mm.DirichletReward()), (tall, mm.DirichletReward()), (HOUSE, on_pairs)]
    cases += [(HOUSE, reward) for reward in REWARDS.values()]
    for environment, reward in cases:
        data = demonstrations(environment)
        target = mm.RewardPolicyModel(reward, rule).bind(environment, data)
        draws = sample(kind(chains=1, draws=3, warmup=5, thin=1), target, seed=0)
        found = target.log_likelihood(draws.tasks[0].reshape(-1, target.num_coordinates), np.tile([0, 1], 3))
        assert np.allclose(draws.log_likelihood[0].ravel(), found, atol=1e-7)
        if reward.on == "state":
            policies = rule.policies(environment, target.rewards(draws.tasks[0]))
            with np.errstate(divide="ignore", invalid="ignore"):
                terms = np.where(data.counts > 0, data.counts * np.log(policies), 0.0)
            assert np.allclose(terms.sum(axis=(2, 3)).ravel(), found, atol=1e-7)


@pytest.mark.parametrize(
    ("method", "choice", "sharing", "on"),
    [
        ("HMC", mm.SoftOptimal(lapse=mm.Beta(1.0, 9.0)), mm.Hierarchical(), "state_action"),
        ("Gibbs", mm.Softmax(lapse=0.1), mm.Pooled(), "state"),
        ("Metropolis", mm.Softmax(), mm.Separate(), "state_action"),
        ("MonteCarlo", mm.Softmax(), mm.Hierarchical(), "state"),
    ],
)
def test_log_likelihoods_of_episodes_are_those_of_the_policies_drawn(method, choice, sharing, on):
    """Chains note them on their way; for other methods, draws are planned for. Pairs that do not exist included."""
    rewards = np.random.default_rng(0).dirichlet(np.ones(HOUSE.num_states), size=2)
    data = mm.simulate(HOUSE, rewards, mm.Softmax(4.0), steps=6, episodes=3, seed=1)
    model = mm.RewardPolicyModel(mm.BetaReward(on=on), choice, sharing)
    found = mm.fit(model, HOUSE, data, METHODS[method], seed=1, progress=False)
    expected = np.zeros((found.rewards.sizes["chain"] * found.rewards.sizes["draw"], data.num_episodes))
    for m in range(len(data.tasks)):
        policies = found.drawn_policies(m)
        for row in np.flatnonzero((data.task == m) & (data.action >= 0)):
            expected[:, data.episode[row]] += np.log(policies[:, data.state[row], data.action[row]])
    noted = found.data["log_likelihood"].dataset["choices"].values
    np.testing.assert_allclose(noted.reshape(expected.shape), expected, rtol=1e-9, atol=1e-9)


def test_nearly_undiscounted_large_environments_are_planned_for():
    """Sweeping stops at rounding, not never."""
    size = 140
    ring = np.zeros((size, 2, size))
    ring[np.arange(size), 0, (np.arange(size) + 1) % size] = ring[np.arange(size), 1, np.arange(size)] = 1.0
    environment = mm.Environment(sp.csr_array(ring.reshape(2 * size, size)), discount=0.999)
    data = mm.simulate(environment, np.eye(size)[:2], mm.Softmax(4.0), steps=20)
    target = mm.RewardPolicyModel(mm.DirichletReward(1.0), mm.Softmax(4.0)).bind(environment, data)
    draws = sample(mm.Gibbs(chains=1, draws=2, warmup=2, thin=1), target, seed=0)
    found = target.log_likelihood(draws.tasks[0, -1], np.arange(2))
    assert np.allclose(draws.log_likelihood[0, -1], found, atol=1e-5)


def test_permuting_tasks_permutes_exact_answers():
    """By brute force: a nested estimate with many draws does not care for the order of tasks, up to its error."""
    data = demonstrations(tasks=("ann", "bob"), steps=40)
    swapped = mm.Demonstrations.from_frame(
        data.to_frame().sort_values("task", ascending=False, kind="stable"), CHAIN, episode="episode", step="step"
    )
    model = mm.RewardPolicyModel(mm.DirichletReward(1.0), mm.Softmax(3.0), mm.Separate())
    method = mm.NestedMonteCarlo(draws=400, inner=500)
    one = mm.fit(model, CHAIN, data, method).mean_reward
    other = mm.fit(model, CHAIN, swapped, method).mean_reward
    assert np.allclose(one.sel(task="ann"), other.sel(task="ann"), atol=0.05)


def test_a_silent_task_follows_its_population():
    frame = demonstrations().to_frame()
    frame = pd.concat([frame, pd.DataFrame({"task": ["eve"], "episode": [0], "step": [0], "state": [0]})])
    data = mm.Demonstrations.from_frame(frame, CHAIN, episode="episode", step="step")
    found = mm.fit(mm.RewardPolicyModel(), CHAIN, data, mm.Gibbs(draws=500, warmup=200, thin=10), seed=2)
    assert any("no choices were recorded for 'eve'" in warning for warning in found.warnings)
    new = found.population()["reward"].mean(("chain", "draw"))
    assert np.allclose(found.mean_reward.sel(task="eve"), new, atol=0.05)


# ---- going on, stopping ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [mm.Gibbs, pytest.param(mm.Metropolis, marks=pytest.mark.long)])
def test_going_on_is_one_long_run(kind, tmp_path):
    data, model = demonstrations(), mm.RewardPolicyModel()
    settings = {"chains": 2, "warmup": 40, "thin": 2}
    whole = mm.fit(model, CHAIN, data, kind(draws=70, **settings), seed=4)
    mm.fit(model, CHAIN, data, kind(draws=30, **settings), seed=4).save(tmp_path / "part.nc")
    joined = mm.fit(model, CHAIN, data, kind(draws=40, **settings), seed=4, start=mm.load(tmp_path / "part.nc"))
    assert np.array_equal(whole.rewards, joined.rewards)
    assert joined.data["posterior"].sizes["draw"] == 70
    assert joined.data["log_likelihood"].sizes["draw"] == 70
    third = mm.fit(model, CHAIN, data, kind(draws=5, **settings), seed=4, start=joined)
    assert third.rewards.sizes["draw"] == 75
    other = mm.worlds.Chain(states=3, discount=0.5)
    with pytest.raises(mm.errors.InputError, match="cannot be resumed"):
        mm.fit(model, other, data, kind(draws=5, **settings), start=joined)


@pytest.mark.parametrize("kind", ["NestedMonteCarlo", "MonteCarlo"])
def test_weighted_draws_can_be_added_to(kind):
    data, model = demonstrations(), mm.RewardPolicyModel()
    first = mm.fit(model, CHAIN, data, METHODS[kind], seed=4)
    both = mm.fit(model, CHAIN, data, METHODS[kind], seed=4, start=first)
    count = METHODS[kind].draws
    assert both.data["posterior"].sizes["draw"] == 2 * count
    weights = both.data["sample_stats"].dataset["log_weight"].values[:, 0]
    assert len(weights) == 2 * count
    assert both.data["sample_stats"].dataset["effective_sample_size"].item() == pytest.approx(effective_size(weights))


def test_the_number_of_cores_does_not_matter(monkeypatch):
    data, model = demonstrations(), mm.RewardPolicyModel()
    many = mm.fit(model, CHAIN, data, METHODS["Gibbs"], seed=4)
    monkeypatch.setattr("manymotives.inference.mcmc.chains.cores", lambda: 1)
    one = mm.fit(model, CHAIN, data, METHODS["Gibbs"], seed=4)
    assert np.array_equal(many.rewards, one.rewards)


def test_ctrl_c_keeps_what_there_is(request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs are started with it ignored
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    data, model = demonstrations(), mm.RewardPolicyModel()
    mm.fit(model, CHAIN, data, METHODS["Gibbs"])  # compiled by now
    threading.Timer(0.5, interrupt_main).start()
    begin = time.monotonic()
    found = mm.fit(model, CHAIN, data, mm.Gibbs(chains=2, draws=10**6, warmup=10, thin=1))
    assert time.monotonic() - begin < 60
    assert 0 < found.data["posterior"].sizes["draw"] < 10**6
    assert any("interrupted after" in warning for warning in found.warnings)


# ---- parts -----------------------------------------------------------------------------------------------------


def test_families_are_those_of_scipy():
    u = np.linspace(-3, 2, 11)
    logistic = 1 / (1 + np.exp(-u))
    cases = (
        (families.GAMMA, stats.gamma(2.5, scale=1 / 1.7).logpdf(np.exp(u)) + u, (2.5, 1.7)),
        (families.BETA, stats.beta(0.7, 2.0).logpdf(logistic) + np.log(logistic * (1 - logistic)), (0.7, 2.0)),
        (families.NORMAL, stats.norm(0.3, 1.2).logpdf(u), (0.3, 1.2)),
        (families.HALF_NORMAL, stats.halfnorm(scale=1.5).logpdf(np.exp(u)) + u, (1.5, 0.0)),
        (families.LOG_NORMAL, stats.lognorm(1.2, scale=np.exp(0.3)).logpdf(np.exp(u)) + u, (0.3, 1.2)),
    )
    for family, expected, (a, b) in cases:
        found = [families.log_density(family, value, a, b) for value in u]
        assert np.allclose(found, expected, atol=1e-12)
    for prior, frozen in (
        (mm.Gamma(shape=0.4, rate=2.0), stats.gamma(0.4, scale=0.5)),
        (mm.Gamma(shape=3.0, rate=2.0), stats.gamma(3.0, scale=0.5)),
        (mm.Beta(alpha=0.7, beta=2.0), stats.beta(0.7, 2.0)),
        (mm.Normal(mean=1.0, scale=2.0), stats.norm(1.0, 2.0)),
        (mm.HalfNormal(scale=2.0), stats.halfnorm(scale=2.0)),
        (mm.LogNormal(mean=1.0, scale=0.5), stats.lognorm(0.5, scale=np.e)),
    ):
        assert stats.kstest(prior.draw(4000, seed=1), frozen.cdf).pvalue > SIGNIFICANCE
    x = np.array([0.01, 0.3, 1.0, 7.0, 300.0])
    slopes = special.digamma(x) - np.log(x)
    assert np.allclose([families.remainder_slope(value) for value in x], slopes, rtol=1e-8)


def test_weights():
    """Pareto weights of known tail, and resampling that keeps the mean."""
    draws = RNG.exponential(size=20_000)
    for shape in (0.3, 0.8):
        assert pareto_k(shape * draws) == pytest.approx(shape, abs=0.15)
    assert effective_size(np.zeros(50)) == pytest.approx(50)
    assert effective_size(np.array([0.0, -1e6, -1e6])) == pytest.approx(1)
    log_weight = np.log([0.1, 0.2, 0.7])
    chosen = resampled(np.random.default_rng(0), log_weight, 10_000)
    assert np.allclose(np.bincount(chosen) / 10_000, [0.1, 0.2, 0.7], atol=2e-4)


def test_collapsed_weights_are_said_to_be():
    data = demonstrations(tasks=tuple("abcdef"), steps=100)
    found = mm.fit(mm.RewardPolicyModel(), CHAIN, data, mm.MonteCarlo(draws=500))
    assert found.data["sample_stats"].dataset["effective_sample_size"].item() < 10
    assert any("collapsed" in warning for warning in found.warnings)


def test_chains_that_disagree_are_said_to():
    data = demonstrations(tasks=tuple("abcdef"), steps=50)
    found = mm.fit(mm.RewardPolicyModel(), CHAIN, data, mm.Gibbs(chains=2, draws=10, warmup=2, thin=1))
    assert any("effective sample size" in warning for warning in found.warnings)


def test_a_scale_and_a_temperature_are_one_too_many():
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(mm.Gamma(shape=2.0, rate=1.0)))
    found = mm.fit(model, CHAIN, demonstrations(), METHODS["Gibbs"])
    assert any("choices identify only their product" in warning for warning in found.warnings)
    assert not mm.RewardPolicyModel(mm.GaussianReward()).warnings


def test_canonical_rewards_choose_alike():
    model = mm.RewardPolicyModel(mm.DirichletReward())
    found = mm.fit(model, CHAIN, demonstrations(), METHODS["Gibbs"])
    canonical = found.canonical()
    before = np.exp(_log_policies(found.rewards.values, found.inverse_temperatures.values))
    after = np.exp(_log_policies(canonical["reward"].values, canonical["inverse_temperature"].values))
    assert np.allclose(before, after, atol=1e-9)


def _log_policies(rewards, temperatures):
    logits = temperatures[..., None, None] * plan(CHAIN, rewards).q
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def test_arviz_reads_it():
    found = mm.fit(mm.RewardPolicyModel(), CHAIN, demonstrations(episodes=8), mm.Gibbs(draws=400, warmup=100, thin=5))
    assert "r_hat" in arviz_stats.summary(found.data).columns
    assert np.isfinite(arviz_stats.loo(found.data).elpd)


def test_recovery_and_its_pictures(tmp_path):
    found = mm.recover(mm.RewardPolicyModel(), CHAIN, tasks=6, steps=60, method=mm.Gibbs(draws=100, thin=5), seed=1)
    assert 0.7 <= found.coverage <= 1.0
    assert set(found.losses.columns) == {"task", "inferred", "demonstrator", "copied"}
    assert "Recovery of 6 tasks" in repr(found)
    mm.plots.recovery(found)
    mm.plots.rewards(found.posterior, truth=found.rewards)
    given = np.eye(3)
    named = pd.DataFrame(given, index=["ann", "bob", "cid"], columns=CHAIN.states)
    for tasks, names in ((given, (0, 1, 2)), (given.tolist(), (0, 1, 2)), (named.iloc[:, ::-1], ("ann", "bob", "cid"))):
        found = mm.recover(mm.RewardPolicyModel(), CHAIN, tasks=tasks, steps=9, method=METHODS["Gibbs"])
        assert np.array_equal(found.rewards, given)
        assert found.demonstrations.tasks == names
