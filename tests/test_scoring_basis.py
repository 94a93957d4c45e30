"""Which choices a score is of: those that an environment, given, estimated or believed in, can score."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import manymotives as mm
from manymotives.scoring import Score
from manymotives.scoring.basis import Basis, basis_warnings, choices_digest, differing
from scoring_examples import QUICK


@pytest.fixture(scope="module")
def seldom():
    """Choices in a known environment, where in some states only one action was ever seen; and the same, estimated."""
    place = mm.worlds.RandomMDP(states=12, actions=3, discount=0.8, seed=1)
    rewards = np.random.default_rng(0).dirichlet(np.full(12, 0.3), size=3)
    data = mm.simulate(place, rewards, mm.Softmax(60.0), steps=8, episodes=6, seed=2)
    return (place, data), mm.estimate_environment(data, discount=0.8)


def test_choices_that_an_estimated_environment_cannot_score_are_counted(seldom, tmp_path):
    (place, data), (estimated, kept) = seldom
    options = {"beside": (), "hold_out": ("episodes", 2), "method": QUICK, "progress": False}
    known = mm.score(mm.RewardPolicyModel(), place, data, **options)
    found = mm.score(mm.RewardPolicyModel(), estimated, kept, **options)
    made = kept.action >= 0
    scored = int((estimated.available.sum(axis=1) > 1)[kept.state[made]].sum())
    assert scored < made.sum() <= data.num_steps == 144
    assert (known.basis.environment, known.basis.held_out, known.basis.scored) == ("given", 144, 144)
    assert not any("not scored" in warning for warning in known.warnings)
    assert found.basis.environment == "estimated from the choices"
    assert (found.basis.held_out, found.basis.scored) == (made.sum(), scored)
    assert found.table["choices"].eq(scored).all()
    says = f"{made.sum() - scored} of {made.sum()} held-out choices are not scored"
    assert any(warning.startswith(says) for warning in found.warnings)
    lost = 144 - int(made.sum())
    assert any(warning.startswith(f"{lost} choices are left out") for warning in found.warnings) == bool(lost)
    assert found.basis.digest != known.basis.digest
    assert f"{scored} of {made.sum()} held-out choices (set {found.basis.digest})" in repr(found)
    assert "environment estimated from the choices" in found._repr_html_()
    found.save(tmp_path / "score.json")
    assert Score.load(tmp_path / "score.json").basis == found.basis
    assert json.loads((tmp_path / "score.json").read_text())["basis"]["scored"] == scored
    found.save(tmp_path / "score.csv")
    assert pd.read_csv(tmp_path / "score.csv")["environment"].eq("estimated from the choices").all()
    assert "cannot be compared with each other" in differing([known.basis, found.basis])
    assert differing([known.basis, known.basis, None]) is None


def test_the_same_choices_are_known_again_whatever_states_are_called(seldom):
    (place, data), _ = seldom
    assert choices_digest(data.with_memory(place.with_memory())) == choices_digest(data)
    turned = mm.Environment.from_frame(place.to_frame().iloc[::-1], discount=0.8)
    again = mm.Demonstrations.from_frame(data.to_frame(), turned, episode="episode", step="step")
    assert again.states != data.states
    assert choices_digest(again) == choices_digest(data)
    other = replace(data, action=np.where(np.arange(len(data.action)) == 3, (data.action + 1) % 3, data.action))
    assert choices_digest(other) != choices_digest(data)


def test_a_belief_that_has_only_seen_actions_says_what_it_cannot_score(seldom):
    (place, data), _ = seldom
    seen = mm.DynamicsBelief.from_demonstrations(data, discount=0.8)
    everything = np.ones(len(data.action), dtype=bool)
    scored = (seen.mean.available.sum(axis=1) > 1)[data.state]
    basis = Basis.of({"MRP": seen}, data, everything, scored)
    assert basis.environment == "inferred together with the rewards"
    assert f"{(~scored).sum()} of 144 held-out choices are not scored" in basis_warnings(seen, data, basis)[0]
    assert not basis_warnings(mm.DynamicsBelief.around(place, 3.0), data, basis)
    two = Basis.of({"one": place, "other": seen}, data, everything, scored)
    assert two.environment == "given; inferred together with the rewards by other"


def test_runs_in_an_environment_known_and_estimated_are_not_compared(seldom):
    (place, data), (estimated, kept) = seldom
    assert np.array_equal(kept.action, data.action)
    one, two = (mm.fit(mm.RewardPolicyModel(), env, kept, QUICK, progress=False) for env in (place, estimated))
    with pytest.raises(
        mm.errors.InputError, match="two was fitted to the same choices in an environment with other"
    ) as said:
        mm.score({"one": one, "two": two}, beside=())
    assert "144 in that of one" in str(said.value)
