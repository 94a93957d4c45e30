"""Designs from formulas: against matrices written by hand, and against products of columns taken in NumPy."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import manymotives as mm
from manymotives.errors import InputError
from manymotives.io.records import from_record, record_of
from manymotives.models.covariates import Covariates
from manymotives.models.designs import design_of
from manymotives.models.formulas import parsed

TASKS = ("ann", "bob", "cid", "dot", "eve", "fay", "gus", "hal")
TABLE = pd.DataFrame(
    {
        "task": TASKS,
        "condition": ["treated", "control"] * 4,
        "site": ["south", "north", "north", "west", "west", "south", "north", "south"],
        "age": [1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 8.0, 10.0],
        "weight": [3, 1, 4, 1, 5, 9, 2, 6],
        "mouse": ["m1", "m1", "m2", "m2", "m3", "m3", "m10", "m10"],
        "lab": [1, 1, 1, 1, 2, 2, 2, 2],
    }
)
FEW = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))


def standardised(values):
    values = np.asarray(values, dtype=float)
    return (values - values.mean()) / values.std(ddof=1)


def design(formula, covariates=TABLE, tasks=TASKS, **options):
    return design_of(formula, covariates, tasks, **options)


TREATED = np.array([1.0, 0.0] * 4)
NORTH, SOUTH, WEST = (np.array(TABLE["site"] == name, dtype=float) for name in ("north", "south", "west"))
AGE, WEIGHT = standardised(TABLE["age"]), standardised(TABLE["weight"])

# ---- columns


BY_HAND = {
    "1": {},
    "condition": {"condition[treated]": TREATED},
    "condition + age": {"condition[treated]": TREATED, "age": AGE},
    "condition * age": {"condition[treated]": TREATED, "age": AGE, "condition[treated]:age": TREATED * AGE},
    "age * weight": {"age": AGE, "weight": WEIGHT, "age:weight": AGE * WEIGHT},
    "age:condition + condition + age": {
        "condition[treated]": TREATED,
        "age": AGE,
        "age:condition[treated]": AGE * TREATED,
    },
    "condition:age": {"condition[control]:age": (1 - TREATED) * AGE, "condition[treated]:age": TREATED * AGE},
    "site": {"site[south]": SOUTH, "site[west]": WEST},
    "site/age": {
        "site[south]": SOUTH,
        "site[west]": WEST,
        "site[north]:age": NORTH * AGE,
        "site[south]:age": SOUTH * AGE,
        "site[west]:age": WEST * AGE,
    },
    "(condition + age + weight)**2 - condition:weight": {
        "condition[treated]": TREATED,
        "age": AGE,
        "weight": WEIGHT,
        "condition[treated]:age": TREATED * AGE,
        "age:weight": AGE * WEIGHT,
    },
    "C(site, 'west')": {"C(site, 'west')[north]": NORTH, "C(site, 'west')[south]": SOUTH},
    "C(site, Treatment('south'))": {
        "C(site, Treatment('south'))[north]": NORTH,
        "C(site, Treatment('south'))[west]": WEST,
    },
    "C(lab)": {"C(lab)[2]": np.repeat([0.0, 1.0], 4)},
    "lab": {"lab": standardised([1] * 4 + [2] * 4)},
    "log(age)": {"log(age)": standardised(np.log(TABLE["age"]))},
    "np.log(age)": {"np.log(age)": standardised(np.log(TABLE["age"]))},
    "I(age / (weight + 1)) + {age**2}": {
        "I(age / (weight + 1))": standardised(TABLE["age"] / (TABLE["weight"] + 1)),
        "I(age ** 2)": standardised(TABLE["age"] ** 2),
    },
    "center(age) + scale(weight)": {"center(age)": AGE, "scale(weight)": WEIGHT},
    "weight:age + age:weight": {"weight:age": AGE * WEIGHT},
}


@pytest.mark.parametrize("formula", BY_HAND)
def test_columns_are_those_written_by_hand(formula):
    found, expected = design(formula), BY_HAND[formula]
    assert found.names == tuple(expected)
    wanted = np.column_stack([np.ones(8), *expected.values()])[:, 1:]
    np.testing.assert_allclose(found.columns, wanted, rtol=0, atol=8 * np.finfo(float).eps)
    assert not found.columns.flags.writeable
    assert found.levels == ()


def test_polynomials_are_orthogonal_and_span_the_powers():
    found = design("poly(age, 2)")
    assert found.names == ("poly(age, 2)[1]", "poly(age, 2)[2]")
    assert found.terms == ("poly(age, 2)", "poly(age, 2)")
    np.testing.assert_allclose(found.columns.T @ found.columns, 7 * np.eye(2), atol=1e-12)
    powers = np.column_stack([np.ones(8), TABLE["age"], TABLE["age"] ** 2])
    left = found.columns - powers @ np.linalg.lstsq(powers, found.columns, rcond=None)[0]
    np.testing.assert_allclose(left, 0, atol=1e-12)


def test_terms_and_scales_of_columns():
    found = design("condition * age + age:weight + site")
    assert found.terms == ("condition", "age", "site", "site", "condition:age", "age:weight")
    years, grams = TABLE["age"].std(), TABLE["weight"].std()
    np.testing.assert_allclose(found.scale, [1, years, 1, 1, years, years * grams])


def test_the_coding_is_said_in_words():
    assert design("site * age").coding == (
        "site: south, west, compared with north\nage: centred at 5, divided by its standard deviation 3.11677"
    )


@FEW
@given(
    ages=st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=30, unique_by=lambda age: round(age, 3)),
    seed=st.integers(0, 99),
)
def test_effects_on_the_covariates_own_scale_are_those_of_a_regression_on_them(ages, seed):
    rng = np.random.default_rng(seed)
    ages, treated = np.array(ages), np.arange(len(ages)) % 2.0
    names = [f"task {number}" for number in range(len(ages))]
    table = {"task": names, "age": ages, "group": np.where(treated, "treated", "control")}
    outcome = rng.normal(size=len(ages))
    try:
        found = design_of("group * age", table, names)
    except InputError:
        return  # collinear: all but one or two in a group of one age
    ours = np.linalg.lstsq(np.column_stack([np.ones(len(ages)), found.columns]), outcome, rcond=None)[0]
    centred = ages - ages.mean()
    raw = np.column_stack([np.ones(len(ages)), treated, centred, treated * centred])
    theirs = np.linalg.lstsq(raw / np.linalg.norm(raw, axis=0), outcome, rcond=None)[0] / np.linalg.norm(raw, axis=0)
    condition = np.linalg.cond(raw / np.linalg.norm(raw, axis=0))
    tolerance = 1e-12 * condition * np.abs(theirs * np.linalg.norm(raw, axis=0)).max() / np.linalg.norm(raw, axis=0)
    assert (np.abs(ours[1:] / found.scale - theirs[1:]) <= tolerance[1:]).all()
    assert abs(ours[0] - theirs[0]) <= tolerance[0]  # the mean of the reference at the mean age


@FEW
@given(data=st.data())
def test_columns_of_random_tables_are_products_of_coded_columns(data):
    count = data.draw(st.integers(8, 25))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    names = [f"t{number}" for number in rng.permutation(count)]
    levels = list("pqrs")[: data.draw(st.integers(2, 4))]
    group = np.array(levels * count)[:count]
    x, y = rng.normal(3, 2, count), rng.exponential(1, count)
    formula = data.draw(st.sampled_from(["g + x + y", "g + x * y", "g * x", "x * y + g:x + g"]))
    table = pd.DataFrame({"subject": names, "g": group, "x": x, "y": y})
    if 1 + len(levels) * 2 + 1 > count:
        return
    found = design_of(formula, table.sample(frac=1, random_state=0), names)
    dummies = {f"g[{level}]": (group == level).astype(float) for level in levels[1:]}
    known = dummies | {"x": standardised(x), "y": standardised(y)}
    expected = [np.prod([known[part] for part in name.split(":")], axis=0) for name in found.names]
    np.testing.assert_allclose(found.columns, np.column_stack(expected), rtol=0, atol=1e-14)
    again = found.at(table)
    np.testing.assert_array_equal(again.columns, found.columns)


# ---- levels between tasks and the population


def test_groups_have_members_an_index_and_slopes():
    (level,) = design("condition + (condition + age | mouse)").levels
    assert level.name == "mouse"
    assert level.members == ("m1", "m10", "m2", "m3")
    assert level.index.tolist() == [0, 0, 2, 2, 3, 3, 1, 1]
    assert level.names == ("Intercept", "condition[treated]", "age")
    np.testing.assert_allclose(level.columns, np.column_stack([np.ones(8), TREATED, AGE]), atol=1e-15)


def test_nested_groups_are_two_levels_and_numbers_name_members():
    lab, mouse = design("(1 | lab/mouse)").levels
    assert (lab.name, lab.members, lab.index.tolist()) == ("lab", ("1", "2"), [0] * 4 + [1] * 4)
    assert (mouse.name, mouse.members) == ("lab:mouse", ("1:m1", "1:m2", "2:m10", "2:m3"))
    assert lab.columns.tolist() == [[1.0]] * 8


def test_tasks_may_be_subject_and_condition():
    tasks = [f"{mouse}, {condition}" for mouse, condition in zip(TABLE["mouse"], TABLE["condition"])]
    found = design("condition + (1 | mouse)", TABLE, tasks, task=["mouse", "condition"])
    np.testing.assert_array_equal(found.columns[:, 0], TREATED)
    assert found.levels[0].index.tolist() == [0, 0, 2, 2, 3, 3, 1, 1]


def test_what_rests_on_few_tasks_is_warned_of():
    assert design("site").warnings == ()
    rare = TABLE.assign(site=["east", *TABLE["site"][1:]], mouse=["m0", *TABLE["mouse"][1:]])
    assert design("site", rare).warnings == (
        "only task 'ann' has site 'east', so its effect depends on a single task.",
    )
    (said,) = design("(condition | mouse)", rare).warnings
    assert said.startswith("2 of 5 members of mouse have one task")
    (said,) = design("(1 | task)").warnings
    assert said.startswith("each task has one task")


# ---- tables


@pytest.mark.parametrize("formula", ["site * age", "C(lab) + weight + (condition | mouse)"])
def test_every_kind_of_table_in_any_order_gives_the_same_design(formula):
    found = design(formula)
    shuffled = TABLE.sample(frac=1, random_state=3)
    trials = pd.concat([TABLE, shuffled, TABLE.assign(task=[f"other {task}" for task in TASKS], age=np.nan)])
    for table in (
        shuffled,
        trials,
        pl.from_pandas(shuffled),
        pa.Table.from_pandas(shuffled),
        shuffled.to_dict("list"),
        shuffled.rename(columns={"task": "Subject ID"}).drop(columns="mouse").assign(mouse=shuffled["mouse"]),
        Covariates.of(shuffled, parsed(formula).columns),
    ):
        other = design(formula, table)
        np.testing.assert_array_equal(other.columns, found.columns)
        assert other.names == found.names
        assert [level.members for level in other.levels] == [level.members for level in found.levels]


def test_categories_keep_the_order_that_somebody_gave_them():
    order = ["west", "south", "north", "unused"]
    given_order = [
        TABLE.assign(site=pd.Categorical(TABLE["site"], categories=order)),
        TABLE.assign(site=pd.Categorical(TABLE["site"], categories=order, ordered=True)),
        pl.from_pandas(TABLE).with_columns(pl.col("site").cast(pl.Enum(order))),
    ]
    for table in given_order:
        assert design("site", table).names == ("site[south]", "site[north]")
    accidental = pl.from_pandas(TABLE).with_columns(pl.col("site").cast(pl.Categorical))
    assert design("site", accidental).names == ("site[south]", "site[west]")


def test_truth_values_are_levels():
    found = design("fed", TABLE.assign(fed=TREATED == 1))
    assert found.names == ("fed[True]",)
    np.testing.assert_array_equal(found.columns[:, 0], TREATED)


def test_numbers_as_tasks_are_found_beside_empty_cells_and_after_a_file():
    table = pd.DataFrame({"task": [3.0, 1.0, 2.0, None], "age": [30, 10, 20, 5]}).dropna()
    for tasks in ((1, 2, 3), ("1", "2", "3")):
        np.testing.assert_allclose(design("age", table, tasks).columns[:, 0], [-1, 0, 1])


# ---- new tasks


@pytest.mark.parametrize("formula", [*BY_HAND, "poly(age, 2)", "site + (age | mouse)"])
def test_new_tasks_are_coded_as_those_of_the_fit(formula):
    found = design(formula)
    again = found.at(TABLE.iloc[::-1])
    np.testing.assert_allclose(again.columns[::-1], found.columns, rtol=0, atol=1e-14)
    one = found.at(TABLE.iloc[[2]].drop(columns="task"))
    np.testing.assert_allclose(one.columns, found.columns[[2]], rtol=0, atol=1e-14)


def test_new_members_of_a_group_are_allowed():
    found = design("age + (age | mouse)").at({"age": [5.0, 8.0], "mouse": ["m3", "m99"]})
    assert found.levels[0].index.tolist() == [3, -1]
    np.testing.assert_allclose(found.levels[0].columns, [[1, 0], [1, 3 / TABLE["age"].std()]], atol=1e-15)


# ---- in a model


def test_hierarchical_without_a_formula_is_what_it_was():
    plain = mm.Hierarchical()
    assert record_of(plain) == {"kind": "Hierarchical"}
    assert from_record({"kind": "Hierarchical"}) == plain == mm.Hierarchical("1")
    assert repr(plain) == "Hierarchical()"
    assert hash(plain) == hash(mm.Hierarchical())
    assert not plain.has_covariates
    assert plain.designs(TASKS, ["reward"])["reward"].columns.shape == (8, 0)


FORMULA = {"reward": "condition", "water": "water ~ condition * log(age)", "inverse_temperature": "age + (1 | mouse)"}


def test_each_parameter_has_its_formula():
    found = mm.Hierarchical(FORMULA, TABLE).designs(
        TASKS, ["reward", "inverse_temperature", "lapse"], ["water", "food"]
    )
    assert {name: each.names for name, each in found.items()} == {
        "reward": ("condition[treated]",),
        "inverse_temperature": ("age",),
        "lapse": (),
        "water": ("condition[treated]", "log(age)", "condition[treated]:log(age)"),
        "food": ("condition[treated]",),
    }
    everywhere = mm.Hierarchical("age", TABLE).designs(TASKS, ["reward", "lapse"], ["food"])
    assert {each.names for each in everywhere.values()} == {("age",)}


@pytest.mark.parametrize("formula", ["condition * age", FORMULA])
def test_designs_are_the_same_to_the_last_bit_after_a_file(formula):
    rng = np.random.default_rng(0)
    sharing = mm.Hierarchical(formula, TABLE.assign(age=rng.lognormal(size=8), unused=1.0))
    model = mm.RewardPolicyModel(sharing=sharing)
    again = from_record(json.loads(json.dumps(record_of(model)))).sharing
    assert again == sharing
    assert hash(again) == hash(sharing)
    assert "unused" not in again.covariates.names
    names = ["reward", "inverse_temperature"], ["water"]
    for before, after in zip(sharing.designs(TASKS, *names).values(), again.designs(TASKS, *names).values()):
        np.testing.assert_array_equal(before.columns, after.columns)
        np.testing.assert_array_equal(before.scale, after.scale)
        assert before.names == after.names
