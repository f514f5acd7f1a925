"""Chromium driven by as little of its protocol as a visit needs.

A debugger that asks to be told of the console and of exceptions, as test drivers do, has the engine find out
where every caught error came from: some 0.3 s of a visit with a script of five megabytes, for which nobody
waits who just opens a page.
"""

import base64
import json
import os
import select
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

Answer = dict[str, Any]
_END_SECONDS = 10.0
_PATIENCE_SECONDS = 30.0


class BrowserGone(Exception):
    """The browser has ended."""


class NoAnswer(Exception):
    """The browser, or the page that was asked, is busy for longer than one waits."""


class Refused(Exception):
    """The browser refuses a command."""


class Chromium:
    """A browser with its profile in a folder; one thread may use it.

    Args:
        executable: where Chromium is.
        folder: of the profile.
        flags: what Chromium is started with.
    """

    def __init__(self, executable: str, folder: Path, flags: Sequence[str]) -> None:
        browser_reads, self._write_end = os.pipe()
        self._read_end, browser_writes = os.pipe()
        # The browser reads commands from its third file and answers on its fourth.
        script = f'exec "$@" 3<&{browser_reads} 4>&{browser_writes}'
        given = [*flags, f"--user-data-dir={folder}", "--remote-debugging-pipe", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", executable, *given],
            pass_fds=(browser_reads, browser_writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(browser_reads)
        os.close(browser_writes)
        self._last_id = 0
        self._unread = b""

    def __enter__(self) -> Self:
        self.ask("Browser.getVersion")
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.ask("Browser.close")
            self._process.wait(_END_SECONDS)
        except (BrowserGone, NoAnswer, Refused, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        finally:
            os.close(self._write_end)
            os.close(self._read_end)

    def ask(
        self,
        method: str,
        session: str | None = None,
        *,
        patience_seconds: float = _PATIENCE_SECONDS,
        **parameters: object,
    ) -> Answer:
        """The answer to one command, of the browser or of one tab.

        Raises:
            NoAnswer: none came in time; one that comes later is dropped.
            Refused: it cannot be done.
            BrowserGone: the browser has ended.
        """
        self._last_id += 1
        command: Answer = {"id": self._last_id, "method": method, "params": parameters}
        if session is not None:
            command["sessionId"] = session
        try:
            os.write(self._write_end, json.dumps(command).encode() + b"\0")
        except OSError as error:
            raise BrowserGone from error
        end = time.monotonic() + patience_seconds
        while True:
            told = self._next(end)
            if told.get("id") == self._last_id:
                break
        if "error" in told:
            raise Refused(f"{method}: {told['error'].get('message')}")
        answer: Answer = told["result"]
        return answer

    def _next(self, end: float) -> Answer:
        while b"\0" not in self._unread:
            if not select.select([self._read_end], [], [], max(0.0, end - time.monotonic()))[0]:
                raise NoAnswer
            piece = os.read(self._read_end, 1 << 16)
            if not piece:
                raise BrowserGone
            self._unread += piece
        one, _, self._unread = self._unread.partition(b"\0")
        told: Answer = json.loads(one)
        return told


class Tab:
    """A page of a browser."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session

    def go_to(self, address: str, *, patience_seconds: float = _PATIENCE_SECONDS) -> bool:
        """Whether the page begins to come within the time given."""
        try:
            self._browser.ask("Page.navigate", self._session, patience_seconds=patience_seconds, url=address)
        except NoAnswer:
            return False
        return True

    def before_each_page(self, script: str) -> None:
        """Has each page run it before its own scripts."""
        self._browser.ask("Page.enable", self._session)
        self._browser.ask("Page.addScriptToEvaluateOnNewDocument", self._session, source=script)

    def value_of(self, expression: str, *, patience_seconds: float = _PATIENCE_SECONDS) -> Any:
        """What a script says; None also when it fails, as while one page gives way to another.

        Raises:
            NoAnswer: the page is busy.
        """
        try:
            answer = self._browser.ask(
                "Runtime.evaluate",
                self._session,
                patience_seconds=patience_seconds,
                expression=expression,
                returnByValue=True,
            )
        except Refused:
            return None
        return None if "exceptionDetails" in answer else answer["result"].get("value")

    def wait_for(self, expression: str, *, patience_seconds: float, look_seconds: float) -> bool:
        """Whether a script said something true within the time given."""
        end = time.monotonic() + patience_seconds
        with suppress(NoAnswer):
            while (left_seconds := end - time.monotonic()) > 0:
                if self.value_of(expression, patience_seconds=left_seconds):
                    return True
                time.sleep(look_seconds)
        return False

    def picture(self) -> bytes:
        """A PNG of what is seen."""
        return base64.b64decode(self._browser.ask("Page.captureScreenshot", self._session)["data"])


@contextmanager
def new_tab(browser: Chromium, *, width: int, height: int) -> Iterator[Tab]:
    """An empty page of this size, closed in the end."""
    target = browser.ask("Target.createTarget", url="about:blank")["targetId"]
    session: str = browser.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    browser.ask(
        "Emulation.setDeviceMetricsOverride",
        session,
        width=width,
        height=height,
        deviceScaleFactor=1,
        mobile=False,
    )
    try:
        yield Tab(browser, session)
    finally:
        browser.ask("Target.closeTarget", targetId=target)
