"""Test configuration: float64, no silent broadcasting, and every annotated array checked as it crosses a border."""

import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import matplotlib
import numba
import pytest
from jaxtyping import install_import_hook

import plain_kernels

matplotlib.use("Agg")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Numba compiles plain functions, so modules of compiled loops keep theirs undecorated. Modules that annotate shapes are
# checked at every call; of the others mypy reads the types, and `make test-long` checks these too: 25 % slower
COMPILED = re.compile(r"^(from|import) (numba|manymotives\.jit)\b", re.MULTILINE)
SHAPED = re.compile(r"^from jaxtyping\b", re.MULTILINE)
CHECKS_ALL = "CHECK_ALL_TYPES" in os.environ


def _module_names() -> list[str]:
    root = Path(importlib.util.find_spec("manymotives").origin).parent
    texts = {path: path.read_text(encoding="utf-8") for path in root.rglob("*.py") if path.name != "__init__.py"}
    return [
        ".".join(("manymotives", *path.relative_to(root).with_suffix("").parts))
        for path, text in texts.items()
        if (CHECKS_ALL or SHAPED.search(text)) and not COMPILED.search(text)
    ]


if numba.config.DISABLE_JIT:
    plain_kernels.install(Path(importlib.util.find_spec("manymotives").origin).parent)
install_import_hook(_module_names(), "checked_types.checked")


def pytest_configure(config: pytest.Config) -> None:
    """Before several workers start on a fresh clone: compile once, in two processes, what both would compile."""
    if numba.config.DISABLE_JIT:  # compiled loops overflow without a word
        config.addinivalue_line("filterwarnings", "ignore::RuntimeWarning")
    root = Path(__file__).resolve().parent
    kept = root.parent / "src" / "manymotives" / "inference" / "mcmc" / "__pycache__"
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        return
    version = f"py{sys.version_info.major}{sys.version_info.minor}"  # each has code of its own
    if any(kept.glob(f"sweeps.hamiltonian_draws-*.{version}*.nbi")):
        return
    parts = [subprocess.Popen([sys.executable, root / "compile_first.py", part]) for part in ("hmc", "others")]
    for part in parts:
        part.wait()


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Pyplot keeps figures until somebody closes them, and warns of more than twenty."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")
