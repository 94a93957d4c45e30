"""Moves of the partition given evidences of sets of tasks, against the enumeration of all partitions."""

from itertools import chain as joined
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pytest

import manymotives as mm
from manymotives.inference.mixture.collapsed import move_partition
from manymotives.inference.mixture.evidences import set_of, tasks_in
from manymotives.models.mixture import PartitionPrior, first_seen

TASKS, SWEEPS = 5, 1200


def chain_given(evidence, prior=None):
    """A chain of tasks whose sets have these evidences: a dictionary of logarithms by members."""

    def run(tasks):
        log_evidence = evidence[tuple(tasks_in(tasks))]
        return SimpleNamespace(log_evidence=log_evidence, drawn=lambda rng: np.zeros(1), mean=np.zeros(1))

    runs = {set_of(members): run(set_of(members)) for members in sets()}
    found = SimpleNamespace(
        of=runs.__getitem__,
        log_evidence=lambda tasks: runs[tasks].log_evidence,
        has=lambda tasks: False,
        run=lambda tasks, seed: runs[tasks],
        refresh=lambda tasks, seed, run: None,
    )
    table = np.random.default_rng(1).normal(size=(TASKS, TASKS)) * 10.0
    return SimpleNamespace(
        rng=np.random.default_rng(0),
        label=np.zeros(TASKS, dtype=np.int64),
        prior=prior or PartitionPrior(mm.FiniteNumber(), TASKS),
        alpha=1.0,
        rest=None,
        away=None,
        evidences=found,
        likeness=None,
        likelihoods=SimpleNamespace(table=lambda rewards, rest, away: table),
    )


def sets():
    return joined.from_iterable(combinations(range(TASKS), size) for size in range(1, TASKS + 1))


def exact(chain, evidence):
    """p(z | choices) of every partition."""
    labels = {tuple(first_seen(np.array(label))) for label in np.ndindex(*[TASKS] * TASKS)}
    log_p = {
        label: chain.prior.log_prior(np.bincount(label), chain.alpha)
        + sum(evidence[tuple(np.flatnonzero(np.array(label) == k))] for k in range(max(label) + 1))
        for label in labels
    }
    largest = max(log_p.values())
    total = sum(np.exp(value - largest) for value in log_p.values())
    return {label: np.exp(value - largest) / total for label, value in log_p.items()}


def errors_of(chain, evidence):
    """How many standard errors the shares of partitions in a chain are from what they should be."""
    drawn = []
    for _ in range(SWEEPS):
        move_partition(chain)
        drawn.append(tuple(first_seen(chain.label)))
    blocks = np.array_split(np.arange(SWEEPS), 20)
    errors = []
    for label, p in exact(chain, evidence).items():
        here = np.array([each == label for each in drawn], dtype=float)
        if p > 0.005:
            error = np.std([here[block].mean() for block in blocks], ddof=1) / np.sqrt(len(blocks))
            errors.append((here.mean() - p) / np.hypot(error, np.sqrt(p * (1 - p)) / SWEEPS))
    return np.array(errors)


@pytest.mark.parametrize(
    "motives", [mm.FiniteNumber(), 3, mm.DirichletProcess(1.0)], ids=["finite", "three", "process"]
)
def test_against_the_enumeration(motives):
    rng = np.random.default_rng(7)
    evidence = {members: 1.5 * rng.normal() for members in sets()}
    chain = chain_given(evidence, PartitionPrior(motives, TASKS))
    errors = errors_of(chain, evidence)
    assert len(errors) > 5
    assert abs(errors).max() < 4.5, errors


def test_two_motives_that_no_single_task_can_leave():
    """{0, 1, 2, 3} or {0, 1} and {2, 3}: whatever lies between them has no probability, as in a published problem."""
    evidence = dict.fromkeys(sets(), -60.0)
    evidence |= {(0, 1, 2, 3): 0.0, (0, 1): 0.0, (2, 3): 0.5, (4,): 0.0}
    chain = chain_given(evidence)
    assert abs(errors_of(chain, evidence)).max() < 4.5
    assert exact(chain, evidence)[0, 0, 1, 1, 2] > 0.1


def test_two_tasks_that_only_move_together():
    """{0, 1, 2} and {3}, or {0} and {1, 2, 3}: with one of the two in the middle on its own, nothing is left."""
    evidence = dict.fromkeys(sets(), -60.0)
    evidence |= {(0, 1, 2): 0.0, (3,): 0.0, (0,): 0.0, (1, 2, 3): 0.7, (4,): 0.0}
    chain = chain_given(evidence)
    assert abs(errors_of(chain, evidence)).max() < 4.5
    assert exact(chain, evidence)[0, 0, 0, 1, 2] > 0.1
