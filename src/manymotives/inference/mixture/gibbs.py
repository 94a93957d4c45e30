"""Motives of tasks given the tasks' rewards, with what motives want integrated out; compiled (see `spread`)."""

import numpy as np

from manymotives.jit import compiled


@compiled
def reassign(own, order, uniform, wide, narrow, join, start, label):
    """Gibbs sampling of the motives of tasks, whose rewards [M, R] are less the prior's mean.

    `wide` [R], `narrow`: variances of motives, and of tasks around them. `join`: log-probabilities by size;
    `start`: those of a new motive, by the number in use.
    """
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
def _predictive(x, total, number, wide, narrow):
    """log p of one more task's rewards [R], given so many of its motive whose rewards sum to `total` [R]."""
    found = 0.0
    for d in range(len(x)):
        precision = 1.0 / wide[d] + number / narrow
        variance = 1.0 / precision + narrow
        found -= 0.5 * ((x[d] - total[d] / narrow / precision) ** 2 / variance + np.log(variance))
    return found
