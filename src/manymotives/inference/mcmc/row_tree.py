"""Rows of the transition matrix of motives, given how often each was used: exact conditional draws on a tree, compiled.

Given counts n(j, k) at a node whose rows are integrated out, with its parent's rows P and concentration ν,

    p(n | P, ν) = Π_j Γ(ν) / Γ(ν + n(j, ·)) Π_k Γ(ν P(j, k) + n(j, k)) / Γ(ν P(j, k))            slice sampling of log ν

and with numbers of tables t(j, k) = Σ_{i < n(j, k)} Bernoulli(ν P(j, k) / (ν P(j, k) + i)) beside them (Antoniak 1974),
p(n, t | P) ∝ Π P(j, k)^t(j, k): tables are the parent's counts. So upwards ν and tables are drawn, level by level; at
the root log κ, by slice sampling; then downwards rows, P ~ Dirichlet(ν · parent + n).

Where the number of motives is inferred, log α by slice sampling, tables at the root for masses α β(k) + κ [j = k], of
those at (j, j) Binomial(t, κ / (κ + α β(j))) owed to stickiness and left out, and β ~ Dirichlet(γ / K + Σ_j t(j, ·))
(Fox et al. 2011, appendix).
"""

import math

import numpy as np

from manymotives.families import GAMMA, log_density, log_gamma_draw
from manymotives.inference.mcmc.populations import DONE, SLICE_STEPS, STEP_LEFT, next_on_slice
from manymotives.jit import inner
from manymotives.models.assignment import KNOWN
from manymotives.models.hidden_markov import SMALLEST

WIDTH = 1.0  # of slices of log κ and log ν: any is right
TOTAL_SHAPE, TOTAL_RATE = 1.0, 0.1  # of α ~ Gamma, where the number of motives is inferred
LARGEST_LOG = 23.0  # of κ and ν: beyond 10¹⁰ rows are the same to the last bit that counts
SMALLEST_LOG = -23.0


@inner
def draw_rows(rng, tree, counts, rows, stickiness, concentration, use):
    """Rows [N, K + 1, K], κ [R], ν [R, L] and α β [R, K], given counts [N, K + 1, K]: of contexts, others 0 so far."""
    parent, begin, end = tree.parent, tree.begin, tree.end
    num_roots, num_levels = begin.shape
    num_motives = counts.shape[2]
    for level in range(num_levels - 1, 0, -1):
        for r in range(num_roots):
            if tree.concentration_family != KNOWN:
                concentration[r, level - 1] = _slice_concentration(
                    rng, tree, counts, rows, begin[r, level], end[r, level], concentration[r, level - 1]
                )
            _count_tables(rng, parent, counts, rows, begin[r, level], end[r, level], concentration[r, level - 1])
    shape = np.empty(num_motives)
    for r in range(num_roots):
        if tree.stickiness_family != KNOWN:
            stickiness[r] = _slice_root(rng, tree, counts, use, r, stickiness[r], stickiness[r], False)
        if tree.sparsity > 0.0:
            _draw_use(rng, tree, counts, use, r, stickiness[r])
        for j in range(num_motives + 1):
            for k in range(num_motives):
                shape[k] = use[r, k] + counts[r, j, k] + (stickiness[r] if j == k else 0.0)
            _draw_row(rng, shape, rows, r, j)
    for level in range(1, num_levels):
        for r in range(num_roots):
            for node in range(begin[r, level], end[r, level]):
                for j in range(num_motives + 1):
                    for k in range(num_motives):
                        shape[k] = concentration[r, level - 1] * rows[parent[node], j, k] + counts[node, j, k]
                    _draw_row(rng, shape, rows, node, j)


@inner
def _draw_row(rng, shape, rows, node, j):
    """rows[node, j] ~ Dirichlet(shape)."""
    largest, total = -np.inf, 0.0
    for k in range(len(shape)):
        rows[node, j, k] = log_gamma_draw(rng, shape[k])
        largest = max(largest, rows[node, j, k])
    for k in range(len(shape)):
        rows[node, j, k] = math.exp(rows[node, j, k] - largest)
        total += rows[node, j, k]
    for k in range(len(shape)):
        rows[node, j, k] = max(rows[node, j, k] / total, SMALLEST)


@inner
def _count_tables(rng, parent, counts, rows, begin, end, concentration):
    """Add the tables of nodes begin … end to the counts of their parents."""
    for node in range(begin, end):
        for j in range(counts.shape[1]):
            for k in range(counts.shape[2]):
                count = counts[node, j, k]
                if count > 0.0:
                    mass, tables = concentration * rows[parent[node], j, k], 1.0
                    for i in range(1, int(count)):
                        if rng.random() * (mass + i) < mass:
                            tables += 1.0
                    counts[parent[node], j, k] += tables


@inner
def _draw_use(rng, tree, counts, use, r, stickiness):
    """α β of root r given its counts, with its rows integrated out."""
    num_motives = counts.shape[2]
    before = use[r].sum()
    after = _slice_root(rng, tree, counts, use, r, stickiness, before, True)
    shape = np.full(num_motives, tree.sparsity)
    for k in range(num_motives):
        use[r, k] *= after / before
        for j in range(num_motives + 1):
            sticky = stickiness if j == k else 0.0
            mass = use[r, k] + sticky
            for i in range(int(counts[r, j, k])):
                if rng.random() * (mass + i) < mass and rng.random() * mass >= sticky:
                    shape[k] += 1.0
    largest, total = -np.inf, 0.0
    for k in range(num_motives):
        use[r, k] = log_gamma_draw(rng, shape[k])
        largest = max(largest, use[r, k])
    for k in range(num_motives):
        use[r, k] = math.exp(use[r, k] - largest)
        total += use[r, k]
    for k in range(num_motives):
        use[r, k] = max(after * (use[r, k] / total), SMALLEST)


@inner
def _slice_root(rng, tree, counts, use, r, stickiness, value, is_total):
    """κ of root r, or α (`is_total`), given its counts, with its rows integrated out: slice sampling of its log."""
    here = math.log(value)
    level = _root_density(tree, counts, use, r, stickiness, here, is_total) + math.log1p(-rng.random())
    left = here - WIDTH * rng.random()
    right = left + WIDTH
    stage, there = STEP_LEFT, left
    for _ in range(SLICE_STEPS):
        inside = _root_density(tree, counts, use, r, stickiness, there, is_total) > level
        stage, there, left, right = next_on_slice(rng, WIDTH, stage, inside, here, there, left, right)
        if stage == DONE:
            return math.exp(there)
    return value


@inner
def _root_density(tree, counts, use, r, stickiness, log_value, is_total):
    if not SMALLEST_LOG < log_value < LARGEST_LOG:
        return -np.inf
    num_motives, value = counts.shape[2], math.exp(log_value)
    total = use[r].sum()
    if is_total:
        found, factor, sticky = log_density(GAMMA, log_value, TOTAL_SHAPE, TOTAL_RATE), value / total, stickiness
    else:
        found = log_density(tree.stickiness_family, log_value, tree.stickiness[0], tree.stickiness[1])
        factor, sticky = 1.0, value
    for j in range(num_motives + 1):
        made = 0.0
        for k in range(num_motives):
            count = counts[r, j, k]
            if count > 0.0:
                made += count
                mass = factor * use[r, k] + (sticky if j == k else 0.0)
                found += math.lgamma(mass + count) - math.lgamma(mass)
        if made > 0.0:
            mass = factor * total + (sticky if j < num_motives else 0.0)
            found += math.lgamma(mass) - math.lgamma(mass + made)
    return found


@inner
def _slice_concentration(rng, tree, counts, rows, begin, end, value):
    """ν of nodes begin … end given their counts and their parents' rows: slice sampling of log ν."""
    family, a, b = tree.concentration_family, tree.concentration[0], tree.concentration[1]
    parent = tree.parent
    here = math.log(value)
    level = _concentration_density(family, a, b, parent, counts, rows, begin, end, here) + math.log1p(-rng.random())
    left = here - WIDTH * rng.random()
    right = left + WIDTH
    stage, there = STEP_LEFT, left
    for _ in range(SLICE_STEPS):
        inside = _concentration_density(family, a, b, parent, counts, rows, begin, end, there) > level
        stage, there, left, right = next_on_slice(rng, WIDTH, stage, inside, here, there, left, right)
        if stage == DONE:
            return math.exp(there)
    return value


@inner
def _concentration_density(family, a, b, parent, counts, rows, begin, end, log_value):
    if not SMALLEST_LOG < log_value < LARGEST_LOG:
        return -np.inf
    value = math.exp(log_value)
    found = log_density(family, log_value, a, b)
    for node in range(begin, end):
        for j in range(counts.shape[1]):
            made = 0.0
            for k in range(counts.shape[2]):
                count = counts[node, j, k]
                if count > 0.0:
                    made += count
                    mass = value * rows[parent[node], j, k]
                    found += math.lgamma(mass + count) - math.lgamma(mass)
            if made > 0.0:
                found += math.lgamma(value) - math.lgamma(value + made)
    return found
