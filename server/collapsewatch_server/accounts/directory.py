"""Who has an account: for those who operate the service."""

from sqlalchemy.orm import Session

from collapsewatch_server.access.roles import Identity
from collapsewatch_server.accounts.people import NewLink, People
from collapsewatch_server.accounts.views import AccountChange, AccountList, AccountView, account_view
from collapsewatch_server.db import Database
from collapsewatch_server.errors import AccountConflict, AccountNotFound
from collapsewatch_server.repositories import accounts, login_sessions


class Directory:
    """Lists accounts, closes and opens them, and says who operates the service."""

    def __init__(self, database: Database, people: People) -> None:
        self._database = database
        self._people = people

    def listed(self) -> AccountList:
        """Everybody, by name."""
        with self._database.read_session() as session:
            return AccountList(accounts=[account_view(one) for one in accounts.all_accounts(session)])

    def change(self, account_pk: int, change: AccountChange) -> AccountView:
        """The account after the change.

        Who is closed is signed out at once, and links for and by that person become worthless; so do those
        by somebody who operates the service no more.

        Raises:
            AccountNotFound: there is none.
            AccountConflict: nobody would be left to operate the service.
        """
        with self._database.write_session() as session:
            accounts.lock_operators(session)
            account = accounts.get(session, account_pk)
            if account is None:
                raise AccountNotFound(str(account_pk))
            operated, was_closed = account.is_operator, account.closed_at is not None
            operates = operated if change.is_operator is None else change.is_operator
            is_closed = was_closed if change.closed is None else change.closed
            stays = operates and not is_closed
            if operated and not stays and not was_closed:
                _check_operator_left(session, account_pk)
            if operates != operated:
                accounts.change(session, account_pk, is_operator=operates)
            if is_closed and not was_closed:
                accounts.close(session, account_pk)
                login_sessions.end_all(session, account_pk)
                accounts.forget_links_of(session, account_pk)
            elif was_closed and not is_closed:
                accounts.change(session, account_pk, closed_at=None)
            if is_closed or (operated and not operates):
                accounts.revoke_invitations_by(session, account_pk)
            session.refresh(account)
            return account_view(account)

    def reset_link(self, account_pk: int) -> NewLink:
        """A link by which the account gets a new password; earlier ones become worthless.

        Raises:
            AccountNotFound: there is none that is open.
            AccountConflict: another service signs the person in.
        """
        return self._people.reset_link(account_pk)


def _check_operator_left(session: Session, account_pk: int) -> None:
    if accounts.num_operators(session, besides=account_pk) == 0:
        raise AccountConflict("this is the last account that can operate the service; make another first")


def id_of(caller: Identity) -> int | None:
    """The caller's account; none when it has none."""
    return caller.id if caller.kind == "account" else None
