"""Whether a counterfactual is identified: built cases, and brute force over rewards that choose alike beforehand.

By brute force: move a reward along each direction that no choice before the change can show, far, and look whether
plain value iteration chooses differently afterwards. The library must say exactly that, state by state.
"""

import numpy as np
import pytest

import manymotives as mm
import oracle_counterfactual as oracle
from counterfactual_examples import ACTIONS, STATES, choices_in, environment, fitted, random_transitions

ALL = np.ones((5, 3), dtype=bool)
PLACE = environment(start=None)


def gaussian(on="state", choice=None, reward=None, **options):
    return mm.RewardPolicyModel(reward or mm.GaussianReward(on=on), choice or mm.Softmax(2.0), mm.Pooled(), **options)


def fit_on(place, on="state", choice=None, **options):
    return fitted(place, gaussian(on, choice, **options), choices_in(place, on=on))


def numeric_null_space(place, on, discount, terminal=(), depth=None):
    """Directions of reward that change no log-odds of soft choices at two random rewards, by finite differences."""
    size = 5 if on == "state" else 15
    rng = np.random.default_rng(0)
    slopes = []
    for _ in range(2):
        base = rng.normal(size=size)
        for_cell = []
        for cell in range(size):
            ends = []
            for sign in (1, -1):
                moved = base.copy()
                moved[cell] += sign * 1e-4
                ends.append(log_odds(place, moved, on, discount, terminal, depth))
            for_cell.append((ends[0] - ends[1]) / 2e-4)
        slopes.append(np.array(for_cell).T)
    _, singular, right = np.linalg.svd(np.concatenate(slopes))
    rank = int((singular > 1e-5 * singular[0]).sum())
    return right[rank:]


def log_odds(place, reward, on, discount, terminal, depth):
    shaped = reward if on == "state" else reward.reshape(5, 3)
    policy = oracle.choices(
        place.tensor, place.available, shaped, discount, 1.0, soft=True, terminal=terminal, depth=depth
    )
    found = []
    for s in range(5):
        if s not in terminal:
            row = np.log(policy[s][place.available[s]])
            found.extend(row - row.mean())
    return np.array(found)


def states_that_differ(place, after, on, *, soft, added=0.0, later=None, terminal=((), ()), depth=None):
    """States whose choices after the change differ between rewards that choose alike before it."""
    rng = np.random.default_rng(1)
    differ = np.zeros(5, dtype=bool)
    for direction in numeric_null_space(place, on, place.discount, terminal[0], depth):
        for _ in range(2):
            base = rng.normal(size=direction.size)
            pair = [base, base + 5.0 * direction]
            shaped = [each if on == "state" else each.reshape(5, 3) for each in pair]
            more = {"soft": soft, "depth": depth}
            before = [
                oracle.choices(place.tensor, place.available, each, place.discount, 2.0, terminal=terminal[0], **more)
                for each in shaped
            ]
            assert np.allclose(*before, atol=1e-5)
            discount = place.discount if later is None else later
            one, two = (
                oracle.choices(after.tensor, after.available, each + added, discount, 2.0, terminal=terminal[1], **more)
                for each in shaped
            )
            differ |= np.abs(one - two).max(axis=1) > 1e-4
    return differ


CHANGED = environment(5, start=None)
FEWER = environment(available=np.array([[True, False, True], *[[True] * 3] * 4]), start=None)
ENDS = environment(5, terminal=["e"], start=None)
ENDING = environment(terminal=["e"], start=None)


@pytest.mark.parametrize("rule", [mm.Softmax, pytest.param(mm.SoftOptimal, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    ("on", "before", "after", "changes", "is_identified"),
    [
        ("state", PLACE, CHANGED, {"environment": CHANGED}, True),
        ("state", PLACE, FEWER, {"available": {"a": ["x", "z"]}}, True),
        ("state", PLACE, PLACE, {"discount": 0.4}, True),  # a constant stays a constant
        ("state", PLACE, ENDS, {"environment": ENDS}, False),  # when to end depends on a constant
        ("state", ENDING, ENDING, {"discount": 0.4}, False),  # and so does how soon the end is wanted
        ("state", ENDING, ENDING, {"rewards": {"a": 1.0}}, True),
        ("state_action", PLACE, CHANGED, {"environment": CHANGED}, False),  # shaping
        ("state_action", PLACE, FEWER, {"available": {"a": ["x", "z"]}}, True),
        ("state_action", PLACE, PLACE, {"rewards": {"a": 1.0}}, True),
        ("state_action", PLACE, PLACE, {"discount": 0.4}, False),
    ],
)
def test_what_the_library_says_is_what_brute_force_finds(rule, on, before, after, changes, is_identified):
    posterior = fit_on(before, on, rule(2.0))
    found = posterior.counterfactual(**changes)
    assert found.identified is is_identified
    terminal = tuple((4,) if each.is_terminal[4] else () for each in (before, after))
    added = 0.0 if "rewards" not in changes else np.array([1.0, 0, 0, 0, 0]) if on == "state" else np.eye(5)[:1].T
    more = {"soft": rule is mm.SoftOptimal, "added": added, "later": changes.get("discount"), "terminal": terminal}
    differ = states_that_differ(before, after, on, **more)
    assert np.array_equal(found.data["rests_on_prior"].values, differ)
    said = found.statements[0]
    assert ("NOT identified" in said) is not is_identified
    assert set(found.unidentified["state"]) == {STATES[s] for s in np.flatnonzero(differ)}


def test_only_where_it_matters():
    """Beyond a door that the change opens: choices in front of it rest on the prior, those behind it do not."""
    states = ["hall", "left", "right", "cellar", "box 1", "box 2"]
    moves = np.zeros((6, 2, 6))
    for state, (one, two) in enumerate([(1, 2), (0, 0), (0, 0), (4, 5), (3, 3), (3, 3)]):
        moves[state, 0, one] = moves[state, 1, two] = 1.0
    closed = mm.Environment(moves, discount=0.9, states=states, actions=["one", "two"], start={"hall": 1.0})
    opened = moves.copy()
    opened[1, 1] = np.eye(6)[3]  # from the left room to the cellar, where nobody ever was
    posterior = fit_on(closed)
    found = posterior.counterfactual(
        environment=mm.Environment(opened, discount=0.9, states=states, actions=["one", "two"], start={"hall": 1.0})
    )
    assert found.identified is False
    rests = dict(zip(states, found.data["rests_on_prior"].values))
    assert rests["left"]
    assert rests["cellar"]  # no choice in it was possible
    assert not rests["right"]  # both ways lead to the hall
    table = found.unidentified
    assert set(table["state"]) <= {"hall", "left", "cellar"}
    assert ((table["prior_lower"] <= table["prior_upper"]) & table["prior_upper"].notna()).all()


def test_an_unknown_temperature_hides_what_an_amount_is_worth():
    unknown = fit_on(PLACE, choice=mm.Softmax(mm.Gamma(shape=4.0, rate=2.0)))
    found = unknown.counterfactual(rewards={"a": 1.0})
    assert found.identified is False
    assert any("inverse temperature was inferred" in said for said in found.statements)
    constant = unknown.counterfactual(rewards=np.ones(5))  # which nobody notices
    assert constant.identified is True
    assert unknown.counterfactual(environment=CHANGED).identified is True
    assert unknown.counterfactual(environment=CHANGED).value_identified is False
    assert unknown.counterfactual(rewards=lambda reward: 2.0 * reward).identified is True  # whatever the unit
    assert unknown.counterfactual(rewards=lambda reward: reward + np.eye(5)[0]).identified is False
    assert fit_on(PLACE).counterfactual(rewards={"a": 1.0}).identified is True


def test_an_unknown_discount_on_pairs_is_a_change_of_rewards():
    """On pairs any change of discount can be undone by rewards, and after another change it is seen."""
    prior = mm.Beta(alpha=9.0, beta=2.0)
    on_pairs = fit_on(PLACE, "state_action", mm.SoftOptimal(2.0), discount=prior)
    policy = oracle.choices(PLACE.tensor, ALL, np.random.default_rng(0).normal(size=(5, 3)), 0.85, 2.0, soft=True)
    alike = np.log(policy) / 2.0  # chooses so under every discount …
    potential = np.random.default_rng(1).normal(size=5)
    shaped = alike + potential[:, None] - 0.5 * PLACE.tensor @ potential  # … and so does this, under 0.5
    rewards = {0.85: alike, 0.5: shaped}
    for discount, each in rewards.items():
        assert np.allclose(oracle.choices(PLACE.tensor, ALL, each, discount, 2.0, soft=True), policy)
    for place, added, changes in (
        (PLACE, np.eye(5)[:1].T, {"rewards": {"a": 1.0}}),
        (CHANGED, 0.0, {"environment": CHANGED}),
    ):
        one, two = (
            oracle.choices(place.tensor, ALL, each + added, discount, 2.0, soft=True)
            for discount, each in rewards.items()
        )
        assert not np.allclose(one, two, atol=1e-3)
        assert on_pairs.counterfactual(**changes).identified is False


def test_an_unknown_discount_is_hidden_by_a_reward_for_each_state_and_shown_by_few_features():
    """For any other discount γ', values (γ / γ') V have the same contrasts, and some rewards have these values."""
    prior = mm.Beta(alpha=9.0, beta=2.0)
    reward = np.random.default_rng(0).normal(size=5)
    policy = oracle.choices(PLACE.tensor, ALL, reward, 0.85, 2.0, soft=False)
    best = np.eye(3)[policy.argmax(axis=1)]
    moves = np.einsum("sa,sat->st", best, PLACE.tensor)
    values = 0.85 / 0.5 * np.linalg.solve(np.eye(5) - 0.85 * moves, reward)
    other = values - 0.5 * moves @ values
    assert np.allclose(oracle.choices(PLACE.tensor, ALL, other, 0.5, 2.0, soft=False), policy)
    free = fit_on(PLACE, discount=prior)
    features = np.random.default_rng(4).normal(size=(5, 2))
    few = fitted(PLACE, gaussian(discount=prior, reward=mm.GaussianReward(features=features)))
    for transitions, added, changes in (
        (PLACE.tensor, np.eye(5)[0], {"rewards": {"a": 1.0}}),
        (CHANGED.tensor, np.zeros(5), {"environment": CHANGED}),
    ):
        one = oracle.choices(transitions, ALL, reward + added, 0.85, 2.0, soft=False)
        two = oracle.choices(transitions, ALL, other + added, 0.5, 2.0, soft=False)
        assert not np.allclose(one, two, atol=1e-3)
        assert free.counterfactual(**changes).identified is False
        assert few.counterfactual(**changes).identified is True


def test_two_environments_show_more_than_one():
    """Rewards of states in one certain maze leave a direction that another maze shows."""
    moves = np.zeros((4, 2, 4))
    for state, (one, two) in enumerate([(1, 2), (3, 3), (3, 3), (0, 0)]):
        moves[state, 0, one] = moves[state, 1, two] = 1.0
    names, acts = ["start", "left", "right", "end"], ["one", "two"]
    first = mm.Environment(moves, discount=0.9, states=names, actions=acts)
    again = moves.copy()
    again[3, 1] = np.eye(4)[1]
    second = mm.Environment(again, discount=0.9, states=names, actions=acts)
    alone, both = fit_on(first), fit_on(mm.Environments({"first": first, "second": second}))
    third = random_transitions(3, 4, 2)
    asked = {"environment": mm.Environment(third, discount=0.9, states=names, actions=acts)}
    assert alone.counterfactual(**asked).identified is False
    assert both.counterfactual(**asked).identified is (both.identifiability.weights.shape[1] == 1)
    assert alone.counterfactual(rewards={"end": 1.0}).identified is True


def test_features_restrict_what_can_be_hidden():
    features = np.random.default_rng(2).normal(size=(5, 3, 2))
    model = mm.RewardPolicyModel(mm.GaussianReward(features=features, on="state_action"), mm.Softmax(2.0))
    posterior = fitted(PLACE, model, choices_in(PLACE, on="state_action"))
    found = posterior.counterfactual(environment=CHANGED, features=features)
    assert found.identified is True  # two weights, both shown
    assert found.value_identified is True
    other = features.copy()
    other[..., 1] = 1.0
    hidden = np.concatenate([features[..., :1], np.ones((5, 3, 1))], axis=2)  # a constant, which nothing shows
    model = mm.RewardPolicyModel(mm.GaussianReward(features=hidden, on="state_action"), mm.Softmax(2.0))
    posterior = fitted(PLACE, model, choices_in(PLACE, on="state_action"))
    assert posterior.counterfactual(environment=CHANGED, features=hidden).identified is True
    assert posterior.counterfactual(environment=CHANGED, features=features).identified is False
    residual = mm.RewardPolicyModel(
        mm.GaussianReward(features=np.random.default_rng(2).normal(size=(5, 2)), residual=0.5), mm.Softmax(2.0)
    )
    posterior = fitted(PLACE, residual)
    assert posterior.counterfactual(environment=CHANGED).identified is True  # every state has its own reward
    new = mm.Environment(random_transitions(4), discount=0.85, states=[*"abcdf"], actions=ACTIONS)
    assert posterior.counterfactual(environment=new, features=np.ones((5, 2))).identified is False


def test_a_depth_hides_other_directions():
    posterior = fit_on(PLACE, depth=2)
    found = posterior.counterfactual(environment=CHANGED)
    differ = states_that_differ(PLACE, CHANGED, "state", soft=False, depth=2)
    assert np.array_equal(found.data["rests_on_prior"].values, differ)
    assert found.identified is not differ.any()


def test_states_that_nobody_visited_are_another_matter():
    place = environment(start={"a": 1.0})
    data = mm.simulate(place, np.zeros(5), mm.Softmax(1.0), steps=1, episodes=2, seed=0)
    found = fitted(place, gaussian(), data).counterfactual(discount=0.5)
    assert found.identified is True
    assert any("Nobody was observed in" in said for said in found.statements)


def test_too_many_states_are_said_to_be_too_many(monkeypatch):
    monkeypatch.setattr("manymotives.posterior.shown_after.LARGEST", 10)
    found = fit_on(PLACE).counterfactual(discount=0.5)
    assert found.identified is None
    assert "was not computed" in found.statements[0]
    assert found.to_frame()["identified"].isna().all()
