"""Models whose motives switch: each choice is predicted from what came before it in its episode, by filtering.

    p(a_t | past) = mean over draws of Σ_k p(z_t = k | a_1 … a_{t−1}) π_k(a_t|s_t)

Nothing later is read: smoothed probabilities of motives, which know the future, are never used here. A held-out task is
predicted by the chains of one fit to all, gone on without its choices (see `held_out_tasks`): motives are everybody's
under `Pooled()`; under `Hierarchical()` its own are drawn from their populations.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float

from manymotives.data.belief import EnvironmentOrBelief, known_part
from manymotives.data.demonstrations import Demonstrations
from manymotives.errors import InputError
from manymotives.fitting.fit import fit, method_of
from manymotives.inference import Draws, Progress
from manymotives.models import Target
from manymotives.models.assignment import Assignment
from manymotives.models.hidden_markov import log_predictions
from manymotives.posterior import SwitchingPosterior
from manymotives.posterior.archive import unpacked_state
from manymotives.scoring.contenders import Contender
from manymotives.scoring.hidden_markov import fitted_hidden_markov
from manymotives.scoring.prediction import CONTINUED, FIT, REFIT, Prediction
from manymotives.scoring.splits import Split, only
from manymotives.scoring.sums import Book

DRAWS = 200  # that predictions are averaged over
FORGOTTEN, KEPT = 0.2, 0.2  # of a method's draws: thrown away, and kept, when chains go on …
FEWEST = 25  # … but no fewer than these


def predict_switching(
    contender: Contender, dynamics: EnvironmentOrBelief, book: Book, seed: int
) -> Iterator[Prediction]:
    """What such a model predicts for each split, row by row."""
    demonstrations = book.demonstrations
    whole = contender.posterior
    for number, split in enumerate(book.splits):
        if book.hold_out == "tasks":
            if whole is None:
                whole = fit(contender.model, dynamics, demonstrations, contender.method, seed=seed, progress=False)
            found = _continued(contender, dynamics, demonstrations, split, whole, [seed, number])
            if found is not None:
                yield Prediction(EMPTY, CONTINUED, by_row=found)
                continue
        training = only(demonstrations, split.trains)
        posterior = fit(contender.model, dynamics, training, contender.method, seed=seed, progress=False)
        assert isinstance(posterior, SwitchingPosterior)
        how = FIT if book.hold_out == "episodes" else REFIT
        mixed = "mixing" in posterior.data.attrs
        yield Prediction(EMPTY, how, mixed=mixed, by_row=posterior.log_predictions(demonstrations))


def add_free_policies(contender: Contender, book: Book, seed: int) -> str | None:
    """A hidden Markov model of as many free policies as there are motives, in the book; its name."""
    switching = contender.model.switching
    if switching.is_counted and not isinstance(contender.posterior, SwitchingPosterior):
        return None  # how many there are is known after the fit alone
    count = switching.num_motives
    if switching.is_counted:
        count = int(contender.posterior.number_of_motives.idxmax())  # type: ignore[union-attr]
    name = f"free policies, {count} that switch"
    for number, split in enumerate(book.splits):
        fitted = fitted_hidden_markov(
            book.environment, book.demonstrations, split.trains, count, seed, hold_out=book.hold_out
        )
        book.add_rows(name, number, fitted.log_probability(book.demonstrations))
    return name


def _continued(
    contender: Contender,
    dynamics: EnvironmentOrBelief,
    demonstrations: Demonstrations,
    split: Split,
    posterior: Any,
    seeds: list[int],
) -> Float[np.ndarray, " rows"] | None:
    """log p of each row, by the chains of a posterior gone on without what is held out; None where they cannot."""
    method = contender.method
    arrays: dict[str, Any] = unpacked_state(posterior.data["sampler"].dataset)
    if type(method) is not type(method_of(posterior)) or "motives_motive" not in arrays:
        return None
    target = contender.model.bind(known_part(dynamics), only(demonstrations, split.trains))
    arrays["motives_motive"] = arrays["motives_motive"][:, split.trains]
    owner = np.arange(target.num_tasks)
    found = []
    for tasks, motive in zip(arrays["tasks"], arrays["motives_motive"]):
        found.append(_with_counts(target, motive).log_likelihood(tasks, owner))
    arrays["log_likelihood"] = np.stack(found)
    streams = [np.random.default_rng([*seeds, chain]).bit_generator.state for chain in range(len(arrays["tasks"]))]
    arrays["stream"] = np.array([json.dumps(stream) for stream in streams])
    made = posterior.data["posterior"].sizes["draw"]
    forgotten, kept = (max(FEWEST, round(share * made)) for share in (FORGOTTEN, KEPT))
    begin = replace(method.init(target, seeds[0]), arrays=arrays)
    draws = replace(method, chains=len(arrays["tasks"])).advance(begin, forgotten + kept, Progress(False))[1]
    return _log_predictions(contender, target, demonstrations, draws, forgotten)


def _with_counts(target: Target, motive: np.ndarray) -> Target:
    """The same with the counts N_k(s, a) that motives [T] make of the choices."""
    assert target.assignment is not None
    segments, counts = target.assignment.segments, np.zeros_like(target.counts)
    made = segments.action >= 0
    rows = (motive * target.assignment.num_units + segments.unit)[made]
    np.add.at(counts, (rows, segments.state[made], segments.action[made]), 1.0)
    return replace(target, counts=counts)


def _log_predictions(
    contender: Contender, target: Target, demonstrations: Demonstrations, draws: Draws, forgotten: int
) -> Float[np.ndarray, " rows"]:
    """log p of each row given those before it, averaged over draws after the first of each chain."""
    assert draws.assignment is not None
    u = draws.tasks[:, forgotten:].reshape(-1, *draws.tasks.shape[2:])
    rows = draws.assignment.rows[:, forgotten:].reshape(-1, *draws.assignment.rows.shape[2:])
    picked = np.unique(np.linspace(0, len(u) - 1, DRAWS).astype(int))
    segments = Assignment.of(contender.model.switching, contender.model.sharing, demonstrations).segments
    owner, found = np.arange(target.num_tasks), np.full(len(demonstrations.state), -np.inf)
    for n in picked:
        log_policies = target.log_policies(u[n], owner)
        found = np.logaddexp(found, log_predictions(segments, np.ascontiguousarray(rows[n]), log_policies))
    return found - np.log(len(picked))


def check_switching(contender: Contender, refits: bool) -> None:
    """Refuse what reweights draws."""
    if not refits:
        raise InputError(
            f"{contender.name}: draws of motives that switch cannot be reweighted. Score it without "
            'method="psis" (on the command line, without --method none).'
        )


EMPTY = np.empty((0, 0))
