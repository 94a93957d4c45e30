"""The parts of a power analysis that fit nothing: contrasts in words, rules, statistics, when to stop."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import manymotives as mm
from manymotives.assessment.contrasts import quantities_of, read_contrast
from manymotives.assessment.power_checks import contrast_warnings
from manymotives.assessment.power_result import Power
from manymotives.assessment.power_rules import Rule, checked_rule
from manymotives.assessment.power_statistics import cell_row, exaggeration, is_decided, looks, wilson
from manymotives.posterior.predictions import drawn_coefficients, typical_coordinates
from power_examples import arms_model, corridor, two_arms

FREE = mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(), mm.Hierarchical())


def bound(model, environment, tasks=(0,)):
    return model.target(environment, tasks, np.zeros((len(tasks), environment.num_states, environment.num_actions)))


def covariate_model(formula="condition * age"):
    table = {"task": ["a", "b", "c", "d"], "condition": ["no", "yes", "no", "yes"], "age": [20, 30, 60, 50]}
    return mm.RewardPolicyModel(mm.GaussianReward(), mm.Softmax(), mm.Hierarchical(formula, covariates=table))


# ---- contrasts ---------------------------------------------------------------------------------------------------


def test_names_are_those_of_features_states_pairs_and_further_parameters():
    assert list(quantities_of(FREE, bound(FREE, corridor()))) == [str(name) for name in corridor().states]
    arms = arms_model()
    assert list(quantities_of(arms, bound(arms, two_arms(), ("a", "b")))) == ["left", "booth, left", "booth, right"]
    shares = mm.RewardPolicyModel(discount=mm.Beta(alpha=9.0, beta=1.0))
    assert list(quantities_of(shares, bound(shares, corridor())))[-2:] == ["inverse_temperature", "discount"]


@pytest.mark.parametrize("text", ["a-b - c", "a-b  −  c", "  a-b - c "])
def test_a_hyphen_within_a_name_is_no_minus(text):
    environment = mm.Environment(np.full((2, 2, 2), 0.5), discount=0.5, states=["a-b", "c"])
    found = read_contrast(text, FREE, bound(FREE, environment))
    assert (found.quantity.name, found.less.name) == ("a-b", "c")


def test_levels_are_found_and_columns_can_be_named():
    model = covariate_model()
    target = bound(model, corridor(), tuple("abcd"))
    found = read_contrast("1: yes - no", model, target)
    assert (found.column, found.values) == ("condition", ("yes", "no"))
    assert read_contrast("1: condition = yes - no", model, target).values == ("yes", "no")
    assert read_contrast("1: age = 60 - 20", model, target).values == (60.0, 20.0)


def test_a_contrast_is_that_of_the_posterior():
    """The same number as `posterior.contrast`, for rewards that add up and for those that do not."""
    environment = corridor()
    table = {"task": ["a", "b", "c"], "condition": ["no", "yes", "yes"], "age": [1.0, 2.0, 4.0]}
    shown = mm.simulate(environment, np.eye(3), mm.Softmax(2.0), steps=20, seed=0, tasks=["a", "b", "c"])
    for reward in (mm.GaussianReward(), mm.DirichletReward()):
        model = mm.RewardPolicyModel(reward, mm.Softmax(), mm.Hierarchical("condition + age", covariates=table))
        method = mm.HMC(chains=2, draws=20, warmup=20, thin=1, max_rounds=1)
        posterior = mm.fit(model, environment, shown, method, progress=False)
        theirs = posterior.contrast({"condition": "yes"}, {"condition": "no"})
        target = posterior.target
        location = typical_coordinates(target, target.parameters_at(posterior.hyperparameters()))
        rows = {name: table[name] for name in ("condition", "age")}
        for state in environment.states:
            asked = read_contrast(f"{state}: yes - no", model, target)
            ours = asked.at(target, location, drawn_coefficients(posterior), rows)
            expected = theirs[(theirs["quantity"] == "reward") & (theirs["state"] == state)]["mean"]
            assert ours.mean() == pytest.approx(float(expected.iloc[0]), rel=1e-9)


def test_what_no_choice_can_show_is_warned_of():
    """Without terminal states a constant added to all rewards changes no choice; differences are another matter."""
    environment = corridor()
    target = bound(FREE, environment)
    alone, difference = (read_contrast(text, FREE, target) for text in ("0", "0 - 2"))
    assert "cannot fully identify “0”" in contrast_warnings(alone, FREE, environment, target)[0]
    shows = mm.identifiability(environment).can_show(0, 2)
    assert bool(contrast_warnings(difference, FREE, environment, target)) != shows
    arms = arms_model()
    seen = bound(arms, two_arms(), ("a", "b"))
    assert contrast_warnings(read_contrast("left: restricted - free", arms, seen), arms, two_arms(), seen) == ()


# ---- rules -------------------------------------------------------------------------------------------------------


def test_direction_and_interval_are_one_rule_in_two_words():
    rng = np.random.default_rng(0)
    for centre in np.linspace(-3.0, 3.0, 41):
        values = rng.normal(centre, 1.0, size=(2, 2000))
        positive = (values > 0).mean()
        direction, interval = checked_rule("direction", None, None), checked_rule("interval", None, None)
        if abs(max(positive, 1 - positive) - 0.975) > 0.001:  # quantiles are interpolated
            assert direction.decides(values) == interval.decides(values)
        assert direction.interval(values) == interval.interval(values)


def test_equivalence_needs_both_ends_inside():
    rule, values = checked_rule("equivalence", 0.9, 1.0), np.linspace(-0.9, 0.9, 1001)
    assert rule.decides(values)
    assert not rule.decides(values + 0.5)
    assert not rule.decides(values - 0.5)
    assert rule.is_clear(values, 0.1)
    assert rule.is_clear(values + 2.0, 0.1)
    assert not rule.is_clear(values + 0.19, 0.5)


def test_a_decision_is_clear_far_from_its_threshold():
    rule = checked_rule("direction", None, None)
    error = 2.0 / np.sqrt(400)
    values = np.arange(1000.0)
    assert rule.is_clear(values - 500, error)
    assert rule.is_clear(values + 1, error)
    assert not rule.is_clear(values - 25, error)


# ---- statistics --------------------------------------------------------------------------------------------------


def frame(yes, converged=None, truth=1.0, mean=1.5, half=1.0):
    count = len(yes)
    converged = np.ones(count) if converged is None else converged
    columns = {"yes": yes, "converged": converged, "truth": truth, "mean": mean}
    return pd.DataFrame(columns | {"lower": mean - half, "upper": mean + half, "choices": 10.0}, index=range(count))


@pytest.mark.parametrize("yes", [0, 1, 15, 50])
def test_wilson_is_that_of_scipy(yes):
    assert wilson(yes, 50) == pytest.approx(stats.binomtest(yes, 50).proportion_ci(0.95, "wilson"), abs=1e-12)


def test_fits_that_did_not_converge_are_neither_yes_nor_no():
    row = cell_row(frame([1, 1, 0, 0, 1], converged=[1, 1, 1, 0, 0]), Rule("direction", 0.975))
    assert (row["replications"], row["not_converged"]) == (5, 2)
    assert row["power"] == pytest.approx(2 / 3)
    assert (row["power_if_no"], row["power_if_yes"]) == (2 / 5, 4 / 5)
    none = cell_row(frame([1, 1], converged=[0, 0]), Rule("direction", 0.975))
    assert np.isnan(none["power"])
    assert (none["power_if_no"], none["power_if_yes"]) == (0.0, 1.0)


def test_errors_of_sign_and_size():
    found = frame([1, 1, 1, 0], truth=np.array([1.0, -1.0, 2.0, 1.0]), mean=np.array([2.0, 1.0, 3.0, 9.0]))
    row = cell_row(found, Rule("direction", 0.975))
    assert row["type_s"] == pytest.approx(1 / 3)
    assert row["type_m"] == pytest.approx(6 / 4)
    nothing = cell_row(frame([1, 1], truth=0.0), Rule("direction", 0.975))
    assert np.isnan(nothing["type_s"])
    assert np.isnan(nothing["type_m"])
    equal = cell_row(frame([1, 1, 0], truth=np.array([0.1, 0.9, 5.0])), Rule("equivalence", 0.95, 0.5))
    assert equal["false_equivalence"] == pytest.approx(0.5)
    assert "type_s" not in equal


def test_the_bootstrap_interval_of_exaggeration_covers_it():
    """95 % of 400 intervals, within 4 standard errors; of estimates that are 1.5 times too large."""
    rng, inside = np.random.default_rng(0), 0
    for _ in range(400):
        truth = rng.gamma(4.0, 0.25, size=60)
        _, lower, upper = exaggeration(truth * rng.normal(1.5, 0.4, size=60), truth)
        inside += lower <= 1.5 <= upper
    assert abs(inside / 400 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 400) + 0.01  # a bootstrap of 60 is a little short


def sequences(power, count, replications, rng):
    return (rng.random((count, replications)) < power).astype(float)


def as_numbers(yes, converged=1.0):
    return [{"yes": each, "converged": converged} for each in yes]


def decided_at(yes, replications=100, decide=is_decided):
    for look in looks(replications)[:-1]:
        if decide(as_numbers(yes[:look]), replications, 0.8, 0.05):
            return look
    return None


def test_cells_are_hardly_ever_given_up_wrongly():
    """Of cells whose power is just inside the target's surroundings, at most 5 % are called far from it."""
    rng = np.random.default_rng(1)
    for power in (0.75, 0.8, 0.85):
        wrong = sum(decided_at(yes) is not None for yes in sequences(power, 600, 100, rng))
        assert wrong / 600 < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 600)


def test_looking_without_a_correction_would_give_up_too_many():
    """The negative control: a plain 95 % interval at every look."""

    def naive(found, replications, target, beyond):
        yes = int(sum(each["yes"] for each in found))
        lower, upper = wilson(yes, len(found))
        return lower > target or upper < target

    rng = np.random.default_rng(2)
    wrong = sum(decided_at(yes, decide=naive) is not None for yes in sequences(0.8, 600, 100, rng))
    assert wrong / 600 > 0.08


def test_plain_cells_are_given_up_early_and_unclear_ones_are_not():
    assert decided_at(np.zeros(100)) == 20
    assert decided_at(np.ones(100)) == 40
    assert not is_decided(as_numbers(np.zeros(40), converged=0.0), 100, 0.8, 0.05)  # nothing is known of these


def test_intervals_of_power_keep_their_coverage_where_cells_stop_early():
    """Wilson's interval after stopping: at least 90 % over the whole range (95 % without), within 4 standard errors."""
    rng = np.random.default_rng(3)
    for power in (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97):
        inside = 0
        for yes in sequences(power, 400, 100, rng):
            count = decided_at(yes) or 100
            lower, upper = wilson(int(yes[:count].sum()), count)
            inside += lower <= power <= upper
        assert inside / 400 > 0.90 - 4 * np.sqrt(0.1 * 0.9 / 400), power


# ---- the result --------------------------------------------------------------------------------------------------


def made(powers, **more):
    rng, rows = np.random.default_rng(0), []
    for (subjects, steps), power in powers.items():
        found = frame((np.arange(50) < 50 * power).astype(float), mean=rng.normal(1.5, 0.1, 50))
        rows.append(found.assign(subjects=subjects, steps=steps, replication=range(50)))
    settings = {"contrast": "water - food", "rule": Rule("direction", 0.975), "target": 0.8, "truth": "draws",
                "is_assurance": True, "planned": 50}  # fmt: skip
    return Power(**settings | {"experiments": pd.concat(rows, ignore_index=True)} | more)


def test_sentences_say_what_is_needed():
    found = made({(8, 50): 0.3, (16, 50): 0.6, (8, 200): 0.7, (16, 200): 0.94})
    text = str(found)
    assert "To detect “water - food” with probability 0.8 you need about 16 subjects of 200 steps (0.94" in text
    assert "With 50 steps none of the numbers of subjects tried is enough." in text
    assert list(found.smallest["subjects"]) == [16]
    assert (
        "None of the sizes tried would detect “water - food” with probability 0.8: the best, 16 subjects of 50 steps"
        in str(made({(8, 50): 0.3, (16, 50): 0.6}))
    )


def test_saved_and_loaded_is_the_same(tmp_path):
    found = made({(8, 50): 0.3, (16, 50): 0.86}, warnings=("a warning",))
    found.save(tmp_path / "power.json")
    again = Power.load(tmp_path / "power.json")
    pd.testing.assert_frame_equal(again.table, found.table, check_exact=True)
    assert str(again) == str(found)
    found.save(tmp_path / "power.csv")
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "power.csv"), found.table)


def test_the_picture_has_a_line_for_each_number_of_steps():
    axes = mm.plots.power(made({(8, 50): 0.3, (16, 50): 0.6, (8, 200): 0.7, (16, 200): 0.94}))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["50 steps", "200 steps"]
