"""Browsers that are signed in."""

import hashlib
import logging
import secrets
import time
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError

from collapsewatch_server.access.roles import Identity, Role
from collapsewatch_server.access.visible import seeing
from collapsewatch_server.account_tables import Account
from collapsewatch_server.db import Database, answer_by
from collapsewatch_server.repositories import accounts, login_sessions

log = logging.getLogger(__name__)

_TOKEN_BYTES = 32
_ROTATE_SECONDS = 86_400.0
_LONGEST_SECONDS = 90 * 86_400.0
_TOUCH_SECONDS = 60.0
_TOUCH_PATIENCE_SECONDS = 0.5
_MAX_BROWSER_CHARS = 200


@dataclass(frozen=True)
class NewToken:
    """A token that was just made; it is stored nowhere."""

    token: str
    seconds: float
    """How long it is good, when it is not used."""


class Sessions:
    """Opens sessions, knows them again by their tokens, and ends them."""

    def __init__(self, database: Database, *, seconds: float) -> None:
        """The service.

        Args:
            seconds: how long a session lasts without being used; none lasts longer than 90 days.
        """
        self._database = database
        self._seconds = seconds

    def open(self, account_pk: int, *, address: str, browser: str, instead_of: str | None = None) -> NewToken:
        """A new session; the one that the browser had, if any, ends."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._database.write_session() as session:
            login_sessions.remove_expired(session)
            if instead_of is not None:
                login_sessions.end(session, hash_of(instead_of))
            session_id = login_sessions.add(
                session,
                token_hash=hash_of(token),
                account_pk=account_pk,
                seconds=self._seconds,
                address=address,
                browser=browser[:_MAX_BROWSER_CHARS],
            )
            login_sessions.touch(session, session_id, account_pk)
        return NewToken(token, self._seconds)

    def identify(self, token: str) -> Identity | None:
        """Whose session it is; nobody's when it has ended."""
        # Who somebody is does not depend on what the request in hand can see.
        with seeing(None), self._database.read_session() as session:
            found = login_sessions.find(session, hash_of(token))
            if found is None:
                return None
            row, account = found
            roles = {} if account.is_operator else accounts.roles(session, account.id)
        if time.time() - row.last_seen_at > _TOUCH_SECONDS:
            self._note_use(row.id, account.id)
        return identity_of(account, roles)

    def rotated(self, token: str) -> NewToken | None:
        """Another token for the session when it had this one for a day; none while that is good.

        Raises:
            LookupError: the session has ended.
        """
        with self._database.read_session() as session:
            found = login_sessions.find(session, hash_of(token))
        if found is None:
            raise LookupError("the session has ended")
        row, _ = found
        now = time.time()
        left = row.created_at + _LONGEST_SECONDS - now
        if now - row.rotated_at < _ROTATE_SECONDS or row.token_hash != hash_of(token):
            return None
        fresh = NewToken(secrets.token_urlsafe(_TOKEN_BYTES), min(self._seconds, left))
        with self._database.write_session() as session:
            is_done = login_sessions.rotate(
                session,
                row.id,
                old_hash=hash_of(token),
                new_hash=hash_of(fresh.token),
                seconds=fresh.seconds,
            )
        return fresh if is_done else None

    def end(self, token: str) -> None:
        """Ends a session; again is harmless."""
        with self._database.write_session() as session:
            login_sessions.end(session, hash_of(token))

    def end_all(self, account_pk: int, *, besides: str | None = None) -> None:
        """Ends the sessions of an account, but the one with this token."""
        with self._database.write_session() as session:
            login_sessions.end_all(session, account_pk, besides=None if besides is None else hash_of(besides))

    def _note_use(self, session_id: int, account_pk: int) -> None:
        try:
            with (
                answer_by(time.monotonic() + _TOUCH_PATIENCE_SECONDS),
                self._database.write_session() as session,
            ):
                login_sessions.touch(session, session_id, account_pk)
        except SQLAlchemyError as error:
            # People read it; no request fails for it.
            log.warning("the use of a session was not noted", extra={"error": type(error).__name__})


def identity_of(account: Account, roles: dict[int, str]) -> Identity:
    """The person, as the rules know it."""
    return Identity(
        kind="account",
        id=account.id,
        name=account.name,
        is_operator=account.is_operator,
        roles={project_id: Role[role] for project_id, role in roles.items()},
    )


def hash_of(token: str) -> str:
    """What is stored of a token, and looked up by: it has 256 random bits, so nothing slower is needed."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
