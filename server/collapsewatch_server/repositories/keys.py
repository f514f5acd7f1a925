"""API keys as rows."""

from sqlalchemy import Select, false, func, or_, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.db import insert, now
from collapsewatch_server.tables import ApiKey, Project


def add(
    session: Session,
    *,
    prefix: str,
    key_hash: str,
    purpose: str,
    label: str,
    project_id: int | None,
    expires_in: float | None = None,
) -> int:
    """Id of the key's row; the row that is there already when the very key is."""
    values = {
        "prefix": prefix,
        "key_hash": key_hash,
        "purpose": purpose,
        "label": label,
        "project_id": project_id,
        "created_at": now(),
        "expires_at": None if expires_in is None else now() + expires_in,
    }
    statement = insert(session, ApiKey).values(values).on_conflict_do_nothing(index_elements=["key_hash"])
    session.execute(statement)
    return session.execute(select(ApiKey.id).where(ApiKey.key_hash == key_hash)).scalar_one()


def with_prefix(session: Session, prefix: str) -> list[tuple[ApiKey, bool]]:
    """The keys that begin with `prefix`, one or by great chance more, and whether they are too old."""
    is_old = func.coalesce(ApiKey.expires_at <= now(), false())
    statement = select(ApiKey, is_old).where(ApiKey.prefix == prefix)
    return [(key, bool(old)) for key, old in session.execute(statement)]


def all_keys(session: Session, *, project_id: int | None = None) -> list[tuple[ApiKey, str | None]]:
    """The project's keys, or every key, with its project's name, oldest first."""
    statement = _with_project()
    if project_id is not None:
        statement = statement.where(ApiKey.project_id == project_id)
    return [(key, name) for key, name in session.execute(statement.order_by(ApiKey.id))]


def find(session: Session, key_id: int) -> tuple[ApiKey, str | None] | None:
    """The key of this id and its project's name."""
    row = session.execute(_with_project().where(ApiKey.id == key_id)).first()
    return None if row is None else (row[0], row[1])


def num_good(session: Session, project_id: int | None) -> int:
    """Number of keys that are still good, of the project or of none."""
    owner = ApiKey.project_id.is_(None) if project_id is None else ApiKey.project_id == project_id
    is_young = or_(ApiKey.expires_at.is_(None), ApiKey.expires_at > now())
    statement = select(func.count(ApiKey.id)).where(owner, ApiKey.revoked_at.is_(None), is_young)
    return session.execute(statement).scalar_one()


def _with_project() -> Select[ApiKey, str]:
    return select(ApiKey, Project.name).outerjoin(Project, Project.id == ApiKey.project_id)


def touch(session: Session, key_id: int) -> None:
    """Notes that the key was used now."""
    session.execute(update(ApiKey).where(ApiKey.id == key_id).values(last_used_at=now()))


def revoke(session: Session, key_id: int) -> bool:
    """Whether there was such a key that was still good; it is not any more."""
    statement = update(ApiKey).where(ApiKey.id == key_id, ApiKey.revoked_at.is_(None))
    return session.execute(statement.values(revoked_at=now()).returning(ApiKey.id)).first() is not None


def revoke_label(session: Session, label: str) -> None:
    """Revokes all keys of that label."""
    statement = update(ApiKey).where(ApiKey.label == label, ApiKey.revoked_at.is_(None))
    session.execute(statement.values(revoked_at=now()))
