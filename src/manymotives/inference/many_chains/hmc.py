"""Hamiltonian chains by the hundred, all at once, in JAX: `HMC(device="gpu")`.

A sweep of every chain, in coordinates z (`latent`), without a step of Python and with the same number of operations in
each chain:

    refresh     some coordinates of each task anew from a standard normal, which is nearly their prior; what it is not,
                the acceptance puts right
    tasks       a path of each task given its population
    carry       a path of each population, whose tasks keep their z and so are carried along
    population  paths of each population given its tasks' u, which need no plans
    totals      the sums that Dirichlet rewards are shares of, drawn anew
    faint       concentrations, each with the rewards that are too faint to be seen; two rewards of a task change
                places (`device_faint`); then z for the u

Chains share what they learn in warm-up: steps are adapted to what all of them accept, shapes to where all of them are.
They begin at few places, each of which is the start of a whole superchain: whether superchains have forgotten their
starts is then plain to see, however short the chains (Margossian et al. 2022; `diagnostics.nested_rhat`).
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from manymotives.errors import InputError
from manymotives.inference.draws import Draws
from manymotives.inference.many_chains.density import judge_tasks, populations_at, tasks_at
from manymotives.inference.many_chains.layout import Data, Layout, data_of, layout_of
from manymotives.inference.many_chains.sweeps import GIVEN_PATHS, Pace, State, Tuning, sweep
from manymotives.inference.mcmc.chains import MOST_TOGETHER, PATH_TARGET, Settings, starting_point, steps_together
from manymotives.inference.mcmc.density import latent_draws
from manymotives.inference.progress import Progress
from manymotives.models import Target
from manymotives.planning import plan

MOST_STEPS = 6  # of tasks' paths, and of populations' given their tasks
SUPERCHAINS = 16
ADAPTATIONS = 12  # of shapes, during warm-up
SETTLED = 0.85  # share of warm-up after which only steps are tuned
BLOCK = 25  # draws between two looks at the clock …
BLOCK_BYTES = 2**30  # … unless they take more than this
MOST_STATES, MOST_BYTES = 128, 16 * 2**30  # of environments, and of one inverse for each task of each chain


def run_on_device(target: Target, settings: Settings, device: Any, seed: int, progress: Progress) -> Draws:
    """Draws of many chains, all at once on one device."""
    chains, wanted, warmup, thin = settings.chains, settings.draws, settings.warmup, settings.thin
    per_draw = 8 * chains * target.num_tasks * target.num_coordinates
    blocks = max(-(-wanted // BLOCK), -(-wanted * per_draw // BLOCK_BYTES))
    block = -(-wanted // blocks)  # all of one length, which is compiled once; what is too much is dropped
    rounds = min(ADAPTATIONS, max(1, warmup * thin // 4)) if warmup else 0
    sweeps = -(-warmup * thin // rounds) if rounds else 0
    warnings: tuple[str, ...] = ()
    kept: list[tuple[np.ndarray, ...]] = []
    with on(device):
        chain = Chains(target, chains, seed)
        with progress.of(chains * (warmup + wanted), "draws") as report:
            try:
                for k in range(rounds):
                    chain.warm_up(sweeps, learning=(k + 1) / rounds <= SETTLED)
                    report.update(chains * warmup * (k + 1) // rounds, "warming up")
                for k in range(blocks):
                    kept.append(chain.draw(block, thin))
                    note = f"accepted {kept[-1][3].mean():.0%}"
                    report.update(chains * (warmup + min(wanted, block * (k + 1))), note)
            except KeyboardInterrupt:
                if not kept:
                    raise KeyboardInterrupt("stopped during warm-up: there are no draws yet.") from None
                warnings = (f"stopped by hand after {block * len(kept)} of {wanted} draws a chain.",)
    tasks, hyper, likelihood = (np.concatenate([each[i] for each in kept], axis=1)[:, :wanted] for i in range(3))
    accepted, refreshed = (np.mean([each[i] for each in kept], axis=0) for i in (3, 4))
    return Draws(
        tasks=tasks,
        hyper=hyper,
        log_likelihood=likelihood,
        statistics={
            "acceptance_rate": (("chain", "task"), accepted),
            "refresh_rate": (("chain", "task"), refreshed),
        },
        warnings=warnings,
    )


@contextmanager
def on(device: Any) -> Iterator[None]:
    """In float64 and on this device, and as before afterwards."""
    home: Any = jax if hasattr(jax, "enable_x64") else importlib.import_module("jax.experimental")
    with home.enable_x64(True), jax.default_device(found_device(device)):
        yield


def found_device(device: Any) -> Any:
    """A device of JAX by its name, or itself."""
    if isinstance(device, jax.Device):
        return device
    if not isinstance(device, str):
        raise InputError(f'HMC: device must be None, "cpu", "gpu" or a device of JAX; found {device!r}.')
    try:
        return jax.devices(device)[0]
    except RuntimeError:
        kinds = ", ".join(sorted({repr(each.platform) for each in jax.devices()}))
        raise InputError(f"HMC: JAX finds no device {device!r} here. It finds {kinds}.") from None


def check_size(target: Target, chains: int) -> None:
    """Refuse what dense plans of all chains at once cannot hold."""
    states = target.environment.num_states
    if states > MOST_STATES:
        raise InputError(
            f"HMC: chains on a device plan with dense transitions, for at most {MOST_STATES} states; this environment "
            f"has {states}. Use device=None."
        )
    size = 8 * states * (states + target.environment.num_actions) * target.num_tasks * chains
    if size > MOST_BYTES:
        raise InputError(
            f"HMC: {chains} chains of {target.num_tasks} tasks with {states} states need {size / 2**30:.0f} GiB for "
            f"their plans alone. Use at most {chains * MOST_BYTES // size} chains, or device=None."
        )


class Chains:
    """All chains: where they are, how they move. To be used inside `on`."""

    def __init__(self, target: Target, chains: int, seed: int) -> None:
        check_size(target, chains)
        self.layout = layout_of(target)
        self.data = jax.tree.map(jnp.asarray, data_of(target))
        stream = np.random.SeedSequence(seed, spawn_key=(1,))
        self.rng = np.random.default_rng(stream)
        # JAX's usual generator takes longer to compile, and on a GPU longer than the sweep it is for
        self.key = jax.random.key(int(stream.generate_state(1)[0]), impl="rbg")
        self.sweeps = 0
        self.state = self._begin(target, chains)
        size, num_hyper = target.num_coordinates, target.num_hyper
        self.tuning = Tuning(
            jnp.asarray(np.repeat(np.eye(size)[:, :, None], target.num_tasks, axis=2)),
            jnp.full(target.num_tasks, 0.1, jnp.float64),
            jnp.asarray(np.repeat(np.eye(num_hyper)[:, :, None], target.num_groups, axis=2)),
            jnp.full(target.num_groups, 0.1, jnp.float64),
            jnp.full(target.num_groups, 0.1, jnp.float64),
        )

    def _begin(self, target: Target, chains: int) -> State:
        """Superchains begin each at a point of its own; few chains are superchains of one."""
        starts = superchains(chains)
        points = [starting_point(target, self.rng) for _ in range(starts[-1] + 1)]
        hyper, tasks = np.stack([point[0] for point in points]), np.stack([point[1] for point in points])
        hyper_z, task_z = latent_draws(target.anatomy, hyper, tasks)
        temperature = target.felt_temperatures(tasks, np.tile(np.arange(target.num_tasks), (len(tasks), 1)))
        soft = temperature if target.anatomy.is_soft else None
        found = plan(target.environment, target.rewards(tasks), on=target.on, inverse_temperature=soft)
        hyper_z, task_z, actions = (
            jnp.asarray(np.moveaxis(each[starts], 0, -1).swapaxes(0, 1))
            for each in (hyper_z, task_z, np.asarray(found.actions, dtype=np.int32))
        )
        return _judged_state(self.layout, self.data, hyper_z, task_z, actions)

    def warm_up(self, sweeps: int, learning: bool) -> None:
        """So many sweeps, in which steps adapt, and shapes afterwards."""
        self.key, key = jax.random.split(self.key)
        begin = jnp.asarray(self.sweeps, jnp.float64)
        self.state, self.tuning = _warm_up(
            self.layout, self.data, self.state, self.tuning, key, self._pace(sweeps, True), begin, jnp.asarray(learning)
        )
        self.sweeps += sweeps

    def draw(self, count: int, thin: int) -> tuple[np.ndarray, ...]:
        """u [C, N, M, D], h [C, N, G, H], log-likelihoods [C, N, M]; how often paths and refreshments [C, M] led on."""
        self.key, key = jax.random.split(self.key)
        pace = jax.tree.map(lambda each: each.reshape(count, thin, *each.shape[1:]), self._pace(count * thin, False))
        self.state, made = _draw(self.layout, self.data, self.state, self.tuning, key, pace)
        return tuple(map(np.asarray, made))

    def _pace(self, sweeps: int, is_warm_up: bool) -> Pace:
        """Of each sweep: how many steps paths have is drawn, once for all chains.

        Where steps are short, paths lead nowhere and are cut short, but not in warm-up, which would learn less.
        """
        alone, together = MOST_STEPS, MOST_TOGETHER
        if not is_warm_up:
            alone = int(np.clip(round(8.0 * float(np.median(self.tuning.task_step))), 2, MOST_STEPS))
            together = steps_together(np.asarray(self.tuning.hyper_step)) if self.layout.num_hyper else 1
        pace = Pace(
            self.rng.integers(1, alone + 1, size=sweeps),
            self.rng.integers(1, together + 1, size=sweeps),
            self.rng.integers(1, MOST_STEPS + 1, size=(sweeps, GIVEN_PATHS)),
            np.full(sweeps, 2 if is_warm_up else 1),
        )
        return jax.tree.map(lambda each: jnp.asarray(each, jnp.int32), pace)


def superchains(chains: int) -> np.ndarray:
    """[C] which superchain each chain belongs to: neighbours share one, as `diagnostics.nested_rhat` reads them."""
    count = min(SUPERCHAINS, chains)
    return np.concatenate([np.full(len(part), k) for k, part in enumerate(np.array_split(np.arange(chains), count))])


# ---- what is compiled -------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=0)
def _judged_state(layout: Layout, data: Data, hyper_z: Any, task_z: Any, actions: Any) -> State:
    _, values, _ = populations_at(layout, data, hyper_z)
    found = judge_tasks(layout, data, values, task_z, (None, None, actions), again=False)
    return State(hyper_z, task_z, found.likelihood, found.lift, found.actions)


@partial(jax.jit, static_argnums=0)
def _warm_up(
    layout: Layout, data: Data, state: State, tuning: Tuning, key: Any, pace: Pace, begin: Any, learning: Any
) -> tuple[State, Tuning]:
    """Sweeps in which steps adapt; then frames of the shape of all that was seen."""
    count, chains = len(pace.tasks), state.task_z.shape[2]

    def one(carry: tuple[Any, ...], given: tuple[Any, Pace, Any]) -> tuple[Any, None]:
        state, tuning, of_tasks, of_populations = carry
        key, pace, t = given
        state, tally = sweep(layout, data, tuning, state, key, pace)
        gain = (begin + t + 1.0) ** -0.5

        def adapted(step: Any, chances: Any) -> Any:
            return step * jnp.exp(gain * (chances.mean(axis=1) - PATH_TARGET))

        tuning = tuning._replace(
            task_step=adapted(tuning.task_step, tally.tasks),
            hyper_step=adapted(tuning.hyper_step, tally.carries),
            given_step=adapted(tuning.given_step, tally.given),
        )
        later = t >= count // 2  # shapes are of the second half
        of_tasks = _counted(of_tasks, state.task_z, later)
        return (state, tuning, of_tasks, _counted(of_populations, state.hyper_z, later)), None

    def nothing(z: Any) -> tuple[Any, Any]:
        size, each, _ = z.shape
        return jnp.zeros((size, each), z.dtype), jnp.zeros((size, size, each), z.dtype)

    first = (state, tuning, nothing(state.task_z), nothing(state.hyper_z))
    each = (jax.random.split(key, count), pace, jnp.arange(count, dtype=begin.dtype))
    (state, tuning, of_tasks, of_populations), _ = lax.scan(one, first, each)
    seen = count - count // 2
    task_frame, task_stretch = _reshaped(tuning.task_frame, of_tasks, seen, chains)
    hyper_frame, hyper_stretch = _reshaped(tuning.hyper_frame, of_populations, seen, chains)
    learnt = Tuning(
        task_frame,
        tuning.task_step * task_stretch,
        hyper_frame,
        tuning.hyper_step * hyper_stretch,
        tuning.given_step * hyper_stretch,
    )
    return state, jax.tree.map(lambda new, old: jnp.where(learning, new, old), learnt, tuning)


def _counted(moments: tuple[Any, Any], z: Any, counts: Any) -> tuple[Any, Any]:
    """Sums of z [n, K] and of its products [n, n, K] with those of all chains added."""
    first, second = moments
    products = jnp.einsum("ikc,jkc->ijk", z, z)
    return first + jnp.where(counts, z.sum(axis=2), 0.0), second + jnp.where(counts, products, 0.0)


def _reshaped(frame: Any, moments: tuple[Any, Any], sweeps: int, chains: int) -> tuple[Any, Any]:
    """Frames of the shape of what was seen, shrunk as `chains._shape`; what steps change by to be as long as before."""
    size = frame.shape[0]
    if size == 0:
        return frame, 1.0
    first, second = (each / (sweeps * chains) for each in moments)
    covariance = jnp.moveaxis(second - first[:, None] * first[None], 2, 0)
    variance = jnp.einsum("kii->ki", covariance)
    trust = chains * sweeps / 4 / (chains * sweeps / 4 + 5.0 * size)  # successive sweeps are alike
    floor = 1e-6 + 1e-3 * variance.mean(axis=1, keepdims=True)
    diagonal = (1.0 - trust) * variance + floor
    covariance = trust * covariance + diagonal[:, :, None] * jnp.eye(size)[None]
    new = jnp.moveaxis(jnp.linalg.cholesky(covariance), 0, 2)

    def length(frame: Any) -> Any:
        return jnp.exp(jnp.log(jnp.einsum("iik->ik", frame)).mean(axis=0))

    return new, length(frame) / length(new)


@partial(jax.jit, static_argnums=0)
def _draw(layout: Layout, data: Data, state: State, tuning: Tuning, key: Any, pace: Pace) -> tuple[State, Any]:
    """Every thin-th sweep: u [C, N, M, D], h [C, N, G, H], log-likelihoods [C, N, M]; rates [C, M]."""
    count, thin = pace.tasks.shape

    def sweeps(carry: tuple[Any, ...], given: tuple[Any, Pace]) -> tuple[Any, None]:
        state, accepted, refreshed = carry
        state, tally = sweep(layout, data, tuning, state, *given)
        return (state, accepted + tally.tasks, refreshed + tally.refreshments), None

    def one(carry: tuple[Any, ...], given: tuple[Any, Pace]) -> tuple[Any, Any]:
        key, pace = given
        carry, _ = lax.scan(sweeps, carry, (jax.random.split(key, thin), pace))
        state = carry[0]
        h, values, _ = populations_at(layout, data, state.hyper_z)
        return carry, (tasks_at(layout, data, values, state.task_z)[0], h, state.likelihood)

    nothing = jnp.zeros_like(state.likelihood)
    (state, accepted, refreshed), made = lax.scan(one, (state, nothing, nothing), (jax.random.split(key, count), pace))
    tasks, hyper, likelihood = made  # turned round here: a device takes no time for it
    turned = (tasks.transpose(3, 0, 2, 1), hyper.transpose(3, 0, 2, 1), likelihood.transpose(2, 0, 1))
    return state, (*turned, accepted.T / (count * thin), refreshed.T / (count * thin))
