"""Pictures of a running service's page for the README: `python scripts/screenshots.py http://127.0.0.1:7788`.

Takes the newest collapsed run in both themes, its comparison with its sibling, and its critical alert, into
docs/.
"""

import sys
from pathlib import Path

import httpx
from playwright.sync_api import Page, expect, sync_playwright

DOCS = Path(__file__).parents[1] / "docs"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]


def newest_pair(url: str) -> tuple[str, str]:
    """Ids of the newest run with a critical alert and of another run of its project."""
    runs = httpx.get(f"{url}/api/v1/runs").raise_for_status().json()["runs"]
    collapsed = next(run for run in runs if run["open_alerts"]["critical"])
    sibling = next(run for run in runs if run["project"] == collapsed["project"] and run is not collapsed)
    return collapsed["run_id"], sibling["run_id"]


def shoot(page: Page, name: str, *, height: int | None = None) -> None:
    """One picture, of the whole page or of its first `height` pixels."""
    page.wait_for_timeout(1500)
    if height is None:
        page.screenshot(path=DOCS / name, full_page=True)
    else:
        page.screenshot(
            path=DOCS / name, clip={"x": 0, "y": 0, "width": 1280, "height": height}, full_page=True
        )


def shoot_alert(page: Page, url: str, run_id: str) -> None:
    """The run's critical alert with its evidence."""
    asked = {"run": run_id, "severity": "critical"}
    items = httpx.get(f"{url}/api/v1/alerts", params=asked).raise_for_status().json()["items"]
    page.goto(f"/#/alerts/{items[0]['alert_id']}")
    expect(page.locator("[data-testid=alert-figures] .js-plotly-plot").first).to_be_visible()
    shoot(page, "alert-light.png", height=1200)


def main(url: str, executable: str = "/usr/bin/chromium") -> None:
    collapsed, sibling = newest_pair(url)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=FLAGS)
        for theme in ("light", "dark"):
            context = browser.new_context(
                viewport={"width": 1280, "height": 900},
                color_scheme="dark" if theme == "dark" else "light",
                base_url=url,
            )
            page = context.new_page()
            page.goto(f"/#/runs/{collapsed}")
            expect(page.locator("[data-testid=figure-quadrant] .js-plotly-plot")).to_be_visible()
            page.get_by_test_id("ghost-picker").locator("select").or_(
                page.locator("select[data-testid=ghost-picker]")
            ).first.select_option(sibling)
            shoot(page, f"screenshot-{theme}.png", height=1360)
            if theme == "light":
                page.goto(f"/#/compare?runs={collapsed},{sibling}")
                expect(page.locator("[data-testid=figure-compare-quadrant] .js-plotly-plot")).to_be_visible()
                shoot(page, "compare-light.png", height=1200)
                shoot_alert(page, url, collapsed)
            context.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
