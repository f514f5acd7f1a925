"""Opens pages in Chromium and measures what a person waits for."""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Error, Page, ViewportSize, sync_playwright

from benchmarks.dashboard.devtools import Chromium, Tab, new_tab
from benchmarks.dashboard.pages import Screen

VIEWPORT: ViewportSize = {"width": 1440, "height": 900}
_CHROMIUM = ("/usr/bin/chromium", "/usr/bin/chromium-browser")
_FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
# Everything that came over the network, packed as it came, of this page and of what it asked for.
_BYTES = """() => [performance.getEntriesByType('navigation')[0], ...performance.getEntriesByType('resource')]
  .reduce((sum, entry) => sum + (entry.transferSize ?? 0), 0)"""
# To look at every frame would slow down what is measured.
_LOOK_MS = 25
_REST_SECONDS = 1.0
_WATCH_FRAMES = """() => {
  window.benchGaps = [];
  let last = performance.now();
  const look = (now) => { window.benchGaps.push(now - last); last = now; requestAnimationFrame(look); };
  requestAnimationFrame(look);
}"""
_LONGEST_GAP = "() => Math.max(...window.benchGaps.slice(1))"


@dataclass(frozen=True)
class Opened:
    """What it took to open a page."""

    seconds: float | None
    """Until everything in the window is drawn; none when it was not within the time given."""
    megabytes: float
    """That came over the network until then."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser that all pages are opened in."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_executable(), args=_FLAGS)
        yield browser
        browser.close()


def _executable() -> str:
    return next(path for path in _CHROMIUM if Path(path).exists())


def open_screen(
    screen: Screen, *, profiles: int, visits: int, patience_seconds: float, picture: Path
) -> list[list[Opened]]:
    """By browser, the first visit with an empty cache and those after it; none after one that took too long.

    Each browser has a profile on disk, as people's have: a private window keeps nothing of what it compiled.
    Nothing listens within the page (see `devtools`).

    Args:
        picture: where what was measured can be looked at afterwards.
    """
    found: list[list[Opened]] = []
    while len(found) < profiles and (not found or found[-1][-1].seconds is not None):
        with tempfile.TemporaryDirectory(prefix="cw-profile-") as folder:
            found.append(_visits(Path(folder), screen, visits, patience_seconds, picture))
    return found


def _visits(
    folder: Path, screen: Screen, visits: int, patience_seconds: float, picture: Path
) -> list[Opened]:
    found: list[Opened] = []
    with Chromium(_executable(), folder, _FLAGS) as browser:
        # It still starts when it answers for the first time.
        time.sleep(_REST_SECONDS)
        while len(found) < visits and (not found or found[-1].seconds is not None):
            with new_tab(browser, **VIEWPORT) as tab:
                found.append(_visit(tab, screen, patience_seconds))
                if len(found) == 1 and found[0].seconds is not None:
                    picture.parent.mkdir(parents=True, exist_ok=True)
                    picture.write_bytes(tab.picture())
                # What it keeps for the next visit it writes when it has nothing else to do.
                time.sleep(_REST_SECONDS)
    return found


def _visit(tab: Tab, screen: Screen, patience_seconds: float) -> Opened:
    is_drawn = f"({screen.drawn})({json.dumps(screen.argument)})"
    tab.before_each_page("performance.setResourceTimingBufferSize(5000)")
    begun = time.monotonic()
    has_begun = tab.go_to(screen.address, patience_seconds=patience_seconds)
    left_seconds = begun + patience_seconds - time.monotonic()
    if not has_begun or not tab.wait_for(
        is_drawn, patience_seconds=left_seconds, look_seconds=_LOOK_MS / 1000
    ):
        return Opened(None, 0.0)
    seconds = time.monotonic() - begun
    return Opened(seconds, tab.value_of(f"({_BYTES})()") / 1e6)


def longest_stall(browser: Browser, screen: Screen, *, patience_seconds: float) -> float | None:
    """Seconds of the longest time without a frame while a chart is zoomed into and moved over, and after.

    None when the page was not drawn within the time given, or has no chart to drag.
    """
    context = browser.new_context(viewport=VIEWPORT)
    page = context.new_page()
    try:
        page.goto(screen.address, wait_until="commit", timeout=patience_seconds * 1000)
        page.wait_for_function(
            screen.drawn, arg=screen.argument, timeout=patience_seconds * 1000, polling=_LOOK_MS
        )
        page.wait_for_timeout(3000)
        plot = page.locator(screen.plot).first
        plot.scroll_into_view_if_needed(timeout=30_000)
        page.wait_for_timeout(1000)
        box = plot.bounding_box()
        if box is None:
            return None
        page.evaluate(_WATCH_FRAMES)
        for start, end in ((0.3, 0.7), (0.4, 0.6), (0.45, 0.55)):
            _drag(page, box["x"], box["width"], box["y"] + box["height"] / 2, start, end)
            page.wait_for_timeout(1500)
        longest: float = page.evaluate(_LONGEST_GAP)
        return longest / 1000
    except Error:
        return None
    finally:
        context.close()


def _drag(page: Page, left: float, width: float, y: float, start: float, end: float) -> None:
    page.mouse.move(left + start * width, y)
    page.mouse.down()
    for step in range(1, 11):
        page.mouse.move(left + (start + (end - start) * step / 10) * width, y)
    page.mouse.up()
