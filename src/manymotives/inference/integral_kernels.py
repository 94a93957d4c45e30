"""The compiled sums behind `integral.py`, and the compiled sampler of shared rewards."""

import math

import numpy as np
from numba import njit

from manymotives.families import log_density

_compiled = njit(nogil=True, cache=True, error_model="numpy")


@_compiled
def fill_weights(ordered, order, tails, measure, gaps, points, weights, index):
    """Fill weights [K, N] and index [K] from losses in order [K, N], log β̄ of them, λ [1 or K, N] and draws of ε.

    Mass is relative to that above the smallest loss, so nothing underflows that matters.
    """
    num_policies, num_rewards = ordered.shape
    total = np.empty(num_rewards)  # Λ_k
    for k in range(num_policies):
        row = 0 if measure.shape[0] == 1 else k
        so_far = 0.0
        first = -1
        for n in range(num_rewards):
            so_far += measure[row, order[k, n]]
            total[n] = so_far
            if first < 0 and so_far > 0.0:
                first = n
        base = tails[k, first]
        if base == -np.inf:
            weights[k, :] = 0.0
        else:
            beyond, explained = 0.0, 0.0  # β̄ at the interval's right end, and the sum over intervals further right
            for n in range(num_rewards - 1, -1, -1):
                here = math.exp(tails[k, n] - base)
                if n >= first:
                    explained += (here - beyond) / total[n]
                beyond = here
                weights[k, order[k, n]] = measure[row, order[k, n]] * explained
        qualify = np.searchsorted(ordered[k], gaps[k])  # how many losses lie below ε
        share = total[qualify - 1] if qualify > 0 and total[qualify - 1] > 0.0 else total[num_rewards - 1]
        n = min(np.searchsorted(total, points[k] * share, side="right"), num_rewards - 1)
        index[k] = order[k, n]


@_compiled
def share_rewards(
    rng, log_likelihood, measure, own, family, parameters, kappa, assigned, sweeps, draws, indices, kappas, weights
):
    """Gibbs draws of which reward each task has, when tasks draw theirs from common weights ω ~ Dirichlet(κ λ).

    With ω integrated out, task m has reward j with probability ∝ (κ λ_j + n_j) p(d_m | ρ_j), where n_j other tasks have
    it. The first part is fixed but for κ: `own` [M, N] are its cumulative sums, λ_j p(d_m | ρ_j); only the second
    changes, and has at most M terms. log_likelihood [M, N] is relative to each row's largest. `family` < 0: κ is
    known; else it moves by Metropolis steps on log κ under its prior. Adds to weights [M, N] these probabilities
    themselves, for each draw: better than counting how often a reward was drawn.
    """
    num_tasks, num_rewards = log_likelihood.shape
    counts = np.zeros(num_rewards, dtype=np.int64)
    for m in range(num_tasks):
        counts[assigned[m]] += 1
    chance = np.empty(num_tasks)
    for draw in range(draws):
        for _ in range(sweeps):
            for m in range(num_tasks):
                counts[assigned[m]] -= 1
                total = 0.0
                for other in range(num_tasks):  # each other task brings one to its reward's count
                    chance[other] = math.exp(log_likelihood[m, assigned[other]]) if other != m else 0.0
                    total += chance[other]
                point = rng.random() * (total + kappa * own[m, num_rewards - 1])
                if point < total:
                    other = 0
                    while point >= chance[other] and other < num_tasks - 1:
                        point -= chance[other]
                        other += 1
                    if other == m:  # rounding at the very end
                        other = m - 1 if m > 0 else m + 1
                    assigned[m] = assigned[other]
                else:
                    place = np.searchsorted(own[m], (point - total) / kappa, side="right")
                    assigned[m] = min(place, num_rewards - 1)
                counts[assigned[m]] += 1
            if family >= 0:
                for _again in range(3):
                    kappa = move_kappa(rng, kappa, counts, assigned, measure, family, parameters)
        kappas[draw] = kappa
        for m in range(num_tasks):
            indices[draw, m] = assigned[m]
            total = kappa * own[m, num_rewards - 1]
            for other in range(num_tasks):
                chance[other] = math.exp(log_likelihood[m, assigned[other]]) if other != m else 0.0
                total += chance[other]
            for other in range(num_tasks):
                weights[m, assigned[other]] += chance[other] / total
            before = 0.0
            for j in range(num_rewards):
                weights[m, j] += kappa * (own[m, j] - before) / total
                before = own[m, j]


@_compiled
def move_kappa(rng, kappa, counts, assigned, measure, family, parameters):
    """One Metropolis step on log κ given who shares what."""
    proposed = kappa * math.exp(rng.normal())
    change = log_sharing(proposed, counts, assigned, measure) - log_sharing(kappa, counts, assigned, measure)
    change += log_density(family, math.log(proposed), parameters[0], parameters[1])
    change -= log_density(family, math.log(kappa), parameters[0], parameters[1])
    return proposed if math.log(rng.random()) < change else kappa


@_compiled
def log_sharing(kappa, counts, assigned, measure):
    """log p(assignment | κ): Γ(κ) / Γ(κ + M) Π_j Γ(κλ_j + n_j) / Γ(κλ_j), over the rewards in use."""
    num_tasks = assigned.size
    found = math.lgamma(kappa) - math.lgamma(kappa + num_tasks)
    for m in range(num_tasks):
        j = assigned[m]
        earlier = False
        for other in range(m):
            if assigned[other] == j:
                earlier = True
        if not earlier:
            found += math.lgamma(kappa * measure[j] + counts[j]) - math.lgamma(kappa * measure[j])
    return found
