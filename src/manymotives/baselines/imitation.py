"""Imitation (Imit): do what was seen.

π̂(a|s) = (n(s, a) + α) / (n(s) + α |A(s)|): the mean of a Dirichlet(α) prior given the choices, state by state.

It assumes nothing of what agents want: it is no better than they are, and knows nothing of states they never were in.
"""

from typing import Any

import numpy as np

from manymotives.baselines.common import Result, checked_number, checked_problem, demonstrated_policies


def imitation(
    environment: Any,
    demonstrations: Any,
    *,
    smoothing: float = 1.0,
    greedy: bool = False,
) -> Result:
    """The smoothed empirical policy of each task.

    Parameters
    ----------
    environment, demonstrations
        What agents acted in, and what they did there.
    smoothing
        α: choices imagined for every available action. 1 makes every policy equally likely beforehand; 0 is what was
        seen and nothing else, and blind choice where nothing was.
    greedy
        Always the most frequent action; among equally frequent ones, blindly. Much of what inferred rewards gain over
        their demonstrators is gained by acting consistently, and this has it without any inference.

    Returns
    -------
    Result
        `policies` (task, state, action), `rewards` where the method infers them, `details` and `warnings`.
    """
    problem = checked_problem(environment, demonstrations)
    policies = demonstrated_policies(problem, checked_number(smoothing, "smoothing"))
    if greedy:
        best = policies == policies.max(axis=-1, keepdims=True)
        policies = best / best.sum(axis=-1, keepdims=True)
    counts = problem.labelled(problem.counts.astype(np.int64), "task", "state", "action")
    return problem.result("imitation", policies, details={"counts": counts})
