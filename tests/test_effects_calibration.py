"""Simulation-based calibration of effects of covariates: truth from the prior, choices, ranks; with a control."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import manymotives as mm
from effects_examples import chosen, two_states
from goodness_of_fit import SIGNIFICANCE
from manymotives.assessment.calibration import Calibration
from manymotives.inference.draws import sample

FEATURE = np.array([[1.0], [-0.5]])
TASKS = tuple(range(8))
CONDITIONS = ["no", "yes"] * 4
TABLES = {
    "between": ("condition", {"task": list(TASKS), "condition": CONDITIONS}),
    "within": (
        "condition + (1 | subject)",
        {"task": list(TASKS), "condition": CONDITIONS, "subject": [f"s{m // 2}" for m in TASKS]},
    ),
}


def target_of(design, conditions, effect_scale=1.0):
    """Eight tasks, four of them treated, without choices."""
    formula, table = TABLES[design]
    sharing = mm.Hierarchical(formula, covariates=table | {"condition": conditions}, effect_scale=effect_scale)
    reward = mm.GaussianReward(FEATURE, mean=mm.Normal(0.0, 1.0), scale=mm.HalfNormal(0.7))
    model = mm.RewardPolicyModel(reward, mm.SoftOptimal(2.0), sharing)
    return model.target(two_states(), TASKS, np.zeros((8, 2, 2)))


def quantities(target, tasks, hyper, effects):
    """What is ranked, [draw] each."""
    coefficients = target.effects.coefficients(*effects)
    found = {"mean": hyper[:, 0, 0], "scale": hyper[:, 0, 1], "effect": coefficients[:, 0, 0]}
    found |= {"weight": tasks[:, 1, 0]}
    if target.effects.num_slopes:
        found |= {"spread": effects[1][:, 0, 0], "member": coefficients[:, 1, 0]}
    return found


def ranks(design, method, seeds, steps=30, fitted=CONDITIONS, effect_scale=1.0):
    """Of the truth among draws, for each of these seeds; `fitted`: the conditions that the fit is told."""
    rows, true, told = [], *(target_of(design, each, effect_scale) for each in (CONDITIONS, fitted))
    for seed in seeds:
        rng = np.random.default_rng([seed, 7])
        effects, hyper = true.effects.draw(rng), true.draw_hyper(rng, 1)
        u = true.draw_tasks(rng, hyper)[0] + true.effects.offsets(true.effects.coefficients(*effects))
        choices = mm.simulate(two_states(), true.rewards(u), mm.SoftOptimal(2.0), steps=steps, seed=seed)
        draws = sample(method, replace(told, counts=choices.counts.astype(float)), seed=seed)
        truth = quantities(true, u[None], hyper, tuple(each[None] for each in effects))
        drawn = quantities(told, draws.tasks[0], draws.hyper[0], tuple(each[0] for each in draws.effects))
        rows.append(
            {name: ((drawn[name] < truth[name]).sum() + rng.random()) / (len(drawn[name]) + 1) for name in drawn}
        )
    return Calibration(pd.DataFrame(rows))


def test_a_few_data_sets_show_nothing_grossly_wrong():
    """Ten data sets and short chains: only a mistake as gross as a wrong sign would be seen."""
    found = ranks("within", chosen(mm.Gibbs, 19, 20, 1, 1), range(10))
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
@pytest.mark.parametrize("method", [mm.HMC, mm.Gibbs])
@pytest.mark.parametrize("design", TABLES)
def test_ranks_are_uniform(design, method):
    found = ranks(design, chosen(method, 49, 80, 4, 1), range(500))
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
def test_the_control_that_is_told_wrong_conditions_fails():
    wrong = ["no"] * 4 + ["yes"] * 4
    found = ranks("between", chosen(mm.HMC, 49, 80, 2, 1), range(60), steps=100, fitted=wrong, effect_scale=3.0)
    assert found.p_value < 1e-4, found


def model_of(design, conditions=CONDITIONS, effect_scale=1.0):
    formula, table = TABLES[design]
    sharing = mm.Hierarchical(formula, covariates=table | {"condition": conditions}, effect_scale=effect_scale)
    reward = mm.GaussianReward(FEATURE, mean=mm.Normal(0.0, 1.0), scale=mm.HalfNormal(0.7))
    return mm.RewardPolicyModel(reward, mm.SoftOptimal(2.0), sharing)


def test_calibrate_draws_effects_and_ranks_them():
    found = mm.calibrate(
        model_of("within"), two_states(), chosen(mm.Gibbs, 9, 10, 1, 1), steps=10, seeds=range(6), progress=False
    )
    assert {"effect of condition[yes] on 0", "spread of subject on 0", "reward mean 0"} <= set(found.ranks)
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
def test_calibrate_sees_covariates_that_the_fit_is_told_wrong():
    wrong = model_of("between", ["no"] * 4 + ["yes"] * 4, effect_scale=3.0)
    true = model_of("between", effect_scale=3.0)
    method = chosen(mm.HMC, 49, 80, 2, 1)
    found = mm.calibrate(wrong, two_states(), method, truth=true, steps=100, seeds=range(60), progress=False)
    assert found.p_value < 1e-4, found


def test_recover_simulates_tasks_with_their_covariates():
    found = mm.recover(
        model_of("between", effect_scale=20.0),
        two_states(),
        steps=5,
        method=chosen(mm.Gibbs, 5, 5, 1),
        seed=1,
        progress=False,
    )
    assert list(found.posterior.tasks) == [str(task) for task in TASKS]
    treated = np.array(CONDITIONS) == "yes"
    between = abs(found.rewards[treated].mean(0) - found.rewards[~treated].mean(0))
    assert between[0] > 3 * found.rewards[treated].std(0)[0]  # by the covariate, whose effect is large
