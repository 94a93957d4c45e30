"""Empirical Bayes where motives switch: expectation–maximisation (EM).

E   p(z_t | all choices) by smoothing; from it expected counts N_k(s, a), and expected transitions between motives
M   motives: a step of Fisher scoring given these counts, in standardised coordinates (u − mean) / scale (`fisher`)
    means of populations: such a step of all their tasks together, each at the same distance from the mean as before
    scales of populations: the likeliest, with variances of coordinates as if these were independent
    rows of the transition matrix of motives: means on their tree (`motive_rows`)

By Fisher's identity a fixed point is a mode of the posterior with the hidden motives summed out. There may be many:
starts are, in turn, motives drawn around what one motive would be for everybody, and hidden Markov models of free
policies.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import linear_sum_assignment

from manymotives.errors import InputError
from manymotives.families import NORMAL, log_density_all
from manymotives.inference.draws import AssignmentDraws, Draws
from manymotives.inference.mcmc.motives import MotiveSampler
from manymotives.inference.motive_modes import Motives
from manymotives.inference.motive_rows import Rows, expected_rows, first_rows
from manymotives.inference.progress import Progress
from manymotives.models import Target
from manymotives.models.hidden_markov import expected_counts, sampled_motives, smoothed_motives

TOGETHER, APART = 80, 60  # steps of EM at most: with tasks at the mean of their population, then apart
SETTLED, SETTLED_FOR = 1e-5, 7  # change of the log likelihood, relative, in so many steps, at which either ends …
LEAST_STEPS = 20  # … but not before so many
FIRST_SCORING = 4  # scoring steps towards the first motives
SCALES_EVERY = 3  # steps between two updates of scales
SMALLEST_PSEUDO = 1e-6  # of a Dirichlet distribution that is drawn from
ALIKE = 0.9  # share of steps on which two starts agree
LARGEST = 150_000_000  # numbers in all draws of motives: about a gigabyte


class Estimate(NamedTuple):
    """Where EM ended."""

    standardised: Float[np.ndarray, "R D"]  # (u − mean) / scale of motives (of units)
    hyper: Float[np.ndarray, "G H"]
    rows: Rows
    counts: Float[np.ndarray, "R S A"]  # expected
    shares: Float[np.ndarray, "T K"]  # p(z_t | all choices)
    log_likelihood: float
    evidence: float  # of these populations, by Laplace's approximation without correlations, times their prior
    is_settled: bool


def check_normal(target: Target) -> None:
    """Refuse what EM has no formulas for."""
    layout = target.layout
    means = layout.hyper_families[layout.source[:, 0][layout.source[:, 0] >= 0]]
    if (layout.families != NORMAL).any() or (means != NORMAL).any() or layout.smooth.exist:
        raise InputError(
            "EmpiricalBayes() fits motives that switch only with GaussianReward() and a known inverse "
            "temperature and lapse rate. Use HMC() or Gibbs() otherwise."
        )
    if target.assignment is not None and target.assignment.tree.sparsity > 0:
        raise InputError(
            "EmpiricalBayes() needs the number of motives, because a single mode does not say how many there "
            "are. Use HMC() with StickBreaking(), or give a number."
        )


class Climb:
    """One start of EM, and where it stands."""

    def __init__(self, target: Target, seed: Any, is_nudged: bool, report: Callable[[int, float], None]) -> None:
        assert target.assignment is not None
        self.target, self.assignment, self.report = target, target.assignment, report
        self.rng = np.random.default_rng(seed)
        self.sampler = MotiveSampler(target.assignment)
        middle = np.median(target.draw_hyper(np.random.default_rng(0), 501)[:, 0], axis=0)
        self.hyper = np.repeat(middle[None], target.num_groups, axis=0)
        self.rows = first_rows(self.sampler.tree, self.assignment.num_motives)
        self.is_nudged = is_nudged
        if is_nudged:
            self.shares = np.full((len(self.sampler.segments.state), self.assignment.num_motives), 1.0)
            self.shares /= self.assignment.num_motives
        else:
            self.shares = self.sampler.first_shares(self.rng, target)
        self.steps, self.log_likelihood = 0, -np.inf

    def run(self) -> Estimate:
        """First with tasks at the mean of their population, where there is one; then each for itself."""
        everybody = self._everybody()
        if everybody is not None:
            self._steps(everybody, np.zeros((everybody.num_tasks, everybody.num_coordinates)), TOGETHER, apart=False)
        z = np.zeros((self.target.num_tasks, self.target.num_coordinates))
        motives, z, is_settled = self._steps(self.target, z, TOGETHER if everybody is None else APART, apart=True)
        population = motives.population(self.hyper)
        diagonal = motives.diagonal(population.coordinates(z), self.rng)
        cost = 0.5 * (z**2).sum() + 0.5 * np.log1p(population.scale**2 * diagonal).sum()
        layout = self.target.layout
        constants = np.broadcast_to(layout.hyper_constants, (*self.hyper.shape, 2)).copy()
        prior = log_density_all(layout.hyper_families, self.hyper, constants).sum()
        evidence = self.log_likelihood + float(prior - cost)
        return Estimate(
            z, self.hyper, self.rows, motives.target.counts, self.shares, self.log_likelihood, evidence, is_settled
        )

    def _everybody(self) -> Target | None:
        """The target with one row for each population, its tasks taken together; None where that is no less."""
        target, size = self.target, self.target.layout.group_size
        known = np.stack([target.fixed_temperature, target.fixed_lapse]).reshape(2, -1, size)
        has_means = (target.layout.source[:, 0] >= 0).any()
        if size == 1 or not has_means or not np.array_equal(known, np.broadcast_to(known[:, :, :1], known.shape)):
            return None
        return replace(
            target,
            tasks=target.tasks[::size],
            counts=target.counts[::size],
            layout=target.layout._replace(group_size=1),
            fixed_temperature=target.fixed_temperature[::size],
            fixed_lapse=target.fixed_lapse[::size],
        )

    def _steps(self, target: Target, z: np.ndarray, most: int, *, apart: bool) -> tuple[Motives, np.ndarray, bool]:
        """So many steps at most, from the shares of motives as they are; z [R, D] of the rows of `target`."""
        segments, tree, rng = self.sampler.segments, self.sampler.tree, self.rng
        each = self.target.num_tasks // target.num_tasks
        motives, heights = self._expected(target), list[float]()
        for _ in range(FIRST_SCORING):
            diagonal = motives.diagonal(motives.population(self.hyper).coordinates(z), rng)
            self.hyper = motives.shifted(z, self.hyper, diagonal)
            z = motives.scored(z, motives.population(self.hyper), diagonal) if apart else z
        if self.steps == 0 and self.is_nudged:
            z, self.hyper = motives.nudged(z, self.hyper, rng)
        for step in range(most):
            u = motives.population(self.hyper).coordinates(z)
            log_policies = target.log_policies(u, np.arange(target.num_tasks))
            rows = self.rows.rows[tree.context]
            self.shares, transitions, by_episode = smoothed_motives(
                segments, rows, np.repeat(log_policies, each, axis=0), self.assignment.num_episodes
            )
            self.log_likelihood, self.steps = float(by_episode.sum()), self.steps + 1
            self.report(self.steps, self.log_likelihood)
            motives = self._expected(target)
            heights.append(self.log_likelihood)
            if step >= LEAST_STEPS and np.ptp(heights[-SETTLED_FOR:]) < SETTLED * abs(self.log_likelihood):
                return motives, z, True
            self.rows = expected_rows(tree, transitions, self.rows)
            if step % SCALES_EVERY == 0:
                diagonal = motives.diagonal(u, rng)
            if not apart or step % SCALES_EVERY == 0:
                self.hyper = motives.shifted(z, self.hyper, diagonal)
            if apart:
                z = motives.scored(z, motives.population(self.hyper), diagonal)
                if step % SCALES_EVERY == SCALES_EVERY - 1:
                    z, self.hyper = motives.rescaled(z, self.hyper, diagonal)
        return motives, z, False

    def _expected(self, target: Target) -> Motives:
        """Motives given expected counts, those of a population together where it has one row."""
        counts = expected_counts(
            self.sampler.segments, self.shares, self.assignment.num_units, *target.environment.available.shape
        )
        return Motives(replace(target, counts=counts.reshape(target.num_tasks, -1, *counts.shape[1:]).sum(axis=1)))


def agreement(one: Float[np.ndarray, "T K"], other: Float[np.ndarray, "T K"]) -> float:
    """The share of steps that both expect to belong to the same motive, numbered alike as far as possible."""
    both = one.T @ other
    rows, columns = linear_sum_assignment(-both)
    return float(both[rows, columns].sum() / max(1, len(one)))


def switching_draws(target: Target, seed: int, draws: int, starts: int, progress: Progress) -> Draws:
    """The best of so many starts, and draws about it: motives by Laplace's approximation, rows by their Dirichlet."""
    assignment = target.assignment
    assert assignment is not None
    streams = np.random.SeedSequence(seed).spawn(starts + 1)
    ends: list[Estimate] = []
    with progress.of(starts * (TOGETHER + APART), "steps of EM") as report:

        def tell(step: int, found: float) -> None:
            report.update(len(ends) * (TOGETHER + APART) + step, f"log-likelihood {found:,.1f}")

        for number in range(starts):
            ends.append(Climb(target, streams[number], number % 2 == 0, tell).run())
    best = max(ends, key=lambda end: end.evidence)
    rng = np.random.default_rng(streams[-1])
    motives = Motives(replace(target, counts=best.counts))
    population = motives.population(best.hyper)
    about = motives.spread(best.standardised, population, rng, draws)
    tasks = population.coordinates(best.standardised + about)
    sampler, every = MotiveSampler(assignment), np.arange(target.num_tasks)
    drawn, state = sampler.empty_draws(draws), sampler.state
    state.stickiness[:], state.concentration[:] = best.rows.stickiness, best.rows.concentration
    pseudo = np.maximum(best.rows.pseudo[assignment.tree.context], SMALLEST_PSEUDO)
    likelihood = np.empty((draws, target.num_tasks))
    for n in range(draws):
        weights = np.maximum(rng.standard_gamma(pseudo), 1e-300)
        state.context_rows[:] = weights / weights.sum(axis=2, keepdims=True)
        log_policies = target.log_policies(tasks[n], every)
        state.motive[:], state.log_likelihood[:] = sampled_motives(
            rng, sampler.segments, state.context_rows, log_policies, assignment.num_episodes
        )
        sampler.record(drawn, n)
        counts = np.zeros(target.counts.shape)
        sampler.count_choices(counts)
        likelihood[n] = (counts * np.where(counts > 0, log_policies, 0.0)).sum(axis=(1, 2))
    return Draws(
        tasks=tasks[None],
        hyper=np.repeat(best.hyper[None], draws, axis=0)[None],
        log_likelihood=likelihood[None],
        warnings=_warnings(best, ends),
        assignment=AssignmentDraws(*(part[None] for part in drawn)),
    )


def _warnings(best: Estimate, ends: list[Estimate]) -> tuple[str, ...]:
    said = [
        "this is an approximation by empirical Bayes: one mode of the posterior, with its population and "
        "transition matrix taken as known, so intervals are rough and mostly too narrow. Confirm with HMC()."
    ]
    if not best.is_settled:
        said.append("expectation–maximisation had not converged when it ended.")
    for end in ends:
        if end is not best and (share := agreement(best.shares, end.shares)) < ALIKE:
            said.append(
                f"another start of EM assigns {1 - share:.0%} of steps to different motives, with an evidence "
                f"{best.evidence - end.evidence:,.1f} nats lower: there is more than one way to divide this "
                "behaviour."
            )
    return tuple(said)


def check_memory(method: Any, target: Target) -> None:
    """Refuse more draws than memory holds."""
    each = target.num_tasks * (target.num_coordinates + target.environment.available.size)
    if method.draws * each > LARGEST:
        raise InputError(
            f"{method.draws:,} draws of {target.num_tasks} motives with {target.num_coordinates:,} coordinates each "
            f"would take {8e-9 * method.draws * each:,.1f} GB: use EmpiricalBayes(draws={max(1, LARGEST // each)}), "
            "or fewer."
        )
