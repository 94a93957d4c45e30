"""How many subjects, how many steps? A pilot or a model in; how often experiments of each size would tell, out.

Each replication draws a population, recruits subjects of it, simulates their choices, fits them with the model of the
analysis, and decides about one contrast by a stated rule. Replication r has the same population and the same first
subjects in every cell of the table, so that cells are compared as pairs.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from manymotives.assessment.contrasts import Contrast, read_contrast
from manymotives.assessment.power_checks import check_learnable, checked_sizes, checked_source, contrast_warnings
from manymotives.assessment.power_replications import Experiment, recruited_and_bound, replicate
from manymotives.assessment.power_result import Power
from manymotives.assessment.power_rules import checked_rule
from manymotives.assessment.power_statistics import is_decided, looks
from manymotives.assessment.power_truths import coordinate_of
from manymotives.data.environment import Environment
from manymotives.data.labels import Label
from manymotives.errors import InputError
from manymotives.execution import Job, WorkerPool, Workers, compute, fingerprint_of, random_seed
from manymotives.execution.jobs import Numbers
from manymotives.inference import HMC, Method
from manymotives.models import RewardPolicyModel
from manymotives.posterior import Posterior

# One contrast is decided about, so chains are fewer and shorter than those of `fit`, and end as soon as the decision is
# clear (`power_replications`); how often that agrees with `fit`: docs/decisions/0028.
QUICK = HMC(chains=2, draws=150, warmup=100, thin=1, max_rounds=5)
SECONDS = 2.0  # expected for one fit, for the first forecast


def power(
    pilot: Posterior | RewardPolicyModel,
    environment: Environment | Mapping[Label, Environment] | None = None,
    *,
    contrast: str,
    subjects: Sequence[int] = (8, 16, 32),
    steps: Sequence[int] = (50, 200),
    episodes: int | None = None,
    replications: int = 100,
    rule: str = "direction",
    level: float | None = None,
    margin: float | None = None,
    effect: float | None = None,
    analysis: RewardPolicyModel | None = None,
    target: float = 0.8,
    stop: float | None = 0.05,
    method: Method | None = None,
    seed: int = 0,
    executor: Workers = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Power:
    """Estimate how often an experiment of each size would reach a decision about a contrast, with Monte Carlo errors.

    Parameters
    ----------
    pilot
        A posterior, from which true populations are drawn, so that power is averaged over what the pilot leaves
        uncertain (assurance); or a `RewardPolicyModel`, from whose prior true populations are drawn. Parameters of that
        prior that are numbers are fixed.
    environment
        The environment in which the new subjects act, or several by name. If None, that of the pilot.
    contrast
        "water - food": the difference between two features or states in what they are worth to the typical task of the
        population. "water": the same compared with 0. "water: restricted - free": the effect of a covariate on it; for
        numeric covariates, "water: age = 60 - 20". Contrasts may also be of inverse_temperature, lapse or discount, if
        these are inferred.
    subjects, steps
        The sizes to try. The covariates of new subjects are taken from those of the pilot (or of the model's table),
        with equally many subjects for each level of the contrast's factor. If the formula has (1 | mouse), a subject is
        a mouse with all of its tasks.
    episodes
        The number of episodes per subject, of `steps` choices each, or fewer if a terminal state ends them. If None,
        one. It must be given if episodes can end, or if there are several environments; each episode then begins in one
        of them.
    replications
        The number of simulated experiments of each size.
    rule, level, margin
        The decision rule. "direction": the posterior probability of the more probable sign is above `level` (.975).
        "interval": the equal-tailed interval of probability `level` (.95) excludes 0, which is equivalent.
        "equivalence": that interval lies between −margin and margin.
    effect
        A true value of the contrast, which replaces that of each population: for an effect of a given size.
    analysis
        The model that is fitted to the experiments. If None, the model from which the truth is drawn.
    target, stop
        The desired power. A size is stopped early, after 20, 40, … experiments, once its power is known to be above
        target + stop or below target − stop. If `stop` is None, no size is stopped early.
    method
        A Markov chain method. If None, short chains that end when the contrast has R-hat ≤ 1.05 and 150 effective draws
        and the decision is clear.
    seed
        Seed of the random numbers.
    executor
        Where to compute: None, in threads of this process; a number of processes; the address of a Dask scheduler; or
        any `concurrent.futures.Executor`. The result does not depend on it.
    store
        A file to which every simulated experiment is written as it is finished; the same call resumes from it.
    progress
        Whether to show a progress bar in a terminal or notebook.

    Returns
    -------
    Power
        The `table` of sizes with their power and its Monte Carlo error; `smallest`, the smallest size with the desired
        power.
    """
    sizes = checked_sizes(subjects, steps, replications, target, stop, effect, seed)
    decides = checked_rule(rule, level, margin)
    truths, fitted, rows = checked_source(pilot, environment, analysis, episodes)
    origin = truths.target
    asked = read_contrast(contrast, truths.model, origin)
    if effect is not None:
        for quantity in filter(None, (asked.quantity, asked.less)):
            coordinate_of(quantity, origin)
    chosen = QUICK if method is None else _checked_method(method)
    cells = {
        (count, length): Experiment(
            truths, asked, effect, fitted, asked, rows, count, length, episodes or 1, decides, chosen
        )
        for count in sizes.subjects
        for length in sizes.steps
    }
    for cell, experiment in cells.items():  # what cannot be recruited or bound is better found before the work
        recruits, bound = recruited_and_bound(experiment, 0)
        analysed = read_contrast(contrast, fitted, bound)
        check_learnable(analysed, bound, recruits)
        cells[cell] = replace(experiment, analysed=analysed)
    experiments = _run(cells, sizes.replications, target, stop, seed, executor, store, progress)
    return Power(
        contrast=asked.text,
        rule=decides,
        target=float(target),
        truth=_said(pilot, effect, asked),
        is_assurance=isinstance(pilot, Posterior) and effect is None,
        experiments=experiments,
        planned=sizes.replications,
        warnings=contrast_warnings(asked, fitted, truths.environment, origin),
    )


def _run(
    cells: dict[tuple[int, int], Experiment],
    replications: int,
    target: float,
    stop: float | None,
    seed: int,
    executor: Workers,
    store: Any,
    progress: bool,
) -> pd.DataFrame:
    """All experiments, look by look; a cell that is decided at a look has no more. Whoever computes, the same ones."""
    prints = {cell: fingerprint_of(experiment) for cell, experiment in cells.items()}
    found: dict[tuple[int, int], list[Numbers]] = {cell: [] for cell in cells}
    open_cells = list(cells)
    with WorkerPool(executor) as pool:
        for look in [replications] if stop is None else looks(replications):
            jobs = {
                (cell, run): _job(cell, prints[cell], cells[cell], run, seed)
                for cell in open_cells
                for run in range(len(found[cell]), look)
            }
            ordered = sorted(jobs.values(), key=lambda job: -job.seconds)  # long ones first: nobody waits at the end
            numbers = compute(ordered, executor=pool, store=store, progress=progress)
            for (cell, _), job in jobs.items():
                found[cell].append(numbers[job.unit])
            if stop is not None and look < replications:
                open_cells = [c for c in open_cells if not is_decided(found[c], replications, target, stop)]
    rows = [
        {"subjects": cell[0], "steps": cell[1], "replication": run} | each
        for cell, several in found.items()
        for run, each in enumerate(several)
    ]
    return pd.DataFrame(rows)


def _job(cell: tuple[int, int], fingerprint: str, experiment: Experiment, run: int, seed: int) -> Job:
    return Job(
        study="power",
        cell=f"{cell[0]} subjects, {cell[1]} steps",
        fingerprint=fingerprint,
        run=run,
        seed=seed,
        function=replicate,
        setting=experiment,
        random_seed=random_seed(seed, "power", run),
        seconds=SECONDS * cell[0] / 32,
    )


def _checked_method(method: Any) -> Method:
    is_method = isinstance(method, Method) and not isinstance(method, type)
    if not is_method or not method.is_markov_chain or not issubclass(RewardPolicyModel.target_type, method.target_type):
        raise InputError(
            f"power: method must be a Markov chain, such as mm.HMC() or mm.Gibbs(), whose convergence can be seen; "
            f"found {method!r}."
        )
    return method


def _said(pilot: Any, effect: float | None, contrast: Contrast) -> str:
    """Where truths came from."""
    source = "draws of the pilot's posterior" if isinstance(pilot, Posterior) else "draws of the model's prior"
    return source if effect is None else f"{source}, with {effect:g} for “{contrast.text}”"
