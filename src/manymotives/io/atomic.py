"""Files that appear whole or not at all: written beside their place, then put there."""

import glob
import os
import platform
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from manymotives.errors import InputError

HERE = f"{zlib.crc32(platform.node().encode()):08x}"  # this machine, among those that share a disk


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file to write to; what it holds at the end becomes the file at `path`, if nothing went wrong.

    A process that is killed while it writes cannot tidy up: who next writes to the same path does it.
    """
    target = Path(path)
    if not target.absolute().parent.is_dir():
        raise InputError(f"there is no folder {str(target.parent)!r} to save to.")
    if target.is_dir():
        raise InputError(f"{str(target)!r} is a folder. Name a file in it to save to.")
    begin = f".{target.name[:80]}.{HERE}-"
    _tidy(target.parent, begin)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f"{begin}{os.getpid()}-", suffix=".tmp")
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


def _tidy(folder: Path, begin: str) -> None:
    """Remove temporary files whose processes, on this machine, are no more."""
    for left in folder.glob(f"{glob.escape(begin)}*.tmp"):
        writer = left.name.removeprefix(begin).partition("-")[0]
        if writer.isdecimal() and not _is_running(int(writer)):
            left.unlink(missing_ok=True)


def _is_running(process: int) -> bool:
    if os.name != "posix":
        return True  # elsewhere one cannot ask without harm
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
