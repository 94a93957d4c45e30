"""Every Python block of the README and of docs/ runs as a test, in an empty folder of its own."""

import os
import tempfile
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

matplotlib.use("Agg")


def _enter(namespace: dict[str, Any]) -> None:
    namespace["_home"], namespace["_folder"] = os.getcwd(), tempfile.TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def _leave(namespace: dict[str, Any]) -> None:
    plt.close("all")
    os.chdir(namespace["_home"])
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser()], patterns=["README.md", "docs/*.md"], setup=_enter, teardown=_leave
).pytest()
