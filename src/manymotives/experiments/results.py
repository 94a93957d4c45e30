"""From the store to tables: one row per run, curves with standard errors, claims with verdicts."""

from dataclasses import dataclass

import pandas as pd

from manymotives.execution.store import Store
from manymotives.experiments.panel import Panel, Row, jobs_of
from manymotives.experiments.statistics import effect_of, mean_and_error

ALL = "all runs"
CURVES = ["panel", "reading", "measure", "series", "x", "mean", "standard_error", "runs"]


@dataclass(frozen=True)
class Results:
    """All finished runs of some panels, by panel and reading: the numbers of all cells of a run in one row."""

    rows: dict[tuple[str, str], dict[int, Row]]
    seed: int

    def of(self, panel: str, reading: str) -> list[Row]:
        return list(self.rows.get((panel, reading), {}).values())


def gathered(store: Store, panels: tuple[Panel, ...], seed: int) -> Results:
    """Every run whose cells are all there, with the settings of today."""
    found: dict[tuple[str, str], dict[int, Row]] = {}
    known = store.all_numbers(seed)
    for panel in panels:
        for reading in panel.readings:
            runs: dict[int, Row] = {}
            units = [job.unit for job in jobs_of(panel, reading, 1, seed)]
            parts = [known.get((panel.name, reading, unit.cell, unit.fingerprint), {}) for unit in units]
            for run in sorted(set.intersection(*(set(part) for part in parts))):
                runs[run] = {name: value for part in parts for name, value in part[run].items()}
            if runs:
                found[panel.name, reading] = runs
    return Results(found, seed)


def curves(results: Results) -> pd.DataFrame:
    """Mean and standard error over runs of everything that was measured."""
    made = []
    for (panel, reading), runs in results.rows.items():
        rows = list(runs.values())
        for name in rows[0]:
            measure, series, x = name.split("/")
            mean, error, count = mean_and_error(row[name] for row in rows)
            made.append((panel, reading, measure, series, float(x), mean, error, count))
    return pd.DataFrame(made, columns=CURVES)


def claims(results: Results, panels: tuple[Panel, ...]) -> pd.DataFrame:
    """Every claim under every reading that was run, for all runs and for each subset of them."""
    made = []
    for panel in panels:
        for reading in panel.readings:
            runs = results.rows.get((panel.name, reading), {})
            for claim in panel.claims:
                rows = dict(runs)
                for other in claim.beside:
                    beside = results.rows.get((other, reading), {})
                    rows = {
                        run: {**row, **{f"{other}:{name}": value for name, value in beside[run].items()}}
                        for run, row in rows.items()
                        if run in beside
                    }
                subsets = {ALL: list(rows.values())}
                subsets |= {name: [row for row in rows.values() if among(row)] for name, among in panel.subsets.items()}
                for subset, chosen in subsets.items():
                    if not chosen:
                        continue
                    effect = effect_of(claim, chosen)
                    made.append(
                        {
                            "figure": panel.figure,
                            "panel": panel.name,
                            "reading": reading,
                            "runs_of": subset,
                            "kind": claim.kind,
                            "claim": claim.name,
                            "sentence": claim.sentence,
                            "computed": claim.statement,
                            "effect": effect.mean,
                            "standard_error": effect.standard_error,
                            "lower_95": effect.lower,
                            "upper_95": effect.upper,
                            "unit": claim.unit,
                            "runs": effect.runs,
                            "verdict": effect.verdict,
                            "seed": results.seed,
                        }
                    )
    return pd.DataFrame(made)
