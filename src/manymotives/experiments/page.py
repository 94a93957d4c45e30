"""The page: each of the paper's sentences beside what came out, under every reading, and the command that makes it."""

import json
from collections.abc import Iterable
from importlib.resources import files

import pandas as pd

from manymotives.experiments.panel import Panel
from manymotives.experiments.results import ALL
from manymotives.experiments.statistics import FAILS, HOLDS, UNDECIDED

MARKS = {HOLDS: "**holds**", FAILS: "**does not hold**", UNDECIDED: "undecided"}
KINDS = {
    "paper": "What the paper says",
    "control": "Controls",
    "artefact": "Artefacts, switched on",
}


def page(
    panels: tuple[Panel, ...],
    claims: pd.DataFrame,
    curves: pd.DataFrame,
    pictures: dict[str, list[str]],
    versions: dict[str, str],
    command: str,
) -> str:
    """The whole page, in Markdown; pictures and tables lie in a folder `reproduction` beside it."""
    intro = files("manymotives.experiments").joinpath("page.md").read_text(encoding="utf-8")
    shown = [panel for panel in panels if pictures.get(panel.name)]
    parts = [
        intro.rstrip(),
        "",
        "## What came out",
        "",
        _made_by(claims, versions, command),
        "",
        _overview(shown, claims),
    ]
    for panel in shown:
        parts += ["", _section(panel, claims, curves, pictures[panel.name])]
    return "\n".join(parts).rstrip() + "\n"


def _made_by(claims: pd.DataFrame, versions: dict[str, str], command: str) -> str:
    said = ", ".join(f"{name} {version}" for name, version in versions.items())
    seeds = ", ".join(str(seed) for seed in sorted(set(claims["seed"])))
    return (
        f"Made by `{command}` with seed {seeds}; {said}. Every number of every claim is in "
        "[claims.csv](reproduction/claims.csv), every curve in [curves.csv](reproduction/curves.csv)."
    )


def _overview(panels: list[Panel], claims: pd.DataFrame) -> str:
    """The paper's sentences and their verdicts in the default readings: what fails stands beside what holds."""
    lines = ["| panel | claim | effect [95 %] | verdict | other readings |", "|---|---|---|---|---|"]
    for panel in panels:
        own = _own(claims, panel, panel.default, ALL)
        for _, row in own[own["kind"] == "paper"].iterrows():
            alike = claims[(claims["panel"] == panel.name) & (claims["claim"] == row["claim"])]
            others = alike.loc[(alike["reading"] != panel.default) & (alike["runs_of"] == ALL), "verdict"]
            counts = ", ".join(f"{verdict} in {number}" for verdict, number in others.value_counts().items())
            cells = (
                f"[{panel.name}](#{panel.name})",
                row["claim"],
                _interval(row),
                MARKS[row["verdict"]],
                counts or "–",
            )
            lines.append(_line(cells))
    return "\n".join(lines)


def _section(panel: Panel, claims: pd.DataFrame, curves: pd.DataFrame, pictures: list[str]) -> str:
    lines = [f"### {panel.name}", "", f"{panel.figure}: {panel.title}. `manymotives reproduce {panel.name}`", ""]
    lines += [line for name in pictures for line in (f"![{panel.title}](reproduction/{name}.png)", "")]
    of_panel = claims[claims["panel"] == panel.name]
    readings = [reading for reading in panel.readings if (of_panel["reading"] == reading).any()]
    lines += ["| reading | meaning | runs |", "|---|---|---|"]
    for number, reading in enumerate(readings):
        runs = int(of_panel.loc[of_panel["reading"] == reading, "runs"].max())
        lines.append(f"| {reading}{' (default)' if number == 0 else ''} | {panel.notes[reading]} | {runs} |")
    for kind, title in KINDS.items():
        own = [claim for claim in panel.claims if claim.kind == kind]
        if not own:
            continue
        subsets = [name for name in panel.subsets if (of_panel["runs_of"] == name).any()]
        heads = [
            "claim",
            f"effect, {readings[0]} [95 %]",
            "verdict",
            *(f"given {name} demonstrators" for name in subsets),
        ]
        heads += ["other readings"] if len(readings) > 1 else []
        lines += ["", f"**{title}**", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
        for claim in own:
            rows = of_panel[of_panel["claim"] == claim.name]
            first = rows[(rows["reading"] == readings[0]) & (rows["runs_of"] == ALL)]
            if first.empty:
                continue
            row = first.iloc[0]
            told = f"“{claim.sentence}”" if kind == "paper" else claim.sentence
            cells = [f"{claim.name}<br>{told}<br>*{claim.statement}*", _interval(row), MARKS[row["verdict"]]]
            for subset in subsets:
                given = rows[(rows["reading"] == readings[0]) & (rows["runs_of"] == subset)]
                cells.append("–" if given.empty else f"{_interval(given.iloc[0])}<br>{MARKS[given.iloc[0]['verdict']]}")
            if len(readings) > 1:
                others = rows[(rows["reading"] != readings[0]) & (rows["runs_of"] == ALL)]
                cells.append(
                    "<br>".join(f"{r['reading']}: {_interval(r)} {MARKS[r['verdict']]}" for _, r in others.iterrows())
                )
            lines.append(_line(cells))
    return "\n".join([*lines, *_sizes(panel, curves)])


def _sizes(panel: Panel, curves: pd.DataFrame) -> list[str]:
    """Effective sample sizes of the Monte Carlo curves, in the default reading."""
    own = curves[(curves["panel"] == panel.name) & (curves["reading"] == panel.default) & (curves["measure"] == "ess")]
    if own.empty:
        return []
    points = sorted(set(own["x"]))
    lines = ["", f"**Effective sample sizes** ({panel.default}, mean over runs)", ""]
    lines += [f"| {panel.look.x} | {' | '.join(f'{x:,.0f}' for x in points)} |", "|" + "---|" * (len(points) + 1)]
    for series, part in own.groupby("series", sort=False):
        sizes = part.set_index("x")["mean"]
        lines.append(f"| {series} | {' | '.join(f'{sizes[x]:.1f}' if x in sizes else '–' for x in points)} |")
    return lines


def _line(cells: Iterable[str]) -> str:
    """A row of a table; bars inside cells are not its borders."""
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _own(claims: pd.DataFrame, panel: Panel, reading: str, subset: str) -> pd.DataFrame:
    which = (claims["panel"] == panel.name) & (claims["reading"] == reading) & (claims["runs_of"] == subset)
    return claims[which]


def _interval(row: pd.Series) -> str:
    numbers = (row["effect"], row["lower_95"], row["upper_95"])
    mean, lower, upper = ("–" if pd.isna(number) else f"{number:.3g}" for number in numbers)
    return f"{mean} [{lower}, {upper}]"


def versions_text(versions: dict[str, str]) -> str:
    return json.dumps(versions, indent=2) + "\n"
