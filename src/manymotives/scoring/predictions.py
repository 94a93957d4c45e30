"""What a model predicts for each split, by the cheapest way that can be trusted: fits, weights, chains that go on."""

from collections.abc import Iterator

import numpy as np

from manymotives.data.belief import EnvironmentOrBelief
from manymotives.errors import InputError, quoted
from manymotives.fitting.fit import fit
from manymotives.inference import MaximumLikelihood
from manymotives.inference.importance import UNRELIABLE
from manymotives.posterior import PolicyOptimalityPosterior, Posterior, RewardPolicyPosterior, SwitchingPosterior
from manymotives.scoring.contenders import TEMPERATURES, Contender, Implied, predicted
from manymotives.scoring.held_out_tasks import predict_held_out_tasks, predict_without, refit
from manymotives.scoring.prediction import FIT, Prediction
from manymotives.scoring.reweighting import reweighted
from manymotives.scoring.splits import only
from manymotives.scoring.sums import Book
from manymotives.scoring.switching import check_switching, predict_switching


def predictions_of(
    contender: Contender, dynamics: EnvironmentOrBelief, book: Book, seed: int, refits: bool
) -> Iterator[Prediction]:
    """What a model predicts for each split, by the cheapest way that can be trusted."""
    demonstrations, splits = book.demonstrations, book.splits
    if switches(contender):
        check_switching(contender, refits)
        yield from predict_switching(contender, dynamics, book, seed)
        return
    if book.hold_out == "episodes" and refits:
        for split in splits:
            log_policies, mixed = predicted(contender, dynamics, only(demonstrations, split.trains), seed)
            yield Prediction(log_policies, FIT, mixed=mixed)
        return
    if _is_refitted(contender, refits):
        for split in splits:
            yield refit(contender, dynamics, demonstrations, split, seed)
        return
    if not Posterior.kind_of(contender.model).can_be_reweighted:
        if not refits:
            raise InputError(
                f"{contender.name}: a {type(contender.model).__name__} has weights on a set of rewards, and no "
                'draws that could be reweighted. Score it without method="psis".'
            )
        yield from _by_optimality(contender, dynamics, book, seed)
        return
    posterior = contender.posterior
    if posterior is None:
        posterior = fit(contender.model, dynamics, demonstrations, contender.method, seed=seed, progress=False)
    assert isinstance(posterior, RewardPolicyPosterior)
    if book.hold_out == "tasks" and contender.model.is_hierarchical:
        yield from predict_held_out_tasks(contender, dynamics, demonstrations, splits, posterior, seed, refits=refits)
        return
    for number, (split, prediction) in enumerate(zip(splits, reweighted(posterior, demonstrations, splits))):
        if not refits or not prediction.pareto_k > UNRELIABLE:
            yield prediction
        elif contender.model.is_pooled:
            yield predict_without(contender, dynamics, demonstrations, split, posterior, [seed, number])
        else:
            yield refit(contender, dynamics, demonstrations, split, seed)


def needs_one_fit_a_split(contender: Contender, book: Book, refits: bool) -> bool:
    """Whether every split is a fit of its own, which any worker can do; otherwise splits share one fit."""
    own = refits and (book.hold_out == "episodes" or _is_refitted(contender, refits))
    return own and not switches(contender)


def _is_refitted(contender: Contender, refits: bool) -> bool:
    """Whether a held-out task needs a fit of its own.

    Where tasks share motives it stays in the fit, without its choices: it may have any motive, or a new one. And
    reweighting cannot remove data from a point estimate.
    """
    return contender.model.is_mixture or (refits and isinstance(contender.method, MaximumLikelihood))


def switches(contender: Contender) -> bool:
    """Whether its motives do: then free policies that switch stand beside it."""
    return Posterior.kind_of(contender.model) is SwitchingPosterior


def _by_optimality(contender: Contender, dynamics: EnvironmentOrBelief, book: Book, seed: int) -> Iterator[Prediction]:
    """MPO for a new task: where tasks do not inform each other, one fit for each n serves all of them."""
    demonstrations, splits = book.demonstrations, book.splits
    if not contender.model.has_independent_tasks:
        for split in splits:
            yield refit(contender, dynamics, demonstrations, split, seed)
        return

    def implied_by(rows: np.ndarray) -> Implied:
        training = only(demonstrations, rows)
        posterior = fit(contender.model, dynamics, training, contender.method, seed=seed, progress=False)
        assert isinstance(posterior, PolicyOptimalityPosterior)
        return Implied.by(posterior)

    worth = implied_by(np.ones(len(demonstrations.task), dtype=bool)).worth(demonstrations.counts)
    by_experience: dict[int, Implied] = {}
    for split in splits:
        if split.own_episodes not in by_experience:
            same = [other for other in splits if other.own_episodes == split.own_episodes]
            rows = np.any([other.trains & (demonstrations.task == other.task) for other in same], axis=0)
            by_experience[split.own_episodes] = implied_by(rows)
        best = int(np.argmax(np.delete(worth, split.task, axis=0).sum(axis=0)))  # as the others act
        log_policies = by_experience[split.own_episodes].log_policies(TEMPERATURES[best])
        yield Prediction(log_policies[split.task], FIT)


def check_weights(contender: Contender, book: Book, number: int, prediction: Prediction) -> None:
    """Weights that cannot be trusted are refused, not used."""
    if not prediction.pareto_k > UNRELIABLE:  # also where none were asked for
        return
    split, demonstrations = book.splits[number], book.demonstrations
    task = quoted(demonstrations.tasks[split.task])
    if book.hold_out == "episodes":
        name = demonstrations.episodes[demonstrations.episode[split.tested][0]]
        what = f"episode {quoted(name)} of {task}"
    else:
        what = f"the choices of {task}" + (f" after its first {split.own_episodes}" if split.own_episodes else "")
    if np.isfinite(prediction.pareto_k):
        why = f"the posterior is too different (Pareto k̂ = {prediction.pareto_k:.2f}, above {UNRELIABLE})"
    else:
        why = (
            "no prediction is possible: there are too few draws, or a few of them outweigh all others beyond "
            "floating-point range, or the population is a single estimate"
        )
    raise InputError(
        f"{contender.name} cannot be scored by reweighting one fit: without {what}, {why}. Score it without "
        'method="psis".'
    )
