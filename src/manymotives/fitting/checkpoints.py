"""A fit in blocks, saved now and then: a run that was killed goes on from there, and ends as if it had not been.

Chains restore their state, so however a run is cut into blocks, its draws are the same, bit for bit, as those of
`mm.fit`. Importance samplers run in blocks of a fixed size, each with random numbers of its own. What cannot go on
(warm-up; empirical Bayes; chains on a device; the policy-optimality model) begins again with the same seed, and so has
the same result.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from manymotives.errors import InputError
from manymotives.fitting.ctrl_c import presses
from manymotives.fitting.fit import load
from manymotives.fitting.run import LABELLING, Run
from manymotives.inference import InParts, MonteCarlo, NestedMonteCarlo, Progress
from manymotives.io.records import record_of
from manymotives.posterior import Posterior

EVERY = 60.0  # seconds between checkpoints, about
SMALLEST = 50  # draws of a chain in a block, between two of which it can be stopped
GROWTH = 20  # no block is larger than the last by more: its speed is known only so well
FIXED = {MonteCarlo: 10_000, NestedMonteCarlo: 250}  # draws in a block of methods that resample all of them
RUN = "run"  # attribute of a file: what was asked for, part by part
UNFINISHED = "unfinished"  # attribute of a file: draws made so far, while there are more to come
OPEN_ENDED = ("draws", "max_rounds")  # settings that say how far to go, not how

OnCheckpoint = Callable[[int, int, float], None]  # (draws made, draws wanted, draws a second) after each block


def fit_in_blocks(
    run: Run,
    path: Path,
    *,
    resume: bool = False,
    every: float = EVERY,
    progress: bool | Progress = True,
    on_checkpoint: OnCheckpoint | None = None,
) -> Posterior:
    """The posterior of a run, saved to `path`, where also the last checkpoint lies until it is whole.

    `resume`: go on from what is there, if it is this very run; else start, and replace what is there.
    """
    method, looks, identity = run.method, run.looks, identity_of(run)
    posterior = earlier_run(path, identity) if resume else None
    if posterior is not None and _is_finished(posterior, run):
        return posterior
    shown = progress if isinstance(progress, Progress) else Progress(progress)
    run.compile(shown)
    if not _goes_on(method):
        run.advance(method.draws, shown)
        with shown.phase(LABELLING):
            posterior = _marked(run.posterior(), run, identity)
            posterior.save(path)
        return posterior
    if posterior is not None:
        run.resume(posterior)
    done = run.made
    begun = run.pieces(done) if done else 0
    clock = _Clock(every)
    with presses() as pressed, shown.of(begun, "draws") as whole:
        bar = InParts(whole, begun)
        while True:
            wanted = looks.after(done)
            bar.expect(run.pieces(wanted), wanted if wanted < looks.last else None)
            block = _block(method, wanted - done, clock)
            before = run.state, run.draws
            try:
                run.advance(block, bar)
                stopped = run.made < done + block
            except KeyboardInterrupt:
                stopped = True
            if stopped:
                run.state, run.draws = before  # what was stopped in the middle cannot go on; what came before can
                if run.draws is not None:
                    _marked(run.posterior(), run, identity).save(path)
                raise KeyboardInterrupt
            clock.note(block, block + (getattr(method, "warmup", 0) if done == 0 else 0))
            done += block
            is_look = done in looks.points and done < looks.last
            mixed = run.mixed_so_far(bar) if is_look else None
            is_last = done >= looks.last or (mixed is not None and looks.is_enough(done, mixed.effective))
            if is_last or clock.is_due or pressed.is_set():
                with bar.phase(LABELLING):
                    posterior = _marked(run.posterior(mixed), run, identity)
                    posterior.save(path)
                run.follow(posterior)
                clock.begin()
                if on_checkpoint is not None:
                    on_checkpoint(done, wanted, clock.speed)
                if is_last:
                    return posterior
            if pressed.is_set():
                raise KeyboardInterrupt  # it came too late to stop the block


class _Clock:
    """When the next checkpoint is due, and how many draws can be made until then."""

    def __init__(self, every: float) -> None:
        self.every, self.speed, self.block = every, 0.0, 0
        self.begin()

    def begin(self) -> None:
        self.since = self.noted = time.monotonic()

    def note(self, block: int, draws: int) -> None:
        """A block was made, and so many draws of each chain with it."""
        now = time.monotonic()
        self.block, self.speed, self.noted = block, draws / max(now - self.noted, 1e-3), now

    @property
    def is_due(self) -> bool:
        return time.monotonic() - self.since >= self.every


def earlier_run(path: Path, identity: dict[str, str]) -> Posterior | None:
    """What is at this path, if anything is and if it is this run."""
    if not path.exists():
        return None
    found = load(path)
    known = json.loads(found.data.attrs.get(RUN, "{}"))
    other = [word for word, value in identity.items() if known.get(word) != value]
    if other:
        raise InputError(
            f"{path} holds a different run, with another {' and another '.join(other)}. Choose another file, or "
            "overwrite it with --force."
        )
    return found


def is_unfinished(posterior: Posterior) -> bool:
    """Whether this is a checkpoint of a run that has not ended."""
    return UNFINISHED in posterior.data.attrs


def identity_of(run: Run) -> dict[str, str]:
    """A short text for each part of a run; the same text, the same part."""
    method, environment, demonstrations = run.method, run.environment, run.demonstrations
    settings = {field.name: getattr(method, field.name) for field in fields(method) if field.name not in OPEN_ENDED} | (
        {"draws": method.draws} if not method.is_markov_chain else {}
    )
    matrix = environment.matrix
    world = [repr((environment.states, environment.actions, environment.discount)).encode()]
    arrays = [matrix.data, matrix.indices, matrix.indptr, environment.available, environment.is_terminal]
    if run.belief is not None:
        arrays.append(run.belief.concentration.data)
    names = (demonstrations.tasks, demonstrations.states, demonstrations.actions, demonstrations.episodes)
    chosen = [demonstrations.task, demonstrations.episode, demonstrations.state, demonstrations.action]
    if getattr(run.target, "assignment", None) is not None:  # where motives switch, gaps in time matter
        chosen.append(demonstrations.follows)
    return {
        "model": _digest([run.record.encode()]),
        "environment": _digest([*world, *map(_bytes, arrays)]),
        "table of choices": _digest([repr(names).encode(), *map(_bytes, chosen)]),
        "method": _digest([type(method).__name__.encode(), repr(settings).encode()]),
        "seed": str(run.seed),
    }


def _digest(parts: list[bytes]) -> str:
    made = hashlib.sha256()
    for part in parts:
        made.update(len(part).to_bytes(8, "little") + part)
    return made.hexdigest()[:16]


def _bytes(array: np.ndarray) -> bytes:
    kind = np.float64 if array.dtype.kind == "f" else np.int64
    return np.ascontiguousarray(array, dtype=kind).tobytes()


def _goes_on(method: Any) -> bool:
    """Whether a run by this method can be cut into blocks."""
    return type(method) in FIXED or (method.is_markov_chain and getattr(method, "device", None) is None)


def _made(posterior: Posterior) -> int:
    return int(posterior.data["posterior"].sizes["draw"])


def _is_finished(posterior: Posterior, run: Run) -> bool:
    """Whether there are as many draws as there may be, or the chains have mixed where `fit` looks.

    Mixing is looked at where `fit` does, and not at checkpoints, or a run would end elsewhere if it were cut elsewhere.
    """
    if not _goes_on(run.method):
        return True
    made = _made(posterior)
    if made >= run.looks.last:
        return True
    return run.looks.is_enough(made, posterior.data.attrs.get("effective_draws", 0.0))


def _block(method: Any, left: int, clock: _Clock) -> int:
    """How many draws to make before it is time for the next checkpoint."""
    if type(method) in FIXED:
        return min(left, FIXED[type(method)])
    most = min(clock.speed * clock.every, GROWTH * clock.block) if clock.block else SMALLEST
    return min(left, max(SMALLEST, int(most) // SMALLEST * SMALLEST))


def _marked(posterior: Posterior, run: Run, identity: dict[str, str]) -> Posterior:
    """The same with what was asked for, and a warning as long as it is not all there."""
    data = posterior.data.copy()
    data.attrs = {name: value for name, value in posterior.data.attrs.items() if name != UNFINISHED}
    data.attrs["method"] = json.dumps(record_of(run.method))
    data.attrs[RUN] = json.dumps(identity)
    marked = replace(posterior, data=data)
    if not _is_finished(marked, run):
        made = _made(posterior)
        data.attrs[UNFINISHED] = made
        warning = (
            f"this run is incomplete: it is a checkpoint after {made} draws per chain. Continue it with fit --resume."
        )
        data.attrs["warnings"] = json.dumps([warning, *posterior.warnings])
    return marked
