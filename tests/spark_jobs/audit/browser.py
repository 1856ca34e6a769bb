"""A real Chromium without a window, driven over its DevTools pipe: JSON messages, each ended by a NUL."""

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]


class Browser:
    """One page of one browser with a profile of its own. `told` is what the page wrote to its console, errors first
    and foremost: exceptions, what the security policy refused, what could not be loaded."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        self.told: list[str] = []
        self._last = 0
        self._buffer = b""
        self._waiting: list[dict[str, Any]] = []
        # The browser reads commands from its descriptor 3 and writes to its 4.
        (theirs_in, self._commands), (self._answers, theirs_out) = (_high(os.pipe()), _high(os.pipe()))
        command = ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", CHROMIUM, *FLAGS]
        self._process = subprocess.Popen(
            [*command, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None

    def __enter__(self) -> "Browser":
        targets = self("Target.getTargets")["targetInfos"]
        target = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(f"{domain}.enable")
        self.size(1200, 900)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._commands)
        os.close(self._answers)
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()

    def __call__(self, method: str, timeout: float = 200, **parameters: Any) -> dict[str, Any]:
        """Send a command; returns its result."""
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        answer = self._wait(lambda said: said.get("id") == self._last, f"an answer to {method}", timeout)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def open(self, page: Path, timeout: float = 200) -> None:
        """Load a file, and wait until it has loaded."""
        url = page.absolute().as_uri()
        self("Page.navigate", url=url)
        while True:  # the page before it may still have had to say that it has loaded
            self._wait(lambda said: said.get("method") == "Page.loadEventFired", f"{page} to load", timeout)
            if self("Page.getFrameTree")["frameTree"]["frame"]["url"] == url:
                return

    def js(self, expression: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        done = self("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, f"{expression}: {done['exceptionDetails']}"
        return done["result"].get("value")

    def size(self, width: int, height: int) -> None:
        self("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, media: str = "screen", scheme: str = "light") -> None:
        """Show the page as on a screen or on paper, by day or by night."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self("Emulation.setEmulatedMedia", media=media, features=features)

    def screenshot(self, path: Path) -> None:
        """The whole page."""
        whole = self("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": whole["width"], "height": min(whole["height"], 15_000), "scale": 1}
        shot = self("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path: Path) -> bytes:
        """As it is printed on A4."""
        printed = self("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)
        data = base64.b64decode(printed["data"])
        path.write_bytes(data)
        return data

    def _wait(self, wanted: Any, what: str, timeout: float) -> dict[str, Any]:
        deadline = time.monotonic() + timeout
        while True:
            for said in self._waiting:
                if wanted(said):
                    self._waiting.remove(said)
                    return said
            while b"\0" not in self._buffer:
                ready, _, _ = select.select([self._answers], [], [], max(0, deadline - time.monotonic()))
                assert ready, f"waited {timeout} s for {what}"
                piece = os.read(self._answers, 1 << 20)
                assert piece, f"the browser ended with {self._process.wait()} while waiting for {what}"
                self._buffer += piece
            *messages, self._buffer = self._buffer.split(b"\0")
            for message in map(json.loads, messages):
                self._note(message)
                if "id" in message or message["method"] == "Page.loadEventFired":
                    self._waiting.append(message)

    def _note(self, message: dict[str, Any]) -> None:
        method, parameters = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.told.append(f"exception: {parameters['exceptionDetails']}")
        elif method == "Runtime.consoleAPICalled":
            self.told.append(f"console.{parameters['type']}: {parameters['args']}")
        elif method == "Log.entryAdded":
            self.told.append(f"{parameters['entry']['level']}: {parameters['entry']['text']}")
        elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith("file:"):
            self.told.append(f"network: {parameters['request']['url'][:200]}")


def _high(pipe: tuple[int, int]) -> tuple[int, int]:
    """The same pipe under numbers that do not get in the way of 3 and 4."""
    reader, writer = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 100) for end in pipe)
    for end in pipe:
        os.close(end)
    return reader, writer
