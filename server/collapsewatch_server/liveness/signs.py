"""Signs of life of a run's processes. Each is a part of its caller's transaction, and holds no lock itself.

What is shipped from the spool of a dead process is `late`: it brings data, but says nothing of life.
"""

from typing import Any

from sqlalchemy.orm import Session

from collapsewatch_server.repositories import attempts, clock, writers
from collapsewatch_server.tables import Run

_ENDED = {"finished", "failed"}
GONE = "gone"
"""State of a writer that is only known by what it left behind: the run does not wait for its end."""


def started(
    session: Session, run_pk: int, attempt_pk: int | None, writer_id: str | None, *, late: bool = False
) -> None:
    """Notes that a process has opened the run; a writer that is new to the newest attempt makes it run.

    A start that is sent again changes nothing about a writer that has ended since, and what is late makes
    nothing run.
    """
    if not late:
        writers.see_run(session, run_pk, with_data=False)
    if writer_id is None:
        return
    is_newest = attempt_pk == newest_attempt(session, run_pk)
    if late:
        is_new = writers.add(session, run_pk, writer_id, attempt_pk=attempt_pk, state=GONE)
    else:
        seen_at = clock.read(session)
        is_new = writers.add(session, run_pk, writer_id, attempt_pk=attempt_pk, last_seen_at=seen_at)
        if not is_new:
            writers.change(session, run_pk, writer_id, last_seen_at=seen_at)
            # Somebody took it for dead, and here it is.
            is_new = writers.revive(session, run_pk, writer_id, GONE)
    writers.change(session, run_pk, writer_id, attempt_pk=attempt_pk)
    if late or not is_new or not is_newest:
        return
    if writers.state_of_run(session, run_pk) in _ENDED:
        writers.set_state_of_run(session, run_pk, "running")


def ended(session: Session, run: Run, writer_id: str | None, state: str, *, late: bool = False) -> str:
    """State of the run after one of its processes said `running`, `finished` or `failed` of itself.

    The run ends when every writer of its newest attempt has ended, and has failed if one of them has. What
    names no writer is said of the run as a whole and counts at once.
    """
    if not late:
        writers.see_run(session, run.id, with_data=False)
    now_is = writers.state_of_run(session, run.id)
    becomes = state
    if writer_id is not None:
        becomes = _state_by_writers(session, run.id, writer_id, state, late, now_is)
    if late and now_is in _ENDED and becomes not in _ENDED:
        becomes = now_is
    if becomes != now_is:
        writers.set_state_of_run(session, run.id, becomes)
    return becomes


def has_ended(state: str) -> bool:
    """Whether a writer in this state has sent everything."""
    return state in _ENDED


def saw_data(session: Session, run_pk: int, *, late: bool) -> None:
    """Notes that a batch or scalars arrived: a silent run is running again, unless they are late."""
    if not late:
        writers.see_run(session, run_pk, with_data=True)


def newest_attempt(session: Session, run_pk: int) -> int | None:
    """The attempt that decides about the run's state."""
    known = attempts.of_run(session, run_pk).attempts
    return known[-1].pk if known else None


def _state_by_writers(
    session: Session, run_pk: int, writer_id: str, state: str, late: bool, now_is: str
) -> str:
    newest = newest_attempt(session, run_pk)
    seen_at = None if late else clock.read(session)
    writers.add(session, run_pk, writer_id, attempt_pk=newest, last_seen_at=seen_at)
    values: dict[str, Any] = {} if late else {"last_seen_at": seen_at}
    if state in _ENDED:
        # Its end is the last record of its spool: all others have come before.
        values |= writers.NOTHING_SPOOLED
    writers.change(session, run_pk, writer_id, state=state, **values)
    writer = writers.find(session, run_pk, writer_id)
    assert writer is not None
    if writer.attempt_pk != newest:
        return now_is
    states = writers.states(session, run_pk, newest) - {GONE}
    if not states <= _ENDED:
        return "running" if now_is in _ENDED else now_is
    return "failed" if "failed" in states else "finished"
