"""Files that appear whole or not at all: written beside their place, then put there."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manymotives.errors import InputError


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file to write to; what it holds at the end becomes the file at `path`, if nothing went wrong."""
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise InputError(f"there is no folder {str(target.parent)!r} to save to.")
    if target.is_dir():
        raise InputError(f"{str(target)!r} is a folder. Name a file in it to save to.")
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:80]}.", suffix=".tmp")
    os.close(handle)
    try:
        yield Path(temporary)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)  # as any new file, not private as temporary ones
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
