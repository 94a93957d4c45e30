"""Truth and data from the prior of a model whose motives switch, and what a method makes of the data.

Motives have no order: what is ranked does not depend on it, such as the least and the most of each reward over motives.
Rows are drawn from their tree, and choices filtered, by a few lines of NumPy that share nothing with the sampler.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import softmax

from manymotives.data.belief import DynamicsBelief, EnvironmentOrBelief
from manymotives.data.demonstrations import Demonstrations
from manymotives.errors import InputError
from manymotives.families import log_gammas
from manymotives.inference import Draws, Method, sample
from manymotives.inference.mcmc.row_tree import TOTAL_RATE, TOTAL_SHAPE
from manymotives.models import RewardPolicyModel, Target
from manymotives.models.priors import Prior
from manymotives.models.switching import STATE, Switching
from manymotives.worlds import SwitchingAgent, simulate

Quantities = dict[str, np.ndarray]
Replication = Callable[[np.random.Generator, int, int], tuple[Quantities, Quantities]]
SMALLEST = 1e-290  # of a probability: what comes below it in the tree needs one above 0


class _Hidden(NamedTuple):
    """Draws [chain, draw, ...] of what rewards do not say."""

    rows: np.ndarray  # [M, S or 1, K + 1, K] by which motives follow each other; last, by which episodes begin
    stickiness: np.ndarray  # [R]
    concentration: np.ndarray  # [R, L]
    share: np.ndarray  # [M] of the motive used most
    switches: np.ndarray  # [M]
    log_likelihood: np.ndarray  # [M]


def switching_replications(
    model: RewardPolicyModel,
    source: RewardPolicyModel,
    environment: EnvironmentOrBelief,
    method: Method,
    tasks: int,
    steps: int,
) -> Replication:
    """Simulated data sets of so many tasks and steps: truth drawn from `source`, inferred with `model`."""
    if model.switching is None or source.switching is None:
        raise InputError(
            "truth and model must both switch between motives, or neither. A single motive is Switching(motives=1)."
        )
    if isinstance(environment, DynamicsBelief):
        raise InputError("motives that switch can only be calibrated in a known environment. Give belief.mean.")
    count, names = source.switching.num_motives, tuple(range(tasks))
    nothing = np.zeros((count * tasks, environment.num_states, environment.num_actions))
    origin, drawn_with, inferred_with = source.target(environment, names, nothing), source.switching, model.switching
    owner = np.arange(count * tasks)

    def by_task(values: np.ndarray) -> np.ndarray:
        """[M, K, ...] from [K · M, ...]."""
        return values.reshape(count, tasks, *values.shape[1:]).swapaxes(0, 1)

    def replication(rng: np.random.Generator, seed: int, m: int) -> tuple[Quantities, Quantities]:
        hyper = origin.draw_hyper(rng, 1)
        u = origin.draw_tasks(rng, hyper)
        rows, stickiness, concentration = drawn_rows(rng, source, environment.num_states, tasks)
        rule = type(source.choice)(
            inverse_temperature=by_task(origin.temperatures(u[0], owner)), lapse=by_task(origin.lapses(u[0], owner))
        )
        agent = SwitchingAgent(rule, rows[:, :, :-1], rows[:, :, -1])
        demonstrations, motives = simulate(
            environment, by_task(origin.rewards(u[0])), agent, steps=steps, seed=seed, on=origin.on
        )
        target = model.bind(environment, demonstrations)
        draws = sample(method, target, seed=seed)
        log_policies = by_task(origin.log_policies(u[0], owner))
        likelihood = [
            filtered(log_policies[None, task], rows[None, task], *_choices(demonstrations, task)).log_likelihood[0]
            for task in names
        ]
        steps_of = np.array([np.bincount(motives[demonstrations.task == task]).max() for task in names])
        switched = demonstrations.follows & (motives != np.roll(motives, 1))
        hidden = _Hidden(
            rows=rows,
            stickiness=stickiness,
            concentration=concentration,
            share=steps_of / np.bincount(demonstrations.task),
            switches=np.bincount(demonstrations.task[switched], minlength=tasks),
            log_likelihood=np.array(likelihood),
        )
        hidden = _Hidden(*(part[None, None] for part in hidden))
        truth = _quantities(origin, drawn_with, u[None], hyper[None], hidden, demonstrations, m)
        found = _quantities(
            target, inferred_with, draws.tasks, draws.hyper, _hidden(draws, model, tasks), demonstrations, m
        )
        return truth, found

    return replication


def drawn_rows(
    rng: np.random.Generator, model: RewardPolicyModel, num_states: int, num_tasks: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows [M, S or 1, K + 1, K] of contexts, κ [R] and ν [R, L], from the prior."""
    switching: Any = model.switching
    count, roots = switching.num_motives, num_tasks if model.is_separate else 1

    def numbers(value: Any, shape: tuple[int, ...]) -> np.ndarray:
        if isinstance(value, Prior):
            return value.draw(shape, seed=int(rng.integers(2**63)))
        return np.full(shape, float(value))

    stickiness = numbers(switching.stickiness, (roots,))
    shape = np.ones((roots, count + 1, count))
    if switching.is_counted:  # α β
        use = _dirichlet(rng, np.full((roots, 1, count), switching.motives.concentration / count))
        shape *= rng.gamma(TOTAL_SHAPE, 1 / TOTAL_RATE, size=(roots, 1, 1)) * use
    shape[:, :-1] += stickiness[:, None, None] * np.eye(count)
    rows = _dirichlet(rng, shape)[:, None, None]  # [root, state, task, K + 1, K]
    axes = [(1, num_states)] * (switching.by == STATE) + [(2, num_tasks)] * model.is_hierarchical
    concentration = numbers(switching.concentration, (roots, len(axes)))
    for level, (axis, size) in enumerate(axes):
        rows = np.repeat(rows, size, axis=axis)
        rows = _dirichlet(rng, concentration[:, level].reshape(-1, 1, 1, 1, 1) * rows)
    by_task = rows[:, :, 0] if model.is_separate else rows[0].swapaxes(0, 1)
    return by_task, stickiness, concentration


def _dirichlet(rng: np.random.Generator, shape: np.ndarray) -> np.ndarray:
    """Rows along the last axis."""
    logs = log_gammas(rng, shape.reshape(-1, shape.shape[-1])).reshape(shape.shape)
    return np.maximum(softmax(logs, axis=-1), SMALLEST)


class Filtered(NamedTuple):
    """At the last step of an episode, given all its choices; for N draws."""

    last: np.ndarray  # [N, K] p(z_T = k)
    same: np.ndarray  # [N] p(z_T = z_{T−1}); 1 where there was but one step
    log_likelihood: np.ndarray  # [N]


def filtered(log_policies: np.ndarray, rows: np.ndarray, state: np.ndarray, action: np.ndarray) -> Filtered:
    """For log policies [N, K, S, A], rows [N, S or 1, K + 1, K] and one episode of choices."""
    place = state if rows.shape[1] > 1 else np.zeros_like(state)
    before, log_likelihood, same = None, np.zeros(len(rows)), np.ones(len(rows))
    for t in range(len(state)):
        chosen = log_policies[:, :, state[t], action[t]]
        if before is None:
            after = np.log(rows[:, place[t], -1]) + chosen
        else:
            pairs = before[:, :, None] + np.log(rows[:, place[t - 1], :-1]) + chosen[:, None, :]
            after = np.logaddexp.reduce(pairs, axis=1)
            stays = np.logaddexp.reduce(np.diagonal(pairs, axis1=1, axis2=2), axis=1)
            same = np.exp(stays - np.logaddexp.reduce(after, axis=1))
        total = np.logaddexp.reduce(after, axis=1)
        log_likelihood, before = log_likelihood + total, after - total[:, None]
    assert before is not None
    return Filtered(np.exp(before), same, log_likelihood)


def _choices(demonstrations: Demonstrations, task: int) -> tuple[np.ndarray, np.ndarray]:
    mine = demonstrations.task == task
    return demonstrations.state[mine], demonstrations.action[mine]


def _hidden(draws: Draws, model: RewardPolicyModel, num_tasks: int) -> _Hidden:
    """The same of draws: contexts are states, then tasks; of separate tasks, tasks, then states."""
    drawn = draws.assignment
    assert drawn is not None
    lead, last = drawn.rows.shape[:2], drawn.rows.shape[3:]
    if model.is_separate:
        rows = drawn.rows.reshape(*lead, num_tasks, -1, *last)
    else:
        rows = drawn.rows.reshape(*lead, -1, num_tasks, *last).swapaxes(2, 3)
    share = drawn.steps.max(axis=3) / drawn.steps.sum(axis=3)
    return _Hidden(rows, drawn.stickiness, drawn.concentration, share, drawn.switches, drawn.log_likelihood)


def _quantities(
    target: Target,
    switching: Switching,
    tasks: np.ndarray,
    hyper: np.ndarray,
    hidden: _Hidden,
    demonstrations: Demonstrations,
    m: int,
) -> Quantities:
    """Draws [chain, draw] of what is ranked, of task m and what it shares."""
    count, layout = switching.num_motives, target.layout
    mine = np.arange(count) * (target.num_tasks // count) + m  # its motives
    u, lead = tasks[:, :, mine], tasks.shape[:2]
    owner = np.broadcast_to(mine, u.shape[:3])
    reward = target.rewards(u).reshape(*lead, count, -1)
    made = layout.features.exist and not target.has_shared_rewards
    free = np.arange(layout.features.matrix.shape[0]) if made else layout.reward_index
    found: Quantities = {}

    def add(name: str, values: np.ndarray) -> None:
        """Of motives [chain, draw, K], in no order."""
        if count == 1:
            found[name] = values[..., 0]
        else:
            found[f"{name}, least"], found[f"{name}, most"] = values.min(axis=2), values.max(axis=2)

    for position in free:
        add(f"reward {position}", reward[..., position])
    if layout.temperature >= 0:
        add("inverse temperature", target.temperatures(u, owner))
    if layout.lapse >= 0:
        add("lapse", target.lapses(u, owner))
    for block in target.blocks:
        for position in range(block.begin, block.end):
            name = block.name.replace("_", " ")
            values = hyper[:, :, target.group[mine], position]
            add(f"{name} {position - block.begin}" if block.over else name, values)
    root = m if hidden.stickiness.shape[2] > 1 else 0
    if isinstance(switching.stickiness, Prior):
        found["stickiness"] = hidden.stickiness[:, :, root]
    if isinstance(switching.concentration, Prior):
        for level in range(hidden.concentration.shape[3]):
            found[f"concentration {level}"] = hidden.concentration[:, :, root, level]
    rows = hidden.rows[:, :, m]
    if count > 1:
        for place in range(rows.shape[2]):
            add(f"stay {place}", np.diagonal(rows[:, :, place, :-1], axis1=2, axis2=3))
            found[f"start {place}, most"] = rows[:, :, place, -1].max(axis=2)
        found["switches"], found["share of the motive used most"] = hidden.switches[..., m], hidden.share[..., m]
        flat = target.log_policies(u.reshape(-1, u.shape[-1]), owner.ravel())
        flat = flat.reshape(-1, count, *flat.shape[1:])
        last, same, _ = filtered(flat, rows.reshape(-1, *rows.shape[2:]), *_choices(demonstrations, m))
        found["last motive, filtered"] = last.max(axis=1).reshape(lead)
        found["last two the same, filtered"] = same.reshape(lead)
    found["log-likelihood"] = hidden.log_likelihood.sum(axis=2)
    return found
