"""What is wrong with the service or the life of a run, by the values of one moment. Pure.

These alerts have no step: they open and are resolved by the clock.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collapsewatch_server.alerts.transitions import Severity

RUN_SCOPE = "run"
SPOOL_SCOPE = "spool"
QUEUE_SCOPE = "queue"
WORKERS_SCOPE = "workers"
CHANNEL_RULE = "channel_failing"
SEVERITIES: Mapping[str, Severity] = {
    "run_stalled": "warning",
    "run_crashed": "critical",
    "no_new_steps": "warning",
    "spool_backlog": "warning",
    "data_dropped": "warning",
    "batches_dead": "warning",
    "batches_deferred": "info",
    "batches_thinned": "warning",
    "queue_lag": "warning",
    "no_worker": "critical",
    "worker_gone": "warning",
    CHANNEL_RULE: "warning",
}
"""Severity by rule."""
_INTERVALS_WITHOUT_STEP = 10.0
_WHY_DROPPED = {
    "invalid": "invalid",
    "not_finite": "NaN or infinite",
    "rejected": "refused by the server",
    "spool_full": "no room in the spool",
    "damaged": "damaged on the trainer's disk",
    "closed": "logged after the end",
}
"""In words, what the SDK counts as `<what>_<why>`."""


@dataclass(frozen=True)
class Limits:
    """When something counts as wrong, in seconds."""

    stall_seconds: float = 60.0
    crash_seconds: float = 600.0
    worker_seconds: float = 15.0
    lag_seconds: float = 120.0
    quiet_seconds: float = 600.0


@dataclass(frozen=True)
class Dropped:
    """What the last alert on dropped data knew."""

    num_dropped: int
    dropped_at: float
    """When the number was seen to grow."""


@dataclass(frozen=True)
class RunFacts:
    """A run at one moment. Times are seconds since 1970."""

    run_pk: int
    run_id: str
    project: str
    state: str
    seen_at: float
    """Last sign of life; its beginning before any."""
    data_at: float
    """Last data; its newest start before any came since."""
    last_step: int | None = None
    interval_seconds: float | None = None
    """Median time between its last steps; only looked up for a run that has been quiet for long."""
    num_dead: int = 0
    num_deferred: int = 0
    num_thinned: int = 0
    """Laid aside within the last `quiet_seconds`, and not queued again since."""
    spool_records: int = 0
    spool_bytes: int = 0
    spool_oldest_seconds: float = 0.0
    dropped: Mapping[str, int] = field(default_factory=dict)
    known_drop: Dropped | None = None


@dataclass(frozen=True)
class WorkerFacts:
    """A worker at one moment."""

    name: str
    host: str
    device: str
    started_at: float
    seen_at: float
    is_stopping: bool = False

    def is_live(self, now: float, worker_seconds: float) -> bool:
        """Whether jobs can be expected to be taken by it."""
        return not self.is_stopping and now - self.seen_at <= worker_seconds


@dataclass(frozen=True)
class QueueFacts:
    """The queue at one moment."""

    num_waiting: int = 0
    """Deferred jobs among them."""
    oldest_seconds: float = 0.0
    """How long the first in line has waited; 0 when nobody is."""
    oldest_deferred_seconds: float = 0.0
    num_held: int = 0
    """Jobs with a lease that a worker keeps up: a worker lives, whether it says so or not."""


@dataclass(frozen=True)
class ChannelFacts:
    """A channel whose last message was given up."""

    channel_id: int
    name: str
    failed_at: float
    problem: str


@dataclass(frozen=True)
class Snapshot:
    """Everything the rules look at."""

    now: float
    runs: Sequence[RunFacts] = ()
    workers: Sequence[WorkerFacts] = ()
    queue: QueueFacts = field(default_factory=QueueFacts)
    channels: Sequence[ChannelFacts] = ()


@dataclass(frozen=True)
class Condition:
    """Something that is wrong now."""

    rule: str
    run_pk: int | None
    """None for what is about the service."""
    scope: str
    title: str
    message: str
    evidence: Mapping[str, Any]
    may_open: bool = True
    """False while silence may be this server's own fault: an open alert stays, no new one is opened."""

    @property
    def key(self) -> tuple[str, int | None, str]:
        """What makes two moments' conditions the same alert."""
        return self.rule, self.run_pk, self.scope

    @property
    def severity(self) -> Severity:
        """How grave it is."""
        return SEVERITIES[self.rule]


def next_state(run: RunFacts, now: float, heard_since: float, limits: Limits) -> str:
    """State of the run by its silence; signs of life bring it back elsewhere, at once.

    Args:
        heard_since: from when on this server could have heard a sign of life without a break. What came
            before it, nobody here could hear, and so it counts as no silence.
    """
    if run.state not in ("running", "stalled"):
        return run.state
    silent_seconds = now - max(run.seen_at, heard_since)
    if silent_seconds > limits.crash_seconds:
        return "crashed"
    return "stalled" if silent_seconds > limits.stall_seconds else run.state


def conditions(snapshot: Snapshot, heard_since: float, limits: Limits) -> list[Condition]:
    """All that is wrong, of runs whose state is up to date."""
    found: list[Condition] = []
    for run in snapshot.runs:
        found += _of_run(run, snapshot.now, heard_since, limits)
    found += [*_of_queue(snapshot, limits), *_of_workers(snapshot, heard_since, limits)]
    return [*found, *_of_channels(snapshot)]


def channel_scope(channel_id: int) -> str:
    """Scope of the alert about a channel."""
    return f"channel/{channel_id}"


def _of_run(run: RunFacts, now: float, heard_since: float, limits: Limits) -> Iterable[Condition]:
    last = "no step has arrived yet" if run.last_step is None else f"its last step is {run.last_step}"
    silence = {"silent_seconds": now - run.seen_at, "last_seen_at": run.seen_at, "last_step": run.last_step}
    if run.state in ("stalled", "crashed"):
        words = f"No sign of life for {_duration(now - run.seen_at)}; {last}."
        more = "It is taken for dead. " if run.state == "crashed" else ""
        title = "The run has crashed" if run.state == "crashed" else "The run has stalled"
        message = f"{words} {more}The next sign of life resolves this."
        yield Condition(f"run_{run.state}", run.run_pk, RUN_SCOPE, title, message, silence)
    if run.state == "running":
        yield from _quiet(run, now, heard_since, limits, last)
    if run.spool_records and run.spool_oldest_seconds > limits.lag_seconds:
        yield Condition(
            "spool_backlog",
            run.run_pk,
            SPOOL_SCOPE,
            "Data waits on the trainer's disk",
            f"{run.spool_records} records ({_size(run.spool_bytes)}) wait, the oldest for "
            f"{_duration(run.spool_oldest_seconds)}. Nothing is lost: a running trainer goes on sending, and "
            "`collapsewatch sync` on its host sends what a process that has ended left behind.",
            {
                "spool_records": run.spool_records,
                "spool_bytes": run.spool_bytes,
                "spool_oldest_seconds": run.spool_oldest_seconds,
            },
        )
    yield from _dropped(run, now, limits)
    if run.num_dead:
        yield Condition(
            "batches_dead",
            run.run_pk,
            QUEUE_SCOPE,
            "Batches could not be scored",
            f"{run.num_dead} batches failed every start. The run's page shows why and can start them anew.",
            {"num_dead": run.num_dead},
        )
    if run.num_deferred:
        yield Condition(
            "batches_deferred",
            run.run_pk,
            QUEUE_SCOPE,
            "Older batches are put off",
            f"{run.num_deferred} batches wait until nothing newer does: the run produces faster than the "
            "workers score. More workers catch up.",
            {"num_deferred": run.num_deferred},
        )
    if run.num_thinned:
        yield Condition(
            "batches_thinned",
            run.run_pk,
            QUEUE_SCOPE,
            "Batches are laid aside unscored",
            f"{run.num_thinned} batches in the last {_duration(limits.quiet_seconds)} were the oldest of too "
            "many that waited. More workers score more of them; the run's page can queue them again.",
            {"num_thinned": run.num_thinned},
        )


def _quiet(run: RunFacts, now: float, heard_since: float, limits: Limits, last: str) -> Iterable[Condition]:
    limit = max(limits.quiet_seconds, _INTERVALS_WITHOUT_STEP * (run.interval_seconds or 0.0))
    quiet_seconds = now - run.data_at
    if quiet_seconds <= limit:
        return
    usual = ""
    if run.interval_seconds is not None:
        usual = f" Steps usually come every {_duration(run.interval_seconds)}."
    yield Condition(
        "no_new_steps",
        run.run_pk,
        RUN_SCOPE,
        "No new steps",
        f"The trainer is alive, but has sent no data for {_duration(quiet_seconds)}; {last}.{usual}",
        {
            "quiet_seconds": quiet_seconds,
            "limit_seconds": limit,
            "interval_seconds": run.interval_seconds,
            "last_step": run.last_step,
        },
        may_open=now - max(run.data_at, heard_since) > limit,
    )


def _dropped(run: RunFacts, now: float, limits: Limits) -> Iterable[Condition]:
    """Holds for a while after each loss; the run's page keeps the numbers for ever."""
    num_dropped, known = sum(run.dropped.values()), run.known_drop
    if not num_dropped:
        return
    dropped_at = now
    if known is not None and num_dropped <= known.num_dropped:
        dropped_at = known.dropped_at
    if now - dropped_at > limits.quiet_seconds:
        return
    yield Condition(
        "data_dropped",
        run.run_pk,
        SPOOL_SCOPE,
        "Data was dropped on the trainer",
        f"This will never arrive: {_told_drops(run.dropped)}.",
        {"num_dropped": num_dropped, "dropped": dict(run.dropped), "dropped_at": dropped_at},
    )


def _of_queue(snapshot: Snapshot, limits: Limits) -> Iterable[Condition]:
    queue, now = snapshot.queue, snapshot.now
    live = sum(worker.is_live(now, limits.worker_seconds) for worker in snapshot.workers)
    oldest = max(queue.oldest_seconds, queue.oldest_deferred_seconds)
    if queue.oldest_seconds > limits.lag_seconds:
        yield Condition(
            "queue_lag",
            None,
            QUEUE_SCOPE,
            "Scoring lags behind",
            f"The first batch in line has waited for {_duration(queue.oldest_seconds)}, and "
            f"{queue.num_waiting} wait in all. Live workers: {live}.",
            {
                "oldest_seconds": queue.oldest_seconds,
                "num_waiting": queue.num_waiting,
                "num_live_workers": live,
            },
        )
    if queue.num_waiting and oldest > limits.worker_seconds and not live and not queue.num_held:
        yield Condition(
            "no_worker",
            None,
            WORKERS_SCOPE,
            "No worker is running",
            f"{queue.num_waiting} batches wait, the oldest for {_duration(oldest)}, and no worker shows a "
            "sign of life. `collapsewatch worker` starts one; nothing is lost meanwhile.",
            {"num_waiting": queue.num_waiting, "oldest_seconds": oldest},
        )


def _of_workers(snapshot: Snapshot, heard_since: float, limits: Limits) -> Iterable[Condition]:
    now = snapshot.now
    for worker in snapshot.workers:
        if worker.is_stopping or worker.is_live(now, limits.worker_seconds):
            continue
        if any(_replaces(other, worker, now, limits) for other in snapshot.workers):
            continue
        yield Condition(
            "worker_gone",
            None,
            worker.name,
            "A worker has vanished",
            f"{worker.name} on {worker.host} ({worker.device}) has shown no sign of life for "
            f"{_duration(now - worker.seen_at)} and had not said that it would stop. If it held a job, "
            "another worker takes it over.",
            {
                "worker": worker.name,
                "host": worker.host,
                "device": worker.device,
                "silent_seconds": now - worker.seen_at,
            },
            may_open=now - max(worker.seen_at, heard_since) > limits.worker_seconds,
        )


def _of_channels(snapshot: Snapshot) -> Iterable[Condition]:
    for channel in snapshot.channels:
        yield Condition(
            CHANNEL_RULE,
            None,
            channel_scope(channel.channel_id),
            "A channel does not work",
            f"A message to the channel {channel.name} was given up ({channel.problem}). "
            "The next one that gets through, a test among them, resolves this.",
            {
                "channel_id": channel.channel_id,
                "channel": channel.name,
                "failed_at": channel.failed_at,
                "problem": channel.problem,
            },
        )


def _replaces(other: WorkerFacts, gone: WorkerFacts, now: float, limits: Limits) -> bool:
    """Whether a supervisor, or a person, has started another one in its place."""
    same_place = (other.host, other.device) == (gone.host, gone.device)
    return same_place and other.started_at > gone.started_at and other.is_live(now, limits.worker_seconds)


def _told_drops(dropped: Mapping[str, int]) -> str:
    """Such as: 3 batches (no room in the spool), 5 values (invalid)."""
    told = []
    for key, count in sorted(dropped.items()):
        what, _, why = key.partition("_")
        if count:
            told.append(f"{count} {what} ({_WHY_DROPPED.get(why, why.replace('_', ' '))})")
    return ", ".join(told)


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB" if num_bytes >= 1e5 else f"{num_bytes / 1e3:.1f} kB"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
