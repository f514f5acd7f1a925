"""Answers about alerts: the inbox, and one item of it with what was measured around its moment."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import BATCH_SCOPE, FIRST_TURN_SCOPE, TRAINER_SCOPE
from collapsewatch.contracts.scoring import PromptRetrieval, ScopeEvaluation, ScorerLabel
from collapsewatch_server.alert_tables import AlertAction, AlertRow
from collapsewatch_server.alerts.catalogue import DETECTORS
from collapsewatch_server.alerts.custom import OWN_PREFIX
from collapsewatch_server.db import Database
from collapsewatch_server.errors import AlertNotFound
from collapsewatch_server.reading import alert_views, views
from collapsewatch_server.reading.alert_views import AlertEvidence, DrivingPrompt, InboxItem
from collapsewatch_server.reading.answers import alert_view
from collapsewatch_server.reading.views import iso
from collapsewatch_server.repositories import alert_inbox, alert_threads, attempts, batches, evaluations
from collapsewatch_server.repositories.alert_inbox import Filters, Item, Span
from collapsewatch_server.tables import EvaluationRow

NUM_AROUND = 20
"""Points before the alert's step and after it."""
_NUM_PROMPTS = 12
_NUM_BASELINE_EVALUATIONS = 20
_BESIDE = ("retrieval_accuracy", "retrieval_chance", "retrieval_skill", "conditional_entropy")
"""Shown beside whatever a rule of the folds reads, as corroboration."""
_BESIDE_OF_BATCH = ("reward", "zero_variance_fraction", "valid_reasoning_rate")


class AlertReading:
    """Reads alerts, and changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def inbox(self, filters: Filters, cursor: int | None, limit: int) -> alert_views.Inbox:
        """A page of the inbox, newest first."""
        with self._database.read_session() as session:
            found = alert_inbox.page(session, filters, cursor, limit + 1)
            counts = alert_inbox.counts(session, filters)
            rules = alert_inbox.rules(session)
            shown = _items(session, found[:limit])
        return alert_views.Inbox(
            items=shown,
            next_cursor=str(shown[-1].alert_id) if len(found) > limit else None,
            counts=alert_views.StateCounts(**counts),
            rules=rules,
        )

    def items(self, alert_ids: Sequence[int]) -> list[InboxItem]:
        """The items of these alerts, newest first."""
        with self._database.read_session() as session:
            pks = set(alert_threads.threads_of(session, alert_ids).values())
            return _items(session, alert_inbox.items(session, sorted(pks)))

    def detail(self, alert_id: int) -> alert_views.AlertDetail:
        """One item with all that is known of it; any of its alerts leads to it.

        Raises:
            AlertNotFound: there is no such alert.
        """
        with self._database.read_session() as session:
            pk = alert_threads.thread_of(session, alert_id)
            if pk is None:
                raise AlertNotFound(alert_id)
            found = alert_inbox.items(session, [pk])
            (item,) = _items(session, found)
            rows = alert_threads.alerts_of(session, [pk])[pk]
            actions = alert_threads.actions_of(session, [pk])[pk]
            changes = alert_threads.changes_of(session, pk)
            names = attempt_names(session, found[0].thread.run_pk)
            evidence = _evidence(session, found[0], names)
        return alert_views.AlertDetail.model_validate(
            {
                **item.model_dump(),
                "alerts": [
                    alert_view(row, names.get(row.attempt_pk or 0)) for row in rows if not row.withdrawn
                ],
                "actions": [_action(row) for row in actions],
                "changes": [
                    {
                        **{name: getattr(row, name) for name in ("change", "alert_id", "severity", "by")},
                        "change_id": row.id,
                        "at": iso(row.at),
                        "reason": row.reason,
                    }
                    for row in changes
                ],
                "evidence_around": evidence,
            }
        )


def driving_prompts(
    prompts: Sequence[PromptRetrieval], baseline: Mapping[str, float], usual: float | None
) -> list[DrivingPrompt]:
    """The prompts that fell furthest below what they had, or below the run's usual accuracy.

    Args:
        baseline: accuracy at baseline by group.
        usual: accuracy at baseline over all prompts, for those that the baseline does not know.
    """
    scored = [(position, prompt) for position, prompt in enumerate(prompts) if prompt.num_rows > 0]
    middle = sum(prompt.accuracy for _, prompt in scored) / len(scored) if scored else 0.0

    def known(prompt: PromptRetrieval) -> float | None:
        values = [baseline[group] for group in prompt.group_ids if group in baseline]
        return sum(values) / len(values) if values else None

    def shortfall(prompt: PromptRetrieval) -> float:
        before = known(prompt)
        expected = before if before is not None else (middle if usual is None else usual)
        return expected - prompt.accuracy

    ordered = sorted(scored, key=lambda one: (-shortfall(one[1]), one[1].accuracy, one[0]))
    return [_driving(prompts, at, prompt, known(prompt)) for at, prompt in ordered[:_NUM_PROMPTS]]


def _driving(
    prompts: Sequence[PromptRetrieval], position: int, prompt: PromptRetrieval, before: float | None
) -> DrivingPrompt:
    others = [(share, at) for at, share in enumerate(prompt.retrieved) if at != position]
    share, at = max(others, key=lambda one: (one[0], -one[1]), default=(0.0, -1))
    other = prompts[at] if 0 <= at < len(prompts) and share > 0.0 else None
    return DrivingPrompt(
        group_ids=prompt.group_ids,
        preview=prompt.preview,
        accuracy=prompt.accuracy,
        chance=prompt.chance,
        baseline_accuracy=before,
        num_rows=prompt.num_rows,
        mean_pmi=prompt.mean_pmi,
        taken_for=other.group_ids[0] if other is not None and other.group_ids else None,
        taken_for_share=share if other is not None else 0.0,
    )


def _items(session: Session, found: Sequence[Item]) -> list[InboxItem]:
    pks = [one.thread.id for one in found]
    spans = alert_inbox.spans(session, pks)
    actions = alert_threads.last_actions(session, pks)
    # A late step can make two items one; of the other nothing is left but that it was.
    return [
        _item(
            one,
            spans.get(one.thread.id, Span(0, one.alert.opened_at, one.alert.opened_at)),
            actions.get(one.thread.id),
        )
        for one in found
    ]


def _item(one: Item, span: Span, action: AlertAction | None) -> InboxItem:
    thread, alert = one.thread, one.alert
    return InboxItem.model_validate(
        {
            "alert_id": alert.id,
            "thread_id": thread.id,
            "run_id": one.run_id,
            "run_name": one.run_name,
            "project": one.project,
            "severity": thread.severity,
            "state": thread.state,
            "ended": thread.ended,
            "snoozed_until": None if thread.snoozed_until is None else iso(thread.snoozed_until),
            "opened_at": iso(span.opened_at),
            "changed_at": iso(span.changed_at),
            "num_alerts": span.num_alerts,
            "last_action": None if action is None else _action(action),
            **{
                name: getattr(alert, name)
                for name in ("rule", "scope", "opened_step", "resolved_step", "title", "message")
            },
        }
    )


def _action(row: AlertAction) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in ("kind", "severity", "by", "note")},
        "at": iso(row.at),
        "until": None if row.until is None else iso(row.until),
    }


def attempt_names(session: Session, run_pk: int | None) -> dict[int, str]:
    """Ids of the run's attempts by row id."""
    if run_pk is None:
        return {}
    return {attempt.pk: attempt.attempt_id for attempt in attempts.of_run(session, run_pk).attempts}


def _evidence(session: Session, item: Item, names: Mapping[int, str]) -> AlertEvidence:
    alert, run_pk = item.alert, item.thread.run_pk
    if alert.opened_step is None or run_pk is None:
        return AlertEvidence(step=None, series=[], prompts=[], template_evidence=None, scorer=None, link=None)
    return AlertEvidence(
        step=alert.opened_step,
        series=list(_series(session, run_pk, alert, _own_attempt(alert))),
        **_of_step(session, item, evaluation_of(session, item), names),
    )


def _own_attempt(alert: AlertRow) -> int | None:
    """The attempt whose rows are shown, when a later one replayed the alert's step."""
    return alert.attempt_pk if alert.superseded else None


def evaluation_of(session: Session, item: Item) -> EvaluationRow | None:
    """The evaluation of the alert's step; none for an alert without a step, or without scores at it."""
    alert, run_pk = item.alert, item.thread.run_pk
    if alert.opened_step is None or run_pk is None:
        return None
    # What has no scores of its own is shown beside the first turns of the same step.
    scope = FIRST_TURN_SCOPE if alert.scope in (BATCH_SCOPE, TRAINER_SCOPE) else alert.scope
    return evaluations.of_step(session, run_pk, scope, alert.opened_step, _own_attempt(alert))


def prompts_of(session: Session, item: Item, row: EvaluationRow) -> list[DrivingPrompt]:
    """The prompts of the alert's evaluation that drove it."""
    evidence = item.alert.evidence
    return driving_prompts(
        ScopeEvaluation.model_validate(row.result).prompts,
        _baseline_accuracies(session, row, evidence),
        evidence.get("baseline_retrieval_accuracy"),
    )


def _of_step(
    session: Session, item: Item, row: EvaluationRow | None, names: Mapping[int, str]
) -> dict[str, Any]:
    if row is None:
        return {"prompts": [], "template_evidence": None, "scorer": None, "link": None}
    assert item.run_id is not None
    result, batch = batches.result_of(session, row.batch_pk)
    return {
        "prompts": prompts_of(session, item, row),
        "template_evidence": result.template_evidence,
        "scorer": ScorerLabel.model_validate(row.scorer),
        "link": alert_views.StepLink(
            run_id=item.run_id,
            step=row.step,
            scope=row.scope,
            attempt_id=names.get(row.attempt_pk or 0, ""),
            batch_id=batch.batch_id,
        ),
    }


def baseline_steps(row: EvaluationRow, evidence: Mapping[str, Any]) -> tuple[int, int] | None:
    """First and last step of the baseline that the alert was held against; none without a baseline."""
    baseline = (row.fold_output or {}).get("baseline") or {}
    first = evidence.get("baseline_first_step", baseline.get("first_step"))
    last = evidence.get("baseline_last_step", baseline.get("last_step"))
    return None if first is None or last is None else (first, last)


def _baseline_accuracies(
    session: Session, row: EvaluationRow, evidence: Mapping[str, Any]
) -> dict[str, float]:
    """Mean accuracy by group over the evaluations of the baseline; empty without a baseline."""
    steps = baseline_steps(row, evidence)
    if steps is None:
        return {}
    seen: dict[str, list[float]] = {}
    for prompts in alert_inbox.prompts_of_baseline(
        session, row.run_pk, row.scope, *steps, _NUM_BASELINE_EVALUATIONS
    ):
        for prompt in prompts:
            for group in prompt["group_ids"] if prompt["num_rows"] > 0 else ():
                seen.setdefault(group, []).append(prompt["accuracy"])
    return {group: sum(values) / len(values) for group, values in seen.items()}


def _series(
    session: Session, run_pk: int, alert: AlertRow, attempt_pk: int | None
) -> Iterable[views.SeriesView]:
    assert alert.opened_step is not None
    for scope, metrics in _metrics(alert):
        found = alert_inbox.points_around(
            session, run_pk, scope, metrics, alert.opened_step, NUM_AROUND, attempt_pk
        )
        if found:
            series = {
                name: views.Series(
                    steps=[point.step for point in points],
                    values=[point.value for point in points],
                    low=[point.low for point in points],
                    high=[point.high for point in points],
                    num_points=len(points),
                )
                for name, points in found.items()
            }
            yield views.SeriesView(scope=scope, series=series)


def _metrics(alert: AlertRow) -> list[tuple[str, list[str]]]:
    """Which metrics of which scope are shown."""
    if alert.rule.startswith(OWN_PREFIX):
        return [(alert.scope, [alert.evidence["metric"]])]
    detector = DETECTORS.get(alert.rule)
    own = () if detector is None else detector.metrics
    return [
        (alert.scope, list(dict.fromkeys((*own, *_BESIDE)))),
        (BATCH_SCOPE, list(dict.fromkeys((*own, *_BESIDE_OF_BATCH)))),
    ]
