"""Do counts follow the probabilities they should? Pearson's chi-square test, for simulations with fixed seeds."""

import numpy as np
from scipy import stats

# Statistical tests have fixed seeds, so they pass or fail for good; a right program would fail one in 10 000 seeds.
SIGNIFICANCE = 1e-4


def p_value(observed, probabilities):
    """Chi-square test of rows of counts [n, k] against rows of probabilities; rows without counts say nothing."""
    statistic, freedom = 0.0, 0
    for counts, chances in zip(np.asarray(observed, dtype=float), np.asarray(probabilities, dtype=float)):
        expected = counts.sum() * chances
        assert not counts[chances == 0].any()
        if counts.sum() == 0:
            continue
        # the approximation is good where some five are expected: rarer outcomes are pooled
        common = expected >= 5
        seen, due = counts[common].tolist(), expected[common].tolist()
        if expected[~common].sum() >= 5:
            seen.append(counts[~common].sum())
            due.append(expected[~common].sum())
        elif due:
            seen[-1] += counts[~common].sum()
            due[-1] += expected[~common].sum()
        if len(due) > 1:
            statistic += sum((n - e) ** 2 / e for n, e in zip(seen, due))
            freedom += len(due) - 1
    assert freedom > 0
    return stats.chi2.sf(statistic, freedom)
