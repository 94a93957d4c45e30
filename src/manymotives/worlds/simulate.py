"""What agents with known motives would do: rewards in, demonstrations out."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from manymotives.data.alignment import aligned, is_labelled
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.labels import Label, checked_labels
from manymotives.errors import InputError
from manymotives.models.choice import ChoiceRule
from manymotives.planning.problem import LIMIT, allowed_actions, checked_rewards
from manymotives.worlds.learner import ModelBasedLearner
from manymotives.worlds.walks import learning_walk, walk

NOTHING_CHOSEN = "every episode starts in a terminal state: nothing is ever chosen."


def simulate(
    environment: Environment,
    rewards: ArrayLike,
    demonstrator: ChoiceRule | ModelBasedLearner,
    *,
    steps: int,
    episodes: int = 1,
    seed: int = 0,
    tasks: Sequence[Label] | None = None,
    on: str = "state",
) -> Demonstrations:
    """Demonstrations of one task for each reward [task, S] ([S] for a single task).

    Parameters
    ----------
    demonstrator
        How they choose: `Softmax(...)`, `SoftOptimal(...)` or a `ModelBasedLearner()`.
    steps, episodes
        Every task has `episodes` episodes of `steps` choices each; a terminal state ends an episode early. A
        learner, which goes on learning from one episode to the next, makes steps × episodes choices in all.
    seed
        Task k draws from stream k of this seed: the same task gives the same data whatever stands beside it.
    tasks
        Names of the tasks.
    on
        "state" or "state_action": what the rewards lie on.
    """
    if steps < 1 or episodes < 1:
        raise InputError(f"steps and episodes must be at least 1; found {steps} and {episodes}.")
    axes = {"state": environment.states} | ({"action": environment.actions} if on == "state_action" else {})
    rewards = aligned(rewards, "rewards", task=None if tasks is None else tuple(tasks), **axes)
    given = checked_rewards(environment, np.asarray(rewards, dtype=float), on)
    if len(given.batch) > 1:
        raise InputError(
            f"rewards must have one row a task; found a batch of shape {list(given.batch)}. Flatten it first."
        )
    motives = given.values.reshape(-1, *given.values.shape[-2:])
    num_tasks = len(motives)
    if num_tasks == 0:
        raise InputError("there are no rewards: nothing to simulate.")
    names = checked_labels(tasks, num_tasks, "task")
    matrix = environment.matrix
    cumulative = np.cumsum(matrix.data)
    offsets = np.concatenate([[0.0], cumulative])[matrix.indptr[:-1]]
    cumulative -= np.repeat(offsets, np.diff(matrix.indptr))
    moves = matrix.indptr, matrix.indices, cumulative
    start = np.cumsum(environment.start)
    streams = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(num_tasks)]

    walks = []
    if isinstance(demonstrator, ModelBasedLearner):
        learner = demonstrator
        living = environment.start * ~environment.is_terminal  # it begins again until there is something to choose
        if living.sum() == 0:
            raise InputError(NOTHING_CHOSEN)
        start = np.cumsum(living / living.sum())
        settings = (
            float(learner.epsilon),
            float(learner.transition_prior),
            float(learner.reward_prior_mean),
            float(learner.reward_prior_weight),
        )
        for motive, stream in zip(motives, streams):
            rows = learning_walk(
                *moves,
                np.array(motive, order="C"),  # a copy: read-only arrays would be compiled for again
                allowed_actions(environment),
                environment.is_terminal,
                start,
                environment.discount,
                settings,
                stream.random((learner.burn_in + steps * episodes, 4)),
                LIMIT,
            )
            walks.append(rows[learner.burn_in :])
    else:
        acting: Any = demonstrator
        for word in ("inverse_temperature", "lapse"):  # one for each task, perhaps by name
            value = getattr(demonstrator, word, None)
            if is_labelled(value):
                acting = replace(acting, **{word: aligned(value, word, task=names)})
        policies = acting.policies(environment, rewards, on=on)
        policies = policies.reshape(num_tasks, environment.num_states, environment.num_actions)
        for policy, stream in zip(np.cumsum(policies, axis=-1), streams):
            uniforms = stream.random((episodes, steps + 1, 2))
            walks.append(walk(*moves, policy, environment.available, environment.is_terminal, start, uniforms))
    return _demonstrations(walks, names, environment)


def _demonstrations(walks: list[np.ndarray], names: tuple[Label, ...], environment: Environment) -> Demonstrations:
    """Rows of (episode, state, action, next state) for each task, put together."""
    rows = np.concatenate(walks)
    if len(rows) == 0:
        raise InputError(NOTHING_CHOSEN)
    task = np.repeat(np.arange(len(walks)), [len(rows) for rows in walks])
    keys, episode, lengths = np.unique(
        np.stack([task, rows[:, 0]], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    first_step = np.cumsum(lengths) - lengths
    labels = keys[:, 1] - np.repeat(*_first_of_each(keys[:, 0], keys[:, 1]))
    return Demonstrations(
        tasks=names,
        states=environment.states,
        actions=environment.actions,
        episodes=tuple(labels.tolist()),
        task=task,
        episode=episode.ravel(),
        step=np.arange(len(rows)) - first_step[episode.ravel()],
        state=rows[:, 1],
        action=rows[:, 2],
        next_state=rows[:, 3],
        follows=np.append(False, np.diff(episode.ravel()) == 0),
    )


def _first_of_each(owner: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first value of each run of equal owners, and how long the run is."""
    _, first, lengths = np.unique(owner, return_index=True, return_counts=True)
    return value[first], lengths
