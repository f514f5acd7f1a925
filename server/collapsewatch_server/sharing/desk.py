"""Where links are made, opened and ended."""

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from collapsewatch.blobs import BlobStore
from collapsewatch_server.db import Database, answer_by
from collapsewatch_server.errors import RunNotFound, ShareConflict, ShareEnded, ShareNotFound
from collapsewatch_server.reading.views import iso
from collapsewatch_server.repositories import clock, events, runs, shares
from collapsewatch_server.repositories.events import StoredEvent
from collapsewatch_server.share_tables import Share
from collapsewatch_server.sharing.freezing import Snapshots, freeze, without_others
from collapsewatch_server.sharing.views import (
    ChartLimits,
    SharedPage,
    ShareDraft,
    SharedRun,
    ShareList,
    ShareReceipt,
    ShareView,
)

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LOOKS = 60.0
_TOKEN_BYTES = 24
# 48 of the token's 192 bits, so the rest is no easier.
_PREFIX_CHARS = 8
_MAX_GOOD = 1_000
_MAX_LISTED = 1_000
_KEEP_ENDED_SECONDS = 30 * 86_400.0
_MOST_AT_ONCE = 100
_NOTE_PATIENCE_SECONDS = 0.5

RunRow = tuple[int, str, str]
"""Row id, id and name of a run."""


@dataclass(frozen=True)
class OpenShare:
    """A link that is good, and what it lets anybody read."""

    share_id: int
    title: str
    kind: str
    view: str
    runs: tuple[SharedRun, ...]
    limits: ChartLimits | None
    with_rollouts: bool
    snapshot_key: str | None
    frozen_at: float | None
    expires_at: float

    @property
    def run_ids(self) -> frozenset[str]:
        """The runs that it shows, and no others."""
        return frozenset(run.run_id for run in self.runs)

    def page(self) -> SharedPage:
        """What the page needs to know of it."""
        return SharedPage.model_validate(
            {
                "title": self.title,
                "kind": self.kind,
                "runs": list(self.runs),
                "view": self.view,
                "mode": _mode(self.snapshot_key),
                "with_rollouts": self.with_rollouts,
                "limits": self.limits,
                "frozen_at": None if self.frozen_at is None else iso(self.frozen_at),
                "expires_at": iso(self.expires_at),
            }
        )


class ShareDesk:
    """Makes, lists, opens and ends links."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        frozen_services: Callable[[Database], Any],
        *,
        public_url: str | None,
    ) -> None:
        """The desk.

        Args:
            frozen_services: what reads a snapshot, given its database.
            public_url: under which people reach the page, where the operator has said it.
        """
        self._database = database
        self._blobs = blobs
        self._public_url = public_url
        self.snapshots = Snapshots(blobs, frozen_services)

    def create(self, draft: ShareDraft) -> ShareReceipt:
        """The new link with its token, which is stored nowhere.

        Raises:
            RunNotFound: one of the runs is not there.
            ShareConflict: there are too many links, or the runs are too large for a snapshot.
        """
        with self._database.read_session() as session:
            run_pks = [_run_pk(session, run_id) for run_id in draft.run_ids]
            if shares.num_good(session) >= _MAX_GOOD:
                raise ShareConflict(f"there are {_MAX_GOOD} links already; end some of them")
            frozen_at = clock.read(session) if draft.mode == "snapshot" else None
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        key = self._freeze(run_pks) if draft.mode == "snapshot" else None
        try:
            with self._database.write_session() as session:
                row = shares.add(
                    session,
                    run_pks,
                    lasts_seconds=draft.expires_in_seconds,
                    prefix=_prefix(token),
                    token_hash=_hash(token),
                    title=draft.title.strip(),
                    kind=draft.kind,
                    view=draft.view,
                    limits=None if draft.limits is None else draft.limits.model_dump(mode="json"),
                    with_rollouts=draft.with_rollouts,
                    snapshot_key=key,
                    frozen_at=frozen_at,
                )
                (view,) = _views(session, [row])
        except BaseException:
            if key is not None:
                self._blobs.delete(key)
            raise
        log.info("link made", extra={"share": view.share_id, "kind": view.kind, "mode": view.mode})
        path = f"/s/{token}"
        url = None if self._public_url is None else self._public_url.rstrip("/") + path
        return ShareReceipt(share=view, token=token, path=path, url=url)

    def listed(self, run_id: str | None) -> ShareList:
        """All links, or those that show one run, newest first."""
        with self._database.read_session() as session:
            return ShareList(shares=_views(session, shares.listed(session, run_id, _MAX_LISTED)))

    def revoke(self, share_id: int) -> ShareView:
        """The link, which nobody can open any more.

        Raises:
            ShareNotFound: there is none of that id.
        """
        with self._database.write_session() as session:
            if shares.find(session, share_id) is None:
                raise ShareNotFound(f"there is no link {share_id}")
            shares.revoke(session, share_id)
        self._forget_ended()
        with self._database.read_session() as session:
            row = shares.find(session, share_id)
            if row is None:
                raise ShareNotFound(f"there is no link {share_id}")
            return _views(session, [row])[0]

    def open(self, token: str) -> OpenShare:
        """What the token lets anybody read.

        Raises:
            ShareNotFound: there is no such link.
            ShareEnded: it expired, was revoked, or all its runs were deleted.
        """
        token_hash = _hash(token)
        with self._database.read_session() as session:
            candidates = shares.with_prefix(session, _prefix(token))
            # The look-up is by the prefix alone, so that no query's time depends on the secret part.
            matches = [row for row in candidates if hmac.compare_digest(row.token_hash, token_hash)]
            if not matches:
                raise ShareNotFound("there is no such link; its address may have been cut short")
            row = matches[0]
            found = shares.runs_of(session, [row.id])[row.id]
            now = clock.read(session)
        if row.revoked_at is not None:
            raise ShareEnded("whoever made this link has withdrawn it")
        if row.expires_at <= now:
            raise ShareEnded(f"this link expired at {iso(row.expires_at)}")
        if not found:
            raise ShareEnded("what this link showed was deleted")
        return _opened(row, found)

    def note_opened(self, share_id: int) -> None:
        """Notes that somebody has opened the link's page, unless others write for long."""
        try:
            with (
                answer_by(time.monotonic() + _NOTE_PATIENCE_SECONDS),
                self._database.write_session() as session,
            ):
                shares.note_opened(session, share_id)
        except SQLAlchemyError as error:
            # People read it; nobody is kept from the page for it.
            log.warning("the opening of a link was not noted", extra={"error": type(error).__name__})

    def events_after(self, event_id: int, run_ids: frozenset[str], limit: int) -> list[StoredEvent]:
        """Events of these runs that are newer than `event_id`, oldest first."""
        with self._database.read_session() as session:
            return events.after_of_runs(session, event_id, run_ids, limit)

    def look(self) -> None:
        """Removes the snapshots of links that ended, and in time the links themselves."""
        self.snapshots.forget_unused()
        self._forget_ended()
        self._forget_deleted_runs()
        with self._database.write_session() as session:
            shares.remove_ended(session, keep_seconds=_KEEP_ENDED_SECONDS)

    def _freeze(self, run_pks: Sequence[int]) -> str:
        key = _new_key()
        self._blobs.write(key, freeze(self._database, run_pks))
        return key

    def _forget_ended(self) -> None:
        with self._database.read_session() as session:
            ended = shares.ended_snapshots(session, _MOST_AT_ONCE)
        for share_id, key in ended:
            # The blob first: a row that still names it is looked at again.
            self._blobs.delete(key)
            self.snapshots.forget(key)
            with self._database.write_session() as session:
                shares.forget_snapshot(session, share_id)

    def _forget_deleted_runs(self) -> None:
        """Takes runs that were deleted for good out of the snapshots of links that show others as well."""
        with self._database.read_session() as session:
            found = shares.outgrown_snapshots(session, _MOST_AT_ONCE)
            runs_of = shares.runs_of(session, [share_id for share_id, _ in found])
        for share_id, key in found:
            run_pks = [run_pk for run_pk, _, _ in runs_of[share_id]]
            new_key = _new_key()
            self._blobs.write(new_key, without_others(self._blobs.read(key), run_pks))
            with self._database.write_session() as session:
                shares.replace_snapshot(session, share_id, new_key, len(run_pks))
            self._blobs.delete(key)
            self.snapshots.forget(key)


def _new_key() -> str:
    return f"snapshots/{secrets.token_hex(16)}.zst"


def _run_pk(session: Session, run_id: str) -> int:
    found = runs.find(session, run_id)
    if found is None:
        raise RunNotFound(run_id)
    return found[0].id


def _opened(row: Share, found: Sequence[RunRow]) -> OpenShare:
    return OpenShare(
        share_id=row.id,
        title=row.title,
        kind=row.kind,
        view=row.view,
        runs=_shared_runs(found),
        limits=None if row.limits is None else ChartLimits.model_validate(row.limits),
        with_rollouts=row.with_rollouts,
        snapshot_key=row.snapshot_key,
        frozen_at=row.frozen_at,
        expires_at=row.expires_at,
    )


def _shared_runs(found: Sequence[RunRow]) -> tuple[SharedRun, ...]:
    return tuple(SharedRun(run_id=run_id, name=name) for _, run_id, name in found)


def _views(session: Session, rows: Sequence[Share]) -> list[ShareView]:
    runs_of = shares.runs_of(session, [row.id for row in rows])
    now = clock.read(session)
    return [_view(row, runs_of[row.id], now) for row in rows]


def _view(row: Share, found: Sequence[RunRow], now: float) -> ShareView:
    values: dict[str, Any] = {
        name: getattr(row, name) for name in ("title", "kind", "view", "with_rollouts", "num_opened")
    }
    times = {
        name: None if getattr(row, name) is None else iso(getattr(row, name))
        for name in ("frozen_at", "created_at", "expires_at", "revoked_at", "last_opened_at")
    }
    status = "revoked" if row.revoked_at is not None else "expired" if row.expires_at <= now else "good"
    return ShareView.model_validate(
        {
            **values,
            **times,
            "share_id": row.id,
            "runs": list(_shared_runs(found)),
            # A snapshot that was cleared away was one all the same.
            "mode": _mode(row.frozen_at),
            "status": status,
        }
    )


def _mode(mark: object) -> Literal["live", "snapshot"]:
    return "live" if mark is None else "snapshot"


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def _prefix(token: str) -> str:
    return token[:_PREFIX_CHARS]
