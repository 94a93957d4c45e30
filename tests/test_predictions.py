"""Predictions and contrasts at covariates: against a computation by hand from the draws; what they refuse."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app

SHORT = mm.HMC(chains=2, draws=6, warmup=6, thin=1, max_rounds=1)
NAMES = [f"m{k}" for k in range(6)]
TABLE = {
    "task": NAMES,
    "condition": ["control", "treated"] * 3,
    "age": [1.0, 2.0, 4.0, 3.0, 7.0, 5.0],
    "cage": list("aabbcc"),
}
FEATURES = np.array([[1.0, 0.0], [-0.5, 0.7], [0.0, -1.0]])


def fitted(formula, temperature=1.5):
    rng = np.random.default_rng(3)
    environment = mm.Environment(rng.dirichlet(np.ones(3), size=(3, 2)), discount=0.8)
    choices = mm.simulate(
        environment, rng.normal(size=(6, 2)) @ FEATURES.T, mm.Softmax(1.5), steps=8, episodes=2, seed=1, tasks=NAMES
    )
    reward = mm.GaussianReward(FEATURES, names=["food", "light"])
    sharing = mm.Hierarchical(formula, covariates=TABLE)
    model = mm.RewardPolicyModel(reward, mm.Softmax(temperature), sharing)
    return mm.fit(model, environment, choices, SHORT, seed=0, progress=False)


@pytest.fixture(scope="module")
def posterior():
    return fitted("condition * age + (1 | cage)")


def by_hand(posterior, condition):
    """Weights [K, 2], choices [K, S, A] and values [K] of a typical task, averaged over tasks' ages; in plain loops."""
    drawn = posterior.data["posterior"].dataset.stack(sample=("chain", "draw"))
    environment, age = posterior.environment, np.array(TABLE["age"])
    first = posterior.demonstrations.state[np.append(True, np.diff(posterior.demonstrations.episode) != 0)]
    weights, choices, values = [], [], []
    for k in range(drawn.sizes["sample"]):
        one = drawn.isel(sample=k)
        mine, acts, attained = [], [], []
        for own in age - age.mean():
            w = one["reward_mean"].values + own * one["reward_effect"].sel(reward_term="age").values
            if condition == "treated":
                w = w + one["reward_effect"].sel(reward_term="condition[treated]").values
                w = w + own * one["reward_effect"].sel(reward_term="condition[treated]:age").values
            policy = mm.Softmax(1.5).policies(environment, FEATURES @ w)
            moves = np.einsum("sa,san->sn", policy, environment.transitions)
            value = np.linalg.solve(np.eye(3) - environment.discount * moves, FEATURES @ w)
            mine.append(w), acts.append(policy), attained.append(value[first].mean())
        weights.append(np.mean(mine, axis=0)), choices.append(np.mean(acts, axis=0)), values.append(np.mean(attained))
    return np.array(weights), np.array(choices), np.array(values)


def test_contrasts_are_those_computed_by_hand(posterior):
    table = posterior.contrast({"condition": "treated"}, {"condition": "control"}, level=0.8)
    one, other = by_hand(posterior, "treated"), by_hand(posterior, "control")
    for quantity, treated, control in zip(("weight", "choice", "value"), one, other):
        difference = (treated - control).reshape(len(treated), -1)
        rows = table[table["quantity"] == quantity]
        positive = (difference > 0).mean(axis=0)
        for column, expected in (
            ("mean", difference.mean(axis=0)),
            ("sd", difference.std(axis=0)),
            ("lower", np.quantile(difference, 0.1, axis=0)),
            ("upper", np.quantile(difference, 0.9, axis=0)),
            ("p_positive", positive),
            ("p_direction", np.maximum(positive, 1 - positive)),
        ):
            np.testing.assert_allclose(
                rows[column].to_numpy(float), expected, atol=1e-9, err_msg=f"{quantity} {column}"
            )
    assert list(table[table["quantity"] == "weight"]["feature"]) == ["food", "light"]


def test_predictions_are_those_computed_by_hand(posterior):
    table = posterior.predict_at({"condition": ["control", "treated"]})
    for condition in ("control", "treated"):
        for quantity, expected in zip(("weight", "choice", "value"), by_hand(posterior, condition)):
            rows = table[(table["quantity"] == quantity) & (table["condition"] == condition)]
            np.testing.assert_allclose(
                rows["mean"].to_numpy(float), expected.reshape(len(expected), -1).mean(axis=0), atol=1e-9
            )


def test_where_all_covariates_are_given_the_typical_task_has_these(posterior):
    drawn = posterior.data["posterior"].dataset
    table = posterior.predict_at({"condition": ["control"], "age": [np.mean(TABLE["age"])]})
    mean = drawn["reward_mean"].mean(("chain", "draw")).values
    np.testing.assert_allclose(table[table["quantity"] == "weight"]["mean"].to_numpy(float), mean, atol=1e-9)


def test_formulas_that_share_a_term_have_it_once_and_temperatures_are_predicted():
    each = fitted(
        {"food": "condition", "light": "condition + age", "inverse_temperature": "age"},
        mm.LogNormal(mean=mm.Normal(0.3, 0.2), scale=mm.HalfNormal(0.3)),
    )
    drawn = each.data["posterior"].dataset
    assert sorted(drawn["reward_term"].values) == ["age", "condition[treated]"]
    assert len(each.effects()) == 4
    table = each.contrast({"age": 5.0}, {"age": 3.0})
    rows = table.set_index("quantity")
    two = 2.0 * drawn["reward_effect"].sel(reward_term="age", feature="light").mean()
    assert list(rows.loc["weight", "mean"]) == [0.0, pytest.approx(float(two))]  # food does not depend on age
    assert rows.loc["inverse_temperature", "mean"] != 0.0


def test_every_covariate_has_its_contrasts_and_predictions_their_picture(posterior):
    table = mm.findings.contrasts(posterior)
    assert list(table["contrast"].unique()) == ["condition: treated − control", "age: 5.827 − 3.667"]
    assert set(table["quantity"]) == {"weight", "choice", "value"}
    axes = mm.plots.predictions(posterior, {"condition": ["control", "treated"]})
    assert [label.get_text() for label in axes.get_legend().get_texts()] == ["condition control", "condition treated"]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["food", "light"]


def test_new_subjects_have_the_covariates_they_are_given_and_their_own_members(posterior):
    """Over many seeds: the mean is the typical task's, the variance the population's and the members'."""
    drawn = posterior.data["posterior"].dataset.stack(sample=("chain", "draw"))
    given = {"condition": "treated", "age": 5.0}
    made = np.stack([posterior.population(covariates=given, seed=seed)["weight"].values for seed in range(100)])
    made = made.reshape(100, -1, 2)
    own = 5.0 - np.mean(TABLE["age"])
    effect = drawn["reward_effect"].transpose("reward_term", "sample", "feature")
    expected = (
        drawn["reward_mean"].transpose("sample", "feature").values + effect.sel(reward_term="condition[treated]").values
    )
    expected = (
        expected + own * (effect.sel(reward_term="age") + effect.sel(reward_term="condition[treated]:age")).values
    )
    spread = drawn["reward_spread"].transpose("reward_slope", "sample", "feature").values[0]
    variance = spread**2 + drawn["reward_scale"].transpose("sample", "feature").values ** 2
    assert (abs(made.mean(axis=0) - expected) < 5 * np.sqrt(variance / 100)).all()
    np.testing.assert_allclose(made.var(axis=0) / variance, 1.0, atol=5 * np.sqrt(2 / 100))


def test_states_that_are_numbers_stay_whole_numbers_where_other_rows_have_none(posterior, tmp_path):
    run, long = tmp_path / "run.nc", tmp_path / "all.csv"
    posterior.save(run)
    assert CliRunner().invoke(app, ["export", str(run), "--out", str(long)]).exit_code == 0
    for table in (
        posterior.predict_at({"condition": ["treated"]}),
        posterior.contrast({"condition": "treated"}, {"condition": "control"}),
        posterior.counterfactual(rewards={"food": 1.0}, progress=False).to_frame(),
        pd.read_csv(long, dtype=str),
    ):
        assert table["state"].isna().any()
        assert set(table["state"].dropna().map(str)) == {"0", "1", "2"}
