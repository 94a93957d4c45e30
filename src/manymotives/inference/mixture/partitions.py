"""Which tasks share a motive: moves of the partition given what motives want, and of both together.

    reassign        each task in turn to one of the motives in use, by how well each explains its choices (Gibbs)
    birth, death    a task gets a motive of its own, drawn from q of its choices; or gives it up for another's
    split, merge    two tasks are chosen at random: their motive is split, or their motives are merged, all others of
                    them assigned by motives of a launch state (Jain & Neal 2004); what the new motives want is drawn
                    from q of their members

Split and merge compare evidences Z of sets of tasks, each estimated by importance sampling with N draws of which one is
kept. For motives in use, N − 1 are drawn and the N-th is what the motive wants now, so that the moves are exact for any
N (as in particle Gibbs: Andrieu, Doucet & Holenstein 2010).
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from manymotives.inference.mixture.chain import MixtureChain

DRAWS = 16  # N
DOUBT = 0.02  # least probability of either side, where a split assigns a task: a merge must be possible to undo


def reassign(chain: "MixtureChain") -> None:
    """Every task that is not alone with its motive, to one of those in use."""
    rng, label, count = chain.rng, chain.label, len(chain.motives)
    if count == 1:
        return
    table = chain.likelihoods.table(chain.motives, chain.rest, chain.away)
    table = np.where(np.isnan(table), -np.inf, table)
    sizes = np.bincount(label, minlength=count).astype(float)
    gumbel = -np.log(-np.log1p(-rng.random(table.shape)))
    for m in rng.permutation(len(label)):
        if sizes[label[m]] == 1:
            continue
        sizes[label[m]] -= 1
        label[m] = int(np.argmax(table[m] + chain.prior.log_join(sizes) + gumbel[m]))
        sizes[label[m]] += 1


def birth_or_death(chain: "MixtureChain") -> bool:
    """A task gets a motive of its own, or gives it up."""
    rng, label, prior = chain.rng, chain.label, chain.prior
    m = int(rng.integers(len(label)))
    own = label[m]
    sizes = np.bincount(label)
    alone = sizes[own] == 1
    if alone and len(sizes) == 1:
        return False
    one = np.array([m])
    u = chain.likelihoods.rows(chain.motives, chain.rest[m], chain.away[m])
    found = chain.likelihoods.log_likelihood(u, np.full(len(u), m))
    others = np.ones(len(sizes), dtype=bool)
    others[own] = not alone
    sizes = sizes.astype(float)
    sizes[own] -= 1
    logits = np.where(others, found + prior.log_join(np.where(others, sizes, 1.0)), -np.inf)
    fresh = prior.log_start(int(others.sum()), chain.alpha)
    joined = float(np.logaddexp.reduce(logits))
    if not alone and not np.isfinite(fresh):
        return False
    current = chain.motives[own] if alone else None
    evidence, kept = chain.evidence(one, current)
    # a motive of one's own against any of the others', both with all else summed out: the move to the other side is
    # accepted by the ratio of what it would be proposed with
    if alone:
        if np.log1p(-rng.random()) < joined - fresh - evidence:
            label[m] = _drawn(rng, logits)
            chain.drop(own)
            return True
        chain.motives[own] = kept
        return False
    gain = fresh + evidence - joined
    if np.log1p(-rng.random()) < gain:
        label[m] = len(chain.motives)
        chain.motives = np.vstack([chain.motives, kept])
        return True
    label[m] = _drawn(rng, logits)  # among those in use, as `reassign` does
    return False


def split_or_merge(chain: "MixtureChain") -> bool:
    """Two tasks apart, or together."""
    rng, label, prior = chain.rng, chain.label, chain.prior
    if len(label) < 2:
        return False
    i, j = (int(m) for m in rng.choice(len(label), size=2, replace=False))
    is_split = label[i] == label[j]
    count = len(chain.motives)
    if is_split and not np.isfinite(prior.log_start(count, chain.alpha)):
        return False
    union = np.flatnonzero((label == label[i]) | (label == label[j]))
    others = union[(union != i) & (union != j)]
    chances = _chances(chain, i, j, others)  # [others] of the side of i
    with_i = rng.random(len(others)) < chances if is_split else label[others] == label[i]
    log_chance = float(np.log(np.where(with_i, chances, 1.0 - chances)).sum())
    one = np.sort(np.append(others[with_i], i))
    other = np.sort(np.append(others[~with_i], j))
    together = np.sort(union)
    apart = [chain.evidence(s, None if is_split else chain.motives[label[k]]) for s, k in ((one, i), (other, j))]
    joint = chain.evidence(together, chain.motives[label[i]] if is_split else None)
    difference = prior.log_join_all(len(one)) + prior.log_join_all(len(other)) - prior.log_join_all(len(union))
    t = count if is_split else count - 1
    gain = difference + prior.log_in_use(t + 1, chain.alpha) - prior.log_in_use(t, chain.alpha)
    gain += apart[0][0] + apart[1][0] - joint[0] - log_chance
    accepted = bool(np.log1p(-rng.random()) < (gain if is_split else -gain))
    keeps_apart = accepted == is_split
    first, second = label[i], label[j]
    if keeps_apart:
        if is_split:
            second = count
            chain.motives = np.vstack([chain.motives, apart[1][1]])
            label[other] = second
        chain.motives[first], chain.motives[second] = apart[0][1], apart[1][1]
        return accepted
    label[union] = first
    chain.motives[first] = joint[1]
    if first != second:
        chain.drop(second)
    return accepted


def _chances(chain: "MixtureChain", i: int, j: int, others: np.ndarray) -> np.ndarray:
    """The probability of each of the others to be assigned to i rather than to j, by a launch state of its own.

    The launch state depends on who is to be divided, and on chance, but not on how they are divided now.
    """
    if len(others) == 0:
        return np.empty(0)
    rng = chain.rng
    parameters, given = chain.parameters, chain.approximations.given
    seeds = np.vstack([given(np.array([m]), parameters).draw(rng, 1) for m in (i, j)])
    chances = _sides(chain, seeds, others, np.ones(2))
    if len(others) > 1:
        with_i = rng.random(len(others)) < chances
        sets = [np.sort(np.append(others[with_i], i)), np.sort(np.append(others[~with_i], j))]
        centres = np.stack([given(members, parameters).mode for members in sets])
        chances = _sides(chain, centres, others, np.array([len(members) for members in sets]))
    return DOUBT + (1.0 - 2.0 * DOUBT) * chances


def _sides(chain: "MixtureChain", rewards: np.ndarray, tasks: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The probability of tasks to act on the first of two motives."""
    u = chain.likelihoods.rows(rewards[:, None], chain.rest[tasks], chain.away[tasks])
    found = np.stack([chain.likelihoods.log_likelihood(each, tasks) for each in u])
    found = np.nan_to_num(found, nan=-1e300, neginf=-1e300) + np.log(sizes)[:, None]
    return 1.0 / (1.0 + np.exp(np.clip(found[1] - found[0], -700.0, 700.0)))


def _drawn(rng: np.random.Generator, logits: np.ndarray) -> int:
    return int(np.argmax(logits - np.log(-np.log1p(-rng.random(len(logits))))))
