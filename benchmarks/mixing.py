"""How well the default sampler mixes, and how long that takes: `make mixing` (an hour), or some of its parts:

    python -m benchmarks.mixing compile near-.1 near-10 dense-.1 dense-10 many long grids agreement stock

Every fit is of a problem that was never tuned on, and counts as converged only if R-hat ≤ 1.01,
bulk ESS ≥ 400 and tail ESS ≥ 300 for *every* reward, concentration, temperature and hyperparameter.
Figures are printed, and written to benchmarks/latest-mixing.json, which holds the parts of the last run.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from arviz_stats import ess, rhat

import manymotives as mm
from benchmarks.harness import Record, machine, peak_memory
from manymotives.inference import Progress, suited
from manymotives.inference.many_chains.hmc import on
from manymotives.posterior.labelling.reward_policy import watched_reward_policy

RHAT, BULK, TAIL = 1.01, 400, 300
FRESH = (401, 402, 403)  # problems that nothing was tuned on; others again once these have been looked at too often


def problem(
    rate: float, seed: int, tasks: int = 20, steps: int = 50, states: int = 8, dense: bool = False
) -> tuple[mm.RewardPolicyModel, mm.Environment, mm.Demonstrations]:
    """A random MDP and `tasks` rewards from a population with concentrations ~ Gamma(1, rate), softmax with c = 8."""
    world = mm.worlds.DirichletMDP if dense else mm.worlds.RandomMDP
    environment = world(states, 4, seed=seed, discount=0.95)
    model = mm.RewardPolicyModel(mm.DirichletReward(concentration=mm.Gamma(shape=1.0, rate=rate)), mm.Softmax())
    rng = np.random.default_rng(seed)
    # log-scale draws, as concentrations may be tiny
    concentration = rng.gamma(1.0, 1.0 / rate, size=states)
    logs = np.log(rng.gamma(concentration + 1.0, size=(tasks, states))) + np.log(
        rng.random((tasks, states))
    ) / np.maximum(concentration, 1e-12)
    rewards = np.exp(logs - logs.max(axis=1, keepdims=True))
    rewards /= rewards.sum(axis=1, keepdims=True)
    demonstrations = mm.simulate(environment, rewards, mm.Softmax(inverse_temperature=8.0), steps=steps, seed=seed)
    return model, environment, demonstrations


def worst(watched: xr.Dataset) -> tuple[float, float, float]:
    """R-hat, bulk and tail ESS: the worst over everything."""
    with np.errstate(invalid="ignore"):
        return (
            max(float(values.max()) for values in rhat(watched).data_vars.values()),
            min(float(values.min()) for values in ess(watched, method="bulk").data_vars.values()),
            min(float(values.min()) for values in ess(watched, method="tail").data_vars.values()),
        )


def fitted(
    name: str,
    made: tuple[Any, Any, Any],
    method: mm.HMC,
    seed: int,
    record: Record | None = None,
    limit: float | None = None,
) -> tuple[xr.Dataset, float, float]:
    """Run until converged, in rounds of `method.draws`; print a line, add a row. Returns draws, seconds, bulk ESS."""
    model, environment, demonstrations = made
    target = model.bind(environment, demonstrations)
    sized = suited(method, target)
    begin = time.perf_counter()
    state, draws = sized.advance(sized.init(target, seed), sized.draws, Progress(False))
    spent, rounds = time.perf_counter() - begin, 1
    figures = worst(watched_reward_policy(draws, model, target, demonstrations))
    while not good(figures) and rounds < sized.max_rounds:
        begin = time.perf_counter()
        assert state is not None
        state, more = sized.advance(state, sized.draws, Progress(False))
        draws = draws.followed_by(more)
        spent += time.perf_counter() - begin
        rounds += 1
        figures = worst(watched_reward_policy(draws, model, target, demonstrations))
    verdict = "converged" if good(figures) else "NOT converged"
    if limit is not None:
        verdict += f", bar {limit:g} s {'met' if good(figures) and spent <= limit else 'MISSED'}"
    print(
        f"{name}: {spent:.1f} s, R-hat {figures[0]:.4f}, bulk {figures[1]:.0f}, tail {figures[2]:.0f} "
        f"({rounds} × {method.chains} × {method.draws} draws): {verdict}",
        flush=True,
    )
    if record is not None:
        record.add(
            name=name,
            seconds=spent,
            rhat=figures[0],
            bulk=figures[1],
            tail=figures[2],
            rounds=rounds,
            chains=method.chains,
            draws=method.draws,
            converged=good(figures),
            limit=limit,
        )
    return watched_reward_policy(draws, model, target, demonstrations), spent, figures[1]


def good(figures: tuple[float, float, float]) -> bool:
    return figures[0] <= RHAT and figures[1] >= BULK and figures[2] >= TAIL


ROUND = mm.HMC(draws=150, warmup=250, max_rounds=130)


def compilation(record: Record) -> None:
    """How long the first fit of all takes, where nothing is compiled yet (else: how long reading it takes)."""
    begin = time.perf_counter()
    mm.fit(*problem(0.1, 99), mm.HMC(draws=5, warmup=20, max_rounds=1), seed=0, progress=False)
    spent = time.perf_counter() - begin
    print(f"the first fit, compiling what has to be: {spent:.1f} s", flush=True)
    record.add(name="the first fit, compiling what has to be", seconds=spent)


def the_problem(rate: float, limit: float, dense: bool, record: Record) -> None:
    """S=8, A=4, M=20, T=50, c=8, γ=.95: three problems, five seeds."""
    spent = []
    fitted("  (not counted)", problem(rate, 99, dense=dense), mm.HMC(draws=5, warmup=20, max_rounds=1), 0)
    for which in FRESH:
        for seed in range(5):
            name = f"rate {rate}, {'dense' if dense else 'nearly deterministic'}, problem {which}, seed {seed}"
            spent.append(fitted(name, problem(rate, which, dense=dense), ROUND, seed, record, limit)[1])
    print(f"  rate {rate}, dense {dense}: median {np.median(spent):.1f} s, slowest {max(spent):.1f} s", flush=True)


def many_tasks(record: Record) -> None:
    fitted("M = 100, rate .1", problem(0.1, 104, tasks=100), ROUND, 0, record, 90.0)
    fitted("M = 100, rate 10", problem(10.0, 104, tasks=100), ROUND, 0, record)
    fitted("M = 1000, rate .1", problem(0.1, 105, tasks=1000), mm.HMC(draws=400, warmup=300, max_rounds=12), 0, record)
    print(f"  peak memory {peak_memory():.2f} GiB", flush=True)
    record.add(name="peak memory", gibibytes=peak_memory())


def long_demonstrations(record: Record) -> None:
    for steps in (1_000, 20_000):
        for rate in (0.1, 10.0):
            fitted(f"T = {steps}, rate {rate}", problem(rate, 106, steps=steps), ROUND, 0, record)
    fitted(
        "S = 64, T = 50, rate .1", problem(0.1, 107, states=64), mm.HMC(draws=500, warmup=500, max_rounds=6), 0, record
    )


def one_grid(side: int) -> tuple[mm.RewardPolicyModel, mm.Environment, mm.Demonstrations]:
    """Fifty choices of one task, in states drawn at random; rewards N(0, 10²), temperature known."""
    environment = mm.worlds.GridWorld((side, side), slip=0.0, discount=0.9)
    rng = np.random.default_rng(side)
    reward = rng.normal(0.0, 10.0, size=side**2)
    policy = mm.Softmax(inverse_temperature=1.0).policies(environment, reward)
    states = rng.integers(side**2, size=50)
    actions = [rng.choice(4, p=policy[s]) for s in states]
    frame = pd.DataFrame(
        {
            "task": "one",
            "episode": np.arange(50),
            "step": 0,
            "state": [environment.states[s] for s in states],
            "action": [environment.actions[a] for a in actions],
        }
    )
    demonstrations = mm.Demonstrations.from_frame(frame, environment, episode="episode", step="step")
    model = mm.RewardPolicyModel(mm.GaussianReward(mean=0.0, scale=10.0), mm.Softmax(inverse_temperature=1.0))
    return model, environment, demonstrations


def grids(record: Record) -> None:
    """One task, Gaussian rewards on states, temperature known: seconds for each effective draw."""
    for side, bar in ((3, 0.02), (6, 0.07), (12, 0.3)):
        method = mm.HMC(draws=500, warmup=300, max_rounds=20)
        _, spent, bulk = fitted(f"grid of {side**2}", one_grid(side), method, 0, record)
        print(
            f"  {spent / bulk:.4f} s per effective draw, bar {bar}: {'met' if spent / bulk <= bar else 'MISSED'}",
            flush=True,
        )


def agreement(record: Record) -> None:
    """Posterior means by HMC, Gibbs and, where its weights allow, nested Monte Carlo; in standard errors."""
    for rate in (0.1, 10.0):
        made = problem(rate, 101)
        ours, _, _ = fitted(f"HMC, rate {rate}", made, mm.HMC(draws=2000, warmup=500, max_rounds=3), 1, record)
        theirs = mm.fit(*made, mm.Gibbs(draws=2000, warmup=1000, thin=60), seed=2, progress=False)
        compare(f"  HMC and Gibbs, rate {rate}", ours, theirs.data["posterior"].dataset, record)
    made = problem(0.1, 108, tasks=2, steps=10, states=4)
    ours, _, _ = fitted("HMC, two tasks, ten steps", made, mm.HMC(draws=2000, warmup=500, max_rounds=3), 1, record)
    runs = [mm.fit(*made, mm.NestedMonteCarlo(draws=4000, inner=200), seed=seed, progress=False) for seed in range(8)]
    pooled = xr.concat(
        [run.data["posterior"].dataset.isel(chain=0, drop=True) for run in runs], dim="chain"
    ).assign_coords(chain=np.arange(8))
    compare("  HMC and nested Monte Carlo, eight runs", ours, pooled, record)


def stock(record: Record) -> None:
    """Effective draws a second, ours and those of NumPyro's NUTS on the model as one would write it down; in turns."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    model, environment, demonstrations = problem(0.1, 101)
    counts = jnp.asarray(demonstrations.counts, dtype=float)
    tasks, states, _ = counts.shape

    def plain() -> None:
        concentration = numpyro.sample("concentration", dist.Gamma(1.0, 0.1).expand([states]).to_event(1))
        shape = numpyro.sample("shape", dist.Gamma(2.0, 0.5))
        rate = numpyro.sample("rate", dist.Gamma(4.0, 4.0))
        with numpyro.plate("tasks", tasks):
            reward = numpyro.sample("reward", dist.Dirichlet(concentration))
            temperature = numpyro.sample("temperature", dist.Gamma(shape, rate))
        q = mm.plan(environment, reward).q
        numpyro.factor("choices", (counts * jax.nn.log_softmax(temperature[:, None, None] * q)).sum())

    with on("cpu"):  # in float64
        sampler = MCMC(
            NUTS(plain), num_warmup=500, num_samples=500, num_chains=2, chain_method="vectorized", progress_bar=False
        )
        sampler.warmup(jax.random.key(0))  # compiled by now
        begin = time.perf_counter()
        sampler.run(jax.random.key(1))
        jax.block_until_ready(sampler.get_samples())
        theirs = time.perf_counter() - begin
        drawn = {name: np.asarray(values) for name, values in sampler.get_samples(group_by_chain=True).items()}
    watched = xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_{k}" for k in range(values.ndim - 2))), values)
            for name, values in drawn.items()
        }
    )
    bulk = worst(watched)[1]
    fitted(
        "compile, if it has to be", (model, environment, demonstrations), mm.HMC(draws=5, warmup=20, max_rounds=1), 0
    )
    _, spent, ours = fitted("HMC", (model, environment, demonstrations), ROUND, 0, record)
    ratio = (ours / spent) / (bulk / theirs)
    print(
        f"NumPyro's NUTS: {theirs:.1f} s, worst bulk ESS {bulk:.0f}: {bulk / theirs:.2f} a second; ours "
        f"{ours / spent:.0f}, {ratio:.0f} ×, bar 100 ×: {'met' if ratio >= 100 else 'MISSED'}",
        flush=True,
    )
    record.add(name="NumPyro's NUTS", seconds=theirs, bulk=bulk, effective_draws_per_second_ours_over_theirs=ratio)


def compare(name: str, ours: xr.Dataset, theirs: xr.Dataset, record: Record) -> None:
    largest, count = 0.0, 0
    for word in ours.data_vars:
        one, other = ours[word], theirs[word]
        variance = one.var(("chain", "draw")) / ess(one.to_dataset(name="x"), method="mean")["x"]
        if name.endswith("runs"):  # weighted draws were resampled: their spread between runs is their error
            variance = variance + other.mean("draw").var("chain", ddof=1) / other.sizes["chain"]
        else:
            variance = variance + other.var(("chain", "draw")) / ess(other.to_dataset(name="x"), method="mean")["x"]
        off = abs(one.mean(("chain", "draw")) - other.mean(("chain", "draw"))) / np.sqrt(variance)
        largest, count = max(largest, float(off.max())), count + off.size
    print(f"{name}: {count} means, the largest difference is {largest:.2f} standard errors", flush=True)
    record.add(name=name.strip(), means=count, largest_difference_in_standard_errors=largest)


PARTS: dict[str, Callable[[Record], None]] = {
    "compile": compilation,
    "near-.1": partial(the_problem, 0.1, 10.0, False),
    "near-10": partial(the_problem, 10.0, 30.0, False),
    "dense-.1": partial(the_problem, 0.1, 10.0, True),
    "dense-10": partial(the_problem, 10.0, 30.0, True),
    "many": many_tasks,
    "long": long_demonstrations,
    "grids": grids,
    "agreement": agreement,
    "stock": stock,
}


if __name__ == "__main__":
    kept = Record("latest-mixing.json", machine(("numpy", "scipy", "numba", "jax", "numpyro")))
    for word in sys.argv[1:] or PARTS:
        PARTS[word](kept)
