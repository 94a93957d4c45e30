"""Every Python block of the README and of docs/ runs as a test, in an empty folder of its own."""

import os
import tempfile
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Pages that need what docs/covariates.md compiles come last: at the same time both workers would compile it."""
    items.sort(key=lambda item: item.path.name == "power.md")
