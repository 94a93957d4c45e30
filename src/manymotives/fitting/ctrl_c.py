"""Whether Ctrl-C was pressed, also where it stopped nothing: at the end of a block of draws, say."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def presses() -> Iterator[threading.Event]:
    """Whether Ctrl-C was pressed: whoever makes a block may catch it, and have the block's draws nonetheless.

    So may Python itself, where nothing can be raised (while it collects garbage, say): it is then noted all the same,
    and Python's report of it would only alarm.
    """
    pressed = threading.Event()
    usual, report = signal.getsignal(signal.SIGINT), sys.unraisablehook
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield pressed
        return

    def note(number: int, frame: Any) -> Any:
        pressed.set()
        return usual(number, frame)

    def report_others(lost: Any) -> None:
        if lost.exc_type is not KeyboardInterrupt:
            report(lost)

    signal.signal(signal.SIGINT, note)
    sys.unraisablehook = report_others
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, usual)
        sys.unraisablehook = report
