"""Accounts, what they may do in which project, and the links by which people get one, as rows."""

from sqlalchemy import ColumnElement, delete, func, select, update
from sqlalchemy.orm import Session

from collapsewatch_server.account_tables import Account, Invitation, Membership
from collapsewatch_server.db import insert, is_postgresql, now
from collapsewatch_server.tables import Project


def add(
    session: Session, *, name: str, password_hash: str | None, subject: str | None, is_operator: bool
) -> int | None:
    """The new account's row id; none when the name is taken."""
    values = {
        "name": name,
        "password_hash": password_hash,
        "subject": subject,
        "is_operator": is_operator,
        "created_at": now(),
    }
    statement = insert(session, Account).values(values).on_conflict_do_nothing()
    added: int | None = session.execute(statement.returning(Account.id)).scalar()
    return added


def get(session: Session, account_pk: int) -> Account | None:
    """The account of this id."""
    return session.get(Account, account_pk)


def named(session: Session, name: str) -> Account | None:
    """The open account of this name."""
    return session.scalar(select(Account).where(Account.name == name, Account.closed_at.is_(None)))


def any_named(session: Session, name: str) -> Account | None:
    """The account of this name, open or closed."""
    return session.scalar(select(Account).where(Account.name == name))


def of_subject(session: Session, subject: str) -> Account | None:
    """The account, open or closed, that another service knows by this subject."""
    return session.scalar(select(Account).where(Account.subject == subject))


def all_accounts(session: Session) -> list[Account]:
    """Every account, by name."""
    return list(session.scalars(select(Account).order_by(Account.name)))


def change(session: Session, account_pk: int, **values: object) -> bool:
    """Sets the given columns; whether there is such an account."""
    statement = update(Account).where(Account.id == account_pk).values(**values)
    return session.execute(statement.returning(Account.id)).first() is not None


def touch(session: Session, account_pk: int) -> None:
    """Notes that the account was used now."""
    session.execute(update(Account).where(Account.id == account_pk).values(last_seen_at=now()))


def close(session: Session, account_pk: int) -> None:
    """Nobody signs in to it any more."""
    session.execute(update(Account).where(Account.id == account_pk).values(closed_at=now()))


def lock_operators(session: Session) -> None:
    """Holds those who operate the service until the end of the transaction: one at a time stops doing so.

    SQLite has one writer anyway.
    """
    if is_postgresql(session):
        statement = select(Account.id).where(Account.is_operator.is_(True)).order_by(Account.id)
        session.execute(statement.with_for_update())


def lock_members(session: Session, project_id: int) -> None:
    """Holds the roles in the project until the end of the transaction, as `lock_operators` does."""
    if is_postgresql(session):
        statement = select(Membership.account_pk).where(Membership.project_id == project_id)
        session.execute(statement.order_by(Membership.account_pk).with_for_update())


def num_operators(session: Session, *, besides: int | None = None) -> int:
    """Open accounts that operate the service, one left out."""
    statement = select(func.count()).where(Account.is_operator.is_(True), Account.closed_at.is_(None))
    if besides is not None:
        statement = statement.where(Account.id != besides)
    return session.execute(statement).scalar_one()


def roles(session: Session, account_pk: int) -> dict[int, str]:
    """What the account may do, by project."""
    statement = select(Membership.project_id, Membership.role).where(Membership.account_pk == account_pk)
    return dict(session.execute(statement).all())


def members(session: Session, project_id: int) -> list[tuple[Account, str]]:
    """Open accounts with a role in the project, by name."""
    statement = (
        select(Account, Membership.role)
        .join(Membership, Membership.account_pk == Account.id)
        .where(Membership.project_id == project_id, Account.closed_at.is_(None))
    )
    return [(account, role) for account, role in session.execute(statement.order_by(Account.name))]


def set_role(session: Session, account_pk: int, project_id: int, role: str) -> None:
    """Gives the account this role in the project, instead of the one it has."""
    values = {"account_pk": account_pk, "project_id": project_id, "role": role}
    statement = insert(session, Membership).values(values)
    session.execute(
        statement.on_conflict_do_update(index_elements=["account_pk", "project_id"], set_={"role": role})
    )


def remove_role(session: Session, account_pk: int, project_id: int) -> bool:
    """Whether the account had a role in the project; it has none any more."""
    statement = delete(Membership).where(
        Membership.account_pk == account_pk, Membership.project_id == project_id
    )
    return session.execute(statement.returning(Membership.account_pk)).first() is not None


def project_name(session: Session, project_id: int) -> str | None:
    """Name of the project."""
    return session.scalar(select(Project.name).where(Project.id == project_id))


def project_named(session: Session, name: str) -> int | None:
    """Id of the project of this name."""
    return session.scalar(select(Project.id).where(Project.name == name))


def invite(
    session: Session,
    *,
    token_hash: str,
    label: str,
    expires_in: float,
    account_pk: int | None = None,
    makes_operator: bool = False,
    project_id: int | None = None,
    role: str | None = None,
    invited_by: int | None = None,
) -> Invitation:
    """The new invitation, or the new link for a password."""
    row = Invitation(
        token_hash=token_hash,
        label=label,
        account_pk=account_pk,
        makes_operator=makes_operator,
        project_id=project_id,
        role=role,
        invited_by=invited_by,
        created_at=now(),
        expires_at=now() + expires_in,
    )
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def invitation(session: Session, token_hash: str) -> Invitation | None:
    """The invitation with this token, if it is still good."""
    statement = select(Invitation).where(Invitation.token_hash == token_hash)
    return session.scalar(statement.where(*_good()))


def use_invitation(session: Session, invitation_id: int) -> bool:
    """Whether it was still good; it is not any more."""
    statement = update(Invitation).where(Invitation.id == invitation_id, *_good()).values(used_at=now())
    return session.execute(statement.returning(Invitation.id)).first() is not None


def invitations(session: Session, project_id: int | None) -> list[tuple[Invitation, str | None]]:
    """Those that are still good, newest first, of a project or of none, and the names of who made them."""
    statement = select(Invitation, Account.name).outerjoin(Account, Account.id == Invitation.invited_by)
    statement = statement.where(*_good(), Invitation.account_pk.is_(None))
    if project_id is None:
        statement = statement.where(Invitation.project_id.is_(None))
    else:
        statement = statement.where(Invitation.project_id == project_id)
    return [(row, name) for row, name in session.execute(statement.order_by(Invitation.id.desc()))]


def invitations_for(session: Session, name: str) -> list[Invitation]:
    """Those that are still good and whose label is this name, in whatever case."""
    statement = select(Invitation).where(func.lower(Invitation.label) == name.lower(), *_good())
    return list(session.scalars(statement.where(Invitation.account_pk.is_(None)).order_by(Invitation.id)))


def revoke_invitation(session: Session, invitation_id: int, project_id: int | None) -> bool:
    """Whether there was such a one of this project, or of none, that was still good."""
    owner = Invitation.project_id.is_(None) if project_id is None else Invitation.project_id == project_id
    statement = update(Invitation).where(Invitation.id == invitation_id, owner, *_good())
    found = session.execute(statement.values(revoked_at=now()).returning(Invitation.id)).first()
    return found is not None


def revoke_invitations_by(session: Session, account_pk: int, project_id: int | None = None) -> None:
    """Makes the invitations worthless that the account made: to the project, or all."""
    statement = update(Invitation).where(Invitation.invited_by == account_pk, *_good())
    if project_id is not None:
        statement = statement.where(Invitation.project_id == project_id)
    session.execute(statement.values(revoked_at=now()))


def revoke_operator_links(session: Session) -> None:
    """Makes the links worthless that make whoever opens them an operator."""
    statement = update(Invitation).where(Invitation.makes_operator.is_(True), *_good())
    session.execute(statement.values(revoked_at=now()))


def _good() -> tuple[ColumnElement[bool], ...]:
    return (
        Invitation.used_at.is_(None),
        Invitation.revoked_at.is_(None),
        Invitation.expires_at > now(),
    )


def forget_links_of(session: Session, account_pk: int) -> None:
    """Makes the links worthless by which the account gets a new password."""
    statement = update(Invitation).where(Invitation.account_pk == account_pk, *_good())
    session.execute(statement.values(revoked_at=now()))


def remove_ended(session: Session, *, keep_seconds: float) -> None:
    """Removes invitations that have long been of no use."""
    ended = func.coalesce(Invitation.used_at, Invitation.revoked_at, Invitation.expires_at)
    session.execute(delete(Invitation).where(ended < now() - keep_seconds))
