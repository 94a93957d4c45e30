"""Could the model have made these choices? Replicated choices against those observed, in the states that were visited.

For each draw of the posterior, every choice is made again with that draw's policy. Three questions, each with the share
p of draws in which the replication is at least as far off as the data:

    how predictable  log-likelihood of a subject's choices; p is the share of replications less likely than the data
    how different    Freeman and Tukey's Σ (√n − √(N π))² over actions: of a subject, of a state, of everything
    how repetitive   how often the action is that of the step before: the model has no memory, subjects may

A p near 0 is a misfit; for predictability one near 1 is, too. The data were used to fit, so p is cautious.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from manymotives.errors import InputError
from manymotives.findings.sample import Sample, sample_of
from manymotives.posterior import Posterior

SMALLEST = 1e-12  # a probability


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """Observed choices compared with replicated ones."""

    p_value: float  # of the distance between choices and policy, over everything
    subjects: pd.DataFrame  # task, choices, observed, lower, upper (nats a choice), p_likelihood, p_distance
    states: pd.DataFrame  # state, choices, p_distance
    shares: pd.DataFrame  # state, action, choices, observed, expected, lower, upper: all subjects together
    repeats: dict[str, float] | None  # observed, lower, upper, p: share of steps that repeat the action before
    draws: int

    def __repr__(self) -> str:
        outside = (self.shares["observed"] < self.shares["lower"]) | (self.shares["observed"] > self.shares["upper"])
        lines = [
            f"Choices compared with {self.draws:,} replications: p = {self.p_value:.2f} (a value near 0 means that the "
            "model misses something)",
            f"  {int(outside.sum()):,} of {len(outside):,} shares of an action in a state lie outside their 95 % "
            f"interval; about {0.05 * len(outside):.0f} would by chance",
        ]
        if self.repeats is not None:
            observed, lower, upper = (f"{100 * self.repeats[word]:.1f} %" for word in ("observed", "lower", "upper"))
            lines.append(f"  repeats of the previous action: {observed} of steps; the model expects {lower} to {upper}")
        return "\n".join([*lines, "  Tables: subjects, states, shares."])


def predictive_check(posterior: Posterior | Sample, *, seed: int = 0) -> PredictiveCheck:
    """A posterior predictive check: observed choices compared with choices that the posterior predicts in the same
    states.

    Parameters
    ----------
    posterior
        A posterior, from `fit` or `load`.
    seed
        Seed of the replications.

    Returns
    -------
    PredictiveCheck
        `p_value` over everything; tables of `subjects`, `states` and `shares`.
    """
    sample = posterior if isinstance(posterior, Sample) else sample_of(posterior)
    policies = sample.policies
    if policies is None:
        raise InputError(
            "this posterior has no policies to replicate choices with, because there were too many to keep. "
            "Fit with fewer draws."
        )
    rng = np.random.default_rng(seed)
    counts = sample.posterior.data["observed_data"].dataset["counts"]
    observed = counts.values
    made = observed.sum(axis=2)
    again = _repeatable(sample)
    found: dict[str, list[Any]] = {}

    def keep(**values: Any) -> None:
        for name, value in values.items():
            found.setdefault(name, []).append(value)

    for policy in policies:
        policy = np.broadcast_to(policy, observed.shape)
        replicated = rng.multinomial(made, _summing_to_one(policy))
        log_policy = np.log(np.maximum(policy, SMALLEST))
        distance, rival = (_distances(n, made, policy) for n in (observed, replicated))
        keep(
            likelihood=(observed * log_policy).sum(axis=(1, 2)),
            replicated_likelihood=(replicated * log_policy).sum(axis=(1, 2)),
            further=rival.sum(axis=1) >= distance.sum(axis=1),
            further_state=rival.sum(axis=0) >= distance.sum(axis=0),
            further_all=rival.sum() >= distance.sum(),
            totals=replicated.sum(axis=0),
            expected=(made[..., None] * policy).sum(axis=0),
        )
        if again is not None:
            keep(repeats=rng.binomial(again[0], np.clip(policy, 0.0, 1.0)).sum())
    drawn = {name: np.array(values) for name, values in found.items()}
    return PredictiveCheck(
        p_value=float(drawn["further_all"].mean()),
        subjects=_subjects(drawn, counts["task"].values, made.sum(axis=1)),
        states=_states(drawn, counts["state"].values, made.sum(axis=0)),
        shares=_shares(drawn, sample, observed.sum(axis=0)),
        repeats=None if again is None else _repeats(drawn["repeats"], again),
        draws=len(policies),
    )


def _summing_to_one(policy: np.ndarray) -> np.ndarray:
    """In states where nothing can be chosen, anything that sums to one."""
    total = policy.sum(axis=-1, keepdims=True)
    return np.where(total > 0, policy / np.where(total > 0, total, 1.0), 1.0 / policy.shape[-1])


def _distances(counts: np.ndarray, made: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """[M, S] Freeman and Tukey's distance of counts from what a policy expects."""
    return ((np.sqrt(counts) - np.sqrt(made[..., None] * policy)) ** 2).sum(axis=2)


def _subjects(drawn: dict[str, np.ndarray], names: np.ndarray, choices: np.ndarray) -> pd.DataFrame:
    each = np.maximum(choices, 1)
    low, high = np.quantile(drawn["replicated_likelihood"] / each, [0.025, 0.975], axis=0)
    less = drawn["replicated_likelihood"] < drawn["likelihood"]
    ties = drawn["replicated_likelihood"] == drawn["likelihood"]
    table = pd.DataFrame(
        {
            "task": [str(name) for name in names],
            "choices": choices,
            "observed": drawn["likelihood"].mean(axis=0) / each,
            "lower": low,
            "upper": high,
            "p_likelihood": (less + 0.5 * ties).mean(axis=0),
            "p_distance": drawn["further"].mean(axis=0),
        }
    )
    return table[table["choices"] > 0].reset_index(drop=True)


def _states(drawn: dict[str, np.ndarray], names: np.ndarray, choices: np.ndarray) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "state": [str(name) for name in names],
            "choices": choices,
            "p_distance": drawn["further_state"].mean(axis=0),
        }
    )
    return table[table["choices"] > 0].reset_index(drop=True)


def _shares(drawn: dict[str, np.ndarray], sample: Sample, observed: np.ndarray) -> pd.DataFrame:
    """Of each available action in each visited state with a choice, over all subjects."""
    environment = sample.posterior.environment
    counts = sample.posterior.data["observed_data"].dataset["counts"]
    states, actions = (list(map(str, counts[word].values)) for word in ("state", "action"))
    made = observed.sum(axis=1)
    state, action = np.nonzero(
        environment.available & (made > 0)[:, None] & (environment.available.sum(1) > 1)[:, None]
    )
    low, high = np.quantile(drawn["totals"][:, state, action] / made[state], [0.025, 0.975], axis=0)
    return pd.DataFrame(
        {
            "state": [states[s] for s in state],
            "action": [actions[a] for a in action],
            "choices": made[state],
            "observed": observed[state, action] / made[state],
            "expected": drawn["expected"][:, state, action].mean(axis=0) / made[state],
            "lower": low,
            "upper": high,
        }
    )


def _repeatable(sample: Sample) -> tuple[np.ndarray, int] | None:
    """[M, S, A] how often a choice was made where the step before had taken that action; and the repeats seen."""
    try:
        seen = sample.posterior.demonstrations
    except InputError:  # an old file, without the choices themselves
        return None
    exists = sample.posterior.environment.available
    before = np.roll(seen.action, 1)
    here = seen.follows & (seen.action >= 0) & (before >= 0)
    here &= exists[seen.state, np.maximum(before, 0)] & (exists.sum(axis=1) > 1)[seen.state]
    table = np.zeros((len(seen.tasks), *exists.shape), dtype=np.int64)
    np.add.at(table, (seen.task[here], seen.state[here], before[here]), 1)
    return (table, int((seen.action == before)[here].sum())) if here.any() else None


def _repeats(drawn: np.ndarray, again: tuple[np.ndarray, int]) -> dict[str, float]:
    steps = int(again[0].sum())
    low, high = np.quantile(drawn / steps, [0.025, 0.975])
    upper = float((drawn >= again[1]).mean())
    lower = float((drawn <= again[1]).mean())
    return {
        "observed": again[1] / steps,
        "lower": float(low),
        "upper": float(high),
        "p": min(1.0, 2 * min(upper, lower)),
        "steps": float(steps),
    }
