"""Trajectories of other libraries (`imitation`, Minari) with discrete observations and actions, as demonstrations."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.environment import Environment
from manymotives.data.labels import Label
from manymotives.errors import InputError, quoted

WORDS = (("obs", "acts"), ("observations", "actions"))  # of imitation's trajectories, of Minari's episodes


def from_trajectories(
    trajectories: Iterable[Any], environment: Environment | None = None, *, tasks: Sequence[Label] | None = None
) -> Demonstrations:
    """Make demonstrations from objects with `obs` and `acts` (imitation) or `observations` and `actions` (Minari).

    Parameters
    ----------
    trajectories
        Trajectories of whole numbers, each with one observation more than actions, or with as many.
    environment
        The numbers are positions in its lists of states and actions. Without it, the numbers are the names.
    tasks
        The task of each trajectory; trajectories of the same task are its episodes. Without it, all belong to one task.

    Returns
    -------
    Demonstrations
        One episode for each trajectory.
    """
    pairs = []
    for number, trajectory in enumerate(trajectories):
        words = next((words for words in WORDS if all(hasattr(trajectory, word) for word in words)), None)
        if words is None:
            raise InputError(
                f"trajectory {number} has neither obs and acts nor observations and actions; it is a "
                f"{type(trajectory).__name__}."
            )
        visited, taken = (_whole(getattr(trajectory, word), word, number) for word in words)
        if environment is not None:
            visited = _named(visited, environment.states, words[0], number)
            taken = _named(taken, environment.actions, words[1], number)
        pairs.append((visited, taken))
    return Demonstrations.from_lists(pairs, environment, tasks=[0] * len(pairs) if tasks is None else tasks)


def from_minari(datasets: Any, environment: Environment | None = None) -> Demonstrations:
    """Make demonstrations from a Minari dataset with discrete spaces, or from {task: dataset}, given as objects or by
    name.

    Without a mapping, everything belongs to one task, which has the name of the dataset.

    Parameters
    ----------
    datasets
        One dataset, or {task: dataset}.
    environment
        The numbers are positions in its lists of states and actions. Without it, the numbers are the names.

    Returns
    -------
    Demonstrations
        Every episode of every dataset.
    """
    if isinstance(datasets, Mapping):
        named = {task: _opened(dataset) for task, dataset in datasets.items()}
    else:
        dataset = _opened(datasets)
        named = {str(dataset.spec.dataset_id): dataset}
    episodes: list[Any] = []
    owners: list[Label] = []
    for task, dataset in named.items():
        for word in ("observation_space", "action_space"):
            space = getattr(dataset.spec, word)
            if not hasattr(space, "n"):
                raise InputError(f"the {word} of Minari's {quoted(task)} is {space}: only discrete spaces can be read.")
        made = list(dataset.iterate_episodes())
        episodes += made
        owners += [task] * len(made)
    return from_trajectories(episodes, environment, tasks=owners)


def _opened(dataset: Any) -> Any:
    if not isinstance(dataset, str):
        if not (hasattr(dataset, "iterate_episodes") and hasattr(dataset, "spec")):
            raise InputError(f"a Minari dataset or its name is needed; found {type(dataset).__name__}.")
        return dataset
    try:
        import minari
    except ModuleNotFoundError:
        raise InputError("Minari is not installed. Install it with: pip install minari") from None
    try:
        return minari.load_dataset(dataset)
    except (FileNotFoundError, ValueError) as error:
        raise InputError(f"Minari finds no dataset {quoted(dataset)} here: {error}") from None


def _whole(values: Any, word: str, number: int) -> list[int]:
    """A list of whole numbers; [T, 1] is taken as [T]."""
    try:
        array = np.asarray(values)
    except ValueError:
        array = np.empty(0)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise InputError(
            f"trajectory {number}: {word} must be whole numbers, one per step; found {array.dtype} of shape "
            f"{list(array.shape)}. Only discrete spaces can be read."
        )
    return [int(value) for value in array]


def _named(numbers: list[int], names: Sequence[Label], word: str, number: int) -> list[Any]:
    wrong = [value for value in numbers if not 0 <= value < len(names)]
    if wrong:
        raise InputError(
            f"trajectory {number}: {word} holds {wrong[0]}, and the environment has only 0 to {len(names) - 1}."
        )
    return [names[value] for value in numbers]
