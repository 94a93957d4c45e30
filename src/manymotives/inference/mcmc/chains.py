"""Markov chains of MRP, several at once: start, warm up, adapt, draw, stop when asked, go on from where one stopped."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, runtime_checkable

import numpy as np
from threadpoolctl import threadpool_limits

from manymotives.errors import InputError
from manymotives.inference.draws import Draws
from manymotives.inference.laplace import frames, is_guide, peaks
from manymotives.inference.mcmc.consistency import check_consistent, is_standardised, standardised_coordinates
from manymotives.inference.mcmc.density import latent_draws, latent_room
from manymotives.inference.mcmc.dynamics import Unknown
from manymotives.inference.mcmc.forecast import seconds_of_a_draw
from manymotives.inference.mcmc.hamiltonian import prepare_paths
from manymotives.inference.mcmc.interweaving import carry_directions
from manymotives.inference.mcmc.sweeps import Proposal, State, Tally, data_of, hamiltonian_draws
from manymotives.inference.progress import Progress
from manymotives.models import Target
from manymotives.models.rewards import NORMALISED
from manymotives.models.target import Anatomy
from manymotives.planning import plan
from manymotives.planning.problem import cores
from manymotives.planning.warm_start import world_of

BLOCK = 50  # draws between two looks at the clock
ADAPTATIONS = 20  # during warm-up, at least
CURVED = (1, 2, 4, 7, 11, 16)  # of them, those after which curvature is looked at …
UNDER_WAY = 4  # … and from which on chains are far enough from where they began to see whether it is a guide
WALK_TARGET = 0.25  # acceptance of random walks in many dimensions (Roberts, Gelman & Gilks 1997) …
HYPER_TARGET = 0.44  # … and in one
PATH_TARGET = 0.8  # of Hamiltonian paths (Betancourt, Byrne & Girolami 2014)
MOST_TOGETHER = 12  # steps of a population's path
MANY = 100  # coordinates of a task, whose covariances are not learnt from some hundred draws: curvature tells more
CLIMB = 10  # steps at most from the prior towards the peak of a posterior with that many
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


def run_chains(
    kernel: Callable[..., None],
    target: Target,
    *,
    settings: Settings,
    walk_size: int,
    seed: int,
    progress: Progress,
    state: dict[str, Any] | None,
) -> Draws:
    """Draws of several chains, each in a thread and with a random stream of its own.

    `walk_size`: random steps are taken in the first so many coordinates of a task.
    """
    chains, draws = settings.chains, settings.draws
    warmup = settings.warmup if state is None else 0
    stop = threading.Event()
    streams = np.random.SeedSequence(seed, spawn_key=(1,)).spawn(chains)  # others than those that simulate data
    made = [
        Chain(kernel, target, walk_size, stream) if state is None else Chain.restored(kernel, target, state, k)
        for k, stream in enumerate(streams)
    ]
    interrupted = False
    total = chains * (warmup + draws)
    with (
        threadpool_limits(1, "blas"),  # chains fill the cores already
        ThreadPoolExecutor(min(chains, cores())) as pool,
        progress.of(total, "draws") as report,
    ):
        futures: list[Future[None]] = [pool.submit(chain.run, warmup, draws, settings.thin, stop) for chain in made]
        pending = set(futures)
        while pending:
            try:
                done, pending = wait(pending, timeout=0.25, return_when=FIRST_EXCEPTION)
                for future in done:
                    if future.exception() is not None:
                        stop.set()
                finished = sum(chain.done for chain in made)
                report.update(finished, _note(made, report.outlook(finished, _seconds_each(made))))
            except KeyboardInterrupt:
                interrupted = True
                stop.set()
    for future in futures:
        future.result()
    kept = min(chain.kept for chain in made)
    if kept == 0:
        raise KeyboardInterrupt("stopped during warm-up: there are no draws yet.")
    warnings: tuple[str, ...] = ()
    if interrupted and kept < draws:
        warnings = (f"stopped by hand after {kept} of {draws} draws a chain.",)
    statistics: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "acceptance_rate": (("chain", "task"), np.stack([chain.acceptance_rate for chain in made])),
        "refresh_rate": (("chain", "task"), np.stack([chain.refresh_rate for chain in made])),
    }
    if target.belief is not None:
        rates = np.array([0.0 if chain.unknown is None else chain.unknown.acceptance_rate for chain in made])
        statistics["environment_acceptance_rate"] = (("chain",), rates)
    return Draws(
        tasks=np.stack([chain.tasks[:kept] for chain in made]),
        hyper=np.stack([chain.hyper[:kept] for chain in made]),
        log_likelihood=np.stack([chain.likelihoods[:kept] for chain in made]),
        moves=None if target.belief is None else np.stack([chain.moves[:kept] for chain in made]),
        statistics=statistics,
        warnings=warnings,
        state=_stacked([chain.saved() for chain in made]) if kept == draws else {},
    )


def _seconds_each(made: list["Chain"]) -> float:
    """What a draw takes when as many chains run as there are cores: from those that have begun; NaN before."""
    known = [chain.seconds_each for chain in made if np.isfinite(chain.seconds_each)]
    return float(np.mean(known)) / min(len(made), cores()) if known else float("nan")


def _note(made: list["Chain"], outlook: str) -> str:
    """Whether chains warm up still, how long it takes, and what is accepted by those that have begun."""
    known = [chain.acceptance for chain in made if np.isfinite(chain.acceptance)]
    words = ["warming up"] if any(not chain.is_warm for chain in made) else []
    words += [outlook] if outlook else []
    return ", ".join(words + ([f"accepted {np.mean(known):.0%}"] if known else []))


class Chain:
    """One chain: its state, how it proposes, what it has drawn."""

    def __init__(
        self, kernel: Callable[..., None], target: Target, walk_size: int, stream: np.random.SeedSequence
    ) -> None:
        self.kernel, self.target = kernel, target
        self.follows = kernel is hamiltonian_draws
        self.is_curved = self.follows and target.num_coordinates > MANY
        self.walk_size = 0 if self.follows and _only_follows(target) else walk_size
        self.world = world_of(target.environment, target.num_tasks, target.anatomy.is_soft)
        self.unknown = None if target.belief is None else Unknown(target.belief, self.world)
        self.rng = np.random.default_rng(stream)
        # copies, because threads that share an array also fight over its reference count
        parts: Any = (np.array(part) if isinstance(part, np.ndarray) else part for part in target.anatomy)
        self.anatomy = Anatomy(*parts)
        self.data = data_of(target, self.world, self.follows)
        self.done = self.kept = 0
        self.acceptance = self.seconds_each = float("nan")
        self.is_warm = self.is_restored = False
        self.state: State
        self.proposal: Proposal

    def run(self, warmup: int, draws: int, thin: int, stop: threading.Event) -> None:
        """Warm up, then draw; blocks of a fixed length, so that one can stop in between."""
        if not self.is_restored:
            self.begin()
            self.seconds_each = seconds_of_a_draw(self, thin)
            self.warm_up(warmup, thin, stop)
        self.is_warm = True
        num_tasks, num_coordinates = self.target.num_tasks, self.target.num_coordinates
        self.tasks = np.empty((draws, num_tasks, num_coordinates))
        self.hyper = np.empty((draws, self.target.num_groups, self.target.num_hyper))
        self.likelihoods = np.empty((draws, num_tasks))
        self.moves = self._room_for_moves(draws)
        tally = self.tally()
        while self.kept < draws and not stop.is_set():
            count = min(BLOCK, draws - self.kept)
            part = slice(self.kept, self.kept + count)
            self.advance(
                thin, self.tasks[part], self.hyper[part], self.likelihoods[part], tally, moves=self.moves[part]
            )
            self.kept += count
            self.acceptance = float(self._accepted(tally).mean() / (thin * self.kept))
        if self.kept:
            environment = None if self.unknown is None else self.unknown.environment
            check_consistent(self.target, self.state, environment)
        sweeps = max(1, thin * self.kept)
        self.acceptance_rate, self.refresh_rate = self._accepted(tally) / sweeps, tally.refreshments / sweeps

    def advance(
        self, thin: int, tasks: Any, hyper: Any, likelihoods: Any, tally: Tally, moves: np.ndarray | None = None
    ) -> None:
        """As many draws as there is room for; where the environment is unknown, it moves before each sweep."""
        fixed = (self.rng, self.world, self.anatomy, self.data, self.state, self.proposal)
        if self.unknown is None:
            self.kernel(*fixed, thin, (tasks, hyper, likelihoods), tally)
        else:
            for n in range(len(tasks)):
                draw = (tasks[n : n + 1], hyper[n : n + 1], likelihoods[n : n + 1])
                for _ in range(thin):
                    self.unknown.move(self.rng, self.anatomy, self.data, self.state)
                    self.kernel(*fixed, 1, draw, tally)
                if moves is not None:
                    moves[n] = self.unknown.moves
        self.done += len(tasks)

    def _room_for_moves(self, draws: int) -> np.ndarray:
        """[draws, E′] for the probabilities of moves that are uncertain; none where the environment is known."""
        belief = self.target.belief
        return np.empty((draws, 0 if belief is None else int(belief.is_uncertain.sum())))

    def _accepted(self, tally: Tally) -> np.ndarray:
        """[M] how many of the moves were that the method is named for."""
        return tally.task_paths if self.follows else tally.walks

    def tally(self) -> Tally:
        """Nothing counted yet."""
        num_tasks, populations = self.target.num_tasks, (self.target.num_groups, self.target.num_hyper)
        return Tally(
            walks=np.zeros(num_tasks),
            refreshments=np.zeros(num_tasks),
            hyper=np.zeros(populations),
            carries=np.zeros_like(self.proposal.carry_scale),
            carries_tried=np.zeros_like(self.proposal.carry_scale),
            jumps=np.zeros((num_tasks, self.target.num_coordinates)),
            task_paths=np.zeros(num_tasks),
            hyper_paths=np.zeros(self.target.num_groups),
        )

    # ---- start ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """A population from the hyperprior; for each task one of some prior draws, chosen by its likelihood."""
        target, num_tasks = self.target, self.target.num_tasks
        hyper, tasks, tries = starting_point(target, self.rng)
        if self.follows and _only_follows(target):  # from the prior it is too far
            tasks = peaks(target, target.parameters(hyper)[target.group], np.ascontiguousarray(tasks), CLIMB).tasks
        self._place(np.ascontiguousarray(tasks), hyper)
        size, directions = self.walk_size, carry_directions(target.anatomy)
        factor = np.zeros((num_tasks, size, size))
        factor[:, np.arange(size), np.arange(size)] = tries.std(axis=0)[:, :size] + 1e-3
        self.proposal = Proposal(
            factor=factor,
            scale=np.full(num_tasks, 1.0 / np.sqrt(max(size, 1))),
            hyper_scale=np.full((target.num_groups, target.num_hyper), 0.5),
            carry_directions=directions,
            carry_scale=np.full((target.num_groups, len(directions)), 0.5),
            slice_width=np.ones((num_tasks, target.num_coordinates)),
            task_frame=_identities(num_tasks, target.num_coordinates),
            task_step=np.full(num_tasks, 0.1),
            hyper_frame=_identities(target.num_groups, target.num_hyper),
            hyper_step=np.full(target.num_groups, 0.1),
            pace=_pace(target, np.full(num_tasks, 0.1), np.full(target.num_groups, 0.1)),
        )
        if self.is_curved:
            task_frame, hyper_frame = self._frames()
            self.proposal = self.proposal._replace(task_frame=task_frame, hyper_frame=hyper_frame)

    def _place(self, tasks: np.ndarray, hyper: np.ndarray) -> None:
        """The state at these coordinates, with its plans."""
        target = self.target
        environment = target.environment if self.unknown is None else self.unknown.begin(self.rng)
        owner = np.arange(target.num_tasks)
        temperature = target.felt_temperatures(tasks, owner)
        soft = temperature if target.anatomy.is_soft else None
        found = plan(environment, target.rewards(tasks), on=target.on, inverse_temperature=soft)
        self.state = State(
            tasks=tasks,
            hyper=np.ascontiguousarray(hyper),
            actions=np.array(found.actions, dtype=np.int64),
            value=np.array(found.value),
            q=np.array(found.q),
            log_likelihood=target.log_likelihood(tasks, owner, environment),
            task_z=standardised_coordinates(target, tasks, hyper),
            hyper_z=np.zeros_like(hyper),
            lift=np.zeros_like(tasks),
        )

    def set_population(self, hyper: np.ndarray) -> None:
        """Other populations [G, H], with tasks as they are."""
        self.state.hyper[:] = hyper
        self.state.task_z[:] = standardised_coordinates(self.target, self.state.tasks, hyper)

    # ---- warm-up -------------------------------------------------------------------------------------------

    def warm_up(self, warmup: int, thin: int, stop: threading.Event) -> None:
        """Adapt proposals to what is accepted, and to the shape of what has been seen since the first fifth."""
        target = self.target
        tasks = np.empty((warmup, target.num_tasks, target.num_coordinates))
        hyper = np.empty((warmup, target.num_groups, target.num_hyper))
        likelihoods = np.empty((warmup, target.num_tasks))
        begin, block = 0, 0
        while begin < warmup and not stop.is_set():
            count = min(BLOCK, max(1, warmup // ADAPTATIONS), warmup - begin)
            part = slice(begin, begin + count)
            tally = self.tally()
            self.advance(thin, tasks[part], hyper[part], likelihoods[part], tally)
            begin += count
            block += 1
            walks = tally.walks / (count * thin)
            moves = tally.hyper / (count * thin)
            carries = tally.carries / np.maximum(tally.carries_tried, 1)
            self.acceptance = float(self._accepted(tally).mean() / (count * thin))
            gain = 4.0 / block**0.7
            scale = self.proposal.scale * np.exp(gain * (walks - WALK_TARGET))
            hyper_scale = self.proposal.hyper_scale * np.exp(gain * (moves - HYPER_TARGET))
            tried = np.minimum(tally.carries_tried / 10, 1)  # what was hardly tried says little
            carry_scale = self.proposal.carry_scale * np.exp(gain * tried * (carries - HYPER_TARGET))
            task_step = self.proposal.task_step * np.exp(gain * (tally.task_paths / (count * thin) - PATH_TARGET))
            hyper_step = self.proposal.hyper_step * np.exp(gain * (tally.hyper_paths / (count * thin) - PATH_TARGET))
            factor = self.proposal.factor
            task_frame, hyper_frame = self.proposal.task_frame, self.proposal.hyper_frame
            slice_width = self.proposal.slice_width
            learning = begin >= 0.2 * warmup and begin >= 10
            if learning and tally.jumps.any():
                slice_width = 3.0 * tally.jumps / (count * thin) + 1e-9  # a slice is about three jumps wide
            if learning and begin < 0.9 * warmup:  # the last tenth tunes the scale only
                seen = slice(begin // 3, begin)
                # keep the size of steps: only their shape is learnt here
                factor, scale = _reshaped(factor, scale, tasks[seen, :, : self.walk_size])
                if self.follows and not self.is_curved:
                    hyper_z, task_z = latent_draws(self.anatomy, hyper[seen], tasks[seen])
                    task_frame, task_step = _reshaped(task_frame, task_step, task_z, is_latent=True)
                    hyper_frame, hyper_step = _reshaped(hyper_frame, hyper_step, hyper_z, is_latent=True)
            if self.is_curved and block in CURVED:
                before = task_frame
                task_frame, hyper_frame = self._frames()
                if block >= UNDER_WAY and not is_guide(before, task_frame):  # shapes are learnt from draws, after all
                    self.is_curved = False
                    task_frame, hyper_frame = (_identities(*each.shape[:2]) for each in (task_frame, hyper_frame))
            if self.unknown is not None:
                self.unknown.adapt(gain)
            self.proposal = Proposal(
                factor,
                scale,
                hyper_scale,
                self.proposal.carry_directions,
                carry_scale,
                slice_width,
                task_frame,
                task_step,
                hyper_frame,
                hyper_step,
                _pace(target, task_step, hyper_step),
            )

    def _frames(self) -> tuple[np.ndarray, np.ndarray]:
        """Frames of tasks' paths, and of populations', from the curvature where they are."""
        room = latent_room(self.world, self.anatomy, self.target.num_tasks, self.target.num_groups)
        prepare_paths(self.world, self.anatomy, self.data, self.state, room)
        return frames(self.target, self.state.tasks, room.bends, room.hyper_bends)

    # ---- to go on later ------------------------------------------------------------------------------------

    def saved(self) -> dict[str, np.ndarray]:
        """All that is needed to go on as if nothing had happened."""
        arrays: dict[str, np.ndarray] = {**self.state._asdict(), **self.proposal._asdict()}
        arrays["stream"] = np.array(json.dumps(self.rng.bit_generator.state))
        arrays["walk_size"] = np.array(self.walk_size)
        return arrays if self.unknown is None else arrays | self.unknown.saved()

    @classmethod
    def restored(cls, kernel: Callable[..., None], target: Target, state: dict[str, Any], k: int) -> "Chain":
        if missing := (set(State._fields) | set(Proposal._fields)) - set(state):
            raise InputError(
                "these chains cannot go on: they come from another version of manymotives, without "
                f"{sorted(missing)[0]!r}. Their draws are as good as ever; run again to have more."
            )
        chain = cls(kernel, target, int(state["walk_size"][k]), np.random.SeedSequence(0))
        chain.rng.bit_generator.state = json.loads(str(state["stream"][k]))
        chain.is_restored = True
        if target.belief is not None:
            saved = {name: state[name][k] for name in ("environment_logs", "environment_kept")}
            chain.unknown = Unknown(target.belief, chain.world, saved)
        chain.state = State(**{name: np.array(state[name][k]) for name in State._fields})
        chain.proposal = Proposal(**{name: np.asarray(state[name][k]) for name in Proposal._fields})  # only read
        if not is_standardised(target, chain.state):  # from a version that had z for its paths only
            chain.set_population(chain.state.hyper.copy())
        return chain


def starting_point(target: Target, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A population [G, H] from the hyperprior, tasks [M, D] chosen by likelihood among prior draws, and those draws."""
    num_tasks, size = target.num_tasks, target.num_coordinates
    hyper = target.draw_hyper(rng, 1)
    tries = target.draw_tasks(rng, np.repeat(hyper, STARTS, axis=0))
    owner = np.tile(np.arange(num_tasks), STARTS)
    likelihood = target.log_likelihood(tries.reshape(-1, size), owner).reshape(STARTS, num_tasks)
    hopeless = ~np.isfinite(likelihood).any(axis=0)
    if hopeless.any():
        raise InputError(
            f"the choices of {target.tasks[int(np.flatnonzero(hopeless)[0])]!r} are impossible (log-likelihood −∞) "
            f"under each of {STARTS} draws from the prior. Is the inverse temperature far too large?"
        )
    gumbel = -np.log(-np.log1p(-rng.random(likelihood.shape)))
    chosen = np.argmax(np.where(np.isfinite(likelihood), likelihood + gumbel, -np.inf), axis=0)
    return hyper[0], tries[chosen, np.arange(num_tasks)], tries


def _pace(target: Target, task_step: np.ndarray, hyper_step: np.ndarray) -> np.ndarray:
    """How many rounds of other moves between paths, and how many steps these have at most: what measured best.

    Populations whose steps are short get nowhere by paths: they are spared most of them, and have more rounds of jumps.
    Without populations paths are nearly all there is: the shorter their steps, the more of them.
    """
    if _only_follows(target) and target.num_hyper:
        longest = np.clip(round(2.5 / float(np.median(task_step))), 4, 100)
        return np.array([0, longest, np.clip(round(2.5 / float(np.median(hyper_step))), 4, 100)])
    if target.num_hyper == 0:
        is_sparse = target.anatomy.link == NORMALISED  # or may be: Gaussian rewards leave nothing to jumps
        return np.array([int(is_sparse), np.clip(round(3.0 / float(np.median(task_step))), 6, 200), 0])
    together = steps_together(hyper_step)
    return np.array([5 - round(together / 6), 4, together])


def steps_together(step: np.ndarray) -> int:
    """How many steps a population's path has at most: the shorter they are, the fewer, as none would be enough."""
    return int(np.clip(round(100.0 * float(np.median(step))), 2, MOST_TOGETHER))


def _only_follows(target: Target) -> bool:
    """Whether random steps and jumps get nowhere: in many dimensions, unless rewards may be sparse."""
    return target.num_coordinates > MANY and target.anatomy.link != NORMALISED


def _shape(seen: np.ndarray, is_latent: bool) -> np.ndarray:
    """Cholesky factors [M, d, d] of the covariance of draws [n, M, d], shrunk towards its diagonal.

    Of latent draws that is shrunk towards 1, what it is before the data: chains that crawl at first seem narrow.
    """
    count, _, size = seen.shape
    centred = seen - seen.mean(axis=0)
    covariance = np.einsum("nmi,nmj->mij", centred, centred) / count
    variance = np.einsum("mii->mi", covariance)
    floor = 1e-6 + 1e-3 * variance.mean(axis=1, keepdims=True)
    trust = count / (count + max(5.0 * size, 0.15 * size**2))  # there are size² / 2 numbers to learn
    prior = variance ** (count / (count + size)) if is_latent else variance
    covariance *= trust
    covariance[:, np.arange(size), np.arange(size)] += (1 - trust) * prior + floor
    return np.linalg.cholesky(covariance)


def _reshaped(
    factor: np.ndarray, scale: np.ndarray, seen: np.ndarray, is_latent: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Factors of the shape of draws [n, M, d], and scales [M] that leave the size of steps as it was."""
    if seen.shape[2] == 0:
        return factor, scale
    new = _shape(seen, is_latent)
    return new, scale * _size(factor) / _size(new)


def _identities(count: int, size: int) -> np.ndarray:
    return np.tile(np.eye(size), (count, 1, 1))


def _size(factor: np.ndarray) -> np.ndarray:
    """[M] how far steps with these factors go: the geometric mean of their diagonals."""
    return np.exp(np.log(np.einsum("mii->mi", factor)).mean(axis=1))


def _stacked(saved: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.stack([each[name] for each in saved]) for name in saved[0]}
