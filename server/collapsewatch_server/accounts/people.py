"""Who has an account: signing in, joining by an invitation, passwords."""

import secrets
from dataclasses import dataclass

from sqlalchemy.orm import Session

from collapsewatch_server.access.roles import Role
from collapsewatch_server.account_tables import Account, Invitation
from collapsewatch_server.accounts import passwords
from collapsewatch_server.accounts.sessions import hash_of
from collapsewatch_server.db import Database
from collapsewatch_server.errors import (
    AccountConflict,
    AccountNotFound,
    InvitationEnded,
    WeakPassword,
    WrongCredentials,
)
from collapsewatch_server.repositories import accounts, login_sessions

NAME = r"^[A-Za-z0-9][A-Za-z0-9._@+-]{0,99}$"
"""What somebody signs in with: a short name or an e-mail address, in whatever case."""
INVITATION_SECONDS = 7 * 86_400.0
FIRST_LINK_SECONDS = 86_400.0
RESET_SECONDS = 86_400.0
_TOKEN_BYTES = 32


@dataclass(frozen=True)
class NewLink:
    """A link that was just made; its token is stored nowhere."""

    token: str
    invitation: Invitation

    def url(self, page_url: str) -> str:
        """The link, given the address of the page.

        The token is in the fragment, which browsers keep to themselves: no server's log gets to see it.
        """
        return f"{page_url.rstrip('/')}/#/join/{self.token}"


class People:
    """Opens accounts to those who were invited, and knows them again by their passwords."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def sign_in(self, name: str, password: str) -> Account:
        """The account of this name, if that is its password.

        Raises:
            WrongCredentials: it is not, or there is none: the answer, and its time, are the same.
        """
        with self._database.read_session() as session:
            account = accounts.named(session, name.lower())
        stored = None if account is None else account.password_hash
        if not passwords.is_right(password, stored) or account is None or stored is None:
            raise WrongCredentials("the name or the password is wrong")
        if passwords.is_outdated(stored):
            self._set_password(account.id, password)
        return account

    def needs_first(self) -> bool:
        """Whether nobody can operate the service yet."""
        with self._database.read_session() as session:
            return accounts.num_operators(session) == 0

    def first_link(self) -> NewLink:
        """The link for whoever starts the service; earlier ones become worthless."""
        with self._database.write_session() as session:
            accounts.revoke_operator_links(session)
        return self.invite("operator", makes_operator=True, seconds=FIRST_LINK_SECONDS)

    def invite(
        self,
        label: str,
        *,
        makes_operator: bool = False,
        project_id: int | None = None,
        role: Role | None = None,
        invited_by: int | None = None,
        seconds: float = INVITATION_SECONDS,
    ) -> NewLink:
        """A link by which somebody joins, once."""
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._database.write_session() as session:
            made = accounts.invite(
                session,
                token_hash=hash_of(token),
                label=label,
                expires_in=seconds,
                makes_operator=makes_operator,
                project_id=project_id,
                role=None if role is None else role.name,
                invited_by=invited_by,
            )
        return NewLink(token, made)

    def reset_link(self, account_pk: int) -> NewLink:
        """A link by which the account gets a new password; earlier ones become worthless.

        Raises:
            AccountNotFound: there is none that is open.
            AccountConflict: another service signs the person in.
        """
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        with self._database.write_session() as session:
            account = accounts.get(session, account_pk)
            if account is None or account.closed_at is not None:
                raise AccountNotFound(str(account_pk))
            if account.subject is not None:
                raise AccountConflict("another service signs this person in, so there is no password to set")
            accounts.forget_links_of(session, account_pk)
            made = accounts.invite(
                session,
                token_hash=hash_of(token),
                label=account.name,
                expires_in=RESET_SECONDS,
                account_pk=account_pk,
            )
        return NewLink(token, made)

    def invitation(self, token: str) -> Invitation:
        """What a link is for.

        Raises:
            InvitationEnded: it was used, withdrawn, is too old, or never was.
        """
        with self._database.read_session() as session:
            found = accounts.invitation(session, hash_of(token))
        if found is None:
            raise InvitationEnded("this link was used, withdrawn or is too old; ask for another")
        return found

    def join(self, token: str, name: str, password: str) -> Account:
        """The new account of somebody who was invited; or the old one, with its new password.

        Raises:
            InvitationEnded: the link is no good.
            WeakPassword: the password will not do.
            AccountConflict: somebody has that name.
        """
        invitation = self.invitation(token)
        name = name.lower()
        if invitation.account_pk is not None:
            name = invitation.label
        if (problem := passwords.problem(password, name)) is not None:
            raise WeakPassword(problem)
        password_hash = passwords.hashed(password)
        with self._database.write_session() as session:
            if not accounts.use_invitation(session, invitation.id):
                raise InvitationEnded("this link was used just now")
            account_pk = invitation.account_pk
            if account_pk is None:
                account_pk = accounts.add(
                    session,
                    name=name,
                    password_hash=password_hash,
                    subject=None,
                    is_operator=invitation.makes_operator,
                )
                if account_pk is None:
                    raise AccountConflict(f"there is somebody of the name {name!r} already")
                self._give_role(session, invitation, account_pk)
            else:
                accounts.change(session, account_pk, password_hash=password_hash)
                login_sessions.end_all(session, account_pk)
            account = accounts.get(session, account_pk)
        assert account is not None
        return account

    def accept(self, token: str, account_pk: int) -> None:
        """Gives somebody who has an account what a link is for.

        Raises:
            InvitationEnded: the link is no good.
        """
        invitation = self.invitation(token)
        with self._database.write_session() as session:
            if invitation.account_pk is not None or not accounts.use_invitation(session, invitation.id):
                raise InvitationEnded("this link is not for somebody who is signed in, or was used just now")
            if invitation.makes_operator:
                accounts.change(session, account_pk, is_operator=True)
            self._give_role(session, invitation, account_pk)

    def change_password(self, account_pk: int, old: str, new: str) -> None:
        """Sets another password; links by which one could be set become worthless.

        Raises:
            WrongCredentials: the old one is wrong.
            WeakPassword: the new one will not do.
        """
        with self._database.read_session() as session:
            account = accounts.get(session, account_pk)
        if account is None or not passwords.is_right(old, account.password_hash):
            raise WrongCredentials("the old password is wrong")
        if (problem := passwords.problem(new, account.name)) is not None:
            raise WeakPassword(problem)
        self._set_password(account_pk, new)
        with self._database.write_session() as session:
            # Somebody else may have asked for one of these.
            accounts.forget_links_of(session, account_pk)

    def _set_password(self, account_pk: int, password: str) -> None:
        password_hash = passwords.hashed(password)
        with self._database.write_session() as session:
            accounts.change(session, account_pk, password_hash=password_hash)

    @staticmethod
    def _give_role(session: Session, invitation: Invitation, account_pk: int) -> None:
        if invitation.project_id is None or invitation.role is None:
            return
        has = accounts.roles(session, account_pk).get(invitation.project_id)
        # An invitation takes nothing away.
        if has is None or Role[has] < Role[invitation.role]:
            accounts.set_role(session, account_pk, invitation.project_id, invitation.role)
