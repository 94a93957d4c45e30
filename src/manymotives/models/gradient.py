"""How the probability of choices changes with values, temperature and lapse rate: compiled, from counts."""

import math

import numpy as np

from manymotives.jit import inner
from manymotives.models.likelihood import exponentials


@inner
def likelihood_and_pull(q, n, counts, m, temperature, lapse, is_soft, actions, policies, pull, workspace):
    """log L as `likelihood.log_likelihood` has it, and its derivatives in c and in the lapse rate.

    Leaves in pull[n] its derivatives in q [S, A], and in policies[n] the policy the values belong to: softmax(c q)
    where plans are soft, else one of the best actions, `actions[n]`. Soft values hang on c as well, which adds
    worth · ∂v/∂c to the derivative in c: left to the caller, who gets worth from `pull_back`.
    """
    _, num_states, num_actions = counts.shape
    total, by_temperature, by_lapse = 0.0, 0.0, 0.0
    for s in range(num_states):
        best = q[n, s, 0]
        for a in range(1, num_actions):
            best = max(best, q[n, s, a])
        for a in range(num_actions):
            available = q[n, s, a] > -np.inf
            workspace[s * num_actions + a] = temperature * (q[n, s, a] - best) if available else -np.inf
    exponentials(workspace, num_states * num_actions)
    for s in range(num_states):
        made = 0.0
        for a in range(num_actions):
            made += counts[m, s, a]
            pull[n, s, a] = 0.0
            policies[n, s, a] = 0.0
        policies[n, s, actions[n, s]] = 1.0
        if made == 0.0 and not is_soft:
            continue
        best = q[n, s, 0]
        for a in range(1, num_actions):
            best = max(best, q[n, s, a])
        weight, available, chosen = 0.0, 0, 0.0
        for a in range(num_actions):
            share = workspace[s * num_actions + a]
            if q[n, s, a] > -np.inf:
                available += 1
                if counts[m, s, a] > 0.0:
                    chosen += counts[m, s, a] * (temperature * (q[n, s, a] - best))
            pull[n, s, a] = share
            weight += share
        expected = 0.0  # Σ of what pulls: k for choices without lapses
        for a in range(num_actions):
            share = pull[n, s, a] / weight
            if is_soft:
                policies[n, s, a] = share
            pull[n, s, a] = share
            if lapse > 0.0 and counts[m, s, a] > 0.0:
                probability = min((1.0 - lapse) * share + lapse / available, 1.0)  # not above it by rounding
                total += counts[m, s, a] * math.log(probability)
                by_lapse += counts[m, s, a] * (1.0 / available - share) / probability
                expected += counts[m, s, a] * (1.0 - lapse) * share / probability
        if lapse == 0.0:
            total += chosen - made * math.log(weight)
            expected = made
        for a in range(num_actions):
            share, count = pull[n, s, a], counts[m, s, a]
            if lapse > 0.0 and count > 0.0:
                count *= (1.0 - lapse) * share / ((1.0 - lapse) * share + lapse / available)
            off = count - share * expected
            if q[n, s, a] > -np.inf:
                by_temperature += off * (q[n, s, a] - best)
                pull[n, s, a] = temperature * off
            else:
                pull[n, s, a] = 0.0
    return total, by_temperature, by_lapse
