"""The command line, as a person uses it."""

import signal
import subprocess
import sys

import pandas as pd
import pytest
from typer.testing import CliRunner

import manymotives as mm
from manymotives.cli import app
from manymotives.interruption import is_the_program

run = CliRunner().invoke


@pytest.fixture
def in_a_hurry(monkeypatch):
    """Chains too short to trust, for tests of what surrounds them."""
    monkeypatch.setattr("manymotives.demo.HMC", lambda **settings: mm.HMC(draws=20, warmup=20, thin=1, max_rounds=1))


def test_demo_infers_what_subjects_want_and_leaves_tables_and_pictures(tmp_path, in_a_hurry):
    result = run(app, ["demo", "--out", str(tmp_path / "out"), "--tasks", "4", "--steps", "20"])
    assert result.exit_code == 0, result.output
    assert "What 4 subjects want, inferred from 20 steps each" in result.output
    assert "subject 4" in result.output
    choices = pd.read_csv(tmp_path / "out" / "choices.csv")
    assert len(choices) == 80
    for picture in ("maps.png", "intervals.png"):
        assert (tmp_path / "out" / picture).stat().st_size > 10_000
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "choices.csv",
        "environment.csv",
        "intervals.png",
        "maps.png",
        "posterior.nc",
        "report.html",
        "rewards.csv",
        "subjects.csv",
        "truth.csv",
    }
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "4 simulated subjects in an open field" in page
    assert "A diamond is the truth" in page
    assert result.output.strip().endswith("open it in a browser")
    loaded = mm.load(tmp_path / "out" / "posterior.nc")
    assert loaded.tasks == ("subject 1", "subject 2", "subject 3", "subject 4")


@pytest.mark.long
def test_demo_gives_the_same_results_for_the_same_seed(tmp_path, in_a_hurry):
    for name in ("one", "two"):
        arguments = ["demo", "--out", str(tmp_path / name), "--tasks", "2", "--steps", "10", "--seed", "7"]
        assert run(app, arguments).exit_code == 0
    for file in ("choices.csv", "rewards.csv"):
        first, second = ((tmp_path / name / file).read_bytes() for name in ("one", "two"))
        assert first == second


@pytest.mark.long
def test_many_tasks_are_cut_short_on_the_screen(tmp_path, in_a_hurry):
    result = run(app, ["demo", "--out", str(tmp_path), "--tasks", "22", "--steps", "5"])
    assert "… and 2 more subjects" in result.output
    assert len(pd.read_csv(tmp_path / "subjects.csv")) == 22


def test_a_folder_that_cannot_be_written_is_an_error_without_a_traceback(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    result = run(app, ["demo", "--out", str(blocked), "--tasks", "2", "--steps", "5"])
    assert result.exit_code == 2
    assert "Cannot write to" in result.output


def test_help_lists_the_commands():
    result = run(app, ["--help"])
    assert result.exit_code == 0
    assert "demo" in result.output


PROBE = """
import runpy, sys
import jax
before = jax.config.jax_enable_x64
sys.argv = ["manymotives", "--help"]
try:
    runpy.run_module("manymotives", run_name="__main__", alter_sys=True)
finally:
    assert jax.config.jax_enable_x64 == before
"""


def test_the_package_is_a_program_too_and_leaves_jax_as_it_was():
    """As `python -m manymotives` runs it; neither precision nor devices change by an import."""
    found = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True)
    assert "Usage: python -m manymotives" in found.stdout
    assert "reproduce" in found.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
@pytest.mark.parametrize(
    ("way", "module"),
    [("script", "typer"), *(pytest.param(way, "numpy", marks=pytest.mark.long) for way in ("module", "script"))],
)
def test_ctrl_c_during_the_imports_is_one_line(way, module, tmp_path):
    script = tmp_path / "manymotives"
    script.write_text("import sys\nfrom manymotives.cli import app\nsys.exit(app())\n")
    program = ["-m", "manymotives"] if way == "module" else [str(script)]
    command = [sys.executable, "-X", "importtime", *program, "demo", "--out", str(tmp_path / "out")]
    # background jobs are started with Ctrl-C ignored, and what they start would be too
    heeding = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.argv[1], sys.argv[1:])"
    )
    with subprocess.Popen([sys.executable, "-c", heeding, *command], stderr=subprocess.PIPE, text=True) as process:
        for line in process.stderr:  # one for each module, when it is there
            if line.rstrip().endswith(f" {module}"):
                break
        process.send_signal(signal.SIGINT)
        said = [line for line in process.stderr.read().splitlines() if not line.startswith("import time:")]
    assert process.returncode == 130
    assert said == ["Stopped."]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("argv", "started", "expected"),
    [
        (["/bin/manymotives", "fit"], ["python", "/bin/manymotives", "fit"], True),
        (["-m", "fit"], ["python", "-m", "manymotives", "fit"], True),
        (["-m", "tests"], ["python", "-m", "pytest", "tests"], False),
        (["study.py", "manymotives"], ["python", "study.py", "manymotives"], False),
        (["/bin/manymotives", "fit"], ["python", "-c", "from multiprocessing.spawn import spawn_main"], False),
        ([""], ["python"], False),
    ],
)
def test_who_imports_the_library_keeps_its_signals(argv, started, expected, monkeypatch):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", started)
    assert is_the_program() is expected
