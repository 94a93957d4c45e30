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
        The environment, and the demonstrations in it.
    smoothing
        α: the pseudo-count of every available action. With 1, all policies are equally likely a priori; with 0, the
        policy is the observed frequencies, and uniform in states without observations.
    greedy
        Whether to always take the most frequent action, at random among equally frequent ones. Much of what policies
        for inferred rewards gain over their demonstrators comes from acting consistently; this baseline has that
        advantage without any inference.

    Returns
    -------
    Result
        `policies` (task, state, action), `rewards` if the method infers them, `details` and `warnings`.
    """
    problem = checked_problem(environment, demonstrations)
    policies = demonstrated_policies(problem, checked_number(smoothing, "smoothing"))
    if greedy:
        best = policies == policies.max(axis=-1, keepdims=True)
        policies = best / best.sum(axis=-1, keepdims=True)
    counts = problem.labelled(problem.counts.astype(np.int64), "task", "state", "action")
    return problem.result("imitation", policies, details={"counts": counts})
