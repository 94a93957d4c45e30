"""Agents who look some steps ahead: plans, gradients on every path, posteriors and profiles, against plain loops."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scipy.sparse as sp
from arviz_stats import ess

import manymotives as mm
from manymotives.inference.laplace import likelihood_shape
from manymotives.inference.mcmc import sweeps
from manymotives.inference.mcmc.density import density_workspace, log_density_and_gradient
from manymotives.io.records import record_of
from manymotives.planning import warm_start
from oracle_depth import action_values, derivative, log_likelihood, value_of_the_best_tree, weight_posterior
from places import HOUSE, TRIANGLE, random_environment

ROOMS = random_environment(1, size=(8, 3))[0]
GRID = mm.worlds.GridWorld((14, 14), slip=0.1, discount=0.95)
SIX = mm.worlds.RandomMDP(states=6, actions=3, seed=3, discount=0.9)
RULES = {"greedy": mm.Softmax, "soft": mm.SoftOptimal}
WHERE = ["state", "state_action"]
EPSILON = 1e-12  # plans are sums of a few products


def drawn_rewards(rng, environment, on, count):
    shape = (count, environment.num_states, *([environment.num_actions] if on == "state_action" else []))
    return rng.standard_normal(shape)


def on_pairs(reward, environment):
    """As the oracle has them: of the pair, and nothing of pairs in terminal states."""
    if reward.ndim == 1:
        return np.repeat(reward[:, None], environment.num_actions, axis=1)
    return reward * ~environment.is_terminal[:, None]


# ---- plans ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on", WHERE)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("depth", [1, 2, 3, 7])
def test_plans_are_those_of_backward_induction(depth, rule, on):
    rng = np.random.default_rng(depth)
    for environment in (HOUSE, ROOMS, SIX):
        rewards, c = drawn_rewards(rng, environment, on, 4), rng.uniform(0.5, 4.0, 4)
        own = rng.uniform(0.05, 0.99, 4)
        for discounts in (None, own):
            soft = c if rule == "soft" else None
            found = mm.plan(environment, rewards, on=on, inverse_temperature=soft, discount=discounts, depth=depth)
            assert found.converged.all()
            for k in range(4):
                gamma = environment.discount if discounts is None else own[k]
                reward, foreseen = on_pairs(rewards[k], environment), None if soft is None else c[k]
                expected = action_values(environment.tensor, gamma, reward, depth, foreseen, environment.available)
                lives = environment.available
                np.testing.assert_allclose(found.q[k][lives], expected[lives], rtol=EPSILON, atol=EPSILON)
            acts = ~environment.is_terminal
            assert not np.isfinite(found.q[:, acts][:, ~environment.available[acts]]).any()


def test_values_are_those_of_the_best_tree_of_actions():
    rng = np.random.default_rng(0)
    three = mm.worlds.RandomMDP(states=3, actions=2, seed=1, discount=0.8)
    reward = rng.standard_normal((3, 2))
    for depth in (1, 2, 4):
        found = mm.plan(three, reward, on="state_action", depth=depth).value
        expected = [value_of_the_best_tree(three.tensor, 0.8, reward, s, depth) for s in range(3)]
        np.testing.assert_allclose(found, expected, rtol=EPSILON)


@pytest.mark.parametrize("rule", RULES)
def test_large_environments_are_planned_in_by_their_transitions_alone(rule):
    rng = np.random.default_rng(0)
    reward, soft = rng.standard_normal(GRID.num_states), 2.0 if rule == "soft" else None
    assert sp.issparse(GRID.transitions)
    found = mm.plan(GRID, reward, inverse_temperature=soft, depth=4)
    expected = action_values(GRID.tensor, GRID.discount, on_pairs(reward, GRID), 4, soft, GRID.available)
    np.testing.assert_allclose(found.q, expected, rtol=EPSILON, atol=EPSILON)


@pytest.mark.parametrize("rule", RULES)
def test_one_step_is_myopic_and_many_are_for_ever(rule):
    rng = np.random.default_rng(3)
    soft, reward = 2.0 if rule == "soft" else None, rng.standard_normal((8, 3))
    near = mm.plan(ROOMS, reward, on="state_action", inverse_temperature=soft, depth=1)
    nothing_later = mm.plan(ROOMS.with_discount(0.0), reward, on="state_action", inverse_temperature=soft)
    np.testing.assert_array_equal(near.q, nothing_later.q)
    np.testing.assert_array_equal(near.q[ROOMS.available], reward[ROOMS.available])
    for_ever = mm.plan(ROOMS, reward, on="state_action", inverse_temperature=soft)
    for depth in (20, 60, 300):
        found = mm.plan(ROOMS, reward, on="state_action", inverse_temperature=soft, depth=depth)
        off = abs(found.q[ROOMS.available] - for_ever.q[ROOMS.available]).max()
        assert off <= 0.9**depth * abs(for_ever.value).max() * (1 + 1e-9) + 1e-12
    # what a short view costs is said in the long run
    lost = mm.loss(ROOMS, near.policy, reward, on="state_action")
    attained = mm.evaluate(ROOMS, near.policy, reward, on="state_action")
    best = mm.plan(ROOMS, reward, on="state_action").value
    np.testing.assert_allclose(lost, (best - attained).sum(), rtol=1e-9)


# ---- gradients -----------------------------------------------------------------------------------------------

PATHS = {"dense": (ROOMS, 5), "sparse": (mm.worlds.GridWorld((4, 4), slip=0.1, discount=0.95), 2)}


def counted(rng, environment, tasks):
    return rng.integers(0, 4, (tasks, environment.num_states, environment.num_actions)) * environment.available


def target_of(rule, on, environment, counts, depth, temperature=2.0, lapse=0.0):
    """Rewards, discounts, and where asked for temperatures and lapse rates, are inferred."""
    prior = mm.Beta(alpha=6.0, beta=2.0)
    reward = mm.GaussianReward(mean=0.0, scale=1.0, on=on)
    choice = RULES[rule](inverse_temperature=temperature, lapse=lapse)
    model = mm.RewardPolicyModel(reward, choice, mm.Separate(), discount=prior, depth=depth)
    return model.target(environment, tuple(range(len(counts))), counts.astype(float))


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("on", WHERE)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("path", PATHS)
def test_gradients_of_samplers_and_of_laplace_approximations(path, rule, on, depth):
    environment, tasks = PATHS[path]
    rng = np.random.default_rng(depth)
    counts = counted(rng, environment, tasks)
    prior, lapse = mm.Gamma(shape=4.0, rate=2.0), 0.0 if rule == "greedy" else mm.Beta(1.0, 9.0)
    target = target_of(rule, on, environment, counts, depth, prior, lapse)
    layout, own, c = target.layout, target.layout.discount, target.layout.temperature
    world = warm_start.world_of(environment, tasks, layout.is_soft, own_discounts=True, depth=depth)
    data = sweeps.data_of(target, world, is_hamiltonian=True)
    workspace = density_workspace(world, layout, tasks, tasks)
    checked = 0
    for _ in range(2):
        z = 0.7 * rng.standard_normal((tasks, target.num_coordinates))
        log_density_and_gradient(world, layout, data, workspace, np.zeros((tasks, 0)), z)
        u = workspace.tasks[:tasks].copy()
        slope, _ = likelihood_shape(target, u, np.arange(tasks))
        np.testing.assert_allclose(workspace.likelihood_gradient, slope, rtol=1e-8, atol=1e-8)
        m = 0
        rewarded = np.flatnonzero(abs(slope[m, : layout.num_rewards]) > 0)
        some = rng.choice(rewarded, min(3, len(rewarded)), replace=False) if len(rewarded) else []
        coordinates = [*some, own, c, *([layout.lapse] if layout.lapse >= 0 else [])]

        def at(value, m=m, place=0, u=u):
            moved = u[m].copy()
            moved[place] = value
            shares = 0.0 if layout.lapse < 0 else float(target.lapses(moved[None], np.zeros(1, int))[0])
            known = target.discounts(moved[None], np.zeros(1, int))[0], on_pairs(target.rewards(moved), environment)
            temperature = float(np.exp(moved[c]))
            rest = temperature, counts[m], rule == "soft", environment.available, shares
            return log_likelihood(environment.tensor, *known, depth, *rest)

        np.testing.assert_allclose(workspace.log_likelihood[m], at(u[m, 0]), rtol=1e-9)
        for place in coordinates:
            expected, error = derivative(lambda x, place=place: at(x, place=place), u[m, place], 1e-2)
            if error < 1e-7 * (1 + abs(expected)):  # else there is a kink nearby
                found = workspace.likelihood_gradient[m, place]
                np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
                checked += 1
    assert checked >= 3


# ---- posteriors ----------------------------------------------------------------------------------------------

FEATURE = np.array([0.0, 1.0, 0.2, 0.4, 0.0, 0.7])
METHODS = {
    "HMC": mm.HMC(draws=2000, max_rounds=1),
    "Gibbs": mm.Gibbs(draws=500, warmup=300),
    "Metropolis": mm.Metropolis(draws=500, warmup=300),
    "MonteCarlo": mm.MonteCarlo(draws=4000),
}
EXACT = [(method, rule) for method in METHODS for rule in RULES]
AT_ONCE = {("HMC", "soft"), ("HMC", "greedy"), ("Gibbs", "greedy"), ("MonteCarlo", "soft")}


@pytest.mark.parametrize(
    ("method", "rule"), [each if each in AT_ONCE else pytest.param(*each, marks=pytest.mark.long) for each in EXACT]
)
def test_the_posterior_of_a_weight_is_the_exact_one(method, rule):
    choices = mm.simulate(SIX, FEATURE[None], RULES[rule](3.0), steps=60, seed=1, depth=3)
    pairs = on_pairs(FEATURE, SIX)
    exact = weight_posterior(SIX.tensor, choices.counts[0], pairs, (1.0, 0.6), 3, 3.0, rule == "soft", 0.9)
    reward = mm.GaussianReward(features=FEATURE[:, None], mean=1.0, scale=0.6)
    model = mm.RewardPolicyModel(reward, RULES[rule](3.0), mm.Pooled(), depth=3)
    posterior = mm.fit(model, SIX, choices, METHODS[method], progress=False)
    draws = posterior.data["posterior"]["weight"].values[..., 0]
    for values, expected in ((draws, exact.mean), ((draws - exact.mean) ** 2, exact.sd**2)):
        size = ess(values) if len(values) > 1 else values.size / 4  # importance weights, unequal ones
        assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(float(size))


@pytest.mark.parametrize("rule", ["soft", pytest.param("greedy", marks=pytest.mark.long)])
def test_the_posterior_of_a_discount_within_the_steps_ahead_is_the_exact_one(rule):
    choices = mm.simulate(SIX, FEATURE[None], RULES[rule](3.0), steps=60, seed=1, depth=3, discount=0.7)
    prior, pairs = (3.0, 2.0), on_pairs(FEATURE, SIX)
    exact = weight_posterior(SIX.tensor, choices.counts[0], pairs, (1.0, 0.4), 3, 3.0, rule == "soft", prior, points=41)
    reward = mm.GaussianReward(features=FEATURE[:, None], mean=1.0, scale=0.4)
    model = mm.RewardPolicyModel(reward, RULES[rule](3.0), mm.Pooled(), discount=mm.Beta(*prior), depth=3)
    posterior = mm.fit(model, SIX, choices, METHODS["HMC"], progress=False)
    drawn = posterior.data["posterior"].dataset
    weight = drawn["weight"].values[..., 0]
    for values, expected in ((drawn["discount"].values, exact.discount_mean), (weight, exact.mean)):
        assert abs(values.mean() - expected) < 4 * values.std() / np.sqrt(float(ess(values)))


def test_draws_are_saved_resumed_and_used_as_the_model_says(tmp_path):
    rewards = np.repeat(FEATURE[None], 3, axis=0)
    choices = mm.simulate(SIX, rewards, mm.Softmax(4.0), steps=80, seed=1, depth=2, tasks=["a", "b", "c"])
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(2.0), mm.Hierarchical(), depth=2)
    assert model.abbreviation == "MRP, depth 2"
    short = mm.HMC(chains=2, draws=30, warmup=30, max_rounds=1)
    posterior = mm.fit(model, SIX, choices, short, progress=False)
    posterior.save(tmp_path / "run.nc")
    again = mm.load(tmp_path / "run.nc")
    assert again.model.depth == 2
    on = mm.fit(again.model, SIX, choices, short, start=again, progress=False)
    whole = mm.fit(model, SIX, choices, mm.HMC(chains=2, draws=60, warmup=30, max_rounds=1), progress=False)
    np.testing.assert_array_equal(on.rewards.values[:, -30:], whole.rewards.values[:, 30:])
    mean = posterior.mean_reward.values
    np.testing.assert_array_equal(posterior.policies(), mm.plan(SIX, mean, depth=2).policy)
    drawn = posterior.rewards.values[0, :5, 1]
    expected = mm.Softmax(2.0).policies(SIX, drawn, depth=2)
    np.testing.assert_allclose(posterior.drawn_policies(1)[:5], expected, rtol=1e-12)
    elsewhere = posterior.transfer(SIX)
    np.testing.assert_array_equal(elsewhere["policy"], posterior.policies())
    assert (elsewhere["expected_loss"] >= 0).all()
    np.testing.assert_allclose(elsewhere["choice"], posterior.predictive_policies(), rtol=1e-9)
    assert record_of(model)["depth"] == 2
    assert "depth" not in record_of(mm.RewardPolicyModel())  # files of other models stay the same
    for method in (mm.EmpiricalBayes(draws=20), mm.NestedMonteCarlo(draws=20)):
        assert mm.fit(model, SIX, choices, method, progress=False).model.depth == 2


def test_the_report_says_how_many_steps_ahead_they_look(tmp_path):
    choices = mm.simulate(SIX, np.stack([FEATURE, 1 - FEATURE]), mm.Softmax(4.0), steps=80, seed=1, depth=3)
    model = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(2.0), mm.Hierarchical(), depth=3)
    posterior = mm.fit(model, SIX, choices, mm.Gibbs(chains=2, draws=40, warmup=30), progress=False)
    page = mm.report(posterior, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "each looks 3 steps ahead" in page
    assert "over the next 3 steps" in page
    assert "Not shown" not in page


# ---- what choices can show -----------------------------------------------------------------------------------

CORRIDOR = mm.Environment(  # left, right between four places, the last of which ends an episode
    np.eye(4)[np.array([[0, 1], [0, 2], [1, 3], [3, 3]])], discount=0.9, states=list("abcd"), terminal=["d"]
)


@pytest.mark.parametrize("on", WHERE)
@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_what_choices_cannot_show_is_what_changes_no_policy(depth, on):
    rng = np.random.default_rng(0)
    for environment in (HOUSE, CORRIDOR, SIX, mm.worlds.GridWorld((2, 3), discount=0.8)):
        known = mm.identifiability(environment, on=on, depth=depth, visited=np.ones(environment.num_states))
        size = environment.num_states if on == "state" else environment.available.size
        shape = (size,) if on == "state" else environment.available.shape

        def logits(flat, environment=environment, shape=shape):
            """What soft choices show: differences between action values, in every state."""
            rewards = flat.reshape(-1, *shape)
            q = mm.plan(environment, rewards, on=on, inverse_temperature=1.0, depth=depth).q
            return np.where(environment.available, q - q.max(axis=-1, keepdims=True), 0.0).reshape(len(flat), -1)

        slopes = []
        for _ in range(6):
            at, step = rng.standard_normal(size), 1e-5 * np.eye(size)
            slopes.append(((logits(at + step) - logits(at - step)) / 2e-5).T)
        seen = np.concatenate(slopes)[:, known.exists]
        hidden = known.directions[known.exists]
        singular = np.linalg.svd(seen, compute_uv=False)
        unseen = seen.shape[1] - int((singular > 1e-6).sum())
        assert hidden.shape[1] == unseen
        assert abs(seen @ hidden).max(initial=0.0) < 1e-7


def test_a_myopic_agent_says_nothing_of_states():
    myopic = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(1.0), mm.Pooled(), depth=1)
    assert "depth=1" in myopic.warnings[0]
    assert not mm.RewardPolicyModel(mm.GaussianReward(on="state_action"), mm.Softmax(1.0), depth=1).warnings


# ---- profiles ------------------------------------------------------------------------------------------------

DEPTHS = [1, 2, 3, 4, 6, 10]


def road(length=8, discount=0.95):
    """A small reward here for who turns back, a large one some steps on: only who looks far enough goes for it."""
    on, back = np.minimum(np.arange(length) + 1, length - 1), np.zeros(length, dtype=int)
    return mm.Environment(np.eye(length)[np.stack([on, back], axis=1)], discount=discount, actions=["on", "back"])


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("depth", [2, 3, 4])
def test_a_profile_finds_the_depth_where_choices_tell_it(depth, rule):
    place, features = road(), np.eye(8)[:, [0, 4]]
    reward = mm.GaussianReward(features, names=["near", "far"], mean=[1.0, 4.0], scale=0.3)
    truth = np.array([1.0, 4.0]) @ features.T
    choices = mm.simulate(place, truth[None], RULES[rule](2.0), steps=20, episodes=10, seed=1, depth=depth)
    model = mm.RewardPolicyModel(reward, RULES[rule](2.0), mm.Pooled())
    found = mm.profile(model, place, choices, "depth", DEPTHS, progress=False)
    assert found.best == depth
    assert found.identified
    assert found.interval == (depth, depth)
    assert str(found) == f"Choices speak for a depth of {depth}."
    z = np.linspace(-6.0, 6.0, 25)
    prior = -(z**2) / 2
    exact = []
    for each in DEPTHS:
        joint = [
            log_likelihood(
                place.tensor,
                place.discount,
                on_pairs(np.array([1.0 + 0.3 * first, 4.0 + 0.3 * second]) @ features.T, place),
                each,
                2.0,
                choices.counts[0],
                rule == "soft",
            )
            + prior[i]
            + prior[j]
            for i, first in enumerate(z)
            for j, second in enumerate(z)
        ]
        top = max(joint)
        exact.append(top + np.log(np.exp(np.array(joint) - top).sum()))
    relative = np.array(exact) - max(exact)
    likely = relative > -20
    # Laplace: a normal for what is nearly one
    np.testing.assert_allclose(found.table["relative"][likely], relative[likely], atol=0.3)


def test_what_profiles_say_of_depths():
    nowhere = mm.Environment(np.full((2, 2, 2), 0.5), discount=0.9)  # what is done changes nothing but the reward
    rng = np.random.default_rng(0)
    choices = mm.simulate(nowhere, rng.normal(size=(1, 2, 2)), mm.Softmax(1.0), steps=50, on="state_action")
    reward = mm.GaussianReward(on="state_action", mean=0.0, scale=1.0)
    model = mm.RewardPolicyModel(reward, mm.Softmax(1.0), mm.Pooled())
    flat = mm.profile(model, nowhere, choices, "depth", progress=False)
    assert flat.table["value"].tolist() == [1, 2, 3, 5, 10]
    assert abs(flat.table["relative"]).max() < 1e-6
    assert not flat.identified
    assert str(flat).startswith("The depth is not identified: every value from 1 to 10")
    near_sighted = road(discount=0.5)
    far = mm.simulate(near_sighted, 4 * np.eye(8)[[4]], mm.Softmax(2.0), steps=20, episodes=10, seed=1)
    reward = mm.GaussianReward(np.eye(8)[:, [4]], mean=4.0, scale=0.3)
    model = mm.RewardPolicyModel(reward, mm.Softmax(2.0), mm.Pooled())
    enough = mm.profile(model, near_sighted, far, "depth", [1, 2, 5, 20, 40], progress=False)
    assert not enough.identified
    assert "a depth of at least 5; values up to the end of the grid, 40" in str(enough)
    truth = 2 * rng.normal(size=(3, 2))
    near = mm.simulate(TRIANGLE, truth[None], mm.Softmax(2.0), steps=200, on="state_action", depth=1)
    reward = mm.GaussianReward(truth[..., None], on="state_action", mean=1.0, scale=0.2)
    model = mm.RewardPolicyModel(reward, mm.Softmax(2.0), mm.Pooled())
    myopic = mm.profile(model, TRIANGLE, near, "depth", progress=False)
    assert str(myopic) == "Choices speak for a depth of 1."
    assert myopic.identified
    axes = mm.plots.profile(enough)
    assert axes.get_xlabel() == "depth"
    plt.close(axes.figure)
