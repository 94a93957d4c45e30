"""What a fit shows: shifts, distances, groups and checks, against answers that share no code with them."""

import itertools

import numpy as np
import pytest
from scipy import stats

import manymotives as mm
from manymotives.findings import clusters_of, learning, predictive_check, sample_of, similarity
from manymotives.findings.learning import largest_shift
from manymotives.findings.similarity import _silhouette, distance_draws
from manymotives.reporting.sections_wants import _surest
from oracles import best_by_enumeration, policy_value_exact
from places import HOUSE, TRIANGLE

QUICK = mm.Metropolis(chains=2, draws=60, warmup=60, thin=1)


def fitted(environment, model, rewards, steps=30, method=QUICK, **names):
    choose = mm.Softmax(4.0)
    demonstrations = mm.simulate(environment, rewards, choose, steps=steps, seed=1, on=model.reward.on, **names)
    return mm.fit(model, environment, demonstrations, method, seed=0, progress=False)


@pytest.fixture(scope="module")
def triangle():
    return fitted(TRIANGLE, mm.RewardPolicyModel(), np.random.default_rng(0).dirichlet(np.ones(3), size=4))


@pytest.fixture(scope="module")
def house():
    rewards = np.where(HOUSE.available, np.random.default_rng(0).normal(size=(3, 3, 2)), 0.0)
    return fitted(HOUSE, mm.RewardPolicyModel(mm.GaussianReward(on="state_action")), rewards)


# ---- what was learnt ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_largest_shift_is_kolmogorov_and_smirnovs(seed):
    rng = np.random.default_rng(seed)
    after, before = rng.normal(size=rng.integers(1, 40)), rng.normal(0.5, 2.0, size=rng.integers(1, 40))
    if seed % 2:  # ties, within and between
        after, before = after.round(), before.round()
    assert largest_shift(after, np.sort(before)) == pytest.approx(stats.ks_2samp(after, before).statistic, abs=1e-12)


def test_where_choices_say_nothing_the_posterior_is_the_prior():
    """With an inverse temperature of zero. The limit: what two samples of one distribution exceed once in 10⁵ times."""
    model = mm.RewardPolicyModel(mm.DirichletReward(concentration=1.0), mm.Softmax(0.0))
    method = mm.NestedMonteCarlo(draws=1000)
    posterior = fitted(TRIANGLE, model, np.eye(3)[:2], method=method)
    learnt = learning(posterior)
    limit = stats.kstwobign.isf(1e-5) * np.sqrt(1 / learnt.draws + 1 / 2000)
    assert learnt.shift.max() < limit
    assert not learnt.settled.any()
    assert np.abs(learnt.sd_ratio - 1).max() < 0.1


def test_few_draws_are_not_mistaken_for_learning():
    """Draws from the prior itself: at most as many as a rate of 1 % exceeds once in a thousand times."""
    model = mm.RewardPolicyModel(mm.DirichletReward(concentration=1.0), mm.Softmax(0.0))
    field = mm.worlds.GridWorld((5, 5))
    posterior = fitted(field, model, np.ones((4, 25)), method=mm.NestedMonteCarlo(draws=50))
    learnt = learning(posterior)
    assert learnt.limit > 0.2
    assert (~learnt.unmoved).sum() <= stats.binom.isf(1e-3, learnt.shift.size, 0.01)


def test_many_choices_settle_what_is_wanted():
    rewards = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    posterior = fitted(TRIANGLE, mm.RewardPolicyModel(), rewards, steps=600)
    learnt = learning(posterior)
    assert learnt.who == ("population", "0", "1")
    assert (learnt.mean[1:].argmax(axis=1) == [0, 2]).all()
    assert learnt.settled[1:].sum(axis=1).min() >= 2
    assert (learnt.shift[1:].max(axis=1) > 0.5).all()


def test_what_was_sure_before_the_data_is_not_ranked():
    """An action that is never better, by its prior: that it is worse is nothing that choices have shown."""
    cost = np.zeros((3, 2, 2))
    cost[0, 1, 0] = 1.0  # the second action in the first state costs, and every prior draw says so
    cost[1, 0, 1] = 1.0  # that of the second state is to be learnt
    prior = mm.GaussianReward(features=cost, mean=[-30.0, 0.0], scale=[0.05, 15.0], on="state_action")
    rewards = cost @ np.array([-30.0, 3.0])
    posterior = fitted(TRIANGLE, mm.RewardPolicyModel(prior), rewards[None], steps=400)
    learnt = learning(posterior)
    assert learnt.pairs[0].tolist() == [0, 1]
    assert learnt.prior_above[0] > 0.99
    assert (learnt.above[:, 0] > 0.99).all()
    ranked = _surest(learnt)
    assert ranked[1]
    assert not any({0, 1} == set(pair) for who in ranked for *pair, _ in who)


def test_orders_are_counted_draw_by_draw(triangle):
    learnt = learning(triangle, draws=120)
    draws = triangle.canonical()["reward"].stack(sample=("chain", "draw")).transpose("sample", "task", "state").values
    for (first, second), above in zip(learnt.pairs, learnt.above[1:].T):
        for task in range(4):
            wins = [
                1.0 if d[task, first] > d[task, second] else 0.5 if d[task, first] == d[task, second] else 0.0
                for d in draws
            ]
            assert above[task] == pytest.approx(np.mean(wins), abs=1e-12)


def test_on_pairs_only_actions_of_one_state_are_compared(house):
    learnt = learning(house)
    assert learnt.cells[["state", "action"]].values.tolist() == [["hall", "on"], ["kitchen", "on"], ["kitchen", "back"]]
    assert learnt.pairs.tolist() == [[1, 2]]
    assert learnt.varies.tolist() == [False, True, True]  # there is one action in the hall, which costs nothing
    assert np.isnan(learnt.sd_ratio[:, 0]).all()
    assert np.isfinite(learnt.sd_ratio[:, 1:]).all()


def test_what_the_prior_fixes_is_not_counted(house, tmp_path):
    """Two of three states have the same features, so their difference is 0 whatever the weights."""
    features = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    model = mm.RewardPolicyModel(mm.GaussianReward(features=features))
    learnt = learning(fitted(TRIANGLE, model, np.array([[0.0, 1.0, 1.0]])))
    assert learnt.pairs.tolist() == [[0, 1], [0, 2]]
    assert not len(learnt.prior_alone)
    assert learnt.varies.all()
    page = mm.report(house, tmp_path / "house.html").read_text(encoding="utf-8")
    assert "of 6 rewards are still as under the prior" in page  # 3 subjects, 2 actions with an alternative
    assert "1 state or pair has a reward that is the same under every draw of the prior and therefore not" in page
    assert "fixed</td>" in page


# ---- who resembles whom --------------------------------------------------------------------------------------


def problem(environment, reward):
    """In the words of the oracles; `reward` [S] or [S, A]."""
    on_pairs = reward.ndim == 2
    table = reward if on_pairs else np.repeat(reward[:, None], environment.num_actions, axis=1)
    return {
        "transitions": environment.tensor,
        "available": environment.available,
        "terminal": environment.is_terminal,
        "rewards": table,
        "terminal_value": np.zeros(environment.num_states) if on_pairs else reward,
        "discount": environment.discount,
    }


def as_table(actions, environment):
    """A policy [S, A] from the action of each state, −1 where there is none."""
    table = np.zeros(environment.available.shape)
    for state, action in enumerate(actions):
        if action >= 0:
            table[state, action] = 1.0
    return table


@pytest.mark.parametrize("name", ["triangle", "house"])
def test_distances_are_what_is_lost_by_the_goals_of_others(name, request):
    posterior = request.getfixturevalue(name)
    environment = posterior.environment
    sample = sample_of(posterior, draws=3)
    everyone = np.arange(len(sample.who))
    found = distance_draws(sample, everyone)
    seen = sample.counts.sum(axis=(0, 2))
    exists = environment.available / np.maximum(environment.available.sum(axis=1, keepdims=True), 1)
    for draw, rewards in zip(found, sample.rewards):
        best = [best_by_enumeration(**problem(environment, reward))[1][0] for reward in rewards]
        optimal = [as_table(actions, environment) for actions in best]

        def worth(policy, reward):
            return float(seen @ policy_value_exact(**problem(environment, reward), policy=policy) / seen.sum())

        lost = np.zeros((len(rewards), len(rewards)))
        for i, j in itertools.product(everyone, everyone):
            best, blind = worth(optimal[j], rewards[j]), worth(exists, rewards[j])
            lost[i, j] = (best - worth(optimal[i], rewards[j])) / (best - blind)
        assert draw == pytest.approx((lost + lost.T) / 2, abs=1e-9)


def test_what_choices_cannot_tell_leaves_distances_alone(triangle):
    """Scale and constants; shaping on pairs."""
    sample = sample_of(triangle, draws=4)
    everyone = np.arange(4)
    before = distance_draws(sample, everyone)
    other = sample_of(triangle, draws=4)
    object.__setattr__(other, "rewards", 7.0 * sample.rewards + 3.0)
    assert distance_draws(other, everyone) == pytest.approx(before, abs=1e-9)


def plain_silhouette(distance, group):
    widths = []
    for i, own in enumerate(group):
        mates = [distance[i][j] for j, other in enumerate(group) if other == own and j != i]
        if not mates:
            widths.append(0.0)
            continue
        a = np.mean(mates)
        b = min(np.mean([distance[i][j] for j, g in enumerate(group) if g == other]) for other in set(group) - {own})
        widths.append((b - a) / max(a, b))
    return np.mean(widths)


def noisy_distances(points, rng, noise=0.3, draws=30):
    """As a posterior would have them: everybody moves a little from draw to draw."""
    moved = points + noise * rng.normal(size=(draws, *points.shape))
    return np.linalg.norm(moved[:, :, None] - moved[:, None], axis=3)


def test_silhouettes_are_rousseeuws():
    rng = np.random.default_rng(0)
    for _ in range(10):
        points, group = rng.normal(size=(9, 2)), rng.integers(3, size=9)
        distance = np.linalg.norm(points[:, None] - points, axis=2)
        if len(set(group)) > 1:
            assert _silhouette(distance, group) == pytest.approx(plain_silhouette(distance, group.tolist()), abs=1e-12)


def test_groups_that_are_there_are_found():
    rng = np.random.default_rng(1)
    truth = np.repeat([0, 1, 2], 5)
    points = np.array([[0, 0], [6, 0], [0, 6]])[truth] + 0.4 * rng.normal(size=(15, 2))
    found = clusters_of(noisy_distances(points, rng))
    assert found.number == 3
    assert found.p_value < 0.01
    assert ((found.group[:, None] == found.group) == (truth[:, None] == truth)).all()
    assert found.sureness.min() > 0.9


@pytest.mark.parametrize("clouds", [8, pytest.param(100, marks=pytest.mark.long)])
@pytest.mark.long
def test_groups_that_are_not_there_are_rarely_found(clouds):
    """At most as many as a rate of 5 % exceeds once in a thousand times."""
    rng = np.random.default_rng(2)
    found = [clusters_of(noisy_distances(rng.normal(size=(12, 3)), rng, draws=5)) for _ in range(clouds)]
    assert sum(each.is_supported for each in found) <= stats.binom.isf(1e-3, clouds, 0.05)


def test_the_nearest_is_the_nearest(triangle):
    found = similarity(triangle)
    for m in range(4):
        others = [n for n in range(4) if n != m]
        assert found.nearest[m] == min(others, key=lambda n: found.distance[m, n])
    assert (found.lower <= found.distance + 1e-12).all()
    assert found.distance == pytest.approx(found.distance.T)


# ---- could the model have made these choices? -----------------------------------------------------------------


def test_choices_of_the_model_itself_pass_the_check(triangle):
    check = predictive_check(triangle)
    assert 0.02 < check.p_value <= 1.0
    assert check.subjects["choices"].sum() == 120
    assert check.repeats["p"] > 0.001
    shares = check.shares.groupby("state")["observed"].sum()
    assert shares.to_numpy() == pytest.approx(1.0)
    outside = (check.shares["observed"] < check.shares["lower"]) | (check.shares["observed"] > check.shares["upper"])
    assert outside.sum() <= stats.binom.isf(1e-3, len(outside), 0.05)


def test_one_reward_for_subjects_who_want_opposites_does_not(triangle):
    rewards = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    pooled = fitted(TRIANGLE, mm.RewardPolicyModel(sharing=mm.Pooled()), rewards, steps=200)
    check = predictive_check(pooled)
    assert check.p_value < 0.05
    assert (check.subjects["p_distance"] < 0.05).any()


def test_habits_are_noticed():
    """Subjects who always do what they did before, with each action as often as the other: no reward explains that."""
    actions = ["a"] * 40 + ["b"] * 40
    ring = mm.Environment(np.full((2, 2, 2), 0.5), discount=0.5, actions=["a", "b"])
    states = np.random.default_rng(0).integers(2, size=80).tolist()
    demonstrations = mm.Demonstrations.from_lists([(states, actions), (states, actions[::-1])], ring)
    posterior = mm.fit(mm.RewardPolicyModel(), ring, demonstrations, QUICK, seed=0, progress=False)
    repeats = predictive_check(posterior).repeats
    assert repeats["observed"] > 0.95
    assert repeats["p"] < 0.02
    assert repeats["upper"] < 0.8


def test_expected_shares_are_those_of_the_predictive_policy(triangle):
    sample = sample_of(triangle, draws=120)
    policy = triangle.predictive_policies().values  # over all 120 draws
    check = predictive_check(sample)
    made = sample.counts.sum(axis=2)
    expected = (made[..., None] * policy).sum(axis=0) / made.sum(axis=0)[:, None]
    assert check.shares["expected"].to_numpy() == pytest.approx(expected.ravel(), abs=1e-9)
