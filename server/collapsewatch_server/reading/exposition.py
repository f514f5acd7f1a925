"""What Prometheus is told of the database: read at each scrape, so that every process says the same."""

from collections.abc import Iterable, Mapping

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily
from sqlalchemy.exc import SQLAlchemyError

from collapsewatch_server.reading.service import ServiceReading, Standing

_PREFIX = "collapsewatch_"


class ServiceCollector:
    """A collector of `prometheus_client`. Without the database it says so and leaves the rest out."""

    def __init__(self, service: ServiceReading) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        """The numbers as they are now."""
        disk = self._service.disk()
        if disk is not None:
            yield _gauge("blob_disk_free_bytes", "Room for batches.", disk.free_bytes)
        try:
            standing = self._service.standing()
        except SQLAlchemyError:
            yield _gauge("database_up", "Whether the database answers.", 0)
            return
        yield _gauge("database_up", "Whether the database answers.", 1)
        yield from _of_queue(standing)
        yield from _of_life(standing)

    def describe(self) -> Iterable[Metric]:
        """Nothing: looking costs a query, and registering must not."""
        return ()


def _of_queue(standing: Standing) -> Iterable[Metric]:
    yield _by("jobs", "Batches that are not scored, by status.", "status", standing.jobs)
    yield _gauge(
        "oldest_queued_job_seconds", "How long the first in line has waited.", standing.oldest_seconds
    )
    live = standing.workers["working"] + standing.workers["idle"]
    yield _gauge("workers_live", "Workers that can take jobs.", live)
    yield _by("workers", "Workers of the last day by state.", "state", standing.workers)
    seen = GaugeMetricFamily(
        f"{_PREFIX}worker_last_seen_timestamp_seconds",
        "Time of a worker's last sign of life.",
        labels=["worker", "host"],
    )
    for labels, seen_at in standing.workers_seen_at.items():
        seen.add_metric(labels, seen_at)
    yield seen


def _of_life(standing: Standing) -> Iterable[Metric]:
    yield _by("runs", "Runs by state.", "state", standing.runs)
    spooled = standing.spooled
    yield _gauge("spool_records", "Records that wait on trainers' disks.", spooled.spool_records)
    yield _gauge("spool_bytes", "Bytes that wait on trainers' disks.", spooled.spool_bytes)
    yield _gauge("spool_oldest_seconds", "Age of the oldest such record.", spooled.spool_oldest_seconds)
    dropped = sum(spooled.dropped.values())
    yield _gauge("dropped_records", "Records that trainers dropped and that will never arrive.", dropped)
    alerts = GaugeMetricFamily(f"{_PREFIX}open_alerts", "Open alerts.", labels=["rule", "severity"])
    for rule, severity, count in standing.alerts:
        alerts.add_metric([rule, severity], count)
    yield alerts


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{_PREFIX}{name}", meaning, value=value)


def _by(name: str, meaning: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(f"{_PREFIX}{name}", meaning, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
