"""Samplers of the multitask reward–policy model: against the authors' algorithm, and how their cost grows."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from typing import Any
from unittest import mock

import numpy as np

import manymotives as mm
from benchmarks.harness import Row, first_call, peak_memory, seconds, side_by_side
from benchmarks.literal import plain_chain, run_literal, tuned_chain
from manymotives.inference import Progress, RunState, sample
from manymotives.models import Target
from manymotives.planning import warm_start as warm

STATES, ACTIONS, TASKS, STEPS, DISCOUNT = 8, 4, 20, 50, 0.95
MOVES = 2  # of each task in a sweep: a random walk and a prior proposal (interweaving is extra)
QUIET = Progress(False)
MEMORY = 4.0  # GiB


def rows() -> Iterator[Row]:
    yield from against_the_authors()
    yield from steps_do_not_matter()
    yield from growth_in_tasks()
    yield from not_knowing_the_environment()
    yield patient_agents()


def against_the_authors() -> Iterator[Row]:
    """Task updates a second; the authors' hyperparameters are fixed, ours are moved in every sweep as well."""
    environment, demonstrations = _problem(TASKS, STEPS)
    data = demonstrations.state.reshape(TASKS, STEPS), demonstrations.action.reshape(TASKS, STEPS)
    prior = (np.ones(STATES), 4.0, 1.0)
    target = mm.RewardPolicyModel().bind(environment, demonstrations)
    peers = (("plain loops", plain_chain), ("the same tuned by hand", tuned_chain(STATES, ACTIONS)))
    sweeps = 2_000
    for method in (mm.Metropolis, mm.Gibbs):
        compile_seconds = first_call(lambda: _warm(method, target))  # noqa: B023
        settings = method(chains=2, draws=200, warmup=0, thin=10)
        ours = partial(settings.advance, _warm(method, target), settings.draws, QUIET)
        updates = settings.chains * settings.draws * settings.thin * TASKS * MOVES
        for name, chain in peers:
            theirs = partial(run_literal, chain, environment.tensor, DISCOUNT, data, prior)
            theirs(1)
            mine, other, ratio = side_by_side(ours, partial(theirs, sweeps))
            ratio *= updates / (2 * sweeps * TASKS)  # from times to updates a second
            is_bar = name == peers[0][0]
            yield Row(
                name=f"{method.__name__}, S={STATES} A={ACTIONS} M={TASKS} T={STEPS}; authors' algorithm, {name}",
                ours=updates / mine,
                peer=2 * sweeps * TASKS / other,
                ratio=ratio,
                unit="task updates/s",
                bar="≥ 5 ×" if is_bar else "",
                passed=ratio >= 5 or not is_bar,
                compile_seconds=compile_seconds if is_bar else None,
            )


def not_knowing_the_environment() -> Iterator[Row]:
    """A whole fit by default, until it has mixed, where transitions are a belief; peer: where they are known."""
    environment, demonstrations = _problem(TASKS, STEPS)
    for name, world in (
        ("near-deterministic", environment),
        ("dense", mm.worlds.DirichletMDP(STATES, ACTIONS, seed=0, discount=DISCOUNT)),
    ):
        if world is not environment:
            rewards = np.random.default_rng(0).dirichlet(np.ones(STATES), size=TASKS)
            demonstrations = mm.simulate(world, rewards, mm.Softmax(8.0), steps=STEPS, seed=0)
        prior = mm.DynamicsBelief(np.zeros((STATES, ACTIONS, STATES)), discount=DISCOUNT, possible=world.tensor > 0)
        ours, peer = (_fits(place, demonstrations) for place in (prior.after(demonstrations), world))
        compile_seconds = first_call(ours)
        mine, theirs, ratio = side_by_side(ours, peer, rounds=3)
        yield Row(
            name=f"fit under a belief, S={STATES} A={ACTIONS} M={TASKS}, {name}; peer: known environment",
            ours=mine,
            peer=theirs,
            ratio=1 / ratio,
            unit="s",
            bar="≤ 3 × the time",
            passed=1 / ratio <= 3,
            compile_seconds=compile_seconds,
            note="until R-hat ≤ 1.01 and 400 effective draws, of transitions too",
        )


def _fits(place: mm.Environment | mm.DynamicsBelief, demonstrations: mm.Demonstrations) -> Callable[[], object]:
    """A fit, with another seed each time it is called: how many rounds it takes to mix depends on the seed."""
    seeds = count()
    return lambda: mm.fit(mm.RewardPolicyModel(), place, demonstrations, seed=next(seeds), progress=False)


def steps_do_not_matter() -> Iterator[Row]:
    """A draw from a million steps a task against a draw from ten."""
    for method in (mm.Metropolis, mm.Gibbs):
        works = []
        for steps in (1_000_000, 10):
            target = mm.RewardPolicyModel().bind(*_problem(TASKS, steps))
            settings = method(chains=2, draws=100, warmup=0, thin=10)
            works.append(partial(settings.advance, _warm(method, target), settings.draws, QUIET))
        many, few, ratio = side_by_side(works[0], works[1])
        yield Row(
            name=f"{method.__name__}, a draw (10 sweeps) from T = 10⁶ steps a task; peer: from T = 10",
            ours=many / 200 * 1e6,
            peer=few / 200 * 1e6,
            ratio=1 / ratio,
            unit="µs a draw",
            bar="≤ 1.25 × the time",
            passed=1 / ratio <= 1.25,
            note="ten steps leave most states unvisited, and those cost nothing",
        )


def growth_in_tasks() -> Iterator[Row]:
    """A draw of 10, 100 and 1 000 tasks, and the memory of a whole fit with a thousand."""
    found = {}
    for tasks in (10, 100, 1_000):
        environment, demonstrations = _problem(tasks, STEPS)
        target = mm.RewardPolicyModel().bind(environment, demonstrations)
        settings = mm.Gibbs(chains=2, draws=max(2, 4_000 // tasks), warmup=0, thin=1)
        work = partial(settings.advance, _warm(mm.Gibbs, target), settings.draws, QUIET)
        found[tasks] = min(seconds(work, 0.5) for _ in range(5)) / (settings.chains * settings.draws * tasks) * 1e6
    for tasks, cost in found.items():
        ratio = cost / found[100]
        memory = _memory_of_a_fit(tasks) if tasks == 1_000 else None
        yield Row(
            name=f"Gibbs, a sweep of one of {tasks} tasks; peer: of one of 100",
            ours=cost,
            peer=found[100],
            ratio=ratio,
            unit="µs",
            bar="" if tasks == 10 else "≤ 1.25 × the time",
            passed=tasks == 10 or (ratio <= 1.25 and (memory is None or memory < MEMORY)),
            note="" if memory is None else f"a whole fit, 4 × 500 draws, takes {memory:.1f} GiB at most",
        )


def patient_agents() -> Row:
    """Rust's bus engines: 90 states, two weights, soft-optimal choice at discount .9999; peer: without kept factors."""
    size = 90
    transitions, features = np.zeros((size, 2, size)), np.zeros((size, 2, 2))
    for s in range(size):
        for more, probability in enumerate((0.094, 0.447, 0.446, 0.013)):
            transitions[s, 0, min(s + more, size - 1)] += probability
            transitions[s, 1, more] += probability
    features[:, 0, 0], features[:, 1, 1] = -0.001 * np.arange(size), -1.0
    environment = mm.Environment(transitions, discount=0.9999)
    rewards = np.tile(features @ [2.4569, 11.7257], (50, 1, 1))
    demonstrations = mm.simulate(environment, rewards, mm.SoftOptimal(1.0), steps=120, seed=0, on="state_action")
    reward = mm.GaussianReward(features=features, on="state_action")
    target = mm.RewardPolicyModel(reward, mm.SoftOptimal(1.0), mm.Pooled()).bind(environment, demonstrations)
    found = []
    for draws, factored in ((500, warm.FACTORED), (20, size + 1)):  # the second: from more states on than there are
        with mock.patch.object(warm, "FACTORED", factored):
            _warm(mm.HMC, target)
            settings = mm.HMC(chains=4, draws=draws, warmup=draws)
            begin = time.process_time()
            sample(settings, target, seed=0)
            found.append((time.process_time() - begin) / (2 * draws))
    ratio = found[1] / found[0]
    return Row(
        name="HMC, soft-optimal, S=90, γ = .9999, everybody pooled; peer: eliminations from nothing for each plan",
        ours=found[0] * 1e3,
        peer=found[1] * 1e3,
        ratio=ratio,
        unit="CPU ms for 4 draws",
        bar="≥ 10 ×",
        passed=ratio >= 10,
        note=f"4 × 500 draws after as many of warm-up: {found[0] * 1000:.0f} CPU s",
    )


def _memory_of_a_fit(tasks: int) -> float:
    """GiB at the peak of a fit in a process of its own."""
    code = f"from benchmarks.sampling import fit_of; fit_of({tasks})"
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return float(out.split()[-1])


def fit_of(tasks: int) -> None:
    environment, demonstrations = _problem(tasks, STEPS)
    mm.fit(mm.RewardPolicyModel(), environment, demonstrations, mm.Gibbs(chains=4, draws=500, warmup=200, thin=1))
    print(peak_memory())


def _problem(tasks: int, steps: int) -> tuple[mm.Environment, mm.Demonstrations]:
    environment = mm.worlds.RandomMDP(states=STATES, actions=ACTIONS, discount=DISCOUNT, seed=1)
    rewards = np.random.default_rng(0).dirichlet(np.ones(STATES), size=tasks)
    return environment, mm.simulate(environment, rewards, mm.Softmax(8.0), steps=steps, seed=0)


def _warm(method: Any, target: Target) -> RunState:
    """Two chains after their warm-up."""
    settings = method(chains=2, draws=1, warmup=300, thin=1)
    return settings.advance(settings.init(target, 0), 1, QUIET)[0]
