"""What is said of chains while they run: what they are doing, how far they are, how long it takes."""

from typing import TYPE_CHECKING

import numpy as np
from numba.core import event

from manymotives.inference.progress import COMPILING, Advice, Report
from manymotives.models import Target
from manymotives.planning.problem import cores

if TYPE_CHECKING:
    from manymotives.inference.mcmc.chains import MarkovChain

APPROXIMATED = 2_000  # states that empirical Bayes can have
STARTING, WARMING_UP, DRAWING = "Starting the chains", "Warming up", "Drawing"


def note_and_phase(made: list["MarkovChain"], report: Report, done: int, warmup: int) -> tuple[str, str]:
    """How far chains are, in words, and what they are doing; `warmup`: pieces of work that are warm-up."""
    is_warm = warmup == 0 or all(chain.is_warm for chain in made)  # those restored are, before they have begun
    outlook = report.outlook(done, seconds_each(made), None if is_warm else warmup, advice(made[0].target))
    known = [chain.recent_acceptance for chain in made if np.isfinite(chain.recent_acceptance)]
    words = [outlook] if outlook else []
    words += [f"accepted {np.mean(known):.0%}"] if known else []
    if is_warm:
        return ", ".join(words), DRAWING
    if done or any(np.isfinite(chain.seconds_each) for chain in made):
        return ", ".join(words), WARMING_UP
    return "", COMPILING if _compilations.running else STARTING


def seconds_each(made: list["MarkovChain"]) -> float:
    """What a draw takes when as many chains run as there are cores: from those that have begun; NaN before."""
    known = [chain.seconds_each for chain in made if np.isfinite(chain.seconds_each)]
    return float(np.mean(known)) / min(len(made), cores()) if known else float("nan")


def advice(target: Target) -> Advice:
    """What would make a fit of this very model shorter."""
    pairs = [("fewer states", "fewer states")]
    if target.num_weights == 0:
        made = "rewards made of a few features"
        pairs.insert(0, (f"{made} (GaussianReward(features=...))", f"{made} (--features)"))
        if target.on == "state_action":
            pairs.append(('rewards on states (on="state")', "rewards on states (--on states)"))
    if _has_approximation(target):
        what = "for an approximation in minutes"
        pairs.append((f"method=EmpiricalBayes() {what}", f"--method empirical-bayes {what}"))
    return Advice(*(f"To shorten it, use {_either(words)}." for words in zip(*pairs)))


def _has_approximation(target: Target) -> bool:
    """Whether empirical Bayes can fit this."""
    return (
        target.assignment is None
        and target.effects is None
        and target.belief is None
        and target.partitions is None
        and target.environment.num_states <= APPROXIMATED
    )


def _either(words: tuple[str, ...]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])}, or {words[-1]}"


class _Compilations(event.Listener):
    """How many functions Numba is compiling now."""

    def __init__(self) -> None:
        self.running = 0

    def on_start(self, event: event.Event) -> None:
        self.running += 1

    def on_end(self, event: event.Event) -> None:
        self.running -= 1


_compilations = _Compilations()
event.register("numba:compile", _compilations)
