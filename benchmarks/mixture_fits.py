"""One data set in, one row of figures out: what `mm.Mixture` says of it, beside the truth and today's grouping.

Models are those a user would write down: a mixture of finite mixtures with its default prior of the number, weights
Normal(0, 1), all settings of the sampler at their defaults. The choice rule is a modelling choice and stated: experts
who never err are taken for `SoftOptimal(EXPERTS)`; where choices were drawn from a softmax, its inverse temperature is
known.

Loss of value: V* − V^π under a task's true reward, averaged over states and tasks; π is the policy that is best for the
task's posterior mean reward.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from arviz_stats import rhat

import manymotives as mm
from benchmarks import mice_effects, mixture_problems
from benchmarks.harness import commit, peak_memory
from benchmarks.mixture_problems import Problem
from benchmarks.partition_scores import adjusted_rand, best_match_f, mutual_information, pairwise_f

EXPERTS = 3.0  # stands for experts who never err; chosen on 10 problems that are not reported
SPREAD = mm.HalfNormal(0.5)
SHORT = mm.HMC(chains=2, draws=2, warmup=2, max_rounds=1)  # compiles


def grid(seed: int, method: Any = None) -> dict[str, Any]:
    """The published grid."""
    return _of_problem(mixture_problems.grid(seed), mm.SoftOptimal(EXPERTS), _mixture(), seed, method)


def objects(seed: int, method: Any = None) -> dict[str, Any]:
    """Objectworld."""
    return _of_problem(mixture_problems.objects(seed), mm.SoftOptimal(EXPERTS), _mixture(), seed, method)


def many(seed: int, method: Any = None, tasks: int = 200) -> dict[str, Any]:
    """Many tasks around five motives."""
    problem = mixture_problems.many(seed, tasks)
    row = _of_problem(problem, mm.Softmax(3.0), _mixture(SPREAD), seed, method)
    return row | {"tasks": tasks, "peak_gib": peak_memory()}


def nobody(seed: int, method: Any = None, spread_only: bool = False) -> dict[str, Any]:
    """One population without groups: is it split by a mixture with spread, without spread, or by today's grouping?"""
    problem, rule = mixture_problems.nobody(seed), mm.Softmax(2.0)
    row: dict[str, Any] = {"seed": seed, "commit": commit()}
    for name, spread in (("spread", SPREAD), ("no_spread", None))[: 1 if spread_only else 2]:
        posterior, seconds = _fitted(problem, rule, _mixture(spread), seed, method)
        number = posterior.number_of_motives
        row[name] = {
            "p_one": float(number.get(1, 0.0)),
            "mode": int(number.idxmax()),
            "found": int(posterior.partition.groups.nunique()),
            "rhat": number_rhat(posterior),
            "seconds": seconds,
        }
    posterior, _ = _fitted(problem, rule, mm.Hierarchical(), seed, method)
    groups = mm.findings.similarity(posterior).clusters
    row["today"] = {"found": groups.number, "p_value": groups.p_value}
    return row


def mice(folder: Path, method: Any = None) -> dict[str, Any]:
    """Nineteen mice without their labels (see `mice_effects`): are there groups, and are they the water-restricted?"""
    choices = mice_effects.read(folder)
    truth = np.array([group == "restricted" for group in choices.table["water"]])
    reward = mm.GaussianReward(
        choices.features, mean=0.0, scale=1.0, on="state_action", names=list(mice_effects.FEATURES)
    )
    model = mm.RewardPolicyModel(reward, mm.Softmax(1.0), _mixture(SPREAD))
    begin = time.perf_counter()
    posterior: Any = mm.fit(model, choices.environment, choices.demonstrations, method, seed=0, progress=False)
    seconds = time.perf_counter() - begin
    drawn = motive_draws(posterior).sel(task=choices.table["task"]).values.reshape(-1, len(truth))
    alike = np.array([adjusted_rand(truth, each) for each in drawn])
    groups = posterior.partition.groups.loc[choices.table["task"]].to_numpy()
    weights = posterior.weights.sel(task=choices.table["task"])
    return {
        "number": {str(number): float(p) for number, p in posterior.number_of_motives.items()},
        "p_one": float(posterior.number_of_motives.get(1, 0.0)),
        "p_labels": float((alike > 1 - 1e-12).mean()),
        "adjusted_rand": [float(value) for value in (alike.mean(), *np.quantile(alike, [0.025, 0.5, 0.975]))],
        "groups": {str(name): int(group) for name, group in zip(choices.table["task"], groups)},
        "restricted": [str(name) for name, is_restricted in zip(choices.table["task"], truth) if is_restricted],
        "expected_distance": float(posterior.partition.expected_distance),
        "apart": _apart(weights, groups),
        "rhat": number_rhat(posterior),
        "warnings": list(posterior.warnings),
        "seconds": seconds,
        "commit": commit(),
    }


def _apart(weights: xr.DataArray, groups: np.ndarray) -> list[dict[str, Any]]:
    """Means of weights in each group of the best partition, less those of the largest group; those surest first."""
    largest = int(np.bincount(groups).argmax())
    rows = []
    for group in sorted(set(groups.tolist()) - {largest}):
        mine, others = (weights.isel(task=np.flatnonzero(groups == each)).mean("task") for each in (group, largest))
        difference = (mine - others).stack(sample=("chain", "draw"))
        mean, sd = difference.mean("sample").values, difference.std("sample").values
        for k in np.argsort(-np.abs(mean / sd)):
            feature = str(weights["feature"].values[k])
            rows.append({"group": group, "feature": feature, "mean": float(mean[k]), "sd": float(sd[k])})
    return rows


def _of_problem(problem: Problem, rule: Any, sharing: Any, seed: int, method: Any) -> dict[str, Any]:
    posterior, seconds = _fitted(problem, rule, sharing, seed, method)
    number = posterior.number_of_motives
    groups = posterior.partition.groups.loc[list(problem.demonstrations.tasks)].to_numpy()
    lost = mm.loss(problem.environment, posterior.policies().values, problem.rewards) / problem.environment.num_states
    same = problem.groups[:, None] == problem.groups
    pairs = np.triu_indices(len(groups), 1)
    return {
        "seed": seed,
        "true_number": len(set(problem.groups.tolist())),
        "number": {str(value): float(p) for value, p in number.items()},
        "mode": int(number.idxmax()),
        "f": best_match_f(problem.groups, groups),
        "f_of_pairs": pairwise_f(problem.groups, groups),
        "nmi": mutual_information(problem.groups, groups),
        "ari": adjusted_rand(problem.groups, groups),
        "p_best": float(posterior.partition.probability),
        "expected_distance": float(posterior.partition.expected_distance),
        "brier": float(((posterior.together.values - same)[pairs] ** 2).mean()),
        "loss": float(np.mean(lost)),
        "rhat": number_rhat(posterior),
        "mixed": float("mixing" in posterior.data.attrs),
        "seconds": seconds,
        "commit": commit(),
    }


def _mixture(spread: Any = None) -> Any:
    """An unknown finite number of motives, three on average before the data."""
    return mm.Mixture(motives=mm.FiniteNumber(mean=3.0, concentration=1.0), spread=spread)


def _fitted(problem: Problem, rule: Any, sharing: Any, seed: int, method: Any) -> tuple[Any, float]:
    """The posterior, and the seconds it took."""
    model = mm.RewardPolicyModel(mm.GaussianReward(problem.features, mean=0.0, scale=1.0), rule, sharing)
    begin = time.perf_counter()
    posterior: Any = mm.fit(model, problem.environment, problem.demonstrations, method, seed=seed, progress=False)
    return posterior, time.perf_counter() - begin


def motive_draws(posterior: Any) -> xr.DataArray:
    """Which motive each task acts on (chain, draw, task): the variable of whole numbers with these dimensions."""
    drawn = posterior.data["posterior"].dataset
    (name,) = (
        name
        for name, values in drawn.data_vars.items()
        if set(values.dims) == {"chain", "draw", "task"} and np.issubdtype(values.dtype, np.integer)
    )
    return drawn[name].transpose("chain", "draw", "task")


def number_rhat(posterior: Any) -> float:
    """R-hat of the number of motives; 1 where all draws have the same number."""
    ordered = np.sort(motive_draws(posterior).values, axis=2)
    number = 1 + (np.diff(ordered, axis=2) > 0).sum(axis=2)
    if (number == number.flat[0]).all():
        return 1.0
    found = rhat(xr.Dataset({"number": (("chain", "draw"), number.astype(float))}))
    return float(found["number"])


FITS: dict[str, Callable[..., dict[str, Any]]] = {"grid": grid, "objects": objects, "many": many, "none": nobody}
