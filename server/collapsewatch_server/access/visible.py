"""What the request in hand can see of the database: rows of other projects are not there for it.

Every query of a session that `db` hands out is narrowed here, whichever service makes it, so that no list
and no look-up has to think of it. Work that belongs to no request sees everything, and so does a statement
with the execution option of `SEES_ALL`: for what counts whoever asks, and is not shown.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Text, and_, event, literal, or_, select
from sqlalchemy.orm import ORMExecuteState, Session, with_loader_criteria

from collapsewatch_server.account_tables import AuditEntry, Invitation, Membership, ProjectRetention
from collapsewatch_server.alert_tables import AlertRow, AlertRule, AlertThread, DetectorSetting
from collapsewatch_server.alerts.watch import CHANNEL_RULE
from collapsewatch_server.channel_tables import Channel
from collapsewatch_server.db import json_text
from collapsewatch_server.share_tables import Share, ShareRun
from collapsewatch_server.tables import ApiKey, Batch, EventRow, JobRow, Project, Run


@dataclass(frozen=True)
class Visible:
    """Some projects, and perhaps what belongs to none."""

    project_ids: frozenset[int]
    service_wide: bool
    """Whether what holds for the whole service can be seen as well, such as its own alerts."""
    readable: frozenset[int] = frozenset()
    """Projects that the caller can read, where the request may change those of `project_ids` alone."""


SEES_ALL = {"sees_all": True}
"""Execution options of a statement that sees the rows of other projects as well."""

_visible: ContextVar[Visible | None] = ContextVar("visible", default=None)


@contextmanager
def seeing(visible: Visible | None) -> Iterator[None]:
    """Within the block all queries see this and nothing else; everything for None."""
    token = _visible.set(visible)
    try:
        yield
    finally:
        _visible.reset(token)


@contextmanager
def as_reader() -> Iterator[None]:
    """Within the block the request in hand sees all that its caller can read: for the answer to a change."""
    visible = _visible.get()
    if visible is not None:
        visible = Visible(visible.readable | visible.project_ids, service_wide=True)
    with seeing(visible):
        yield


def sees_everything() -> bool:
    """Whether nothing is hidden from the request in hand."""
    return _visible.get() is None


def narrow(session_class: type[Session]) -> None:
    """Has all queries of such sessions see only what their request can see."""
    event.listen(session_class, "do_orm_execute", _narrow)


def _narrow(state: ORMExecuteState) -> None:
    visible = _visible.get()
    # A reload of rows that were found already, or a related one, is of a row that could be seen.
    if visible is None or state.is_column_load or state.is_relationship_load:
        return
    if state.execution_options.get("sees_all", False):
        return
    state.statement = state.statement.options(*_criteria(visible))


# Putting them together takes longer than many of the queries.
@lru_cache(maxsize=256)
def _criteria(visible: Visible) -> list[Any]:
    ids = sorted(visible.project_ids)
    # Of the tables themselves: what is said of the classes below would be said of these again.
    runs, projects, share_runs = Run.__table__.c, Project.__table__.c, ShareRun.__table__.c
    mine = runs.project_id.in_(ids)
    names = _apart(select(projects.name).where(projects.id.in_(ids)))
    run_pks = _apart(select(runs.id).where(mine))
    run_ids = _apart(select(runs.run_id).where(mine))
    # A link that shows a run of another project as well is not for those who cannot see that one.
    foreign = select(share_runs.share_pk).join(Run.__table__, runs.id == share_runs.run_pk).where(~mine)
    wide = visible.service_wide

    def of_run(table: Any, of_service: Any) -> Any:
        seen = table.run_pk.in_(run_pks)
        return or_(seen, and_(table.run_pk.is_(None), of_service)) if wide else seen

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
        EventRow: of_run(EventRow, _of_service(names)),
        # A channel's name and its trouble are for those who may see the channel.
        AlertRow: of_run(AlertRow, AlertRow.rule != CHANNEL_RULE),
        AlertThread: of_run(AlertThread, AlertThread.rule != CHANNEL_RULE),
        AlertRule: or_(*rules),
        DetectorSetting: or_(*detectors),
        Channel: of_name(Channel),
        Share: and_(
            Share.id.not_in(_apart(foreign)),
            Share.id.in_(_apart(select(share_runs.share_pk))),
        ),
        ApiKey: ApiKey.project_id.in_(ids),
        Membership: Membership.project_id.in_(ids),
        Invitation: Invitation.project_id.in_(ids),
        ProjectRetention: ProjectRetention.project_id.in_(ids),
        AuditEntry: AuditEntry.project_id.in_(ids),
    }
    return [with_loader_criteria(table, shows, include_aliases=True) for table, shows in shown.items()]


def _of_service(names: Any) -> Any:
    """What is told of the service itself, or of runs of these projects that are no more."""
    project, rule = (json_text(EventRow.data, literal(name, Text())) for name in ("project", "rule"))
    return and_(
        or_(project.is_(None), project.in_(names)),
        or_(rule.is_(None), rule != CHANNEL_RULE),
    )


def _apart(statement: Any) -> Any:
    """The rows of its own, whatever tables the query around it reads."""
    return statement.correlate(None).scalar_subquery()
