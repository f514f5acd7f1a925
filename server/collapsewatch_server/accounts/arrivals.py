"""People whom another service has signed in, such as an OpenID provider or a proxy in front."""

import re
import time
from dataclasses import dataclass

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from collapsewatch_server.access.roles import Identity, Role
from collapsewatch_server.access.visible import seeing
from collapsewatch_server.account_tables import Account, Invitation
from collapsewatch_server.accounts.audit import Audit
from collapsewatch_server.accounts.sessions import identity_of
from collapsewatch_server.db import Database, answer_by
from collapsewatch_server.errors import NotLetIn
from collapsewatch_server.repositories import accounts, login_sessions

_NAME = re.compile(r"[!-~]{1,100}")
_TOUCH_SECONDS = 60.0
_TOUCH_PATIENCE_SECONDS = 0.5


@dataclass(frozen=True)
class Arrival:
    """Somebody at the door, as another service vouches."""

    subject: str
    """The other service and what it knows the person by, which no other person ever has."""
    name: str
    """What the account is called that is made here."""
    proven_name: str | None
    """Name, such as a verified e-mail address, that is the person's as the other service vouches: an account
    or an invitation of this name is the person's, too."""
    is_operator: bool
    """Whether whoever runs this service has named the person as one who operates it."""
    may_join: bool
    """Whether an account is made without an invitation."""


class Arrivals:
    """Finds or makes the accounts of those who arrive."""

    def __init__(self, database: Database, audit: Audit) -> None:
        self._database = database
        self._audit = audit

    def account_of(self, arrival: Arrival, *, address: str = "") -> Account:
        """The person's account.

        An account of the proven name becomes the person's. Whoever has made it under that name may have been
        somebody else: its password, its links and its sessions end with it.

        Args:
            address: where the person comes from, for the audit log.

        Raises:
            NotLetIn: the account is closed, somebody else's, or there is none and none is to be made.
        """
        # Who somebody is does not depend on what the request in hand can see.
        with seeing(None):
            # Where another request makes the account at the same moment, the second look finds it.
            found = self._settled(arrival) or self._settled(arrival)
        assert found is not None
        account, has_joined = found
        if has_joined:
            self._audit.note("account.join", actor=account.name, target=arrival.subject, address=address)
        return account

    def _settled(self, arrival: Arrival) -> tuple[Account, bool] | None:
        """The account, and whether it is the person's since now; None: another request makes it."""
        with self._database.write_session() as session:
            found = self._found_or_made(session, arrival)
            if found is None:
                return None
            account, has_joined = found
            if arrival.is_operator and not account.is_operator:
                accounts.change(session, account.id, is_operator=True)
            for invitation in _invitations(session, arrival):
                self._use(session, invitation, account.id)
            session.refresh(account)
            return account, has_joined

    def identify(self, arrival: Arrival, *, address: str = "") -> Identity:
        """Who it is, for somebody who arrives anew with each request.

        Raises:
            NotLetIn: as `account_of`.
        """
        with seeing(None), self._database.read_session() as session:
            account = accounts.of_subject(session, arrival.subject)
        is_new = account is None or (arrival.is_operator and not account.is_operator)
        if account is None or is_new or account.closed_at is not None:
            account = self.account_of(arrival, address=address)
        with seeing(None), self._database.read_session() as session:
            roles = {} if account.is_operator else accounts.roles(session, account.id)
        if time.time() - (account.last_seen_at or 0.0) > _TOUCH_SECONDS:
            self._note_use(account.id)
        return identity_of(account, roles)

    @staticmethod
    def _found_or_made(session: Session, arrival: Arrival) -> tuple[Account, bool] | None:
        account = accounts.of_subject(session, arrival.subject)
        if account is not None:
            _check_open(account)
            return account, False
        name = arrival.name.lower()
        if _NAME.fullmatch(name) is None:
            raise NotLetIn("unnamed", "the name has more than 100 characters, or such as no name here has")
        proven = None if arrival.proven_name is None else arrival.proven_name.lower()
        account = accounts.any_named(session, proven or name)
        if account is not None:
            _check_open(account)
            if account.subject == arrival.subject:
                # Made by a request that was at it between the two looks.
                return account, False
            if proven is None or account.subject is not None:
                raise NotLetIn("taken", "somebody else has an account of this name; ask who runs the service")
            if account.is_operator and not arrival.is_operator:
                # A name alone shall not be worth everything; nor lose an operator the password.
                raise NotLetIn("taken", "this is an operator's account, which the settings have to name")
            accounts.change(session, account.id, subject=arrival.subject, password_hash=None)
            accounts.forget_links_of(session, account.id)
            login_sessions.end_all(session, account.id)
            return account, True
        if not (arrival.may_join or arrival.is_operator or _invitations(session, arrival)):
            raise NotLetIn("uninvited", "nobody has invited this e-mail address; ask who runs the service")
        account_pk = accounts.add(
            session, name=proven or name, password_hash=None, subject=arrival.subject, is_operator=False
        )
        made = None if account_pk is None else accounts.get(session, account_pk)
        return None if made is None else (made, True)

    @staticmethod
    def _use(session: Session, invitation: Invitation, account_pk: int) -> None:
        if not accounts.use_invitation(session, invitation.id):
            return
        if invitation.makes_operator:
            accounts.change(session, account_pk, is_operator=True)
        if invitation.project_id is None or invitation.role is None:
            return
        has = accounts.roles(session, account_pk).get(invitation.project_id)
        # An invitation takes nothing away.
        if has is None or Role[has] < Role[invitation.role]:
            accounts.set_role(session, account_pk, invitation.project_id, invitation.role)

    def _note_use(self, account_pk: int) -> None:
        try:
            with (
                answer_by(time.monotonic() + _TOUCH_PATIENCE_SECONDS),
                self._database.write_session() as session,
            ):
                accounts.touch(session, account_pk)
        except SQLAlchemyError:
            # People read it; no request fails for it.
            return


def _invitations(session: Session, arrival: Arrival) -> list[Invitation]:
    """Those for the person's e-mail address. Other labels are words for people, and prove nothing."""
    if arrival.proven_name is None or "@" not in arrival.proven_name:
        return []
    return accounts.invitations_for(session, arrival.proven_name)


def _check_open(account: Account) -> None:
    if account.closed_at is not None:
        raise NotLetIn("closed", "this account is closed; ask who runs the service")
