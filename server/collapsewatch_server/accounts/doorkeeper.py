"""Finds out who asks, and how far that reaches."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from collapsewatch_server.access.roles import LOCAL, Identity, Role
from collapsewatch_server.access.rules import Rule
from collapsewatch_server.access.visible import Visible
from collapsewatch_server.accounts.arrivals import Arrival, Arrivals
from collapsewatch_server.accounts.sessions import Sessions
from collapsewatch_server.auth import KEY_START, Keyring, Purpose
from collapsewatch_server.db import Database
from collapsewatch_server.errors import Forbidden, ProjectNotFound, RunNotFound, Unauthorised
from collapsewatch_server.repositories import runs


@dataclass(frozen=True)
class Credentials:
    """What a request says of who sent it."""

    authorization: str | None
    session_token: str | None
    address: str
    """Network address that it came from."""
    proxy_user: str | None = None
    """Whom a trusted proxy says that it has signed in."""


class Doorkeeper:
    """Knows who asks by a key or by a session."""

    def __init__(
        self,
        database: Database,
        keyring: Keyring,
        sessions: Sessions,
        arrivals: Arrivals,
        *,
        needs_login: bool,
        proxy_operators: Collection[str] = (),
    ) -> None:
        """The service.

        Args:
            proxy_operators: names, as the proxy says them, of those who operate the service.
        """
        self._database = database
        self._keyring = keyring
        self._sessions = sessions
        self._arrivals = arrivals
        self.needs_login = needs_login
        self._proxy_operators = frozenset(name.lower() for name in proxy_operators)

    def identify(self, credentials: Credentials, purposes: tuple[Purpose, ...]) -> Identity:
        """Who it is.

        Args:
            purposes: keys that are good here; people always are.

        Raises:
            Unauthorised: nobody that is known.
            Forbidden: a key for something else.
            NotLetIn: somebody whom a proxy has signed in and who may not come in here.
        """
        if not self.needs_login:
            return LOCAL
        if credentials.proxy_user is not None and not _is_key(credentials.authorization):
            # A proxy that asks for a password may pass that on as well: it is no business of ours.
            return self._by_proxy(credentials.proxy_user, credentials.address)
        if credentials.authorization is not None:
            return self._by_key(credentials.authorization, purposes)
        if credentials.session_token is not None:
            found = self._sessions.identify(credentials.session_token)
            if found is not None:
                return found
        raise Unauthorised("sign in first, or send a key that may read")

    def bounds(self, caller: Identity, rule: Rule, path: Mapping[str, Any]) -> Visible | None:
        """What the caller sees when it calls a route of this rule; None for everything.

        Raises:
            Forbidden: it does not have the role that the route needs.
            RunNotFound, ProjectNotFound: what the path names is not there for it.
        """
        role = _role_for(caller, rule)
        if is_unbounded(caller, rule):
            return None
        if rule.service_wide:
            raise Forbidden("this is for those who operate the whole service")
        project_ids = caller.projects(role)
        assert project_ids is not None
        target = self._project_of(path)
        has = caller.role_in(target) if target is not None else None
        # Who has no role at all in a project is not told that what it asks for is there.
        if (has is not None and has < role) or (not project_ids and role > Role.viewer):
            raise Forbidden(f"this needs the role `{role.name}` in the project")
        if target not in project_ids:
            # Here once and for all, so that no route has to look before it writes.
            if "project_id" in path:
                raise ProjectNotFound(str(path["project_id"]))
            if "run_id" in path:
                raise RunNotFound(str(path["run_id"]))
        readable = caller.projects(Role.viewer)
        assert readable is not None
        return Visible(project_ids, service_wide=role is Role.viewer, readable=readable)

    def _by_key(self, authorization: str, purposes: tuple[Purpose, ...]) -> Identity:
        if not purposes:
            self._keyring.check(authorization, Purpose.read)
            raise Forbidden("keys may not do this; sign in")
        caller = self._keyring.check(authorization, *purposes)
        return Identity(
            kind="key",
            id=caller.key_id,
            name=f"key {caller.key_id}",
            roles={} if caller.project_id is None else {caller.project_id: Role.viewer},
            everywhere=Role.viewer if caller.project_id is None else None,
        )

    def _by_proxy(self, user: str, address: str) -> Identity:
        name = user.lower()
        arrival = Arrival(
            subject=f"proxy {name}",
            name=name,
            proven_name=name,
            is_operator=name in self._proxy_operators,
            may_join=True,
        )
        return self._arrivals.identify(arrival, address=address)

    def _project_of(self, path: Mapping[str, Any]) -> int | None:
        """The project that the path is about, if there is one."""
        project_id = path.get("project_id")
        if project_id is not None:
            return int(project_id) if str(project_id).isdecimal() else None
        run_id = path.get("run_id")
        if run_id is None:
            return None
        with self._database.read_session() as session:
            return runs.project_of(session, str(run_id))


def _is_key(authorization: str | None) -> bool:
    scheme, _, key = (authorization or "").partition(" ")
    return scheme.lower() == "bearer" and key.strip().startswith(KEY_START)


def is_unbounded(caller: Identity, rule: Rule) -> bool:
    """Whether nothing is hidden from the caller when it calls a route of this rule."""
    return rule.of_self or caller.reaches_all(_role_for(caller, rule))


def _role_for(caller: Identity, rule: Rule) -> Role:
    # What a key may do is said by its purpose.
    return Role.viewer if caller.kind == "key" else rule.role
