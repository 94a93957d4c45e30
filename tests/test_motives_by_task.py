"""The runner of problems with shared motives: what it reads back from its file, and what it says of it."""

import json
from types import SimpleNamespace

import numpy as np
import xarray as xr
from benchmarks.mixture_fits import motive_draws, number_rhat
from benchmarks.motives_by_task import rows_in, summary


def _posterior(motives: np.ndarray) -> SimpleNamespace:
    drawn = xr.Dataset(
        {"weight": (("chain", "draw", "task"), np.zeros(motives.shape)), "motive": (("chain", "draw", "task"), motives)}
    )
    return SimpleNamespace(data=xr.DataTree.from_dict({"posterior": drawn}))


def test_the_number_of_motives_does_not_depend_on_their_names() -> None:
    rng = np.random.default_rng(0)
    motives = rng.integers(4, size=(2, 200, 5))
    posterior = _posterior(motives)
    np.testing.assert_array_equal(motive_draws(posterior), motives)
    assert number_rhat(posterior) == number_rhat(_posterior(9 - 3 * motives))
    assert 0.98 < number_rhat(posterior) < 1.05
    apart = np.zeros((2, 200, 5), dtype=int)
    assert number_rhat(_posterior(apart)) == 1.0
    apart[1] = np.arange(5)
    apart[:, ::7, 1] = 1
    assert number_rhat(_posterior(apart)) > 2  # chains that never agree


def test_lines_cut_short_are_left_out_and_tasks_kept_apart(tmp_path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{"kind": "many", "seed": seed, "tasks": tasks} for seed, tasks in ((0, 200), (0, 1000), (1, 200))]
    path.write_text("\n".join([*map(json.dumps, rows), '{"kind": "many", "se']), encoding="utf-8")
    assert [row["seed"] for row in rows_in(path, "many", {"tasks": 200})] == [0, 1]
    assert rows_in(path, "grid", {}) == []
    assert list(summary("grid", [])) == ["nothing has been measured."]


def test_false_splits_are_counted() -> None:
    one = {"p_one": 0.9, "mode": 1, "found": 1, "rhat": 1.001}
    split = {"p_one": 0.01, "mode": 2, "found": 2, "rhat": 1.002}
    rows = [
        {"commit": "abc", "spread": one, "no_spread": split, "today": {"found": 1}},
        {"commit": "abc", "spread": one, "no_spread": one, "today": {"found": 3}},
    ]
    said = list(summary("none", rows))
    assert "likeliest in 0, P(1) < .05 in 0" in said[1]
    assert "likeliest in 1, P(1) < .05 in 1" in said[2]
    assert said[3].endswith("several groups in 1")
