"""How well choices were predicted that nothing had been learnt from: one table, with errors by task."""

import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from manymotives.errors import InputError, listed, quoted
from manymotives.io.atomic import whole_file
from manymotives.scoring.basis import Basis

FORMAT = "manymotives score"
KEYS = ("model", "own_episodes")  # of a model
ABBREVIATED = {  # by how the names of models begin
    "RP, each alone": "RP, each alone: the reward–policy model without pooling",
    "RP": "RP: the reward–policy model with complete pooling (one reward for everybody)",
    "MRP": "MRP: the reward–policy model with partial pooling (each has its own reward, from one population)",
    "MPO": "MPO: the policy–optimality model (no softmax, but a prior on how close policies are to optimal)",
}


@dataclass(frozen=True, eq=False, repr=False)
class Score:
    """The log-likelihood of held-out choices, in nats per choice: 0 is a certain prediction, and higher is better."""

    hold_out: str  # "episodes" or "tasks"
    model: str  # the model that the others are held against
    by_task: pd.DataFrame  # model[, own_episodes], task, log_likelihood (nats a choice), choices
    how: pd.DataFrame  # model[, own_episodes], task, how its predictions were made, pareto_k
    settings: dict[str, Any]
    warnings: tuple[str, ...] = ()
    basis: Basis | None = None  # which choices were scored, in what environment; None: of an older file

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a model, in the order of the comparison.

        `log_likelihood` is in nats a choice and has a `standard_error`; `difference` is the model's less that of the
        model in question, `difference_se` its error, paired by task. `own_episodes`, where tasks were held out: how
        many episodes of its own each had shown before.
        """
        keys = [key for key in KEYS if key in self.by_task]
        rows = []
        for key, part in self.by_task.groupby(keys, sort=False):
            reference = self.by_task[self.by_task["model"] == self.model]
            if "own_episodes" in keys:
                reference = reference[reference["own_episodes"] == key[1]]
            mean, error = _mean_and_error(part["log_likelihood"], part["choices"])
            gap = part["log_likelihood"].to_numpy() - reference["log_likelihood"].to_numpy()
            difference, difference_se = _mean_and_error(pd.Series(gap), part["choices"])
            rows.append(
                dict(zip(keys, key))
                | {
                    "log_likelihood": mean,
                    "standard_error": error,
                    "difference": difference,
                    "difference_se": difference_se,
                    "choices": int(part["choices"].sum()),
                    "tasks": len(part),
                }
            )
        return pd.DataFrame(rows)

    def against(self, model: str) -> pd.DataFrame:
        """The table with another model as the one that differences are taken from."""
        if model not in set(self.by_task["model"]):
            known = listed(dict.fromkeys(self.by_task["model"]), 20)
            raise InputError(f"there is no model {quoted(model)}. The models are {known}.")
        return Score(self.hold_out, model, self.by_task, self.how, self.settings, self.warnings, self.basis).table

    # ---- files ---------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything as JSON, or, to a name that ends in .csv, the table."""
        with whole_file(path) as temporary:
            if Path(path).suffix.lower() == ".csv":
                said = {} if self.basis is None else asdict(self.basis)
                said.pop("scored", None)  # the table has it, for each model
                self.table.assign(**said).to_csv(temporary, index=False)
            else:
                temporary.write_text(json.dumps(self.to_dict(), indent=1, ensure_ascii=False), encoding="utf-8")

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON has it: numbers that are none become null."""
        return {
            "format": FORMAT,
            "hold_out": self.hold_out,
            "model": self.model,
            "table": _records(self.table),
            "by_task": _records(self.by_task),
            "how": _records(self.how),
            "settings": self.settings,
            "warnings": list(self.warnings),
            "basis": None if self.basis is None else asdict(self.basis),
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Score":
        """A score that `save` wrote as JSON."""
        if not Path(path).is_file():
            raise InputError(f"there is no file {str(path)!r}.")
        try:
            stored = json.loads(Path(path).read_text(encoding="utf-8"))
            if stored["format"] != FORMAT:
                raise ValueError
            return cls(
                stored["hold_out"],
                stored["model"],
                _frame(stored["by_task"]),
                _frame(stored["how"]),
                stored["settings"],
                tuple(stored["warnings"]),
                None if stored.get("basis") is None else Basis(**stored["basis"]),
            )
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{str(path)!r} is not a score saved by manymotives.") from None

    # ---- words ---------------------------------------------------------------------------------------------

    @property
    def abbreviations(self) -> str | None:
        """What abbreviations in the table stand for; None where there are none."""
        return abbreviations_in(dict.fromkeys(self.by_task["model"]))

    @property
    def note(self) -> str | None:
        """What must be said beside the table, where not all models had the same to learn from."""
        if not self.settings.get("own_past"):
            return None
        return (
            'Models named "… own past" had more data to learn from than the others: they also know what the same '
            "agent did before the predicted choice, in its earlier episodes and in the same one."
        )

    def __repr__(self) -> str:
        what = {"episodes": "held-out episodes", "tasks": "held-out tasks"}[self.hold_out]
        table = self.table
        choices, tasks = table["choices"].iloc[0], table["tasks"].iloc[0]
        head = f"Prediction of {what}: {choices:,} choices of {tasks} tasks, in nats per choice"
        shown = table.drop(columns=["choices", "tasks"]).round(4).to_string(index=False)
        rests = [] if self.basis is None else [f"computed from {self.basis}"]
        notes = [each for each in (self.abbreviations, self.note) if each is not None]
        return "\n".join([head, *rests, shown, *notes, *(f"  ! {warning}" for warning in self.warnings)])

    def _repr_html_(self) -> str:
        warnings = "".join(f"<li>{escape(warning)}</li>" for warning in self.warnings)
        table = self.table.round(4).to_html(index=False)
        rests = "" if self.basis is None else f"<p>Computed from {escape(str(self.basis))}.</p>"
        note = "".join(f"<p>{escape(each)}</p>" for each in (self.abbreviations, self.note) if each is not None)
        warned = f"<ul>{warnings}</ul>" if warnings else ""
        return f"<p>{escape(repr(self).splitlines()[0])}</p>{rests}{warned}{table}{note}"


def abbreviations_in(names: Iterable[str]) -> str | None:
    """What those among the names of models stand for, as one sentence."""
    keys = [next((key for key in ABBREVIATED if name == key or name.startswith(f"{key},")), None) for name in names]
    said = [ABBREVIATED[key] for key in dict.fromkeys(keys) if key is not None]
    return f"{'; '.join(said)}." if said else None


def _mean_and_error(each: pd.Series, choices: pd.Series) -> tuple[float, float]:
    """Mean over choices of what tasks have on average, and its standard error with tasks as the sampled unit.

    The mean is a ratio of two sums over tasks, Σ n x / Σ n, so its error is that of a ratio (linearised):
    √(M/(M−1) Σ n² (x − mean)²) / Σ n. Choices of one task are not independent, and are not taken to be.
    """
    x, n = each.to_numpy(dtype=float), choices.to_numpy(dtype=float)
    mean = float((n * x).sum() / n.sum())
    if len(x) < 2 or not math.isfinite(mean):
        return mean, float("nan")
    return mean, float(np.sqrt(len(x) / (len(x) - 1) * np.square(n * (x - mean)).sum()) / n.sum())


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    def plain(value: Any) -> Any:
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, float) and not math.isfinite(value):
            return None if math.isnan(value) else str(value)
        return value if value is None or isinstance(value, str | int | float | bool) else str(value)

    return [{str(name): plain(value) for name, value in row.items()} for row in frame.to_dict("records")]


def _frame(records: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(records)
    for name in ("log_likelihood", "pareto_k"):
        if name in frame:
            frame[name] = frame[name].astype(float)  # "-inf" and null too
    return frame
