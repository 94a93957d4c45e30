"""What agents with known motives would do: rewards in, demonstrations out."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike

from manymotives.data.alignment import aligned, is_labelled
from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.environments import environment_of
from manymotives.data.labels import Label, checked_labels
from manymotives.errors import InputError
from manymotives.models.choice import ChoiceRule
from manymotives.planning.problem import LIMIT, allowed_actions, checked_rewards
from manymotives.worlds.learner import ModelBasedLearner
from manymotives.worlds.switching import SwitchingAgent
from manymotives.worlds.walks import learning_walk, switching_walk, walk

NOTHING_CHOSEN = "every episode starts in a terminal state, so nothing is ever chosen. Choose another start."


class _Stage(NamedTuple):
    """Where tasks act, as walks read it, and what each of them draws from."""

    moves: tuple[
        np.ndarray, np.ndarray, np.ndarray
    ]  # rows of transitions: where each begins, next states, running sums
    start: np.ndarray  # running sums
    streams: list[np.random.Generator]


@overload
def simulate(
    environment: Environment | Mapping[Any, Environment],
    rewards: ArrayLike,
    demonstrator: SwitchingAgent,
    *,
    steps: int,
    episodes: int = 1,
    seed: int = 0,
    tasks: Sequence[Label] | None = None,
    on: str = "state",
) -> tuple[Demonstrations, np.ndarray]: ...


@overload
def simulate(
    environment: Environment | Mapping[Any, Environment],
    rewards: ArrayLike,
    demonstrator: ChoiceRule | ModelBasedLearner,
    *,
    steps: int,
    episodes: int = 1,
    seed: int = 0,
    tasks: Sequence[Label] | None = None,
    on: str = "state",
    discount: ArrayLike | None = None,
    depth: int | None = None,
) -> Demonstrations: ...


def simulate(
    environment: Environment | Mapping[Any, Environment],
    rewards: ArrayLike,
    demonstrator: ChoiceRule | ModelBasedLearner | SwitchingAgent,
    *,
    steps: int,
    episodes: int = 1,
    seed: int = 0,
    tasks: Sequence[Label] | None = None,
    on: str = "state",
    discount: ArrayLike | None = None,
    depth: int | None = None,
) -> Demonstrations | tuple[Demonstrations, np.ndarray]:
    """Simulate the choices of agents with given rewards.

    Parameters
    ----------
    environment
        The environment in which they act, or several by name.
    rewards
        One reward for each task, [task, S], or [S] for a single task; with `on="state_action"`, [task, S, A] or [S, A].
        For a `SwitchingAgent`, one for each motive: [task, motive, S], or [motive, S] for a single task.
    demonstrator
        How they choose: `Softmax(...)`, `SoftOptimal(...)`, a `ModelBasedLearner()` or a `SwitchingAgent(...)`. With a
        `SwitchingAgent`, the true motive of each row is returned too: `demonstrations, motives = mm.simulate(...)`.
    steps, episodes
        Each task has `episodes` episodes of `steps` choices each; a terminal state ends an episode early. A learner,
        which continues to learn from one episode to the next, makes steps × episodes choices in all.
    seed
        Seed of the random numbers. Task k has its own stream k, so its data do not depend on the other tasks.
    tasks
        Names of the tasks.
    on
        What has a reward: "state" or "state_action".
    discount
        The discount factor of the agents: a number, or one for each task. If None, the environment's, which a learner
        and an agent that switches always have.
    depth
        The number of steps that agents look ahead, planning afresh at every step. If None, an infinite horizon, which a
        learner and an agent that switches always have.

    Returns
    -------
    Demonstrations
        The choices of each task; with a `SwitchingAgent`, also the true motive of each row.
    """
    if discount is not None and isinstance(demonstrator, ModelBasedLearner | SwitchingAgent):
        raise InputError(
            f"simulate: a {type(demonstrator).__name__} uses the discount of its environment. Leave out "
            "discount=, and give environment.with_discount(...)."
        )
    if depth is not None and isinstance(demonstrator, ModelBasedLearner | SwitchingAgent):
        raise InputError(
            f"simulate: a {type(demonstrator).__name__} plans with an infinite horizon. Leave out depth=, or "
            "simulate Softmax(...) or SoftOptimal(...)."
        )
    if steps < 1 or episodes < 1:
        raise InputError(f"steps and episodes must be at least 1; found {steps} and {episodes}.")
    place: Environment = environment_of(environment)
    switches = isinstance(demonstrator, SwitchingAgent)
    axes: dict[str, Any] = {"task": None if tasks is None else tuple(tasks)} | ({"motive": None} if switches else {})
    axes |= {"state": place.states} | ({"action": place.actions} if on == "state_action" else {})
    rewards = aligned(rewards, "rewards", **axes)
    given = checked_rewards(place, np.asarray(rewards, dtype=float), on)
    if isinstance(demonstrator, SwitchingAgent):
        count = demonstrator.num_motives
        if not 1 <= len(given.batch) <= 2 or given.batch[-1] != count:
            raise InputError(
                f"rewards must have one row for each of {count} motives, [motive, ...] or [task, motive, ...]; found a "
                f"batch of shape {list(given.batch)}."
            )
    elif len(given.batch) > 1:
        raise InputError(
            f"rewards must have one row per task; found a batch of shape {list(given.batch)}. Flatten it first."
        )
    shape = given.values.shape[-2:] if not switches else given.values.shape[-3:]
    motives = given.values.reshape(-1, *shape)
    if len(motives) == 0:
        raise InputError("there are no rewards, so there is nothing to simulate.")
    names = checked_labels(tasks, len(motives), "task")
    stage = _stage(place, seed, len(motives))
    if isinstance(demonstrator, ModelBasedLearner):
        walks = _learn(demonstrator, place, motives, stage, steps * episodes)
        return _demonstrations(walks, names, place)
    rule: Any = demonstrator.rule if isinstance(demonstrator, SwitchingAgent) else demonstrator
    for word in () if switches else ("inverse_temperature", "lapse"):  # one for each task, perhaps by name
        value = getattr(rule, word, None)
        if is_labelled(value):
            rule = replace(rule, **{word: aligned(value, word, task=names)})
    own = {} if discount is None else {"discount": aligned(discount, "discount", task=names)}  # rules may have none
    own |= {} if depth is None else {"depth": depth}
    policies = np.cumsum(rule.policies(place, rewards, on=on, **own), axis=-1)
    table = place.num_states, place.num_actions
    places = place.available, place.is_terminal, stage.start
    if isinstance(demonstrator, SwitchingAgent):
        chances = np.cumsum(demonstrator.rows(len(names), place.num_states), axis=-1)
        chances /= chances[..., -1:]
        walks = []
        for policy, chance, stream in zip(policies.reshape(-1, count, *table), chances, stage.streams):
            uniforms, turns = stream.random((episodes, steps + 1, 2)), stream.random((episodes, steps))
            walks.append(switching_walk(stage.moves, policy, chance, *places, uniforms, turns))
        return _demonstrations([rows[:, :4] for rows in walks], names, place), np.concatenate(walks)[:, 4]
    walks = []
    for policy, stream in zip(policies.reshape(-1, *table), stage.streams):
        walks.append(walk(*stage.moves, policy, *places, stream.random((episodes, steps + 1, 2))))
    return _demonstrations(walks, names, place)


def simulate_policies(
    environment: Environment, policies: np.ndarray, *, steps: int, seed: int, tasks: Sequence[Label]
) -> Demonstrations:
    """Demonstrations by policies [task, episode, S, A], one for each task and episode."""
    stage = _stage(environment, seed, len(policies))
    places = environment.available, environment.is_terminal, stage.start
    walks = []
    for own, stream in zip(policies, stage.streams, strict=True):
        for number, policy in enumerate(np.cumsum(own, axis=-1)):
            rows = walk(*stage.moves, policy, *places, stream.random((1, steps + 1, 2)))
            rows[:, 0] = number
            walks.append(rows)
    count = policies.shape[1]
    together = [np.concatenate(walks[k * count : (k + 1) * count]) for k in range(len(policies))]
    return _demonstrations(together, tuple(tasks), environment)


def _stage(environment: Environment, seed: int, num_tasks: int) -> _Stage:
    matrix = environment.matrix
    cumulative = np.cumsum(matrix.data)
    offsets = np.concatenate([[0.0], cumulative])[matrix.indptr[:-1]]
    cumulative -= np.repeat(offsets, np.diff(matrix.indptr))
    streams = [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(num_tasks)]
    return _Stage((matrix.indptr, matrix.indices, cumulative), np.cumsum(environment.start), streams)


def _learn(
    learner: ModelBasedLearner, environment: Environment, motives: np.ndarray, stage: _Stage, steps: int
) -> list[np.ndarray]:
    """So many steps of a learner with each of these rewards."""
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
    walks = []
    for motive, stream in zip(motives, stage.streams):
        rows = learning_walk(
            *stage.moves,
            np.array(motive, order="C"),  # a copy: read-only arrays would be compiled for again
            allowed_actions(environment),
            environment.is_terminal,
            start,
            environment.discount,
            settings,
            stream.random((learner.burn_in + steps, 4)),
            LIMIT,
        )
        walks.append(rows[learner.burn_in :])
    return walks


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
