"""The schema: made at start, the same as the tables say, on both databases."""

import threading
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from collapsewatch_server.db import Database
from collapsewatch_server.migrations import UnknownSchema, newest_revision, upgrade
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.tables import Base


@pytest.fixture
def database_url(deployment: Any) -> str:
    return ServerSettings(**deployment.settings()).effective_database_url


def test_the_migrations_make_the_tables_that_the_code_knows(database_url: str) -> None:
    database = Database(database_url)
    upgrade(database.engine)
    upgrade(database.engine)
    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    database.close()


def test_servers_that_start_together_make_the_schema_once(database_url: str) -> None:
    errors: list[Exception] = []

    def start() -> None:
        database = Database(database_url)
        try:
            upgrade(database.engine)
        except Exception as error:  # noqa: BLE001 (whatever it is, the test shows it)
            errors.append(error)
        database.close()

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    database = Database(database_url)
    with database.read_session() as session:
        assert session.scalar(text("SELECT version_num FROM alembic_version")) == newest_revision()
    database.close()


def test_a_database_of_a_newer_version_is_left_alone(database_url: str) -> None:
    database = Database(database_url)
    upgrade(database.engine)
    with database.write_session() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UnknownSchema, match="9999"):
        upgrade(database.engine)
    database.close()


@pytest.mark.parametrize("url", ["mysql://x/y", "sqlite://", "sqlite:///:memory:"])
def test_an_unusable_database_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"postgresql|SQLite"):
        Database(url)
