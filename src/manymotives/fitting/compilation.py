"""The default sampler, compiled in two processes at once where nothing is compiled yet: a first run waits half as long.

`python -m manymotives.fitting.compilation` compiles the sampler's own loops, for examples of what they take; beside it,
what they call by address is compiled here. Both are kept on disk, where whoever needs them next finds them. The bar
counts the functions that either process has compiled; the other one prints a dot for each.
"""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numba
import numpy as np
from numba.core.event import Listener, install_listener

from manymotives.data.demonstrations import Demonstrations
from manymotives.inference.mcmc.chains import MarkovChain, starting_point
from manymotives.inference.mcmc.density import density_workspace, noncentred_draws
from manymotives.inference.mcmc.proposals import proposal_workspace
from manymotives.inference.mcmc.state import AcceptanceCounts, Data, DrawArrays, Tuning, empty_state
from manymotives.inference.mcmc.sweeps import hamiltonian_draws
from manymotives.inference.progress import COMPILING, InParts, Progress
from manymotives.models import RewardPolicyModel, Target
from manymotives.planning import plan
from manymotives.planning.elimination import no_elimination
from manymotives.planning.warm_start import World
from manymotives.worlds import Chain

LONGEST = 600.0  # seconds to wait for the other process: without it, all is compiled here
SECONDS = 20  # that it takes on two quiet cores, as `python -m benchmarks.first_fit` measures it
FUNCTIONS = 210  # that are compiled, in both processes together


def compile_first(progress: Progress | None = None) -> None:
    """Compile what `HMC()` needs, if that has never been done on this machine."""
    if is_compiled():
        return
    quiet: dict[str, Any] = {name: subprocess.DEVNULL for name in ("stdin", "stderr")}
    command = [sys.executable, "-m", "manymotives.fitting.compilation"]
    with (
        (progress or Progress(False)).of(FUNCTIONS, "functions") as report,
        subprocess.Popen(command, stdout=subprocess.PIPE, **quiet) as beside,
    ):
        phase = f"{COMPILING}: about {SECONDS} s"
        count = CompiledFunctions(lambda done: report.update(min(done, FUNCTIONS), phase=phase))
        reader = threading.Thread(target=count.read, args=(beside.stdout,), daemon=True)
        reader.start()
        try:
            with InParts(report).phase(phase), install_listener("numba:compile", count):
                compile_beside_sampler()
                beside.wait(LONGEST)
        except subprocess.TimeoutExpired:
            pass
        finally:
            beside.kill()
            reader.join()


class CompiledFunctions(Listener):
    """Counts functions as they are compiled, and says how many there are after each."""

    def __init__(self, say: Callable[[int], None]) -> None:
        self.say, self.done, self.lock = say, 0, threading.Lock()

    def on_start(self, event: Any) -> None:
        """Functions count when they are done."""

    def on_end(self, event: Any) -> None:
        with self.lock:
            self.done += 1
            self.say(self.done)

    def read(self, dots: IO[bytes]) -> None:
        """Those of the other process: a dot for each."""
        while dots.read(1):
            self.on_end(None)


def compile_beside_sampler() -> None:
    """Compile what `HMC()` needs beside the sampler's own loops."""
    target = _example()
    plan(target.environment, np.zeros(target.environment.num_states))
    chain = MarkovChain(hamiltonian_draws, target, target.num_coordinates, np.random.SeedSequence(0))
    hyper, tasks, _ = starting_point(target, np.random.default_rng(0))
    noncentred_draws(chain.layout, hyper[None], tasks[None])
    target.log_prior(hyper[None], tasks[None])


def compile_sampler() -> None:
    """Compile the sampler's own loops."""
    hamiltonian_draws.compile(sampler_signature())


def compile_aloud() -> None:
    """The same, with a dot for each function that is compiled."""
    with install_listener("numba:compile", CompiledFunctions(lambda _: print(".", end="", flush=True))):
        compile_sampler()


def is_compiled() -> bool:
    """Whether the sampler's compiled form is on disk; one that is too old counts, and is compiled again when needed."""
    if not hasattr(hamiltonian_draws, "stats"):  # all runs as plain Python: NUMBA_DISABLE_JIT
        return True
    version = f"py{sys.version_info.major}{sys.version_info.minor}"
    kept = hamiltonian_draws.stats.cache_path
    return kept is not None and any(Path(kept).glob(f"sweeps.hamiltonian_draws-*.{version}*.nbi"))


def sampler_signature() -> tuple[Any, ...]:
    """The types of what `hamiltonian_draws` takes, from examples: making real ones would compile the rest first."""
    target = _example()
    one, two, three = (np.zeros((1,) * axes) for axes in (1, 2, 3))
    whole, wholes = np.zeros(1, dtype=np.int64), np.zeros((1, 1), dtype=np.int64)
    world = World(two, whole, whole, one, one > 0, 1, 1, 0.5, 0, 0, 0, False, False, no_elimination(), 0, False)
    layout = target.layout.copied()
    examples = (
        np.random.default_rng(0),
        world,
        layout,
        Data(three, one, one, two, proposal_log_likelihoods=0, log_density_and_gradient=0),
        empty_state(),
        Tuning(three, one, two, two > 0, two, two, three, one, three, one, whole),
        1,
        DrawArrays(three, three, two, three, wholes),
        AcceptanceCounts(one, one, two, two, two, two, one, one),
        proposal_workspace(world, layout, 1),
        density_workspace(world, layout, 1, 1),
    )
    return tuple(numba.typeof(example) for example in examples)


def _example() -> Target:
    """A model bound to nearly nothing."""
    corridor = Chain(states=3, discount=0.9)
    chosen = (corridor.states[:2], corridor.actions[:1] * 2)
    return RewardPolicyModel().bind(corridor, Demonstrations.from_lists([chosen], corridor))


if __name__ == "__main__":
    compile_aloud()
