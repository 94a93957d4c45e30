"""The compiled sums behind `integral.py`, and the compiled sampler of shared rewards."""

import math

import numpy as np

from manymotives.families import log_density
from manymotives.jit import compiled, inner


@compiled
def fill_weights(ordered, order, tails, measure, gaps, points, weights, drawn):
    """Fill weights [K, N] and drawn [K] from losses in order [K, N], log β̄ of them, λ [N] and draws of ε.

    Mass is relative to that above the smallest loss, so nothing underflows that matters.
    """
    num_policies, num_rewards = ordered.shape
    total = np.empty(num_rewards)  # Λ_k
    for k in range(num_policies):
        so_far = 0.0
        first = -1
        for n in range(num_rewards):
            so_far += measure[order[k, n]]
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
                weights[k, order[k, n]] = measure[order[k, n]] * explained
        qualify = np.searchsorted(ordered[k], gaps[k])  # how many losses lie below ε
        share = total[qualify - 1] if qualify > first else so_far  # none: λ decides
        n = min(np.searchsorted(total, points[k] * share, side="right"), num_rewards - 1)
        drawn[k] = order[k, n]


@compiled
def share_rewards(rng, likelihood, measure, own, family, parameters, kappa, assigned, sweeps, drawn, kappas, weights):
    """Gibbs draws of which reward each task has, when tasks draw theirs from common weights ω ~ Dirichlet(κ λ).

    With ω integrated out, task m has reward j with probability ∝ (κ λ_j + n_j) p(d_m | ρ_j), where n_j other tasks have
    it. The first part is fixed but for κ: `own` [M, N] are its cumulative sums, λ_j p(d_m | ρ_j); the second has one
    term for each reward in use. Before each draw all tasks that share a reward move to another together: one by
    one they would not leave it where κ is small. `family` < 0: κ is known; else it moves by Metropolis steps on log κ.
    Adds to weights [M, N] these probabilities themselves, for each draw: better than counting.
    """
    num_tasks, num_rewards = likelihood.shape
    counts = np.zeros(num_rewards, dtype=np.int64)
    in_use = np.empty(num_tasks + 1, dtype=np.int64)
    size = 0
    for m in range(num_tasks):
        if counts[assigned[m]] == 0:
            in_use[size] = assigned[m]
            size += 1
        counts[assigned[m]] += 1
    height = np.empty(num_rewards)
    for draw in range(len(drawn)):
        for _ in range(sweeps):
            for m in range(num_tasks):
                size = leave(counts, in_use, size, assigned[m])
                total = 0.0
                for n in range(size):
                    total += counts[in_use[n]] * likelihood[m, in_use[n]]
                point = rng.random() * (total + kappa * own[m, num_rewards - 1])
                j = -1
                if point < total:
                    for n in range(size):
                        j = in_use[n]
                        point -= counts[j] * likelihood[m, j]
                        if point < 0.0:
                            break
                else:
                    j = min(np.searchsorted(own[m], (point - total) / kappa, side="right"), num_rewards - 1)
                size = enter(counts, in_use, size, j)
                assigned[m] = j
            if family >= 0:
                for _again in range(3):
                    kappa = move_kappa(rng, kappa, counts, in_use[:size], num_tasks, measure, family, parameters)
        size = move_together(rng, kappa, likelihood, measure, counts, in_use, size, assigned, height)
        kappas[draw] = kappa
        for m in range(num_tasks):
            drawn[draw, m] = assigned[m]
            counts[assigned[m]] -= 1
            total = kappa * own[m, num_rewards - 1]
            for n in range(size):
                total += counts[in_use[n]] * likelihood[m, in_use[n]]
            for n in range(size):
                weights[m, in_use[n]] += counts[in_use[n]] * likelihood[m, in_use[n]] / total
            counts[assigned[m]] += 1
            before = 0.0
            for j in range(num_rewards):
                weights[m, j] += kappa * (own[m, j] - before) / total
                before = own[m, j]


@inner
def leave(counts, in_use, size, j):
    """A task leaves reward j; how many are in use then."""
    counts[j] -= 1
    if counts[j] == 0:
        for n in range(size):
            if in_use[n] == j:
                in_use[n] = in_use[size - 1]
                return size - 1
    return size


@inner
def enter(counts, in_use, size, j):
    """A task takes reward j; how many are in use then."""
    counts[j] += 1
    if counts[j] == 1:
        in_use[size] = j
        return size + 1
    return size


@inner
def move_together(rng, kappa, likelihood, measure, counts, in_use, size, assigned, height):
    """Each group of tasks with one reward draws another for all of them, among those that no other group has.

    Only among those, so that the group is the same before and after: then it is a Gibbs step.
    """
    num_tasks, num_rewards = likelihood.shape
    for n in range(size):
        mine = in_use[n]
        members = counts[mine]
        largest = -np.inf
        for j in range(num_rewards):
            height[j] = -np.inf
            if (counts[j] == 0 or j == mine) and measure[j] > 0.0:
                height[j] = math.lgamma(kappa * measure[j] + members) - math.lgamma(kappa * measure[j])
        for m in range(num_tasks):
            if assigned[m] == mine:
                for j in range(num_rewards):
                    if height[j] > -np.inf:
                        height[j] += math.log(likelihood[m, j]) if likelihood[m, j] > 0.0 else -np.inf
        for j in range(num_rewards):
            largest = max(largest, height[j])
        total = 0.0
        for j in range(num_rewards):
            height[j] = math.exp(height[j] - largest)
            total += height[j]
        point = rng.random() * total
        chosen = mine
        for j in range(num_rewards):
            point -= height[j]
            if point < 0.0:
                chosen = j
                break
        if chosen != mine:
            counts[mine], counts[chosen] = 0, members
            in_use[n] = chosen
            for m in range(num_tasks):
                if assigned[m] == mine:
                    assigned[m] = chosen
    return size


@inner
def move_kappa(rng, kappa, counts, in_use, num_tasks, measure, family, parameters):
    """One Metropolis step on log κ given who shares what."""
    proposed = kappa * math.exp(rng.normal())
    if not 1e-290 < proposed < 1e290:
        return kappa
    change = log_sharing(proposed, counts, in_use, num_tasks, measure)
    change -= log_sharing(kappa, counts, in_use, num_tasks, measure)
    change += log_density(family, math.log(proposed), parameters[0], parameters[1])
    change -= log_density(family, math.log(kappa), parameters[0], parameters[1])
    return proposed if math.log(rng.random()) < change else kappa


@inner
def log_sharing(kappa, counts, in_use, num_tasks, measure):
    """log p(who shares what | κ): Γ(κ) / Γ(κ + M) Π_j Γ(κλ_j + n_j) / Γ(κλ_j), over the rewards in use."""
    found = math.lgamma(kappa) - math.lgamma(kappa + num_tasks)
    for j in in_use:
        found += math.lgamma(kappa * measure[j] + counts[j]) - math.lgamma(kappa * measure[j])
    return found
