"""The hidden chain of motives as part of a Markov chain's state, where motives switch: start, update, record, resume.

What is updated, and how, is in `motive_updates`. Chains start from a hidden Markov model of free policies, climbed by a
few steps of EM from random places.
"""

from typing import Any, NamedTuple

import numpy as np

from manymotives.errors import InputError
from manymotives.families import LOG_NORMAL, NORMAL
from manymotives.inference.draws import AssignmentDraws
from manymotives.inference.laplace import peaks
from manymotives.inference.mcmc.motive_updates import count_choices, resample_rows, update_motives
from manymotives.models.assignment import KNOWN, Assignment, RowTree
from manymotives.models.hidden_markov import Segments, expected_counts, smoothed_motives
from manymotives.models.target import Target

SAVED = ("motive", "rows", "stickiness", "concentration", "use")  # what is needed to resume
STARTS = 4  # random places from which a free hidden Markov model is climbed …
CLIMB = 12  # … by so many steps of EM
SCORING = 5  # steps of Fisher scoring towards each motive's mode, given its counts
FIRST_USED = 6  # motives in use at first, at most, where their number is inferred
WINDOW = 25  # steps of an episode that a motive's first policy is taken from
MOST_NOTED = 5_000_000  # draws × episodes of a chain; beyond it log-likelihoods are kept by task
SMOOTHING = 1.0  # pseudo-choices of everybody's policy in each state, for each motive


class MotiveState(NamedTuple):
    """Where a chain is with its motives; what compiled loops read and write."""

    motive: np.ndarray  # [T] z
    rows: np.ndarray  # [N, K + 1, K] at all nodes of the tree
    stickiness: np.ndarray  # [R] κ
    concentration: np.ndarray  # [R, L] ν
    use: np.ndarray  # [R, K] α β: how much motives are used
    filtered: np.ndarray  # [T, K]
    log_likelihood: np.ndarray  # [E] of each episode, with z summed out
    context_rows: np.ndarray  # [C, K + 1, K]


class MotiveSampler:
    """Motives of all steps in one chain, and the rows by which they switch."""

    def __init__(self, assignment: Assignment, saved: dict[str, Any] | None = None) -> None:
        self.assignment = assignment
        # copies, because threads that share an array also fight over its reference count
        self.segments = Segments(*(np.array(part) for part in assignment.segments))
        parts: Any = (np.array(part) if isinstance(part, np.ndarray) else part for part in assignment.tree)
        self.tree = RowTree(*parts)
        self.owner = np.zeros(assignment.num_episodes, dtype=np.int64)  # [E] the task of each episode
        self.owner[self.segments.episode] = self.segments.task
        num_steps, count = len(self.segments.state), assignment.num_motives
        num_nodes, roots, levels = len(self.tree.parent), assignment.num_roots, len(assignment.levels)
        self.state = MotiveState(
            motive=np.zeros(num_steps, dtype=np.int64),
            rows=np.full((num_nodes, count + 1, count), 1.0 / count),
            stickiness=np.full(roots, self.tree.stickiness[0]),
            concentration=np.full((roots, levels), self.tree.concentration[0]),
            use=np.ones((roots, count)),
            filtered=np.empty((num_steps, count)),
            log_likelihood=np.zeros(assignment.num_episodes),
            context_rows=np.empty((assignment.num_contexts, count + 1, count)),
        )
        if saved is not None:
            for name in SAVED:
                getattr(self.state, name)[...] = saved[f"motives_{name}"]

    # ---- start ---------------------------------------------------------------------------------------------

    def begin(self, rng: np.random.Generator, target: Target, tasks: np.ndarray, hyper: np.ndarray) -> np.ndarray:
        """Motives of a free hidden Markov model, and coordinates [K · U, D] drawn about the modes that they lead to.

        The counts of `target` are filled in.
        """
        self.state.rows[:, :-1] = 0.1 / self.assignment.num_motives
        self.state.rows[:, np.arange(self.assignment.num_motives), np.arange(self.assignment.num_motives)] += 0.9
        if self.tree.stickiness_family != KNOWN:
            self.state.stickiness[:] = 10.0
        if self.tree.concentration_family != KNOWN:
            self.state.concentration[:] = 10.0
        shares = self.first_shares(rng, target)
        chance = np.cumsum(shares, axis=1)
        self.state.motive[:] = np.minimum((rng.random((len(chance), 1)) > chance).sum(axis=1), shares.shape[1] - 1)
        self.count_choices(target.counts)
        resample_rows(rng, self.segments, self.tree, self.state)
        return _about_modes(rng, target, np.ascontiguousarray(tasks), hyper)

    def first_shares(self, rng: np.random.Generator, target: Target) -> np.ndarray:
        """p(z_t | all choices) [T, K] of the likeliest of some free hidden Markov models.

        Where the number of motives is inferred, as many are in use at first as BIC finds for free policies.
        """
        most, exists = self.assignment.num_motives, target.environment.available
        pooled = self.segments._replace(
            unit=np.zeros_like(self.segments.unit), context=np.zeros_like(self.segments.context)
        )
        blind = exists / exists.sum(axis=1, keepdims=True).clip(1)
        seen = expected_counts(pooled, np.ones((len(pooled.state), 1)), 1, *exists.shape)[0]
        everybody = (seen + blind) / (seen + blind).sum(axis=1, keepdims=True).clip(1e-300)
        free = int((exists.sum(axis=1) - 1)[seen.sum(axis=1) > 0].sum())  # parameters of a policy
        counts = range(1, min(most, FIRST_USED) + 1) if self.tree.sparsity > 0 else [most]
        best, found = -np.inf, np.empty((0, 0))
        for count in counts:
            penalty = 0.5 * np.log(max(seen.sum(), 2.0)) * count * (free + count)
            for _ in range(STARTS if count > 1 else 1):
                likelihood, shares = self._free_policies(rng, pooled, everybody, count)
                if likelihood - penalty > best:
                    best, found = likelihood - penalty, shares
        return np.pad(found, ((0, 0), (0, most - found.shape[1])))

    def _free_policies(
        self, rng: np.random.Generator, segments: Segments, everybody: np.ndarray, count: int
    ) -> tuple[float, np.ndarray]:
        """The log likelihood of a free hidden Markov model climbed by EM from a random place, and p(z_t) [T, K]."""
        every, num_steps = np.arange(count), len(segments.state)
        shares = np.zeros((num_steps, count))
        for k, first in enumerate(rng.integers(0, max(1, num_steps - WINDOW), size=count)):
            shares[first : first + WINDOW, k] = 1.0
        rows = np.full((1, count + 1, count), 0.1 / count)
        rows[0, every, every] += 0.9
        rows /= rows.sum(axis=2, keepdims=True)
        for _ in range(CLIMB):
            counts = expected_counts(segments, shares, 1, *everybody.shape) + SMOOTHING * everybody
            with np.errstate(divide="ignore"):
                log_policies = np.log(counts / counts.sum(axis=2, keepdims=True).clip(1e-300))
            shares, transitions, likelihood = smoothed_motives(
                segments, rows, log_policies, self.assignment.num_episodes
            )
            transitions[0, every, every] += self.state.stickiness[0]
            rows = (transitions + 1.0) / (transitions + 1.0).sum(axis=2, keepdims=True)
        return float(likelihood.sum()), shares

    def count_choices(self, counts: np.ndarray) -> None:
        """N_k(s, a) of units, as motives are now, into counts [K · U, S, A]."""
        count_choices(self.segments, self.state.motive, counts, self.assignment.num_units)

    # ---- go on ---------------------------------------------------------------------------------------------

    def update(self, rng: np.random.Generator, layout: Any, data: Any, state: Any) -> None:
        """Rows given motives, then motives given all else; counts and log-likelihoods of the chain follow."""
        update_motives(rng, layout, data, state, self.segments, self.tree, self.state)

    def record(self, drawn: AssignmentDraws, n: int) -> None:
        """Where the chain is, as its n-th draw."""
        segments, state, count = self.segments, self.state, self.assignment.num_motives
        drawn.rows[n] = state.context_rows
        drawn.stickiness[n], drawn.concentration[n] = state.stickiness, state.concentration
        flat = np.bincount(segments.task * count + state.motive, minlength=drawn.steps[n].size)
        drawn.steps[n] = flat.reshape(drawn.steps[n].shape)
        switched = ~segments.begins & (state.motive != np.roll(state.motive, 1))
        drawn.log_likelihood[n] = np.bincount(
            self.owner, weights=state.log_likelihood, minlength=len(drawn.switches[n])
        )
        if drawn.episode_log_likelihood.size:
            drawn.episode_log_likelihood[n] = state.log_likelihood
        drawn.switches[n] = np.bincount(segments.task[switched], minlength=len(drawn.switches[n]))

    def empty_draws(self, draws: int) -> AssignmentDraws:
        """Room for so many draws."""
        state, assignment = self.state, self.assignment
        noted = assignment.num_episodes if draws * assignment.num_episodes <= MOST_NOTED else 0
        return AssignmentDraws(
            rows=np.empty((draws, *state.context_rows.shape)),
            stickiness=np.empty((draws, *state.stickiness.shape)),
            concentration=np.empty((draws, *state.concentration.shape)),
            steps=np.empty((draws, assignment.num_tasks, assignment.num_motives)),
            switches=np.empty((draws, assignment.num_tasks)),
            log_likelihood=np.empty((draws, assignment.num_tasks)),
            episode_log_likelihood=np.empty((draws, noted)),
        )

    def saved(self) -> dict[str, np.ndarray]:
        """What is needed to resume."""
        return {f"motives_{name}": getattr(self.state, name).copy() for name in SAVED}


def _about_modes(rng: np.random.Generator, target: Target, tasks: np.ndarray, hyper: np.ndarray) -> np.ndarray:
    """Coordinates about the modes, given the motives; as they are where choices are too certain for any slope.

    They are drawn (Laplace), as none may stand *at* the mode: where the choices say nothing that is the prior's mean,
    and a scale around what equals its mean would vanish.
    """
    found = target.log_likelihood(tasks, np.arange(target.num_tasks))
    if not np.isfinite(found).all():
        raise InputError(
            f"the choices of {target.tasks[int(np.flatnonzero(~np.isfinite(found))[0])]!r} are impossible (log "
            "likelihood −∞) at the start of a chain, whatever the motives. Is the inverse temperature far too "
            "large?"
        )
    noise = rng.standard_normal((*tasks.shape, 1))
    try:
        with np.errstate(all="ignore"):
            peak = peaks(target, target.parameters(hyper)[target.group], tasks, SCORING)
            away = (np.linalg.cholesky(peak.covariance) @ noise)[..., 0]
    except (InputError, np.linalg.LinAlgError):  # steps that are no numbers
        return tasks
    drawn = peak.tasks + np.where(np.isin(target.layout.families, (NORMAL, LOG_NORMAL)), away, 0.0)
    usable = np.isfinite(drawn).all(axis=1)
    usable[usable] = np.isfinite(target.log_likelihood(drawn[usable], np.flatnonzero(usable)))
    return np.where(usable[:, None], drawn, tasks)
