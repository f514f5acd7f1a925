"""Pictures of a running service's page for the README: `python scripts/screenshots.py http://127.0.0.1:7788`.

Takes the newest collapsed run in both themes, and its comparison with its sibling, into docs/.
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
            context.close()
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
