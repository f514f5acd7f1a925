"""What the read API says of the service itself: its queue, its workers, what waits on the trainers' disks."""

from typing import Literal

from collapsewatch.contracts.runs import RunState
from collapsewatch_server.reading.views import AlertView, Iso, View

WorkerState = Literal["working", "idle", "stopping", "gone"]


class QueueView(View):
    """Batches that are not scored."""

    queued: int
    """Waiting in line."""
    leased: int
    """In the hands of workers."""
    deferred: int
    """Waiting until nothing else does, because too many of their run wait."""
    thinned: int
    """Laid aside unscored; they can be queued again."""
    dead: int
    """Failed at every start."""
    oldest_seconds: float | None
    """How long the oldest that waits has waited, deferred ones as well; none when nothing waits."""


class WorkerJobView(View):
    """What a worker has in hand."""

    run_id: str
    run_name: str
    step: int


class WorkerView(View):
    """A worker, by its own word."""

    name: str
    host: str
    device: str
    version: str
    state: WorkerState
    """`gone`: no sign of life, and it had not said that it would stop."""
    last_seen_at: Iso
    num_done: int
    """Since it started."""
    num_failed: int
    job: WorkerJobView | None


class BacklogView(View):
    """A run of which something waits on a trainer's disk, was dropped there, or was put off here."""

    run_id: str
    project: str
    name: str
    state: RunState
    spool_records: int
    spool_bytes: int
    spool_oldest_seconds: float
    dropped: dict[str, int]
    """What will never arrive, by reason."""
    num_writers: int
    num_deferred: int


class WatchAlertView(AlertView):
    """An open alert of the watch; about the service when it names no run."""

    run_id: str | None
    run_name: str | None
    project: str | None


class ServiceView(View):
    """The service as it stands."""

    queue: QueueView
    workers: list[WorkerView]
    """Those of the last day, but for those that were stopped in order."""
    runs_with_backlog: list[BacklogView]
    alerts: list[WatchAlertView]
    """Open alerts about the service and about the life of runs, newest first."""
    disk_free_bytes: int | None
    """Of the folder of the batches; none when it is no folder."""
    disk_total_bytes: int | None
