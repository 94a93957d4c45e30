"""What a fit found, in a few lines: how well chains mixed, what each subject wants most, which effects are clear."""

import re
from typing import Any

import numpy as np
import xarray as xr

from manymotives.commands.mixture import lines as lines_of_mixture
from manymotives.commands.mixture import mixture_found
from manymotives.commands.motives import lines as lines_of_motives
from manymotives.commands.motives import wanted_most
from manymotives.commands.ranking import ranked, said_most
from manymotives.findings.effects import effect_target, effects
from manymotives.posterior import MixturePosterior, Posterior, SwitchingPosterior
from manymotives.posterior.effects import has_effects
from manymotives.posterior.estimates import has_estimate

MOST = 10  # lines on subjects, or on effects
UNCERTAIN = 4  # effects of uncertain sign that are listed


def found_and_said(posterior: Posterior) -> tuple[dict[str, Any], list[str]]:
    """What a fit found: for machines, and as lines for people."""
    found, lines, others = _wants(posterior)
    said = [f"  mixed: {posterior.data.attrs['mixing']}"] if "mixing" in posterior.data.attrs else []
    said += _shortened(lines, others)
    if has_effects(posterior):
        records, lines = _clear_effects(posterior)
        found["clear_effects"] = records
        said += _shortened(lines, "lines on effects")
    return found, said


def _shortened(lines: list[str], others: str) -> list[str]:
    return lines if len(lines) <= MOST else [*lines[:MOST], f"  … and {len(lines) - MOST} more {others}"]


def _wants(posterior: Posterior) -> tuple[dict[str, Any], list[str], str]:
    """What each subject, or each motive, wants most: for machines, for people, and what there may be more of."""
    if isinstance(posterior, SwitchingPosterior):
        return {"motives": wanted_most(posterior)}, lines_of_motives(posterior), "motives"
    if isinstance(posterior, MixturePosterior):
        return mixture_found(posterior), lines_of_mixture(posterior), "lines"
    if has_estimate(posterior.data):
        table = posterior.estimates()  # type: ignore[attr-defined]
        rows = [f"  {r.task}: {r.parameter} {r.estimate:.4g} ± {r.standard_error:.2g}" for r in table.itertuples()]
        plain = table.astype(object).where(table.notna(), None)  # JSON has no word for what is not a number
        return {"estimates": plain.to_dict("records")}, rows, "estimates"
    values: xr.DataArray = posterior.weights if posterior.has_features else posterior.rewards  # type: ignore[attr-defined]
    tasks = [str(name) for name in posterior.tasks]
    if posterior.model.is_pooled:
        same = ranked(posterior, values.isel(task=0))
        every = dict.fromkeys(tasks, same)
        lines = [f"  all subjects: {said_most(*same, verb='want')}"]
    else:
        every = {task: ranked(posterior, values.isel(task=m)) for m, task in enumerate(tasks)}
        lines = [f"  {task}: {said_most(*each)}" for task, each in every.items()]
    found: dict[str, Any] = {"wants_most": {task: names[0] for task, (names, _) in every.items()}}
    close = {task: names[1:] for task, (names, _) in every.items() if len(names) > 1}
    return found | ({"too_close_to_tell": close} if close else {}), lines, "subjects"


def _clear_effects(posterior: Posterior) -> tuple[list[dict[str, Any]], list[str]]:
    """Effects of covariates whose 95 % interval excludes 0, the most certain first, and covariates without any."""
    table, _ = effects(posterior)
    is_clear = (table["lower"] > 0) | (table["upper"] < 0)
    records, lines = [], []
    for _, row in table[is_clear].iterrows():
        numbers = {name: float(row[name]) for name in ("mean", "lower", "upper")}
        records.append({"term": str(row["term"]), "on": effect_target(row), **numbers})
        interval = f"95 % interval {row['lower']:.2f} to {row['upper']:.2f}"
        lines.append(f"  effect of {row['term']} on {effect_target(row)}: {row['mean']:+.2f} ({interval})")
    for _, row in table[~is_clear][:UNCERTAIN].iterrows():
        interval = f"{row['mean']:+.2f} (95 % interval {row['lower']:.2f} to {row['upper']:.2f})"
        lines.append(f"  effect of {row['term']} on {effect_target(row)} of uncertain sign: {interval}")
    names = np.array([re.sub(r"\[[^]]*\]", "", str(term)) for term in table["term"]])
    clear = set(names[is_clear.to_numpy()])
    lines += [f"  no effect of {name} is clear" for name in dict.fromkeys(names.tolist()) if name not in clear]
    return records, lines
