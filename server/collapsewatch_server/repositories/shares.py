"""Links to runs as rows."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ScalarSelect, delete, func, or_, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.access.visible import SEES_ALL
from collapsewatch_server.db import insert, now
from collapsewatch_server.share_tables import Share, ShareRun
from collapsewatch_server.tables import Run


def add(session: Session, run_pks: Sequence[int], *, lasts_seconds: float, **values: Any) -> Share:
    """The new link; the runs in the order given."""
    row = Share(**values, num_runs=len(run_pks), revoked_at=None, last_opened_at=None, num_opened=0)
    row.created_at = now()
    row.expires_at = now() + lasts_seconds
    session.add(row)
    session.flush()
    places = [
        {"share_pk": row.id, "run_pk": run_pk, "position": position}
        for position, run_pk in enumerate(run_pks)
    ]
    session.execute(insert(session, ShareRun), places)
    session.refresh(row)
    return row


def with_prefix(session: Session, prefix: str) -> Sequence[Share]:
    """The links, ended ones among them, whose token begins with `prefix`: one, or by great chance more."""
    return session.scalars(select(Share).where(Share.prefix == prefix)).all()


def find(session: Session, share_id: int) -> Share | None:
    """The link of that id."""
    return session.get(Share, share_id)


def num_good(session: Session) -> int:
    """Number of links that can be opened now, of all projects."""
    statement = select(func.count(Share.id)).where(Share.revoked_at.is_(None), Share.expires_at > now())
    return session.scalar(statement, execution_options=SEES_ALL) or 0


def listed(session: Session, run_id: str | None, limit: int) -> Sequence[Share]:
    """Links, those to one run or all, newest first."""
    statement = select(Share).order_by(Share.id.desc()).limit(limit)
    if run_id is not None:
        of_run = select(ShareRun.share_pk).join(Run, Run.id == ShareRun.run_pk).where(Run.run_id == run_id)
        statement = statement.where(Share.id.in_(of_run))
    return session.scalars(statement).all()


def runs_of(session: Session, share_ids: Sequence[int]) -> dict[int, list[tuple[int, str, str]]]:
    """(row id, id, name) of the runs of each link, in their order; those that were deleted are missing."""
    statement = (
        select(ShareRun.share_pk, Run.id, Run.run_id, Run.name)
        .join(Run, Run.id == ShareRun.run_pk)
        .where(ShareRun.share_pk.in_(share_ids), Run.deleted_at.is_(None))
        .order_by(ShareRun.share_pk, ShareRun.position)
    )
    found: dict[int, list[tuple[int, str, str]]] = {share_id: [] for share_id in share_ids}
    for share_id, run_pk, run_id, name in session.execute(statement):
        found[share_id].append((run_pk, run_id, name))
    return found


def revoke(session: Session, share_id: int) -> None:
    """Ends the link now; one that was ended stays as it was."""
    statement = update(Share).where(Share.id == share_id, Share.revoked_at.is_(None))
    session.execute(statement.values(revoked_at=now()))


def note_opened(session: Session, share_id: int) -> None:
    """Notes that somebody has opened the link now."""
    statement = update(Share).where(Share.id == share_id)
    session.execute(statement.values(last_opened_at=now(), num_opened=Share.num_opened + 1))


def ended_snapshots(session: Session, limit: int) -> list[tuple[int, str]]:
    """(id, blob) of links that can no longer be opened, or whose runs are all gone, and still have one."""
    statement = (
        select(Share.id, Share.snapshot_key)
        .where(
            Share.snapshot_key.is_not(None),
            or_(Share.revoked_at.is_not(None), Share.expires_at <= now(), _num_left() == 0),
        )
        .limit(limit)
    )
    return [(share_id, key) for share_id, key in session.execute(statement) if key is not None]


def outgrown_snapshots(session: Session, limit: int) -> list[tuple[int, str]]:
    """(id, blob) of links whose snapshot holds runs that were deleted since, beside others."""
    left = _num_left()
    statement = (
        select(Share.id, Share.snapshot_key)
        .where(Share.snapshot_key.is_not(None), left > 0, left < Share.num_runs)
        .limit(limit)
    )
    return [(share_id, key) for share_id, key in session.execute(statement) if key is not None]


def replace_snapshot(session: Session, share_id: int, key: str, num_runs: int) -> None:
    """Notes the blob that holds these runs alone."""
    statement = update(Share).where(Share.id == share_id, Share.snapshot_key.is_not(None))
    session.execute(statement.values(snapshot_key=key, num_runs=num_runs))


def _num_left() -> ScalarSelect[int]:
    """Number of a link's runs that nobody has deleted."""
    return (
        select(func.count())
        .select_from(ShareRun)
        .join(Run, Run.id == ShareRun.run_pk)
        .where(ShareRun.share_pk == Share.id, Run.deleted_at.is_(None))
        .correlate(Share)
        .scalar_subquery()
    )


def forget_snapshot(session: Session, share_id: int) -> None:
    """Notes that the blob is gone; the link is ended, if it was not."""
    statement = update(Share).where(Share.id == share_id)
    session.execute(statement.values(snapshot_key=None, revoked_at=func.coalesce(Share.revoked_at, now())))


def remove_ended(session: Session, *, keep_seconds: float) -> None:
    """Removes links that ended longer ago than that and hold no blob."""
    before = now() - keep_seconds
    is_old = or_(Share.revoked_at < before, Share.expires_at < before)
    session.execute(delete(Share).where(is_old, Share.snapshot_key.is_(None)))
