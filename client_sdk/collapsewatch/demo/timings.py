"""When what happened in the demo, in seconds from the service being up."""

import datetime
import time
from collections.abc import Iterable


class Timings:
    """A clock that starts with the demo and is set to 0 when the service is up."""

    def __init__(self) -> None:
        self.service_up_at = datetime.datetime.now(datetime.UTC)
        self._zero = time.monotonic()
        self._seconds: dict[str, float] = {}

    def service_is_up(self) -> None:
        """Notes how long the service took; all later seconds count from here."""
        self.mark("service_up_seconds")
        self.service_up_at, self._zero = datetime.datetime.now(datetime.UTC), time.monotonic()

    def mark(self, name: str) -> None:
        """Notes when this happened for the first time."""
        self._seconds.setdefault(name, round(time.monotonic() - self._zero, 1))

    def as_json(self, first_alerts: Iterable[float | None]) -> dict[str, float | None]:
        """All that was noted, and the first alert of any run; None when there was none."""
        first = min((seconds for seconds in first_alerts if seconds is not None), default=None)
        return {**self._seconds, "first_alert_seconds": first}
