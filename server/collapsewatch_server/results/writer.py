"""What workers hand in becomes metrics, regimes and alerts, in one transaction per result."""

import logging
from collections.abc import Callable

from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import BATCH_SCOPE, RAGEN_PREFIX, TRAINER_SCOPE
from collapsewatch.contracts.scoring import MetricValue, ScopeEvaluation, ScoringResult
from collapsewatch_server.db import Database
from collapsewatch_server.errors import ErrorDetail, InvalidBody, JobNotFound, wrong
from collapsewatch_server.repositories import batches, evaluations, events, jobs, metrics, runs
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.results.folding import ScopeOfRun, refold
from collapsewatch_server.tables import Batch, Run

log = logging.getLogger(__name__)


class Results:
    """The one writer of metric points of rollouts, evaluations and alerts."""

    def __init__(self, database: Database, ring: Callable[[], None]) -> None:
        self._database = database
        self._ring = ring

    def accept(self, job_id: int, result: ScoringResult) -> bool:
        """Whether this was the job's first good result, which counts; a later one changes nothing.

        Whose lease it is does not matter: refusing the work of a worker that lost its lease would have it
        done again for nothing.

        Raises:
            JobNotFound: there is no such job.
            InvalidBody: a scope comes twice, or a name that the server keeps for itself.
        """
        _check_names(result)
        with self._database.read_session() as session:
            status = jobs.status_of(session, job_id)
        if status is None:
            raise JobNotFound(job_id)
        if status == "done":
            return False
        with self._database.write_session() as session:
            found = jobs.with_batch(session, job_id)
            if found is None:
                raise JobNotFound(job_id)
            _, batch, run, project = found
            runs.lock(session, run.id)
            if not jobs.finish(session, job_id):
                return False
            events.add(session, run.id, _store(session, run, project, batch, result))
        self._ring()
        log.info(
            "batch scored",
            extra={
                "run": run.run_id,
                "step": batch.step,
                "scorer": result.scorer.label,
                "num_scored_turns": result.num_scored_turns,
                "seconds": result.seconds,
            },
        )
        return True


def _store(session: Session, run: Run, project: str, batch: Batch, result: ScoringResult) -> list[Event]:
    """Events of what changed; nothing that is shown does while a batch accepted later stands for the step."""
    stands = batches.add_result(session, batch, result)
    scorer = result.scorer.model_dump(mode="json")
    for evaluation in result.evaluations:
        document = evaluation.model_dump(mode="json", exclude_none=True)
        evaluations.add(session, batch, evaluation.scope, scorer, document, current=stands)
    runs.change(session, run.id)
    if not stands:
        return []
    # A scope that only an earlier batch of the step had goes with that batch.
    points: dict[str, dict[str, MetricValue]] = {scope: {} for scope in evaluations.supersede(session, batch)}
    points |= {evaluation.scope: _points(evaluation) for evaluation in result.evaluations}
    about = {"run_id": run.run_id, "project": project, "step": batch.step}
    metrics.replace(session, run.id, BATCH_SCOPE, batch.step, result.batch_metrics)
    found = [Event("metrics", {**about, "scope": BATCH_SCOPE})]
    for scope, values in points.items():
        metrics.replace(session, run.id, scope, batch.step, values)
        found += refold(session, ScopeOfRun(run.id, run.run_id, project, scope), batch.step)
        found.append(Event("metrics", {**about, "scope": scope}))
    return found


def _points(evaluation: ScopeEvaluation) -> dict[str, MetricValue]:
    ragen = {f"{RAGEN_PREFIX}{name}": MetricValue(value=value) for name, value in evaluation.ragen.items()}
    return {**evaluation.metrics, **ragen}


def _check_names(result: ScoringResult) -> None:
    details: list[ErrorDetail] = []
    seen: set[str] = set()
    for position, evaluation in enumerate(result.evaluations):
        loc = f"evaluations.{position}.scope"
        if evaluation.scope in seen:
            details.append(wrong(loc, "the scope comes twice", evaluation.scope))
        if evaluation.scope in (BATCH_SCOPE, TRAINER_SCOPE):
            details.append(wrong(loc, "the scope has another meaning", evaluation.scope))
        seen.add(evaluation.scope)
        names = [evaluation.scope, *evaluation.metrics, *evaluation.ragen]
        details += [wrong(loc, "NUL characters cannot be stored", name) for name in names if "\x00" in name]
        # A name that takes the prefix must still fit the column.
        details += [
            wrong(f"evaluations.{position}.ragen", "the name is too long", name)
            for name in evaluation.ragen
            if len(RAGEN_PREFIX) + len(name) > 200
        ]
    if details:
        raise InvalidBody(f"the body is not a ScoringResult: {details[0].message}", details)
