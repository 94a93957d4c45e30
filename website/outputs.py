"""What the code of a page prints and draws, recorded by the run that tests it: build/outputs, a folder for each page.

The tests of pages call `recorded` around every block where RECORD_OUTPUTS is set. `python -m website.outputs` tests the
pages whose recordings are older than their code or than the library; the site shows recordings that are current.
"""

import contextlib
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
FOLDER = ROOT / "build" / "outputs"
FOLDERS_OF_PAGES = (".", "reference", "tutorials")
BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
KEY = "key"


class Output(NamedTuple):
    """What one block printed, and the pictures that it drew."""

    text: str
    pictures: list[Path]


def pages() -> list[Path]:
    """Pages of the site that have code in them."""
    found = [page for folder in FOLDERS_OF_PAGES for page in sorted((DOCS / folder).glob("*.md"))]
    return [page for page in found if BLOCK.search(page.read_text(encoding="utf-8"))]


def recording_of(page: Path) -> list[Output] | None:
    """The output of every block of a page; None where nothing current was recorded."""
    folder = _folder(page)
    text = page.read_text(encoding="utf-8")
    key = folder / KEY
    if not key.is_file() or key.read_text() != _key(text):
        return None
    return [
        Output((folder / f"{number}.txt").read_text(encoding="utf-8"), sorted(folder.glob(f"{number}-*.png")))
        for number in range(len(BLOCK.findall(text)))
    ]


@contextlib.contextmanager
def recorded(page: Path, position: int) -> Iterator[None]:
    """Around the run of the block that starts at a position in the text of its page; blocks run in their order."""
    import matplotlib.pyplot as plt
    import pandas as pd

    text = page.read_text(encoding="utf-8")
    folder, number = _folder(page), len(BLOCK.findall(text[:position]))
    if number == 0:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    before, printed = set(plt.get_fignums()), io.StringIO()
    wide = pd.option_context("display.width", 130, "display.max_columns", 20)  # pages scroll; "..." hides estimates
    with contextlib.redirect_stdout(printed), wide:
        yield
    (folder / f"{number}.txt").write_text(printed.getvalue(), encoding="utf-8")
    for place, figure in enumerate(sorted(set(plt.get_fignums()) - before)):
        plt.figure(figure).savefig(folder / f"{number}-{place}.png", dpi=110, bbox_inches="tight")
    if number + 1 == len(BLOCK.findall(text)):
        (folder / KEY).write_text(_key(text))


def wants_recording(page: Path) -> bool:
    """Whether a test of this page should record: it is a page of the site, and somebody asked."""
    return "RECORD_OUTPUTS" in os.environ and page.is_relative_to(DOCS)


def main() -> int:
    """Test, and record, what is not current."""
    stale = [page for page in pages() if recording_of(page) is None]
    if not stale:
        return 0
    print(f"running the code of {len(stale)} pages", flush=True)
    run = [sys.executable, "-m", "pytest", "-q", "-m", "long or not long", *map(str, stale)]
    return subprocess.run(run, cwd=ROOT, env=os.environ | {"RECORD_OUTPUTS": "1"}, check=False).returncode


def _folder(page: Path) -> Path:
    return FOLDER / page.relative_to(DOCS).with_suffix("")


def _key(text: str) -> str:
    """Of the code of a page and of the library that runs it."""
    return hashlib.sha256("\0".join([*BLOCK.findall(text), _library()]).encode()).hexdigest()


@cache
def _library() -> str:
    sources = sorted((ROOT / "src" / "manymotives").rglob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
