"""Motives of tasks given the tasks' rewards, with what motives want integrated out; compiled (see `spread`).

Rewards `own` [M, R] are less the prior's mean. `wide` [R], `narrow`: variances of motives, and of tasks around them.
`join`: log-probabilities of a motive by the number of its tasks; `start`: those of a new one, by the number in use.
"""

import numpy as np

from manymotives.jit import compiled

DOUBT = 1e-3  # least probability of either side, where a split assigns a task: a merge must be possible to undo


@compiled
def reassign(own, order, uniform, wide, narrow, join, start, label):
    """Gibbs sampling: every task in turn, to a motive in use or to a new one."""
    count, size = own.shape
    sizes, total = np.zeros(count + 1), np.zeros((count + 1, size))
    for m in range(count):
        sizes[label[m]] += 1.0
        total[label[m]] += own[m]
    logits = np.empty(count + 1)
    for n in range(count):
        m = order[n]
        sizes[label[m]] -= 1.0
        total[label[m]] -= own[m]
        in_use, free, largest = 0, -1, -np.inf
        for k in range(count + 1):
            logits[k] = -np.inf
            if sizes[k] == 0.0:
                free = k if free < 0 else free
                total[k] = 0.0
                continue
            in_use += 1
            logits[k] = join[int(sizes[k])] + _predictive(own[m], total[k], sizes[k], wide, narrow)
            largest = max(largest, logits[k])
        logits[free] = start[in_use] + _predictive(own[m], total[free], 0.0, wide, narrow)
        largest = max(largest, logits[free])
        sum_of_all = 0.0
        for k in range(count + 1):
            logits[k] = np.exp(logits[k] - largest)
            sum_of_all += logits[k]
        left, chosen = uniform[m] * sum_of_all, free
        for k in range(count + 1):
            if logits[k] > 0.0:
                chosen = k
                left -= logits[k]
                if left < 0.0:
                    break
        label[m] = chosen
        sizes[chosen] += 1.0
        total[chosen] += own[m]


@compiled
def split_or_merge(own, i, j, order, uniform, threshold, wide, narrow, join, start, label):
    """The motive of tasks i and j in two, or theirs in one; others are assigned one by one (Dahl 2005).

    Accepted where the gain in log density is more than `threshold`; motives are numbered with gaps then.
    """
    count, size = own.shape
    of_i, of_j = label[i], label[j]
    is_split = of_i == of_j
    is_used = np.zeros(count + 1, dtype=np.bool_)
    for m in range(count):
        is_used[label[m]] = True
    number, free = is_used.sum(), 0
    while is_used[free]:
        free += 1
    is_with_i = np.zeros(count, dtype=np.bool_)
    is_with_i[i] = True
    sizes, total = np.ones(2), np.zeros((3, size))
    gain = start[number if is_split else number - 1]
    gain += _predictive(own[j], total[2], 0.0, wide, narrow) - _predictive(own[j], own[i], 1.0, wide, narrow) - join[1]
    for d in range(size):
        total[0, d], total[1, d], total[2, d] = own[i, d], own[j, d], own[i, d] + own[j, d]
    for n in range(count):
        m = order[n]
        if m in (i, j) or (label[m] != of_i and label[m] != of_j):
            continue
        with_i = join[int(sizes[0])] + _predictive(own[m], total[0], sizes[0], wide, narrow)
        with_j = join[int(sizes[1])] + _predictive(own[m], total[1], sizes[1], wide, narrow)
        with_both = join[int(sizes.sum())] + _predictive(own[m], total[2], sizes.sum(), wide, narrow)
        chance = DOUBT + (1.0 - 2.0 * DOUBT) / (1.0 + np.exp(min(max(with_j - with_i, -700.0), 700.0)))
        is_with_i[m] = uniform[m] < chance if is_split else label[m] == of_i
        side = 0 if is_with_i[m] else 1
        gain += (with_i - np.log(chance) if side == 0 else with_j - np.log(1.0 - chance)) - with_both
        sizes[side] += 1.0
        for d in range(size):
            total[side, d] += own[m, d]
            total[2, d] += own[m, d]
    if not (gain if is_split else -gain) > threshold:
        return
    for m in range(count):
        if label[m] == of_i or label[m] == of_j:
            label[m] = of_i if is_with_i[m] or not is_split else free


@compiled
def _predictive(x, total, number, wide, narrow):
    """log p of one more task's rewards [R], given so many of its motive whose rewards sum to `total` [R]."""
    found = 0.0
    for d in range(len(x)):
        precision = 1.0 / wide[d] + number / narrow
        variance = 1.0 / precision + narrow
        found -= 0.5 * ((x[d] - total[d] / narrow / precision) ** 2 / variance + np.log(variance))
    return found
