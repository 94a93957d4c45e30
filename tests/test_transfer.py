"""What is best in an environment that nobody has seen: against plain loops, draw by draw."""

import numpy as np
import pandas as pd
import pytest

import manymotives as mm
from environments_examples import BOTH, environment_from
from environments_oracle import action_values, random_world

SHORT = mm.HMC(chains=2, draws=15, warmup=20, max_rounds=1)
RNG = np.random.default_rng(4)
WORLD = random_world(RNG, ["water", "food"], ["c", "a"], discount=0.8)
UNSEEN = environment_from(WORLD)
CHOICES = mm.simulate(BOTH, [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]], mm.Softmax(2.0), steps=6, episodes=6)


def fitted(reward=None, choice=None, sharing=None, **options):
    model = mm.RewardPolicyModel(
        reward or mm.DirichletReward(), choice or mm.Softmax(), sharing or mm.Hierarchical(), **options
    )
    return mm.fit(model, BOTH, CHOICES, SHORT, progress=False)


def on_states(values):
    """Rewards of food and water, as the oracle asks for them."""
    own = dict(zip(["food", "water"], values))
    return lambda state, action: own[state]


def policy_value(world, reward, actions):
    """V of a policy, by iteration."""
    value = dict.fromkeys(world["states"], 0.0)
    for _ in range(400):
        value = {
            s: reward[s] + world["discount"] * sum(p * value[t] for t, p in world["moves"][s][actions[s]].items())
            for s in world["states"]
        }
    return value


@pytest.mark.parametrize("rule", [mm.Softmax, mm.SoftOptimal])
def test_transfer_is_what_plain_loops_find(rule):
    posterior = fitted(choice=rule(lapse=0.1))
    found = posterior.transfer(UNSEEN, level=0.8)
    rewards = posterior.rewards.stack(sample=("chain", "draw")).transpose("sample", "task", "state").values
    temperature = posterior.inverse_temperatures.stack(sample=("chain", "draw")).transpose("sample", "task").values
    for task in range(2):
        mean = rewards[:, task].mean(axis=0)
        q = action_values(WORLD, on_states(mean))
        best = {s: max(q[s], key=q[s].get) for s in WORLD["states"]}
        shown = found["policy"].isel(task=task)
        for s in WORLD["states"]:
            assert float(shown.sel(state=s, action=best[s])) == 1.0
        values, losses, choices = [], [], []
        for draw, c in zip(rewards[:, task], temperature[:, task]):
            own = dict(zip(["food", "water"], draw))
            hard = action_values(WORLD, on_states(draw))
            value = policy_value(WORLD, own, best)
            values.append([value[s] for s in WORLD["states"]])
            losses.append([max(hard[s].values()) - value[s] for s in WORLD["states"]])
            q = action_values(WORLD, on_states(draw), c) if rule is mm.SoftOptimal else hard
            row = []
            for s in WORLD["states"]:
                weights = {a: np.exp(c * (each - max(q[s].values()))) for a, each in q[s].items()}
                share = 0.1 / len(weights)
                row.append([0.9 * weights.get(a, 0.0) / sum(weights.values()) + share * (a in weights) for a in "ca"])
            choices.append(row)
        one = found.isel(task=task)
        assert np.allclose(one["value"], np.mean(values, axis=0), rtol=1e-8)
        assert np.allclose(one["value_lower"], np.quantile(values, 0.1, axis=0), rtol=1e-8)
        assert np.allclose(one["value_upper"], np.quantile(values, 0.9, axis=0), rtol=1e-8)
        assert np.allclose(one["expected_loss"], np.mean(losses, axis=0), atol=1e-8)
        assert np.allclose(one["choice"], np.mean(choices, axis=0), atol=1e-7)
        assert np.allclose(one["choice_upper"], np.quantile(choices, 0.9, axis=0), atol=1e-7)
    assert np.allclose(found["probability_best"].sum("action"), 1.0)
    assert np.array_equal(posterior.policies(environment=UNSEEN), found["policy"])


def test_transfer_to_where_one_has_been_is_no_transfer():
    """Draws of choices in the environments of the fit are those of the posterior itself."""
    posterior = fitted()
    found = posterior.transfer(BOTH)
    assert np.allclose(found["choice"], posterior.predictive_policies())
    assert np.array_equal(found["policy"], posterior.policies())
    assert found["state"].values.tolist() == list(posterior.environment.states)


@pytest.mark.parametrize("sharing", [mm.Separate(), mm.Pooled()])
def test_every_sharing_has_tasks(sharing):
    found = fitted(sharing=sharing).transfer(UNSEEN)
    assert found["value"].dims == ("task", "state")
    assert found.sizes["task"] == 2


def test_rewards_on_pairs_by_names_of_both():
    posterior = fitted(mm.GaussianReward(on="state_action"))
    world = mm.Environment(
        np.full((2, 2, 2), 0.5), discount=0.8, states=["food", "water"], actions=["c", "a"]
    )  # nobody has seen both actions in one place
    found = posterior.transfer(world)
    mean = posterior.mean_reward
    own = np.array(
        [
            [float(mean.sel(state=f"{place}: {s}", action=a)[0]) for place, a in (("right", "c"), ("left", "a"))]
            for s in ("food", "water")
        ]
    )
    best = mm.plan(world, own, on="state_action").policy
    assert np.array_equal(found["policy"].isel(task=0), best)


def test_features_of_the_new_environment():
    features = {"left": [[1.0, 0.0], [0.0, 1.0]], "right": [[0.5, 0.5], [0.0, 2.0]]}
    posterior = fitted(mm.GaussianReward(features=features))
    new = mm.Environment(np.full((3, 2, 3), 1 / 3), discount=0.8)
    rows = np.array([[1.0, 1.0], [0.0, 1.0], [2.0, 0.0]])
    found = posterior.transfer(new, features=rows)
    expected = mm.plan(new, posterior.weights.mean(("chain", "draw")).values @ rows.T).value
    assert np.allclose(found["value"], expected)
    by_name = pd.DataFrame([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], index=["food", "water", "salt"])
    named = fitted(mm.GaussianReward(features=by_name.iloc[:2]))
    assert np.isfinite(named.transfer(UNSEEN)["value"]).all()  # rows of the model's own table


def test_residuals_are_carried_over_by_name_and_drawn_for_new_names():
    features = pd.DataFrame([[1.0], [0.0]], index=["food", "water"])
    posterior = fitted(mm.GaussianReward(features=features, residual=0.5))
    known = posterior.transfer(UNSEEN)
    mean = posterior.mean_reward.isel(state=[1, 0]).values
    assert np.array_equal(known["policy"], mm.plan(UNSEEN, mean).policy)
    new = mm.Environment(np.full((2, 1, 2), 0.5), discount=0.8, states=["food", "salt"])
    spread = posterior.transfer(new, features=[[1.0], [0.0]])
    assert (spread["value_upper"] > spread["value_lower"]).all()


def test_motives_and_policy_optimality_transfer_too():
    switching = fitted(mm.GaussianReward(), mm.Softmax(2.0), switching=mm.Switching(motives=2))
    found = switching.transfer(UNSEEN)
    assert found["value"].dims == ("task", "motive", "state")
    assert switching.policies(environment=UNSEEN).dims == ("task", "motive", "state", "action")
    asked = switching.counterfactual(environment=UNSEEN)  # here, as compiling takes long
    assert asked.data["choice"].dims == ("time", "task", "motive", "state", "action")
    shown = asked.data["choice"].sel(time="after", state=["water", "food"], action=["c", "a"])
    assert np.allclose(shown.fillna(0.0), found["choice"])
    assert "what each motive would do" in str(asked)
    with pytest.raises(mm.errors.InputError, match="no paths can be simulated"):
        asked.paths(3)
    best = mm.fit(mm.PolicyOptimalityModel(), BOTH, CHOICES, mm.OptimalityMonteCarlo(draws=50), progress=False)
    with pytest.raises(mm.errors.InputError, match="not how subjects would choose"):
        best.counterfactual(environment=UNSEEN)
    optimal = best.transfer(UNSEEN)
    assert "choice" not in optimal
    assert optimal["value"].dims == ("task", "state")


def test_tables_are_of_names():
    posterior = fitted()
    table = posterior.to_frame()
    assert table["state"].unique().tolist() == ["food", "water"]
    contrasts = posterior.to_frame("state")
    assert set(contrasts["state"]) == {"food"}
    assert contrasts["identified"].all()
    assert list(posterior.summary().rewards.columns) == ["food", "water"]
