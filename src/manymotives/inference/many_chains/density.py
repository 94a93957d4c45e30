"""Log densities and gradients in non-centred coordinates z for many chains at once, in JAX: the twin of `mcmc.density`.

Arrays have the chain last: z of populations [H, G, C], of tasks [D, M, C]. u = T(z; a, b) and log p(z | a, b) are
differentiated by JAX; the gradient of log-likelihoods in u comes from `choices`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from manymotives.families import NORMAL
from manymotives.inference.many_chains.choices import choices
from manymotives.inference.many_chains.families import (
    group_kernel,
    is_location_scale,
    log_gamma_draws,
    log_normaliser,
    natural,
    noncentred,
    noncentred_density,
    noncentred_normaliser,
    standardised,
    summary,
)
from manymotives.inference.many_chains.layout import Data, Run, StaticLayout
from manymotives.models.rewards import NORMALISED
from manymotives.models.target import CONSTANT


def populations_at(layout: StaticLayout, data: Data, hyper_z: Any) -> tuple[Any, Any, Any]:
    """h and the hyperparameters themselves [H, G, C], and log p of their z [G, C]."""
    coordinates, values, density, exists = [], [], [], []
    for run in layout.hyper_runs:
        z = hyper_z[run.begin : run.end]
        a, b = (data.hyper_constants[run.begin : run.end, column][:, None, None] for column in range(2))
        h, own = noncentred_density(run.family, z, a, b)
        x = natural(run.family, h)
        density.append((own + noncentred_normaliser(run.family, a, b)).sum(axis=0))
        exists.append((jnp.isfinite(x) & ((x > 0.0) | (run.family == NORMAL))).all(axis=0))
        coordinates.append(h)
        values.append(x)
    if not layout.hyper_runs:
        return hyper_z, hyper_z, jnp.zeros(hyper_z.shape[1:], hyper_z.dtype)
    total = jnp.where(_all(exists), sum(density), -jnp.inf)
    return jnp.concatenate(coordinates), jnp.concatenate(values), total


def parameters_of(data: Data, run: Run, values: Any) -> tuple[Any, Any]:
    """a and b [n, G or 1, C or 1] of a run, given hyperparameters [H, G, C]."""
    found, size = [], run.end - run.begin
    for column, (j, stride) in enumerate(zip(run.sources, run.strides)):
        if j == CONSTANT:
            found.append(data.constants[run.begin : run.end, column][:, None, None])
        elif stride == 0:
            found.append(jnp.broadcast_to(values[j], (size, *values.shape[1:])))
        else:
            found.append(values[j : j + size])
    return found[0], found[1]


def tasks_at(layout: StaticLayout, data: Data, values: Any, task_z: Any) -> tuple[Any, Any]:
    """u [D, M, C], and log p(z | population) [M, C]."""
    coordinates, density, normaliser = [], [], []
    for run in layout.runs:
        z = _grouped(layout, task_z[run.begin : run.end])
        a, b = parameters_of(data, run, values)
        normaliser.append(noncentred_normaliser(run.family, a, b).sum(axis=0))  # once for all tasks
        u, own = noncentred_density(run.family, z, a[:, :, None], b[:, :, None])
        density.append(own.sum(axis=0))
        coordinates.append(u)
    total = sum(density) + sum(normaliser)[:, None]
    size, (_, num_tasks, chains) = layout.num_coordinates, task_z.shape
    return jnp.concatenate(coordinates).reshape(size, num_tasks, chains), total.reshape(num_tasks, chains)


def noncentred_of(layout: StaticLayout, data: Data, values: Any, u: Any, z: Any, before: Any) -> Any:
    """z [D, M, C] of tasks at u, given hyperparameters [H, G, C]; z and `before` are what these were.

    Location–scale coordinates must not have moved: their z follows from what it was, exactly at every scale.
    """
    found = []
    for run in layout.runs:
        a, b = (each[:, :, None] for each in parameters_of(data, run, values))
        here, near = (_grouped(layout, each[run.begin : run.end]) for each in (u, z))
        if is_location_scale(run.family):
            old_a, old_b = (each[:, :, None] for each in parameters_of(data, run, before))
            found.append(standardised(near, old_a, old_b, a, b))
        else:
            found.append(noncentred(run.family, here, a, b, near))
    return jnp.concatenate(found).reshape(u.shape)


class LogDensity(NamedTuple):
    """A log density, its gradient in z, and what it was computed from."""

    density: Any  # [M, C] of tasks, [G, C] of populations
    gradient: Any
    likelihood: Any  # [M, C]
    likelihood_gradient: Any  # [D, M, C] its gradient in u
    start: Any  # [S, M, C] what plans nearby start from


def log_density_of_tasks(
    layout: StaticLayout, data: Data, values: Any, task_z: Any, seen: Any, again: bool
) -> LogDensity:
    """log p(choices, z | population) of each task.

    `seen`: log-likelihood, its gradient in u and what plans start from; of this very z (`again`), or of one nearby.
    Where choices are impossible or z is too far out, densities are −inf and gradients arbitrary.
    """
    (u, density), back = jax.vjp(lambda z: tasks_at(layout, data, values, z), task_z)
    likelihood, likelihood_gradient, start = seen if again else choices(layout, data, u, seen[2])
    (gradient,) = back((likelihood_gradient, jnp.ones_like(density)))
    return LogDensity(_number(density + likelihood), gradient, likelihood, likelihood_gradient, start)


def log_density_of_populations(
    layout: StaticLayout, data: Data, hyper_z: Any, task_z: Any, seen: Any, again: bool
) -> LogDensity:
    """log p(choices, z) of each population with its tasks, which keep their z."""

    def prior(z: Any) -> tuple[Any, Any]:
        _, values, density = populations_at(layout, data, z)
        u, of_tasks = tasks_at(layout, data, values, task_z)
        return u, density + _grouped(layout, of_tasks[None])[0].sum(axis=1)

    (u, density), back = jax.vjp(prior, hyper_z)
    likelihood, likelihood_gradient, start = seen if again else choices(layout, data, u, seen[2])
    (gradient,) = back((likelihood_gradient, jnp.ones_like(density)))
    total = density + _grouped(layout, likelihood[None])[0].sum(axis=1)
    return LogDensity(_number(total), gradient, likelihood, likelihood_gradient, start)


class Summary(NamedTuple):
    """Sufficient statistics of a population's tasks for the parameters of a run (`families.summary`)."""

    where: Any  # [n, G, C]; sums of log shares where rewards are shares
    spread: Any  # [n, G, C]
    base: Any  # [n, G or 1, C or 1] the location that deviations are from


def summaries_of(layout: StaticLayout, data: Data, values: Any, u: Any, task_z: Any) -> tuple[Summary, ...]:
    """One for each run, of tasks at u and z given hyperparameters [H, G, C]."""
    found = []
    for run in layout.runs:
        a, b = parameters_of(data, run, values)
        here, z = _grouped(layout, _shares(layout, run, u)), _grouped(layout, task_z[run.begin : run.end])
        if _is_shares(layout, run):
            total = here.sum(axis=2)
            found.append(Summary(total, jnp.zeros_like(total), a))
        else:
            found.append(Summary(*summary(run.family, here, z, b), a))
    return tuple(found)


def log_density_given_tasks(
    layout: StaticLayout, data: Data, hyper_z: Any, summaries: tuple[Summary, ...]
) -> tuple[Any, Any]:
    """log p(z | tasks' u) [G, C] of populations up to a constant, and its gradient [H, G, C]; no plan is needed.

    Of Dirichlet rewards x the density is that of the shares x / Σ x, with Σ x integrated out.
    """

    def density_at(z: Any) -> Any:
        _, values, density = populations_at(layout, data, z)
        for run, (where, spread, base) in zip(layout.runs, summaries):
            a, b = parameters_of(data, run, values)
            if _is_shares(layout, run):
                a = jnp.broadcast_to(a, where.shape)
                one = lax.lgamma(a.sum(axis=0)) - lax.lgamma(a).sum(axis=0)
                density = density + layout.group_size * one + (a * where).sum(axis=0)
            elif run.sources != (CONSTANT, CONSTANT):
                one = layout.group_size * log_normaliser(run.family, a, b)
                own = group_kernel(run.family, layout.group_size, where, spread, base, a, b)
                density = density + (one + own).sum(axis=0)
        return density

    density, back = jax.vjp(density_at, hyper_z)
    (gradient,) = back(jnp.ones_like(density))
    return _number(density), gradient


def with_totals(layout: StaticLayout, data: Data, values: Any, u: Any, key: Any) -> Any:
    """u with the totals Σ x of Dirichlet rewards drawn given the population: Gamma(Σ α, 1)."""
    if layout.link != NORMALISED:
        return u
    run = layout.runs[0]
    a, _ = parameters_of(data, run, values)
    concentration = a.sum(axis=0)[:, None]  # [G or 1, 1, C or 1]
    shape = (layout.num_groups, layout.group_size, u.shape[2])
    drawn = log_gamma_draws(key, jnp.broadcast_to(concentration, shape)).reshape(u.shape[1:])
    return jnp.concatenate([_shares(layout, run, u) + drawn[None], u[run.end :]])


# ---- shapes ---------------------------------------------------------------------------------------------------


def _grouped(layout: StaticLayout, array: Any) -> Any:
    """[n, G, M / G, C] of [n, M, C]."""
    return array.reshape(array.shape[0], layout.num_groups, layout.group_size, array.shape[2])


def _is_shares(layout: StaticLayout, run: Run) -> bool:
    return layout.link == NORMALISED and run.end <= layout.num_rewards


def _shares(layout: StaticLayout, run: Run, u: Any) -> Any:
    """A run's coordinates; log shares, where that is what they stand for."""
    part = u[run.begin : run.end]
    return jax.nn.log_softmax(part, axis=0) if _is_shares(layout, run) else part


def _all(conditions: list[Any]) -> Any:
    found = conditions[0]
    for each in conditions[1:]:
        found = found & each
    return found


def _number(density: Any) -> Any:
    """−inf for what is no number."""
    return jnp.where(density < jnp.inf, density, -jnp.inf)
