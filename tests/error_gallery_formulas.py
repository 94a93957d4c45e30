"""The fourth room of the gallery of errors: formulas and covariates."""

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import manymotives as mm
from error_gallery_data import CHAIN, CHAIN_DATA, VAGUE
from manymotives.commands.covariates import Asked, asked_covariates, check_covariates, with_covariates
from manymotives.commands.discount import with_depth, with_discount_prior
from manymotives.commands.inputs import Inputs
from manymotives.inference.checks import check_state
from manymotives.inference.mcmc.effects import EffectSampler
from manymotives.io.columns import Columns, covariate_task_columns
from manymotives.models.covariates import Covariates
from manymotives.models.designs import design_of
from manymotives.models.formulas import parsed

MICE = pd.DataFrame(
    {
        "task": ["ann", "bob", "cid", "dot", "eve", "fay"],
        "condition": ["control", "treated"] * 3,
        "age": [3.0, 4.0, 6.0, 9.0, 11.0, 12.0],
        "months": [36.0, 48.0, 72.0, 108.0, 132.0, 144.0],
        "mouse": ["a", "a", "b", "b", "c", "c"],
        "weight": [20.0, 21.0, None, 22.0, 20.5, 19.0],
        "dose": ["1", "2", "1.5", "1", "2", "1.5"],
        "length": [8.0, 9.0, np.inf, 8.0, 9.0, 8.5],
        "site": "north",
        "eyes": 2,
        "born": pd.date_range("2026-01-01", periods=6),
    }
)
TASKS = tuple(MICE["task"])
TRIALS = pd.DataFrame({"task": ["ann", "bob", "ann"], "age": [3.0, 4.0, 5.0]})
FEW = mm.Gibbs(chains=1, draws=5, warmup=2, thin=1)

SUBJECTS = Path("subjects.csv")
ASKED = Asked(SUBJECTS, "age", 1.0)
CALLED = Columns(task="mouse", state="state", action="action", next_state=None, episode=None, step=None)
BELIEF = mm.DynamicsBelief(np.ones((2, 2, 2)), discount=0.9)


def inputs(dynamics, columns):
    """What the command line has read."""
    return Inputs(dynamics, CHAIN_DATA, columns, False, False, (), None)


def design(formula, covariates=MICE, tasks=TASKS, **options):
    return design_of(formula, covariates, tasks, **options)


def refused(**parts):
    """Covariates as a spoilt file may hold them."""
    return Covariates(**{"tasks": ["ann"], "names": ["age"], "values": [[3.0]], "levels": [None]} | parts)


def of_age(**parts):
    return mm.RewardPolicyModel(sharing=mm.Hierarchical("age", MICE), **parts)


@functools.cache
def fitted(method=None, environment=CHAIN, **parts):
    """The same posterior for the same arguments: nobody changes it."""
    return mm.fit(of_age(**parts), environment, CHAIN_DATA, method, progress=False)


def resumed(name, values):
    """From a state that a file spoilt."""
    target = of_age().bind(CHAIN, CHAIN_DATA)
    state = EffectSampler(target).saved()
    arrays = {word: array[None] for word, array in state.items() if word != name}
    check_state(arrays if values is None else arrays | {name: values}, target)


FORMULAS = {
    # ---- the text of a formula
    "a formula in numbers": lambda: parsed(7),
    "an empty formula": lambda: parsed(" "),
    "a formula without an end": lambda: parsed("condition + "),
    "a formula with a sign of another language": lambda: parsed("condition % age"),
    "a formula without a sign": lambda: parsed("condition age"),
    "a formula with a parenthesis too many": lambda: parsed("condition * (age))"),
    "a formula as long as a book": lambda: parsed("age + " * 200 + "age"),
    "a formula of nothing but parentheses": lambda: parsed("(" * 300 + "age" + ")" * 300),
    "a formula of a million terms": lambda: parsed("*".join("abcdefghijklmnopqrst")),
    "a formula without an intercept": lambda: parsed("0 + condition"),
    "a group without an intercept": lambda: parsed("(0 + age | mouse)"),
    "a group without parentheses": lambda: parsed("1 | mouse"),
    "a group times a column": lambda: parsed("(1 | mouse) * age"),
    "a group by a function": lambda: parsed("(1 | log(mouse))"),
    "a number as a term": lambda: parsed("age + 2"),
    "a power of a column": lambda: parsed("age**2"),
    "a formula that runs a program": lambda: parsed("os.system('rm')"),
    "a factor inside arithmetic": lambda: parsed("I(C(condition) + 1)"),
    "a function of nothing": lambda: parsed("log(2)"),
    "a function of two": lambda: parsed("log(age, 2)"),
    "arithmetic with text": lambda: parsed("I(age + 'two')"),
    "a comparison in a formula": lambda: parsed("I(age > 3)"),
    "a polynomial of no degree": lambda: parsed("poly(age)"),
    "a factor of a function": lambda: parsed("C(log(age))"),
    "another coding of factors": lambda: parsed("C(condition, Sum)"),
    "an outcome on the left": lambda: parsed("reward ~ condition"),
    "another outcome on the left": lambda: parsed("lapse ~ condition", "reward"),
    # ---- tables of covariates
    "covariates that are no table": lambda: design("age", 7),
    "covariates of several lengths": lambda: design("age", {"task": ["ann"], "age": [1.0, 2.0]}),
    "covariates of nobody": lambda: design("age", MICE[["age"]]),
    "covariates by an unknown column": lambda: design("age", task="rat"),
    "covariates by a number": lambda: mm.Hierarchical("age", MICE, task=7),
    "a covariate that is not there": lambda: design("agee"),
    "a task without covariates": lambda: design("age", tasks=("ann", "gus")),
    "a row of covariates for nobody": lambda: design("age", MICE.assign(task=[None, *TASKS[1:]])),
    "a covariate that changes": lambda: design("age", TRIALS, ("ann", "bob")),
    "a covariate that is missing": lambda: design("weight"),
    "a covariate that is infinite": lambda: design("length"),
    "a covariate that is a date": lambda: design("born"),
    "numbers written as text": lambda: design("dose"),
    "the logarithm of text": lambda: design("log(condition)"),
    "the logarithm of zero": lambda: design("log(I(age - 3))"),
    "covariates that a file spoilt": lambda: refused(values=[[3.0, 4.0]]),
    # ---- what tasks cannot show
    "a constant covariate": lambda: design("eyes"),
    "a factor with one level": lambda: design("site"),
    "an unknown reference": lambda: design("C(condition, 'contrl')"),
    "a polynomial of few values": lambda: design("poly(mice, 3)", MICE.assign(mice=[1, 2, 3, 1, 2, 3])),
    "collinear covariates": lambda: design("condition + age + months"),
    "a cell that no task is in": lambda: design(
        "condition * side", MICE.assign(side=["left", "left", "right", "left", "right", "left"])
    ),
    "more coefficients than tasks": lambda: design("condition * age * (mouse)"),
    "a group with one member": lambda: design("(1 | site)"),
    "a slope that no member shows": lambda: design("(arm | mouse)", MICE.assign(arm=list("aabbaa"))),
    "members of one name": lambda: design("(1 | lab:mouse)", MICE.assign(lab=["x:y", "x"] * 3, mouse=["z", "y:z"] * 3)),
    "new tasks of an unknown level": lambda: design("condition").at({"condition": ["sham"]}),
    "new tasks without a covariate": lambda: design("condition + age").at({"condition": ["control"]}),
    "new tasks with a gap": lambda: design("age").at({"age": [3.0, None]}),
    # ---- on the command line
    "a prior of a discount in words": lambda: with_discount_prior(mm.RewardPolicyModel(), "far"),
    "a discount of MPO": lambda: with_discount_prior(mm.PolicyOptimalityModel(), "9,1"),
    "a discount beside motives that switch": lambda: with_discount_prior(
        mm.RewardPolicyModel(switching=mm.Switching()), "9,1"
    ),
    "a depth of MPO": lambda: with_depth(mm.PolicyOptimalityModel(), 3),
    "a depth beside motives that switch": lambda: with_depth(mm.RewardPolicyModel(switching=mm.Switching()), 3),
    "a depth of no step on the command line": lambda: with_depth(mm.RewardPolicyModel(), 0),
    "formulas of no table": lambda: asked_covariates(None, ["age"], None),
    "a scale of no effects": lambda: asked_covariates(None, None, 2.0),
    "a table that no formula uses": lambda: asked_covariates(SUBJECTS, None, None),
    "effects of no size": lambda: asked_covariates(SUBJECTS, ["age"], 0.0),
    "a formula of no parameter among others": lambda: asked_covariates(SUBJECTS, ["lapse ~ age", "condition"], None),
    "a parameter with two formulas": lambda: asked_covariates(SUBJECTS, ["lapse ~ age", "lapse ~ mouse"], None),
    "covariates of a pooled model": lambda: check_covariates("rp", None, None, switches=False),
    "covariates of motives that switch": lambda: check_covariates("mrp", None, None, switches=True),
    "covariates of smooth rewards": lambda: check_covariates("mrp", None, "smooth", switches=False),
    "covariates by a first look": lambda: check_covariates("mrp", "empirical-bayes", None, switches=False),
    "covariates of others": lambda: covariate_task_columns(["age", "site"], CALLED, "subjects.csv"),
    "covariates of an unknown environment": lambda: with_covariates(None, ASKED, inputs(BELIEF, CALLED)),
    "covariates without subjects": lambda: with_covariates(None, ASKED, inputs(CHAIN, CALLED._replace(task=None))),
    "a formula of no column": lambda: with_covariates(None, replace(ASKED, formula="1"), inputs(CHAIN, CALLED)),
    "effects of no posterior": lambda: mm.findings.effects(7),
    # ---- in a model
    "a formula without covariates": lambda: mm.Hierarchical("age"),
    "covariates without a formula": lambda: mm.Hierarchical(covariates=MICE),
    "formulas that are no mapping": lambda: mm.Hierarchical(["age"], MICE),
    "a formula for an unknown parameter": lambda: mm.Hierarchical({"laps": "age"}, MICE).designs(
        TASKS, ["reward", "inverse_temperature", "lapse"]
    ),
    "covariates of optimal policies": lambda: mm.PolicyOptimalityModel(sharing=mm.Hierarchical("age", MICE)),
    # ---- what cannot be done with covariates yet
    "modes with covariates": lambda: fitted(mm.EmpiricalBayes()),
    "importance sampling with covariates": lambda: fitted(mm.MonteCarlo(draws=10)),
    "nested importance sampling with covariates": lambda: fitted(mm.NestedMonteCarlo(draws=10)),
    "a device with covariates": lambda: fitted(mm.HMC(device="cpu")),
    "motives that switch with covariates": lambda: fitted(switching=mm.Switching(2)),
    "covariates in an unknown environment": lambda: fitted(environment=VAGUE),
    "smooth rewards with covariates": lambda: fitted(reward=mm.SmoothReward()),
    "held-out tasks with covariates, reweighted": lambda: mm.score(fitted(FEW), hold_out="tasks", method="psis"),
    "new subjects with covariates of no use": lambda: mm.fit(
        mm.RewardPolicyModel(), CHAIN, CHAIN_DATA, FEW, progress=False
    ).population(covariates={"age": 1.0}),
    "effects without covariates": lambda: mm.fit(
        mm.RewardPolicyModel(), CHAIN, CHAIN_DATA, FEW, progress=False
    ).effects(),
    "an equivalence below zero": lambda: fitted(FEW).effects(equivalence=-1),
    "an equivalence in words": lambda: fitted(FEW).effects(equivalence="small"),
    "a contrast without covariates": lambda: mm.fit(
        mm.RewardPolicyModel(), CHAIN, CHAIN_DATA, FEW, progress=False
    ).contrast({"age": 1}, {"age": 2}),
    "contrasts of no posterior": lambda: mm.findings.contrasts(7),
    "a contrast of words": lambda: fitted(FEW).contrast("old", "young"),
    "a contrast with one side": lambda: fitted(FEW).contrast({"age": 1.0}, {"sex": "f"}),
    "a contrast of an unknown covariate": lambda: fitted(FEW).contrast({"aeg": 1.0}, {"aeg": 2.0}),
    "predictions at no covariates": lambda: fitted(FEW).predict_at({"age": []}),
    "predictions at a number": lambda: fitted(FEW).predict_at(7),
    "predictions from no draw": lambda: fitted(FEW).predict_at({"age": [1.0]}, draws=0),
    "predictions of no level": lambda: fitted(FEW).predict_at({"age": [1.0]}, level=2.0),
    "effects that a file lost": lambda: resumed("effects_step_size", None),
    "effects of another size": lambda: resumed("effects_z", np.zeros((1, 2, 3))),
}
