"""Keys of trainers and workers: made here, shown once, stored as hashes, checked on every request."""

import hashlib
import hmac
import logging
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from sqlalchemy.exc import SQLAlchemyError

from collapsewatch_server.db import Database, answer_by
from collapsewatch_server.errors import Forbidden, Unauthorised
from collapsewatch_server.repositories import keys, runs
from collapsewatch_server.tables import ApiKey

log = logging.getLogger(__name__)

KEY_START = "cw_"
"""What every key begins with."""
_SECRET_BYTES = 32
# `cw_worker_` and the first eight characters of the secret: 48 of its 256 bits, so the rest is no easier.
_PREFIX_CHARS = 18
_TOUCH_SECONDS = 60.0
_TOUCH_PATIENCE_SECONDS = 0.5


class Purpose(StrEnum):
    """What a key is good for."""

    ingest = "ingest"
    """Trainers: open runs and send batches."""
    worker = "worker"
    """Workers: claim jobs and hand in results."""
    read = "read"
    """Programs that read what people would see, such as notebooks: of a project, or of all."""


@dataclass(frozen=True)
class Caller:
    """Whose key came with a request."""

    key_id: int
    purpose: Purpose
    project_id: int | None
    """The only project the key is good for; any project when absent."""

    def may_write(self, project_id: int) -> None:
        """Comes back if the key is good for the project.

        Raises:
            Forbidden: it is one for another project.
        """
        if self.project_id is not None and self.project_id != project_id:
            raise Forbidden("this key belongs to another project")


@dataclass(frozen=True)
class NewKey:
    """A key that was just made; only its hash is stored."""

    key_id: int
    key: str


@dataclass(frozen=True)
class _KnownKey:
    """A key that was made here once."""

    row: ApiKey
    is_old: bool

    @property
    def end(self) -> str | None:
        """Why it is no good any more. Whoever holds the whole key may know."""
        if self.row.revoked_at is not None:
            return f"the key {self.row.prefix}… was revoked; ask for another"
        if self.is_old and self.row.expires_at is not None:
            day = datetime.fromtimestamp(self.row.expires_at, UTC).strftime("%Y-%m-%d %H:%M UTC")
            return f"the key {self.row.prefix}… expired on {day}; ask for another"
        return None


class Keyring:
    """Makes, checks and revokes keys."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._noted_at: dict[int, float] = {}

    def create(
        self, purpose: Purpose, *, project: str | None, label: str, seconds: float | None = None
    ) -> str:
        """A new key. It cannot be shown again: only its hash is stored.

        Args:
            seconds: how long it is good; for ever when absent.
        """
        project_id = None
        if project is not None:
            with self._database.write_session() as session:
                project_id = runs.project_id(session, project)
        return self.issue(purpose, project_id=project_id, label=label, seconds=seconds).key

    def issue(
        self, purpose: Purpose, *, project_id: int | None, label: str, seconds: float | None = None
    ) -> NewKey:
        """A new key for a project that is there, or for all."""
        key = f"{KEY_START}{purpose}_{secrets.token_urlsafe(_SECRET_BYTES)}"
        return NewKey(self._store(key, purpose, project_id, label, seconds), key)

    def admit(self, key: str, purpose: Purpose, *, label: str) -> None:
        """Makes a key good in all projects that was chosen elsewhere."""
        self._store(key, purpose, None, label, None)

    def replace(self, purpose: Purpose, *, label: str) -> str:
        """A new key; all earlier ones of that label are revoked."""
        self.revoke_label(label)
        return self.create(purpose, project=None, label=label)

    def revoke_label(self, label: str) -> None:
        """Makes all keys of that label worthless."""
        with self._database.write_session() as session:
            keys.revoke_label(session, label)

    def revoke(self, key_id: int) -> bool:
        """Whether there was such a key that was still good."""
        with self._database.write_session() as session:
            return keys.revoke(session, key_id)

    def all_keys(self) -> list[tuple[ApiKey, str | None]]:
        """Every key, without its secret, with its project's name."""
        with self._database.read_session() as session:
            return keys.all_keys(session)

    def is_good(self, key: str, purpose: Purpose) -> bool:
        """Whether a request with this key would be let in."""
        found = self._find(key)
        return found is not None and found.end is None and found.row.purpose == purpose

    def check(self, authorization: str | None, *purposes: Purpose) -> Caller:
        """Whose key it is.

        Raises:
            Unauthorised: no key, or one that is unknown, revoked or too old.
            Forbidden: a key for another purpose.
        """
        scheme, _, key = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise Unauthorised("this call needs a key: send the header `Authorization: Bearer <key>`")
        known = self._find(key.strip())
        if known is None:
            raise Unauthorised("the key is unknown")
        if known.end is not None:
            raise Unauthorised(known.end)
        found = known.row
        if found.purpose not in purposes:
            wanted = " or ".join(f"`{purpose}`" for purpose in purposes)
            raise Forbidden(f"this call needs a key for {wanted}, and the given one is for `{found.purpose}`")
        self._note_use(found)
        return Caller(found.id, Purpose(found.purpose), found.project_id)

    def _note_use(self, key: ApiKey) -> None:
        now = time.time()
        used_at = max(key.last_used_at or 0.0, self._noted_at.get(key.id, 0.0))
        if now - used_at <= _TOUCH_SECONDS:
            return
        # Before the write: requests that come together need not write it each.
        self._noted_at[key.id] = now
        try:
            with (
                answer_by(time.monotonic() + _TOUCH_PATIENCE_SECONDS),
                self._database.write_session() as session,
            ):
                keys.touch(session, key.id)
        except SQLAlchemyError as error:
            # People read it; no request fails for it.
            log.warning("the use of a key was not noted", extra={"error": type(error).__name__})

    def _store(
        self, key: str, purpose: Purpose, project_id: int | None, label: str, seconds: float | None
    ) -> int:
        with self._database.write_session() as session:
            return keys.add(
                session,
                prefix=_prefix(key),
                key_hash=_hash(key),
                purpose=purpose,
                label=label,
                project_id=project_id,
                expires_in=seconds,
            )

    def _find(self, key: str) -> _KnownKey | None:
        key_hash = _hash(key)
        with self._database.read_session() as session:
            candidates = keys.with_prefix(session, _prefix(key))
        # The look-up is by the prefix alone, so that no query's time depends on the secret part.
        matches = (_KnownKey(row, is_old) for row, is_old in candidates if _is_same(row.key_hash, key_hash))
        return next(matches, None)


def _hash(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _is_same(one_hash: str, other_hash: str) -> bool:
    return hmac.compare_digest(one_hash, other_hash)


def _prefix(key: str) -> str:
    return key[:_PREFIX_CHARS]
