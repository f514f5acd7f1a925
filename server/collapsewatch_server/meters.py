"""What this process has counted since its start, for Prometheus. Each server process is scraped by itself."""

import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

UNMATCHED = "unmatched"
OTHER = "other"
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_FILES = "/static"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Meters:
    """The counters of one process; several servers in one process have one each."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        options: dict[str, Any] = {"namespace": "collapsewatch", "registry": self.registry}
        self._batches = Counter("batches", "Batches taken in, by outcome.", ["outcome"], **options)
        self._rollouts = Counter("rollouts", "Rollouts of the accepted batches.", **options)
        self._bytes = Counter("batch_bytes", "Bytes of the accepted batches, decompressed.", **options)
        self._scalars = Counter("scalars", "Plain numbers taken in.", **options)
        self._heartbeats = Counter("heartbeats", "Signs of life, by sender.", ["sender"], **options)
        self._answers = Counter(
            "http_answers",
            "Answers by route and status; 429 are shed.",
            ["method", "route", "status"],
            **options,
        )
        self._seconds = Histogram(
            "http_request_seconds",
            "Time until an answer began, by route; a claim may wait on purpose.",
            ["method", "route"],
            buckets=_SECONDS,
            **options,
        )
        for outcome in ("accepted", "duplicate"):
            self._batches.labels(outcome)
        for sender in ("trainer", "worker"):
            self._heartbeats.labels(sender)

    def count_batch(self, *, duplicate: bool, num_rollouts: int, num_bytes: int) -> None:
        """Notes a batch that was taken in."""
        self._batches.labels("duplicate" if duplicate else "accepted").inc()
        if not duplicate:
            self._rollouts.inc(num_rollouts)
            self._bytes.inc(num_bytes)

    def count_scalars(self, num_values: int) -> None:
        """Notes plain numbers that were taken in."""
        self._scalars.inc(num_values)

    def count_heartbeat(self, sender: str) -> None:
        """Notes a sign of life of a `trainer` or a `worker`."""
        self._heartbeats.labels(sender).inc()

    def count_answer(self, method: str, route: str, status: int, seconds: float) -> None:
        """Notes an answer. Routes are templates: a path of its own for every run would never end."""
        self._answers.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)


class MeterMiddleware:
    """Counts answers, and the time until each begins; an open stream goes on for hours."""

    def __init__(self, app: ASGIApp, meters: Meters) -> None:
        self._app = app
        self._meters = meters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        has_answered = False

        def count(status: int) -> None:
            nonlocal has_answered
            has_answered = True
            method, route = _route(scope)
            self._meters.count_answer(method, route, status, time.perf_counter() - started)

        async def count_and_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                count(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, count_and_send)
        except Exception:
            if not has_answered:
                count(500)
            raise


def _route(scope: Scope) -> tuple[str, str]:
    template = getattr(scope.get("route"), "path", None)
    if template is not None:
        # Clients make methods up as well.
        method = scope["method"] if scope["method"] in _METHODS else OTHER
        return method, str(template)
    # Only what is mounted has an endpoint without a route; whatever else comes is made up by the client.
    return ("GET", _FILES) if "endpoint" in scope else (UNMATCHED, UNMATCHED)
