"""One run as it stands among others."""

from typing import Any

from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import BATCH_SCOPE, TRAINER_SCOPE
from collapsewatch_server.reading.compare_clocks import token_source
from collapsewatch_server.reading.compare_views import ComparedRun, EndValue
from collapsewatch_server.reading.views import iso
from collapsewatch_server.repositories import batches, evaluations, metrics
from collapsewatch_server.tables import BatchResult, EvaluationRow, Run


def head_of(
    session: Session,
    run: Run,
    project: str,
    scope: str,
    open_alerts: dict[str, int],
    ends: dict[str, dict[str, EndValue]],
) -> ComparedRun:
    """The run with all that a comparison says of it apart from its series."""
    evaluation = evaluations.newest(session, run.id, scope)
    names = metrics.names(session, run.id)
    return ComparedRun.model_validate(
        {
            "run_id": run.run_id,
            "project": project,
            "name": run.name,
            "state": run.state,
            "config": run.config,
            "tags": run.tags,
            "created_at": iso(run.created_at),
            "last_seen_at": None if run.last_seen_at is None else iso(run.last_seen_at),
            "last_step": run.last_step,
            "open_alerts": open_alerts,
            "scopes": [name for name in names if name not in (BATCH_SCOPE, TRAINER_SCOPE)],
            "metrics": names,
            "absent": _absent(batches.newest_result(session, run.id), evaluation),
            "ends": ends,
            "tokens_from": token_source(names),
            **_of_evaluation(evaluation),
        }
    )


def _absent(result: BatchResult | None, evaluation: EvaluationRow | None) -> dict[str, str]:
    absent = dict(result.absent) if result else {}
    return absent | (evaluation.result.get("absent", {}) if evaluation else {})


def _of_evaluation(row: EvaluationRow | None) -> dict[str, Any]:
    if row is None:
        fields = ("scorer", "regime", "sampling", "temperature", "template", "thresholds", "newest")
        return dict.fromkeys(fields)
    output = row.fold_output or {}
    placed = "regime" in output
    return {
        "scorer": row.scorer,
        "regime": {"scope": row.scope, "regime": row.regime, "reason": row.reason or "", "step": row.step}
        if row.regime
        else None,
        "sampling": row.sampling,
        "temperature": row.result.get("temperature"),
        "template": row.result.get("template") or None,
        "thresholds": output.get("thresholds"),
        "newest": {**output, "step": row.step, "scorer": row.scorer["label"]} if placed else None,
    }
