"""The names at the top: few, all of them on their page, and found where the page says."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
import typing
from importlib import import_module
from importlib.resources import files
from pathlib import Path

import pytest

import manymotives as mm
from manymotives.cli import SUMMARIES

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "api.md").read_text(encoding="utf-8")


def test_there_are_at_most_54_names():
    assert len(set(mm.__all__)) == len(mm.__all__) <= 54


@pytest.mark.parametrize("name", mm.__all__)
def test_every_name_exists_and_has_a_line_on_its_page(name):
    assert hasattr(mm, name)
    assert re.search(rf"^\| `mm\.{name}` \| \S", PAGE, re.MULTILINE)


def test_the_page_names_nothing_else():
    assert set(re.findall(r"`mm\.(\w+)", PAGE)) == set(mm.__all__)


@pytest.mark.parametrize("path", re.findall(r"`(manymotives\.[\w.]+)`", PAGE))
def test_types_are_where_the_page_says(path):
    module, _, name = path.rpartition(".")
    assert isinstance(getattr(importlib.import_module(module), name), type)


@pytest.mark.parametrize("group", ["io", "optimality", "plots"])
def test_groups_list_what_they_have(group):
    row = re.search(rf"^\| `mm\.{group}` \| (.*)\|$", PAGE, re.MULTILINE)[1]
    assert set(re.findall(r"`(\w+)`", row)) == set(getattr(mm, group).__all__)


@pytest.mark.parametrize(
    "function",
    [
        value
        for group in (mm, mm.plots)
        for value in map(group.__dict__.get, group.__all__)
        if inspect.isfunction(value)
    ],
    ids=lambda function: function.__name__,
)
def test_public_functions_say_what_they_take(function):
    hints = typing.get_type_hints(inspect.unwrap(function))
    assert hints.keys() == {*inspect.signature(function).parameters, "return"}
    assert [name for name, kind in hints.items() if kind is typing.Any and name != "return"] == []


def test_the_package_says_that_it_is_typed():
    assert (files("manymotives") / "py.typed").is_file()


def test_texts_name_only_what_exists():
    """Messages, docstrings and documentation: every mm.name, and every mm.group.name, can be typed."""
    root = Path(__file__).resolve().parents[1]
    texts = [*root.glob("src/manymotives/**/*.py"), *root.glob("docs/*.md"), root / "README.md"]
    for path in texts:
        for name, inner in re.findall(r"\bmm\.(\w+)(?:\.(\w+))?", path.read_text(encoding="utf-8")):
            found = getattr(mm, name, None)
            assert name in mm.__all__, (path.name, name)
            if inspect.ismodule(found) and not inner.isupper():  # NAME stands for any
                assert not inner or hasattr(found, inner), (path.name, name, inner)


def test_type_checkers_are_told_the_same_names():
    stub = ast.parse((Path(mm.__file__).parent / "__init__.pyi").read_text(encoding="utf-8"))
    told = {
        (alias.name, node.module.removeprefix("manymotives").removeprefix("."))
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    known = {(name, home) for home, names in mm.HOMES.items() for name in names}
    assert told == known | {(name, "") for name in (*mm.MODULES, "errors")}
    exported = next(node for node in stub.body if isinstance(node, ast.Assign))
    assert sorted(ast.literal_eval(exported.value)) == sorted(mm.__all__)
    assert all(hasattr(mm, name) for name in mm.__all__)


def test_importing_is_quick():
    """Not by the clock, which others share, but by what is imported: nothing that takes long."""
    asked = "import sys, manymotives, manymotives.cli; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    assert not {"jax", "numba", "matplotlib", "arviz_stats", "xarray", "pandas", "numpy"} & set(found)


def test_planning_and_models_need_no_jax():
    """It is imported for those who have arrays of it, and ArviZ where draws are diagnosed."""
    asked = (
        "import sys, manymotives as mm; env = mm.worlds.Chain(states=3, discount=0.9); mm.plan(env, [1.0, 0.0, 0.0]); "
        "mm.HMC(), mm.RewardPolicyModel(); print(*sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()
    assert not {"jax", "matplotlib", "arviz_stats", "scipy.stats"} & set(found)


@pytest.mark.parametrize("name", SUMMARIES)
def test_commands_are_summed_up_by_their_docstrings(name):
    function = getattr(import_module(f"manymotives.commands.{name}"), name)
    assert inspect.getdoc(function).split("\n\n")[0].replace("\n", " ") == SUMMARIES[name]


def test_every_command_is_listed():
    folder = Path(mm.__file__).parent / "commands"
    made = {path.stem for path in folder.glob("*.py") if f"\ndef {path.stem}(\n" in path.read_text(encoding="utf-8")}
    assert made == set(SUMMARIES)
