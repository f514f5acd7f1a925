"""A run's page inside a notebook, by a read-only link of its own."""

import sys
import time
from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any

from collapsewatch.settings import READ_KEY_HINT, Settings
from collapsewatch.wire import connect

if TYPE_CHECKING:
    import httpx

ASK_AGAIN_SECONDS = 0.5
_MAX_TITLE = 200


@dataclass(slots=True)
class Shown:
    """A run's page as notebooks display it; elsewhere its address."""

    url: str
    """A link that opens the run for whoever has it, without an account; empty when there is none."""
    reason: str = ""
    """Why there is none."""
    height: int = 720
    displayed_in: int | None = field(default=None, compare=False, repr=False)
    """Number of the cell that has displayed it: as that cell's last word it is not displayed twice."""

    def _ipython_display_(self) -> None:
        display(self, in_passing=False)

    def _repr_html_(self) -> str:
        if not self.url:
            return f"<p>The run cannot be shown: {escape(self.reason)}</p>"
        address = escape(self.url, quote=True)
        return (
            f'<iframe src="{address}?embed" width="100%" height="{self.height}" '
            'style="border: 1px solid #8884; border-radius: 8px" loading="lazy" '
            'title="collapsewatch" referrerpolicy="no-referrer"></iframe>'
            f'<p><a href="{address}" target="_blank" rel="noopener noreferrer">Open in a tab</a></p>'
        )

    def __repr__(self) -> str:
        return f"<{self.url}>" if self.url else f"<not shown: {self.reason}>"


class RunWindow:
    """Shows one run in notebooks, by one link as long as that will do."""

    def __init__(self, settings: Settings, run_id: str) -> None:
        self._settings = settings
        self._run_id = run_id
        self._known: Shown | None = None

    def show(self, title: str, *, height: int, days: float, snapshot: bool, timeout_seconds: float) -> Shown:
        """The run's page, displayed; a snapshot has a link of its own each time.

        Args:
            title: of a new link.
        """
        if self._known is not None and not snapshot:
            page = replace(self._known, height=height)
        else:
            page = shown(
                self._settings,
                self._run_id,
                title,
                height=height,
                days=days,
                snapshot=snapshot,
                timeout_seconds=timeout_seconds,
            )
        if page.url and not snapshot:
            self._known = page
        display(page)
        return page


def shown(
    settings: Settings,
    run_id: str,
    title: str,
    *,
    height: int,
    days: float,
    snapshot: bool,
    timeout_seconds: float,
) -> Shown:
    """The run's page, by a new link.

    A run that was opened a moment ago may still be on its way to the server, and is waited for.
    """
    if settings.mode != "online":
        return Shown("", f"the run is {settings.mode}, and nothing of it is sent to a server")
    draft = {
        "title": title[:_MAX_TITLE] or run_id,
        "kind": "run",
        "run_ids": [run_id],
        "view": f"#/runs/{run_id}",
        "mode": "snapshot" if snapshot else "live",
        "expires_in_seconds": days * 86_400,
    }
    until = time.monotonic() + timeout_seconds
    with connect(settings, reads=True) as client:
        while True:
            url, reason, is_over = _link(client, settings, draft, until - time.monotonic())
            if url or is_over or time.monotonic() + ASK_AGAIN_SECONDS > until:
                return Shown(url, reason, height)
            time.sleep(ASK_AGAIN_SECONDS)


def display(page: Shown, *, in_passing: bool = True) -> None:
    """Displays the page where a notebook runs this; does nothing elsewhere.

    Args:
        in_passing: in the middle of a cell, which may go on to train for hours; else as its value.
    """
    # Whoever runs a notebook has it imported; whoever trains need not have it installed.
    ipython: Any = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or (not in_passing and page.displayed_in == shell.execution_count):
        return
    if in_passing:
        page.displayed_in = shell.execution_count
    content = {"text/html": page._repr_html_(), "text/plain": repr(page)}
    ipython.display.display(content, raw=True)


def _link(
    client: "httpx.Client", settings: Settings, draft: dict[str, Any], seconds: float
) -> tuple[str, str, bool]:
    """The link's address, why there is none, and whether asking again is of no use."""
    import httpx

    try:
        response = client.post("/api/v1/shares", json=draft, timeout=max(seconds, 1.0))
    except httpx.HTTPError as error:
        return "", f"the server does not answer: {type(error).__name__}", False
    if response.status_code == 404:
        return "", "the run has not arrived at the server yet, or the key for reading is for others", False
    try:
        document = response.json()
        if response.is_success:
            return str(document["url"] or f"{settings.url}{document['path']}"), "", True
        told = str(document["error"]["message"])[:500]
        if response.status_code in (401, 403):
            told = f"{told}. {READ_KEY_HINT}"
        return "", told, response.status_code < 500
    except (ValueError, LookupError, TypeError):
        return "", f"the server answered {response.status_code}", response.status_code < 500
