"""What is done, visited and gained after a change: against plain NumPy, where the posterior is one known reward."""

import numpy as np
import pandas as pd
import pytest

import manymotives as mm
import oracle_counterfactual as oracle
from counterfactual_examples import ACTIONS, STATES, choices_in, concentrated, environment, fitted, random_transitions

RNG = np.random.default_rng(7)
TRUTH = RNG.normal(size=(2, 5))
PLACE = environment()
OTHER = random_transitions(5)


def gaussian(rule=mm.Softmax, **options):
    return mm.RewardPolicyModel(mm.GaussianReward(), rule(2.0), mm.Hierarchical(), **options)


@pytest.fixture(scope="module", params=[mm.Softmax, mm.SoftOptimal])
def posterior(request):
    return concentrated(fitted(PLACE, gaussian(request.param)), reward=TRUTH)


def expected(transitions, available, reward, discount, start, soft, judged=None, later=None, **more):
    """π, visits and value of one task; `judged` by another reward, and with another discount, `later`."""
    policy = oracle.choices(transitions, available, reward, discount, 2.0, soft=soft, **more)
    by, weight = reward if judged is None else judged, discount if later is None else later
    ends = more.get("terminal", ())
    return (
        policy,
        oracle.visits(transitions, policy, start, weight, ends),
        oracle.value(transitions, policy, by, start, weight, ends),
    )


def check(found, task, before, after, tolerance=1e-7):
    """One task's numbers: means and both ends of intervals are the truth, as all draws are."""
    for name, position in (("choice", 0), ("occupancy", 1), ("value", 2)):
        for end in ("", "_lower", "_upper"):
            shown = found.data[f"{name}{end}"].isel(task=task).values
            lives = np.isfinite(shown)
            for row, truth in zip(range(3), (before[position], after[position], after[position] - before[position])):
                assert np.allclose(shown[row], np.where(lives[row], truth, np.nan), atol=tolerance, equal_nan=True)


def check_welfare(found, task, time, truth):
    for end in ("", "_lower", "_upper"):
        assert np.isclose(found.data[f"welfare{end}"].isel(task=task).sel(time=time), truth, atol=1e-7)


ALL = np.ones((5, 3), dtype=bool)
FEWER = np.array([[True, False, False], *[[True] * 3] * 3, [False, True, True]])
ADDED = np.array([0.0, 1.0, 0.0, -0.5, 0.0])
ON_PAIRS = np.zeros((5, 3))
ON_PAIRS[2, 1] = 0.8
CHANGES = {
    "transitions": {"environment": environment(5, start=PLACE.start)},
    "rewards": {"rewards": {"b": 1.0, "d": -0.5}},
    "rewards of pairs": {"rewards": {("c", "y"): 0.8}},
    "available": {"available": {"a": "x", ("e", "x"): False}},
    "discount": {"discount": 0.5},
    "everything": {
        "environment": environment(5, start=PLACE.start, discount=0.5),
        "rewards": {"b": 1.0, "d": -0.5, ("c", "y"): 0.8},
        "available": pd.DataFrame(FEWER, index=STATES, columns=ACTIONS),
        "discount": 0.5,
    },
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_concentrated_posterior_gives_exact_answers(posterior, name):
    found = posterior.counterfactual(**CHANGES[name])
    soft = posterior.model.choice.is_soft
    words = {name} if name != "everything" else {"transitions", "rewards", "rewards of pairs", "available", "discount"}
    transitions = OTHER if "transitions" in words else PLACE.tensor
    available = FEWER if "available" in words else ALL
    discount = 0.5 if "discount" in words else 0.85
    for task, reward in enumerate(TRUTH):
        changed = reward + ADDED if "rewards" in words else reward
        if "rewards of pairs" in words:
            changed = changed[:, None] + ON_PAIRS
        before = expected(PLACE.tensor, ALL, reward, 0.85, PLACE.start, soft, later=discount)
        after = expected(transitions, available, changed, discount, PLACE.start, soft)
        check(found, task, before, after)
        assert ("welfare" in found.data) is soft
        if soft:  # the log-sum: of both sides, or of the later one where discounts differ, which is that of values
            again = oracle.soft_value(transitions, available, changed, discount, 2.0) @ PLACE.start
            check_welfare(found, task, "after", again)
        if soft and discount == 0.85:
            check_welfare(found, task, "before", oracle.soft_value(PLACE.tensor, ALL, reward, 0.85, 2.0) @ PLACE.start)
        if "value_by_reward_before" in found.data:
            judged = expected(transitions, available, changed, discount, PLACE.start, soft, judged=reward)[2]
            if "rewards of pairs" in words:  # one kind of reward judges what another made
                judged = oracle.value(transitions, after[0], reward, PLACE.start, discount)
            shown = found.data["value_by_reward_before"].isel(task=task).sel(time="after")
            assert np.isclose(shown, judged, atol=1e-7)
    mean = found.data["choice"].mean("task")
    assert np.allclose(found.data["population_choice"], mean, atol=1e-12)


@pytest.mark.parametrize("rule", [mm.Softmax, mm.SoftOptimal])
def test_terminal_states_unavailable_actions_and_amounts_on_pairs(rule):
    """What ends an episode is received for the step that leads there, once."""
    place = environment(terminal=["e"], available=FEWER, start={"a": 0.6, "b": 0.3, "e": 0.1})
    posterior = concentrated(fitted(place, gaussian(rule)), reward=TRUTH)
    found = posterior.counterfactual(rewards={("b", "y"): 0.7, "e": 0.4, "a": -0.2})
    soft = rule is mm.SoftOptimal
    added = np.array([-0.2, 0.0, 0.0, 0.0, 0.4])
    for task, reward in enumerate(TRUTH):
        before = expected(place.tensor, place.available, reward, 0.85, place.start, soft, terminal=(4,))
        own = reward + added
        table = np.broadcast_to(own[:, None], (5, 3)).copy()
        table[1, 1] += 0.7
        table += 0.85 * own[4] * place.tensor[..., 4]  # … and nothing in the terminal state itself
        after = expected(place.tensor, place.available, table, 0.85, place.start, soft, terminal=(4,))
        after = (*after[:2], after[2] + 0.1 * own[4])  # of episodes that end where they start
        check(found, task, before, after)
    assert found.data["choice"].sel(state="e").isnull().all()


@pytest.mark.parametrize("sharing", [mm.Separate(), mm.Pooled()])
def test_every_sharing(sharing):
    posterior = fitted(PLACE, mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(2.0), sharing))
    found = posterior.counterfactual(discount=0.5)
    assert found.data["choice"].dims == ("time", "task", "state", "action")
    assert found.data["population_value"].dims == ("time",)
    assert found.to_frame()["task"].nunique() == 2
    assert len(found.paths(4, episodes=3).tasks) == 2


def test_rewards_on_pairs_lapses_depth_and_own_discounts():
    truth = RNG.normal(size=(2, 5, 3))
    data = choices_in(PLACE, on="state_action")
    model = mm.RewardPolicyModel(
        mm.GaussianReward(on="state_action"), mm.Softmax(2.0, lapse=0.1), mm.Hierarchical(), depth=3
    )
    posterior = concentrated(fitted(PLACE, model, data), reward=truth)
    found = posterior.counterfactual(environment=environment(5, start=PLACE.start), rewards={"b": 1.0})
    for task, reward in enumerate(truth):
        more = {"lapse": 0.1, "depth": 3}
        before = expected(PLACE.tensor, ALL, reward, 0.85, PLACE.start, False, **more)
        after = expected(OTHER, ALL, reward + np.array([0, 1, 0, 0, 0])[:, None], 0.85, PLACE.start, False, **more)
        check(found, task, before, after)
    inferred = mm.RewardPolicyModel(
        mm.GaussianReward(), mm.SoftOptimal(2.0), mm.Hierarchical(), discount=mm.Beta(alpha=9.0, beta=2.0)
    )
    posterior = concentrated(fitted(PLACE, inferred), reward=TRUTH, discount=np.array([0.6, 0.9]))
    kept, set_ = posterior.counterfactual(rewards=ADDED), posterior.counterfactual(discount=0.3)
    for task, own in enumerate((0.6, 0.9)):
        before = expected(PLACE.tensor, ALL, TRUTH[task], own, PLACE.start, True)
        check(kept, task, before, expected(PLACE.tensor, ALL, TRUTH[task] + ADDED, own, PLACE.start, True))
        before = expected(PLACE.tensor, ALL, TRUTH[task], own, PLACE.start, True, later=0.3)
        check(set_, task, before, expected(PLACE.tensor, ALL, TRUTH[task], 0.3, PLACE.start, True))


def test_features_and_functions_of_rewards():
    features = np.random.default_rng(3).normal(size=(5, 2))
    model = mm.RewardPolicyModel(mm.GaussianReward(features=features, names=["near", "far"]), mm.Softmax(2.0))
    posterior = concentrated(fitted(PLACE, model), weight=TRUTH[:, :2], reward=TRUTH[:, :2] @ features.T)
    by_name = posterior.counterfactual(rewards={"far": 0.5})
    by_array = posterior.counterfactual(rewards=0.5 * features[:, 1])
    by_function = posterior.counterfactual(rewards=lambda reward: reward + 0.5 * features[:, 1])
    for other in (by_array, by_function):
        assert np.allclose(by_name.data["choice"], other.data["choice"])
        assert np.allclose(by_name.data["value"], other.data["value"])
        assert other.identified is True
    new = features[::-1]
    moved = posterior.counterfactual(features=new)
    for task, weight in enumerate(TRUTH[:, :2]):
        before = expected(PLACE.tensor, ALL, features @ weight, 0.85, PLACE.start, False)
        check(moved, task, before, expected(PLACE.tensor, ALL, new @ weight, 0.85, PLACE.start, False))


def test_states_of_one_side_only_have_no_number_on_the_other():
    posterior = fitted(PLACE, gaussian())
    smaller = mm.Environment(random_transitions(2, 3, 2), discount=0.85, states=["c", "a", "b"], actions=["y", "x"])
    found = posterior.counterfactual(environment=smaller)
    assert found.data["state"].values.tolist() == ["c", "a", "b", "d", "e"]
    assert found.data["action"].values.tolist() == ["y", "x", "z"]
    assert found.data["occupancy"].sel(time="after", state=["d", "e"]).isnull().all()
    assert found.data["occupancy"].sel(time="before").notnull().all()
    shown = found.data["choice"].sel(time=["before", "after"]).sum("action")
    assert np.allclose(shown.sel(state=["a", "b", "c"]), 1.0)
    assert (found.data["choice"].sel(time="after", state="a", action="z") == 0).all()  # gone, not unknown


def test_several_environments_by_name_and_one_of_them_alone():
    second = environment(6)
    both = mm.Environments({"left": PLACE, "right": second})
    posterior = fitted(both, gaussian())
    narrow = posterior.counterfactual(available={"a": ["x"]})  # in both of them
    gone = narrow.data["choice"].sel(time="after", action="x")
    assert np.allclose(gone.sel(state=["left: a", "right: a"]), 1.0)
    one = posterior.counterfactual(environment={"left": environment(8), "right": second}, available={"left: a": "x"})
    assert np.allclose(one.data["choice"].sel(time="after", state="left: a", action="x"), 1.0)
    assert (one.data["choice"].sel(time="after", state="right: a", action="x") < 1).all()
    alone = posterior.counterfactual(environment=environment(9))
    assert alone.data.sizes["state"] == 15  # no name before is that of one state only


def test_paths_visit_states_as_often_as_they_should():
    """Monte Carlo shares of the first steps against P(s_t) of the truth; 4 standard errors of 5 000 episodes."""
    posterior = concentrated(fitted(PLACE, gaussian()), reward=TRUTH)
    found = posterior.counterfactual(rewards={"b": 1.0})
    paths = found.paths(steps=3, episodes=5000, seed=1)
    policy = oracle.choices(PLACE.tensor, ALL, TRUTH[1] + np.array([0, 1, 0, 0, 0]), 0.85, 2.0, soft=False)
    chance = PLACE.start.copy()
    for step in range(3):
        here = (paths.task == 1) & (paths.step == step)
        shares = np.bincount(paths.state[here], minlength=5) / here.sum()
        assert (np.abs(shares - chance) <= 4 * np.sqrt(chance * (1 - chance) / here.sum()) + 1e-12).all()
        chance = np.einsum("s,sa,sat->t", chance, policy, PLACE.tensor)


def test_tables_and_sentences(posterior):
    found = posterior.counterfactual(rewards={"b": 1.0}, level=0.9)
    table = found.to_frame()
    row = table[(table["of"] == "population") & (table["quantity"] == "value")].iloc[0]
    assert np.isclose(row["difference"], row["after"] - row["before"])
    assert table["identified"].all()
    text = str(found)
    assert text.startswith("What if the following is added to rewards: +1 for b?\n  This question is identified")
    assert "90 % intervals" in text
    assert len(found.unidentified) == 0
