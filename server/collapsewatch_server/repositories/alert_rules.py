"""Rules of one's own as rows, and the points that they are judged on."""

from typing import Any, NamedTuple, cast

from sqlalchemy import delete, func, literal, select, update
from sqlalchemy import insert as sql_insert
from sqlalchemy.orm import Session

from collapsewatch_server.access.visible import SEES_ALL
from collapsewatch_server.alert_tables import AlertRow, AlertRule, AlertRuleStart, AlertThread
from collapsewatch_server.alerts.custom import OWN_PREFIX, BaselineSpan, Operator, RuleText
from collapsewatch_server.alerts.transitions import Severity
from collapsewatch_server.db import insert, now
from collapsewatch_server.tables import EvaluationRow, MetricPoint, Project, Run


class StoredRule(NamedTuple):
    """A rule with its id."""

    rule_id: int
    text: RuleText
    created_at: float
    updated_at: float

    @property
    def rule(self) -> str:
        """What its alerts carry as their rule."""
        return f"{OWN_PREFIX}{self.rule_id}"


class RunToJudge(NamedTuple):
    """A run that a rule may be about."""

    run_pk: int
    run_id: str
    name: str
    project: str
    tags: list[Any]


def all_rules(session: Session) -> list[StoredRule]:
    """Every rule, by name."""
    return [_stored(row) for row in session.scalars(select(AlertRule).order_by(AlertRule.name))]


def enabled_in(session: Session, scope: str) -> list[StoredRule]:
    """The rules of the scope that are not switched off."""
    statement = select(AlertRule).where(AlertRule.scope == scope, AlertRule.enabled)
    return [_stored(row) for row in session.scalars(statement.order_by(AlertRule.id))]


def enabled_scopes(session: Session) -> set[str]:
    """Scopes that rules which are not switched off read."""
    return set(session.scalars(select(AlertRule.scope).where(AlertRule.enabled).distinct()))


def find(session: Session, rule_id: int) -> StoredRule | None:
    """The rule of this id."""
    row = session.get(AlertRule, rule_id)
    return None if row is None else _stored(row)


def named(session: Session, name: str) -> StoredRule | None:
    """The rule of this name."""
    row = session.scalar(select(AlertRule).where(AlertRule.name == name))
    return None if row is None else _stored(row)


def id_of(session: Session, name: str) -> int | None:
    """Id of the rule of this name, whosever it is: no two have the same."""
    return session.scalar(select(AlertRule.id).where(AlertRule.name == name), execution_options=SEES_ALL)


def count(session: Session) -> int:
    """Number of rules, of all projects."""
    return session.scalar(select(func.count(AlertRule.id)), execution_options=SEES_ALL) or 0


def add(session: Session, text: RuleText) -> int | None:
    """Id of the new rule; none when there is one of this name."""
    statement = insert(session, AlertRule.__table__).values(
        **_columns(text), created_at=now(), updated_at=now()
    )
    statement = statement.on_conflict_do_nothing(index_elements=["name"]).returning(AlertRule.id)
    added: int | None = session.execute(statement).scalar()
    return added


def change(session: Session, rule_id: int, text: RuleText) -> None:
    """Makes the rule say this."""
    statement = update(AlertRule).where(AlertRule.id == rule_id)
    session.execute(statement.values(**_columns(text), updated_at=now()))


def remove(session: Session, rule_id: int) -> None:
    """Removes the rule; its alerts stay."""
    session.execute(delete(AlertRuleStart).where(AlertRuleStart.rule_pk == rule_id))
    session.execute(delete(AlertRule).where(AlertRule.id == rule_id))


def begin_now(session: Session, rule_id: int) -> None:
    """Has the rule say nothing of steps that runs have behind them by now."""
    session.execute(delete(AlertRuleStart).where(AlertRuleStart.rule_pk == rule_id))
    begun = select(literal(rule_id), Run.id, Run.last_step + 1).where(
        Run.last_step.is_not(None), Run.deleted_at.is_(None)
    )
    session.execute(sql_insert(AlertRuleStart).from_select(["rule_pk", "run_pk", "from_step"], begun))


def begins_at(session: Session, rule_id: int, run_pk: int) -> int:
    """First step of the run at which the rule may open an alert."""
    return (
        session.scalar(
            select(AlertRuleStart.from_step).where(
                AlertRuleStart.rule_pk == rule_id, AlertRuleStart.run_pk == run_pk
            )
        )
        or 0
    )


def run_to_judge(session: Session, run_pk: int) -> RunToJudge:
    """The run, as far as it decides which rules are about it."""
    return RunToJudge(*session.execute(_runs().where(Run.id == run_pk)).one())


def runs_to_judge(session: Session, text: RuleText) -> list[RunToJudge]:
    """Runs that the rule is about, newest first."""
    statement = _runs().where(Run.deleted_at.is_(None)).order_by(Run.id.desc())
    if text.project is not None:
        statement = statement.where(Project.name == text.project)
    if text.run is not None:
        statement = statement.where(Run.run_id == text.run)
    found = [RunToJudge(*row) for row in session.execute(statement)]
    # Tags are a JSON list, in which the two databases search differently.
    return [run for run in found if text.applies_to(project=run.project, tags=run.tags, run_id=run.run_id)]


def points_from(
    session: Session, run_pk: int, scope: str, metric: str, from_step: int, num_before: int
) -> list[tuple[int, float, int]]:
    """(step, value, attempt) of the run's own series from the step on, and the last ones before it."""
    columns = select(MetricPoint.step, MetricPoint.value, MetricPoint.attempt_pk).where(
        *_own(run_pk, scope, metric)
    )
    earlier = columns.where(MetricPoint.step < from_step).order_by(MetricPoint.step.desc()).limit(num_before)
    later = columns.where(MetricPoint.step >= from_step).order_by(MetricPoint.step)
    before = [(step, value, attempt) for step, value, attempt in session.execute(earlier)]
    return before[::-1] + [(step, value, attempt) for step, value, attempt in session.execute(later)]


def first_points(session: Session, run_pk: int, scope: str, metric: str, num: int) -> list[tuple[int, float]]:
    """(step, value) of the first points of the run's own series."""
    statement = select(MetricPoint.step, MetricPoint.value).where(*_own(run_pk, scope, metric))
    rows = session.execute(statement.order_by(MetricPoint.step).limit(num))
    return [(step, value) for step, value in rows]


def points_within(
    session: Session, run_pk: int, scope: str, metric: str, first_step: int, last_step: int
) -> list[tuple[int, float]]:
    """(step, value) of the run's own series in these steps, both included."""
    statement = select(MetricPoint.step, MetricPoint.value).where(
        *_own(run_pk, scope, metric), MetricPoint.step.between(first_step, last_step)
    )
    return [(step, value) for step, value in session.execute(statement.order_by(MetricPoint.step))]


def baseline_spans(session: Session, run_pk: int, scope: str, from_step: int) -> list[BaselineSpan]:
    """Which steps were the baseline: of the evaluations from the step on, and of the last one before it."""
    baseline = EvaluationRow.fold_output["baseline"]
    columns = select(
        EvaluationRow.step,
        baseline["first_step"].as_integer(),
        baseline["last_step"].as_integer(),
        baseline["complete"].as_boolean(),
    ).where(
        EvaluationRow.run_pk == run_pk,
        EvaluationRow.scope == scope,
        EvaluationRow.current,
        ~EvaluationRow.superseded,
        EvaluationRow.fold_output.is_not(None),
    )
    earlier = columns.where(EvaluationRow.step < from_step).order_by(EvaluationRow.step.desc()).limit(1)
    later = columns.where(EvaluationRow.step >= from_step).order_by(EvaluationRow.step)
    rows = [*session.execute(earlier), *session.execute(later)]
    return [
        BaselineSpan(step, first or 0, last or 0, bool(is_complete) and first is not None)
        for step, first, last, is_complete in rows
    ]


def scopes_with_alerts(session: Session, run_pk: int) -> set[tuple[str, str]]:
    """(scope, rule) of the alerts of rules of one's own in the run."""
    statement = select(AlertRow.scope, AlertRow.rule).where(
        AlertRow.run_pk == run_pk, AlertRow.rule.startswith(OWN_PREFIX, autoescape=True)
    )
    return {(scope, rule) for scope, rule in session.execute(statement.distinct())}


def runs_with_open_alerts(session: Session, rule: str) -> list[tuple[int, str]]:
    """(run, scope) in which the rule has an alert that it has not resolved."""
    statement = select(AlertRow.run_pk, AlertRow.scope).where(
        AlertRow.rule == rule, AlertRow.status == "open", AlertRow.run_pk.is_not(None)
    )
    rows = session.execute(statement.distinct().order_by(AlertRow.run_pk))
    return [(run_pk, scope) for run_pk, scope in rows if run_pk is not None]


def num_open(session: Session) -> dict[str, int]:
    """Number of items of the inbox that are not resolved, by rule of one's own."""
    statement = (
        select(AlertThread.rule, func.count())
        .where(AlertThread.rule.startswith(OWN_PREFIX, autoescape=True), AlertThread.state != "resolved")
        .group_by(AlertThread.rule)
    )
    return {row[0]: row[1] for row in session.execute(statement)}


def _runs() -> Any:
    return select(Run.id, Run.run_id, Run.name, Project.name, Run.tags).join(Project)


def _own(run_pk: int, scope: str, metric: str) -> list[Any]:
    return [
        MetricPoint.run_pk == run_pk,
        MetricPoint.scope == scope,
        MetricPoint.metric == metric,
        ~MetricPoint.superseded,
    ]


def _columns(text: RuleText) -> dict[str, Any]:
    told = text.model_dump()
    renamed = {"num_evaluations": told.pop("for_evaluations"), "run_id": told.pop("run")}
    return {**told, **renamed}


def _stored(row: AlertRule) -> StoredRule:
    # Checked when it was stored: a rule of an older version is not refused here.
    text = RuleText.model_construct(
        name=row.name,
        metric=row.metric,
        scope=row.scope,
        operator=cast(Operator, row.operator),
        threshold=row.threshold,
        for_evaluations=row.num_evaluations,
        severity=cast(Severity, row.severity),
        project=row.project,
        tag=row.tag,
        run=row.run_id,
        enabled=row.enabled,
    )
    return StoredRule(row.id, text, row.created_at, row.updated_at)
