"""Changes of alerts as they lie in the database, for those who tell channels of them."""

from typing import Any

from collapsewatch_server.alert_tables import AlertChange, AlertRow, AlertThread
from collapsewatch_server.db import Database
from collapsewatch_server.repositories import clock, runs
from collapsewatch_server.tables import Run


def add_run(database: Database, *, project: str = "sokoban", name: str = "grpo-7b") -> int:
    """Row id of a new run."""
    with database.write_session() as session:
        moment = clock.read(session)
        row = Run(
            run_id=f"run-{project}-{name}",
            project_id=runs.project_id(session, project),
            name=name,
            given_name=name,
            config={},
            tags=[],
            scorer=None,
            state="running",
            last_step=None,
            created_at=moment,
            updated_at=moment,
            last_seen_at=moment,
            last_data_at=None,
        )
        session.add(row)
        session.flush()
        return row.id


def add_alert(database: Database, run_pk: int | None = None, **values: Any) -> int:
    """Id of a new alert, with its thread, of which nobody was told."""
    given = {
        "rule": "input_dependence",
        "scope": "first_turn",
        "severity": "critical",
        "status": "open",
        "title": "Input dependence fell",
        "message": "Retrieval skill fell to 0.05; its baseline is 0.62.",
        "evidence": {"skill": 0.05},
        **values,
    }
    with database.write_session() as session:
        row = AlertRow(run_pk=run_pk, opened_at=clock.read(session), **given)
        session.add(row)
        session.flush()
        thread = AlertThread(
            run_pk=run_pk,
            alert_id=row.id,
            rule=row.rule,
            severity=row.severity,
            state="open",
            ended=None,
            snoozed_until=None,
            num_changes=0,
        )
        session.add(thread)
        session.flush()
        row.thread_pk = thread.id
        return row.id


def tell(database: Database, alert_id: int, change: str = "opened", **values: Any) -> int:
    """Id of a new change of the alert's thread."""
    with database.write_session() as session:
        alert = session.get_one(AlertRow, alert_id)
        thread = session.get_one(AlertThread, alert.thread_pk)
        thread.num_changes += 1
        given = {"severity": alert.severity, "by": None, "reason": None, **values}
        row = AlertChange(
            thread_pk=thread.id,
            ordinal=thread.num_changes,
            alert_id=alert_id,
            change=change,
            at=clock.read(session),
            **given,
        )
        session.add(row)
        session.flush()
        return row.id
