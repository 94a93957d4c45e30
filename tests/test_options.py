"""What the library says in Python's terms is said on the command line in its own; advice fits what ended a run."""

import numpy as np
import pytest

import manymotives as mm
from manymotives.commands.options import in_options
from manymotives.inference.diagnostics import Mixing, remedy


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Raise `max_rounds`, or `draws`.", "Raise --max-rounds, or --draws."),
        ('Score it without method="psis".', "Score it without --method none."),
        (
            'under Separate() nothing is known; hold_out=("tasks", 1).',
            "under --model separate nothing is known; --hold-out subjects --first 1.",
        ),
        ('Use rewards on pairs (on="state_action").', "Use rewards on pairs (--on pairs)."),
        ("Fit a model with sharing=mm.Mixture().",) * 2,  # code
        ("MonteCarlo() is no NestedMonteCarlo()", "--method monte-carlo is no --method nested"),
        ("Give the reward a prior, such as GaussianReward(mean=0.0).",) * 2,  # there is no option for it
    ],
)
def test_arguments_become_options(said, expected):
    assert in_options(said) == expected


def test_advice_names_what_ended_the_run():
    hmc = mm.HMC(draws=100, max_rounds=3)
    assert remedy(hmc, 300) == "Raise `max_rounds`, or `draws`."
    assert remedy(hmc, 200) == "Let the run continue."  # interrupted, or a checkpoint
    assert remedy(mm.HMC(draws=100, device="cpu"), 100) == "Raise `draws`."
    assert remedy(mm.Gibbs(), 1000) == "Raise `thin` or `draws`."


def test_a_limit_of_r_hat_is_never_below_one():
    assert str(Mixing((), 0.999, 500.0, 450.0)).startswith("R-hat ≤ 1.000, effective draws ≥ 500")
    assert str(Mixing((), 1.0042, 500.0, 450.0)).startswith("R-hat ≤ 1.004,")
    assert "R-hat" not in str(Mixing((), np.nan, 500.0, 450.0))
