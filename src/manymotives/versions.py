"""The version of a package, also where it is used from its source tree without being installed."""

import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

UNKNOWN = "unknown"


def version_of(name: str) -> str:
    """What the installed package says; for manymotives also what its source tree does; else "unknown"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return _in_source_tree(name)


def _in_source_tree(name: str) -> str:
    try:
        project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    except (OSError, KeyError, ValueError):
        return UNKNOWN
    return str(project.get("version", UNKNOWN)) if project.get("name") == name else UNKNOWN


MANYMOTIVES = version_of("manymotives")  # read on import, so that no fit ends in failing to
