"""Models whose motives switch: each choice is predicted from what came before it in its episode, by filtering.

    p(a_t | past) = mean over draws of Σ_k p(z_t = k | a_1 … a_{t−1}) π_k(a_t|s_t)

Nothing later is read: smoothed probabilities of motives, which know the future, are never used here. Every training set
is fitted anew. (Chains of one fit to all, gone on without a task's choices, forget them too slowly here: on the mouse
labyrinth 20 sweeps later they still predicted the mouse left out by 0.007 nats a choice better than fits without it.) A
task that was not trained on is predicted by motives that are everybody's under `Pooled()`; under `Hierarchical()` its
own are drawn from their populations.
"""

from collections.abc import Iterator

import numpy as np

from manymotives.data.belief import EnvironmentOrBelief
from manymotives.errors import InputError
from manymotives.fitting.fit import fit
from manymotives.posterior import SwitchingPosterior
from manymotives.scoring.contenders import Contender
from manymotives.scoring.hidden_markov import fitted_hidden_markov
from manymotives.scoring.own_past import can_use_own_past, predict_with_own_past
from manymotives.scoring.prediction import FIT, REFIT, Prediction
from manymotives.scoring.splits import only
from manymotives.scoring.sums import Book

BY_ROW = np.empty((0, 0))  # in place of a policy
AND_OWN_PAST = " and own past"  # after a model's name, where it learns from a held-out task as it goes on


def predict_switching(
    contender: Contender, dynamics: EnvironmentOrBelief, book: Book, seed: int
) -> Iterator[Prediction]:
    """What such a model predicts for each split, row by row."""
    demonstrations = book.demonstrations
    for number, split in enumerate(book.splits):
        training = only(demonstrations, split.trains)
        posterior = fit(contender.model, dynamics, training, contender.method, seed=seed, progress=False)
        assert isinstance(posterior, SwitchingPosterior)
        how = FIT if book.hold_out == "episodes" else REFIT
        mixed = "mixing" in posterior.data.attrs or not contender.method.is_markov_chain
        yield Prediction(BY_ROW, how, mixed=mixed, by_row=posterior.log_predictions(demonstrations))
        if book.own_past and can_use_own_past(contender.model):
            with_past = predict_with_own_past(posterior, demonstrations, split.task)
            book.add_rows(contender.name + AND_OWN_PAST, number, with_past)


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


def check_switching(contender: Contender, refits: bool) -> None:
    """Refuse what reweights draws."""
    if not refits:
        raise InputError(
            f'{contender.name}: draws of motives that switch cannot be reweighted. Score it without method="psis".'
        )
