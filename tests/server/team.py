"""A service that asks people to sign in, in this process, and the people who call it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.testclient import TestClient

from collapsewatch_server.access.roles import Role
from collapsewatch_server.app import create_app
from collapsewatch_server.repositories import accounts, runs
from collapsewatch_server.services import Services, build_services
from collapsewatch_server.settings import ServerSettings

URL = "https://cw.example"
PASSWORD = "four words nobody guesses"


@dataclass
class Person:
    """A browser, or a program with a key."""

    client: TestClient

    def call(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return self.client.request(method, f"/api/v1{path}", json=body, headers=headers)

    def ok(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> Any:
        response = self.call(method, path, body, key=key)
        assert response.is_success, response.text
        return response.json() if response.content else None

    def refusal(self, method: str, path: str, body: Any = None, *, key: str | None = None) -> tuple[int, str]:
        response = self.call(method, path, body, key=key)
        return response.status_code, response.json()["error"]["code"]


class Team:
    """The service and those who use it."""

    def __init__(self, services: Services) -> None:
        self.services = services
        self._app = create_app(services.settings, services)

    def browser(self) -> Person:
        """One in which nobody has signed in."""
        return Person(TestClient(self._app, base_url=URL, headers={"Origin": URL}))

    def operator(self, name: str = "olga") -> Person:
        """Somebody who operates the service, signed in."""
        return self.joined(self.services.people.invite(name, makes_operator=True).token, name)

    def member(self, name: str, **roles: str) -> Person:
        """Somebody with these roles by project, signed in."""
        person = self.joined(self.services.people.invite(name).token, name)
        for project, role in roles.items():
            self.give(name, project, role)
        return person

    def joined(self, token: str, name: str, password: str = PASSWORD) -> Person:
        """Somebody who has just joined by a link."""
        person = self.browser()
        person.ok("POST", "/session/join", {"token": token, "name": name, "password": password})
        return person

    def give(self, name: str, project: str, role: str) -> None:
        """Gives somebody a role in a project."""
        project_id = self.project(project)
        with self.services.database.write_session() as session:
            accounts.set_role(session, self.account_id(name), project_id, Role[role].name)

    def project(self, name: str) -> int:
        """Id of the project, which is made when it is missing."""
        with self.services.database.write_session() as session:
            return runs.project_id(session, name)

    def account_id(self, name: str) -> int:
        """Id of the person."""
        with self.services.database.read_session() as session:
            account = accounts.named(session, name)
        assert account is not None
        return account.id


@contextmanager
def team_of(settings: dict[str, Any]) -> Iterator[Team]:
    """A service with these settings in which nobody has an account yet."""
    services = build_services(ServerSettings(**{"login": True, **settings}))
    services.prepare()
    yield Team(services)
    services.close()
