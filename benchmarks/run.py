"""Every benchmark, as a table on the screen and as rows in benchmarks/latest.json."""

import sys
from dataclasses import asdict

from rich.console import Console
from rich.table import Table

from benchmarks import baselines, large, optimality, planning, sampling
from benchmarks.harness import machine, write

GROUPS = {
    "planning": planning.rows,
    "large": large.rows,
    "sampling": sampling.rows,
    "optimality": optimality.rows,
    "baselines": baselines.rows,
}


def main() -> int:
    console = Console(width=150)
    measured_on = machine(("numpy", "scipy", "numba", "jax", "quantecon"))
    found = []
    for name, rows in GROUPS.items():
        with console.status(f"{name} …") as status:
            for row in rows():
                found.append(row)
                console.print(
                    f"{row.name}: {row.ours:.3g} {row.unit}, bar {row.bar}, {'met' if row.passed else 'missed'}"
                )
                status.update(f"{name}: {len(found)} rows done …")
    table = Table(title="Ours against peers, side by side (medians)")
    for heading in ("row", "ours", "peer", "ratio", "unit", "bar", "", "compile s", "of fp limit", "note"):
        table.add_column(heading, overflow="fold")
    for row in found:
        table.add_row(
            row.name,
            f"{row.ours:.3g}",
            "–" if row.peer is None else f"{row.peer:.3g}",
            "–" if row.ratio is None else f"{row.ratio:.3g} ×",
            row.unit,
            row.bar,
            "[green]met[/]" if row.passed else "[red]missed[/]",
            "–" if row.compile_seconds is None else f"{row.compile_seconds:.1f}",
            "–" if row.share_of_limit is None else f"{row.share_of_limit:.2g}",
            row.note,
        )
    console.print(table)
    write("latest.json", measured_on, [asdict(row) for row in found])
    console.print("written to latest.json")
    return 0 if all(row.passed for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
