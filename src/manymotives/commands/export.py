"""Everything a posterior says, as tables for other programs."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
import xarray as xr

from manymotives import findings
from manymotives.commands import mixture, motives
from manymotives.commands.common import JsonOption, Speaker
from manymotives.errors import InputError
from manymotives.fitting.fit import load
from manymotives.inference import Progress
from manymotives.io.writing import write_table
from manymotives.models.priors import Prior
from manymotives.posterior import MixturePosterior, Posterior, RewardPolicyPosterior, SwitchingPosterior
from manymotives.posterior.effects import has_effects, reference_said
from manymotives.posterior.feature_weights import population_weights
from manymotives.posterior.tables import selected, stacked

MOST = 250_000  # rows of a table of contrasts; beyond, one must choose
NEEDED = ("rewards", "rewards_canonical", "weights", "motive_rewards", "motive_weights")  # else it is an error


def export(
    run: Annotated[Path, typer.Argument(help="A run saved by `manymotives fit`.")],
    out: Annotated[Path, typer.Option(help="Folder for the tables, or a .csv file for one long table.")],
    level: Annotated[float, typer.Option(help="Probability of the intervals.")] = 0.95,
    subject: Annotated[list[str] | None, typer.Option(help="Only these subjects; may be repeated.")] = None,
    state: Annotated[list[str] | None, typer.Option(help="Only these states; may be repeated.")] = None,
    feature: Annotated[list[str] | None, typer.Option(help="Only these features; may be repeated.")] = None,
    contrasts: Annotated[
        bool, typer.Option(help="Also write contrasts between features, between states and between subjects.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing tables.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write all estimates and contrasts as CSV files.

    Names that a spreadsheet would read as a formula (those that begin with =, +, - or @) are prefixed by an apostrophe.
    """
    speaker = Speaker(as_json)
    with speaker.failures(out):
        posterior = load(run)
        tables, skipped = _tables(posterior, level, subject, state, feature, contrasts)
        is_file = out.suffix.lower() == ".csv"
        folder = out.absolute().parent if is_file else out
        files = [out] if is_file else [out / f"{name}.csv" for name in tables]
        there = [file for file in files if file.exists()]
        if there and not force:
            raise InputError(f"{there[0]} already exists. Overwrite it with --force, or choose another place.")
        folder.mkdir(parents=True, exist_ok=True)
        if is_file:
            every = [table.assign(estimate=name) for name, table in tables.items() if len(table)]
            long = stacked(every)
            write_table(long[["estimate", *(name for name in long.columns if name != "estimate")]], out)
            speaker.say(
                f"{out}  {len(long):,} rows: " + ", ".join(name for name, table in tables.items() if len(table))
            )
        else:
            for name, table in tables.items():
                write_table(table, out / f"{name}.csv")
                speaker.say(f"{out / name}.csv  {len(table):,} rows")
        for reason in (*skipped, *posterior.warnings):
            speaker.warn(reason)
        if not posterior.warnings:
            speaker.say("There are no warnings.")
        speaker.result(
            {
                "out": str(out),
                "tables": {name: len(table) for name, table in tables.items()},
                "left_out": skipped,
                "warnings": list(posterior.warnings),
            }
        )


def _tables(
    posterior: Posterior,
    level: float,
    subject: list[str] | None,
    state: list[str] | None,
    feature: list[str] | None,
    contrasts: bool,
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Tables by name, features first, and what was left out with the reason."""
    if isinstance(posterior, SwitchingPosterior):
        return _made(_motive_tables(posterior, level, subject, state, feature), posterior)
    rewards = posterior.by_state_name(posterior.rewards)
    tasks = _typed(subject, rewards, "task")
    chosen: dict[str, Any] = {"of": "state", "tasks": tasks, "states": _typed(state, rewards, "state")}
    wanted: dict[str, Callable[[], pd.DataFrame]] = {}
    if isinstance(posterior, MixturePosterior):
        wanted |= mixture.tables(posterior, level)
    if posterior.has_features:
        wanted |= _weight_tables(posterior, level, tasks, feature, contrasts)
    elif feature:
        raise InputError("--feature: the rewards of this run are not made of features. Select states with --state.")
    if has_effects(posterior):
        wanted["effects"] = lambda: posterior.effects(level=level)  # type: ignore[attr-defined]
        wanted["contrasts_between_groups"] = lambda: findings.contrasts(posterior, level=level)
    wanted |= {
        "rewards": lambda: posterior.to_frame(level=level, **chosen),
        "rewards_canonical": lambda: posterior.to_frame(canonical=True, level=level, **chosen),
    }
    if contrasts:
        wanted["contrasts_between_states"] = lambda: _contrasts(posterior, "state", level, chosen)
        wanted["contrasts_between_subjects"] = lambda: _contrasts(posterior, "task", level, chosen)
    wanted |= {
        "policies": lambda: _policies(posterior),
        "population": lambda: _population(posterior, level),
    }
    return _made(wanted, posterior)


def _population(posterior: Posterior, level: float) -> pd.DataFrame:
    """Parameters of the population and of subjects; with covariates, to whom the population's locations apply."""
    table = posterior.summary(level=level).table.rename_axis("quantity").reset_index()
    reference = reference_said(posterior)
    if not reference or not len(table):
        return table
    target = posterior.target  # type: ignore[attr-defined]
    located = {block.name for block in target.blocks if not block.name.endswith("_scale")}
    names = table["quantity"].str.replace(r"\[.*", "", regex=True)
    return table.assign(reference=np.where(names.isin(located), reference, ""))


def _made(
    wanted: dict[str, Callable[[], pd.DataFrame]], posterior: Posterior
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """These tables without what is empty, and the warnings, even if there are none; what was left out, and why."""
    made, skipped = {}, []
    for name, table in wanted.items():
        try:
            found = table()
        except InputError as error:
            if name in NEEDED:
                raise
            skipped.append(f"{name} left out: {error}")
            continue
        if len(found):
            made[name] = found.rename(columns={"task": "subject", "other_task": "other_subject"})
    return made | {"warnings": pd.DataFrame({"warning": list(posterior.warnings)}, dtype=object)}, skipped


def _motive_tables(
    posterior: SwitchingPosterior,
    level: float,
    subject: list[str] | None,
    state: list[str] | None,
    feature: list[str] | None,
) -> dict[str, Callable[[], pd.DataFrame]]:
    """Tables of motives that switch, for the names that were typed."""
    counts = posterior.data["observed_data"].dataset["counts"]
    if feature and not posterior.has_features:
        raise InputError("--feature: the rewards of this run are not made of features. Select states with --state.")
    tasks, states = _typed(subject, counts, "task"), _typed(state, counts, "state")
    for word, names in (("task", tasks), ("state", states)):
        selected(counts, word, names)  # those that do not exist are refused
    features = _typed(feature, posterior.weights, "feature") if posterior.has_features else None
    wanted = motives.tables(posterior, level, tasks, states, features)
    return wanted | {"population": lambda: posterior.summary(level=level).table.rename_axis("quantity").reset_index()}


def _weight_tables(
    posterior: Any, level: float, tasks: list[Any] | None, feature: list[str] | None, contrasts: bool
) -> dict[str, Callable[[], pd.DataFrame]]:
    """What is said of the weights of features: each subject's, the population's, differences."""
    chosen: dict[str, Any] = {"level": level, "tasks": tasks, "features": _typed(feature, posterior.weights, "feature")}
    wanted: dict[str, Callable[[], pd.DataFrame]] = {
        "weights": lambda: posterior.to_frame(of="feature", **chosen),
        "weights_of_population": lambda: population_weights(posterior, level),
    }
    if isinstance(posterior.model.inverse_temperature, Prior):  # choices tell the product only
        wanted["weights_times_inverse_temperature"] = lambda: posterior.to_frame(canonical=True, **chosen)
    if contrasts:
        wanted["weight_contrasts_between_features"] = lambda: posterior.to_frame("feature", **chosen)
        wanted["weight_contrasts_between_subjects"] = lambda: posterior.to_frame("task", of="feature", **chosen)
    return wanted


def _contrasts(posterior: Posterior, over: str, level: float, chosen: dict[str, Any]) -> pd.DataFrame:
    reward = posterior.by_state_name(posterior.rewards)
    tasks = len(chosen["tasks"] or reward["task"])
    cells = len(chosen["states"] or reward["state"]) * reward.sizes.get("action", 1)
    rows = tasks * cells * (cells - 1) // 2 if over == "state" else cells * tasks * (tasks - 1) // 2
    if rows > MOST:
        raise InputError(f"the table would have {rows:,} rows. Select some with --state or --subject.")
    return posterior.to_frame(over, level=level, **chosen)


def _policies(posterior: Posterior) -> pd.DataFrame:
    """What is best for each subject, and what it is expected to do."""
    exists = posterior.environment.available
    best = posterior.policies()
    shown = {"progress": Progress()} if isinstance(posterior, RewardPolicyPosterior) else {}  # others kept policies
    expected = posterior.predictive_policies(**shown)  # type: ignore[attr-defined]
    table = pd.DataFrame({"best": best.to_series(), "expected": expected.to_series()}).reset_index()
    return table[exists.ravel().tolist() * len(posterior.tasks)].reset_index(drop=True)


def _typed(names: list[str] | None, values: xr.DataArray, word: str) -> list[Any] | None:
    """Names as they are in the file, from what was typed."""
    if not names:
        return None
    by_text = {str(name): name for name in values[word].values.tolist()}
    return [by_text.get(name, name) for name in names]
