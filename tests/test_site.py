"""The documentation site: built strictly, then opened in a real browser, from disk."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from website.outputs import BLOCK, Output, pages, recorded, recording_of

import chromium

ROOT = Path(__file__).resolve().parents[1]
OPENED = ("index.html", "reference/posterior.html", "tutorials/who-differs.html", "which-model.html", "glossary.html")
SEARCH = """(async () => {
  const field = document.querySelector("input.md-search__input");
  field.focus();
  field.value = "%s";
  field.dispatchEvent(new Event("keyup", {bubbles: true}));
  field.dispatchEvent(new Event("input", {bubbles: true}));
  for (let wait = 0; wait < 200; wait++) {
    const found = [...document.querySelectorAll("a.md-search-result__link")].map((link) => link.getAttribute("href"));
    if (found.length) return found;
    await new Promise((done) => setTimeout(done, 50));
  }
  return [];
})()"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built once: every link and every anchor leads somewhere, every page is in the navigation, or it is an error."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    search = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    told = os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": search}
    made = subprocess.run(build, cwd=ROOT, env=told, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


@pytest.fixture(scope="module")
def browser():
    if chromium.program() is None:
        said = "Chromium is not installed: apt-get install chromium, and these tests will run."
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    opened = chromium.Chromium()
    yield opened
    opened.close()


def test_pages_load_nothing_from_elsewhere(site):
    """Links may lead elsewhere; scripts, styles, fonts and pictures may not."""
    outside = re.compile(r"""<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>""")
    for page in site.rglob("*.html"):
        assert outside.findall(page.read_text(encoding="utf-8")) == [], page


def test_links_out_of_the_documentation_lead_to_copies(site):
    assert (site / "repository" / "tests" / "error_messages.txt").read_bytes() == (
        ROOT / "tests" / "error_messages.txt"
    ).read_bytes()
    assert "<h1" in (site / "project" / "architecture.html").read_text(encoding="utf-8")


def test_every_page_opens_quietly_and_alone(site, browser):
    for page in OPENED:
        browser.open(site / page)
        assert browser.complaints == []
        assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []


def test_pages_fit_a_phone(site, browser):
    for page in OPENED:
        browser.open(site / page, width=390, height=800)
        assert browser.run("document.documentElement.scrollWidth") <= 390, page


def test_search_finds_words_in_pages(site, browser):
    browser.open(site / "index.html")
    found = browser.run(SEARCH % "partial pooling")
    assert any("hierarchy.html" in link for link in found)
    assert browser.complaints == []


def test_outputs_are_recorded_by_the_run_and_shown_while_they_are_current(tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    monkeypatch.setattr("website.outputs.DOCS", tmp_path)
    monkeypatch.setattr("website.outputs.FOLDER", tmp_path / "outputs")
    page = tmp_path / "page.md"
    text = "# A page\n\n```python\nprint(6 * 7)\n```\n\nMore.\n\n```python\nplt.figure()\n```\n"
    page.write_text(text)
    assert recording_of(page) is None
    for block in BLOCK.finditer(text):
        with recorded(page, block.start()):
            exec(block[1], {"plt": plt})
    plt.close("all")
    first, second = recording_of(page)
    assert first == Output("42\n", [])
    assert [picture.name for picture in second.pictures] == ["1-0.png"]
    page.write_text(text.replace("More.", "Other words."))
    assert recording_of(page) is not None
    page.write_text(text.replace("6 * 7", "6 * 8"))
    assert recording_of(page) is None


def test_every_page_with_code_is_recorded():
    shown = {page.relative_to(ROOT).as_posix() for page in pages()}
    assert {"docs/inference.md", "docs/reference/plots.md", "docs/tutorials/bus-engines.md"} <= shown
