"""What the request in hand can see of the database: rows of other projects are not there for it.

Every query of a session that `db` hands out is narrowed here, whichever service makes it, so that no list
and no look-up has to think of it. Work that belongs to no request sees everything.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, event, or_, select
from sqlalchemy.orm import ORMExecuteState, Session, with_loader_criteria

from collapsewatch_server.account_tables import AuditEntry, Invitation, Membership, ProjectRetention
from collapsewatch_server.alert_tables import AlertRow, AlertRule, AlertThread, DetectorSetting
from collapsewatch_server.channel_tables import Channel
from collapsewatch_server.share_tables import Share, ShareRun
from collapsewatch_server.tables import ApiKey, Batch, EventRow, JobRow, Project, Run


@dataclass(frozen=True)
class Visible:
    """Some projects, and perhaps what belongs to none."""

    project_ids: frozenset[int]
    service_wide: bool
    """Whether what holds for the whole service can be seen as well, such as its own alerts."""


_visible: ContextVar[Visible | None] = ContextVar("visible", default=None)


@contextmanager
def seeing(visible: Visible | None) -> Iterator[None]:
    """Within the block all queries see this and nothing else; everything for None."""
    token = _visible.set(visible)
    try:
        yield
    finally:
        _visible.reset(token)


def can_see(project_id: int) -> bool:
    """Whether the request in hand can see the project."""
    visible = _visible.get()
    return visible is None or project_id in visible.project_ids


def can_see_service() -> bool:
    """Whether it can see what holds for the whole service."""
    visible = _visible.get()
    return visible is None or visible.service_wide


def narrow(session_class: type[Session]) -> None:
    """Has all queries of such sessions see only what their request can see."""
    event.listen(session_class, "do_orm_execute", _narrow)


def _narrow(state: ORMExecuteState) -> None:
    visible = _visible.get()
    # A reload of rows that were found already, or a related one, is of a row that could be seen.
    if visible is None or state.is_column_load or state.is_relationship_load:
        return
    state.statement = state.statement.options(*_criteria(visible))


def _criteria(visible: Visible) -> list[Any]:
    ids = sorted(visible.project_ids)
    # Of the tables themselves: what is said of the classes below would be said of these again.
    runs, projects, share_runs = Run.__table__.c, Project.__table__.c, ShareRun.__table__.c
    mine = runs.project_id.in_(ids)
    names = select(projects.name).where(projects.id.in_(ids)).scalar_subquery()
    run_pks = select(runs.id).where(mine).scalar_subquery()
    run_ids = select(runs.run_id).where(mine).scalar_subquery()
    # A link that shows a run of another project as well is not for those who cannot see that one.
    foreign = select(share_runs.share_pk).join(Run.__table__, runs.id == share_runs.run_pk).where(~mine)
    wide = visible.service_wide

    def of_run(table: Any) -> Any:
        seen = table.run_pk.in_(run_pks)
        return or_(seen, table.run_pk.is_(None)) if wide else seen

    def of_name(table: Any) -> Any:
        seen = table.project.in_(names)
        return or_(seen, table.project.is_(None)) if wide else seen

    rule_of_run = and_(AlertRule.project.is_(None), AlertRule.run_id.in_(run_ids))
    rule_of_all = and_(AlertRule.project.is_(None), AlertRule.run_id.is_(None))
    rules = [AlertRule.project.in_(names), rule_of_run, *([rule_of_all] if wide else [])]
    detectors = [DetectorSetting.project.in_(names), *([DetectorSetting.project == ""] if wide else [])]
    shown: dict[Any, Any] = {
        Project: Project.id.in_(ids),
        Run: Run.project_id.in_(ids),
        Batch: Batch.run_pk.in_(run_pks),
        JobRow: JobRow.run_pk.in_(run_pks),
        EventRow: of_run(EventRow),
        AlertRow: of_run(AlertRow),
        AlertThread: of_run(AlertThread),
        AlertRule: or_(*rules),
        DetectorSetting: or_(*detectors),
        Channel: of_name(Channel),
        Share: and_(
            Share.id.not_in(foreign.scalar_subquery()),
            Share.id.in_(select(share_runs.share_pk).scalar_subquery()),
        ),
        ApiKey: ApiKey.project_id.in_(ids),
        Membership: Membership.project_id.in_(ids),
        Invitation: Invitation.project_id.in_(ids),
        ProjectRetention: ProjectRetention.project_id.in_(ids),
        AuditEntry: AuditEntry.project_id.in_(ids),
    }
    return [with_loader_criteria(table, shows, include_aliases=True) for table, shows in shown.items()]
