"""What the service says about the demo's runs while they train."""

import time
from typing import Any

import httpx
from rich.console import Console

from collapsewatch.demo.processes import ChildFailedError
from collapsewatch.demo.service import ServiceReader
from collapsewatch.demo.timings import Timings

POLL_SECONDS = 1.0
STALL_SECONDS = 120.0
"""Scoring that makes no progress for this long, after the training has ended, is given up."""
_SEVERITY_STYLES = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


class Scores:
    """Reads the runs about once a second, tells each new alert, and knows when all is scored.

    Args:
        run_ids: by variant.
        titles: what each variant is called in what is printed.
    """

    def __init__(
        self,
        reader: ServiceReader,
        run_ids: dict[str, str],
        titles: dict[str, str],
        timings: Timings,
        console: Console,
    ) -> None:
        self.notes = dict.fromkeys(run_ids, "")
        """By variant: the newest numbers in a few words."""
        self._reader = reader
        self._run_ids = run_ids
        self._titles = titles
        self._timings = timings
        self._console = console
        self._jobs: dict[str, dict[str, int]] = {}
        self._told: set[int] = set()
        self._next_poll = 0.0
        self._last_progress = time.monotonic()

    @property
    def num_pending(self) -> int:
        """Batches that still wait for their scores, or are being scored."""
        return sum(jobs.get("queued", 0) + jobs.get("leased", 0) for jobs in self._jobs.values())

    @property
    def num_scored(self) -> int:
        return sum(jobs.get("done", 0) for jobs in self._jobs.values())

    @property
    def num_dead(self) -> int:
        """Batches whose scoring failed for good."""
        return sum(jobs.get("dead", 0) for jobs in self._jobs.values())

    def poll(self, *, now: bool = False) -> None:
        """Brings everything up to date, at most once a second unless `now`. A failed request is let pass."""
        if not now and time.monotonic() < self._next_poll:
            return
        before = self.num_scored
        try:
            for variant, run_id in self._run_ids.items():
                run = self._reader.run(run_id)
                if run is not None:
                    self._take(variant, run)
        except httpx.HTTPError:
            # A busy service may be late. One that is gone is noticed as a process that ended.
            pass
        if self.num_scored != before:
            self._last_progress = time.monotonic()
        self._next_poll = time.monotonic() + POLL_SECONDS

    def check_progress(self, since: float) -> None:
        """Complains when nothing was scored for two minutes.

        Args:
            since: `time.monotonic()` before which waiting does not count.

        Raises:
            ChildFailedError: scoring has come to a halt.
        """
        waited = time.monotonic() - max(since, self._last_progress)
        if waited > STALL_SECONDS:
            raise ChildFailedError(
                f"nothing was scored for {waited:.0f} s: "
                f"{self.num_scored} batches are scored, {self.num_pending} wait"
            )

    def _take(self, variant: str, run: dict[str, Any]) -> None:
        self._jobs[variant] = run["jobs"]
        latest = run["latest"]
        if "retrieval_accuracy" not in latest:
            return
        self._timings.mark("first_point_seconds")
        regime = str(run["regime"]["regime"]).replace("_", " ") if run["regime"] else ""
        self.notes[variant] = f"retrieval {latest['retrieval_accuracy']:.2f}  {regime}"
        if sum(run["open_alerts"].values()):
            self._tell_alerts(variant, run["run_id"])

    def _tell_alerts(self, variant: str, run_id: str) -> None:
        for alert in self._reader.alerts(run_id):
            if alert["alert_id"] in self._told:
                continue
            self._told.add(alert["alert_id"])
            style = _SEVERITY_STYLES.get(alert["severity"], "")
            step = alert["opened_step"]
            when = alert["severity"] if step is None else f"{alert['severity']} at step {step}"
            told = f"{self._titles[variant]}: {when}: {alert['title']}"
            self._console.print(told, style=style, markup=False)
