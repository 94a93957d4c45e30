"""What MkDocs does with pages on top of Markdown: outputs below code, names of the library, links out of docs/.

`::: mm.Environment from_frame` stands for the documentation of a name and of some of its members. Links that leave
docs/ lead to pages made from the files at the root of the repository, or to copies of other files, so that the same
link works here and where the repository is browsed.
"""

import importlib
import inspect
import re
from pathlib import Path
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from website.outputs import BLOCK, ROOT, Output, recording_of

import manymotives as mm

AT_THE_ROOT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "README.md": "index.md",
    "SECURITY.md": "project/security.md",
    "SUPPORT.md": "project/support.md",
}
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)((?:#[^)\s]*)?)(?=\))")
NAME = re.compile(r"^::: ((?:mm|manymotives)\.[\w.]+)((?: \w+)*)$", flags=re.MULTILINE)
FENCED = re.compile(r"(^```.*?^```$)", flags=re.DOTALL | re.MULTILINE)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Decisions are listed in the order of their numbers."""
    docs = Path(config.docs_dir)
    listed = {
        title: [path.relative_to(docs).as_posix() for path in sorted((docs / folder).glob("*.md"))]
        for title, folder in {"Decisions": "decisions", "Measurements": "decisions/appendix"}.items()
    }
    project = next(part["Project"] for part in config.nav or [] if "Project" in part)
    project.extend({title: pages} for title, pages in listed.items())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages made from the files at the root, beside those of docs/."""
    for source, place in AT_THE_ROOT.items():
        if place not in files.src_uris:
            files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page as MkDocs is to read it."""
    source = Path(page.file.abs_src_path or "").resolve()
    outputs = recording_of(source) if source.is_relative_to(config.docs_dir) and BLOCK.search(markdown) else None
    if outputs:
        markdown = _with_outputs(markdown, outputs, page, config, files)
    parts = FENCED.split(markdown)
    for place in range(0, len(parts), 2):  # the others are code
        prose = NAME.sub(lambda found: _documented(found[1], found[2].split()), parts[place])
        parts[place] = LINK.sub(lambda found: _link(found[1], page, config, files) + found[2], prose)
    return "".join(parts)


def _with_outputs(markdown: str, outputs: list[Output], page: Page, config: MkDocsConfig, files: Files) -> str:
    """Below every block what it printed and drew."""
    remaining = iter(outputs)

    def shown(block: re.Match[str]) -> str:
        output = next(remaining)
        lines = [block[0]]
        if output.text.strip():
            lines += ["", "``` { .text .output }", output.text.rstrip(), "```"]
        for picture in output.pictures:
            place = f"outputs/{page.file.src_uri.removesuffix('.md')}/{picture.name}"
            files.append(File.generated(config, place, abs_src_path=str(picture)))
            link = relpath(place, Path(page.file.src_uri).parent.as_posix())
            lines += ["", f"![A figure drawn by the code above]({link}){{ .output }}"]
        return "\n".join(lines)

    return BLOCK.sub(shown, markdown)


def _documented(name: str, members: list[str]) -> str:
    """The directive of mkdocstrings for a name: where it is defined, under the name that users type."""
    module, *parts = name.split(".")
    found: Any = mm if module == "mm" else importlib.import_module(name.rpartition(".")[0])
    for part in parts if module == "mm" else parts[-1:]:
        found = getattr(found, part)
    found = inspect.unwrap(found)
    lines = [
        f"::: {found.__module__}.{found.__qualname__}",
        "    options:",
        f"      heading: {name if module == 'mm' else parts[-1]}",
        f"      toc_label: {parts[-1]}",
    ]
    if members:
        lines += ["      inherited_members: true", f"      members: [{', '.join(members)}]"]
    return "\n".join(lines)


def _link(target: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Where a link leads on the site."""
    here = _in_repository(page, config)
    there = normpath(f"{Path(here).parent.as_posix()}/{target}")
    if there.startswith("docs/"):
        place = there.removeprefix("docs/")
    elif there in AT_THE_ROOT:
        place = AT_THE_ROOT[there]
    elif (ROOT / there).is_file():
        if there.endswith(".md"):  # MkDocs makes pages of files that it knows before it reads the first page
            raise ValueError(f"{here} links to {there}: add it to AT_THE_ROOT, and to the navigation in mkdocs.yml.")
        place = f"repository/{there}"
        if place not in files.src_uris:
            files.append(File.generated(config, place, abs_src_path=str(ROOT / there)))
    else:
        return target  # MkDocs says that it leads nowhere
    return relpath(place, Path(page.file.src_uri).parent.as_posix())


def _in_repository(page: Page, config: MkDocsConfig) -> str:
    """The path of a page's source."""
    source = Path(page.file.abs_src_path or "").resolve()
    return source.relative_to(ROOT).as_posix()
