"""What workers hand in becomes metrics, regimes and alerts, in one transaction per result."""

import logging
from collections.abc import Callable

from sqlalchemy.orm import Session

from collapsewatch.blobs import BlobStore
from collapsewatch.contracts.metrics import BATCH_SCOPE, RAGEN_PREFIX, TRAINER_SCOPE
from collapsewatch.contracts.scoring import MetricValue, ScopeEvaluation, ScoringResult
from collapsewatch_server.attempts import Lineages
from collapsewatch_server.db import Database
from collapsewatch_server.errors import ErrorDetail, InvalidBody, JobConflict, JobNotFound, wrong
from collapsewatch_server.repositories import (
    attempts,
    batches,
    evaluations,
    events,
    job_claims,
    jobs,
    metrics,
    rollouts,
    runs,
)
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.repositories.metrics import Place
from collapsewatch_server.results.folding import ScopeOfRun
from collapsewatch_server.results.late import MOST_AT_ONCE, LateFolds, fold_or_put_off
from collapsewatch_server.results.own_rules import judge_all
from collapsewatch_server.results.tokens import store_tokens, tokens_key
from collapsewatch_server.tables import Batch, Run

log = logging.getLogger(__name__)


class Results:
    """The one writer of metric points of rollouts, evaluations and alerts."""

    def __init__(
        self,
        database: Database,
        ring: Callable[[], None],
        blobs: BlobStore | None = None,
        *,
        most_folded_at_once: int = MOST_AT_ONCE,
    ) -> None:
        """The service.

        Args:
            blobs: where the log-probs of single tokens go, which are too many for the database; nowhere when
                absent.
        """
        self._database = database
        self._blobs = blobs
        self._ring = ring
        self._most_folded_at_once = most_folded_at_once
        self.late = LateFolds(database, ring)
        """What is put off here is done there."""

    def accept(self, job_id: int, result: ScoringResult, key_id: int | None = None) -> bool:
        """Whether this was the job's first good result, which counts; a later one changes nothing.

        Whose lease it is now does not matter: refusing the work of a worker that lost its lease would have it
        done again for nothing. But it has to have had it.

        Args:
            key_id: the key that the worker claimed it by. Only calls that come with a key bring one.

        Raises:
            JobNotFound: there is no such job.
            JobConflict: it was never claimed by this key.
            InvalidBody: a scope comes twice, or a name that the server keeps for itself.
        """
        _check_names(result)
        with self._database.read_session() as session:
            status = jobs.status_of(session, job_id)
            may_answer = job_claims.may_answer(session, job_id, key_id)
        if status is None:
            raise JobNotFound(job_id)
        if status == "done":
            return False
        if not may_answer:
            # No 401 or 403: a worker takes these for a key that will be mended, and waits with its result.
            raise JobConflict("a worker answers for jobs that it has claimed, by the same key")
        with self._database.write_session() as session:
            run_pk = jobs.run_of(session, job_id)
            if run_pk is None:
                raise JobNotFound(job_id)
            runs.lock(session, run_pk)
            # Read while the run is held: a late shard may just have moved the job to another batch.
            found = jobs.with_batch(session, job_id)
            assert found is not None
            _, batch, run, project = found
            if not jobs.finish(session, job_id):
                return False
            job_claims.forget(session, job_id)
            if self._blobs is not None and result.token_log_probs:
                rollouts.set_tokens_key(session, batch, tokens_key(batch))
            events.add(session, run.id, self._store(session, run, project, batch, result))
        if self._blobs is not None and result.token_log_probs:
            # Not while the one writer of the database waits; a kill in between costs the shades alone.
            store_tokens(self._blobs, batch, result.token_log_probs)
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

    def _store(
        self, session: Session, run: Run, project: str, batch: Batch, result: ScoringResult
    ) -> list[Event]:
        """Events of what changed; nothing is shown of a batch while one that was logged later stands."""
        attempt_pk = batch.attempt_pk
        assert attempt_pk is not None
        lineages = attempts.of_run(session, run.id)
        superseded = lineages.is_superseded(attempt_pk, batch.step)
        stands = batches.add_result(session, batch, result, superseded=superseded)
        scorer = result.scorer.model_dump(mode="json")
        for evaluation in result.evaluations:
            document = evaluation.model_dump(mode="json", exclude_none=True)
            evaluations.add(
                session,
                batch,
                evaluation.scope,
                scorer,
                document,
                sampling=document.get("sampling"),
                current=stands,
                superseded=superseded,
            )
        runs.change(session, run.id)
        if not stands:
            return []
        # A scope that only an earlier batch of the step had goes with that batch.
        replaced = evaluations.stand_down(session, batch)
        points: dict[str, dict[str, MetricValue]] = {scope: {} for scope in replaced}
        points |= {evaluation.scope: _points(evaluation) for evaluation in result.evaluations}
        from_steps = _to_fold(lineages, attempt_pk, batch.step)
        about = {"run_id": run.run_id, "project": project, "step": batch.step}
        metrics.replace(
            session, Place(run.id, BATCH_SCOPE, batch.step, attempt_pk, superseded), result.batch_metrics
        )
        found = [Event("metrics", {**about, "scope": BATCH_SCOPE})]
        for scope, values in points.items():
            metrics.replace(session, Place(run.id, scope, batch.step, attempt_pk, superseded), values)
            target = ScopeOfRun(run.id, run.run_id, project, scope, lineages)
            found += fold_or_put_off(
                session,
                target,
                from_steps,
                is_replaced=scope in replaced,
                most_at_once=self._most_folded_at_once,
            )
            found.append(Event("metrics", {**about, "scope": scope}))
        of_run = ScopeOfRun(run.id, run.run_id, project, BATCH_SCOPE, lineages)
        return found + judge_all(session, of_run, {BATCH_SCOPE, *points}, batch.step)


def _to_fold(lineages: Lineages, attempt_pk: int, step: int) -> dict[int, int]:
    """First step to fold of every attempt whose lineage holds this step."""
    if lineages.owner(attempt_pk, step) != attempt_pk:
        return {}
    return {attempt_pk: step} | {attempt.pk: 0 for attempt in lineages.building_on(attempt_pk, step)}


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
