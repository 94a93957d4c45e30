"""The reference: every public name is on a page, with its parameters, what it returns, and an example that uses it."""

import inspect
import re
from functools import cache
from pathlib import Path

import griffe
import pytest

import manymotives as mm
import manymotives.posterior

ROOT = Path(__file__).resolve().parents[1]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "reference").glob("*.md")))
ENTRIES = re.findall(r"^::: (\S+)((?: \w+)*)\n(.*?)(?=^:::|\Z)", TEXT, flags=re.DOTALL | re.MULTILINE)
EXAMPLES = {name.removeprefix("mm."): text for name, _, text in ENTRIES}
MEMBERS = {name: members.split() for name, members, _ in ENTRIES if members}

NAMES = [name for name in mm.__all__ if name not in mm.MODULES]
GROUPED = [f"{group}.{name}" for group in mm.MODULES for name in getattr(mm, group).__all__]
RESULTS = {  # made by the library, never by users: their guides say what they hold
    "findings.Clusters",
    "findings.FeatureWeights",
    "findings.Identification",
    "findings.Learning",
    "findings.PredictiveCheck",
    "findings.Sample",
    "findings.SharedMotives",
    "findings.Similarity",
}


def found(name):
    """The object of a name behind `mm.`, or of a full path."""
    thing = manymotives if name.startswith("manymotives.") else mm
    for part in name.removeprefix("manymotives.").split("."):
        thing = getattr(thing, part)
    return inspect.unwrap(thing)


@cache
def parser():
    return griffe.Parser.numpy


def sections_of(thing):
    docstring = griffe.Docstring(inspect.getdoc(thing) or "", parent=None)
    return {part.kind.value: part.value for part in docstring.parse(parser(), warnings=False)}


def described(thing):
    """Names of parameters or attributes that the docstring describes."""
    listed = [line for kind in ("parameters", "attributes") for line in sections_of(thing).get(kind, [])]
    return {name.strip().lstrip("*") for line in listed for name in line.name.split(",")}


@pytest.mark.parametrize("name", [*NAMES, *(name for name in GROUPED if name not in RESULTS)])
def test_every_public_name_has_its_parts(name):
    thing = found(name)
    signature = inspect.signature(thing)
    assert inspect.getdoc(thing)
    assert described(thing) == set(signature.parameters)
    if not inspect.isclass(thing):
        assert "returns" in sections_of(thing)


@pytest.mark.parametrize("name", [*NAMES, *GROUPED])
def test_every_public_name_is_in_the_reference_with_an_example(name):
    assert name in EXAMPLES
    if name not in RESULTS and name != "baselines.Result":
        blocks = re.findall(r"^```python\n(.*?)^```", EXAMPLES[name], flags=re.DOTALL | re.MULTILINE)
        assert any(re.search(rf"\bmm\.{re.escape(name)}\b", block) for block in blocks)


@pytest.mark.parametrize("group", mm.MODULES)
def test_every_group_is_in_the_reference(group):
    assert f"## mm.{group}\n" in TEXT or f"`mm.{group}`: " in TEXT


@pytest.mark.parametrize(
    ("owner", "member"), [(owner, member) for owner, members in MEMBERS.items() for member in members]
)
def test_members_have_their_parts(owner, member):
    kind = found(owner.removeprefix("mm."))
    if member in getattr(kind, "__dataclass_fields__", {}):
        return
    thing = inspect.getattr_static(kind, member)
    assert inspect.getdoc(thing)
    function = getattr(thing, "__func__", thing)
    if inspect.isfunction(function):
        assert described(function) == set(inspect.signature(function).parameters) - {"self", "cls"}
        assert "returns" in sections_of(function) or inspect.signature(function).return_annotation is None


@pytest.mark.parametrize("kind", ["Posterior", *manymotives.posterior.__all__])
def test_every_kind_of_posterior_is_in_the_reference(kind):
    if kind not in ("Partition", "Summary"):
        assert f"manymotives.posterior.{kind}" in MEMBERS
