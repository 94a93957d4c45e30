"""Simulation-based calibration in two environments with shared names; swapped environments must be seen."""

from dataclasses import dataclass

import pytest

import manymotives as mm
from cases import seeds_from
from environments_examples import BOTH, LEFT, RIGHT
from goodness_of_fit import SIGNIFICANCE

QUICK = mm.HMC(chains=1, draws=40, warmup=50, thin=2, max_rounds=1)
SIZE = {"tasks": 3, "steps": 15, "progress": False}
REWARDS = {
    "Dirichlet": mm.DirichletReward(mm.Gamma(shape=3.0, rate=2.0)),
    "Beta": mm.BetaReward(mm.Gamma(shape=3.0, rate=2.0), mm.Gamma(shape=3.0, rate=2.0)),
    "Gaussian": mm.GaussianReward(mean=mm.Normal(mean=0.0, scale=1.0), scale=mm.HalfNormal(scale=1.0)),
}
GAUSSIAN = mm.GaussianReward(mean=0.0, scale=1.0)


@dataclass(frozen=True, eq=False)
class Swapped(mm.RewardPolicyModel):
    """The same model, which may take each environment for the other."""

    swaps: bool = False

    def target(self, environment, tasks, counts):
        if self.swaps:  # same names and actions, other transitions
            environment = mm.Environments({"left": SAME_ACTIONS["right"], "right": SAME_ACTIONS["left"]})
        return super().target(environment, tasks, counts)


SAME_ACTIONS = {
    name: mm.Environment(each.tensor, discount=0.8, states=each.states, actions=["a", "b"])
    for name, each in (("left", LEFT), ("right", RIGHT))
}


@pytest.mark.long
def test_the_truth_is_one_more_draw_in_two_environments():
    model = mm.RewardPolicyModel(REWARDS["Gaussian"], mm.Softmax(2.0))
    found = mm.calibrate(model, BOTH, QUICK, seeds=seeds_from(5, 40), **SIZE)
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
@pytest.mark.parametrize("rule", [mm.Softmax, mm.SoftOptimal])
@pytest.mark.parametrize("reward", REWARDS)
def test_the_truth_is_one_more_draw_at_length(reward, rule):
    found = mm.calibrate(mm.RewardPolicyModel(REWARDS[reward], rule()), BOTH, QUICK, seeds=seeds_from(6, 500), **SIZE)
    assert found.p_value > SIGNIFICANCE, found


@pytest.mark.long
def test_swapped_environments_are_seen():
    size = {"tasks": 1, "steps": 60, "progress": False, "seeds": seeds_from(7, 80)}
    honest = Swapped(GAUSSIAN, mm.Softmax(3.0), mm.Separate())
    wrong = Swapped(GAUSSIAN, mm.Softmax(3.0), mm.Separate(), swaps=True)
    assert mm.calibrate(honest, SAME_ACTIONS, QUICK, **size).p_value > SIGNIFICANCE
    assert mm.calibrate(wrong, SAME_ACTIONS, QUICK, truth=honest, **size).p_value < 1e-6
