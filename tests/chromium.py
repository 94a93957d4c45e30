"""A real browser for tests: Debian's Chromium, spoken to through two pipes in its own protocol, nothing else installed.

Chromium reads commands from file descriptor 3 and writes answers and events to 4, as JSON with a zero byte behind each
(`--remote-debugging-pipe`).
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60.0  # seconds, for anything
DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))"


def program() -> str | None:
    """Where Chromium is, if it is anywhere."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Chromium:
    """One browser with one page."""

    def __init__(self) -> None:
        found = program()
        assert found, "Chromium is missing: apt-get install chromium"
        self.home = tempfile.mkdtemp()
        commands_out, self.commands = os.pipe()
        self.answers, answers_in = os.pipe()
        flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --remote-debugging-pipe"
        # the shell puts the pipes where Chromium looks for them
        script = f'exec "$0" {flags} --user-data-dir="$1" 3<&{commands_out} 4>&{answers_in}'
        self.process = subprocess.Popen(
            ["bash", "-c", script, found, self.home],
            pass_fds=(commands_out, answers_in),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands_out)
        os.close(answers_in)
        self.buffer, self.number, self.session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command, its answer."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self.number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def open(self, path: Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """A file, in a window of this size, until it has loaded and drawn."""
        self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = "dark" if dark else "light"
        self.send("Emulation.setEmulatedMedia", media="", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.send("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        self.run(DRAWN)

    def run(self, script: str) -> Any:
        """The value of some JavaScript in the page."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer.get("exceptionDetails")
        return answer["result"].get("value")

    def hover(self, x: float, y: float) -> None:
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        """As a person does: scroll there, move there, press."""
        box = self.middle_of(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def middle_of(self, selector: str) -> list[float]:
        """Where an element is, once it has been scrolled into sight."""
        return self.run(
            f"(async () => {{ const found = document.querySelector({json.dumps(selector)}); "
            "found.scrollIntoView({block: 'center', behavior: 'instant'}); "
            f"await {DRAWN}; const box = found.getBoundingClientRect(); "
            "return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        taken = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def printed(self) -> bytes:
        """The page as a PDF on A4."""
        made = self.send("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
        return base64.b64decode(made["data"])

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings on the console since the page was opened."""
        found = []
        for event in self.events:
            kind, said = event.get("method"), event.get("params", {})
            if kind == "Runtime.exceptionThrown":
                found.append(json.dumps(said["exceptionDetails"]))
            if kind == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
                found.append(json.dumps(said["args"]))
            if kind == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
                found.append(said["entry"]["text"])
        return found

    @property
    def requests(self) -> list[str]:
        """Addresses asked for since the page was opened, the page itself left out."""
        asked = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return asked[1:]

    def close(self) -> None:
        self.session = None
        try:
            self.send("Browser.close")
            self.process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.home, ignore_errors=True)

    def _next(self) -> dict[str, Any]:
        """The next message."""
        end = time.monotonic() + PATIENCE
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, end - time.monotonic()))
            assert ready, "Chromium does not answer"
            part = os.read(self.answers, 1 << 20)
            assert part, "Chromium has stopped"
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)
