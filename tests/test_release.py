"""A release is refused where it should be, and what is installed holds what type checkers and reports need."""

import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
from tools.release import ReleaseError, changelog, check_contents, checked_version, interpreter

import manymotives as mm

ROOT = Path(__file__).resolve().parents[1]
READY = {
    "pyproject.toml": '[project]\nversion = "1.2.0"\n',
    "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.0\n",
    "CHANGELOG.md": "## Unreleased\n\n## 1.2.0 — 2026-11-18\n\n- Faster.\n\n## 1.1.0 — 2026-01-02\n\n- New.\n",
}
SCRIPT = '''
"""What a user may write: every step of an analysis, with the types that it says it has."""

from pathlib import Path

import numpy as np
import pandas as pd

import manymotives as mm

version: str = mm.__version__
environment: mm.Environment = mm.worlds.GridWorld((3, 3), slip=0.1, discount=0.9)
rewards = np.random.default_rng(0).dirichlet(np.full(9, 0.3), size=6)
choices: mm.Demonstrations = mm.simulate(environment, rewards, mm.Softmax(inverse_temperature=5.0), steps=30, seed=0)
model = mm.RewardPolicyModel(mm.DirichletReward(), mm.Softmax(), mm.Hierarchical())
posterior = mm.fit(model, environment, choices, mm.HMC(chains=2), seed=0, progress=False)
table: pd.DataFrame = posterior.to_frame()
warnings: list[str] = list(posterior.warnings)
page: Path = mm.report(posterior, "field.html")
posterior.save("field.nc")
again = mm.load("field.nc")
figure = mm.plots.rewards(posterior)
figure.savefig("rewards.png")
'''
WRONG = """
import manymotives as mm

environment: mm.Demonstrations = mm.worlds.GridWorld((3, 3))
mm.no_such_name
mm.Softmax(temperature=5.0)
"""


@pytest.fixture
def checkout(tmp_path):
    """A repository that is ready for release 1.2.0."""
    for name, text in READY.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    _git(tmp_path, "init", "--quiet")
    _commit(tmp_path)
    return tmp_path


def test_a_clean_checkout_with_its_changelog_is_ready(checkout):
    assert checked_version(checkout) == "1.2.0"


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "CITATION.cff",
            "version: 1.2.0\n",
            "version: 1.1.0\n",
            "CITATION.cff has version 1.1.0, and pyproject.toml has",
        ),
        ("CHANGELOG.md", "## 1.2.0 — 2026-11-18", "## 1.2.1 — 2026-11-18", "has no section '## 1.2.0 — YYYY-MM-DD'"),
        ("CHANGELOG.md", "- Faster.\n", "", "or an empty one"),
        ("CHANGELOG.md", "1.2.0 — 2026-11-18", "1.2.0 (soon)", "instead of '## 1.2.0 (soon)'"),
        (
            "CHANGELOG.md",
            "## Unreleased\n",
            "## Unreleased\n\n- Late.\n",
            "has lines under Unreleased; move them to 1.2.0",
        ),
    ],
)
def test_what_is_not_ready_is_refused(checkout, name, old, new, message):
    text = READY[name].replace(f"\n{old}", f"\n{new}") if old.startswith("version") else READY[name].replace(old, new)
    (checkout / name).write_text(text, encoding="utf-8")
    _commit(checkout)
    with pytest.raises(ReleaseError, match=re.escape(message)):
        checked_version(checkout)


def test_a_changed_tree_is_refused(checkout):
    (checkout / "notes.txt").write_text("later", encoding="utf-8")
    with pytest.raises(ReleaseError, match=r"not clean; commit or remove\n\?\? notes\.txt"):
        checked_version(checkout)


def test_a_version_is_released_once(checkout):
    _git(checkout, "tag", "v1.2.0")
    with pytest.raises(ReleaseError, match="tagged already; set the next version"):
        checked_version(checkout)


def test_this_python_is_found_and_one_that_is_not_there_is_not():
    assert interpreter(f"{sys.version_info.major}.{sys.version_info.minor}")
    assert interpreter("3.99") is None


def test_versions_agree():
    """What users read in four places."""
    version = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]
    released = [heading for heading in changelog(ROOT / "CHANGELOG.md") if heading != "Unreleased"]
    assert released[0].split()[0] == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert isinstance(mm.__version__, str)


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def test_packages_hold_the_sources_and_nothing_else(packages):
    check_contents(ROOT, *packages)


def test_an_incomplete_wheel_is_refused(packages, tmp_path):
    wheel, sdist = packages
    less = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as full, zipfile.ZipFile(less, "w") as part:
        for name in full.namelist():
            if not name.endswith("style.css"):
                part.writestr(name, full.read(name))
        part.writestr("tests/test_release.py", "")
    with pytest.raises(ReleaseError, match=r"lacks \['src/manymotives/reporting/style.css'\] and holds \['src/tests/"):
        check_contents(ROOT, less, sdist)


@pytest.mark.long  # mypy reads JAX, pandas and Matplotlib: half a minute or more
def test_programs_are_type_checked_against_the_installed_package(packages, tmp_path):
    """The wheel is installed beside its dependencies, in an environment of its own; the checkout is not on its path."""
    home = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True)
    site = home / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
    with zipfile.ZipFile(packages[0]) as wheel:
        wheel.extractall(site)
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    assert _mypy(tmp_path, SCRIPT) == (0, [])
    status, errors = _mypy(tmp_path, WRONG)
    assert status == 1
    assert errors == ["assignment", "attr-defined", "call-arg"]


def _mypy(folder: Path, script: str) -> tuple[int, list[str]]:
    """The exit status of `mypy --strict`, and the codes of its errors."""
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--config-file", "", "script.py"]
    environment = {"MYPY_CACHE_DIR": str(folder / "cache"), "PATH": "/usr/bin:/bin"}
    command += ["--python-executable", str(folder / "venv" / "bin" / "python")]
    found = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert found.stderr == ""
    return found.returncode, re.findall(r"error: .*\[([\w-]+)\]$", found.stdout, re.MULTILINE)


def _commit(folder: Path) -> None:
    _git(folder, "add", "--all")
    _git(folder, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "--quiet", "--message", "Change")


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True)
