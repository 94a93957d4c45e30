"""Markov chains of MRP, one in each thread: start, warm up, draw, stop when asked, resume.

Where a chain is stands in `State`, how it proposes in `Tuning`, which `adaptation` changes during warm-up; what one
sweep does is in `sweeps`.
"""

import json
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from threadpoolctl import threadpool_limits

from manymotives.errors import InputError
from manymotives.inference.draws import Draws, RunState
from manymotives.inference.laplace import peaks
from manymotives.inference.mcmc.adaptation import first_tuning, has_many_coordinates, only_trajectories, warm_up
from manymotives.inference.mcmc.collected import draws_of
from manymotives.inference.mcmc.consistency import check_consistent, is_standardised, standardised_coordinates
from manymotives.inference.mcmc.dynamics import DynamicsSampler
from manymotives.inference.mcmc.effects import SWEEPS_EACH, EffectSampler
from manymotives.inference.mcmc.forecast import seconds_of_a_draw
from manymotives.inference.mcmc.motives import MotiveSampler
from manymotives.inference.mcmc.state import AcceptanceCounts, DrawArrays, State, Tuning
from manymotives.inference.mcmc.sweeps import data_of, hamiltonian_draws, workspaces_of
from manymotives.inference.mcmc.watching import STARTING, note_and_phase
from manymotives.inference.progress import Progress
from manymotives.models import Target
from manymotives.models.episodes import LARGEST, EpisodeCounts
from manymotives.models.target import FIXED
from manymotives.planning.problem import cores
from manymotives.planning.warm_start import world_of

BLOCK = 50  # draws between two looks at the clock
CLIMB = 10  # Fisher-scoring steps at most from a prior draw towards the mode, where there are many coordinates
STARTS = 64  # prior draws among which a chain's start is chosen, by likelihood


@runtime_checkable
class Settings(Protocol):
    """What the methods that run chains have in common."""

    @property
    def chains(self) -> int: ...
    @property
    def draws(self) -> int: ...
    @property
    def warmup(self) -> int: ...
    @property
    def thin(self) -> int: ...


def advance_chains(
    kernel: Callable[..., None],
    settings: Settings,
    walk_size: int,
    state: RunState,
    draws: int,
    progress: Progress,
    kind: "type[MarkovChain] | None" = None,
) -> tuple[RunState | None, Draws]:
    """Draws of several chains, each in a thread and with a random stream of its own, from where they stand.

    Chains that have not begun warm up first. `walk_size`: random walks move the first so many coordinates of a task.
    """
    kind = kind or MarkovChain
    thin, chains, target = settings.thin, settings.chains, state.target
    if target.episodes is not None:
        noted = chains * draws * target.episodes.num_episodes
        if noted > LARGEST or noted * getattr(settings, "max_rounds", 1) > 5 * LARGEST:  # at most .8 GB in all rounds
            target = replace(target, episodes=None)
    warmup = 0 if state.arrays else settings.warmup
    stop = threading.Event()
    with progress.phase(STARTING):
        if state.arrays:
            made = [kind.restored(kernel, target, state.arrays, k) for k in range(chains)]
        else:
            made = [kind(kernel, target, walk_size, stream) for stream in streams_of(state.seed, chains)]
    interrupted = False
    total = chains * (warmup + draws)
    with (
        threadpool_limits(1, "blas"),  # chains fill the cores already
        ThreadPoolExecutor(min(chains, cores())) as pool,
        progress.of(total, "draws") as report,
    ):
        futures: list[Future[None]] = [pool.submit(chain.run, warmup, draws, thin, stop) for chain in made]
        pending = set(futures)
        while pending:
            try:
                done, pending = wait(pending, timeout=0.25, return_when=FIRST_EXCEPTION)
                for future in done:
                    if future.exception() is not None:
                        stop.set()
                finished = sum(chain.done for chain in made)
                report.update(finished, *note_and_phase(made, report, finished, chains * warmup))
            except KeyboardInterrupt:
                interrupted = True
                stop.set()
    for future in futures:
        future.result()
    kept = min(chain.kept for chain in made)
    if kept == 0:
        raise KeyboardInterrupt("interrupted during warm-up: there are no draws yet.")
    warnings: tuple[str, ...] = ()
    if interrupted and kept < draws:
        warnings = (f"interrupted after {kept} of {draws} draws per chain.",)
    arrays = _stacked([chain.saved() for chain in made])
    return replace(state, arrays=arrays) if kept == draws else None, draws_of(made, kept, warnings)


class MarkovChain:
    """One chain: its state, its tuning, what it has drawn."""

    block: ClassVar[int] = BLOCK
    draws: ClassVar[int] = 250  # of a round, by default …
    warmup: ClassVar[int] = 250  # … and before the first
    thin: ClassVar[int] = 4  # sweeps for each draw, unless a method says how many
    tuning_type: ClassVar[type] = Tuning

    def __init__(
        self, kernel: Callable[..., None], target: Target, walk_size: int, stream: np.random.SeedSequence
    ) -> None:
        self.kernel, self.target = kernel, target
        self.is_hamiltonian = kernel is hamiltonian_draws
        self.uses_curvature = self.is_hamiltonian and has_many_coordinates(target)  # for its mass matrices
        self.walk_size = 0 if self.is_hamiltonian and only_trajectories(target) else walk_size
        own_discounts = target.layout.discount != FIXED
        how: Any = {"own_discounts": own_discounts, "depth": target.depth or 0}
        self.world = world_of(target.environment, target.num_tasks, target.layout.is_soft, **how)
        self.dynamics = None if target.belief is None else DynamicsSampler(target.belief, self.world)
        self.rng = np.random.default_rng(stream)
        # copies, because threads that share an array also fight over its reference count
        self.layout = target.layout.copied()
        self.data = data_of(target, self.world, self.is_hamiltonian)
        self.motives = None if target.assignment is None else MotiveSampler(target.assignment)
        if self.motives is not None:
            self.target = replace(target, counts=self.data.counts)  # one array: as motives change, so do counts
        self.effects = None if target.effects is None else EffectSampler(target)
        self.done = self.kept = 0
        self.recent_acceptance = self.seconds_each = float("nan")
        self.is_warm = self.is_restored = False
        self.state: State
        self.tuning: Tuning

    def run(self, warmup: int, draws: int, thin: int, stop: threading.Event) -> None:
        """Warm up, then draw; blocks of a fixed length, so that one can stop in between."""
        if not self.is_restored:
            self.begin()
            self.seconds_each = self.forecast(thin)
            self.warm_up(warmup, thin, stop)
        self.is_warm = True
        target, episodes = self.target, self.target.episodes
        self.drawn = self.draw_arrays(draws)
        self.episode_log_likelihood = np.empty((draws, 0 if episodes is None else episodes.num_episodes))
        self.transition_probabilities = self._empty_probabilities(draws)
        self.assignment_draws = None if self.motives is None else self.motives.empty_draws(draws)
        self.effect_draws = None if self.effects is None else self.effects.empty_draws(draws)
        acceptance = self.acceptance_counts()
        while self.kept < draws and not stop.is_set():
            part = slice(self.kept, min(self.kept + self.block, draws))
            block = self.draw_arrays(part.stop - part.start, episodes)
            self.advance(thin, block, acceptance, part)
            for whole, new in zip(self.drawn[:3], block[:3]):
                whole[part] = new
            if episodes is not None:
                self.episode_log_likelihood[part] = target.episode_log_likelihoods(block.tasks, block.q)
            self.kept = part.stop
            self.note_acceptance(acceptance, thin * self.kept)
        if self.kept:
            environment = None if self.dynamics is None else self.dynamics.environment
            check_consistent(self.target, self.state, environment, self.offset)
        sweeps = max(1, thin * self.kept)
        self.acceptance_rate = self._accepted(acceptance) / sweeps
        self.prior_acceptance_rate = acceptance.prior_proposals / (sweeps * self.rounds)

    def warm_up(self, warmup: int, thin: int, stop: threading.Event) -> None:
        """So many draws, in which tuning is adapted."""
        warm_up(self, warmup, thin, stop)

    def forecast(self, thin: int) -> float:
        """About how many seconds a draw takes; NaN where that is not known before one is made."""
        return seconds_of_a_draw(self, thin)

    def one_draw(self, thin: int) -> None:
        """A draw that is not kept."""
        self.advance(thin, self.draw_arrays(1), self.acceptance_counts())

    @property
    def rounds(self) -> int:
        """Of proposals, in each sweep."""
        return max(1, int(self.tuning.schedule[0])) if self.is_hamiltonian else 1

    def draw_arrays(self, draws: int, episodes: EpisodeCounts | None = None) -> DrawArrays:
        """Room for so many draws, and for the values in the states that were visited in these episodes."""
        target = self.target
        visited = np.empty((0, 2), dtype=np.int64)
        if episodes is not None:
            visited = np.stack([episodes.task, episodes.state], axis=1)
        return DrawArrays(
            tasks=np.empty((draws, target.num_tasks, target.num_coordinates)),
            hyper=np.empty((draws, target.num_groups, target.num_hyper)),
            log_likelihood=np.empty((draws, target.num_tasks)),
            q=np.empty((draws, len(visited), target.environment.num_actions)),
            visited=visited,
        )

    def advance(self, thin: int, drawn: DrawArrays, acceptance: AcceptanceCounts, part: slice | None = None) -> None:
        """Fill these arrays with draws; what else is uncertain, dynamics or motives, is updated around each sweep.

        `part`: which of all draws they are, for what is kept of dynamics and motives; None: nothing is.
        """
        fixed = (self.rng, self.world, self.layout, self.data, self.state, self.tuning)
        if self.dynamics is None and self.motives is None and self.effects is None:
            self.kernel(*fixed, thin, drawn, acceptance, *workspaces_of(self))
        else:
            together = 1 if self.effects is None else SWEEPS_EACH
            for n in range(len(drawn.tasks)):
                one = drawn.part(slice(n, n + 1))
                for sweep in range(0, thin, together):
                    if self.dynamics is not None:
                        self.dynamics.update(self.rng, self.layout, self.data, self.state)
                    self.kernel(*fixed, min(together, thin - sweep), one, acceptance, *workspaces_of(self))
                    if self.motives is not None:
                        self.motives.update(self.rng, self.layout, self.data, self.state)
                    if self.effects is not None:
                        self.effects.update(self.rng, self.world, self.layout, self.data, self.state)
                        self._keep(one)
                if self.effects is not None:
                    one.tasks[:] += self.offset  # draws are of u
                if part is not None:
                    self._note(part.start + n)
                elif self.effects is not None:
                    self.effects.note()
        self.done += len(drawn.tasks)

    @property
    def offset(self) -> Any:
        """[M, D] what covariates add to tasks' coordinates, or 0."""
        return 0.0 if self.effects is None else self.data.offset

    def _keep(self, one: DrawArrays) -> None:
        """The state as the only draw: effects have moved since the sweep that recorded it."""
        state, visited = self.state, one.visited
        one.tasks[0], one.hyper[0], one.log_likelihood[0] = state.tasks, state.hyper, state.log_likelihood
        one.q[0] = state.q[visited[:, 0], visited[:, 1]]

    def _note(self, n: int) -> None:
        """Dynamics, motives and effects as they are at the n-th draw."""
        if self.effects is not None:
            assert self.effect_draws is not None
            self.effects.record(self.effect_draws, n)
        if self.dynamics is not None:
            self.transition_probabilities[n] = self.dynamics.transition_probabilities
        if self.motives is not None:
            assert self.assignment_draws is not None
            self.motives.record(self.assignment_draws, n)

    def _empty_probabilities(self, draws: int) -> np.ndarray:
        """[draws, E′] for the transition probabilities that are uncertain; E′ = 0 where the environment is known."""
        belief = self.target.belief
        return np.empty((draws, 0 if belief is None else int(belief.is_uncertain.sum())))

    def note_acceptance(self, acceptance: AcceptanceCounts, sweeps: int) -> None:
        """Keep the acceptance rate that the progress bar shows."""
        self.recent_acceptance = float(self._accepted(acceptance).mean() / sweeps)

    def _accepted(self, acceptance: AcceptanceCounts) -> np.ndarray:
        """[M] acceptances of the moves that the method is named for."""
        return acceptance.task_trajectories if self.is_hamiltonian else acceptance.random_walks

    def acceptance_counts(self) -> AcceptanceCounts:
        """Acceptance counts of zero."""
        num_tasks, populations = self.target.num_tasks, (self.target.num_groups, self.target.num_hyper)
        return AcceptanceCounts(
            random_walks=np.zeros(num_tasks),
            prior_proposals=np.zeros(num_tasks),
            hyper=np.zeros(populations),
            interweaving=np.zeros_like(self.tuning.interweaving_scale),
            interweaving_tried=np.zeros_like(self.tuning.interweaving_scale),
            slice_jumps=np.zeros((num_tasks, self.target.num_coordinates)),
            task_trajectories=np.zeros(num_tasks),
            hyper_trajectories=np.zeros(self.target.num_groups),
        )

    # ---- start ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A population from the hyperprior; for each task one of some prior draws, chosen by its likelihood."""
        target = self.target
        if self.effects is not None:
            self.data.offset[:] = self.effects.begin(self.rng)
        hyper, tasks, tries = starting_point(target, self.rng, offset=self.offset)
        climbs = self.is_hamiltonian and only_trajectories(target) and self.effects is None
        if climbs:  # from a prior draw the way is too far
            tasks = peaks(target, target.parameters(hyper)[target.group], np.ascontiguousarray(tasks), CLIMB).tasks
        if self.motives is not None:
            tasks = self.motives.begin(self.rng, target, tasks, hyper)
        self._set_state(np.ascontiguousarray(tasks), hyper)
        self.tuning = first_tuning(self, tries)

    def _set_state(self, tasks: np.ndarray, hyper: np.ndarray) -> None:
        """The state at these coordinates, with its plans."""
        target = self.target
        environment = target.environment if self.dynamics is None else self.dynamics.begin(self.rng)
        owner = np.arange(target.num_tasks)
        u = tasks + self.offset
        found = target.planned(u, owner, environment)
        self.state = State(
            tasks=tasks,
            hyper=np.ascontiguousarray(hyper),
            actions=np.array(found.actions, dtype=np.int64),
            value=np.array(found.value),
            q=np.array(found.q),
            log_likelihood=target.log_likelihood(u, owner, environment),
            task_z=standardised_coordinates(target, tasks, hyper),
            hyper_z=np.zeros_like(hyper),
            likelihood_gradient=np.zeros_like(tasks),
        )

    def set_population(self, hyper: np.ndarray) -> None:
        """Other populations [G, H], with tasks as they are."""
        self.state.hyper[:] = hyper
        self.state.task_z[:] = standardised_coordinates(self.target, self.state.tasks, hyper)

    # ---- resume --------------------------------------------------------------------------------------------

    def saved(self) -> dict[str, np.ndarray]:
        """All that is needed to resume as if nothing had happened."""
        arrays: dict[str, np.ndarray] = {**self.state._asdict(), **self.tuning._asdict()}
        arrays["stream"] = np.array(json.dumps(self.rng.bit_generator.state))
        arrays["walk_size"] = np.array(self.walk_size)
        for part in (self.dynamics, self.motives, self.effects):
            arrays |= {} if part is None else part.saved()
        return arrays

    @classmethod
    def restored(cls, kernel: Callable[..., None], target: Target, state: dict[str, Any], k: int) -> "MarkovChain":
        fields: tuple[str, ...] = cls.tuning_type._fields  # type: ignore[attr-defined]
        if missing := (set(State._fields) | set(fields)) - set(state):
            raise InputError(
                "these chains cannot be resumed: they come from another version of manymotives, without "
                f"{sorted(missing)[0]!r}. Their draws remain valid; fit again to have more."
            )
        chain = cls(kernel, target, int(state["walk_size"][k]), np.random.SeedSequence(0))
        chain.rng.bit_generator.state = json.loads(str(state["stream"][k]))
        chain.is_restored = True
        if target.belief is not None:
            saved = {name: state[name][k] for name in ("environment_logs", "environment_kept")}
            chain.dynamics = DynamicsSampler(target.belief, chain.world, saved)
        if target.assignment is not None:
            saved = {name: values[k] for name, values in state.items() if name.startswith("motives_")}
            chain.motives = MotiveSampler(target.assignment, saved)
            chain.motives.count_choices(chain.data.counts)
        if target.effects is not None:
            saved = {name: values[k] for name, values in state.items() if name.startswith("effects_")}
            chain.effects = EffectSampler(target, saved)
            chain.data.offset[:] = chain.effects.offset()
        chain.state = State(**{name: np.array(state[name][k]) for name in State._fields})
        chain.tuning = cls.tuning_type(**{name: np.asarray(state[name][k]) for name in fields})  # only read
        if not is_standardised(target, chain.state):  # from a version that kept z for its trajectories only
            chain.set_population(chain.state.hyper.copy())
        return chain


def starting_point(
    target: Target, rng: np.random.Generator, starts: int = STARTS, offset: Any = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A population [G, H] from the hyperprior, tasks [M, D] chosen by likelihood among prior draws, and those draws."""
    num_tasks, size = target.num_tasks, target.num_coordinates
    hyper = target.draw_hyper(rng, 1)
    tries = target.draw_tasks(rng, np.repeat(hyper, starts, axis=0))
    owner = np.tile(np.arange(num_tasks), starts)
    likelihood = target.log_likelihood((tries + offset).reshape(-1, size), owner).reshape(starts, num_tasks)
    hopeless = ~np.isfinite(likelihood).any(axis=0)
    if hopeless.any():
        raise InputError(
            f"the choices of {target.tasks[int(np.flatnonzero(hopeless)[0])]!r} are impossible (log likelihood "
            f"−∞) under each of {starts} draws from the prior. Is the inverse temperature far too large?"
        )
    gumbel = -np.log(-np.log1p(-rng.random(likelihood.shape)))
    chosen = np.argmax(np.where(np.isfinite(likelihood), likelihood + gumbel, -np.inf), axis=0)
    return hyper[0], tries[chosen, np.arange(num_tasks)], tries


def streams_of(seed: int, chains: int) -> list[np.random.SeedSequence]:
    """A random stream for each chain; others than those that simulate data."""
    return np.random.SeedSequence(seed, spawn_key=(1,)).spawn(chains)


def _stacked(saved: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.stack([each[name] for each in saved]) for name in saved[0]}
