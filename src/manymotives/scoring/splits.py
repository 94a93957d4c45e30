"""What trains and what is predicted: rows of demonstrations, split by episode or by task."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.steps import NONE
from manymotives.errors import InputError, listed


class Split(NamedTuple):
    """One training set and the choices predicted from it."""

    trains: np.ndarray  # [rows] whether a row of the demonstrations may be learnt from
    tested: np.ndarray  # [rows] whether its choice is predicted
    task: int = NONE  # the one that is held out, where one is
    own_episodes: int = 0  # of its, seen before


def by_episodes(demonstrations: Demonstrations, folds: int, seed: int) -> tuple[tuple[Split, ...], tuple[str, ...]]:
    """Each task's episodes dealt out into folds; of a task with one, half trains and half is tested."""
    if folds < 2:
        raise InputError(f'hold_out=("episodes", folds): there must be at least 2 folds; found {folds}.')
    rng = np.random.default_rng([seed, 0])
    fold = np.full(demonstrations.num_episodes, NONE)
    second_half = np.zeros(len(demonstrations.task), dtype=bool)
    single = []
    for task, episodes in enumerate(_episodes_of_tasks(demonstrations)):
        if len(episodes) > 1:
            fold[rng.permutation(episodes)] = (rng.integers(folds) + np.arange(len(episodes))) % folds
        elif len(episodes) == 1:
            chosen = np.flatnonzero((demonstrations.episode == episodes[0]) & (demonstrations.action != NONE))
            second_half[chosen[(len(chosen) + 1) // 2 :]] = True
            single.append(demonstrations.tasks[task])
    made = demonstrations.action != NONE
    splits = []
    for number in range(folds):
        tested = (fold == number)[demonstrations.episode] & made
        if number == 0:
            tested |= second_half
        if tested.any():
            splits.append(Split(~(fold == number)[demonstrations.episode] & ~tested, tested))
    if not splits:
        raise InputError("every task made a single choice, so there is nothing to hold out.")
    if not single:
        return tuple(splits), ()
    return tuple(splits), (
        f"{listed(single)} {'has' if len(single) == 1 else 'have'} a single episode: its first half is used for "
        "training and its second half is predicted.",
    )


def by_each_episode(demonstrations: Demonstrations) -> tuple[Split, ...]:
    """One split an episode: everything else trains."""
    made = demonstrations.action != NONE
    splits = []
    for number in np.unique(demonstrations.episode[made]):
        inside = demonstrations.episode == number
        splits.append(Split(~inside, inside & made, int(demonstrations.task[inside][0])))
    return tuple(splits)


def by_tasks(demonstrations: Demonstrations, first: Sequence[int]) -> tuple[tuple[Split, ...], tuple[str, ...]]:
    """For each task and each n of `first`: the others and its first n episodes train; those after max(first) test.

    The same choices are tested whatever n, so that n's can be compared.
    """
    if demonstrations.num_tasks < 2:
        raise InputError(
            "there is only one task, so none is left to learn from when it is held out. Hold out episodes."
        )
    beyond = max(first)
    made = demonstrations.action != NONE
    splits, short = [], []
    for task, episodes in enumerate(_episodes_of_tasks(demonstrations)):
        if len(episodes) <= beyond:
            short.append(demonstrations.tasks[task])
            continue
        mine = demonstrations.task == task
        tested = mine & made & np.isin(demonstrations.episode, episodes[beyond:])
        for count in first:
            known = np.isin(demonstrations.episode, episodes[:count])
            splits.append(Split(~mine | known, tested, task, count))
    if not splits:
        raise InputError(
            f"no task has more than {beyond} episode{'s' if beyond != 1 else ''}. Let tasks show fewer episodes first."
        )
    if not short:
        return tuple(splits), ()
    some = "no choices" if beyond == 0 else f"no more than {beyond} episode{'s' if beyond > 1 else ''}"
    return tuple(splits), (f"{listed(short)} {'has' if len(short) == 1 else 'have'} {some}: not predicted.",)


def only(demonstrations: Demonstrations, rows: np.ndarray) -> Demonstrations:
    """The same tasks and names, with these rows alone."""
    kept_above = np.append(False, rows[:-1])
    columns = {name: getattr(demonstrations, name)[rows] for name in ("task", "episode", "step", "state", "action")}
    return replace(
        demonstrations,
        **columns,
        next_state=demonstrations.next_state[rows],
        follows=(demonstrations.follows & kept_above)[rows],
    )


def _episodes_of_tasks(demonstrations: Demonstrations) -> list[np.ndarray]:
    """For each task its episodes with choices, in order of time."""
    made = demonstrations.action != NONE
    owner = np.full(demonstrations.num_episodes, NONE)
    owner[demonstrations.episode[made]] = demonstrations.task[made]
    return [np.flatnonzero(owner == task) for task in range(demonstrations.num_tasks)]
