"""Whether a likelihood has one maximum: which directions choices cannot show, and where parameters run to infinity.

Unidentified directions. Where d log-odds = J du, the Fisher information of the choices is Jᵀ W J. A direction along
which no choice that was recorded could change is in its null space at every point. The rank is computed at two points
at random (log-odds of about 1, so that no probability vanishes): a rank that is deficient at both is no accident.

Separation. Where some direction makes every recorded choice ever more likely, the likelihood has a supremum and no
maximum: Newton steps stay as long as they are while their gain vanishes. So does it where a lapse rate, a discount or
a bounded reward runs into the end of its range. Wherever a search ends without converging, or the curvature along a
direction has all but vanished, the likelihood is followed along that direction for a thousand units of log-odds: if it
does not fall, there is no maximum.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from manymotives.errors import InputError, listed, quoted
from manymotives.inference.laplace import Planned, likelihood_shape, prior_shape
from manymotives.inference.maximisation import Chart, Maximum, Objective
from manymotives.models import Target
from manymotives.models.rewards import LINEAR, NORMALISED

SINGULAR = 1e-11  # eigenvalue of the information, relative to the largest: the square of a singular value of 3e-6
NOTHING = 1e-12  # of the largest diagonal entry: a coordinate on which no choice depends
FLAT = 1e-6  # curvature per choice, in units of log-odds, that is followed to see whether there is a maximum
FAR = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # how far, in units of log-odds
FALL = 0.01  # in log likelihood: what is not found to fall by as much within that distance has no maximum
INVOLVED = 0.05  # share of the largest change: smaller ones are not named
POINTS = 2  # at random, at which the rank is computed
LEAST_UNIT = 0.3  # of logarithms and logits: where choices hardly depend on them they still move by 3 and no more


def chart_of(
    target: Target,
    start: Float[np.ndarray, "M D"],
    parameters: Float[np.ndarray, "M D 2"] | None,
    held: Sequence[int] = (),
    planned: Planned | None = None,
) -> tuple[Chart, Float[np.ndarray, "P M F F"]]:
    """Free directions of each task in units of log-odds, and the Fisher information along them at some points.

    `parameters` of the prior where it counts; `held`: coordinates that are not free; `planned`: as in
    `likelihood_shape`.
    """
    rng, every = np.random.default_rng(0), np.arange(target.num_tasks)
    choices = np.maximum(decisions(target), 1.0)[:, None]
    size = start.shape[1]
    is_bounded = (np.arange(size) >= target.layout.num_rewards) | (target.layout.link != LINEAR)

    def informations(points: np.ndarray) -> np.ndarray:
        flat = points.reshape(-1, size)
        found = likelihood_shape(target, flat, np.tile(every, len(points)), planned)[1]
        return found.reshape(len(points), -1, size, size)

    def units(information: np.ndarray) -> np.ndarray:
        """[M, D] by how much log-odds of a choice change with each coordinate, as root mean square."""
        diagonal = np.einsum("mdd->md", information) / choices
        is_seen = diagonal > NOTHING * np.maximum(diagonal.max(axis=1, keepdims=True), 1e-300)
        instead = np.ones_like(diagonal)
        if parameters is not None:
            instead = prior_shape(target.layout.families, start, parameters)[1]
        found = np.sqrt(np.where(is_seen, diagonal, instead))
        return np.where(is_bounded, np.maximum(found, LEAST_UNIT), found)

    first = informations(start[None])
    away = rng.standard_normal((POINTS, *start.shape)) / np.sqrt(size)
    points = informations(start + away / units(first[0]))
    scale = units(np.concatenate([first, points]).mean(axis=0))
    free = np.array([d for d in range(size) if d not in held], dtype=int)
    basis = np.zeros((len(start), size, len(free)))
    basis[:, free, np.arange(len(free))] = 1.0
    if target.layout.link == NORMALISED and parameters is None:
        # shares do not change if all coordinates move alike: what is left is orthogonal to that
        common = np.where(np.arange(size) < target.layout.num_rewards, scale, 0.0)
        stacked = np.concatenate([common[:, free, None], np.eye(len(free))[None].repeat(len(start), axis=0)], axis=2)
        complement = np.linalg.qr(stacked)[0][:, :, 1:]
        basis = basis @ complement
    basis = basis / scale[:, :, None]
    return Chart(basis), np.einsum("mdf,pmde,meg->pmfg", basis, points, basis)


def decisions(target: Target) -> Float[np.ndarray, " M"]:
    """How many choices each task made where there was something to choose."""
    is_choice = target.environment.available.sum(axis=1) > 1
    return target.counts[:, is_choice].sum(axis=(1, 2))


def check_choices(target: Target) -> None:
    """Refuse tasks that never chose between actions."""
    silent = [task for task, made in zip(target.tasks, decisions(target)) if made == 0]
    if silent:
        raise InputError(
            f"MaximumLikelihood: {listed(silent)} never chose between two or more actions, so the likelihood is "
            "the same for all parameters. Leave out tasks without choices."
        )


def check_identified(target: Target, chart: Chart, information: Float[np.ndarray, "P M F F"]) -> None:
    """Refuse a likelihood that is constant along some direction, and say along which."""
    if information.shape[-1] == 0:
        return
    values, vectors = np.linalg.eigh(information)
    is_null = values <= SINGULAR * np.maximum(values[..., -1:], 1e-300)
    missing = is_null.sum(axis=2)  # [P, M]
    tasks = np.flatnonzero(missing.min(axis=0) > 0)
    if len(tasks) == 0:
        return
    task = int(tasks[0])
    point = int(missing[:, task].argmin())
    null = vectors[point, task][:, is_null[point, task]]
    moved = chart.basis[task] @ null / np.linalg.norm(chart.basis[task], axis=1)[:, None]
    involved = np.abs(moved).max(axis=1)
    names = described(target, np.flatnonzero(involved > INVOLVED * involved.max()))
    count = null.shape[1]
    others = f" (nor do those of {listed([target.tasks[k] for k in tasks[1:]])})" if len(tasks) > 1 else ""
    how = "one combination" if count == 1 else f"{count:,} independent combinations"
    raise InputError(
        f"MaximumLikelihood: the likelihood has no single maximum. The choices{_whose(target, task)} do not depend on "
        f"{how} of {names}{others}. {_remedy(target, moved)}"
    )


def _remedy(target: Target, moved: np.ndarray) -> str:
    """What to do about unidentified directions [D, n]."""
    layout = target.layout
    is_scale = layout.temperature >= 0 and np.abs(moved[layout.temperature]).max() > INVOLVED
    if is_scale and layout.link == LINEAR:
        advice = "Rewards have a scale of their own: give the inverse temperature as a number"
    elif target.num_weights:
        advice = "Leave out features until the rest can be identified"
    else:
        advice = "Use features that leave out a reference, such as GaussianReward(features=np.eye(states)[:, 1:])"
    return f'{advice}; or use criterion="posterior", under which the prior decides what choices cannot.'


def check_bounded(objective: Objective, chart: Chart, found: Maximum, owner: Int[np.ndarray, " M"]) -> None:
    """Refuse likelihoods without a maximum, and say which parameters run away, and whose."""
    target = objective.target
    values, vectors = np.linalg.eigh(found.curvature)
    flat = FLAT * decisions(target)[owner]
    said: str | None = None
    others: list[object] = []
    for row in np.flatnonzero((values.min(axis=1, initial=np.inf) < flat) | ~found.converged):
        doubtful = [vectors[row, :, k] for k in np.flatnonzero(values[row] < flat[row])]
        ridge = doubtful[0] if doubtful and not found.converged[row] else None
        slope = found.gradient[row]
        if np.linalg.norm(slope) > 0:
            step = np.linalg.lstsq(found.curvature[row], slope, rcond=1e-12)[0]
            doubtful += [direction for direction in (step, slope) if np.linalg.norm(direction) > 0]
        signed = [sign * direction / np.linalg.norm(direction) for direction in doubtful for sign in (1.0, -1.0)]
        escape = next(
            (one for one in signed if not _falls(objective, chart, found, int(row), int(owner[row]), one)), None
        )
        if escape is None and ridge is None:
            continue
        if said is None:
            is_ridge = escape is None
            direction = chart.basis[row] @ (ridge if escape is None else escape)
            said = (_ridge if is_ridge else _escape)(target, int(owner[row]), direction)
        else:
            others.append(target.tasks[owner[row]])
    if said is not None:
        more = f" There is no maximum for {listed(others)} either." if others else ""
        raise InputError(f"MaximumLikelihood: {said}{more}")


def _falls(
    objective: Objective, chart: Chart, found: Maximum, row: int, task: int, toward: Float[np.ndarray, " F"]
) -> bool:
    """Whether the likelihood falls somewhere along a direction."""
    points = found.u[row] + np.array(FAR)[:, None] * (chart.basis[row] @ toward)
    heights = objective(points, np.full(len(points), task)).log_likelihood
    return bool((np.nan_to_num(heights, nan=-np.inf) < found.value[row] - FALL).any())


def _escape(target: Target, task: int, direction: Float[np.ndarray, " D"]) -> str:
    """In words, where the parameters of a task go."""
    layout = target.layout
    who, involved = _whose(target, task), _involved(direction)
    ends = {
        layout.lapse: ("the lapse rate", "0", "1", "lapse"),
        layout.discount: ("the discount", "0", "1", "discount"),
        layout.temperature: ("the inverse temperature", "0", "infinity", "inverse_temperature"),
    }
    if len(involved) == 1 and involved[0] >= layout.num_rewards:
        what, low, high, word = ends[int(involved[0])]
        return (
            f"the likelihood{who} has no maximum: it grows as {what} approaches "
            f'{low if direction[involved[0]] < 0 else high}. Give {word} as a number, or use criterion="posterior".'
        )
    runs = f"{described(target, involved)} run{'s' if len(involved) == 1 else ''}"
    if layout.link == LINEAR:
        return (
            f"the likelihood{who} has no maximum: it keeps increasing as {runs} to infinity, because larger "
            "values explain the choices better and better (separation). Collect more choices, pool tasks, leave "
            'out features, or use criterion="posterior".'
        )
    return (
        f"the likelihood{who} has no maximum inside the range of rewards: it grows as {runs} to the end of the range. "
        'Use GaussianReward(), whose weights may be any number, or criterion="posterior".'
    )


def _ridge(target: Target, task: int, direction: Float[np.ndarray, " D"]) -> str:
    """In words, which parameters of a task can be exchanged for each other for ever."""
    names = described(target, _involved(direction))
    return (
        f"no maximum of the likelihood{_whose(target, task)} was found: along a curve of values of {names} it is "
        "almost constant, so choices do not separate them. Give one of the parameters as a number, leave out "
        'features, or use criterion="posterior".'
    )


def _whose(target: Target, task: int) -> str:
    return "" if target.num_tasks == 1 else f" of {quoted(target.tasks[task])}"


def _involved(direction: Float[np.ndarray, " D"]) -> np.ndarray:
    """Coordinates that move noticeably."""
    return np.flatnonzero(np.abs(direction) > INVOLVED * max(np.abs(direction).max(), 1e-300))


def described(target: Target, which: Sequence[int] | np.ndarray) -> str:
    """Coordinates as a sentence names them."""
    layout = target.layout
    further = {layout.temperature: "the inverse temperature", layout.lapse: "the lapse rate"}
    further |= {layout.discount: "the discount"}
    word = "weight" if target.num_weights else "reward"
    own = [target.names[k] for k in which if k < layout.num_rewards]
    parts = [f"the {word}{'s' if len(own) > 1 else ''} of {listed(own)}"] if own else []
    parts += [further[int(k)] for k in which if k >= layout.num_rewards]
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
