"""Text in, markup out: everything is escaped unless it was made here."""

import json
from html import escape
from typing import Any


class Markup(str):
    """Text that is markup already."""


def element(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """<name attributes>children</name>; names and attributes are the program's, children may be anybody's.

    An attribute ending in an underscore loses it (`class_`), inner ones become hyphens (`aria_label`); True stands
    alone, None and False are left out.
    """
    given = "".join(
        f" {word.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for word, value in attributes.items()
        if value is not None and value is not False
    )
    if name in ("br", "meta", "input", "col"):
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{text(*children)}</{name}>")


def text(*children: Any) -> Markup:
    """Children one after the other: lists flattened, None left out, text escaped."""
    parts: list[str] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, list | tuple):
            parts.append(text(*child))
        elif isinstance(child, Markup):
            parts.append(str(child))
        else:
            parts.append(escape(str(child)))
    return Markup("".join(parts))


def data_block(name: str, value: Any) -> Markup:
    """JSON for the page's script. Nothing in it can end the block: < > & are written as escapes."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        written = written.replace(character, f"\\u{ord(character):04x}")
    return Markup(f'<script type="application/json" id="data-{escape(name)}">{written}</script>')


def table(headings: list[Any], rows: list[list[Any]], *, caption: str, sort: bool = True) -> Markup:
    """A table that can be sorted by each column, in a box of its own that scrolls where it is too wide.

    A cell is text, a number with its text as (number, text), or markup.
    """
    numeric = [bool(rows) and _is_number(rows[0][column]) for column in range(len(headings))]
    head = element("tr", [_heading(heading, sort, right) for heading, right in zip(headings, numeric)])
    body = [element("tr", [_cell(cell) for cell in row]) for row in rows]
    whole = element(
        "table",
        element("caption", element("span", caption)),
        element("thead", head),
        element("tbody", body),
        class_="sortable" if sort else None,
    )
    return element("div", whole, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _heading(heading: Any, sort: bool, right: bool) -> Markup:
    kind = "number" if right else None
    if not sort:
        return element("th", heading, scope="col", class_=kind)
    return element("th", element("button", heading, type="button"), scope="col", aria_sort="none", class_=kind)


def _is_number(cell: Any) -> bool:
    return isinstance(cell, tuple | int | float) and not isinstance(cell, bool)


def _cell(cell: Any) -> Markup:
    if isinstance(cell, tuple):
        number, shown = cell
        return element("td", str(shown).replace("-", "−"), class_="number", data_value=number)
    if not _is_number(cell):
        return element("td", cell)
    return _cell((cell, f"{cell:,}" if isinstance(cell, int) else f"{cell:.3g}"))


def figure(name: str, *, title: str, described: str, how: Any, chooser: bool = False) -> Markup:
    """A place for a picture that the page's script draws from the data block of the same name.

    `described`: what it shows, for those who cannot see it; `how`: how to read it.
    """
    return element(
        "figure",
        element("div", title, class_="figure-title"),
        element("div", class_="plot", id=f"plot-{name}", data_figure=name, role="img", aria_label=described),
        element("figcaption", element("b", "How to read it. "), how),
        class_="chosen" if chooser else None,
    )
