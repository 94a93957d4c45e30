"""Moves of the partition given the rewards of tasks around their motives, against the enumeration of all partitions."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import manymotives as mm
from manymotives.inference.mixture import spread
from manymotives.models.mixture import PartitionPrior, first_seen

TASKS, SWEEPS = 5, 2000
MEAN, SCALE, SPREAD = np.array([0.5, -1.0]), np.array([1.0, 2.0]), 0.6
OWN = np.array([[0.1, -2.0], [0.9, -0.5], [1.3, -0.8], [1.6, 0.3], [0.2, -1.1]])


def exact(prior):
    """p(z | rewards): tasks of one motive have normal rewards, whose covariances are the motive's variance."""
    labels = {tuple(first_seen(np.array(label))) for label in np.ndindex(*[TASKS] * TASKS)}
    log_p = {}
    for label in labels:
        log_p[label] = prior.log_prior(np.bincount(label), 1.0)
        for k in range(max(label) + 1):
            mine = OWN[np.array(label) == k]
            for d in range(2):
                covariance = SCALE[d] ** 2 + SPREAD**2 * np.eye(len(mine))
                log_p[label] += multivariate_normal.logpdf(mine[:, d], np.full(len(mine), MEAN[d]), covariance)
    share = np.exp(np.array(list(log_p.values())) - max(log_p.values()))
    return dict(zip(log_p, share / share.sum(), strict=True))


@pytest.mark.parametrize(
    ("motives", "moves"),
    [(mm.FiniteNumber(), "all"), (mm.FiniteNumber(), "splits"), (mm.DirichletProcess(1.0), "splits"), (3, "splits")],
    ids=str,
)
def test_partitions_given_rewards(motives, moves, monkeypatch):
    if moves != "all":
        monkeypatch.setattr(spread, "reassign", lambda *given: None)
    prior = PartitionPrior(motives, TASKS)
    chain = SimpleNamespace(
        rng=np.random.default_rng(0),
        label=np.zeros(TASKS, dtype=np.int64),
        motives=np.zeros((1, 2)),
        away=OWN.copy(),
        parameters=np.column_stack([MEAN, SCALE]),
        log_spread=np.log(SPREAD),
        alpha=1.0,
        prior=prior,
    )
    seen = []
    for _ in range(SWEEPS):
        spread.move_partition(chain)
        np.testing.assert_allclose(chain.motives[chain.label] + chain.away, OWN)
        seen.append(tuple(chain.label))
    batches = np.array_split(np.arange(SWEEPS), 40)
    for label, probability in exact(prior).items():
        is_here = np.array([each == label for each in seen], dtype=float)
        means = [is_here[batch].mean() for batch in batches]
        error = np.std(means) / np.sqrt(40) + 1e-3
        assert abs(is_here.mean() - probability) < 4.5 * error, label
