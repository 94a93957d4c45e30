"""Test configuration: float64, no silent broadcasting, and every annotated array checked as it crosses a border."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import jax
import matplotlib
import pytest
from jaxtyping import install_import_hook

matplotlib.use("Agg")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Numba compiles plain functions, so modules of compiled loops keep theirs undecorated
COMPILED = {
    "manymotives.baselines.walks",
    "manymotives.families",
    "manymotives.inference.carry",
    "manymotives.inference.environment_moves",
    "manymotives.inference.exchanges",
    "manymotives.inference.faint",
    "manymotives.inference.integral_kernels",
    "manymotives.inference.latent",
    "manymotives.inference.paths",
    "manymotives.inference.populations",
    "manymotives.inference.sweeps",
    "manymotives.inference.trials",
    "manymotives.models.gradient",
    "manymotives.models.likelihood",
    "manymotives.noncentred",
    "manymotives.planning.addresses",
    "manymotives.planning.kernels",
    "manymotives.planning.lanes",
    "manymotives.planning.loss_kernels",
    "manymotives.planning.updates",
    "manymotives.planning.factors",
    "manymotives.planning.warm",
    "manymotives.worlds.walks",
}


def _module_names() -> list[str]:
    root = Path(importlib.util.find_spec("manymotives").origin).parent
    names = [".".join(("manymotives", *path.relative_to(root).with_suffix("").parts)) for path in root.rglob("*.py")]
    return [name for name in names if name not in COMPILED and not name.endswith("__init__")]


install_import_hook(_module_names(), "beartype.beartype")


def pytest_configure(config: pytest.Config) -> None:
    """Before several workers start on a fresh clone: compile once, in two processes, what both would compile."""
    root = Path(__file__).resolve().parent
    kept = root.parent / "src" / "manymotives" / "inference" / "__pycache__"
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        return
    if any(kept.glob("sweeps.hamiltonian_draws*.nbi")):
        return
    parts = [subprocess.Popen([sys.executable, root / "compile_first.py", part]) for part in ("paths", "others")]
    for part in parts:
        part.wait()
