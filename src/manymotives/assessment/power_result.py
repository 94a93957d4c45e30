"""What a power analysis found: a table with a row for each size of experiment, sentences, and a file."""

import json
import os
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from manymotives.assessment.power_rules import Rule
from manymotives.assessment.power_statistics import cell_row
from manymotives.errors import InputError
from manymotives.io.atomic import whole_file

FORMAT = "manymotives power"
CELL = ["subjects", "steps"]


@dataclass(frozen=True, eq=False, repr=False)
class Power:
    """How often an experiment of each size would reach a decision about a contrast; `mm.plots.power` plots it."""

    contrast: str
    rule: Rule
    target: float  # the power that is wanted
    truth: str  # where truths came from, in words
    is_assurance: bool  # whether truths were drawn from a posterior
    experiments: pd.DataFrame  # one row for each simulated experiment: subjects, steps, replication, truth, mean, …
    planned: int  # experiments of each cell, where it was not decided before
    warnings: tuple[str, ...] = ()

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row for each number of subjects and steps.

        `power` is the share of converged fits in which the rule says yes; `power_if_no` and `power_if_yes`, what it
        would be if all fits that did not converge were counted as one or the other. Of the experiments that say yes,
        `type_s` is the share with the wrong sign and `type_m` how many times too large the estimates are; under
        `rule="equivalence"`, `false_equivalence` is the share whose true contrast is at least the margin. `width` and
        `coverage` are those of posterior intervals, `choices` the mean number a subject made. Each figure has its 95 %
        Monte Carlo interval: `…_lower`, `…_upper`. `stopped_early`: the cell was decided before all were run.
        """
        rows = []
        for _, found in self.experiments.groupby(CELL, sort=True):
            row = {name: int(found[name].iloc[0]) for name in CELL} | cell_row(found, self.rule)
            rows.append(row | {"stopped_early": len(found) < self.planned})
        return pd.DataFrame(rows)

    @property
    def smallest(self) -> pd.DataFrame:
        """For each number of steps, the row of the table with the fewest subjects that reach the target."""
        reached = self.table[self.table["power"] >= self.target]
        return reached.sort_values(CELL).groupby("steps", sort=True).head(1).sort_values("steps", ignore_index=True)

    def __str__(self) -> str:
        word = "assurance" if self.is_assurance else "power"
        what = f"“{self.contrast}”"
        aim = (
            f"{'detect' if self.rule.about_signs else 'show the equivalence of'} {what} with probability "
            f"{self.target:g}"
        )
        found, table = self.smallest, self.table
        lines = [f"To {aim} you need about {_size(row)}{_sure(row, self.target)}." for row in found.to_dict("records")]
        if not lines:
            best = table.sort_values(["power", "subjects"]).to_dict("records")[-1]
            reached = f"{best['power']:.2f} [{best['power_lower']:.2f}, {best['power_upper']:.2f}]"
            lines = [f"None of the sizes tried would {aim}: the best, {_size(best)}, has {word} {reached}."]
        missing = [steps for steps in sorted(set(table["steps"])) if steps not in set(found["steps"])]
        if len(found) and missing:
            lines.append(
                f"With {' or '.join(map(str, missing))} steps none of the numbers of subjects tried is enough."
            )
        lines.append(f"An experiment counts as a detection if {self.rule}; true parameters are {self.truth}.")
        failed, run = int(table["not_converged"].sum()), int(table["replications"].sum())
        if failed:
            lines.append(
                f"{failed} of {run} fits did not converge and are left out of the {word}; in the table, "
                "power_if_no and power_if_yes count all of them as failures or as detections."
            )
        lines += [f"  ! {warning}" for warning in self.warnings]
        return "\n".join([*lines, "", _shown(table).to_string(index=False)])

    __repr__ = __str__

    # ---- files ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON, or, to a name that ends in .csv, the table."""
        with whole_file(path) as temporary:
            if Path(path).suffix.lower() == ".csv":
                self.table.to_csv(temporary, index=False)
                return
            record = {name: getattr(self, name) for name in SIMPLE} | {
                "format": FORMAT,
                "rule": asdict(self.rule),
                "warnings": list(self.warnings),
                "experiments": self.experiments.to_dict("list"),
            }
            temporary.write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Power":
        """A power analysis that `save` wrote as JSON."""
        if not Path(path).is_file():
            raise InputError(f"there is no file {str(path)!r}.")
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            if stored["format"] != FORMAT:
                raise ValueError
            simple = {name: stored[name] for name in SIMPLE}
            experiments, rule = pd.DataFrame(stored["experiments"]), Rule(**stored["rule"])
            made = cls(**simple, rule=rule, experiments=experiments, warnings=tuple(stored["warnings"]))
            made.table  # noqa: B018  whatever is missing is missed here
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{str(path)!r} is not a power analysis saved by manymotives.") from None
        return made


SIMPLE = ("contrast", "target", "truth", "is_assurance", "planned")


def _size(row: Any) -> str:
    plural = "s" if row["subjects"] > 1 else ""
    return f"{row['subjects']} subject{plural} of {row['steps']} step{'s' if row['steps'] > 1 else ''}"


def _sure(row: Any, target: float) -> str:
    """The figure, and whether Monte Carlo error leaves it open."""
    said = f"{row['power']:.2f} [{row['power_lower']:.2f}, {row['power_upper']:.2f}]"
    if row["power_if_no"] < target:
        said += f"; {row['power_if_no']:.2f} if the fits that did not converge count as failures" * (
            row["not_converged"] > 0
        )
    if row["power_lower"] < target:
        said += "; more replications would make this more certain"
    return f" ({said})"


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """The table for people: a figure and its interval in one column."""
    shown = table[CELL].copy()
    shown["run"] = table["replications"].astype(str) + np.where(table["stopped_early"], " (stopped)", "")
    shown["not converged"] = table["not_converged"]
    for name in ("power", "type_s", "type_m", "false_equivalence", "width", "coverage"):
        if name in table:
            columns = (table[name], table[f"{name}_lower"], table[f"{name}_upper"])
            shown[name.replace("_", " ")] = [
                "–" if np.isnan(value) else f"{value:.2f} [{lower:.2f}, {upper:.2f}]"
                for value, lower, upper in zip(*columns)
            ]
    return shown
