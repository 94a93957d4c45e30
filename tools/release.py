"""A release by one command: `make release`, or `make release DRY=1` for everything but the tag.

In: a clean checkout whose CHANGELOG.md has a section for the version in pyproject.toml. Out: a wheel and an sdist in
dist/ that were installed and used outside the checkout, in a fresh environment of each supported Python found here; a
table of what that took, in build/release.md; and last an annotated tag, which is not pushed.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
BESIDE_SOURCES = ("CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "pyproject.toml")
WRITTEN_BY_HATCH = ("PKG-INFO", ".gitignore")
REPORT_LIMIT = 90.0  # seconds from a wheel to a report, with compilation, that a quiet machine may take


class ReleaseError(Exception):
    """Why there is no release."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dry-run", action="store_true", help="everything but the tag")
    parser.add_argument(
        "--require", default="", metavar="3.11,3.12", help="versions of Python without which there is no release"
    )
    asked = parser.parse_args(arguments)
    try:
        release(ROOT, required=[version for version in asked.require.split(",") if version], tags=not asked.dry_run)
    except (ReleaseError, subprocess.CalledProcessError) as error:
        sys.exit(f"No release: {error}")


def release(root: Path, *, required: Sequence[str], tags: bool) -> None:
    """Check, build, install and use, tag: in this order, so that nothing is tagged that did not work."""
    version = checked_version(root)
    interpreters = {python: found for python in PYTHONS if (found := interpreter(python))}
    for python in dict.fromkeys((*PYTHONS, *required)):
        if python not in interpreters:
            if python in required:
                raise ReleaseError(f"Python {python} is required and was not found; install it")
            say(f"Python {python} was not found: the wheel is not tried there")
    if not interpreters:
        raise ReleaseError(f"none of Python {', '.join(PYTHONS)} was found")
    with tempfile.TemporaryDirectory(prefix="manymotives-release-") as folder:
        wheel, sdist = built(root, Path(folder))
        check_contents(root, wheel, sdist)
        rows = [row for python, found in interpreters.items() for row in used(wheel, version, python, found)]
        say(written(root / "build" / "release.md", version, rows))
        (root / "dist").mkdir(exist_ok=True)
        for made in (wheel, sdist):
            shutil.copy2(made, root / "dist")
            say(f"dist/{made.name}")
    if tags:
        run(["git", "tag", "--annotate", f"v{version}", "--message", f"manymotives {version}"], root)
        say(f"Tagged v{version}. Push it with: git push origin v{version}")
    else:
        say(f"Dry run: v{version} is not tagged")


def checked_version(root: Path) -> str:
    """The version in pyproject.toml, if the checkout is ready for it."""
    version = str(tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    if changed := output(["git", "status", "--porcelain"], root):
        raise ReleaseError(f"the tree is not clean; commit or remove\n{changed}")
    if output(["git", "tag", "--list", f"v{version}"], root):
        raise ReleaseError(f"v{version} is tagged already; set the next version in pyproject.toml")
    cited = re.search(r"^version: (.+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    if cited is None or cited[1] != version:
        raise ReleaseError(f"CITATION.cff has version {cited and cited[1]}, and pyproject.toml has {version}")
    sections = changelog(root / "CHANGELOG.md")
    heading = next((heading for heading in sections if heading.split()[0] == version), None)
    if heading is None or not sections[heading]:
        raise ReleaseError(f"CHANGELOG.md has no section '## {version} — YYYY-MM-DD', or an empty one")
    if re.fullmatch(rf"{re.escape(version)} — \d{{4}}-\d\d-\d\d", heading) is None:
        raise ReleaseError(f"CHANGELOG.md: write '## {version} — YYYY-MM-DD' instead of '## {heading}'")
    if sections.get("Unreleased"):
        raise ReleaseError(f"CHANGELOG.md has lines under Unreleased; move them to {version}")
    return version


def changelog(path: Path) -> dict[str, str]:
    """The text of each section, by its heading."""
    _, *parts = re.split(r"^## +", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    split = (part.partition("\n") for part in parts)
    return {heading.strip(): text.strip() for heading, _, text in split}


def interpreter(version: str) -> str | None:
    """A Python of this version: `python3.X` on the path, or one that pyenv has installed."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    named = shutil.which(f"python{version}")
    installed = sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))
    for candidate in (named, *map(str, reversed(installed))):
        if candidate is None:
            continue
        question = [candidate, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"]
        answer = subprocess.run(question, capture_output=True, text=True, check=False)
        if answer.returncode == 0 and answer.stdout.strip() == version:  # pyenv's shims exist for what is not active
            return candidate
    return None


def built(root: Path, folder: Path) -> tuple[Path, Path]:
    """A wheel made from an sdist, and that sdist; their metadata checked."""
    run([sys.executable, "-m", "build", "--outdir", str(folder), str(root)], folder)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    run([sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)], folder)
    return wheel, sdist


def check_contents(root: Path, wheel: Path, sdist: Path) -> None:
    """The wheel holds all files of the package that git knows, and no others; the sdist, these and a few texts."""
    sources = set(output(["git", "ls-files", "src/manymotives"], root).splitlines())
    with zipfile.ZipFile(wheel) as archive:
        names = {f"src/{name}" for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as archive:
        packed = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    for kind, found, wanted in (
        ("wheel", names, sources),
        ("sdist", packed - set(WRITTEN_BY_HATCH), sources | set(BESIDE_SOURCES)),
    ):
        if found != wanted:
            lacks, extra = sorted(wanted - found), sorted(found - wanted)
            raise ReleaseError(f"the {kind} lacks {lacks} and holds {extra}, which it should not")
    typed = {"src/manymotives/py.typed", "src/manymotives/__init__.pyi"}
    if not typed <= sources:
        raise ReleaseError(f"type checkers need {sorted(typed - sources)}")


@dataclass(frozen=True)
class Row:
    """What one step took under one Python."""

    python: str
    step: str
    wall: float
    cpu: float


def used(wheel: Path, version: str, python: str, interpreter: str) -> list[Row]:
    """Install the wheel in a fresh environment far from the checkout, and make the demo's report there."""
    rows: list[Row] = []
    hidden = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "NUMBA_CACHE_DIR", "VIRTUAL_ENV", "PYENV_VERSION"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    with tempfile.TemporaryDirectory(prefix=f"manymotives-{python}-") as name:
        folder = Path(name)
        binaries = folder / "venv" / "bin"

        def timed(step: str, *command: str | Path) -> None:
            say(f"Python {python}: {step}")
            wall, cpu = time.monotonic(), children_seconds()
            run([str(part) for part in command], folder, environment)
            rows.append(Row(python, step, time.monotonic() - wall, children_seconds() - cpu))

        timed("environment", interpreter, "-m", "venv", folder / "venv")
        timed("install", binaries / "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
        run([str(binaries / "pip"), "check"], folder, environment)
        printed = "import manymotives; print(manymotives.__version__, manymotives.__file__)"
        found, home = output([str(binaries / "python"), "-c", printed], folder, environment).split(maxsplit=1)
        if found != version or folder.resolve() not in Path(home).resolve().parents:
            raise ReleaseError(f"Python {python} imports manymotives {found} from {home}, not the wheel of {version}")
        timed("demo, with compilation", binaries / "manymotives", "demo", "--out", "demo")
        timed("demo, compiled", binaries / "manymotives", "demo", "--out", "again")
        if not (folder / "demo" / "report.html").read_text(encoding="utf-8").rstrip().endswith("</html>"):
            raise ReleaseError(f"Python {python}: the demo's report is not whole")
    return rows


def written(path: Path, version: str, rows: Sequence[Row]) -> str:
    """The table of what installing and using the wheel took, as a page."""
    lines = [
        f"# manymotives {version}: from a wheel to a report",
        "",
        f"On {os.cpu_count()} cores, packages downloaded or from pip's cache; seconds.",
        "",
        "| Python | step | wall | CPU |",
        "|---|---|---:|---:|",
    ]
    for python in dict.fromkeys(row.python for row in rows):
        mine = [row for row in rows if row.python == python]
        first = mine[:3]  # without the second demo
        total = Row(python, "**wheel to report**", sum(row.wall for row in first), sum(row.cpu for row in first))
        lines += [f"| {row.python} | {row.step} | {row.wall:.1f} | {row.cpu:.1f} |" for row in (*mine, total)]
        if total.wall > REPORT_LIMIT:
            lines.append(
                f"| {python} | more than {REPORT_LIMIT:.0f} s: was the machine busy, or the network slow? | | |"
            )
    text = "\n".join(lines) + "\n"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return text


def children_seconds() -> float:
    """CPU seconds of the processes this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> None:
    subprocess.run(command, cwd=folder, env=environment, check=True)


def output(command: Sequence[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    return subprocess.run(
        command, cwd=folder, env=environment, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main()
