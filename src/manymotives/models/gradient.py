"""The gradient of the log-likelihood of choices in q, inverse temperature c and lapse rate ε: compiled, from counts.

log L = Σ k(s, a) log π(a|s),      π = (1 − ε) p + ε / |A(s)|,      p = softmax(c q)
w(s, a) = k(s, a) (1 − ε) p / π                                             (k without lapses)
∂ log L/∂q(s, a) = c (w(s, a) − p(a|s) Σ_a w(s, a)),     ∂/∂c = Σ (…) (q − max q),     ∂/∂ε = Σ k (1/|A| − p) / π
"""

import math

import numpy as np

from manymotives.jit import inner
from manymotives.models.likelihood import exponentials


@inner
def likelihood_and_gradient(q, n, counts, m, temperature, lapse, is_soft, actions, policies, q_gradient, workspace):
    """log L as `likelihood.log_likelihood` has it, and its derivatives in c and in the lapse rate.

    Leaves in q_gradient[n] its derivatives in q [S, A], and in policies[n] the policy of the values: softmax(c q)
    where plans are soft, else one of the best actions, `actions[n]`. Soft values depend on c as well, which adds
    value_adjoint · ∂v/∂c to the derivative in c: left to the caller, who has it from `warm_start.adjoint`.
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
            q_gradient[n, s, a] = 0.0
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
            q_gradient[n, s, a] = share
            weight += share
        expected = 0.0  # Σ w
        for a in range(num_actions):
            share = q_gradient[n, s, a] / weight
            if is_soft:
                policies[n, s, a] = share
            q_gradient[n, s, a] = share
            if lapse > 0.0 and counts[m, s, a] > 0.0:
                probability = min((1.0 - lapse) * share + lapse / available, 1.0)  # not above it by rounding
                total += counts[m, s, a] * math.log(probability)
                by_lapse += counts[m, s, a] * (1.0 / available - share) / probability
                expected += counts[m, s, a] * (1.0 - lapse) * share / probability
        if lapse == 0.0:
            total += chosen - made * math.log(weight)
            expected = made
        for a in range(num_actions):
            share, count = q_gradient[n, s, a], counts[m, s, a]
            if lapse > 0.0 and count > 0.0:
                count *= (1.0 - lapse) * share / ((1.0 - lapse) * share + lapse / available)
            off = count - share * expected
            if q[n, s, a] > -np.inf:
                by_temperature += off * (q[n, s, a] - best)
                q_gradient[n, s, a] = temperature * off
            else:
                q_gradient[n, s, a] = 0.0
    return total, by_temperature, by_lapse
