"""Files are whole or not there, and what killed processes left is tidied up, but nothing else."""

import os
import subprocess
import sys
from contextlib import suppress

from manymotives.io.atomic import HERE, whole_file


def test_a_file_appears_at_the_end_or_not_at_all(tmp_path):
    path = tmp_path / "run.nc"
    with suppress(ZeroDivisionError), whole_file(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())
    with whole_file(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
    assert [found.name for found in tmp_path.iterdir()] == ["run.nc"]


def test_what_killed_processes_left_is_removed_and_what_others_write_is_not(tmp_path):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f".run[1].nc.{HERE}-{gone.pid}-abc.tmp"
    kept = [
        tmp_path / f".run[1].nc.{HERE}-{os.getpid()}-abc.tmp",  # somebody writes it now
        tmp_path / f".run[1].nc.00000000-{gone.pid}-abc.tmp",  # a process of another machine
        tmp_path / f".run1.nc.{HERE}-{gone.pid}-abc.tmp",  # for another path
    ]
    for file in (left, *kept):
        file.touch()
    with whole_file(tmp_path / "run[1].nc"):
        pass
    assert {found.name for found in tmp_path.iterdir()} == {"run[1].nc", *(file.name for file in kept)}
