"""Browsers that are signed in, as rows."""

from sqlalchemy import delete, or_, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.account_tables import Account, LoginSession
from collapsewatch_server.db import now

_GRACE_SECONDS = 60.0


def add(
    session: Session, *, token_hash: str, account_pk: int, seconds: float, address: str, browser: str
) -> int:
    """Row id of the new session."""
    row = LoginSession(
        token_hash=token_hash,
        account_pk=account_pk,
        created_at=now(),
        rotated_at=now(),
        last_seen_at=now(),
        expires_at=now() + seconds,
        address=address,
        browser=browser,
    )
    session.add(row)
    session.flush()
    return row.id


def find(session: Session, token_hash: str) -> tuple[LoginSession, Account] | None:
    """The session with this token, or with this one until a minute ago, and its open account."""
    rotated_just_now = LoginSession.rotated_at > now() - _GRACE_SECONDS
    statement = (
        select(LoginSession, Account)
        .join(Account, Account.id == LoginSession.account_pk)
        .where(
            or_(
                LoginSession.token_hash == token_hash,
                (LoginSession.previous_hash == token_hash) & rotated_just_now,
            ),
            LoginSession.expires_at > now(),
            Account.closed_at.is_(None),
        )
    )
    row = session.execute(statement).first()
    return None if row is None else (row[0], row[1])


def rotate(session: Session, session_id: int, *, old_hash: str, new_hash: str, seconds: float) -> bool:
    """Gives the session another token; whether it still had the old one."""
    statement = update(LoginSession).where(LoginSession.id == session_id, LoginSession.token_hash == old_hash)
    values = {
        "token_hash": new_hash,
        "previous_hash": old_hash,
        "rotated_at": now(),
        "expires_at": now() + seconds,
    }
    return session.execute(statement.values(values).returning(LoginSession.id)).first() is not None


def touch(session: Session, session_id: int, account_pk: int) -> None:
    """Notes that it was used now."""
    session.execute(update(LoginSession).where(LoginSession.id == session_id).values(last_seen_at=now()))
    session.execute(update(Account).where(Account.id == account_pk).values(last_seen_at=now()))


def end(session: Session, token_hash: str) -> None:
    """Ends the session with this token."""
    session.execute(
        delete(LoginSession).where(
            or_(LoginSession.token_hash == token_hash, LoginSession.previous_hash == token_hash)
        )
    )


def end_all(session: Session, account_pk: int, *, besides: str | None = None) -> None:
    """Ends the account's sessions, but the one with this token."""
    statement = delete(LoginSession).where(LoginSession.account_pk == account_pk)
    if besides is not None:
        statement = statement.where(LoginSession.token_hash != besides)
    session.execute(statement)


def remove_expired(session: Session) -> None:
    """Removes those that are of no use any more."""
    session.execute(delete(LoginSession).where(LoginSession.expires_at <= now()))
