"""Tutorials are listed on their page, and their links lead somewhere; their code runs as that of every page does."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page.stem != "index")


def test_every_tutorial_is_listed_and_its_links_lead_somewhere():
    listed = (FOLDER / "index.md").read_text(encoding="utf-8")
    assert len(PAGES) >= 5
    for page in PAGES:
        assert f"({page.name})" in listed
        for link in re.findall(r"\]\(([^)#]+\.md)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).is_file(), link
