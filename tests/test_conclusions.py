"""The closing lines of the command `fit`: mixing, what is wanted most or too close to tell, effects that are clear."""

import numpy as np
import pytest
import xarray as xr

import manymotives as mm
from manymotives.commands.conclusions import found_and_said
from manymotives.commands.ranking import ranked, said_most

CORRIDOR = mm.worlds.Chain(states=4, discount=0.9)
FEATURES = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.5], [0.0, 1.0, 0.0]])
NAMES = ["food", "water", "toy"]
QUICK = mm.Metropolis(chains=2, draws=300, warmup=200, thin=2)
WANTED = np.array([[3.0, 0.0, 0.0], [0.0, 3.0, 0.0]] * 3)


def choices(weights):
    return mm.simulate(CORRIDOR, weights @ FEATURES.T, mm.Softmax(1.0), steps=150, seed=0)


def fitted(sharing, weights=WANTED):
    model = mm.RewardPolicyModel(mm.GaussianReward(features=FEATURES, names=NAMES), mm.Softmax(1.0), sharing)
    return mm.fit(model, CORRIDOR, choices(weights), QUICK, progress=False)


def drawn(*columns, dim="feature", names=NAMES):
    values = np.stack(columns, axis=-1)[None]
    return xr.DataArray(values, dims=("chain", "draw", dim), coords={dim: names[: len(columns)]})


def test_what_is_too_close_is_not_stated_as_a_fact():
    rng = np.random.default_rng(0)
    high, same, low = rng.normal(1.43, 0.1, 500), rng.normal(1.43, 0.1, 500), rng.normal(-1.0, 0.1, 500)
    assert said_most(*ranked(None, drawn(high, low))) == "wants most food"
    assert said_most(*ranked(None, drawn(low, high))) == "wants most water"
    tied = said_most(*ranked(None, drawn(high, same, low)))
    assert tied in ("wants most food or water (too close to tell)", "wants most water or food (too close to tell)")
    assert said_most(*ranked(None, drawn(low))) == "avoids food"
    assert said_most(*ranked(None, drawn(high)), verb="want") == "seek food"
    assert said_most(*ranked(None, drawn(low - low.mean()))) == "seeks or avoids food (too close to tell)"
    many = drawn(*rng.normal(size=(6, 500)), names=list("abcdef"))
    assert said_most(*ranked(None, many)).endswith(" or 4 others (too close to tell)")


def test_features_are_named_and_mixing_is_said():
    posterior = fitted(mm.Hierarchical())
    found, lines = found_and_said(posterior)
    assert found["wants_most"] == {str(task): NAMES[m % 2] for m, task in enumerate(posterior.tasks)}
    assert f"  {posterior.tasks[0]}: wants most food" in lines
    posterior.data.attrs["mixing"] = "R-hat ≤ 1.006, effective draws ≥ 933"
    assert found_and_said(posterior)[1][0] == "  mixed: R-hat ≤ 1.006, effective draws ≥ 933"


def test_subjects_with_one_reward_have_one_line():
    found, lines = found_and_said(fitted(mm.Pooled(), WANTED[[0, 0]]))
    assert len(found["wants_most"]) == 2
    assert "  all subjects: want most food" in lines


@pytest.mark.parametrize("reward", [mm.DirichletReward(), mm.DirichletReward(on="state_action")])
def test_states_are_named_where_there_are_no_features(reward):
    data = mm.simulate(CORRIDOR, np.eye(4)[[0, 3]], mm.Softmax(8.0), steps=200, seed=0)
    found, _ = found_and_said(mm.fit(mm.RewardPolicyModel(reward), CORRIDOR, data, QUICK, progress=False))
    assert set(found["wants_most"].values()) <= set(map(str, CORRIDOR.states))


def test_effects_that_are_clear_are_named_and_covariates_without_any_too():
    tasks = [str(name) for name in choices(WANTED).tasks]
    table = {"task": tasks, "diet": ["fed", "hungry"] * 3, "age": [3.0, 3.0, 5.0, 5.0, 4.0, 4.0]}
    found, lines = found_and_said(fitted(mm.Hierarchical("diet + age", table)))
    clear = {(row["term"], row["on"]) for row in found["clear_effects"]}
    assert ("diet[hungry]", "water") in clear
    assert any(line.startswith("  effect of diet[hungry] on water: +") for line in lines)
    assert "  no effect of age is clear" in lines
