"""Versions are known before the work, and where nothing is installed."""

import importlib.metadata
import tomllib
from pathlib import Path

import numpy as np
import pytest

import manymotives as mm
from manymotives.versions import version_of


@pytest.fixture
def not_installed(monkeypatch):
    """A source tree on the path, whose metadata nobody has written."""
    known = importlib.metadata.distribution

    def found(name):
        if name == "manymotives":
            raise importlib.metadata.PackageNotFoundError(name)
        return known(name)

    monkeypatch.setattr(importlib.metadata, "distribution", found)


def test_a_fit_ends_where_the_package_is_not_installed(not_installed, tmp_path):
    chain = mm.worlds.Chain(states=3)
    choices = mm.simulate(chain, np.eye(3)[[0]], mm.Softmax(4.0), steps=5)
    quick = mm.Metropolis(chains=1, draws=5, warmup=5, thin=1)
    posterior = mm.fit(mm.RewardPolicyModel(), chain, choices, quick, progress=False)
    assert posterior.data.attrs["manymotives_version"]
    assert mm.report(posterior, tmp_path / "page.html").exists()


def test_a_source_tree_knows_its_version(not_installed):
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert version_of("manymotives") == project["version"]
    assert version_of("nobody-has-ever-written-this") == "unknown"
