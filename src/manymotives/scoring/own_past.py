"""Models whose motives switch, with a held-out task's own past: its motives depart from everybody's as it goes on.

A task's version of motive k is u_k + scale · z, with z standard normal beforehand, and its rows of the transition
matrix of motives are Dirichlet(ν · everybody's). Under `Hierarchical()` u, scale and ν are the population's. Under
`Pooled()`, where tasks are taken as alike, scales (one for each group of coordinates) and ν are found from the tasks
that train: those under which their own versions are likeliest (EM, with variances of the mean field).

Choices are predicted by filtering, with z and rows as they were before. After every some choices the mode of z is
climbed a little, given the choices so far with motives smoothed over them: nothing that comes later is read.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from manymotives.data.demonstrations import Demonstrations
from manymotives.data.steps import NONE
from manymotives.inference.motive_modes import Motives, Population
from manymotives.inference.motive_rows import likeliest
from manymotives.models import Target
from manymotives.models.assignment import Assignment
from manymotives.models.hidden_markov import Segments, expected_counts, log_predictions, smoothed_motives
from manymotives.models.priors import Gamma, Prior
from manymotives.models.rewards import GaussianReward
from manymotives.models.sharing import Pooled
from manymotives.posterior import SwitchingPosterior

FIRST_SCALE = 0.15  # of what differs between tasks, in units of rewards, before anything is known of it
FIRST_CONCENTRATION = 100.0  # the same of ν
ROUNDS = 4  # of EM, for what differs between tasks
SCORING = 2  # steps of Fisher scoring after every some choices:
FIRST_UPDATE, GROWTH = 50, 1.06  # after so many, and then whenever there are so many times as many
LONGEST = 300  # steps that are predicted without learning from them
CONCENTRATION = Gamma(shape=1.0, rate=0.01)  # of ν


class Everybody(NamedTuple):
    """What a task's own motives and rows are expected to be, before it has done anything."""

    motives: Population  # [K, D]
    rows: np.ndarray  # [C, K + 1, K] of contexts
    concentration: float  # ν


def can_use_own_past(model: Any) -> bool:
    """Whether there are formulas for it: motives switch, rewards are Gaussian, and how one chooses is known."""
    return (
        getattr(model, "switching", None) is not None
        and isinstance(model.reward, GaussianReward)
        and not isinstance(model.inverse_temperature, Prior)
        and not isinstance(model.choice.lapse, Prior)
    )


def predict_with_own_past(posterior: SwitchingPosterior, demonstrations: Demonstrations, task: int) -> np.ndarray:
    """log p of each choice of a task that did not train [rows], from everybody and what it did before; else 0."""
    one = _one_task(posterior, task)
    everybody = _everybody(posterior, one, task)
    mine = demonstrations.task == task
    found = np.zeros(len(mine))
    found[mine] = _predicted_on_the_way(one, everybody, _segments(posterior, demonstrations, mine))
    return found


def _predicted_on_the_way(target: Target, everybody: Everybody, segments: Segments) -> np.ndarray:
    """log p of each choice of one task [T], in order."""
    size, rng = target.environment.available.shape, np.random.default_rng(0)
    z, rows, every = np.zeros_like(everybody.motives.mean), everybody.rows, np.arange(target.num_tasks)
    log_policies = target.log_policies(everybody.motives.coordinates(z), every)
    found = np.zeros(len(segments.state))
    before: tuple[np.ndarray, np.ndarray] = np.zeros(target.counts.shape), np.zeros(rows.shape)
    learnt = FIRST_UPDATE / GROWTH
    for first, begin, end in _parts(segments):
        part = Segments(*(each[first:end] for each in segments))
        found[begin:end] = log_predictions(part, rows, log_policies)[begin - first :]
        smoothed, moves, _ = smoothed_motives(part, rows, log_policies, 1)
        counts = before[0] + expected_counts(part, smoothed, 1, *size)
        moves = before[1] + moves
        if end == len(segments.state) or segments.begins[end]:
            before = counts, moves
        if counts.sum() >= GROWTH * learnt:
            learnt = counts.sum()
            motives = Motives(replace(target, counts=counts))
            diagonal = motives.diagonal(everybody.motives.coordinates(z), rng)
            for _ in range(SCORING):
                z = motives.scored(z, everybody.motives, diagonal)
            log_policies = target.log_policies(everybody.motives.coordinates(z), every)
            rows = _own_rows(everybody, moves)
    return found


def _parts(segments: Segments) -> Iterator[tuple[int, int, int]]:
    """Where a segment begins, and a part of it: its first step, and the one after its last."""
    starts = np.flatnonzero(segments.begins).tolist()
    for first, end in zip(starts, [*starts[1:], len(segments.begins)]):
        for begin in range(first, end, LONGEST):
            yield first, begin, min(begin + LONGEST, end)


def _own_rows(everybody: Everybody, moves: np.ndarray) -> np.ndarray:
    pseudo = moves + everybody.concentration * everybody.rows
    return pseudo / pseudo.sum(axis=-1, keepdims=True)


# ---- what is expected of a task --------------------------------------------------------------------------------


def _one_task(posterior: SwitchingPosterior, task: int) -> Target:
    """The target of one task's motives [K rows], without choices."""
    target, count = posterior.target, posterior.num_motives
    units = target.num_tasks // count
    rows = np.arange(count) * units + (task if units > 1 else 0)
    return replace(
        target,
        tasks=tuple(target.tasks[row] for row in rows),
        counts=np.zeros((count, *target.counts.shape[1:])),
        layout=target.layout._replace(group_size=1),
        fixed_temperature=target.fixed_temperature[rows],
        fixed_lapse=target.fixed_lapse[rows],
        assignment=None,
    )


def _segments(posterior: SwitchingPosterior, demonstrations: Demonstrations, rows: np.ndarray) -> Segments:
    """These steps, as one unit's in one episode; contexts are states, or one for all."""
    assert posterior.model.switching is not None
    every = Assignment.of(posterior.model.switching, Pooled(), demonstrations).segments
    mine = Segments(*(part[rows] for part in every))
    nobody = np.zeros_like(mine.unit)
    return mine._replace(unit=nobody, task=nobody, episode=nobody)


def _everybody(posterior: SwitchingPosterior, one: Target, task: int) -> Everybody:
    """The population, as posterior means; where the model has none, as the tasks that train show it."""
    drawn = posterior.data["posterior"].dataset.mean(("chain", "draw"))
    if not posterior.model.is_pooled:
        drawn = drawn.isel(task=task)
    start = drawn["motive_start"].values[..., None, :]
    rows = np.concatenate([drawn["motive_transition"].values, start], axis=-2)
    rows = np.ascontiguousarray(rows.reshape(-1, *rows.shape[-2:]))
    rows /= rows.sum(axis=-1, keepdims=True)
    if posterior.model.is_pooled:
        return _spread_of_tasks(posterior, one, _coordinates(one, drawn), rows)
    values = np.zeros((one.num_tasks, one.num_hyper))
    for block in one.blocks:
        values[:, block.begin : block.end] = drawn[block.name].values.reshape(one.num_tasks, -1)
    parameters = one.parameters_at(values)
    known = posterior.model.switching.concentration  # type: ignore[union-attr]
    concentration = float(drawn["task_concentration"]) if "task_concentration" in drawn else float(known)
    return Everybody(Population(parameters[..., 0], parameters[..., 1]), rows, concentration)


def _coordinates(one: Target, drawn: xr.Dataset) -> np.ndarray:
    """Mean coordinates of motives [K, D]."""
    layout = one.layout
    table = drawn["reward"].fillna(0.0).values.reshape(one.num_tasks, -1)
    if not layout.features.exist or one.has_shared_rewards:
        return table[:, layout.reward_index]
    weights = drawn["weight"].values.reshape(one.num_tasks, -1)
    if weights.shape[1] == layout.num_rewards:
        return weights
    features = layout.features.matrix
    residual = table - (features[:, : one.num_weights] @ weights.T).T
    own = features[:, one.num_weights :]  # one column for each residual, of one cell or of several that share it
    return np.hstack([weights, (own.T @ residual.T).T / np.asarray(own.sum(axis=0)).ravel()])


def _spread_of_tasks(posterior: SwitchingPosterior, one: Target, u: np.ndarray, rows: np.ndarray) -> Everybody:
    """How far training tasks' own motives are from everybody's, and their own rows."""
    training = posterior.demonstrations
    made = np.bincount(training.task[training.action != NONE], minlength=training.num_tasks)
    tasks = np.flatnonzero(made)
    segments = [_segments(posterior, training, training.task == task) for task in tasks]
    count, size, rng = one.num_tasks, one.environment.available.shape, np.random.default_rng(0)
    group = one.layout.source[:, 1] + 1  # coordinates that have a scale in common; 0: those whose scale is known
    everybody = Everybody(Population(u, np.full_like(u, FIRST_SCALE)), rows, FIRST_CONCENTRATION)
    if len(tasks) == 0:  # nobody shows how tasks differ
        return everybody
    each = np.repeat(np.arange(count), len(tasks))  # rows: motive by motive, task by task
    many = replace(
        one,
        tasks=tuple(one.tasks[k] for k in each),
        fixed_temperature=one.fixed_temperature[each],
        fixed_lapse=one.fixed_lapse[each],
    )
    z = np.zeros((len(each), u.shape[1]))
    own_rows = [rows] * len(tasks)
    for _ in range(ROUNDS):
        population = Population(*(part[each] for part in everybody.motives))
        log_policies = many.log_policies(population.coordinates(z), np.arange(len(each)))
        log_policies = log_policies.reshape(count, len(tasks), *size)
        counts, moves = np.empty((count, len(tasks), *size)), np.empty((len(tasks), *rows.shape))
        for m, mine in enumerate(segments):
            smoothed, moves[m], _ = smoothed_motives(mine, own_rows[m], np.ascontiguousarray(log_policies[:, m]), 1)
            counts[:, m] = expected_counts(mine, smoothed, 1, *size)
        motives = Motives(replace(many, counts=counts.reshape(-1, *size)))
        diagonal = motives.diagonal(population.coordinates(z), rng)
        for _ in range(SCORING):
            z = motives.scored(z, population, diagonal)
        squares = (population.scale**2 * (z**2 + 1 / (1 + population.scale**2 * diagonal))).mean(axis=0)
        by_group = np.bincount(group, squares) / np.maximum(np.bincount(group), 1)
        scale = np.broadcast_to(np.sqrt(by_group)[group], u.shape)
        z = z * population.scale / scale[0]
        flat = moves.reshape(-1, rows.shape[-1])
        around = np.broadcast_to(rows, moves.shape).reshape(flat.shape)
        parameters = np.array([float(each) for each in CONCENTRATION.parameters])
        concentration = likeliest(CONCENTRATION.family, parameters, flat, around, np.zeros_like(around))
        everybody = Everybody(Population(u, scale), rows, concentration)
        own_rows = [_own_rows(everybody, mine) for mine in moves]
    return everybody
