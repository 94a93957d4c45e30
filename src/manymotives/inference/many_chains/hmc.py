"""Hamiltonian chains by the hundred, all at once, in JAX: `HMC(device="gpu")`.

A sweep of every chain, in non-centred coordinates z, without a step of Python and with the same number of operations in
each chain:

    prior proposals   some coordinates of each task from a standard normal, which is nearly their prior; the acceptance
                      probability corrects the difference
    tasks             a trajectory of each task given its population
    populations       a trajectory of each population given its tasks' z (non-centred)
    centred           trajectories of each population given its tasks' u, which need no plans
    totals            Σ x of Dirichlet rewards, drawn given the population
    collapsed         concentrations, with negligible rewards integrated out, and swap moves; then z for the u

All chains share their tuning: step sizes are adapted to the acceptance rate over all chains, mass matrices to the
covariance over all chains. They start at few points, each of which is the start of a whole superchain: whether
superchains have forgotten their starts can then be seen however short the chains (Margossian et al. 2022;
`diagnostics.nested_rhat`).
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
from manymotives.inference.many_chains.choices import action_values
from manymotives.inference.many_chains.density import log_density_of_tasks, populations_at, tasks_at
from manymotives.inference.many_chains.layout import Data, StaticLayout, data_of, static_layout_of
from manymotives.inference.many_chains.sweeps import CENTRED_TRAJECTORIES, Schedule, State, Tuning, sweep
from manymotives.inference.mcmc.adaptation import MOST_POPULATION_STEPS, TRAJECTORY_ACCEPTANCE, population_steps
from manymotives.inference.mcmc.chains import STARTS, Settings, starting_point
from manymotives.inference.mcmc.density import noncentred_draws
from manymotives.inference.progress import Progress
from manymotives.models import Target
from manymotives.models.episodes import LARGEST

MOST_STEPS = 6  # of tasks' trajectories, and of populations' given their tasks' u
SUPERCHAINS = 16
ADAPTATIONS = 12  # of mass matrices, during warm-up
SETTLED = 0.85  # share of warm-up after which only step sizes are adapted
BLOCK = 25  # draws between two looks at the clock …
BLOCK_BYTES = 2**30  # … unless they take more than this
FEW_STARTS = 4  # draws of the prior that a superchain begins from in a large environment, where each is a dear plan
MOST_BYTES = 16 * 2**30  # of one inverse for each task of each chain; of transitions, where the environment is large


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
                    raise KeyboardInterrupt("interrupted during warm-up: there are no draws yet.") from None
                warnings = (f"interrupted after {block * len(kept)} of {wanted} draws per chain.",)
        tasks, hyper, likelihood = (np.concatenate([each[i] for each in kept], axis=1)[:, :wanted] for i in range(3))
        by_episode = chain.episode_log_likelihoods(target, tasks) if chain.layout.is_large else None
    accepted, prior_accepted = (np.mean([each[i] for each in kept], axis=0) for i in (3, 4))
    return Draws(
        tasks=tasks,
        hyper=hyper,
        log_likelihood=likelihood,
        statistics={
            "acceptance_rate": (("chain", "task"), accepted),
            "prior_acceptance_rate": (("chain", "task"), prior_accepted),
        },
        warnings=warnings,
        episode_log_likelihood=by_episode,
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


def check_size(layout: StaticLayout, data: Data, chains: int) -> None:
    """Refuse what plans of all chains at once cannot hold."""
    each = data.transitions.successors.shape[1] if layout.is_large else layout.num_states
    size = 8 * layout.num_states * (each + layout.num_actions) * layout.num_tasks * chains
    if size > MOST_BYTES:
        raise InputError(
            f"HMC: {chains} chains of {layout.num_tasks} tasks with {layout.num_states} states need "
            f"{size / 2**30:.0f} GiB for their plans alone. Use at most {chains * MOST_BYTES // size} chains, or "
            "device=None."
        )


class Chains:
    """All chains: their state and tuning. To be used inside `on`."""

    def __init__(self, target: Target, chains: int, seed: int) -> None:
        self.layout, data = static_layout_of(target), data_of(target)
        check_size(self.layout, data, chains)
        self.data = jax.tree.map(jnp.asarray, data)
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
        """Each superchain starts at a point of its own; few chains are superchains of one."""
        starts = superchains(chains)
        draws = FEW_STARTS if self.layout.is_large else STARTS
        points = [starting_point(target, self.rng, draws) for _ in range(starts[-1] + 1)]
        hyper, tasks = np.stack([point[0] for point in points]), np.stack([point[1] for point in points])
        hyper_z, task_z = noncentred_draws(target.layout, hyper, tasks)
        found = target.planned(tasks, np.tile(np.arange(target.num_tasks), (len(tasks), 1)))
        begin = found.value if self.layout.is_large else np.asarray(found.actions, dtype=np.int32)
        hyper_z, task_z, begin = (
            jnp.asarray(np.moveaxis(each[starts], 0, -1).swapaxes(0, 1)) for each in (hyper_z, task_z, begin)
        )
        return _evaluated_state(self.layout, self.data, hyper_z, task_z, begin)

    def warm_up(self, sweeps: int, learning: bool) -> None:
        """So many sweeps, in which step sizes are adapted, and mass matrices after them."""
        self.key, key = jax.random.split(self.key)
        begin = jnp.asarray(self.sweeps, jnp.float64)
        self.state, self.tuning = _warm_up(
            self.layout,
            self.data,
            self.state,
            self.tuning,
            key,
            self._schedule(sweeps, True),
            begin,
            jnp.asarray(learning),
        )
        self.sweeps += sweeps

    def draw(self, count: int, thin: int) -> tuple[np.ndarray, ...]:
        """u [C, N, M, D], h [C, N, G, H], log-likelihoods [C, N, M]; acceptance rates [C, M]: HMC, prior proposals."""
        self.key, key = jax.random.split(self.key)
        schedule = jax.tree.map(
            lambda each: each.reshape(count, thin, *each.shape[1:]), self._schedule(count * thin, False)
        )
        self.state, made = _draw(self.layout, self.data, self.state, self.tuning, key, schedule)
        return tuple(map(np.asarray, made))

    def episode_log_likelihoods(self, target: Target, tasks: np.ndarray) -> np.ndarray | None:
        """log p of each episode [C, N, E] under draws u [C, N, M, D], where there are not too many."""
        chains, draws = tasks.shape[:2]
        episodes = target.episodes
        if episodes is None or chains * draws * episodes.num_episodes > LARGEST:
            return None
        found = np.empty((chains, draws, episodes.num_episodes))
        for n in range(draws):
            u = jnp.asarray(tasks[:, n].transpose(2, 1, 0))
            q = _values_in(self.layout, self.data, u, self.state.start, episodes.state, episodes.task)
            found[:, n] = target.episode_log_likelihoods(tasks[:, n], np.asarray(q))
        return found

    def _schedule(self, sweeps: int, is_warm_up: bool) -> Schedule:
        """The number of leapfrog steps of each sweep's trajectories, drawn once for all chains.

        Where step sizes are small, trajectories get nowhere and are cut short; not in warm-up, which would learn less.
        """
        of_tasks, of_populations = MOST_STEPS, MOST_POPULATION_STEPS
        if not is_warm_up:
            of_tasks = int(np.clip(round(8.0 * float(np.median(self.tuning.task_step_size))), 2, MOST_STEPS))
            of_populations = population_steps(np.asarray(self.tuning.hyper_step_size)) if self.layout.num_hyper else 1
        schedule = Schedule(
            self.rng.integers(1, of_tasks + 1, size=sweeps),
            self.rng.integers(1, of_populations + 1, size=sweeps),
            self.rng.integers(1, MOST_STEPS + 1, size=(sweeps, CENTRED_TRAJECTORIES)),
            np.full(sweeps, 2 if is_warm_up else 1),
        )
        return jax.tree.map(lambda each: jnp.asarray(each, jnp.int32), schedule)


def superchains(chains: int) -> np.ndarray:
    """[C] which superchain each chain belongs to: neighbours share one, as `diagnostics.nested_rhat` reads them."""
    count = min(SUPERCHAINS, chains)
    return np.concatenate([np.full(len(part), k) for k, part in enumerate(np.array_split(np.arange(chains), count))])


# ---- what is compiled -------------------------------------------------------------------------------------------


@partial(jax.jit, static_argnums=0)
def _evaluated_state(layout: StaticLayout, data: Data, hyper_z: Any, task_z: Any, start: Any) -> State:
    _, values, _ = populations_at(layout, data, hyper_z)
    found = log_density_of_tasks(layout, data, values, task_z, (None, None, start), again=False)
    return State(hyper_z, task_z, found.likelihood, found.likelihood_gradient, found.start)


@partial(jax.jit, static_argnums=0)
def _values_in(layout: StaticLayout, data: Data, u: Any, start: Any, states: Any, tasks: Any) -> Any:
    """q [C, V, A] of tasks in states."""
    return action_values(layout, data, u, start)[states, :, tasks].transpose(2, 0, 1)


@partial(jax.jit, static_argnums=0)
def _warm_up(
    layout: StaticLayout,
    data: Data,
    state: State,
    tuning: Tuning,
    key: Any,
    schedule: Schedule,
    begin: Any,
    learning: Any,
) -> tuple[State, Tuning]:
    """Sweeps in which step sizes adapt; then mass matrices from the covariance of the second half."""
    count, chains = len(schedule.tasks), state.task_z.shape[2]

    def one(carry: tuple[Any, ...], given: tuple[Any, Schedule, Any]) -> tuple[Any, None]:
        state, tuning, of_tasks, of_populations = carry
        key, schedule, t = given
        state, acceptance = sweep(layout, data, tuning, state, key, schedule)
        gain = (begin + t + 1.0) ** -0.5

        def adapted(step_size: Any, chances: Any) -> Any:
            return step_size * jnp.exp(gain * (chances.mean(axis=1) - TRAJECTORY_ACCEPTANCE))

        tuning = tuning._replace(
            task_step_size=adapted(tuning.task_step_size, acceptance.task_trajectories),
            hyper_step_size=adapted(tuning.hyper_step_size, acceptance.hyper_trajectories),
            centred_step_size=adapted(tuning.centred_step_size, acceptance.centred_trajectories),
        )
        later = t >= count // 2
        of_tasks = _added(of_tasks, state.task_z, later)
        return (state, tuning, of_tasks, _added(of_populations, state.hyper_z, later)), None

    def nothing(z: Any) -> tuple[Any, Any]:
        size, each, _ = z.shape
        return jnp.zeros((size, each), z.dtype), jnp.zeros((size, size, each), z.dtype)

    first = (state, tuning, nothing(state.task_z), nothing(state.hyper_z))
    each = (jax.random.split(key, count), schedule, jnp.arange(count, dtype=begin.dtype))
    (state, tuning, of_tasks, of_populations), _ = lax.scan(one, first, each)
    seen = count - count // 2
    task_mass_factor, task_stretch = _adapted_mass_factor(tuning.task_mass_factor, of_tasks, seen, chains)
    hyper_mass_factor, hyper_stretch = _adapted_mass_factor(tuning.hyper_mass_factor, of_populations, seen, chains)
    learnt = Tuning(
        task_mass_factor,
        tuning.task_step_size * task_stretch,
        hyper_mass_factor,
        tuning.hyper_step_size * hyper_stretch,
        tuning.centred_step_size * hyper_stretch,
    )
    return state, jax.tree.map(lambda new, old: jnp.where(learning, new, old), learnt, tuning)


def _added(moments: tuple[Any, Any], z: Any, counts: Any) -> tuple[Any, Any]:
    """Sums of z [n, K] and of its products [n, n, K], with those of all chains added."""
    first, second = moments
    products = jnp.einsum("ikc,jkc->ijk", z, z)
    return first + jnp.where(counts, z.sum(axis=2), 0.0), second + jnp.where(counts, products, 0.0)


def _adapted_mass_factor(mass_factor: Any, moments: tuple[Any, Any], sweeps: int, chains: int) -> tuple[Any, Any]:
    """Cholesky factors of covariances, shrunk as in `mcmc.adaptation`; what step sizes are to be multiplied by."""
    size = mass_factor.shape[0]
    if size == 0:
        return mass_factor, 1.0
    first, second = (each / (sweeps * chains) for each in moments)
    covariance = jnp.moveaxis(second - first[:, None] * first[None], 2, 0)
    variance = jnp.einsum("kii->ki", covariance)
    trust = chains * sweeps / 4 / (chains * sweeps / 4 + 5.0 * size)  # successive sweeps are alike
    floor = 1e-6 + 1e-3 * variance.mean(axis=1, keepdims=True)
    diagonal = (1.0 - trust) * variance + floor
    covariance = trust * covariance + diagonal[:, :, None] * jnp.eye(size)[None]
    new = jnp.moveaxis(jnp.linalg.cholesky(covariance), 0, 2)

    def length(mass_factor: Any) -> Any:
        return jnp.exp(jnp.log(jnp.einsum("iik->ik", mass_factor)).mean(axis=0))

    return new, length(mass_factor) / length(new)


@partial(jax.jit, static_argnums=0)
def _draw(
    layout: StaticLayout, data: Data, state: State, tuning: Tuning, key: Any, schedule: Schedule
) -> tuple[State, Any]:
    """Every thin-th sweep: u [C, N, M, D], h [C, N, G, H], log-likelihoods [C, N, M]; rates [C, M]."""
    count, thin = schedule.tasks.shape

    def sweeps(carry: tuple[Any, ...], given: tuple[Any, Schedule]) -> tuple[Any, None]:
        state, accepted, prior_accepted = carry
        state, acceptance = sweep(layout, data, tuning, state, *given)
        return (state, accepted + acceptance.task_trajectories, prior_accepted + acceptance.prior_proposals), None

    def one(carry: tuple[Any, ...], given: tuple[Any, Schedule]) -> tuple[Any, Any]:
        key, schedule = given
        carry, _ = lax.scan(sweeps, carry, (jax.random.split(key, thin), schedule))
        state = carry[0]
        h, values, _ = populations_at(layout, data, state.hyper_z)
        return carry, (tasks_at(layout, data, values, state.task_z)[0], h, state.likelihood)

    nothing = jnp.zeros_like(state.likelihood)
    (state, accepted, prior_accepted), made = lax.scan(
        one, (state, nothing, nothing), (jax.random.split(key, count), schedule)
    )
    tasks, hyper, likelihood = made  # turned round here: a device takes no time for it
    turned = (tasks.transpose(3, 0, 2, 1), hyper.transpose(3, 0, 2, 1), likelihood.transpose(2, 0, 1))
    return state, (*turned, accepted.T / (count * thin), prior_accepted.T / (count * thin))
