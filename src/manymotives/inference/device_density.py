"""MRP's posterior and its gradient for many chains at once, in JAX: `latent.py` on an accelerator.

Arrays have the chain last: z of populations [H, G, C], of tasks [D, M, C], policies [S, A, M, C]. Neighbouring threads
then read neighbouring numbers, and a matrix of 8 × 8 for each of M · C tasks is inverted by eight passes over all of
them, where a library's solver would take each apart from the others.

What is a number to the compiler (which coordinate has which family, how many tasks a population has) stands in
`Layout`; all else in `Data`. Formulas are those of `families.py`; derivatives in z are JAX's, those of choices in u are
written out (`models/gradient.py`), with one product by the inverse that the plan has left.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from manymotives.families import BEND, BETA, GAMMA, HALF_NORMAL, NORMAL
from manymotives.models import Target
from manymotives.models.target import COLDEST, CONSTANT, FIXED
from manymotives.planning.problem import allowed_actions, rounding
from manymotives.rewards import NORMALISED

LIMIT = 200  # policy iterations; begun from a neighbour's plan they are two or three
UNROLLED = 16  # sums of at most so many terms are written out, so that they melt into what surrounds them
NEWTON = 14  # steps of `latent`; six are usual


class Run(NamedTuple):
    """Neighbouring coordinates of one family, whose parameters are neighbouring hyperparameters or constants."""

    begin: int
    end: int
    family: int
    sources: tuple[int, int]  # the first hyperparameter of each parameter, or CONSTANT


class Layout(NamedTuple):
    """What the compiler has to know."""

    runs: tuple[Run, ...]  # of tasks' coordinates
    hyper_runs: tuple[Run, ...]
    num_groups: int
    group_size: int
    num_rewards: int
    link: int
    places: tuple[int, ...]
    has_features: bool
    temperature: int
    lapse: int
    has_lapse: bool
    is_soft: bool
    on_pairs: bool
    num_states: int
    num_actions: int

    @property
    def num_tasks(self) -> int:
        return self.num_groups * self.group_size

    @property
    def num_coordinates(self) -> int:
        return self.runs[-1].end

    @property
    def num_hyper(self) -> int:
        return self.hyper_runs[-1].end if self.hyper_runs else 0


class Data(NamedTuple):
    """What it has not."""

    transitions: Any  # [S, A, S] times the discount
    allowed: Any  # [S, A]
    counts: Any  # [S, A, M]
    temperature: Any  # [M] where it is known
    lapse: Any  # [M]
    features: Any  # [S · (1 or A), K], or empty
    constants: Any  # [D, 2]
    hyper_constants: Any  # [H, 2]


def layout_of(target: Target) -> Layout:
    anatomy = target.anatomy
    return Layout(
        runs=_runs(anatomy.families, anatomy.source, anatomy.num_rewards),
        hyper_runs=_runs(anatomy.hyper_families, np.full((target.num_hyper, 2), CONSTANT), 0),
        num_groups=target.num_groups,
        group_size=anatomy.group_size,
        num_rewards=anatomy.num_rewards,
        link=anatomy.link,
        places=tuple(int(place) for place in anatomy.places),
        has_features=anatomy.features.size > 0,
        temperature=anatomy.temperature,
        lapse=anatomy.lapse,
        has_lapse=anatomy.lapse != FIXED or bool((target.fixed_lapse > 0).any()),
        is_soft=bool(anatomy.is_soft),
        on_pairs=bool(anatomy.on_pairs),
        num_states=target.environment.num_states,
        num_actions=target.environment.num_actions,
    )


def _runs(families: Any, source: Any, cut: int) -> tuple[Run, ...]:
    """As long as can be; one ends where rewards do."""
    found: list[Run] = []
    for d, family in enumerate(families):
        if found and d != cut and found[-1].family == family:
            begin, _, _, first = found[-1]
            follows = tuple(CONSTANT if j == CONSTANT else j + d - begin for j in first)
            if follows == tuple(source[d]):
                found[-1] = found[-1]._replace(end=d + 1)
                continue
        found.append(Run(d, d + 1, int(family), (int(source[d][0]), int(source[d][1]))))
    return tuple(found)


def data_of(target: Target) -> Data:
    """As NumPy arrays."""
    environment, anatomy = target.environment, target.anatomy
    return Data(
        environment.discount * environment.tensor,
        allowed_actions(environment),
        np.ascontiguousarray(target.counts.transpose(1, 2, 0)),
        np.array(target.fixed_temperature, dtype=float),
        np.array(target.fixed_lapse, dtype=float),
        np.array(anatomy.features, dtype=float),
        np.array(anatomy.constants, dtype=float),
        np.array(anatomy.hyper_constants, dtype=float),
    )


# ---- families: a and b broadcast against z and u ------------------------------------------------------------


def softplus(x: Any) -> Any:
    return jnp.maximum(x, 0.0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


def natural(family: int, u: Any) -> Any:
    if family == NORMAL:
        return u
    return jax.nn.sigmoid(u) if family == BETA else jnp.exp(u)


def statistics(family: int, u: Any) -> tuple[Any, Any]:
    if family == GAMMA:
        return u, jnp.exp(u)
    if family == BETA:
        return -softplus(-u), -softplus(u)
    if family == HALF_NORMAL:
        return u, jnp.exp(2.0 * u)
    return u, u * u


def log_normaliser(family: int, a: Any, b: Any) -> Any:
    if family == GAMMA:
        return a * jnp.log(b) - lax.lgamma(a)
    if family == BETA:
        return lax.lgamma(a + b) - lax.lgamma(a) - lax.lgamma(b)
    if family == HALF_NORMAL:
        return 0.5 * np.log(2.0 / np.pi) - jnp.log(a)
    return -0.5 * np.log(2.0 * np.pi) - jnp.log(b) - 0.5 * (a / b) ** 2


def log_kernel(family: int, first: Any, second: Any, a: Any, b: Any) -> Any:
    if family == GAMMA:
        return a * first - b * second
    if family == BETA:
        return a * first + b * second
    if family == HALF_NORMAL:
        return first - 0.5 * second / (a * a)
    return (a * first - 0.5 * second) / (b * b)


def placed(family: int, z: Any, a: Any, b: Any) -> tuple[Any, Any]:
    """u = T(z; a, b) and dT/dz."""
    if family == GAMMA:
        spread = 1.0 / jnp.sqrt(a + 0.6)
        u = jnp.log(a + 0.5) - jnp.log(b) + spread * z - softplus(-BEND * z) / a
        return u, spread + BEND * jax.nn.sigmoid(-BEND * z) / a
    if family == BETA:
        spread = jnp.sqrt(1.0 / (a + 0.6) + 1.0 / (b + 0.6))
        lean = jax.nn.sigmoid(-BEND * z)
        u = jnp.log(a + 0.5) - jnp.log(b + 0.5) + spread * z - softplus(-BEND * z) / a + softplus(BEND * z) / b
        return u, spread + BEND * lean / a + BEND * (1.0 - lean) / b
    if family == HALF_NORMAL:
        return jnp.log(a) + z, jnp.ones_like(z + a)
    return a + b * z, b + jnp.zeros_like(z)


def latent(family: int, u: Any, a: Any, b: Any, guess: Any) -> Any:
    """z with T(z; a, b) = u: Newton's steps, kept between two ends that close in.

    T lies within log 2 / a below and log 2 / b above two straight lines that meet at 0: hence the first two ends.
    """
    if family == HALF_NORMAL:
        return u - jnp.log(a)
    if family not in (GAMMA, BETA):
        return (u - a) / b
    if family == GAMMA:
        spread, right, above = 1.0 / jnp.sqrt(a + 0.6), 0.0, 0.0
        rest = u - jnp.log(a + 0.5) + jnp.log(b)
    else:
        spread, right, above = jnp.sqrt(1.0 / (a + 0.6) + 1.0 / (b + 0.6)), BEND / b, np.log(2.0) / b
        rest = u - jnp.log(a + 0.5) + jnp.log(b + 0.5)
    left = BEND / a

    def on_lines(y: Any) -> Any:
        return jnp.where(y > 0.0, y / (spread + right), y / (spread + left))

    low, high = on_lines(rest - above), on_lines(rest + np.log(2.0) / a)
    z = jnp.clip(guess, low, high)
    for _ in range(NEWTON):
        there, slope = placed(family, z, a, b)
        low, high = jnp.where(there < u, z, low), jnp.where(there < u, high, z)
        new = z + (u - there) / slope
        # what rounding throws past an end that is right to the last digits is there already
        z = jnp.where((new >= low) & (new <= high), new, 0.5 * (low + high))
    return z


# ---- densities ------------------------------------------------------------------------------------------------


def populations_at(layout: Layout, data: Data, hyper_z: Any) -> tuple[Any, Any, Any]:
    """h and the hyperparameters themselves [H, G, C], and log p of their z [G, C]."""
    coordinates, values, density, exists = [], [], [], []
    for run in layout.hyper_runs:
        z = hyper_z[run.begin : run.end]
        a, b = (data.hyper_constants[run.begin : run.end, column][:, None, None] for column in range(2))
        h, slope = placed(run.family, z, a, b)
        first, second = statistics(run.family, h)
        x = natural(run.family, h)
        kernel = log_kernel(run.family, first, second, a, b)
        density.append((jnp.log(slope) + kernel + log_normaliser(run.family, a, b)).sum(axis=0))
        exists.append((jnp.isfinite(x) & ((x > 0.0) | (run.family == NORMAL))).all(axis=0))
        coordinates.append(h)
        values.append(x)
    if not layout.hyper_runs:
        return hyper_z, hyper_z, jnp.zeros(hyper_z.shape[1:], hyper_z.dtype)
    total = jnp.where(_all(exists), sum(density), -jnp.inf)
    return jnp.concatenate(coordinates), jnp.concatenate(values), total


def parameters_of(data: Data, run: Run, values: Any) -> tuple[Any, Any]:
    """a and b [n, G or 1, C or 1] of a run, given hyperparameters [H, G, C]."""
    found = []
    for column, j in enumerate(run.sources):
        if j == CONSTANT:
            found.append(data.constants[run.begin : run.end, column][:, None, None])
        else:
            found.append(values[j : j + run.end - run.begin])
    return found[0], found[1]


def tasks_at(layout: Layout, data: Data, values: Any, task_z: Any) -> tuple[Any, Any]:
    """u [D, M, C], and log p(z | population) [M, C]."""
    coordinates, density, normaliser = [], [], []
    for run in layout.runs:
        z = _grouped(layout, task_z[run.begin : run.end])
        a, b = parameters_of(data, run, values)
        normaliser.append(log_normaliser(run.family, a, b).sum(axis=0))  # once for all tasks
        a, b = a[:, :, None], b[:, :, None]
        u, slope = placed(run.family, z, a, b)
        first, second = statistics(run.family, u)
        density.append((jnp.log(slope) + log_kernel(run.family, first, second, a, b)).sum(axis=0))
        coordinates.append(u)
    total = sum(density) + sum(normaliser)[:, None]
    size, (_, num_tasks, chains) = layout.num_coordinates, task_z.shape
    return jnp.concatenate(coordinates).reshape(size, num_tasks, chains), total.reshape(num_tasks, chains)


def latent_of(layout: Layout, data: Data, values: Any, u: Any, guess: Any) -> Any:
    """z [D, M, C] of tasks at u, given hyperparameters [H, G, C]."""
    found = []
    for run in layout.runs:
        a, b = parameters_of(data, run, values)
        here, near = (_grouped(layout, each[run.begin : run.end]) for each in (u, guess))
        found.append(latent(run.family, here, a[:, :, None], b[:, :, None], near))
    return jnp.concatenate(found).reshape(u.shape)


class Judged(NamedTuple):
    """A density, its gradient in z, and what was found on the way."""

    density: Any  # [M, C] of tasks, [G, C] of populations
    slope: Any
    likelihood: Any  # [M, C]
    lift: Any  # [D, M, C] its gradient in u
    actions: Any  # [S, M, C]


def judge_tasks(layout: Layout, data: Data, values: Any, task_z: Any, seen: Any, again: bool) -> Judged:
    """log p(choices, z | population) of each task. `seen`: log-likelihood, lift and actions, of here (`again`) or near.

    Where choices are impossible or z has run away, densities are −inf and slopes whatever they are.
    """
    (u, density), back = jax.vjp(lambda z: tasks_at(layout, data, values, z), task_z)
    likelihood, lift, actions = seen if again else choices(layout, data, u, seen[2])
    (slope,) = back((lift, jnp.ones_like(density)))
    return Judged(_number(density + likelihood), slope, likelihood, lift, actions)


def judge_populations(layout: Layout, data: Data, hyper_z: Any, task_z: Any, seen: Any, again: bool) -> Judged:
    """log p(choices, z) of each population with its tasks, which keep their z."""

    def prior(z: Any) -> tuple[Any, Any]:
        _, values, density = populations_at(layout, data, z)
        u, of_tasks = tasks_at(layout, data, values, task_z)
        return u, density + _grouped(layout, of_tasks[None])[0].sum(axis=1)

    (u, density), back = jax.vjp(prior, hyper_z)
    likelihood, lift, actions = seen if again else choices(layout, data, u, seen[2])
    (slope,) = back((lift, jnp.ones_like(density)))
    total = density + _grouped(layout, likelihood[None])[0].sum(axis=1)
    return Judged(_number(total), slope, likelihood, lift, actions)


def sums_of(layout: Layout, u: Any) -> tuple[Any, Any]:
    """[D, G, C] twice: sums of the statistics of a population's tasks; of log shares where rewards are shares."""
    firsts, seconds = [], []
    for run in layout.runs:
        first, second = statistics(run.family, _grouped(layout, _shares(layout, run, u)))
        firsts.append(first.sum(axis=2))
        seconds.append(second.sum(axis=2))
    return jnp.concatenate(firsts), jnp.concatenate(seconds)


def judge_given_tasks(layout: Layout, data: Data, hyper_z: Any, sums: tuple[Any, Any]) -> tuple[Any, Any]:
    """log p(z | tasks' u) [G, C] of populations up to a constant, and its gradient [H, G, C]; no plan is needed.

    Dirichlet rewards are looked at as shares, with the sums they are shares of integrated out.
    """

    def density_at(z: Any) -> Any:
        _, values, density = populations_at(layout, data, z)
        for run in layout.runs:
            a, b = parameters_of(data, run, values)
            first, second = (each[run.begin : run.end] for each in sums)
            if _is_shares(layout, run):
                a = jnp.broadcast_to(a, first.shape)
                one = lax.lgamma(a.sum(axis=0)) - lax.lgamma(a).sum(axis=0)
                density = density + layout.group_size * one + (a * first).sum(axis=0)
            elif run.sources != (CONSTANT, CONSTANT):
                one = layout.group_size * log_normaliser(run.family, a, b)
                density = density + (one + log_kernel(run.family, first, second, a, b)).sum(axis=0)
        return density

    density, back = jax.vjp(density_at, hyper_z)
    (slope,) = back(jnp.ones_like(density))
    return _number(density), slope


def with_totals(layout: Layout, data: Data, values: Any, u: Any, key: Any) -> Any:
    """u with the sums that shares are shares of drawn anew given the population: Gamma(Σ α, 1)."""
    if layout.link != NORMALISED:
        return u
    run = layout.runs[0]
    a, _ = parameters_of(data, run, values)
    concentration = a.sum(axis=0)[:, None]  # [G or 1, 1, C or 1]
    shape = (layout.num_groups, layout.group_size, u.shape[2])
    drawn = log_gamma_draws(key, jnp.broadcast_to(concentration, shape)).reshape(u.shape[1:])
    return jnp.concatenate([_shares(layout, run, u) + drawn[None], u[run.end :]])


def log_gamma_draws(key: Any, shape: Any) -> Any:
    """log x, x ~ Gamma(shape, 1): Marsaglia and Tsang (2000), ten tries at once; all fail once in 10¹³ draws.

    Small shapes as `families.log_gamma_draw` has them.
    """
    tries = 10
    normal_key, uniform_key, power_key = jax.random.split(key, 3)
    small = shape < 1.0
    d = jnp.where(small, shape + 1.0, shape) - 1.0 / 3.0
    x = jax.random.normal(normal_key, (tries, *shape.shape), shape.dtype)
    log_uniform = jnp.log1p(-jax.random.uniform(uniform_key, x.shape, shape.dtype))
    root = 1.0 + x / jnp.sqrt(9.0 * d)[None]
    log_v = 3.0 * jnp.log(jnp.where(root > 0.0, root, 1.0))
    fits = log_uniform < 0.5 * x * x + d[None] * (1.0 - jnp.exp(log_v) + log_v)
    good = (root > 0.0) & fits
    found = log_v[-1]
    for k in range(tries - 2, -1, -1):
        found = jnp.where(good[k], log_v[k], found)
    power = jnp.log1p(-jax.random.uniform(power_key, shape.shape, shape.dtype)) / shape
    return jnp.log(d) + found + jnp.where(small, power, 0.0)


# ---- choices ------------------------------------------------------------------------------------------------


def choices(layout: Layout, data: Data, u: Any, actions: Any) -> tuple[Any, Any, Any]:
    """Log-likelihoods [M, C], their gradients in u [D, M, C], and best actions [S, M, C]; begun from actions nearby."""
    shape = u.shape[1:]
    rewards, into_u = jax.vjp(lambda x: _rewards(layout, data, x), u[: layout.num_rewards])
    temperature = jnp.broadcast_to(data.temperature[:, None], shape)
    if layout.temperature != FIXED:
        temperature = jnp.exp(jnp.maximum(u[layout.temperature], COLDEST))
    plan = _plan(layout, data, rewards, temperature, actions)
    exists, q = data.allowed[:, :, None, None], plan.q
    below = jnp.where(exists, q - q.max(axis=1, keepdims=True), 0.0)
    above = temperature[None, None] * below
    weights = jnp.where(exists, jnp.exp(above), 0.0)
    weight = weights.sum(axis=1, keepdims=True)
    share = weights / weight
    counts = data.counts[..., None]
    lift_lapse = []
    if layout.has_lapse:
        lapse = jnp.broadcast_to(data.lapse[:, None], shape)
        if layout.lapse != FIXED:
            lapse = jax.nn.sigmoid(u[layout.lapse])
        rate = lapse[None, None]
        blind = (1.0 / data.allowed.sum(axis=1))[:, None, None, None]
        probability = (1.0 - rate) * share + rate * blind
        careful = rate > 0.0
        log_probability = jnp.where(careful, jnp.log(probability), above - jnp.log(weight))
        likelihood = jnp.where(counts > 0.0, counts * log_probability, 0.0).sum(axis=(0, 1))
        safe = jnp.where(probability > 0.0, probability, 1.0)
        meant = counts * jnp.where(careful, (1.0 - rate) * share / safe, 1.0)
        if layout.lapse != FIXED:
            by_lapse = (counts * (blind - share) / safe).sum(axis=(0, 1))
            lift_lapse = [(by_lapse * lapse * (1.0 - lapse))[None]]
    else:
        likelihood = (counts * (above - jnp.log(weight))).sum(axis=(0, 1))
        meant = jnp.broadcast_to(counts, q.shape)
    off = jnp.where(exists, meant - share * meant.sum(axis=1, keepdims=True), 0.0)
    pull = temperature[None, None] * off
    arrived = _arrivals(data.transitions, pull)
    worth = _sum(lambda t: plan.inverse[t] * arrived[t][None], layout.num_states)
    pull = pull + worth[:, None] * plan.policy
    lift = [into_u(pull if layout.on_pairs else pull.sum(axis=1, keepdims=True))[0]]
    if layout.temperature != FIXED:
        by_temperature = (off * below).sum(axis=(0, 1))
        if layout.is_soft:
            expected = (plan.policy * jnp.where(exists, q, 0.0)).sum(axis=1)
            by_temperature = by_temperature + (worth * (expected - plan.value)).sum(axis=0) / temperature
        warm = u[layout.temperature] > COLDEST
        lift.append(jnp.where(warm, by_temperature * temperature, 0.0)[None])
    found = jnp.where(plan.solved & (likelihood < jnp.inf), likelihood, -jnp.inf)
    return found, jnp.concatenate(lift + lift_lapse), plan.actions


class Plan(NamedTuple):
    q: Any  # [S, A, M, C]; −inf where an action does not exist
    value: Any  # [S, M, C]
    policy: Any  # [S, A, M, C] that the values belong to
    inverse: Any  # [S, S, M, C] of I − γ P_π
    actions: Any  # [S, M, C]
    solved: Any  # [M, C]


def _plan(layout: Layout, data: Data, rewards: Any, temperature: Any, actions: Any) -> Plan:
    """Policy iteration for all tasks of all chains, until none improves; Newton's steps where plans are soft."""
    exists = data.allowed[:, :, None, None]
    epsilon = float(np.finfo(rewards.dtype).eps)
    largest = jnp.abs(rewards).max(axis=(0, 1))
    c = temperature[None, None]

    def evaluate(policy: Any) -> tuple[Any, Any, Any]:
        inverse = _inverse(data.transitions, policy)
        gain = (policy * rewards).sum(axis=1)
        if layout.is_soft:
            gain = gain - jax.scipy.special.xlogy(policy, policy).sum(axis=1) / temperature[None]
        value = _sum(lambda t: inverse[:, t] * gain[t][None], layout.num_states)
        return inverse, value, jnp.where(exists, rewards + _departures(data.transitions, value), -jnp.inf)

    def policy_of(actions: Any) -> Any:
        return jax.nn.one_hot(actions, layout.num_actions, axis=1, dtype=rewards.dtype)

    def slack_of(value: Any) -> Any:
        return rounding(jnp.abs(value).max(axis=0) + largest, layout.num_states, epsilon)

    def step(loop: tuple[Any, ...]) -> tuple[Any, ...]:
        _, _, _, policy, actions, before, _, solves = loop
        inverse, value, q = evaluate(policy)
        slack, best = slack_of(value), q.max(axis=1)
        greedy = q.argmax(axis=1).astype(actions.dtype)
        if layout.is_soft:
            above = jnp.where(exists, c * (q - best[:, None]), -jnp.inf)
            weight = jnp.exp(above).sum(axis=1)
            residual = jnp.abs(best + jnp.log(weight) / temperature[None] - value).max(axis=0)
            again = (residual > slack) & ((solves < 20) | (residual < before / 2))
            new = jnp.exp(above) / weight[:, None]
            return inverse, value, q, new, greedy, residual, again, solves + 1
        taken = jnp.where(policy > 0, q, 0.0).sum(axis=1)
        better = best > taken + slack[None]  # ties keep the action taken
        actions = jnp.where(better, greedy, actions)
        return inverse, value, q, policy_of(actions), actions, before, better.any(axis=0), solves + 1

    def unsettled(loop: tuple[Any, ...]) -> Any:
        return loop[6].any() & (loop[7] < LIMIT)

    policy = policy_of(actions)
    if layout.is_soft:  # from the soft policy of the values of the actions that were best nearby
        first, gain = _inverse(data.transitions, policy), (policy * rewards).sum(axis=1)
        value = _sum(lambda t: first[:, t] * gain[t][None], layout.num_states)
        q = jnp.where(exists, rewards + _departures(data.transitions, value), -jnp.inf)
        policy = jax.nn.softmax(c * jnp.where(exists, q, -jnp.inf), axis=1)
    infinite = jnp.full(temperature.shape, jnp.inf, rewards.dtype)
    size = (layout.num_states, layout.num_states, *temperature.shape)
    empty = (jnp.zeros(size, rewards.dtype), jnp.zeros(size[1:], rewards.dtype), jnp.zeros_like(policy))
    begin = (*empty, policy, actions, infinite, infinite > 0, jnp.zeros((), jnp.int32))
    inverse, value, q, policy, actions, _, again, _ = lax.while_loop(unsettled, step, begin)
    if layout.is_soft:  # a residual that cannot be seen may hide an error of the policy as large as its root
        inverse = _inverse(data.transitions, policy)
    return Plan(q, value, policy, inverse, actions, ~again)


def _inverse(transitions: Any, policy: Any) -> Any:
    """(I − γ P_π)⁻¹ [S, S, M, C] by elimination in place; pivots of such a matrix need no looking for."""
    size, num_actions, _ = transitions.shape
    if num_actions <= UNROLLED:
        moves = sum(transitions[:, a, :, None, None] * policy[:, a][:, None] for a in range(num_actions))
    else:
        moves = jnp.einsum("samc,sat->stmc", policy, transitions)
    matrix = jnp.eye(size, dtype=policy.dtype)[:, :, None, None] - moves
    row = lax.broadcasted_iota(jnp.int32, (size, size, 1, 1), 0)
    column = lax.broadcasted_iota(jnp.int32, (size, size, 1, 1), 1)

    def eliminate(k: Any, matrix: Any, along: Any, across: Any) -> Any:
        head = lax.dynamic_index_in_dim(along, k, 1, keepdims=True)  # [1, 1, M, C]
        scaled = along / head
        inside = matrix - across * scaled
        here = jnp.where(row == k, scaled, jnp.where(column == k, -across / head, inside))
        return jnp.where((row == k) & (column == k), 1.0 / head, here)

    if size <= UNROLLED:
        for k in range(size):
            matrix = eliminate(k, matrix, matrix[k : k + 1], matrix[:, k : k + 1])
        return matrix

    def step(k: Any, matrix: Any) -> Any:
        along = lax.dynamic_slice_in_dim(matrix, k, 1, 0)
        return eliminate(k, matrix, along, lax.dynamic_slice_in_dim(matrix, k, 1, 1))

    return lax.fori_loop(0, size, step, matrix)


def _departures(transitions: Any, value: Any) -> Any:
    """Σ_t γ P(t|s, a) v(t) [S, A, M, C]."""
    size = transitions.shape[0]
    if size <= UNROLLED:
        return sum(transitions[:, :, t, None, None] * value[t][None, None] for t in range(size))
    return jnp.einsum("sat,tmc->samc", transitions, value)


def _arrivals(transitions: Any, pull: Any) -> Any:
    """Σ_{s,a} γ P(t|s, a) pull(s, a) [S, M, C]."""
    return jnp.einsum("sat,samc->tmc", transitions, pull)


def _sum(term: Any, count: int) -> Any:
    """Σ_t term(t)."""
    if count <= UNROLLED:
        return sum(term(t) for t in range(1, count)) + term(0)
    first = term(jnp.array(0))
    return lax.fori_loop(1, count, lambda t, total: total + term(t), first)


def _rewards(layout: Layout, data: Data, u: Any) -> Any:
    """[S, 1 or A, M, C] from the first coordinates [K, M, C]."""
    if layout.link == NORMALISED:
        x = jax.nn.softmax(u, axis=0)
    else:
        parts = [natural(r.family, u[r.begin : r.end]) for r in layout.runs if r.end <= layout.num_rewards]
        x = jnp.concatenate(parts)
    per_state = layout.num_actions if layout.on_pairs else 1
    size = layout.num_states * per_state
    if layout.has_features:
        table = jnp.einsum("ik,kmc->imc", data.features, x)
    elif layout.places == tuple(range(size)):
        table = x
    else:
        table = jnp.zeros((size, *u.shape[1:]), u.dtype).at[np.array(layout.places)].set(x)
    return table.reshape(layout.num_states, per_state, *u.shape[1:])


# ---- shapes ---------------------------------------------------------------------------------------------------


def _grouped(layout: Layout, array: Any) -> Any:
    """[n, G, M / G, C] of [n, M, C]."""
    return array.reshape(array.shape[0], layout.num_groups, layout.group_size, array.shape[2])


def _is_shares(layout: Layout, run: Run) -> bool:
    return layout.link == NORMALISED and run.end <= layout.num_rewards


def _shares(layout: Layout, run: Run, u: Any) -> Any:
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
