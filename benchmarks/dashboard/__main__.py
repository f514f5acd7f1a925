"""`python -m benchmarks.dashboard`: how fast the pages of long runs, many runs and comparisons open.

The same series lie in the stores of all products, each product's own page shows them in one Chromium.
`QUICK=1` gives the short form. Leaves build/bench/dashboard.json.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from playwright.sync_api import Browser

from benchmarks.common import machine
from benchmarks.dashboard import open_pages, pages
from benchmarks.dashboard.browser import Opened, chromium, longest_stall, open_screen
from benchmarks.dashboard.fill_ours import PROJECT, fill
from benchmarks.dashboard.pages import Product
from benchmarks.dashboard.processes import PEERS_PYTHON, ROOT, fill_peer
from benchmarks.dashboard.series import RunShape
from benchmarks.ingest.processes import versions
from benchmarks.ingest.report import Row, table, write_json

DOCUMENT = ROOT / "docs" / "benchmarks.md"
BEGIN, END = "<!-- bench-dashboard: begin -->", "<!-- bench-dashboard: end -->"
RESULT = ROOT / "build" / "bench" / "dashboard.json"
PICTURES = ROOT / "build" / "bench" / "dashboard"
NAMES = ("collapsewatch", "trackio", "mlflow")
_PROFILES = 3
_VISITS = 4
_SETTLE_SECONDS = 5.0
_PATIENCE_SECONDS = 90.0


def main() -> None:
    """Measures every product, or the named ones; rows need ours among them."""
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("products", nargs="*", help=f"{', '.join(NAMES)}; all when absent")
    named = parser.parse_args().products or list(NAMES)
    if not PEERS_PYTHON.exists():
        sys.exit(f"{PEERS_PYTHON} is missing: make bench-dashboard makes it")
    cases = _cases(quick)
    measured: dict[str, dict[str, float | None]] = {}
    with tempfile.TemporaryDirectory(prefix="cw-bench-") as place, chromium() as browser:
        for name in named:
            begun = time.monotonic()
            with _product(name, Path(place) / name, cases) as product:
                print(f"{name}: filled in {time.monotonic() - begun:.0f} s", flush=True)
                measured[name] = dict(_measure(browser, product))
            print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
        left_open = (
            list(open_pages.measure(browser, Path(place) / "open", quick=quick))
            if "collapsewatch" in named
            else []
        )
    rows = _rows(measured, cases) + left_open
    print(table(rows))
    if set(named) == set(NAMES):
        about = machine(versions())
        write_json(RESULT, about, rows)
        print(f"\n{RESULT.relative_to(ROOT)}")
        if not quick:
            _document(f"{about['cores']}-core {about['architecture']}, {about['date']}\n\n{table(rows)}")


def _document(block: str) -> None:
    """Puts a whole run into the documentation."""
    head, _, rest = DOCUMENT.read_text().partition(BEGIN)
    tail = rest.partition(END)[2]
    assert tail, f"{DOCUMENT} needs the lines {BEGIN} and {END}"
    DOCUMENT.write_text(f"{head}{BEGIN}\n{block}\n{END}{tail}")


def _cases(quick: bool) -> dict[str, list[RunShape]]:
    long_steps, num_many, compare_steps = (5_000, 50, 1_000) if quick else (100_000, 1_000, 10_000)
    return {
        "long": [RunShape("long", long_steps, 60, 1)],
        "compare": [RunShape(f"compared-{i:02d}", compare_steps, 20, 100 + i) for i in range(20)],
        "many": [RunShape(f"many-{i:04d}", 100, 12, 1000 + i) for i in range(num_many)],
    }


def _product(name: str, folder: Path, cases: dict[str, list[RunShape]]) -> AbstractContextManager[Product]:
    if name == "collapsewatch":
        folder.mkdir(parents=True)
        fill(folder / "collapsewatch.db", [run for runs in cases.values() for run in runs])
        return pages.ours(folder, PROJECT, [run.name for run in cases["compare"]])
    made = fill_peer(name, folder, cases)
    return pages.trackio(folder) if name == "trackio" else pages.mlflow(folder, made)


def _measure(browser: Browser, product: Product) -> Iterator[tuple[str, float | None]]:
    """(what, figure) of every case; None where the page was not drawn in time."""
    # A server that answers may still be starting; nobody has opened a page of it yet.
    time.sleep(_SETTLE_SECONDS)
    for case, screen in product.screens.items():
        opened = open_screen(
            screen,
            profiles=_PROFILES,
            visits=_VISITS,
            patience_seconds=_PATIENCE_SECONDS,
            picture=PICTURES / f"{product.name}-{case}.png",
        )
        yield f"{case} first", _middle([each[0].seconds for each in opened])
        yield f"{case} second", _middle([one.seconds for each in opened for one in each[1:2]])
        yield f"{case} again", _middle([one.seconds for each in opened for one in each[2:]])
        yield f"{case} sent", _sent(opened[0][0])
    stall = longest_stall(browser, product.screens["long"], patience_seconds=_PATIENCE_SECONDS)
    yield "long stall", stall


def _middle(values: Sequence[float | None]) -> float | None:
    known = sorted(value for value in values if value is not None)
    return known[len(known) // 2] if known and len(known) == len(values) else None


def _sent(opened: Opened) -> float | None:
    return None if opened.seconds is None else opened.megabytes


_FIGURES = [
    ("first", "first visit until drawn, median", "s"),
    ("second", "second visit until drawn, median", "s"),
    ("again", "later visits until drawn, median", "s"),
    ("sent", "sent on the first visit", "MB"),
    ("stall", "longest stall while zooming", "s"),
]


def _rows(measured: dict[str, dict[str, float | None]], cases: dict[str, list[RunShape]]) -> list[Row]:
    ours = measured.get("collapsewatch", {})
    rows = []
    for case, runs in cases.items():
        words = (
            f"{len(runs)} run{'s' if len(runs) > 1 else ''} of {runs[0].num_steps:,} × {runs[0].num_metrics}"
        )
        for key, metric, unit in _FIGURES:
            own = ours.get(f"{case} {key}")
            if own is None:
                continue
            about = (f"{case}: {words}", metric, own, unit)
            rows += _beside(about, f"{case} {key}", measured) or [Row(*about)]
    for name, figures in measured.items():
        late = [what for what, value in figures.items() if value is None]
        if late:
            print(f"{name}: not drawn within {_PATIENCE_SECONDS:.0f} s: {', '.join(late)}")
    return rows


def _beside(
    about: tuple[str, str, float, str], what: str, measured: dict[str, dict[str, float | None]]
) -> list[Row]:
    """Our figure beside that of each peer that was measured; a page that never stood says so."""
    rows = []
    for name, figures in measured.items():
        if name == "collapsewatch" or what not in figures:
            continue
        value = figures[what]
        if value is not None:
            rows.append(Row(*about, peer=value, peer_name=name))
        elif what.endswith("first"):
            rows.append(Row(*about, peer_name=f"{name} (not drawn within {_PATIENCE_SECONDS:.0f} s)"))
    return rows


if __name__ == "__main__":
    main()
