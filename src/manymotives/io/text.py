"""How a text file of a table is written: its encoding, what separates its columns, what they are called."""

import csv
import re
from pathlib import Path
from typing import NamedTuple

from manymotives.errors import InputError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs"}
MARKS = ((b"\xef\xbb\xbf", "utf-8-sig"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))  # byte-order marks
PIECE = 2**20  # bytes looked at, at a time
LONGEST_HEADER = 2**16  # characters


class TextForm(NamedTuple):
    """What a reader must know before it reads."""

    encoding: str
    separator: str
    columns: tuple[str, ...]
    header_lines: int  # more than one where a name has a line break
    notes: tuple[str, ...]


def form_of(path: Path) -> TextForm:
    """The form of a text table, from its beginning and, for the encoding, all of it."""
    with path.open("rb") as file:
        head = file.read(4)
    encoding = next((name for mark, name in MARKS if head.startswith(mark)), "utf-8")
    _check_encoding(path, encoding)
    with path.open(encoding=encoding, newline="") as file:
        text = file.read(LONGEST_HEADER)
    header = _first_line(text)
    if not header.strip():
        raise InputError(f"row 1 of {path.name} is empty. It must hold the names of the columns.")
    counts = {sign: _outside_quotes(header).count(sign) for sign in SEPARATORS}
    separator = "\t" if path.suffix.lower() == ".tsv" else max(counts, key=lambda sign: counts[sign])
    try:
        cells = next(csv.reader([header], delimiter=separator, skipinitialspace=True))
    except csv.Error:
        raise InputError(f"a quotation mark in row 1 of {path.name} is never closed. Close or remove it.") from None
    columns = tuple(name.strip() for name in cells)
    repeated = next((name for number, name in enumerate(columns) if name and name in columns[:number]), None)
    if repeated is not None:
        raise InputError(f"row 1 of {path.name} names two columns {repeated!r}. Rename one of them.")
    if len(columns) == 1 and re.search(r"[|:\s]", columns[0]):
        raise InputError(
            f"{path.name} has only one column, {columns[0]!r}. Separate columns by commas, semicolons or tabs."
        )
    notes = []
    if separator != ("\t" if path.suffix.lower() == ".tsv" else ","):
        notes.append(f"the columns of {path.name} are separated by {SEPARATORS[separator]}.")
    if encoding == "utf-16":
        notes.append(f"{path.name} is UTF-16 text, as some spreadsheets write it.")
    return TextForm(encoding, separator, columns, 1 + len(re.findall(r"\r\n|\r|\n", header)), tuple(notes))


def _first_line(text: str) -> str:
    """Up to the first end of line that is not inside quotation marks."""
    inside = False
    for position, sign in enumerate(text):
        if sign == '"':
            inside = not inside
        elif sign in "\r\n" and not inside:
            return text[:position]
    return text


def _outside_quotes(line: str) -> str:
    return re.sub(r'"[^"]*"', "", line)


def _check_encoding(path: Path, encoding: str) -> None:
    """Refuse what is not text, naming the row where that shows."""
    wide = encoding == "utf-16"
    before = 0  # ends of lines so far
    rest = b""
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            if b"\0" in piece and not wide:
                row = before + piece[: piece.index(b"\0")].count(b"\n") + 1
                raise InputError(
                    f"row {row} of {path.name} holds a zero byte: this is not a text table. Save it as CSV."
                )
            if not wide:
                rest = _checked(path, rest + piece, before)
            before += piece.count(b"\n")
    if rest:
        raise InputError(_not_text(path, before + 1))
    if wide:
        try:
            with path.open(encoding=encoding, newline="") as text:
                while text.read(PIECE):
                    pass
        except UnicodeError:
            raise InputError(f"{path.name} begins like UTF-16 text but is not UTF-16. Save it as CSV UTF-8.") from None


def _checked(path: Path, piece: bytes, before: int) -> bytes:
    """A piece decoded; the bytes at its end that begin a sign without ending it."""
    try:
        piece.decode("utf-8")
        return b""
    except UnicodeDecodeError as error:
        if error.reason == "unexpected end of data" and len(piece) - error.start < 4:
            return piece[error.start :]
        line = piece.rfind(b"\n", 0, error.start) + 1
        end = piece.find(b"\n", error.start)
        found = piece[line : end if end >= 0 else None].strip().decode("cp1252", errors="replace")[:60]
        raise InputError(_not_text(path, before + piece[: error.start].count(b"\n") + 1, found)) from None


def _not_text(path: Path, row: int, found: str = "") -> str:
    shown = f" (perhaps {found!r})" if found else ""
    return (
        f"row {row} of {path.name} is not UTF-8 text{shown}: it may be in an older encoding such as Latin-1. Save the "
        "file as CSV UTF-8."
    )
