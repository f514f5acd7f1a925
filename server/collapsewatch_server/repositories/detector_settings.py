"""What projects make of the rules that come with the program, as rows."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from collapsewatch_server.access.visible import SEES_ALL
from collapsewatch_server.alert_tables import DetectorSetting
from collapsewatch_server.db import insert, now

EVERY_PROJECT = ""


class Setting(NamedTuple):
    """What counts for one rule."""

    enabled: bool = True
    severity: str | None = None


def for_rules(session: Session, rules: Sequence[str]) -> dict[tuple[str, str], Setting]:
    """By (project, rule); the project is empty for all that have no setting of their own."""
    statement = select(DetectorSetting).where(DetectorSetting.rule.in_(rules))
    # They count for every alert, also where somebody handles it who may not change them.
    rows = session.scalars(statement, execution_options=SEES_ALL)
    return {(row.project, row.rule): Setting(row.enabled, row.severity) for row in rows}


def all_rows(session: Session) -> Sequence[DetectorSetting]:
    """Every setting, by rule and project."""
    statement = select(DetectorSetting).order_by(DetectorSetting.rule, DetectorSetting.project)
    return session.scalars(statement).all()


def put(session: Session, project: str, rule: str, setting: Setting) -> None:
    """Stores the setting; one that says nothing is removed."""
    if setting == Setting() and project == EVERY_PROJECT:
        remove(session, project, rule)
        return
    values = {"enabled": setting.enabled, "severity": setting.severity, "updated_at": now()}
    statement = insert(session, DetectorSetting.__table__).values(project=project, rule=rule, **values)
    session.execute(statement.on_conflict_do_update(index_elements=("project", "rule"), set_=values))


def remove(session: Session, project: str, rule: str) -> bool:
    """Whether there was such a setting."""
    statement = delete(DetectorSetting).where(
        DetectorSetting.project == project, DetectorSetting.rule == rule
    )
    return session.scalar(statement.returning(DetectorSetting.rule)) is not None
