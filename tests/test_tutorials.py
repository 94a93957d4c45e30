"""Tutorials, from their first line to their last, in an empty folder of their own."""

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).resolve().parents[1] / "docs" / "tutorials").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_tutorials_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), names)


def test_there_are_three_tutorials_whose_links_lead_somewhere():
    assert [page.stem for page in PAGES] == ["bus-engines", "many-teachers", "maze-experiment"]
    for page in PAGES:
        for link in re.findall(r"\]\(([^)#]+\.md)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).is_file(), link
