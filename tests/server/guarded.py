"""People who sign in to a real server, and what they try there."""

from typing import Any

import httpx

from collapsewatch_server.access.roles import Role
from collapsewatch_server.repositories import accounts, runs
from tests.server.live import LiveServer

PASSWORD = "four words nobody guesses"
LEFT_ALONE: dict[str, Any] = {
    "repeats": False,
    "lease_seconds": 3600,
    # Nobody listens there, which is found out at once.
    "channel_hosts": "127.0.0.1:9",
}
"""Starts a server that does nothing of its own accord while it is being called."""


def newcomer(live: LiveServer, name: str, *, makes_operator: bool = False, **roles: str) -> httpx.Client:
    """The browser of somebody who has just joined, with these roles by project."""
    made = live.services.people.invite(name, makes_operator=makes_operator)
    browser = stranger(live)
    body = {"token": made.token, "name": name, "password": PASSWORD}
    joined = browser.post("/session/join", json=body)
    assert joined.is_success, joined.text
    with live.services.database.write_session() as session:
        account = accounts.named(session, name)
        assert account is not None
        for project, role in roles.items():
            accounts.set_role(session, account.id, runs.project_id(session, project), Role[role].name)
    return browser


def stranger(live: LiveServer, **headers: str) -> httpx.Client:
    """A browser in which nobody has signed in."""
    given = {"Origin": live.url, **headers}
    return httpx.Client(base_url=f"{live.url}/api/v1", headers=given, timeout=60, trust_env=False)
