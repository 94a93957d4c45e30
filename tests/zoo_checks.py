"""Posteriors of one model by several methods in; what is wrong with them out: run-away draws, densities, disagreements.

**Reach of the prior.** Each unknown has a conditional prior given its parents; the prior probability of a value as
extreme as the one drawn is uniform under the prior, whatever the parents are. The likelihood is at most its saturated
value L̂, so under the posterior P(tail ≤ p) ≤ p L̂ / evidence. The evidence is bounded from below by the average of
likelihoods over forward simulations of the prior (by Markov's inequality that is more than k times too large with
probability 1 / k at most). A draw whose tail probability is below 10⁻⁹ × evidence / L̂ / (number of values looked at)
has run away.

**Methods agree** if the mean ranks of each quantity among the draws of both do. Ranks are bounded, so their means and
Monte Carlo standard errors exist whatever the tails of the quantity are (the logarithm of a scale near zero has long
ones), and are the same on every scale. The folded rank, |rank − median rank|, shows differences in spread.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import digamma

from zoo_oracle import Draws, Model, World, log_likelihoods, log_prior, log_tail_probabilities, prior_draws, variables

TOLERANCE = 1e-8  # of log likelihoods and densities, relative to max(1, |value|); rounding of stored draws comes on top
LEAST_ESS, LARGEST_RHAT = 100.0, 1.05  # below, a standard error is too uncertain to divide by
LARGEST_Z = 4.0
LARGEST_TOTAL_Z = 6.0  # one test for each model and method, not repeated in longer runs
CHECKED_DRAWS = 60  # spread over all chains, and the most extreme ones besides
PRIOR_DRAWS = 200
FALSE_ALARM = 1e-9


@dataclass(frozen=True)
class Sampled:
    """What one method returned, as arrays: n = chains × draws, chain after chain."""

    chains: int
    draws: Draws
    log_likelihood: np.ndarray  # [n, E], of episodes
    log_posterior: np.ndarray  # [n]


@dataclass(frozen=True)
class Data:
    """What was done: counts [E, S, A] of episodes, each of the task owner[e]."""

    counts: np.ndarray
    owner: np.ndarray
    num_tasks: int


# ---- one method ----------------------------------------------------------------------------------------------


def problems_of(world: World, model: Model, data: Data, sampled: Sampled, reach: float) -> dict[str, str]:
    """What is wrong with the draws of one method, by kind, in a sentence each; empty if nothing is.

    `reach`: see `log_reach`.
    """
    found: dict[str, str] = {}
    draws = sampled.draws
    everything = {
        "rewards": draws.rewards,
        "inverse temperatures": draws.inverse_temperatures,
        "lapses": draws.lapses,
        "log likelihood": sampled.log_likelihood,
        "log posterior density": sampled.log_posterior,
        **draws.hyperparameters,
    }
    for name, values in everything.items():
        if not np.isfinite(values).all():
            found["not finite"] = f"{name}: {np.sum(~np.isfinite(values))} of {values.size} are not finite"
    if sampled.log_likelihood.size and np.nanmax(sampled.log_likelihood) > 0:
        found["log likelihood above 0"] = f"up to {np.nanmax(sampled.log_likelihood):.3g}"
    outside = _outside_support(model, draws)
    if outside:
        found["outside the support"] = outside
    extreme = _most_extreme(model, draws)
    reach -= np.log(max(1, sum(variable.values.size for variable in variables(model, draws))))
    if extreme[0] < reach:
        found["run away"] = f"{extreme[1]}: log prior tail probability {extreme[0]:.4g}, at least {reach:.4g} expected"
    if not {"not finite", "outside the support"} & set(found):
        found |= _density_problems(world, model, data, sampled)
    return found


def log_reach(world: World, model: Model, data: Data, rng: np.random.Generator) -> float:
    """The log prior tail probability that one draw of the posterior should not lie below: see the top of this file."""
    simulated = prior_draws(world, model, data.num_tasks, PRIOR_DRAWS, rng)
    likelihood = log_likelihoods(world, model, simulated, data.counts, data.owner)[0]
    groups = data.owner if model.sharing == "Separate" else np.zeros_like(data.owner)  # independent of each other
    independent = np.zeros((PRIOR_DRAWS, data.num_tasks))
    np.add.at(independent.T, groups, likelihood.T)
    log_evidence = (np.logaddexp.reduce(independent, axis=0) - np.log(PRIOR_DRAWS)).sum()
    totals = np.zeros((data.num_tasks, *data.counts.shape[1:]))
    np.add.at(totals, np.zeros_like(data.owner) if model.sharing == "Pooled" else data.owner, data.counts)
    with np.errstate(divide="ignore", invalid="ignore"):
        saturated = np.nansum(totals * np.log(totals / totals.sum(axis=2, keepdims=True)))
    return float(log_evidence - saturated + np.log(FALSE_ALARM))


def _outside_support(model: Model, draws: Draws) -> str:
    checks = [("rewards", draws.coordinates, "real")] if model.reward.kind == "Normal" else []
    if model.reward.kind == "Beta" or model.is_dirichlet:
        checks.append(("rewards", draws.coordinates, "unit"))
    checks += [("inverse temperatures", draws.inverse_temperatures, "positive"), ("lapses", draws.lapses, "unit")]
    for variable in variables(model, draws):
        if variable.name in draws.hyperparameters:
            kind = {"Normal": "real", "Beta": "unit"}.get(variable.kind, "positive")
            checks.append((variable.name, variable.values, kind))
    for name, values, kind in checks:
        inside = {"real": values == values, "unit": (values >= 0) & (values <= 1), "positive": values >= 0}[kind]
        if not inside.all():
            return f"{name}: {values[~inside].flat[0]!r}"
    if model.is_dirichlet and np.abs(draws.coordinates.sum(axis=-1) - 1).max() > 1e-12:
        return "Dirichlet rewards that do not sum to one"
    return ""


def _most_extreme(model: Model, draws: Draws) -> tuple[float, str]:
    worst = (0.0, "")
    for variable in variables(model, draws):
        tails = log_tail_probabilities(model, variable)
        tails = np.where(np.isnan(tails), -np.inf, tails)
        place = np.unravel_index(np.argmin(tails), tails.shape)
        if tails[place] < worst[0]:
            given = f"{variable.kind}({variable.first[place]:.3g}, {variable.second[place]:.3g})"
            worst = (float(tails[place]), f"{variable.name} = {variable.values[place]:.3g} under {given}")
    return worst


def _density_problems(world: World, model: Model, data: Data, sampled: Sampled) -> dict[str, str]:
    """Log likelihoods and densities of some draws, recomputed."""
    found: dict[str, str] = {}
    which = _spread_and_extreme(model, sampled)
    draws = _selected(sampled.draws, which)
    expected, doubt = log_likelihoods(world, model, draws, data.counts, data.owner)
    given = sampled.log_likelihood[which]
    wrong = np.abs(given - expected) - doubt - TOLERANCE * np.maximum(1.0, np.abs(expected))
    if wrong.size and not (wrong <= 0).all():
        place = np.unravel_index(np.argmax(np.where(np.isnan(wrong), np.inf, wrong)), wrong.shape)
        found["log likelihood differs"] = (
            f"{given[place]!r} where {expected[place]!r} is right (draw {which[place[0]]}, episode {place[1]}; "
            f"inverse temperature {draws.inverse_temperatures[place[0]].max():.3g})"
        )
    prior, error, concentrations = log_prior(model, draws)
    expected = prior + expected.sum(axis=1)
    error = error + doubt.sum(axis=1) + TOLERANCE * np.maximum(1.0, np.abs(expected))
    given = sampled.log_posterior[which]
    checkable = np.isfinite(expected) & (error < 1e-3 * np.maximum(1.0, np.abs(expected)))
    expected, given = np.where(checkable, expected, 0.0), np.where(checkable, given, 0.0)
    if model.is_dirichlet:  # what the total of x_k adds is at most that of its mode
        largest = (concentrations * np.log(concentrations) - concentrations).sum(axis=1)
        apart = given - expected - largest
    else:
        apart = np.abs(given - expected)
    wrong = apart - np.where(checkable, error, np.inf)
    if model.is_dirichlet and (totals := _totals_differ(model, sampled)):
        found["log density differs"] = totals
    if not (wrong <= 0).all():
        place = int(np.argmax(wrong))
        found["log density differs"] = f"{given[place]!r} where {expected[place]!r} is right (draw {which[place]})"
    return found


def _totals_differ(model: Model, sampled: Sampled) -> str:
    """Given the rest of a draw, the total of a task's Dirichlet coordinates is Gamma(A, 1), whatever the choices were.

    So what it adds to the log density, A log s − s, is A ψ(A) − A on average.
    """
    with np.errstate(invalid="ignore"):
        prior, _, concentrations = log_prior(model, sampled.draws)
        added = sampled.log_posterior - prior - sampled.log_likelihood.sum(axis=1)
        added -= (concentrations * digamma(concentrations) - concentrations).sum(axis=1)
    if not np.isfinite(added).all():  # a share too small for a float
        return ""
    chains = added.reshape(sampled.chains, -1)
    effective = effective_sample_size(chains)
    if not (effective >= LEAST_ESS and split_rhat(chains) <= LARGEST_RHAT):
        return ""
    z = added.mean() / np.sqrt(added.var(ddof=1) / effective)
    return f"by {added.mean():.4g} on average, which is {z:.1f} standard errors" if abs(z) > LARGEST_TOTAL_Z else ""


def _spread_and_extreme(model: Model, sampled: Sampled) -> np.ndarray:
    size = len(sampled.draws)
    which = set(np.linspace(0, size - 1, min(CHECKED_DRAWS, size)).astype(int).tolist())
    extremes = [
        sampled.log_posterior,
        sampled.log_likelihood.sum(axis=1),
        sampled.draws.inverse_temperatures.max(axis=1),
    ]
    extremes += [values.reshape(size, -1).min(axis=1) for values in sampled.draws.hyperparameters.values()]
    extremes += [np.abs(values).reshape(size, -1).max(axis=1) for values in sampled.draws.hyperparameters.values()]
    for values in extremes:
        which |= {int(np.argmin(values)), int(np.argmax(values))}
    return np.array(sorted(which))


def _selected(draws: Draws, which: np.ndarray) -> Draws:
    return Draws(
        draws.rewards[which],
        draws.coordinates[which],
        draws.inverse_temperatures[which],
        draws.lapses[which],
        {name: values[which] for name, values in draws.hyperparameters.items()},
        None if draws.discounts is None else draws.discounts[which],
    )


# ---- methods against each other ------------------------------------------------------------------------------


def quantities(model: Model, sampled: Sampled, data: Data) -> dict[str, np.ndarray]:
    """Everything two methods must agree on, [chains, draws, Q] by name."""
    draws = sampled.draws
    per_task = np.zeros((len(draws), data.num_tasks))
    np.add.at(per_task.T, data.owner, sampled.log_likelihood.T)
    made = {variable.name: variable.values for variable in variables(model, draws)}
    made |= {"log likelihood of tasks": per_task, "log likelihood": per_task.sum(axis=1), "lp": sampled.log_posterior}
    return {name: values.reshape(sampled.chains, -1, values[0].size) for name, values in made.items()}


@dataclass(frozen=True)
class Comparison:
    """z of each quantity between two methods; NaN where one of them has not converged."""

    names: list[str]
    z: np.ndarray
    means: np.ndarray  # [Q, 2], of the quantity itself

    @property
    def counted(self) -> np.ndarray:
        return np.isfinite(self.z)


def compare(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> Comparison:
    """Mean ranks and mean folded ranks of two methods, in standard errors of their difference."""
    names: list[str] = []
    z: list[float] = []
    means: list[tuple[float, float]] = []
    for name in first:
        for place in range(first[name].shape[-1]):
            ours, theirs = first[name][..., place], second[name][..., place]
            ranks = stats.rankdata(np.concatenate([ours.ravel(), theirs.ravel()]))
            ranks = (ranks - 0.5) / len(ranks) - 0.5
            if np.ptp(ranks) == 0:  # the same number throughout: known by construction
                continue
            for kind, values in (("", ranks), (" (spread)", np.abs(ranks))):
                parts = values[: ours.size].reshape(ours.shape), values[ours.size :].reshape(theirs.shape)
                names.append(f"{name}[{place}]{kind}")
                z.append(_difference(*parts))
                means.append((float(ours.mean()), float(theirs.mean())))
    return Comparison(names, np.array(z), np.array(means).reshape(-1, 2))


def _difference(first: np.ndarray, second: np.ndarray) -> float:
    variance = 0.0
    for part in (first, second):
        effective = effective_sample_size(part)
        if not (effective >= LEAST_ESS and split_rhat(part) <= LARGEST_RHAT):
            return np.nan
        variance += part.var(ddof=1) / effective
    return float((first.mean() - second.mean()) / np.sqrt(variance))


def split_rhat(values: np.ndarray) -> float:
    """Of draws [chain, draw], each chain cut in half; without rank normalisation."""
    halves = _halves(values)
    length = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean()
    between = length * halves.mean(axis=1).var(ddof=1)
    if within == 0:
        return np.nan
    return float(np.sqrt((between / within + length - 1) / length))


def effective_sample_size(values: np.ndarray) -> float:
    """Of the mean of draws [chain, draw]: Geyer's initial monotone sequence over split chains (Vehtari et al. 2021)."""
    halves = _halves(values)
    chains, length = halves.shape
    if length < 4:
        return np.nan
    centred = halves - halves.mean(axis=1, keepdims=True)
    padded = np.fft.rfft(centred, n=2 * length, axis=1)
    covariance = np.fft.irfft(np.abs(padded) ** 2, axis=1)[:, :length].mean(axis=0) / length
    within = covariance[0] * length / (length - 1)
    total = covariance[0] + halves.mean(axis=1).var(ddof=1)
    if within == 0:
        return np.nan
    correlation = 1 - (within - covariance) / total
    correlation[0] = 1.0
    pairs = correlation[: length // 2 * 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    last = int(negative[0]) if len(negative) else len(pairs)
    time = -1 + 2 * np.minimum.accumulate(pairs[:last]).sum()
    if last < len(pairs):
        time += max(correlation[2 * last], 0.0)
    size = chains * length
    return float(size / max(time, 1 / np.log10(size)))


def _halves(values: np.ndarray) -> np.ndarray:
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, values.shape[1] - half :]])


def summary_of(comparisons: list[Comparison]) -> dict[str, Any]:
    """How many quantities, how many without convergence, root mean square of z."""
    z = np.concatenate([comparison.z for comparison in comparisons]) if comparisons else np.zeros(0)
    counted = z[np.isfinite(z)]
    rms = float(np.sqrt((counted**2).mean())) if len(counted) else float("nan")
    return {"quantities": len(z), "not converged": int(len(z) - len(counted)), "rms z": rms}
