"""Motives that switch, against an oracle that enumerates every hidden sequence and shares no code with the library."""

import numpy as np
import pytest
from arviz_stats import ess

import manymotives as mm
import switching_oracle as oracle
from manymotives.inference.draws import sample
from manymotives.models.assignment import Assignment
from manymotives.models.hidden_markov import (
    expected_counts,
    filtered_motives,
    log_predictions,
    smoothed_motives,
)
from manymotives.models.switching import Switching

DISCOUNT, FEATURE = 0.8, np.array([1.0, -0.5, 0.3])


def an_environment(seed=0):
    rng = np.random.default_rng(seed)
    return mm.Environment(rng.dirichlet(np.ones(3), size=(3, 2)), discount=DISCOUNT)


def some_episodes(environment, lengths, seed=0, missing=()):
    """Episodes of random choices; `missing`: steps without a recorded action."""
    rng = np.random.default_rng(seed)
    lists, step = [], 0
    for length in lengths:
        states, actions = rng.integers(0, 3, size=length).tolist(), rng.integers(0, 2, size=length).tolist()
        lists.append((states, [None if step + t in missing else action for t, action in enumerate(actions)]))
        step += length
    return mm.Demonstrations.from_lists(lists, environment, tasks=[0] * len(lists))


def segments_of(demonstrations, by):
    """The same for the oracle."""
    found = []
    for episode in range(demonstrations.num_episodes):
        mine = demonstrations.episode == episode
        states, actions = demonstrations.state[mine], demonstrations.action[mine]
        found.append((states, actions, states if by == "state" else np.zeros_like(states)))
    return tuple(found)


@pytest.mark.parametrize("by", ["everywhere", "state"])
def test_filtering_smoothing_and_prediction_are_those_of_enumeration(by):
    environment = an_environment()
    demonstrations = some_episodes(environment, (5, 1, 3), missing=(2, 8))
    rng = np.random.default_rng(1)
    log_policies = np.log(rng.dirichlet(np.ones(2), size=(3, 3)))
    contexts = 3 if by == "state" else 1
    rows = rng.dirichlet(np.ones(3), size=(contexts, 4))
    assignment = Assignment.of(Switching(3, by=by), mm.Pooled(), demonstrations)
    given = assignment.segments, rows, log_policies
    filtered, likelihood = filtered_motives(*given, assignment.num_episodes)
    smoothed, transitions, _ = smoothed_motives(*given, assignment.num_episodes)
    predicted = np.exp(log_predictions(*given))
    expected = expected_counts(assignment.segments, smoothed, 1, 3, 2)
    counts, moved = np.zeros((3, 3, 2)), np.zeros((contexts, 4, 3))
    for episode, segment in enumerate(segments_of(demonstrations, by)):
        mine = demonstrations.episode == episode
        exact = oracle.enumerate_assignments(*segment[:2], log_policies, rows[:, -1], rows[:, :-1], segment[2])
        np.testing.assert_allclose(filtered[mine], exact.filtered, atol=1e-12)
        np.testing.assert_allclose(smoothed[mine], exact.smoothed, atol=1e-12)
        np.testing.assert_allclose(predicted[mine], exact.taken, atol=1e-12)
        np.testing.assert_allclose(likelihood[episode], exact.log_likelihood, atol=1e-12)
        counts += exact.counts
        moved[:, :-1] += exact.transition_counts
        moved[:, -1] += exact.start_counts
    np.testing.assert_allclose(expected, counts, atol=1e-12)
    np.testing.assert_allclose(transitions, moved, atol=1e-12)


def test_what_comes_later_changes_no_prediction():
    environment = an_environment()
    demonstrations = some_episodes(environment, (40,))
    rng = np.random.default_rng(1)
    log_policies, rows = np.log(rng.dirichlet(np.ones(2), size=(2, 3))), rng.dirichlet(np.ones(2), size=(1, 3))
    segments = Assignment.of(Switching(2), mm.Pooled(), demonstrations).segments
    flipped = segments._replace(action=np.where(np.arange(40) >= 20, 1 - segments.action, segments.action))
    before, after = (log_predictions(each, rows, log_policies) for each in (segments, flipped))
    assert np.array_equal(before[:20], after[:20])
    # the control that cheats: probabilities given the whole episode
    before, after = (smoothed_motives(each, rows, log_policies, 1)[0] for each in (segments, flipped))
    assert not np.allclose(before[:20], after[:20], atol=1e-3)


@pytest.mark.parametrize("soft", [True, False])
def test_the_gradient_with_motives_summed_out_is_that_of_expected_counts(soft):
    """Fisher's identity: ∂ log p(choices)/∂θ_k = Σ E N_k(s, a) ∂ log π_k(a|s)/∂θ_k."""
    environment = an_environment()
    demonstrations = some_episodes(environment, (6, 5))
    theta = np.array([0.7, -1.1])
    rng = np.random.default_rng(2)
    rows = rng.dirichlet(np.ones(2), size=(1, 3))
    rule = mm.SoftOptimal(inverse_temperature=1.0) if soft else mm.Softmax(inverse_temperature=1.0)
    assignment = Assignment.of(Switching(2), mm.Pooled(), demonstrations)

    def log_policies(values):
        return np.log(rule.policies(environment, values[:, None] * FEATURE))

    smoothed, _, likelihood = smoothed_motives(assignment.segments, rows, log_policies(theta), 2)
    counts = expected_counts(assignment.segments, smoothed, 1, 3, 2)

    def marginal(values):
        segments = segments_of(demonstrations, "everywhere")
        given = FEATURE[:, None], environment.tensor, DISCOUNT, 1.0, soft, segments, rows[:, -1], rows[:, :-1]
        return oracle.marginal_log_likelihood(values[:, None], *given)

    assert likelihood.sum() == pytest.approx(marginal(theta), abs=1e-10)
    for k in range(2):
        step = 1e-5 * np.eye(2)[k]
        slope = (log_policies(theta + step) - log_policies(theta - step)) / 2e-5
        finite = (marginal(theta + step) - marginal(theta - step)) / 2e-5
        assert (counts[k] * slope[k]).sum() == pytest.approx(finite, abs=1e-6)


@pytest.mark.parametrize(
    ("method", "by"),
    [
        (mm.HMC, "state"),
        pytest.param(mm.Gibbs, "state", marks=pytest.mark.long),
        pytest.param(mm.HMC, "everywhere", marks=pytest.mark.long),
        pytest.param(mm.Gibbs, "everywhere", marks=pytest.mark.long),
        pytest.param(mm.Metropolis, "everywhere", marks=pytest.mark.long),
        pytest.param(mm.Metropolis, "state", marks=pytest.mark.long),
    ],
)
def test_posteriors_are_those_of_enumeration(method, by):
    """Rewards, rows, who acts on what, how often they switch: within 4 Monte Carlo standard errors of brute force."""
    environment = an_environment()
    demonstrations = some_episodes(environment, (6, 3), missing=(3,))
    switching = Switching(2, by=by, stickiness=2.0, concentration=3.0)
    reward = mm.GaussianReward(FEATURE[:, None], mean=0.4, scale=1.5)
    model = mm.RewardPolicyModel(reward, mm.SoftOptimal(), mm.Pooled(), switching)
    exact = oracle.exact_posterior(
        oracle.Problem(
            transitions=environment.tensor,
            feature=FEATURE,
            discount=DISCOUNT,
            inverse_temperature=1.0,
            soft=True,
            segments=segments_of(demonstrations, by),
            stickiness=2.0,
            concentration=3.0 if by == "state" else None,
            mean=0.4,
            scale=1.5,
        )
    )
    settings = {"chains": 4, "draws": 1200, "warmup": 200, "thin": 2}
    chosen = method(**settings, max_rounds=1) if method is mm.HMC else method(**settings)
    draws = sample(chosen, model.bind(environment, demonstrations), seed=5)
    theta, rows = draws.tasks[..., 0], draws.assignment.rows
    low = (theta[..., 0] > theta[..., 1])[..., None]  # motives are named anew: 0 has the smaller reward
    theta = np.sort(theta, axis=-1)
    contexts = rows.shape[2]
    renamed = rows[..., [1, 0, 2], :][..., ::-1]
    rows = np.where(low[..., None, None], renamed, rows)
    exact_rows = exact.ordered_rows_mean if by == "everywhere" else exact.ordered_rows_mean[1:]
    switches = draws.assignment.switches[..., 0]
    checks = {f"theta {k}": (theta[..., k], exact.ordered_mean[k]) for k in range(2)}
    checks |= {
        f"theta² {k}": (theta[..., k] ** 2, exact.ordered_variance[k] + exact.ordered_mean[k] ** 2) for k in range(2)
    }
    for c in range(contexts):
        checks |= {f"row {c} {j}": (rows[..., c, j, 0], exact_rows[c, j, 0]) for j in range(3)}
    checks |= {f"{n} switches": ((switches == n).astype(float), exact.switches[n]) for n in range(5)}
    steps = draws.assignment.steps[..., 0, 1]
    steps = np.where(low[..., 0], 9 - steps, steps)
    checks["steps of the larger"] = (steps, exact.larger.sum())
    for name, (values, truth) in checks.items():
        error = values.std() / np.sqrt(ess(values, method="mean"))
        assert abs(values.mean() - truth) < 4 * error, (name, values.mean(), truth, error)
