"""The verb: hold out, learn from the rest, predict; every model from the same training sets."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from manymotives.data.belief import DynamicsBelief, EnvironmentOrBelief, known_part
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.environments import environment_of
from manymotives.errors import InputError, listed, quoted
from manymotives.execution import Workers
from manymotives.inference import Method, Progress
from manymotives.models import Model
from manymotives.posterior import Posterior
from manymotives.posterior.archive import plain_labels
from manymotives.scoring.basis import Basis, basis_warnings, choices_digest, num_alternatives
from manymotives.scoring.contenders import Contender, contenders_of, is_slow
from manymotives.scoring.mixture import check_mixture
from manymotives.scoring.own_past import can_use_own_past
from manymotives.scoring.predictions import switches
from manymotives.scoring.result import Score
from manymotives.scoring.splits import Split, by_each_episode, by_episodes, by_tasks
from manymotives.scoring.sums import Book
from manymotives.scoring.switching import add_free_policies
from manymotives.scoring.units import Predictor, predict_all

Scored = Model | Posterior  # what can be scored
PSIS = "psis"  # in place of a method: weights, no fits
FOLDS = 5
TUNED_IN = 10  # folds whose training sets choose the smoothing of counts where every episode is left out by itself


def score(
    model: Scored | Sequence[Scored] | Mapping[str, Scored],
    environment: Environment | DynamicsBelief | Mapping[Any, Environment] | None = None,
    demonstrations: Demonstrations | None = None,
    method: Method | str | None = None,
    *,
    hold_out: str | tuple[str, int | str | Sequence[int]] = "episodes",
    beside: Scored | Sequence[Scored] | Mapping[str, Scored] | None = None,
    seed: int = 0,
    executor: Workers = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool | Progress = True,
) -> Score:
    """Compare models by how well they predict held-out choices; simple baselines are always included.

    The score is the log-likelihood of held-out choices in nats per choice, over choices between at least two actions.
    Each choice is predicted from the training set, from the state in which it was made and, by counts with history,
    from earlier states; never from itself, nor from anything later in its episode.

    Parameters
    ----------
    model
        A model; or a posterior, whose environment, demonstrations and method are then used; or several of either, as a
        list or as a dictionary with names.
    environment, demonstrations
        As for `fit`; not needed if a posterior is given.
    method
        As for `fit`. A model is fitted again to every training set, unless, for a held-out task, one fit can be
        reweighted instead (Pareto k̂ ≤ 0.7) or its chains can be continued without that task. With "psis" nothing is
        fitted again: posteriors are reweighted to leave out each episode or task in turn (PSIS-LOO), and an error says
        where that cannot be trusted.
    hold_out
        "episodes": the episodes of each task are divided into five folds, and each fold is predicted from the others;
        ("episodes", 3) uses three folds. "tasks": each task is predicted from the population of the others. ("tasks",
        (0, 1, 4)): each task is predicted after none, one and four of its own episodes were observed, with a table for
        each; the episodes that are predicted are the same in all tables, those after the largest number. ("tasks", "own
        past"): as "tasks", and the table also contains models that learn, while they predict, from the held-out task's
        own earlier choices, in earlier episodes and in the same one. Their rows are named "… own past": counts with
        longer history, and models whose motives switch, with `GaussianReward()`. All other rows are the same as under
        "tasks".
    beside
        Other models to compare with. If None, those of the pooled model (RP), the hierarchical model (MRP) and the
        policy–optimality model (MPO) that are not given as `model`, with the same prior of rewards; without MPO above
        2 000 states, where it would take hours. With [], only counts. If motives switch in a model, the table always
        includes a hidden Markov model with as many free policies, which shows whether motives or switching alone
        explain the prediction.
    seed
        Seed of the folds and of the fits.
    executor
        Where to compute: None, in this process, one fit after another; a number of processes; the address of a Dask
        scheduler, such as "tcp://node1:8786"; or any `concurrent.futures.Executor`. A unit of work is one model and
        fold for held-out episodes, and one model for held-out tasks. The scores do not depend on where they are
        computed.
    store
        A file to which the result of every unit of work is written as it is finished; the same call resumes from it.
    progress
        Whether to show a progress bar in a terminal or notebook.

    Returns
    -------
    Score
        `table`, with one row for each model, beginning with uniform choice; `by_task`; `save()`.
    """
    hold_out, folds, first, own_past = _checked_hold_out(hold_out)
    if isinstance(method, str) and method != PSIS:
        raise InputError(f'method must be a method, such as mm.Gibbs(), or "psis"; found {quoted(method)}.')
    refits = not isinstance(method, str)
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise InputError(f"seed must be a whole number of at least 0; found {quoted(seed)}.")
    seed = int(seed)
    if refits:
        contenders, asked = contenders_of(model, method, beside)
    else:
        contenders, asked = contenders_of(model, None, () if beside is None else beside)
    dynamics, demonstrations = _shared_data(contenders, environment, demonstrations)
    environment = known_part(dynamics)
    left_out = tuple(each for each in contenders if beside is None and is_slow(each, environment, asked))
    contenders = tuple(each for each in contenders if each not in left_out)
    if not refits and any(each.posterior is None for each in contenders):
        raise InputError('method="psis" reweights posteriors. Give posteriors, not models.')
    for each in contenders:
        if hold_out == "tasks" and 0 in first and each.model.is_separate:
            raise InputError(
                f"{each.name}: under Separate() nothing is known about a new task. Hold out episodes, or let it "
                'show some of its own: hold_out=("tasks", 1).'
            )
        if hold_out == "tasks" and not refits and each.model.has_covariates:
            raise InputError(
                f"{each.name}: a posterior with covariates cannot be reweighted to leave out a task. Hold out "
                'episodes, or leave out method="psis".'
            )
        if each.model.is_mixture:
            check_mixture(each, refits)
        each.model.bind(each.dynamics(dynamics), demonstrations)  # what is wrong is better found before the work
    unadapted = [each.name for each in contenders if own_past and not can_use_own_past(each.model)]
    if hold_out == "tasks":
        splits, warnings = by_tasks(demonstrations, first)
    elif refits:
        splits, warnings = by_episodes(demonstrations, folds, seed)
    else:
        splits, warnings = by_each_episode(demonstrations), ()
    if left_out:
        warnings += (
            f"{', '.join(each.name for each in left_out)}: left out, because it would plan for thousands of rewards in "
            f"{environment.num_states:,} states. To score it all the same, name it in beside=….",
        )
    warnings += _twin_warnings(contenders, environment, demonstrations)
    if unadapted:
        warnings += (
            f"{', '.join(unadapted)}: scored without own past. It is used only by models whose motives switch, "
            "with GaussianReward() and a known inverse temperature and lapse rate.",
        )
    book = Book(environment, demonstrations, splits, hold_out, own_past)
    book.check_choices()
    dynamics_of = {each.name: each.dynamics(dynamics) for each in contenders}
    basis = Basis.of(dynamics_of, demonstrations, book.held_out, book.held_out & book.is_choice)
    warnings += basis_warnings(dynamics, demonstrations, basis)
    book.add_count_models(_tuning(splits, demonstrations, seed) if hold_out == "episodes" and not refits else None)
    for each in {each.model.switching.num_motives: each for each in contenders if switches(each)}.values():
        add_free_policies(each, book, seed)
    predictors = [Predictor(each, each.dynamics(dynamics), seed, refits) for each in contenders]
    for name, unmixed in predict_all(predictors, book, executor, store, progress).items():
        if unmixed:
            warnings += (
                f"{name}: in {unmixed} of {len(splits)} fits the chains had not mixed by the standards of `fit`. "
                "Predictions require less of chains than rewards do, but a longer run is safer.",
            )
    warnings += _unscored(book.by_task())
    settings: dict[str, Any] = {"seed": seed, "refits": refits, "orders_of_history": sorted(book.orders)}
    if hold_out == "tasks":
        settings["first"] = list(first)
        if own_past:
            settings["own_past"] = True
    elif refits:
        settings["folds"] = folds
    return Score(hold_out, asked, book.by_task(), book.how(), settings, warnings, basis)


def _unscored(by_task: pd.DataFrame) -> tuple[str, ...]:
    """Scores that are no numbers, or −∞, are said to be."""
    found = []
    for name, part in by_task.groupby("model", sort=False):
        none, worst = (part[is_so(part["log_likelihood"])] for is_so in (np.isnan, np.isneginf))
        if len(none):
            found.append(
                f"{name}: there is no score for {listed(dict.fromkeys(none['task']))}, because its predictions "
                "for them are not numbers. Look at the warnings of a fit to the other choices."
            )
        if len(worst):
            found.append(
                f"{name}: it gave probability 0 to some choice of {listed(dict.fromkeys(worst['task']))}, so its "
                "score is −∞ and has neither an error nor a difference. A lapse rate, or a smaller inverse "
                "temperature, would make every choice possible."
            )
    return tuple(found)


def _twin_warnings(
    contenders: tuple[Contender, ...], environment: Environment, demonstrations: Demonstrations
) -> tuple[str, ...]:
    """Where rewards on states cannot explain what was done, whatever they are.

    Q(s, a) = ρ(s) + γ Σ P(s'|s, a) V(s'): states from which every action leads to the same places have values that
    differ between actions by the same amounts. States with memory, (previous, state), are such twins.
    """
    blind = [each.name for each in contenders if each.model.reward.on == "state"]
    visited = np.flatnonzero((demonstrations.counts.sum(axis=(0, 2)) > 0) & (environment.available.sum(axis=1) > 1))
    rows, width = environment.matrix, environment.num_actions

    def moves(state: int) -> tuple[bytes, ...]:
        mine = rows[state * width : (state + 1) * width]
        return (
            environment.available[state].tobytes(),
            mine.indptr.tobytes(),
            mine.indices.tobytes(),
            mine.data.tobytes(),
        )

    kinds = len({moves(int(state)) for state in visited})
    if not blind or kinds > 0.75 * len(visited):
        return ()
    return (
        f"{', '.join(blind)}: rewards on states predict the same choices in states from which each action leads "
        f"to the same places, and the {len(visited)} states with choices are of only {kinds} such kinds. Memory "
        'in the state has this effect. Use rewards on pairs (on="state_action") to let choices depend on it.',
    )


def _tuning(splits: tuple[Split, ...], demonstrations: Demonstrations, seed: int) -> list[np.ndarray]:
    """For each episode, rows without it from which to choose the smoothing of counts: a few sets for all episodes."""
    folds = np.random.default_rng([seed, 1]).permutation(len(splits)) % TUNED_IN
    sets = {}
    for fold in np.unique(folds):
        held = np.any([splits[number].tested for number in np.flatnonzero(folds == fold)], axis=0)
        sets[fold] = ~held
    return [sets[fold] for fold in folds]


def _shared_data(
    contenders: tuple[Contender, ...], environment: Any, demonstrations: Any
) -> tuple[EnvironmentOrBelief, Demonstrations]:
    """What everybody is scored on: what was given, or what the posteriors hold, if that is the same."""
    held = [(each.name, each.posterior) for each in contenders if each.posterior is not None]
    if environment is None and demonstrations is None and held:
        environment, demonstrations = held[0][1].belief or held[0][1].environment, held[0][1].demonstrations
    environment = environment_of(environment)
    for word, value, kind, name in (
        ("environment", environment, EnvironmentOrBelief, "mm.Environment, or mm.DynamicsBelief"),
        ("demonstrations", demonstrations, Demonstrations, "mm.Demonstrations"),
    ):
        if not isinstance(value, kind):
            raise InputError(f"{word} must be {name}; found {type(value).__name__}.")
    for name, posterior in held:
        other, shared = posterior.demonstrations, known_part(environment)
        same = (
            plain_labels(other.tasks) == plain_labels(demonstrations.tasks)
            and plain_labels(other.states) == plain_labels(demonstrations.states)
            and plain_labels(other.actions) == plain_labels(demonstrations.actions)
            and all(
                np.array_equal(getattr(other, column), getattr(demonstrations, column))
                for column in ("task", "episode", "state", "action")
            )
        )
        if same and np.array_equal(posterior.environment.available, shared.available):
            continue
        if choices_digest(other) != choices_digest(demonstrations):
            raise InputError(f"{name} was fitted to other choices. Only models of the same data can be compared.")
        theirs, ours = num_alternatives(posterior.environment, other), num_alternatives(shared, demonstrations)
        raise InputError(
            f"{name} was fitted to the same choices in an environment with other states or actions: {theirs:,} "
            f"choices have an alternative there, {ours:,} in that of {held[0][0]}, so their scores are not "
            "comparable (an estimated environment has only the actions that were taken). Fit all runs in one "
            "environment."
        )
    return environment, demonstrations


def _checked_hold_out(hold_out: Any) -> tuple[str, int, tuple[int, ...], bool]:
    """What is held out; folds of episodes; of tasks, how many of their own were shown, and whether with own past."""
    given, detail = hold_out if isinstance(hold_out, tuple) and len(hold_out) == 2 else (hold_out, None)
    what = given if isinstance(given, str) else ""
    numbers: Any = (detail,) if isinstance(detail, int | np.integer) else detail
    if what in ("episodes", "tasks") and numbers is None:
        return what, FOLDS, (0,), False
    own_past = isinstance(detail, str) and detail == "own past"
    if what == "tasks" and own_past:
        return what, FOLDS, (0,), True
    if what == "episodes" and own_past:
        raise InputError(
            'hold_out=("episodes", "own past"): if episodes are held out, models already learn from the same '
            'task\'s other episodes, earlier and later ones. Hold out tasks: hold_out=("tasks", "own past").'
        )
    whole = (isinstance(numbers, Sequence) or np.ndim(numbers) == 1) and all(
        isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 0 for n in numbers
    )
    if whole and what == "episodes" and len(numbers) == 1:
        return what, int(numbers[0]), (0,), False
    if whole and what == "tasks" and len(numbers):
        return what, FOLDS, tuple(sorted({int(n) for n in numbers})), False
    raise InputError(
        'hold_out must be "episodes" or "tasks"; or either with a number: ("episodes", 3) for three folds, ("tasks", '
        '(0, 1, 4)) for tasks that have shown so many episodes before; or ("tasks", "own past") for models that also '
        f"learn from what a task did before each choice; found {quoted(hold_out)}."
    )
