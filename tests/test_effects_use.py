"""Covariates as users meet them: the command line, tables, the report, the picture."""

import json
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app
from manymotives.reporting.effect_words import effects_sentence

QUICK = ["--chains", "2", "--draws", "10", "--warmup", "10", "--thin", "1", "--max-rounds", "1"]
SHORT = mm.HMC(chains=2, draws=10, warmup=10, thin=1, max_rounds=1)
GRID = mm.worlds.GridWorld((2, 3), slip=0.1, discount=0.9)
NASTY = "treated <b>& 'co'</b>"
MICE = [f"m{k}" for k in range(8)]
SUBJECTS = pd.DataFrame(
    {"mouse": MICE, "condition": ["control", NASTY] * 4, "age": np.arange(8.0) + 3.0, "cage": list("aabbccdd")}
)
FEATURES = np.column_stack([np.arange(6.0) % 2, np.arange(6.0) / 5])


def run(*arguments):
    return CliRunner().invoke(app, [str(word) for word in arguments])


def fit(folder, *more):
    return run("fit", folder / "choices.csv", "--environment", folder / "environment.csv", "--discount", 0.9, *more)


def refusal(folder, *more):
    result = fit(folder, "--dry-run", "--json", *more)
    assert result.exit_code == 2, result.output
    return json.loads(result.output)["error"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Choices of eight mice, a table of features, and one of what is known of the mice, in another order."""
    folder = tmp_path_factory.mktemp("covariates")
    weights = np.random.default_rng(0).normal(size=(8, 2)) + np.outer(np.arange(8) % 2, [1.0, 0.0])
    data = mm.simulate(GRID, weights @ FEATURES.T, mm.Softmax(1.0), steps=30, seed=1, tasks=MICE)
    data.to_frame().rename(columns={"task": "mouse"}).to_csv(folder / "choices.csv", index=False)
    GRID.to_frame().to_csv(folder / "environment.csv", index=False)
    features = pd.DataFrame(FEATURES, columns=["food", "light"]).assign(state=GRID.states)
    features.to_csv(folder / "features.csv", index=False)
    SUBJECTS[::-1].to_csv(folder / "subjects.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def asked(tables):
    return ["--features", tables / "features.csv", "--covariates", tables / "subjects.csv"]


@pytest.fixture(scope="module")
def fitted(tables, asked):
    """A run that the command wrote."""
    out = tables / "run.nc"
    formulas = ["--formula", "reward ~ condition + age + (1 | cage)", "--formula", "light ~ age"]
    result = fit(tables, *asked, *formulas, "--effect-scale", 0.5, *QUICK, "--out", out)
    assert result.exit_code == 0, result.output
    assert re.search(r"^  m0: wants most (food|light|\w+ or \w+ \(too close to tell\))$", result.output, re.MULTILINE)
    assert re.search(r"^  (effect of age on light: [+-]|no effect of age is clear$)", result.output, re.MULTILINE)
    return out


def test_the_command_fits_what_the_library_fits(tables, asked, fitted):
    environment = mm.io.read_environment(tables / "environment.csv", discount=0.9)
    columns = {"task": "mouse", "episode": "episode", "step": "step"}
    data = mm.io.read_demonstrations(tables / "choices.csv", environment, **columns)
    sharing = mm.Hierarchical({"reward": "condition + age + (1 | cage)", "light": "age"}, SUBJECTS, 0.5, task="mouse")
    reward = mm.GaussianReward(mm.io.read_features(tables / "features.csv", environment))
    model = mm.RewardPolicyModel(reward, sharing=sharing)
    expected = mm.fit(model, environment, data, SHORT, seed=0, progress=False)
    pd.testing.assert_frame_equal(mm.load(fitted).effects(), expected.effects())


@pytest.mark.long
def test_a_run_goes_on_with_the_same_formulas_only(tables, asked):
    out, more = tables / "short.nc", ["--formula", "age", *QUICK, "--out", tables / "short.nc"]
    assert fit(tables, *asked, *more).exit_code == 0
    longer = fit(tables, *asked, *more, "--resume", "--draws", 15)
    assert longer.exit_code == 0, longer.output
    assert mm.load(out).data["posterior"].sizes["draw"] == 15
    other = fit(tables, *asked, "--formula", "condition", *QUICK, "--out", out, "--resume")
    assert other.exit_code == 2


def test_a_dry_run_says_the_formula(tables, asked):
    result = fit(tables, *asked, "--formula", "condition + age", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "('food', 'light'), whose population depends on covariates (" in result.output
    assert "covariates ('condition' (reference: control), 'age': condition + age)," in result.output
    other = fit(tables, *asked, "--formula", "C(condition, 'control') + C(cage)", "--dry-run")
    assert "'condition' (reference: control), 'cage' (reference: a):" in other.output, other.output


def test_what_covariates_need(tables, asked):
    age, table = ["--formula", "age"], asked[2:]
    assert "--formula needs --covariates" in refusal(tables, *age)
    assert "--covariates needs a formula" in refusal(tables, *table)
    assert "no formula uses a column" in refusal(tables, *table, "--formula", "1")
    assert "--effect-scale is for models with" in refusal(tables, "--effect-scale", 2)
    assert "--effect-scale must be a positive number; found 0." in refusal(tables, *table, *age, "--effect-scale", 0)
    assert "there is no file" in refusal(tables, "--covariates", tables / "nowhere.csv", *age)
    assert "found --model separate" in refusal(tables, *table, *age, "--model", "separate")
    assert "found --model rp" in refusal(tables, *table, *age, "--model", "rp")
    assert "--switching cannot be combined yet" in refusal(tables, *table, *age, "--switching", 2)
    assert "--reward smooth cannot be combined yet" in refusal(tables, *table, *age, "--reward", "smooth")
    assert "cannot infer effects" in refusal(tables, *table, *age, "--method", "empirical-bayes")
    assert "subjects.csv has no column 'agee'" in refusal(tables, *table, "--formula", "agee")
    assert "'age' does not name its parameter" in refusal(tables, *table, *age, "--formula", "reward ~ condition")
    assert "'reward' has two formulas" in refusal(
        tables, *table, "--formula", "reward ~ age", "--formula", "reward ~ condition"
    )
    assert "unknown parameter 'laps'" in refusal(tables, *table, "--formula", "laps ~ age")


def test_the_table_of_covariates_names_subjects(tables, tmp_path):
    SUBJECTS.rename(columns={"mouse": "rodent"}).to_csv(tmp_path / "other.csv", index=False)
    said = refusal(tables, "--covariates", tmp_path / "other.csv", "--formula", "age")
    assert "other.csv has no column 'mouse', which names subjects in the table of choices" in said
    SUBJECTS[:6].to_csv(tmp_path / "few.csv", index=False)
    said = refusal(tables, "--covariates", tmp_path / "few.csv", "--formula", "age")
    assert "has no row for 2 of 8 tasks" in said
    spare = pd.concat([SUBJECTS, SUBJECTS[:1].assign(mouse="ghost")])
    spare.to_csv(tmp_path / "spare.csv", index=False)
    result = fit(tables, "--covariates", tmp_path / "spare.csv", "--formula", "age", "--dry-run")
    assert "spare.csv has rows of 1 subject without choices" in result.output


def test_an_environment_must_be_known(tables):
    estimated = ["fit", tables / "choices.csv", "--covariates", tables / "subjects.csv", "--formula", "age"]
    result = run(*estimated, "--dry-run")
    assert result.exit_code == 2
    assert "an inferred environment" in result.output
    assert run(*estimated, "--plug-in", "--dry-run").exit_code == 0


def test_two_columns_are_one_task(tables, tmp_path):
    """Sessions of mice as tasks; the table of choices is also that of covariates."""
    choices = pd.read_csv(tables / "choices.csv")
    choices = choices.assign(mouse=choices["mouse"].str[1].astype(int) // 2, session=choices["mouse"].str[1])
    choices.assign(drug=choices["session"].astype(int) % 2).to_csv(tmp_path / "choices.csv", index=False)
    GRID.to_frame().to_csv(tmp_path / "environment.csv", index=False)
    more = ["--task", "mouse,session", "--covariates", tmp_path / "choices.csv", "--formula", "drug + (1 | mouse)"]
    result = fit(tmp_path, *more, "--dry-run")
    assert result.exit_code == 0, result.output
    assert "8 subjects" in result.output
    alone = fit(tmp_path, *more[:2], "--covariates", tables / "subjects.csv", "--formula", "age", "--dry-run")
    assert "has no column 'mouse, session'" in alone.output


def test_export_has_a_table_of_effects(fitted, tmp_path):
    result = run("export", fitted, "--out", tmp_path / "tables", "--no-contrasts")
    assert result.exit_code == 0, result.output
    table = pd.read_csv(tmp_path / "tables" / "effects.csv")
    expected = mm.load(fitted).effects()
    assert table["term"].tolist() == expected["term"].tolist()
    np.testing.assert_allclose(table["mean"], expected["mean"])
    different = pd.read_csv(tmp_path / "tables" / "contrasts_between_groups.csv")
    assert set(different["quantity"]) == {"weight", "choice", "value"}
    population = pd.read_csv(tmp_path / "tables" / "population.csv", keep_default_na=False)
    assert {"eti95_lb", "eti95_ub"} <= set(population)
    reference = "condition = control, average age"
    said = dict(zip(population["quantity"], population["reference"]))
    assert said["reward_mean[food]"] == reference
    assert said["reward_scale[food]"] == ""
    weights = pd.read_csv(tmp_path / "tables" / "weights_of_population.csv", keep_default_na=False)
    assert dict(zip(weights["parameter"], weights["reference"])) == {"mean": reference, "scale": ""}
    assert f"weights of features in the population (mean: at {reference})" in repr(mm.load(fitted).summary())


def test_export_says_that_there_are_no_warnings(fitted, tmp_path):
    posterior = mm.load(fitted)
    assert posterior.warnings
    posterior.data.attrs["warnings"] = "[]"
    posterior.save(tmp_path / "fine.nc")
    result = run("export", tmp_path / "fine.nc", "--out", tmp_path / "tables", "--no-contrasts", "--level", 0.9)
    assert "There are no warnings." in result.output
    assert pd.read_csv(tmp_path / "tables" / "warnings.csv").columns.tolist() == ["warning"]
    assert {"eti90_lb", "eti90_ub"} <= set(pd.read_csv(tmp_path / "tables" / "population.csv"))
    whole = run("export", tmp_path / "fine.nc", "--out", tmp_path / "all.csv", "--no-contrasts")
    assert whole.exit_code == 0, whole.output
    assert "warnings" not in set(pd.read_csv(tmp_path / "all.csv")["estimate"])


@pytest.fixture(scope="module")
def chosen_references():
    """A fit whose references are not the first levels; one factor is a column of numbers."""
    table = {"task": MICE, "diet": ["fasted", "fed"] * 4, "dose": [1, 1, 2, 2, 5, 5, 5, 5]}
    weights = np.random.default_rng(0).normal(size=(8, 2)) + np.outer(np.arange(8) % 2, [-1.0, 0.0])
    data = mm.simulate(GRID, weights @ FEATURES.T, mm.Softmax(1.0), steps=30, seed=1, tasks=MICE)
    reward = mm.GaussianReward(FEATURES, names=["food", "light"])
    formula = {"food": "C(diet, 'fed') + C(dose, 2)", "light": "C(diet, 'fed')"}
    model = mm.RewardPolicyModel(reward, sharing=mm.Hierarchical(formula, covariates=table))
    return mm.fit(model, GRID, data, SHORT, seed=0, progress=False)


def test_contrasts_have_the_signs_of_effects(chosen_references):
    """Both are the level minus the model's reference, so that they are equal where nothing interacts."""
    table = mm.findings.contrasts(chosen_references)
    assert table["contrast"].unique().tolist() == ["diet: fasted − fed", "dose: 1 − 2", "dose: 5 − 2"]
    different = table[table["quantity"] == "weight"].set_index(["contrast", "feature"])["mean"]
    effects = chosen_references.effects().set_index(["term", "feature"])["mean"]
    for contrast, term, feature in (
        ("diet: fasted − fed", "C(diet, 'fed')[fasted]", "food"),
        ("diet: fasted − fed", "C(diet, 'fed')[fasted]", "light"),
        ("dose: 1 − 2", "C(dose, 2)[1]", "food"),
        ("dose: 5 − 2", "C(dose, 2)[5]", "food"),
    ):
        assert different[contrast, feature] == pytest.approx(effects[term, feature], rel=1e-9)


def test_the_report_answers_the_question_about_covariates_first(chosen_references, tmp_path):
    page = unescape(mm.report(chosen_references, tmp_path / "page.html").read_text())
    short, effects = (
        page[page.index(f'<section id="{name}"') :].split("</section>")[0] for name in ("short", "effects")
    )
    assert effects_sentence(chosen_references, mm.findings.effects(chosen_references)[0]) in short
    assert "In the population at diet = fed, dose = 2, " in short
    assert "of 16 weights noticeably" in short
    assert "cannot distinguish “wants it more” from “acts more consistently”" in effects
    assert "The weight of each feature: population mean at diet = fed, dose = 2" in page
    assert "wanted, dark blue" not in page
    labels = [label.get_text() for label in mm.plots.feature_weights(chosen_references).axes[0].get_yticklabels()]
    assert labels[0] == "population mean at diet = fed, dose = 2"


def test_the_sentence_about_effects_has_those_with_a_certain_sign(chosen_references):
    effects, _ = mm.findings.effects(chosen_references)
    effects = effects.sort_values(["term", "feature"]).reset_index(drop=True)
    intervals = [(1.57, 1.04, 2.12), (-0.2, -0.9, 0.4), (-0.5, -0.8, -0.1), (0.1, -1.0, 1.0)]
    effects[["mean", "lower", "upper"]] = intervals
    assert effects_sentence(chosen_references, effects) == (
        "Effect of diet (fasted − fed): food +1.57 (95 % interval 1.04 to 2.12); of dose (1 − 2): food −0.5 (95 % "
        "interval −0.8 to −0.1); the signs of the other 2 effects are uncertain."
    )
    effects["lower"], effects["upper"] = -1.0, 1.0
    assert effects_sentence(chosen_references, effects) == (
        "The sign of every effect is uncertain, because all 95 % intervals include 0: diet (fasted − fed), dose (1 − "
        "2), dose (5 − 2)."
    )


def test_the_report_tells_who_differs_and_escapes_names(fitted, tmp_path):
    page = mm.report(mm.load(fitted), tmp_path / "page.html").read_text()
    section = page[page.index('<section id="effects"') :]
    section = section[: section.index("</section>")]
    assert "Who differs, and why" in section
    assert "reward ~" not in section
    assert "condition + age + (1 | cage)" in section
    assert "age: centred at 6.5, divided by its standard deviation 2.44949" in section
    assert "Normal(0, 0.5)" in section
    assert "regression of posterior means" in section
    assert "spread of cage" in section
    assert "Differences in values and choices" in section
    assert NASTY not in page
    assert "treated &lt;b&gt;" in section
    figures = json.loads(re.search(r'id="data-figures">(.*?)</script>', page, re.DOTALL)[1])
    assert {row["label"].split(": ")[0] for row in figures["effects"]["rows"]} == {"food", "light"}
    assert len(figures["effects"]["rows"]) == 3  # condition and age of food, age of light


def test_the_regression_is_one_of_posterior_means(fitted):
    posterior = mm.load(fitted)
    effects, spreads = mm.findings.effects(posterior)
    assert spreads["term"].tolist() == ["spread of cage"]
    means = posterior.weights.mean(("chain", "draw"))
    order = SUBJECTS.set_index("mouse").loc[list(posterior.tasks)]
    slope = np.polyfit(order["age"], means.sel(feature="light"), 1)[0]
    of_light = effects[(effects["feature"] == "light") & (effects["term"] == "age")]
    assert of_light["regression"].item() == pytest.approx(slope, rel=1e-9)
    columns = np.column_stack([np.ones(8), order["condition"] == NASTY, order["age"]])
    both = np.linalg.lstsq(columns.astype(float), means.sel(feature="food").values, rcond=None)[0]
    of_food = effects[effects["feature"] == "food"].set_index("term")["regression"]
    np.testing.assert_allclose(of_food[[f"condition[{NASTY}]", "age"]], both[1:], rtol=1e-9)
    assert effects["p_direction"].is_monotonic_decreasing


def test_the_summary_names_effects_as_the_table_does(fitted):
    posterior = mm.load(fitted)
    rows = posterior.summary().table["mean"].astype(float).dropna()
    effects, _ = mm.findings.effects(posterior)
    for _, row in effects.iterrows():
        named = rows.loc[f"reward_effect[{row['term']}, {row['feature']}]"]
        assert named == pytest.approx(row["mean"], abs=0.06)


def test_held_out_subjects_are_predicted_from_their_covariates():
    """Two groups that do opposite things: who is new is predicted by its group."""
    environment = mm.Environment(np.array([[[1.0, 0.0], [0.0, 1.0]]] * 2), discount=0.0)
    feature = np.array([[[1.0], [-1.0]]] * 2)
    wanted = np.where(np.arange(8) % 2, 3.0, -3.0)[:, None, None] * feature[None, :, :, 0]
    data = mm.simulate(environment, wanted, mm.Softmax(1.0), steps=20, seed=0, tasks=MICE, on="state_action")
    reward = mm.GaussianReward(feature, on="state_action")
    table = {"task": MICE, "group": ["a", "b"] * 4}
    model = mm.RewardPolicyModel(reward, mm.Softmax(1.0), mm.Hierarchical("group", covariates=table, effect_scale=5.0))
    posterior = mm.fit(model, environment, data, mm.HMC(chains=2, draws=60, warmup=60, max_rounds=1), progress=False)
    score = mm.score(posterior, hold_out="tasks", beside=[], seed=1, progress=False)
    assert "MRP, covariates" in set(score.table["model"])
    mine = score.by_task[score.by_task["model"] == "MRP, covariates"]
    chance = 20 * np.log(0.5)
    assert (mine["log_likelihood"] > chance / 2).all(), mine


@pytest.mark.parametrize(
    "reward", [mm.DirichletReward(), pytest.param(mm.BetaReward(on="state_action"), marks=pytest.mark.long)]
)
def test_every_kind_of_reward_has_its_section_and_its_picture(reward, tmp_path):
    data = mm.simulate(GRID, np.eye(6)[np.arange(8) % 6], mm.Softmax(2.0), steps=20, seed=0, tasks=MICE)
    choice = mm.Softmax(mm.Gamma(2.0, 1.0), lapse=mm.Beta(1.0, 9.0))
    model = mm.RewardPolicyModel(reward, choice, mm.Hierarchical("condition", SUBJECTS, task="mouse"))
    posterior = mm.fit(model, GRID, data, SHORT, seed=0, progress=False)
    effects, _ = mm.findings.effects(posterior)
    without = effects.loc[effects["regression"].isna(), "parameter"].unique().tolist()
    assert without == (["reward"] if isinstance(reward, mm.DirichletReward) else [])
    assert 'id="effects"' in mm.report(posterior, tmp_path / "page.html").read_text()
    axes = mm.plots.effects(posterior)
    assert axes.get_title().startswith("What covariates explain")
    assert "lapse: condition" in " ".join(label.get_text() for label in axes.get_yticklabels())
    axes.figure.savefig(tmp_path / "picture.png")


def test_a_page_without_covariates_has_no_such_section(tmp_path):
    data = mm.simulate(GRID, np.eye(6)[:2], mm.Softmax(2.0), steps=20, seed=0)
    posterior = mm.fit(mm.RewardPolicyModel(), GRID, data, mm.Metropolis(chains=1, draws=5, warmup=5), progress=False)
    assert 'id="effects"' not in mm.report(posterior, tmp_path / "page.html").read_text()
    with pytest.raises(mm.errors.InputError, match="this model has no covariates"):
        mm.plots.effects(posterior)
