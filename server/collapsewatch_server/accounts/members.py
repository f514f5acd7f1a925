"""Who may do what in a project."""

from sqlalchemy.orm import Session

from collapsewatch_server.access.roles import Identity, Role
from collapsewatch_server.accounts.views import MemberList, MemberView, member_view
from collapsewatch_server.db import Database
from collapsewatch_server.errors import AccountConflict, AccountNotFound, ProjectNotFound
from collapsewatch_server.repositories import accounts


class Members:
    """Lists the members of a project, changes their roles, and removes them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def listed(self, project_id: int) -> MemberList:
        """Everybody with a role in the project, by name.

        Raises:
            ProjectNotFound: there is no such project.
        """
        with self._database.read_session() as session:
            _check_project(session, project_id)
            found = accounts.members(session, project_id)
        return MemberList(members=[member_view(account, role) for account, role in found])

    def set_role(self, caller: Identity, project_id: int, account_pk: int, role: Role) -> MemberView:
        """The member with this role instead of the one it had.

        Only operators give a role to somebody who has none: others cannot look through the accounts by this,
        they invite.

        Raises:
            ProjectNotFound: there is no such project.
            AccountNotFound: there is no such member; or, for operators, no such account that is open.
            AccountConflict: the project would be left without an admin.
        """
        with self._database.write_session() as session:
            _check_project(session, project_id)
            accounts.lock_members(session, project_id)
            account = accounts.get(session, account_pk)
            has = accounts.roles(session, account_pk).get(project_id)
            if account is None or account.closed_at is not None or (has is None and not caller.is_operator):
                raise AccountNotFound(str(account_pk))
            if role is not Role.admin:
                _check_admin_left(session, caller, project_id, account_pk, has)
            accounts.set_role(session, account_pk, project_id, role.name)
            if has == Role.admin.name and role is not Role.admin:
                accounts.revoke_invitations_by(session, account_pk, project_id)
        return member_view(account, role.name)

    def remove(self, caller: Identity, project_id: int, account_pk: int) -> None:
        """Takes the member's role away, and the links to the project that it made.

        Raises:
            ProjectNotFound: there is no such project.
            AccountNotFound: there is no such member.
            AccountConflict: the project would be left without an admin.
        """
        with self._database.write_session() as session:
            _check_project(session, project_id)
            accounts.lock_members(session, project_id)
            has = accounts.roles(session, account_pk).get(project_id)
            _check_admin_left(session, caller, project_id, account_pk, has)
            if not accounts.remove_role(session, account_pk, project_id):
                raise AccountNotFound(str(account_pk))
            accounts.revoke_invitations_by(session, account_pk, project_id)


def _check_project(session: Session, project_id: int) -> None:
    if accounts.project_name(session, project_id) is None:
        raise ProjectNotFound(str(project_id))


def _check_admin_left(
    session: Session, caller: Identity, project_id: int, account_pk: int, has: str | None
) -> None:
    """Comes back unless this is the last admin. Operators can make another, and so they may do it."""
    if caller.is_operator or has != Role.admin.name:
        return
    others = [
        account.id
        for account, role in accounts.members(session, project_id)
        if role == Role.admin.name and account.id != account_pk
    ]
    if not others:
        raise AccountConflict("this is the project's last admin; make another first")
