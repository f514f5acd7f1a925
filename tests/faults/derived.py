"""Everything that was computed for a run, by names that do not depend on ids and times."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from collapsewatch_server.alert_tables import AlertRow
from collapsewatch_server.tables import BatchResult, EvaluationRow, MetricPoint

Derived = dict[tuple[Any, ...], Any]
"""The last part of a name counts the rows that share the rest of it: two for one step are a difference."""

_MAX_SHOWN = 4
_RESULT_NAMES = ("metrics", "absent", "groups", "filters", "buckets", "template_evidence")


def derived(session: Session, run_pk: int | None) -> Derived:
    """The run's own metrics, regimes and alerts: what a later attempt superseded is left out."""
    found: Derived = {}
    _add_metric_points(session, run_pk, found)
    _add_evaluations(session, run_pk, found)
    _add_results(session, run_pk, found)
    _add_alerts(session, run_pk, found)
    return found


def differences(expected: Mapping[Any, Any], found: Mapping[Any, Any]) -> list[str]:
    """Where two runs differ, a few of them in words; nothing when they agree."""
    places = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
    words = [
        f"{'/'.join(map(str, key))}: expected {_brief(expected.get(key))}, found {_brief(found.get(key))}"
        for key in sorted(places, key=str)[:_MAX_SHOWN]
    ]
    rest = len(places) - len(words)
    return [*words, f"and {rest} more differences"] if rest else words


def num_alerts(found: Mapping[tuple[Any, ...], Any]) -> int:
    """Alerts about the training."""
    return sum(key[0] == "alert" for key in found)


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"


def _add(found: Derived, name: tuple[Any, ...], value: Any) -> None:
    number = 0
    while (*name, number) in found:
        number += 1
    found[*name, number] = value


def _add_metric_points(session: Session, run_pk: int | None, found: Derived) -> None:
    statement = select(MetricPoint).where(MetricPoint.run_pk == run_pk, ~MetricPoint.superseded)
    for row in session.scalars(statement):
        _add(found, ("metric", row.scope, row.metric, row.step), (row.value, row.low, row.high))


def _add_evaluations(session: Session, run_pk: int | None, found: Derived) -> None:
    statement = select(EvaluationRow).where(
        EvaluationRow.run_pk == run_pk, EvaluationRow.current, ~EvaluationRow.superseded
    )
    for row in session.scalars(statement):
        value = (row.regime, row.reason, row.scorer, row.result, row.fold_output)
        _add(found, ("evaluation", row.scope, row.step), value)


def _add_results(session: Session, run_pk: int | None, found: Derived) -> None:
    statement = select(BatchResult).where(
        BatchResult.run_pk == run_pk, BatchResult.current, ~BatchResult.superseded
    )
    for row in session.scalars(statement):
        for name in _RESULT_NAMES:
            _add(found, ("result", name, row.step), getattr(row, name))


def _add_alerts(session: Session, run_pk: int | None, found: Derived) -> None:
    """Alerts about the training. Those of the watch have no step, and tell of the fault itself."""
    statement = select(AlertRow).where(
        AlertRow.run_pk == run_pk,
        AlertRow.opened_step.is_not(None),
        ~AlertRow.superseded,
        ~AlertRow.withdrawn,
    )
    for row in session.scalars(statement.order_by(AlertRow.opened_step, AlertRow.severity)):
        name = ("alert", row.rule, row.scope, row.severity, row.opened_step)
        _add(found, name, (row.status, row.resolved_step, row.title, row.message, row.evidence))
