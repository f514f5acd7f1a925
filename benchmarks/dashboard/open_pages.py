"""Pages that stay open: how soon many of them show what is new, and what one keeps of thousands of events."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page

from benchmarks.dashboard.browser import VIEWPORT
from benchmarks.ingest.processes import Server, running_server
from benchmarks.ingest.report import Row

_RUN = "open"
_NUM_CONTEXTS = 5
"""Each is a browser of its own: its pages share one event stream."""
_NUM_BEFORE = 3_000
"""Steps that are there at the start: more than a page keeps, so that it has no room left to fill."""
_POINTS_AT_ONCE = 500
_PATIENCE_MS = 300_000
_SHOWS_STEP = """(step) => {
  const plot = document.querySelector('[data-testid="figure-trainer-success"] .plot');
  const words = plot?.getAttribute('aria-label') ?? '';
  return words.endsWith(`at step ${step.toLocaleString('en-US')}`) || words.endsWith(`at step ${step}`);
}"""


def measure(browser: Browser, folder: Path, *, quick: bool) -> Iterator[Row]:
    """The rows of pages that are left open, of a server of their own in `folder`."""
    num_pages, num_events = (10, 100) if quick else (50, 2_000)
    with running_server(folder) as server, _client(server) as client:
        client.post("/runs", json={"run_id": _RUN, "project": "bench", "name": _RUN}).raise_for_status()
        _log(client, range(_NUM_BEFORE))
        address = f"{server.url}/#/runs/{_RUN}"
        contexts = [browser.new_context(viewport=VIEWPORT) for _ in range(_NUM_CONTEXTS)]
        seconds = _news_everywhere(contexts, address, client, num_pages)
        case = f"open: {num_pages} pages of one run in {_NUM_CONTEXTS} browsers"
        yield Row(case, "a new step until the last page shows it", seconds, "s")
        yield Row(case, "memory of the server", _resident_mebibytes(server.process.pid), "MiB")
        for context in contexts:
            context.close()
        before, after = _kept_by_one(browser, address, client, num_events)
        case = f"open: one page over {num_events:,} events"
        yield Row(case, "its memory at the start", before, "MiB")
        yield Row(case, "its memory at the end", after, "MiB")


def _client(server: Server) -> httpx.Client:
    headers = {"Authorization": f"Bearer {server.key}"}
    return httpx.Client(base_url=f"{server.url}/api/v1", headers=headers, trust_env=False, timeout=60)


def _log(client: httpx.Client, steps: range) -> None:
    for first in range(steps.start, steps.stop, _POINTS_AT_ONCE):
        some = range(first, min(first + _POINTS_AT_ONCE, steps.stop))
        points = [{"step": step, "values": {"success": step % 97 / 97}} for step in some]
        client.post(f"/runs/{_RUN}/scalars", json={"points": points}).raise_for_status()


def _news_everywhere(
    contexts: list[BrowserContext], address: str, client: httpx.Client, num_pages: int
) -> float:
    """Seconds from the call that logs a step to the moment at which every page shows it."""
    pages = [contexts[number % len(contexts)].new_page() for number in range(num_pages)]
    for page in pages:
        page.goto(address, wait_until="commit")
    for page in pages:
        _wait_for_step(page, _NUM_BEFORE - 1)
    begun = time.monotonic()
    _log(client, range(_NUM_BEFORE, _NUM_BEFORE + 1))
    for page in pages:
        _wait_for_step(page, _NUM_BEFORE)
    return time.monotonic() - begun


def _wait_for_step(page: Page, step: int) -> None:
    page.wait_for_function(_SHOWS_STEP, arg=step, timeout=_PATIENCE_MS, polling=100)


def _kept_by_one(
    browser: Browser, address: str, client: httpx.Client, num_events: int
) -> tuple[float, float]:
    """Mebibytes that the scripts of a page hold before and after so many steps that came one by one."""
    context = browser.new_context(viewport=VIEWPORT)
    page = context.new_page()
    page.goto(address, wait_until="commit")
    _wait_for_step(page, _NUM_BEFORE)
    devtools = context.new_cdp_session(page)
    # The first events have it build what it keeps from then on.
    first = _NUM_BEFORE + 1 + num_events // 10
    held = []
    for begin, end in ((_NUM_BEFORE + 1, first), (first, first + num_events)):
        for step in range(begin, end):
            _log(client, range(step, step + 1))
        _wait_for_step(page, end - 1)
        held.append(_heap_mebibytes(devtools))
    context.close()
    return held[0], held[1]


def _heap_mebibytes(devtools: CDPSession) -> float:
    devtools.send("HeapProfiler.collectGarbage")
    used: float = devtools.send("Runtime.getHeapUsage")["usedSize"]
    return used / 2**20


def _resident_mebibytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    resident = next(line for line in lines if line.startswith("VmRSS:"))
    return int(resident.split()[1]) / 1024
