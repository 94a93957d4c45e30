"""The partition of a few tasks with what motives want integrated out, by evidences of sets of tasks.

    p(z | choices) ∝ p(z) Π_{A in z} Z_A        each Z_A estimated once, by a run that is kept (`evidences`)

All runs, of sets in use and of others, are part of the state: the chain samples from p(z) Π_{A in z} Ẑ_A(run) times the
probability of every run, whose marginal over runs is the posterior, because estimates are unbiased (Andrieu & Roberts
2009). Given the runs tasks are reassigned by Gibbs sampling (Neal 2000, Algorithm 3), and motives are split and merged
(Jain & Neal 2004): whom a task resembles is seen by how well it is explained by what each other task alone seems to
want. From time to time a set gets another run: one that is not in use always, one that is with probability
min(1, Ẑ new / Ẑ old).
"""

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from manymotives.inference.mixture.likelihood import is_by_motive, members_of
from manymotives.inference.mixture.partitions import DOUBT
from manymotives.models import Target
from manymotives.models.mixture import first_seen

if TYPE_CHECKING:
    from manymotives.inference.mixture.chain import MixtureChain

REFRESHED = 0.05  # probability that a sweep refreshes a set in use, and as often one that would be with one task moved
MOST_TASKS = 16  # for which this is done: sets of more are too many
FEW = 3  # coordinates of rewards, up to which normal approximations do as well
SPLITS = 6  # or merges, tried in a sweep
ALIKE = 20.0  # by how many nats a task may be explained worse, for it to be chosen e times less often …
SELDOM = 0.05  # … but not less often than this


def integrates_motives_out(target: Target) -> bool:
    """Whether evidences of sets of tasks can be kept: their prior is known, tasks are few, coordinates are many."""
    is_known = is_by_motive(target) and target.num_hyper == 0
    return is_known and target.layout.num_rewards > FEW and target.num_tasks <= MOST_TASKS


def move_partition(chain: "MixtureChain") -> None:
    """Every task in turn, and whole motives; then motives, drawn given the partition."""
    rng, label, found = chain.rng, chain.label, chain.evidences
    _reassign(chain)
    _split_and_merge(chain)
    in_use = members_of(label, range(label.max() + 1))
    if rng.random() < REFRESHED:
        _refresh(chain, in_use[rng.integers(len(in_use))], is_in_use=True)
    if rng.random() < REFRESHED:
        members = np.setxor1d(in_use[rng.integers(len(in_use))], rng.integers(len(label)))
        if len(members) and all(not np.array_equal(members, each) for each in in_use) and found.has(members):
            _refresh(chain, members, is_in_use=False)
    chain.motives = np.stack([found.of(members).drawn(rng) for members in in_use])


def _reassign(chain: "MixtureChain") -> None:
    """Every task in turn."""
    rng, prior, label, found = chain.rng, chain.prior, chain.label, chain.evidences
    for m in rng.permutation(len(label)):
        label[m] = label.max() + 1
        label[:] = first_seen(label)
        own = label[m]
        others = [k for k in range(label.max() + 1) if k != own]
        sets = members_of(label, others)
        sizes = np.array([len(members) for members in sets])
        logits = np.append(prior.log_join(sizes), prior.log_start(len(sets), chain.alpha) if sets else 0.0)
        logits[-1] += found.of(np.array([m])).log_evidence
        for n, members in enumerate(sets):
            logits[n] += found.of(np.sort(np.append(members, m))).log_evidence - found.of(members).log_evidence
        logits = np.where(np.isnan(logits), -np.inf, logits)  # of a set whose choices no particle could have made
        n = int(np.argmax(logits - np.log(-np.log1p(-rng.random(len(logits))))))
        if n < len(sets):
            label[m] = others[n]
            label[:] = first_seen(label)


def _split_and_merge(chain: "MixtureChain") -> None:
    """Two tasks, the more often the more alike, apart or together; the others of their motives go with one of them."""
    rng, prior, label, found = chain.rng, chain.prior, chain.label, chain.evidences
    if len(label) < 2:
        return
    alone = np.stack([found.of(np.array([m])).mean for m in range(len(label))])
    table = chain.likelihoods.table(alone, chain.rest, chain.away)  # [M, M]
    table = np.nan_to_num(table, nan=-1e9, neginf=-1e9)
    worse = table.diagonal()[:, None] - table
    pairs = np.column_stack(np.triu_indices(len(label), 1))
    weight = SELDOM + np.exp(np.minimum(-(worse + worse.T)[tuple(pairs.T)] / (2.0 * ALIKE), 0.0))
    for i, j in pairs[rng.choice(len(pairs), size=SPLITS, p=weight / weight.sum())]:
        is_split = bool(label[i] == label[j])
        union = np.flatnonzero((label == label[i]) | (label == label[j]))
        others = union[(union != i) & (union != j)]
        chance = DOUBT + (1.0 - 2.0 * DOUBT) * expit(table[others, i] - table[others, j])
        with_i = rng.random(len(others)) < chance if is_split else label[others] == label[i]
        log_chance = float(np.log(np.where(with_i, chance, 1.0 - chance)).sum())
        sides = [np.sort(np.append(others[with_i], i)), np.sort(np.append(others[~with_i], j))]
        apart, together = label.copy(), label.copy()
        apart[sides[0]], together[union] = len(label), label[i]
        apart, together = first_seen(apart), first_seen(together)
        gain = prior.log_prior(np.bincount(apart), chain.alpha) - prior.log_prior(np.bincount(together), chain.alpha)
        if not np.isfinite(gain):
            continue  # more motives than there can be
        one, other, both = (found.of(members).log_evidence for members in (*sides, union))
        gain += one + other - both - log_chance
        if np.log1p(-rng.random()) < (gain if is_split else -gain):
            label[:] = apart if is_split else together


def _refresh(chain: "MixtureChain", members: np.ndarray, *, is_in_use: bool) -> None:
    rng, found = chain.rng, chain.evidences
    seed = int(rng.integers(2, 2**31))
    run = found.run(members, seed)
    gain = run.log_evidence - found.of(members).log_evidence
    if not is_in_use or np.log1p(-rng.random()) < gain:
        found.refresh(members, seed, run)
