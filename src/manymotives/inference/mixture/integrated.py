"""Where tasks are spread around their motive: moves with tasks' rewards integrated out, by quadratics L̂ of likelihoods.

Rewards of tasks are drawn given motives and L̂, and judged by L / L̂, so that moves are exact:

    spread          σ, by Π ŵ_m; tasks' rewards change with it so that they are as probable given L̂ as before
    rewards         of each task: elliptical slice sampling about their normal distribution given its motive and L̂
    births, deaths  of motives, with a few draws of what each task would want for each motive: tasks join a new one or
                    stay, or leave theirs for others (Richardson & Green 1997), by sums over these draws
    reassign        each task to a motive in use, or to a new one, by the same sums; then one of the draws is kept
                    (particle Gibbs: Andrieu, Doucet & Holenstein 2010)
"""

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from manymotives.inference.mixture.quadratics import Alone, Normals

if TYPE_CHECKING:
    from manymotives.inference.mixture.chain import MixtureChain

SPREADS, SLICES = 3, 1  # in a sweep: proposals of the spread, updates of rewards …
BIRTHS, MOST_BIRTHS = 3, 6  # … births of motives, or deaths: the fewest and the most, with one more …
EACH = 50  # … for every so many tasks
SHARE = 0.2  # of tasks that join a new motive, if it explains all as well as theirs
NEVER = -1e9  # log-likelihood of what nobody would do
TRIES = 4  # draws of what a task may want, for each motive …
UNLIKELY = 10.0  # … but one for a motive that explains a task by so many nats worse than one of its own would
SHRINKS = 30  # of a slice, at most
SCALES = (1.0, 2.5, 6.0, 15.0)  # of proposals of log σ, over what its standard deviation is if tasks' rewards are known


def move(chain: "MixtureChain") -> None:
    """The spread; what tasks want; births and deaths of motives; the motive of every task."""
    normals, every = Normals.of(chain), np.arange(len(chain.label))
    error = _error(chain, normals, every, chain.motives[chain.label] + chain.away)  # log L / L̂ [M] of what tasks want
    for _ in range(SPREADS):
        normals, error = _move_spread(chain, normals, error)
    error = _move_rewards(chain, normals, error)
    _move_partition(chain, normals, error)


class Tries:
    """Rewards that tasks try for motives, a few for each; among those for its own motive are the rewards it has."""

    def __init__(self, rewards: np.ndarray, log_weight: np.ndarray, total: np.ndarray) -> None:
        self.rewards = rewards  # [M, K, N, R]
        self.log_weight = log_weight  # [M, K, N] log ŵ L / L̂; −inf where fewer were tried
        self.total = total  # [M, K] the logarithm of their mean

    @classmethod
    def of(cls, rewards: np.ndarray, log_weight: np.ndarray) -> "Tries":
        """With the means of weights."""
        number = np.isfinite(log_weight).sum(axis=2)
        return cls(rewards, log_weight, np.logaddexp.reduce(log_weight, axis=2) - np.log(number))

    def chosen(self, rng: np.random.Generator, label: np.ndarray) -> np.ndarray:
        """Which of those for a motive of each task, label [M], by their weights [M]."""
        weight = self.log_weight[np.arange(len(label)), label]
        return np.argmax(weight + rng.gumbel(size=weight.shape), axis=1)

    def joined(self, other: "Tries") -> "Tries":
        """With those for another motive."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Tries(*(np.concatenate(pair, axis=1) for pair in pairs))

    def without(self, motive: int) -> "Tries":
        """For all motives but this one."""
        return Tries(*(np.delete(each, motive, axis=1) for each in vars(self).values()))


def _tries(
    chain: "MixtureChain", normals: Normals, weight: np.ndarray, motives: np.ndarray, least: np.ndarray
) -> Tries:
    """Draws given motives [M or 1, K, N or 1, R] and L̂, where log ŵ is `weight` [M, K].

    Motives that explain a task worse than `least` [M] are tried once.
    """
    shape = (*weight.shape, TRIES, motives.shape[-1])
    flat = (len(weight), -1, motives.shape[-1])
    motives = np.broadcast_to(motives, shape).reshape(flat)
    rewards = (motives + normals.variance * normals.linear[:, None]) @ normals.follows.swapaxes(1, 2)
    rewards = (rewards + chain.rng.standard_normal(rewards.shape) @ normals.factor.swapaxes(1, 2)).reshape(shape)
    tried = np.broadcast_to((weight > least[:, None])[:, :, None], shape[:3]).copy()
    tried[:, :, 0] = True
    log_weight = np.full(shape[:3], -np.inf)
    error = _error(chain, normals, np.nonzero(tried)[0], rewards[tried])
    error = np.clip(np.nan_to_num(error, nan=NEVER), NEVER, -NEVER)
    log_weight[tried] = np.broadcast_to(weight[:, :, None], shape[:3])[tried] + error
    return Tries.of(rewards, log_weight)


def _move_partition(chain: "MixtureChain", normals: Normals, error: np.ndarray) -> None:
    """Births and deaths of motives, then every task in turn, with what tasks try for each motive: particle Gibbs."""
    label, every, alone = chain.label, np.arange(len(chain.label)), normals.alone()
    least = alone.log_evidence - UNLIKELY
    weight = normals.weight(chain.motives, every)
    found = _tries(chain, normals, weight, chain.motives[None, :, None], least)
    found.rewards[every, label, 0] = chain.motives[label] + chain.away
    found.log_weight[every, label, 0] = weight[every, label] + error
    found = Tries.of(found.rewards, found.log_weight)
    for _ in range(min(BIRTHS + len(label) // EACH, MOST_BIRTHS)):
        found = _birth_or_death(chain, normals, found, alone)
    found = _reassign(chain, normals, found, alone)
    rewards = found.rewards[every, chain.label, found.chosen(chain.rng, chain.label)]
    chain.away = rewards - chain.motives[chain.label]


def _reassign(chain: "MixtureChain", normals: Normals, found: Tries, alone: Alone) -> Tries:
    """Every task in turn, to a motive in use or to a new one."""
    rng, label, prior, every = chain.rng, chain.label, chain.prior, np.arange(len(chain.label))
    normal = rng.standard_normal((len(label), TRIES, chain.motives.shape[1], 1))
    motives = alone.mean[:, None] + np.linalg.solve(alone.factor.swapaxes(1, 2)[:, None], normal)[..., 0]
    least = alone.log_evidence - UNLIKELY
    fresh = _tries(chain, normals, alone.log_evidence[:, None], motives[:, None], least)
    join, start = prior.log_joins(), prior.log_starts(chain.alpha)  # by how many tasks, or motives, there are already
    sizes, number = np.bincount(label), len(chain.motives)
    gumbel = rng.gumbel(size=(len(label), 2 * len(label) + 1))
    for m in rng.permutation(len(label)).tolist():
        before = label[m]
        sizes[before] -= 1
        new, joined = fresh.log_weight[m, 0], fresh.total[m, 0]
        if sizes[before] == 0:
            number -= 1
            which = int(np.argmax(found.log_weight[m, before] + rng.gumbel(size=TRIES)))
            motives[m, 0], fresh.rewards[m, 0, 0] = chain.motives[before], found.rewards[m, before, which]
            given = normals.weight(motives[m, :1], np.array([m]))[0, 0]
            new[0] = alone.log_evidence[m] + found.log_weight[m, before, which] - given
            joined = np.logaddexp.reduce(new) - np.log(TRIES)
        logits = np.append(found.total[m] + join[sizes], joined + start[number])
        after = int((logits + gumbel[m, : len(logits)]).argmax())
        if after == len(sizes):
            which = int(np.argmax(new + rng.gumbel(size=TRIES)))
            motive = motives[m, which][None]
            chain.motives, sizes, number = np.vstack([chain.motives, motive]), np.append(sizes, 0), number + 1
            found = found.joined(_tries(chain, normals, normals.weight(motive, every), motive[None, None], least))
            found.rewards[m, after], found.log_weight[m, after] = fresh.rewards[m, 0, which], NEVER
            found.log_weight[m, after, 0] = 0.0
        label[m] = after
        sizes[after] += 1
        if sizes[before] == 0:
            chain.drop(before)
            sizes, found = np.delete(sizes, before), found.without(before)
    return found


def _birth_or_death(chain: "MixtureChain", normals: Normals, found: Tries, alone: Alone) -> Tries:
    """A new motive, which each task joins or does not; or all tasks of a motive go to others."""
    rng, label, prior, every = chain.rng, chain.label, chain.prior, np.arange(len(chain.label))
    is_birth = rng.random() < 0.5
    t, least = len(chain.motives) - (0 if is_birth else 1), alone.log_evidence - UNLIKELY  # t: without that motive
    if t == 0 or (is_birth and not np.isfinite(prior.log_start(t, chain.alpha))):
        return found
    if is_birth:
        m = int(rng.integers(len(label)))
        motive = alone.mean[m] + np.linalg.solve(alone.factor[m].T, rng.standard_normal(alone.mean.shape[1]))
        new = _tries(chain, normals, normals.weight(motive[None], every), motive[None, None, None], least)
        rest, was = found, label.copy()
    else:
        gone = int(rng.integers(len(chain.motives)))
        motive, new = chain.motives[gone], Tries(*(each[:, [gone]] for each in vars(found).values()))
        rest, was = found.without(gone), np.where(label > gone, label - 1, label)
        joins = label == gone
    if is_birth:
        chance = _joining(new, rest, was)
        joins = rng.random(len(label)) < chance
    sizes = np.bincount(was[~joins], minlength=t).astype(float)
    if not joins.any() or (sizes == 0).any():
        return found
    going = rest.total[joins] + prior.log_join(sizes)
    going -= np.logaddexp.reduce(going, axis=1, keepdims=True)
    if not is_birth:
        was[joins] = np.argmax(going + rng.gumbel(size=going.shape), axis=1)
        chance = _joining(new, rest, was)
    with np.errstate(divide="ignore"):
        back = going[np.arange(len(going)), was[joins]].sum() - np.log(t + 1.0)
        there = np.log(np.where(joins, chance, 1.0 - chance)).sum() + alone.log_density(motive)
    after = np.append(sizes, joins.sum())
    gain = sum(map(prior.log_join_all, after)) - sum(map(prior.log_join_all, np.bincount(was, minlength=t)))
    gain += prior.log_in_use(t + 1, chain.alpha) - prior.log_in_use(t, chain.alpha)
    gain += (new.total[joins, 0] - rest.total[joins, was[joins]]).sum()
    gain += chain.likelihoods.log_prior(motive[None], chain.parameters)[0] + back - there
    if not np.log1p(-rng.random()) < (gain if is_birth else -gain):
        return found
    if is_birth:
        label[joins], chain.motives = t, np.vstack([chain.motives, motive])
        return found.joined(new)
    label[:], chain.motives = was, np.delete(chain.motives, gone, axis=0)
    return rest


def _joining(new: Tries, rest: Tries, label: np.ndarray) -> np.ndarray:
    """The probability [M] of each task to join a new motive, rather than to stay."""
    return expit(new.total[:, 0] - rest.total[np.arange(len(label)), label] + np.log(SHARE))


def _move_rewards(chain: "MixtureChain", normals: Normals, error: np.ndarray) -> np.ndarray:
    """Of tasks given their motives: elliptical slice sampling (Murray, Adams & MacKay 2010) about the normal of L̂.

    Takes and returns log L / L̂ [M] of tasks' rewards.
    """
    rng, every, error = chain.rng, np.arange(len(chain.label)), error.copy()
    own = chain.motives[chain.label] + chain.away
    centre = normals.expected(chain.motives[chain.label], every)
    drawn = (normals.factor @ rng.standard_normal(own.shape)[:, :, None])[:, :, 0]
    threshold = error + np.log1p(-rng.random(len(own)))
    angle = rng.uniform(0.0, 2.0 * np.pi, size=len(own))
    lower, upper = angle - 2.0 * np.pi, angle.copy()
    found, left = own.copy(), every
    for _ in range(SHRINKS):
        at = angle[left, None]
        tried = centre[left] + np.cos(at) * (own - centre)[left] + np.sin(at) * drawn[left]
        error_there = _error(chain, normals, left, tried)
        inside = error_there > threshold[left]
        found[left[inside]], error[left[inside]] = tried[inside], error_there[inside]
        left = left[~inside]
        if len(left) == 0:
            break
        back = angle[left] < 0.0
        lower[left[back]], upper[left[~back]] = angle[left[back]], angle[left[~back]]
        angle[left] = rng.uniform(lower[left], upper[left])
    chain.away = found - chain.motives[chain.label]
    return error


def _move_spread(chain: "MixtureChain", normals: Normals, error: np.ndarray) -> tuple[Normals, np.ndarray]:
    """σ, and tasks' rewards with it, so that they are as probable given L̂ as before.

    Takes and returns normals for σ, and log L / L̂ [M] of tasks' rewards.
    """
    prior, rng, every = chain.spread_prior, chain.rng, np.arange(len(chain.label))
    assert prior is not None
    if prior.is_known:
        return normals, error
    motives, before = chain.motives[chain.label], chain.log_spread
    scale = rng.choice(SCALES) / np.sqrt(2.0 * motives.size)
    proposed = before + scale * rng.standard_normal()
    after = Normals.of(chain, proposed)
    own = motives + chain.away
    standard = normals.inverse @ (own - normals.expected(motives, every))[:, :, None]
    moved = after.expected(motives, every) + (after.factor @ standard)[:, :, 0]
    error_there = _error(chain, after, every, moved)
    gain = (error_there - error + after.each(motives) - normals.each(motives)).sum()
    if np.log1p(-rng.random()) < gain + prior.log_density(proposed) - prior.log_density(before):
        chain.log_spread, chain.away = proposed, moved - motives
        return after, error_there
    return normals, error


def _error(chain: "MixtureChain", normals: Normals, tasks: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """log L / L̂ [N] of rewards [N, R] of tasks."""
    u = np.hstack([rewards, chain.rest[tasks]])
    return chain.likelihoods.log_likelihood(u, tasks) - normals.likelihood(rewards, tasks)
