"""What a first fit waits for, with nothing compiled: `python -m benchmarks.first_fit`, in a folder of compiled code of
its own. Two tables:

    steps       wall-clock and CPU seconds (of this process and those it starts) of the import, a first plan, the
                README's fit, its summary and report, and `manymotives demo`
    functions   CPU seconds that each function takes to compile, largest first: in Numba's front end (types, lowering)
                and in LLVM, without the functions it calls; and for how many signatures it is compiled

`--functions` prints the second table alone: all is compiled in one process then, with Numba's events recorded.
"""

import argparse
import collections
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

from numba.core import codegen
from numba.core.event import Listener, register


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", action="store_true", help="the table of functions alone")
    parser.add_argument("--most", type=int, default=40, help="lines of the table of functions")
    parser.add_argument("--part", choices=("steps", "functions"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part == "steps":
        steps()
    elif asked.part == "functions":
        functions(asked.most)
    else:
        if not asked.functions:
            in_empty_cache([sys.executable, "-m", "benchmarks.first_fit", "--part", "steps"])
            with tempfile.TemporaryDirectory() as folder:
                demo = [sys.executable, "-m", "manymotives", "demo", "--out", folder]
                timed("manymotives demo", lambda: in_empty_cache(demo, stdout=subprocess.DEVNULL))
        in_empty_cache([sys.executable, "-m", "benchmarks.first_fit", "--part", "functions", "--most", str(asked.most)])


def in_empty_cache(command: list[str], **options: Any) -> None:
    """Run a command that finds nothing compiled."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(command, check=True, env=os.environ | {"NUMBA_CACHE_DIR": folder}, **options)


def timed(name: str, work: Callable[[], Any]) -> Any:
    """What some work returns; a line with what it took."""
    wall, cpu = time.monotonic(), cpu_seconds()
    made = work()
    print(f"{name:<20} {time.monotonic() - wall:8.1f} s wall {cpu_seconds() - cpu:8.1f} s CPU", flush=True)
    return made


def cpu_seconds() -> float:
    """Of this process and of those it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def steps() -> None:
    """The README's example, step by step."""
    import numpy as np

    mm = timed("import", _imported)
    env = mm.worlds.GridWorld((3, 3), slip=0.1, discount=0.9)
    rewards = np.random.default_rng(0).dirichlet(np.full(9, 0.3), size=6)
    demos = timed("simulate", lambda: mm.simulate(env, rewards, mm.Softmax(inverse_temperature=5.0), steps=30, seed=0))
    model = mm.RewardPolicyModel(mm.DirichletReward(), mm.Softmax(), mm.Hierarchical())
    posterior = timed("first fit", lambda: mm.fit(model, env, demos, seed=0, progress=False))
    with tempfile.TemporaryDirectory() as folder:
        timed("summary", lambda: (str(posterior.summary()), posterior.to_frame()))
        timed("report", lambda: mm.report(posterior, f"{folder}/field.html"))
    timed("policies, losses", lambda: mm.loss(env, posterior.policies().values, rewards))
    timed("the same fit again", lambda: mm.fit(model, env, demos, seed=0, progress=False))


def _imported() -> Any:
    import manymotives as mm

    _ = mm.fit, mm.report, mm.worlds, mm.HMC  # names are imported when they are first used
    return mm


def functions(most: int) -> None:
    """What each function takes to compile."""
    from manymotives.fitting.compilation import compile_beside_sampler, compile_sampler

    clock = PassClock()
    register("numba:run_pass", clock)
    record_llvm(clock)
    for name, work in (("sampler", compile_sampler), ("beside it", compile_beside_sampler)):
        timed(f"compile {name}", work)
    total, llvm = sum(clock.total.values()), sum(clock.llvm.values())
    print(f"{len(clock.total)} functions, {total:.1f} s CPU, of which LLVM {llvm:.1f} s")
    print(f"{'function':<60} {'front end':>9} {'LLVM':>6} signatures")
    for name, seconds in sorted(clock.total.items(), key=lambda item: -item[1])[:most]:
        print(f"{name[-60:]:<60} {seconds - clock.llvm[name]:9.2f} {clock.llvm[name]:6.2f} {clock.count[name]:4}")


class PassClock(Listener):
    """CPU seconds of compiler passes by function, without those of the functions compiled in between."""

    def __init__(self) -> None:
        self.open: list[list[Any]] = []
        self.total: dict[str, float] = collections.defaultdict(float)
        self.llvm: dict[str, float] = collections.defaultdict(float)
        self.count: collections.Counter[str] = collections.Counter()

    def on_start(self, event: Any) -> None:
        self.open.append([str(event.data["qualname"]), time.process_time(), 0.0])

    def on_end(self, event: Any) -> None:
        name, begin, inside = self.open.pop()
        took = time.process_time() - begin
        if self.open:
            self.open[-1][2] += took
        self.total[name] += took - inside
        self.count[name] += "lowering" in event.data["name"]


def record_llvm(clock: PassClock) -> None:
    """Count what LLVM takes to parse, optimise and assemble code towards the function whose pass is running."""
    for kind, method in (
        (codegen.CPUCodeLibrary, "add_ir_module"),
        (codegen.CPUCodeLibrary, "_optimize_final_module"),
        (codegen.JITCodeLibrary, "_finalize_specific"),
    ):
        setattr(kind, method, _clocked(getattr(kind, method), clock))


def _clocked(method: Callable[..., Any], clock: PassClock) -> Callable[..., Any]:
    def clocked(*arguments: Any) -> Any:
        begin = time.process_time()
        try:
            return method(*arguments)
        finally:
            clock.llvm[clock.open[-1][0] if clock.open else "other"] += time.process_time() - begin

    return clocked


if __name__ == "__main__":
    main()
