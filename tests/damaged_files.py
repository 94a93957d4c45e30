"""Run files that no fit wrote, for a reader that must refuse them with a sentence, or read what was saved.

`make fuzz` tries five hundred; the tests try one of each kind. Files are read in another process, which may take
only so long and so much memory, and whose crash is a finding and not the end. `spoilt_files.py` makes them.
"""

import argparse
import hashlib
import json
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app
from manymotives.fitting.fit import method_of
from manymotives.io.records import record_of
from manymotives.posterior import Posterior
from manymotives.posterior.archive import unpacked_state
from spoilt_files import ANY, CASES, cases_of

SECONDS = 30.0  # a sound file takes a fifth of one; the machine may be busy
MEMORY = 1.5 * 2**30  # bytes that reading any one of them may take: compressed variables may take one gibibyte


# ---- sound ones --------------------------------------------------------------------------------------------


def sound_runs(folder: Path) -> list[Path]:
    """One file of each model; a few draws, as what they say does not matter."""
    chain = mm.worlds.Chain(states=3)
    rooms = mm.Environment(
        [[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]], [[0.5, 0.0, 0.5], [1.0, 0.0, 0.0]], [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]],
        discount=0.9,
        states=["hall", "kitchen", "garden"],
        actions=["on", "back"],
        available=[[True, False], [True, True], [False, False]],
        terminal=["garden"],
    )
    quick = mm.Metropolis(chains=2, draws=5, warmup=5, thin=1)
    made = []
    for number, (model, place, method) in enumerate(
        [
            (mm.RewardPolicyModel(), chain, quick),
            (mm.PolicyOptimalityModel(), chain, mm.OptimalityMonteCarlo(draws=20)),
            (mm.RewardPolicyModel(mm.DirichletReward(on="state_action"), sharing=mm.Pooled()), rooms, quick),
            (mm.RewardPolicyModel(), mm.DynamicsBelief.around(chain, 3.0), quick),
        ]
    ):
        acted_in = chain if isinstance(place, mm.DynamicsBelief) else place
        choices = mm.simulate(acted_in, np.eye(3)[[0, 1]], mm.Softmax(4.0), steps=20, episodes=2, tasks=["ann", "bob"])
        made.append(folder / f"sound_{number}.nc")
        mm.fit(model, place, choices, method, progress=False).save(made[-1])
    return made


def digest_of(posterior: Posterior) -> str:
    """A text that changes with anything a posterior holds."""
    made = hashlib.sha256()

    def add(*things: Any) -> None:
        for thing in things:
            array = np.asarray(thing)
            plain = array.dtype.kind in "biufMm"
            made.update(repr((array.shape, array.dtype.str if plain else "")).encode())
            made.update(array.tobytes() if plain else repr(array.tolist()).encode())

    for node in posterior.data.subtree:
        add(node.path, sorted((str(word), str(value)) for word, value in node.attrs.items()))
        for name in sorted(map(str, node.dataset.variables)):
            add(name, node.dataset[name].dims, node.dataset[name].values)
    place, choices = posterior.environment, posterior.demonstrations
    add(json.dumps(record_of(posterior.model)), json.dumps(record_of(method_of(posterior))), posterior.warnings)
    add(place.matrix.toarray(), place.discount, place.available, place.is_terminal, place.start, place.states)
    add(choices.to_frame().to_csv(), choices.episodes, choices.follows, posterior.belief is None)
    for name, values in unpacked_state(posterior.data["sampler"].dataset).items():
        add(name, values)
    return made.hexdigest()


# ---- reading them ------------------------------------------------------------------------------------------


class Reader:
    """Another process that reads files, and is replaced when it dies or hangs."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[str] | None = None

    def ask(self, *request: str) -> dict[str, Any]:
        """What came of a file: digest, sentence, or what went wrong."""
        if self.process is None:
            command = [sys.executable, __file__, "--read"]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert self.process.stdout is not None
            assert self.process.stdout.readline() == "ready\n"
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps(request), file=self.process.stdin, flush=True)
        if not select.select([self.process.stdout], [], [], SECONDS)[0]:
            return self._failed(f"takes longer than {SECONDS:.0f} s")
        answer = self.process.stdout.readline()
        return json.loads(answer) if answer else self._failed(f"crashes: exit code {self.process.wait()}")

    def _failed(self, how: str) -> dict[str, Any]:
        self.close()
        return {"failed": how}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
        self.process = None


def answer_requests() -> None:
    """In that process: a request a line, an answer a line."""
    warnings.simplefilter("error")
    print("ready", flush=True)
    for line in sys.stdin:
        name, *command = json.loads(line)
        print(json.dumps(by_command(command, name) if command else by_library(name)), flush=True)


def by_library(name: str) -> dict[str, Any]:
    before = _peak_since_now()
    try:
        found: dict[str, Any] = {"digest": digest_of(mm.load(name))}
    except mm.errors.InputError as error:
        found = {"said": str(error)}
    except Exception:
        found = {"failed": traceback.format_exc()}
    took = _peak() - before
    return {"failed": f"takes {took:,} bytes"} if took > MEMORY else found


def _peak_since_now() -> int:
    """What this process holds; from now on, `_peak` counts from here, whatever was held before."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    """Bytes that this process has held at most. (getrusage counts those of the process that started this one, too.)"""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def by_command(command: list[str], name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        result = CliRunner().invoke(app, [*(word.format(run=name, folder=folder) for word in command)])
    if result.exit_code == 2 and isinstance(result.exception, SystemExit):
        return {"said": result.output}
    return {"failed": f"{command[0]} ends with exit code {result.exit_code}: {result.output} {result.exception!r}"}


COMMANDS = [
    ["export", "{run}", "--out", "{folder}/tables"],
    ["report", "{run}", "--out", "{folder}/report.html"],
    ["compare", "{run}", "--method", "none"],
    ["fit", "choices.csv", "--out", "{run}"],
]


def try_files(
    files: int, seed: int, folder: Path, every: int = 10, report: Callable[[str], Any] = print
) -> tuple[Counter[str], list[str]]:
    """How many files came out how, and what should not have; one in `every` goes to the command line too."""
    sound, reader = sound_runs(folder), Reader()
    digests = [reader.ask(str(path))["digest"] for path in sound]
    outcomes: Counter[str] = Counter()
    wrong = []
    for number, name in enumerate(cases_of(files)):
        rng = np.random.default_rng([seed, number])
        which = int(rng.integers(len(sound)))
        if name == "another prior":
            which = 0
        path = folder / f"file_{number}.nc"
        shutil.copy(sound[which], path)
        CASES[name].spoil(rng, path)
        found = reader.ask(str(path))
        if "said" in found:
            outcome = "refused"
        elif "failed" in found:
            outcome = "failed"
        else:
            outcome = "as it was" if found["digest"] == digests[which] else "read, and other than it was"
        if outcome == "refused" and number % every == 0:
            found = reader.ask(str(path), *COMMANDS[number // every % len(COMMANDS)])
            outcome = "refused" if "said" in found else "failed"
        outcomes[outcome] += 1
        is_right = outcome != "failed" and (CASES[name].must == ANY or outcome in CASES[name].must)
        is_sentence = outcome != "refused" or ("Traceback" not in found["said"] and found["said"].strip().endswith("."))
        if is_right and is_sentence:
            path.unlink()
        else:
            wrong.append(f"file {number} of seed {seed}, {name} in {sound[which].name}: {outcome} {found}")
            report(wrong[-1])
    reader.close()
    return outcomes, wrong


def main() -> None:
    options = argparse.ArgumentParser(description="Damaged and hostile run files.")
    options.add_argument("--files", type=int, default=500)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--read", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.read:
        answer_requests()
        return
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        outcomes, wrong = try_files(given.files, given.seed, Path(folder))
    said = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    print(f"{given.files} files in {time.monotonic() - begin:.0f} s: {said}; {len(wrong)} should not have", flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
