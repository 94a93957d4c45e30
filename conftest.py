"""Every Python block of the README and of docs/ runs as a test, in an empty folder of its own."""

import os
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser
from threadpoolctl import threadpool_limits
from website.outputs import recorded, wants_recording

matplotlib.use("Agg")
# workers of pytest fill the cores already, and threads of linear algebra that wait for each other take twice as long
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # in workers, in processes that tests start, in what is loaded later
threadpool_limits(int(os.environ["OPENBLAS_NUM_THREADS"]), "blas")
LONG = (
    "bus-engines.md",
    "frozen-lake.md",
    "many-teachers.md",
    "maze-experiment.md",
    "who-differs.md",
)  # tutorials that take half a minute or more


class Evaluator(PythonEvaluator):
    """Runs a block; where the documentation site is made, what it prints and draws is recorded."""

    def __call__(self, example: Example) -> None:
        page = Path(example.path)
        if wants_recording(page):
            with recorded(page, example.start):
                super().__call__(example)
        else:
            super().__call__(example)
        plt.close("all")  # a page with many pictures would open too many at once


def _enter(namespace: dict[str, Any]) -> None:
    namespace["_home"], namespace["_folder"] = os.getcwd(), tempfile.TemporaryDirectory()
    os.chdir(namespace["_folder"].name)


def _leave(namespace: dict[str, Any]) -> None:
    os.chdir(namespace["_home"])
    namespace["_folder"].cleanup()


pytest_collect_file = Sybil(
    parsers=[CodeBlockParser(language="python", evaluator=Evaluator())],
    patterns=["README.md", "docs/*.md", "docs/reference/*.md", "docs/tutorials/*.md"],
    setup=_enter,
    teardown=_leave,
).pytest()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pages that need what docs/covariates.md compiles come last: at the same time both workers would compile it."""
    for item in items:
        if item.path.name in LONG:
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: item.path.name == "power.md")
