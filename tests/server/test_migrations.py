"""The schema: made at start, the same as the tables say, on both databases."""

import threading
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import func, select, text

from collapsewatch_server.alert_tables import AlertChange, AlertRow, AlertThread
from collapsewatch_server.db import Database
from collapsewatch_server.migrations import UnknownSchema, _config, newest_revision, upgrade
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.tables import Base, Run

NEW: dict[str, Any] = {"rule": "r", "severity": "info", "state": "open", "num_changes": 0}


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


def test_alerts_of_the_first_schema_get_items_of_which_nobody_is_told(database_url: str) -> None:
    database = Database(database_url)
    with database.engine.begin() as connection:
        command.upgrade(_config(connection), "0001")
        for alert_id, status, superseded in ((3, "open", False), (5, "resolved", False), (8, "open", True)):
            connection.execute(
                text(
                    "INSERT INTO alerts (id, rule, scope, severity, status, superseded, opened_at, title, "
                    "message, evidence) "
                    "VALUES (:id, 'r', 's', 'warning', :status, :superseded, 1, '', '', '{}')"
                ),
                {"id": alert_id, "status": status, "superseded": superseded},
            )
    upgrade(database.engine)
    with database.read_session() as session:
        threads = session.scalars(select(AlertThread).order_by(AlertThread.alert_id)).all()
        found = [(one.alert_id, one.state, one.ended, one.told_severity) for one in threads]
        rows = session.scalars(select(AlertRow).order_by(AlertRow.id)).all()
        assert [row.thread_pk for row in rows] == [one.id for one in threads]
        assert session.scalar(select(func.count()).select_from(AlertChange)) == 0
    assert found == [
        (3, "open", None, "warning"),
        (5, "resolved", "rule", "warning"),
        (8, "resolved", "superseded", "warning"),
    ]
    with database.write_session() as session:
        # New rows find ids of their own.
        session.add(AlertThread(**NEW, alert_id=3))
    database.close()


def test_runs_of_an_earlier_schema_are_resumed_under_the_name_that_they_have(database_url: str) -> None:
    database = Database(database_url)
    with database.engine.begin() as connection:
        command.upgrade(_config(connection), "0003")
        connection.execute(text("INSERT INTO projects (id, name, created_at) VALUES (1, 'p', 1)"))
        connection.execute(
            text(
                "INSERT INTO runs (id, run_id, project_id, name, config, tags, state, created_at, "
                "updated_at) VALUES (1, 'r', 1, 'grpo', '{}', '[]', 'running', 1, 1)"
            )
        )
    upgrade(database.engine)
    with database.read_session() as session:
        run = session.execute(select(Run)).scalar_one()
    assert (run.name, run.given_name, run.notes) == ("grpo", "grpo", "")
    assert (run.archived_at, run.deleted_at) == (None, None)
    database.close()
