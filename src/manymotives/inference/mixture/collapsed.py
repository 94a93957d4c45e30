"""The partition of a few tasks with what motives want integrated out, by evidences of sets of tasks.

    p(z | choices) ∝ p(z) Π_{A in z} Z_A        each Z_A estimated once, by a run that is kept (`evidences`)

All runs, of sets in use and of others, are part of the state: the chain samples from p(z) Π_{A in z} Ẑ_A(run) times the
probability of every run, whose marginal over runs is the posterior, because estimates are unbiased (Andrieu & Roberts
2009). Given the runs tasks, and pairs of them, are reassigned by Gibbs sampling (Neal 2000, Algorithm 3), and motives
are split and merged (Jain & Neal 2004): whom a task resembles is seen by how well it is explained by what each other
task alone seems to want. From time to time a set gets another run: one that is not in use always, one that is with
probability min(1, Ẑ new / Ẑ old).

A set of tasks is a whole number here, whose bit m says whether task m belongs to it.
"""

from math import log
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import expit

from manymotives.inference.mixture.evidences import set_of, tasks_in
from manymotives.inference.mixture.importance import SetSample
from manymotives.inference.mixture.likelihood import is_by_motive, members_of
from manymotives.inference.mixture.partitions import DOUBT
from manymotives.models import Target

if TYPE_CHECKING:
    from manymotives.inference.mixture.chain import MixtureChain

REFRESHED = 0.02  # probability that a sweep refreshes a set in use, and as often one that would be with one task moved
MOST_TASKS = 16  # for which this is done: sets of more are too many
FEW = 3  # coordinates of rewards, up to which normal approximations do as well
PAIRS = 4  # of tasks, reassigned together in a sweep
SPLITS = 6  # or merges, tried in a sweep
ALIKE = 20.0  # by how many nats a task may be explained worse, for it to be chosen e times less often …
SELDOM = 0.05  # … but not less often than this


class Likeness(NamedTuple):
    """Whom each task resembles."""

    alone: tuple[SetSample, ...]  # runs of each task alone, from which all else follows
    chances: list[list[list[float]]]  # [M, M, M] that m goes with i, where i and j are split
    pairs: np.ndarray  # [P, 2] of tasks …
    share: np.ndarray  # [P] … and how often each is chosen

    def drawn(self, rng: np.random.Generator, count: int) -> list[list[int]]:
        """So many pairs; none of one task."""
        if len(self.pairs) == 0:
            return []
        return self.pairs[rng.choice(len(self.pairs), size=count, p=self.share)].tolist()


class Weights:
    """log p(z, choices) of a partition = V(t) + Σ_A of(A), up to a constant."""

    def __init__(self, chain: "MixtureChain") -> None:
        prior, num_tasks = chain.prior, len(chain.label)
        self.log_evidence = chain.evidences.log_evidence
        self.of_size = [0.0, *(prior.log_join_all(size) for size in range(1, num_tasks + 1))]
        self.in_use = [0.0, *(prior.log_in_use(t, chain.alpha) for t in range(1, num_tasks + 1)), -np.inf]

    def of(self, tasks: int) -> float:
        """Of one motive's tasks."""
        return self.of_size[tasks.bit_count()] + self.log_evidence(tasks)


def integrates_motives_out(target: Target) -> bool:
    """Whether evidences of sets of tasks can be kept: their prior is known, tasks are few, coordinates are many."""
    is_known = is_by_motive(target) and target.num_hyper == 0
    return is_known and target.layout.num_rewards > FEW and target.num_tasks <= MOST_TASKS


def move_partition(chain: "MixtureChain") -> None:
    """Every task in turn, and whole motives; then motives, drawn given the partition."""
    rng, label, found = chain.rng, chain.label, chain.evidences
    sets = [set_of(members) for members in members_of(label, range(label.max() + 1))]
    weights, likeness = Weights(chain), _likeness(chain)
    _reassign(chain, sets, weights, likeness)
    _split_and_merge(chain, sets, weights, likeness)
    sets.sort(key=lambda tasks: tasks & -tasks)  # in order of their first tasks
    for k, tasks in enumerate(sets):
        label[tasks_in(tasks)] = k
    if rng.random() < REFRESHED:
        _refresh(chain, sets[rng.integers(len(sets))], is_in_use=True)
    if rng.random() < REFRESHED:
        tasks = sets[rng.integers(len(sets))] ^ 1 << int(rng.integers(len(label)))
        if tasks and tasks not in sets and found.has(tasks):
            _refresh(chain, tasks, is_in_use=False)
    chain.motives = np.stack([found.of(tasks).drawn(rng) for tasks in sets])


def _reassign(chain: "MixtureChain", sets: list[int], weights: Weights, likeness: Likeness) -> None:
    """Every task in turn, and a few pairs of those that share a motive: what one task cannot do two often can."""
    rng, num_tasks = chain.rng, len(chain.label)
    blocks = [1 << m for m in range(num_tasks)]
    blocks += [(1 << i) | (1 << j) for i, j in likeness.drawn(rng, PAIRS)]
    gumbel = rng.gumbel(size=(len(blocks), num_tasks + 1)).tolist()
    for n in rng.permutation(len(blocks)).tolist():
        block = blocks[n]
        own = next((k for k, tasks in enumerate(sets) if not block & ~tasks), None)
        if own is None:
            continue  # two that do not share a motive
        sets[own] ^= block
        if not sets[own]:
            del sets[own]
        logits = [weights.of(tasks | block) - weights.of(tasks) for tasks in sets]
        logits.append(weights.of(block) + weights.in_use[len(sets) + 1] - weights.in_use[len(sets)])
        chosen = max(range(len(logits)), key=lambda k: logits[k] + gumbel[n][k])
        if chosen < len(sets):
            sets[chosen] |= block
        else:
            sets.append(block)


def _split_and_merge(chain: "MixtureChain", sets: list[int], weights: Weights, likeness: Likeness) -> None:
    """Two tasks, the more often the more alike, apart or together; the others of their motives go with one of them."""
    rng, num_tasks = chain.rng, len(chain.label)
    uniform = rng.random(size=(SPLITS, num_tasks)).tolist()
    for n, (i, j) in enumerate(likeness.drawn(rng, SPLITS)):
        of_i, of_j = (next(tasks for tasks in sets if tasks >> m & 1) for m in (i, j))
        is_split, both = of_i == of_j, of_i | of_j
        chances, log_chance, first = likeness.chances[i][j], 0.0, 1 << i
        for m in tasks_in(both & ~(1 << i | 1 << j)).tolist():
            with_i = uniform[n][m] < chances[m] if is_split else bool(of_i >> m & 1)
            first |= with_i << m
            log_chance += log(chances[m] if with_i else 1.0 - chances[m])
        second, number = both ^ first, len(sets) + is_split
        gain = weights.of(first) + weights.of(second) - weights.of(both) - log_chance
        gain += weights.in_use[number] - weights.in_use[number - 1]
        if np.log1p(-rng.random()) < (gain if is_split else -gain):
            after = [first, second] if is_split else [both]
            sets[:] = [tasks for tasks in sets if tasks not in (of_i, of_j)] + after


def _likeness(chain: "MixtureChain") -> Likeness:
    """As it was, unless a task alone got another run."""
    found, num_tasks = chain.evidences, len(chain.label)
    alone = tuple(found.of(1 << m) for m in range(num_tasks))
    if chain.likeness is not None and all(one is other for one, other in zip(alone, chain.likeness.alone)):
        return chain.likeness
    table = chain.likelihoods.table(np.stack([each.mean for each in alone]), chain.rest, chain.away)  # [M, M]
    table = np.nan_to_num(table, nan=-1e9, neginf=-1e9)
    worse = table.diagonal()[:, None] - table
    pairs = np.column_stack(np.triu_indices(num_tasks, 1))
    weight = SELDOM + np.exp(np.minimum(-(worse + worse.T)[tuple(pairs.T)] / (2.0 * ALIKE), 0.0))
    chances = DOUBT + (1.0 - 2.0 * DOUBT) * expit(table.T[:, None] - table.T)
    chain.likeness = Likeness(alone, chances.tolist(), pairs, weight / weight.sum())
    return chain.likeness


def _refresh(chain: "MixtureChain", tasks: int, *, is_in_use: bool) -> None:
    rng, found = chain.rng, chain.evidences
    seed = int(rng.integers(2, 2**31))
    run = found.run(tasks, seed)
    if not is_in_use or np.log1p(-rng.random()) < run.log_evidence - found.log_evidence(tasks):
        found.refresh(tasks, seed, run)
