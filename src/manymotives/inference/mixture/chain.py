"""One Markov chain over partitions of tasks, what each motive wants, and all that is inferred with it.

A sweep, each move leaving the posterior as it is:

    motives         Hamiltonian trajectories of each motive's rewards given its members
    tasks           the same of what is each task's own: temperature, lapse rate, discount; with a spread, its rewards
    partition       `partitions`; with a spread also `spread`
    populations     hyperparameters given motives and tasks; of normal rewards, also with motives moving along
    concentration   of a Dirichlet process, given the number of motives
"""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from manymotives.errors import InputError
from manymotives.inference.draws import MixtureDraws
from manymotives.inference.laplace import likelihood_shape, peaks
from manymotives.inference.mcmc.state import DrawArrays
from manymotives.inference.mixture import collapsed, integrated, leapfrog, populations, quadratics, spread, trajectories
from manymotives.inference.mixture.approximation import Approximations, Reference, importance
from manymotives.inference.mixture.evidences import Evidences, set_of
from manymotives.inference.mixture.importance import ImportanceSampling
from manymotives.inference.mixture.likelihood import Likelihoods, members_of
from manymotives.inference.mixture.partitions import DRAWS, birth_or_death, reassign, split_or_merge
from manymotives.models import Target
from manymotives.models.mixture import first_seen

STARTS = 4  # kinds of partition that chains begin with
MOST_AT_FIRST = 20  # motives of a chain that begins with all apart
LEAST_AT_FIRST = 0.05  # concentration that a chain begins with, where it is inferred
REFERENCES = (0.1, 0.3, 0.6)  # of warm-up: when approximations are made anew, about where the chain is
MOVES = 2  # births or deaths, and splits or merges, in each sweep; more where there are many tasks
ENOUGH = 0.2  # of sweeps in warm-up that have trajectories, where motives are integrated out: only step sizes need them
SAVED = ("label", "motives", "rest", "away", "hyper")


class MixtureChain:
    """A chain: where it is, what it has drawn."""

    draws, warmup, thin = 250, 250, 1  # by default; draws of a round

    def __init__(self, kernel: Callable[..., None], target: Target, walk_size: int, stream: np.random.SeedSequence):
        assert target.partitions is not None
        self.target = target.without_episodes()
        self.rng = np.random.default_rng(stream)
        self.index = int(stream.spawn_key[-1]) if stream.spawn_key else 0
        self.likelihoods = Likelihoods(self.target)
        self.prior, self.spread_prior = target.partitions
        self.is_collapsed = collapsed.integrates_motives_out(target)
        self.evidences = Evidences(self._estimator(), self.index)
        self.likeness: collapsed.Likeness | None = None
        self.done = self.kept = 0
        self.recent_acceptance = self.seconds_each = float("nan")
        self.is_warm = self.is_restored = False
        self.steps = leapfrog.StepSizes()
        self.label: np.ndarray  # [M] the motive of each task
        self.motives: np.ndarray  # [K, R] what each wants
        self.rest: np.ndarray  # [M, D − R] further coordinates of tasks
        self.away: np.ndarray  # [M, R] by how much tasks' rewards differ from their motive's
        self.hyper: np.ndarray  # [H]
        self.alpha, self.log_spread = 1.0, -np.inf
        self.approximations: Approximations
        self.information: np.ndarray  # [M, D, D] of tasks' choices, for mass matrices …
        self.centres: np.ndarray  # [M, R] … at these rewards
        self.passed: list[np.ndarray] = []  # [M, R] what tasks wanted since approximations were made, in warm-up
        none = np.zeros((self.target.num_tasks, 0))
        self.quadratics = quadratics.Quadratics(none, none, np.zeros((len(none), 0, 0)))

    def _estimator(self) -> ImportanceSampling:
        """Of evidences."""
        parameters = np.ascontiguousarray(self.target.layout.constants)
        reference = Reference(parameters, np.zeros((self.target.num_tasks, 0)))
        return ImportanceSampling(self.likelihoods, Approximations(self.likelihoods, reference), self.prior.shared)

    # ---- run -----------------------------------------------------------------------------------------------------

    def run(self, warmup: int, draws: int, thin: int, stop: threading.Event) -> None:
        """Warm up, then draw."""
        if not self.is_restored:
            self.begin()
            renewals = [int(share * warmup * thin) for share in REFERENCES]
            self.steps.is_adapting = True
            for sweep in range(warmup * thin):
                if stop.is_set():
                    return
                if sweep in renewals:
                    self.renew_reference()
                    if self.spread_prior is not None and sweep < renewals[-1]:
                        self.split_all()
                began = time.perf_counter()
                self.sweep()
                if self.spread_prior is not None:
                    self.passed.append(self.motives[self.label] + self.away)
                taken = thin * (time.perf_counter() - began)
                self.seconds_each = taken if np.isnan(self.seconds_each) else 0.9 * self.seconds_each + 0.1 * taken
                self.done = (sweep + 1) // thin
            self.steps.is_adapting = False
        self.is_warm = True
        size = self.target.num_tasks
        self.drawn = DrawArrays(
            tasks=np.empty((draws, size, self.target.num_coordinates)),
            hyper=np.empty((draws, 1, self.target.num_hyper)),
            log_likelihood=np.empty((draws, size)),
            q=np.empty((0, 0, 0)),
            visited=np.empty((0, 2), dtype=np.int64),
        )
        self.mixture_draws = MixtureDraws(
            motive=np.empty((draws, size), dtype=np.int64),
            concentration=np.empty(draws),
            spread=np.empty(draws),
            centre=np.empty((draws, size, self.likelihoods.num_rewards)),
            lp=np.empty(draws),
        )
        while self.kept < draws and not stop.is_set():
            self.one_draw(thin)
            self.record(self.kept)
            self.kept += 1
            self.done += 1
            self.recent_acceptance = self.steps.recent

    def forecast(self, thin: int) -> float:
        """Not known before a draw is made."""
        return float("nan")

    def one_draw(self, thin: int) -> None:
        """A draw that is not kept."""
        for _ in range(thin):
            self.sweep()

    def sweep(self) -> None:
        """Every kind of move."""
        if self.is_collapsed:
            collapsed.move_partition(self)
            if self.is_warm or self.rng.random() < ENOUGH:
                trajectories.move_motives(self)
            populations.move_concentration(self)
            return
        trajectories.move_motives(self)
        if self.likelihoods.has_own or self.spread_prior is not None:
            trajectories.move_tasks(self)
        if self.spread_prior is not None:
            spread.move_partition(self)
            spread.move_spread(self)
            integrated.move(self)
        else:
            reassign(self)
            for _ in range(MOVES + len(self.label) // 25):
                birth_or_death(self)
            for _ in range(MOVES):
                split_or_merge(self)
        populations.move_hyperparameters(self)
        populations.move_concentration(self)

    # ---- where it is -----------------------------------------------------------------------------------------------

    @property
    def parameters(self) -> np.ndarray:
        """[D, 2] of the prior of coordinates, given the hyperparameters."""
        return np.ascontiguousarray(self.target.parameters(self.hyper))

    @property
    def tasks(self) -> np.ndarray:
        """u [M, D]."""
        return self.likelihoods.rows(self.motives[self.label], self.rest, self.away)

    def reference_motives(self, sets: list[np.ndarray]) -> np.ndarray:
        """[K, R] where curvatures of the prior are taken: what members wanted when mass matrices were made."""
        return np.stack([self.centres[members].mean(axis=0) for members in sets])

    def evidence(self, members: np.ndarray, current: np.ndarray | None) -> tuple[float, np.ndarray]:
        """log Z of a set of tasks by importance sampling, and what its motive may want [R]: one of the draws.

        `current` is one of them, where the set has a motive now.
        """
        parameters = self.parameters
        found = self.approximations.given(members, parameters)
        rewards = found.draw(self.rng, DRAWS if current is None else DRAWS - 1)
        if current is not None:
            rewards = np.vstack([rewards, current])
        log_weight = self.likelihoods.of_set(rewards, members, self.rest, self.away)
        log_weight += self.likelihoods.log_prior(rewards, parameters) - found.log_density(rewards)
        value, chosen = importance(self.rng, np.where(np.isnan(log_weight), -np.inf, log_weight))
        return value, rewards[chosen]

    def drop(self, motive: int) -> None:
        """A motive on which nobody acts is no more."""
        self.motives = np.delete(self.motives, motive, axis=0)
        self.label[self.label > motive] -= 1

    def split_all(self) -> None:
        """Every motive in two, by what its tasks want; in warm-up only.

        Where tasks are spread around motives, chains find their way from too many of them, but seldom from too few.
        """
        own = self.tasks[:, : self.likelihoods.num_rewards]
        label, count, most = self.label.copy(), len(self.motives), self._most()
        for members in members_of(self.label, range(count)):
            if len(members) > 1 and label.max() + 1 < most:
                halves = fcluster(linkage(own[members], method="ward"), 2, criterion="maxclust")
                label[members[halves == 2]] = label.max() + 1
        self.label = first_seen(label)
        sets = members_of(self.label, range(self.label.max() + 1))
        self.motives = np.stack([own[members].mean(axis=0) for members in sets])
        self.away = own - self.motives[self.label]

    def record(self, n: int) -> None:
        """Where the chain is, as its n-th draw."""
        u, order = self.tasks, first_seen(self.label)
        found = self.likelihoods.log_likelihood(u, np.arange(len(u)))
        self.drawn.tasks[n], self.drawn.hyper[n, 0], self.drawn.log_likelihood[n] = u, self.hyper, found
        drawn = self.mixture_draws
        drawn.motive[n], drawn.concentration[n], drawn.spread[n] = order, self.alpha, np.exp(self.log_spread)
        drawn.centre[n] = self.motives[self.label]
        drawn.lp[n] = found.sum() + self.log_prior()

    def log_prior(self) -> float:
        """log p of all that is inferred."""
        total = populations.log_hyperprior(self) + populations.log_rest(self)
        total += float(self.likelihoods.log_prior(self.motives, self.parameters).sum())
        total += self.prior.log_prior(np.bincount(self.label), self.alpha)
        if self.prior.is_process:
            total += self.prior.alpha.log_density(np.log(self.alpha))
        return total + (0.0 if self.spread_prior is None else spread.log_density(self))

    # ---- start, and resume -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Dispersed partitions: all together, all apart, groups of tasks whose choices look alike, or a prior draw."""
        target, rng, size = self.target, self.rng, self.likelihoods.num_rewards
        num_tasks = target.num_tasks
        self.hyper = np.median(target.draw_hyper(rng, 200)[:, 0], axis=0)
        drawn = target.draw_tasks(rng, np.repeat(self.hyper[None, None], 100, axis=0))
        self.rest = np.ascontiguousarray(np.median(drawn, axis=0)[:, size:])
        self.away = np.zeros((num_tasks, size))
        self.alpha = self.prior.alpha.draw(rng)
        if not self.prior.alpha.is_known:
            self.alpha = max(self.alpha, LEAST_AT_FIRST)
        if self.spread_prior is not None:
            self.log_spread = float(np.log(self.spread_prior.draw(rng)))
        self.approximations = Approximations(self.likelihoods, Reference(self.parameters, self.rest))
        modes = self._modes()
        if not np.isfinite(
            self.likelihoods.log_likelihood(self.likelihoods.rows(modes, self.rest, self.away), np.arange(num_tasks))
        ).all():
            raise InputError(
                "the choices of a task are impossible (log likelihood −∞) at the start of a chain. Is the "
                "inverse temperature far too large?"
            )
        self.label = self._first_partition(modes, self._most())
        sets = members_of(self.label, range(self.label.max() + 1))
        if self.is_collapsed:
            self.motives = np.stack([self.evidences.of(set_of(members)).mean for members in sets])
        elif self.spread_prior is not None:
            self.motives = np.stack([modes[members].mean(axis=0) for members in sets])
            self.away = modes - self.motives[self.label]
        else:
            self.motives = np.stack([self.evidence(members, None)[1] for members in sets])
        self._renew_information()

    def _modes(self) -> np.ndarray:
        """[M, R] what each task wants, by its own choices alone; or means."""
        num_tasks, size = self.target.num_tasks, self.likelihoods.num_rewards
        if self.is_collapsed:
            backwards = self.index % 2 == 1  # chains that run at once do not begin with the same sets
            runs = {m: self.evidences.of(1 << m) for m in sorted(range(num_tasks), reverse=backwards)}
            return np.stack([runs[m].mean for m in range(num_tasks)])
        if self.spread_prior is not None:
            given = np.repeat(self.parameters[None], num_tasks, axis=0)
            start = self.likelihoods.rows(given[:, :size, 0], self.rest, self.away)
            return peaks(self.target, given, start).tasks[:, :size]
        return np.stack([self.approximations.of(np.array([m])).mode for m in range(num_tasks)])

    def _most(self) -> int:
        """Motives that there can be."""
        size = self.target.num_tasks
        return size if self.prior.is_process else min(size, int(np.isfinite(self.prior.log_v).nonzero()[0].max()))

    def _first_partition(self, modes: np.ndarray, most: int) -> np.ndarray:
        num_tasks, kind = len(modes), self.index % STARTS
        if num_tasks == 1 or most == 1 or kind == 0:
            return np.zeros(num_tasks, dtype=np.int64)
        tree = linkage(modes / np.maximum(modes.std(axis=0), 1e-9), method="ward")
        if kind == 3:
            label = self.prior.draw(self.rng)[0]
            return label if label.max() < most else label % most
        groups = min(most, MOST_AT_FIRST) if kind == 1 else min(most, 1 + round(np.sqrt(num_tasks)))
        return first_seen(fcluster(tree, groups, criterion="maxclust"))

    def renew_reference(self) -> None:
        """Approximations and mass matrices about where the chain is now; in warm-up only."""
        if self.target.num_hyper or self.likelihoods.has_own:
            self.approximations = Approximations(self.likelihoods, Reference(self.parameters, self.rest.copy()))
        self._renew_information()

    def _renew_information(self) -> None:
        """Fisher information of each task's choices, at its own coordinates."""
        if self.likelihoods.has_own or self.spread_prior is not None:
            with np.errstate(all="ignore"):
                slope, found = likelihood_shape(self.target, self.tasks, np.arange(self.target.num_tasks))
            size = self.likelihoods.num_rewards
            self.information, self.centres = np.nan_to_num(found), self.tasks[:, :size]
            if self.spread_prior is not None:
                slope, information = np.nan_to_num(slope[:, :size]), self.information[:, :size, :size]
                passed = np.array(self.passed[len(self.passed) // 3 :]).reshape(-1, *self.away.shape).swapaxes(0, 1)
                self.quadratics, self.passed = quadratics.fitted(self, passed, slope, information), []
        else:
            self.information = np.zeros((self.target.num_tasks, 0, 0))
            self.centres = np.zeros((self.target.num_tasks, 0))

    def saved(self) -> dict[str, np.ndarray]:
        """All that is needed to resume as if nothing had happened."""
        most = self.target.num_tasks
        arrays = {name: np.asarray(getattr(self, name), dtype=float) for name in SAVED}
        arrays["motives"] = np.vstack([self.motives, np.zeros((most - len(self.motives), self.motives.shape[1]))])
        arrays["numbers"] = np.array([self.alpha, self.log_spread, *self.steps.values])
        arrays |= {"information": self.information, "centres": self.centres} | self.quadratics._asdict()
        reference = self.approximations.reference
        arrays["reference_parameters"], arrays["reference_rest"] = reference
        arrays["refreshed"], arrays["index"] = np.array(json.dumps(self.evidences.saved())), np.array(self.index)
        arrays["stream"] = np.array(json.dumps(self.rng.bit_generator.state))
        return {f"mixture_{name}": value for name, value in arrays.items()}

    @classmethod
    def restored(cls, kernel: Callable[..., None], target: Target, state: dict[str, Any], k: int) -> "MixtureChain":
        """A chain as it was saved."""
        chain = cls(kernel, target, 0, np.random.SeedSequence(0))
        given = {name.removeprefix("mixture_"): values[k] for name, values in state.items()}
        chain.rng.bit_generator.state = json.loads(str(given["stream"]))
        chain.label = given["label"].astype(np.int64)
        chain.motives = np.array(given["motives"][: chain.label.max() + 1])
        chain.rest, chain.away, chain.hyper = (np.array(given[name]) for name in SAVED[2:])
        chain.alpha, chain.log_spread = map(float, given["numbers"][:2])
        chain.steps.values[:] = given["numbers"][2:]
        chain.information, chain.centres = np.array(given["information"]), np.array(given["centres"])
        chain.quadratics = quadratics.Quadratics(*(np.array(given[name]) for name in quadratics.Quadratics._fields))
        reference = Reference(np.array(given["reference_parameters"]), np.array(given["reference_rest"]))
        chain.approximations = Approximations(chain.likelihoods, reference)
        chain.index = int(given["index"])
        chain.evidences.restore(json.loads(str(given["refreshed"])), chain.index)
        chain.is_restored = True
        return chain
