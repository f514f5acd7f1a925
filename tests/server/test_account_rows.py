"""Accounts, roles and links as rows, and what happens at the same moment, on both databases."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from collapsewatch_server.accounts.directory import Directory
from collapsewatch_server.accounts.people import People
from collapsewatch_server.accounts.views import AccountChange
from collapsewatch_server.db import Database
from collapsewatch_server.errors import AccountConflict, InvitationEnded
from collapsewatch_server.migrations import upgrade
from collapsewatch_server.repositories import accounts, runs
from collapsewatch_server.settings import ServerSettings
from tests.server.team import PASSWORD


@pytest.fixture
def database(deployment: Any) -> Iterator[Database]:
    database = Database(ServerSettings(**deployment.settings()).effective_database_url)
    upgrade(database.engine)
    yield database
    database.close()


def test_a_link_that_two_use_at_once_makes_one_account(database: Database) -> None:
    people = People(database)
    link = people.invite("one of two")
    results: list[str] = []
    together = threading.Barrier(2)

    def join(name: str) -> None:
        together.wait(10)
        try:
            results.append(people.join(link.token, name, PASSWORD).name)
        except InvitationEnded:
            results.append("too late")

    threads = [threading.Thread(target=join, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(results) in (["one", "too late"], ["too late", "two"])
    with database.read_session() as session:
        assert len(accounts.all_accounts(session)) == 1


@pytest.mark.parametrize("change", [{"closed": True}, {"is_operator": False}])
def test_two_operators_who_close_each_other_at_once_leave_one(database: Database, change: Any) -> None:
    with database.write_session() as session:
        pks = [
            accounts.add(session, name=name, password_hash="x", subject=None, is_operator=True)
            for name in ("one", "two")
        ]
    directory = Directory(database, People(database))
    together = threading.Barrier(2)
    refused: list[int] = []

    def close(account_pk: int) -> None:
        together.wait(10)
        try:
            directory.change(account_pk, AccountChange(**change))
        except AccountConflict:
            refused.append(account_pk)

    threads = [threading.Thread(target=close, args=(pk,)) for pk in pks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(refused) == 1
    with database.read_session() as session:
        assert accounts.num_operators(session) == 1


def test_rows_of_roles_and_links(database: Database) -> None:
    with database.write_session() as session:
        project = runs.project_id(session, "p")
        one, two = (
            accounts.add(session, name=name, password_hash="x", subject=None, is_operator=name == "one")
            for name in ("one", "two")
        )
        assert one is not None
        assert two is not None
        assert accounts.add(session, name="one", password_hash=None, subject=None, is_operator=True) is None
        accounts.lock_operators(session)
        accounts.lock_members(session, project)
        accounts.set_role(session, two, project, "viewer")
        accounts.set_role(session, two, project, "editor")
        assert accounts.roles(session, two) == {project: "editor"}
        assert [(account.name, role) for account, role in accounts.members(session, project)] == [
            ("two", "editor")
        ]
        assert (accounts.num_operators(session), accounts.num_operators(session, besides=one)) == (1, 0)
        for hash_, project_id, by in (("a", project, one), ("b", project, two), ("c", None, two)):
            accounts.invite(
                session, token_hash=hash_, label=hash_, expires_in=60, project_id=project_id, invited_by=by
            )
        named = [(row.label, by) for row, by in accounts.invitations(session, project)]
        assert named == [("b", "two"), ("a", "one")]
        accounts.revoke_invitations_by(session, two, project)
        assert accounts.invitation(session, "b") is None
        assert accounts.invitation(session, "c") is not None
        accounts.revoke_invitations_by(session, two)
        assert accounts.invitation(session, "c") is None
        assert accounts.invitation(session, "a") is not None
        accounts.close(session, one)
        assert accounts.named(session, "one") is None
        assert accounts.remove_role(session, two, project)
        assert not accounts.remove_role(session, two, project)
