"""Compiled code is kept on disk, and none of it outlives a change of what it was compiled from."""

import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import manymotives
from manymotives.jit import CacheIndex, _compiler, compiled, digest_of_sources, inner, inner_any_order

SOURCES = Path(manymotives.__file__).parent


def package(folder, **texts):
    root = folder / "manymotives"
    root.mkdir()
    for name, text in texts.items():
        (root / f"{name}.py").write_text(text)
    return root


LOOPS = "from manymotives.jit import compiled\nfrom manymotives.numbers import SIZE\n"


@pytest.mark.parametrize(
    ("name", "is_seen"), [("loops", True), ("direct", True), ("numbers", True), ("words", False), ("jit", True)]
)
def test_the_digest_is_of_loops_and_what_they_import(name, is_seen, tmp_path):
    texts = {
        "jit": "from numba import njit",
        "loops": LOOPS,
        "direct": "import numba",
        "numbers": "SIZE = 1",
        "words": "from manymotives.numbers import SIZE",
    }
    before = digest_of_sources(package(tmp_path, **texts))
    (tmp_path / "other").mkdir()
    after = digest_of_sources(package(tmp_path / "other", **texts | {name: texts[name] + "\n# changed"}))
    assert (before != after) == is_seen


@pytest.mark.long
def test_a_change_in_what_is_called_is_compiled(tmp_path):
    """A copy of the package; a function of one file changes, and the loops of another that call it follow."""
    shutil.copytree(SOURCES, tmp_path / "manymotives", ignore=shutil.ignore_patterns("__pycache__"))
    constant = tmp_path / "manymotives" / "constant.py"
    (tmp_path / "manymotives" / "loop.py").write_text(
        "from manymotives.constant import doubled\n"
        "from manymotives.jit import compiled\n"
        "@compiled\ndef twice(x):\n    return doubled(x)\n"
    )

    def answer(text):
        constant.write_text(f"from manymotives.jit import inner\n@inner\ndef doubled(x):\n    return {text}\n")
        probe = "from manymotives.loop import twice; print(twice(3), sum(twice.stats.cache_hits.values()))"
        found = subprocess.run([sys.executable, "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True)
        return found.stdout.split()

    assert answer("2 * x") == ["6", "0"]
    assert answer("2 * x") == ["6", "1"]  # kept
    assert answer("20 * x") == ["60", "0"]  # and not for long


@pytest.mark.parametrize(
    "entries", [b"cmanymotives.families\nMoved\n.", b"cmanymotives.moved\nState\n.", b"not a pickle"]
)
def test_an_index_of_classes_that_have_moved_is_as_good_as_none(entries, tmp_path):
    """As the files of an earlier version are, beside which a new one was installed."""
    index = CacheIndex(str(tmp_path), "sweeps.draws", source_stamp="now")
    Path(index._index_path).write_bytes(pickle.dumps(index._version) + entries)
    assert index.load("key") is None
    index.save("key", [1, 2])
    assert CacheIndex(str(tmp_path), "sweeps.draws", source_stamp="now").load("key") == [1, 2]


@pytest.mark.parametrize(
    ("version", "has_own"), [("0.61.2", False), ("0.62.1", False), ("0.68.1", True), ("1.0.0", False)]
)
def test_the_insides_of_an_untested_numba_are_left_alone(version, has_own, monkeypatch):
    """With 0.61 and 0.62 they were seen to differ."""
    monkeypatch.setattr(numba, "__version__", version)
    assert (_compiler("InnerCompiler") != {}) == has_own


@inner_any_order
def total_of(x):
    total = 0.0
    for each in x:
        total += each
    return total


@inner
def root_of_total(x):
    total = total_of(x)
    if total < 0.0:
        raise ValueError("a negative total")
    print("total", total)
    return np.sqrt(total)


@compiled
def two_roots(x, y):
    return root_of_total(x) + root_of_total(y), total_of(x)


def test_inner_functions_run_in_those_that_call_them(capfd):
    """Though they have no machine code of their own: results, errors and what they print."""
    assert two_roots(np.ones(4), np.full(3, 3.0)) == (5.0, 4.0)
    assert capfd.readouterr().out.split() == ["total", "4.0", "total", "9.0"]
    with pytest.raises(ValueError, match="a negative total"):
        two_roots(np.ones(4), -np.ones(4))
