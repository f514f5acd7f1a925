"""Takes heartbeats in. They come often and from many processes, so they write little."""

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from collapsewatch.contracts.runs import Heartbeat, HeartbeatReceipt, RunState
from collapsewatch.contracts.scoring import WorkerHeartbeat
from collapsewatch_server.db import Database, is_away
from collapsewatch_server.errors import AttemptNotFound
from collapsewatch_server.liveness import signs
from collapsewatch_server.liveness.earshot import Earshot
from collapsewatch_server.repositories import attempts, clock, writers
from collapsewatch_server.repositories import workers as worker_rows
from collapsewatch_server.tables import Run, Writer

T = TypeVar("T")

_LARGEST_ID = 2**63 - 1
# A writer that says the same again is written down this rarely; its run is all that a stall is judged by.
_REPEAT_SECONDS = 30.0


class Heartbeats:
    """Signs of life that bring no data."""

    def __init__(self, database: Database, earshot: Earshot, *, fresh_seconds: float) -> None:
        """The service.

        Args:
            fresh_seconds: a run that was seen so recently is not noted again. Of hundreds of ranks that beat
                at once only the first then needs the run's row, on which its data waits as well.
        """
        self._database = database
        self._earshot = earshot
        self._fresh_seconds = fresh_seconds

    def of_writer(self, run: Run, beat: Heartbeat) -> HeartbeatReceipt:
        """Notes that a process that logs is alive, and what waits in its spool.

        Raises:
            AttemptNotFound: nobody has opened the attempt that it names.
        """
        return self._heard(lambda: self._of_writer(run, beat))

    def of_worker(self, beat: WorkerHeartbeat) -> None:
        """Notes that a worker is alive, and what it is doing."""

        def note() -> None:
            job_pk = beat.job_id if beat.job_id is not None and 0 < beat.job_id <= _LARGEST_ID else None
            values = beat.model_dump(exclude={"worker", "job_id"})
            with self._database.write_session() as session:
                worker_rows.note(session, beat.worker, job_pk=job_pk, **values)

        self._heard(note)

    def missed(self) -> None:
        """Notes that a sign of life was turned away."""
        self._earshot.lost()

    def _of_writer(self, run: Run, beat: Heartbeat) -> HeartbeatReceipt:
        with self._database.read_session() as session:
            moment = clock.read(session)
            attempt_pk = _attempt_pk(session, run.id, beat.attempt_id)
            known = writers.find(session, run.id, beat.writer_id)
        report = _report(beat, known, moment)
        if known is not None and _is_known(known, report, moment) and not self._is_news(run, moment):
            return HeartbeatReceipt(state=RunState(run.state))
        with self._database.write_session() as session:
            if known is None:
                signs.started(session, run.id, attempt_pk, beat.writer_id, late=not beat.is_alive)
            elif beat.is_alive and self._is_news(run, moment):
                writers.see_run(session, run.id, with_data=False)
            writers.change(session, run.id, beat.writer_id, **report)
            state = writers.state_of_run(session, run.id)
        return HeartbeatReceipt(state=RunState(state))

    def _is_news(self, run: Run, moment: float) -> bool:
        return run.state in writers.SILENT_STATES or moment - (run.last_seen_at or 0.0) > self._fresh_seconds

    def _heard(self, note: Callable[[], T]) -> T:
        try:
            return note()
        except SQLAlchemyError as error:
            if is_away(error):
                self._earshot.lost()
            raise


def _attempt_pk(session: Session, run_pk: int, attempt_id: str | None) -> int | None:
    if attempt_id is None:
        return signs.newest_attempt(session, run_pk)
    attempt = attempts.of_run(session, run_pk).named(attempt_id)
    if attempt is None:
        raise AttemptNotFound(attempt_id)
    return attempt.pk


def _is_known(known: Writer, report: dict[str, Any], moment: float) -> bool:
    """Whether the writer has nothing to say that is not stored, as one that is shipped up to date."""
    told = {name: value for name, value in report.items() if name != "last_seen_at"}
    is_recent = moment - (known.last_seen_at or 0.0) < _REPEAT_SECONDS
    return not known.spool_records and is_recent and told == {name: getattr(known, name) for name in told}


def _report(beat: Heartbeat, known: Writer | None, moment: float) -> dict[str, Any]:
    has_ended = known is not None and signs.has_ended(known.state)
    oldest_seconds, seen_at = beat.spool_oldest_seconds, moment
    if not beat.is_alive:
        # Ages are stored as of the moment at which the writer was last heard of.
        seen_at = moment if known is None or known.last_seen_at is None else known.last_seen_at
        oldest_seconds = max(0.0, oldest_seconds - (moment - seen_at))
    spool = {
        "spool_records": beat.spool_records,
        "spool_bytes": beat.spool_bytes,
        "spool_oldest_seconds": oldest_seconds,
    }
    return {
        # One that was overtaken on its way still speaks of what has come by now.
        **(writers.NOTHING_SPOOLED if has_ended else spool),
        "dropped": dict(beat.dropped),
        **({"last_seen_at": moment} if beat.is_alive else {}),
        **{name: given for name in ("host", "rank") if (given := getattr(beat, name)) is not None},
    }
