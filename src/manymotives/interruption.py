"""Ctrl-C while a command is still importing, which takes seconds: one line and exit code 130 instead of a traceback.

Only where manymotives is the program: who imports it as a library keeps the handling of signals that was there.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

INTERRUPTED = 130  # exit code: 128 + the number of the signal


def is_the_program() -> bool:
    """Whether this process runs `manymotives` or `python -m manymotives`; its workers do not."""
    name = sys.argv[0] if sys.argv else ""
    if name == "-m":  # as long as the package is imported, before its __main__ runs
        return "manymotives" in sys.orig_argv or "-mmanymotives" in sys.orig_argv
    return Path(name).stem == "manymotives" and name in sys.orig_argv


def stop(number: int, frame: Any) -> None:
    """Say so and end at once: an exception could be caught by whatever is being imported."""
    os.write(2, b"Stopped.\n")
    os._exit(INTERRUPTED)


def guard() -> None:
    """End on Ctrl-C, until `release`."""
    if is_the_program() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, stop)


def release() -> None:
    """From here on Ctrl-C is what commands catch."""
    if signal.getsignal(signal.SIGINT) is stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)


guard()
