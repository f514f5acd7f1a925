"""Answers of the read API, put together from rows."""

from collections.abc import Sequence
from typing import Any, get_args

from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import BATCH_SCOPE, FIRST_TURN_SCOPE, TRAINER_SCOPE
from collapsewatch.contracts.runs import RunState
from collapsewatch.contracts.scoring import ScopeEvaluation, ScorerLabel
from collapsewatch_server.access.roles import Identity
from collapsewatch_server.alert_tables import AlertRow
from collapsewatch_server.attempts import Attempt, Lineages
from collapsewatch_server.db import Database
from collapsewatch_server.errors import AttemptNotFound, RunNotFound, StepNotFound, wrong
from collapsewatch_server.reading import views
from collapsewatch_server.reading.series import ALL, SeriesReading, Stretch
from collapsewatch_server.reading.unscored import why_unscored
from collapsewatch_server.reading.views import iso
from collapsewatch_server.repositories import (
    alerts,
    attempts,
    batches,
    clock,
    evaluations,
    events,
    jobs,
    metrics,
    run_list,
    runs,
    watch,
)
from collapsewatch_server.repositories.events import StoredEvent
from collapsewatch_server.repositories.watch import Backlog
from collapsewatch_server.tables import Batch, BatchResult, JobRow, Run

_SPARKLINE_POINTS = 60
_MAX_ROWS = 1000
_SCORED = (
    "retrieval_accuracy",
    "retrieval_chance",
    "retrieval_skill",
    "mi_seq",
    "mi_ceiling",
    "mi_normalised",
    "conditional_entropy",
    "diversity_ratio",
)
_OF_BATCH = ("reward", "reward_variance", "zero_variance_fraction", "valid_reasoning_rate")
_LATEST = [
    *((FIRST_TURN_SCOPE, metric) for metric in _SCORED),
    *(("trajectory", metric) for metric in _SCORED),
    *((BATCH_SCOPE, metric) for metric in _OF_BATCH),
    (TRAINER_SCOPE, "success"),
    (BATCH_SCOPE, "success"),
]


class Reading:
    """Reads, and changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._series = SeriesReading(database)

    def warm(self) -> None:
        """Reads ahead what takes long to be read for the first time."""
        self._series.warm()

    def close(self) -> None:
        """Reads nothing ahead any more."""
        self._series.close()

    def find_run(self, run_id: str) -> Run:
        """The run's row.

        Raises:
            RunNotFound: there is none of this id.
        """
        with self._database.read_session() as session:
            return _find(session, run_id)[0]

    def projects(self, caller: Identity) -> views.ProjectList:
        """All projects that the caller can see, by name."""
        with self._database.read_session() as session:
            found = runs.projects(session)
        projects = []
        for project_id, name, num_runs in found:
            role = caller.role_in(project_id)
            assert role is not None, "nobody sees a project without a role in it"
            values = {"id": project_id, "name": name, "num_runs": num_runs, "role": role.name}
            projects.append(views.ProjectView.model_validate(values))
        return views.ProjectList(projects=projects)

    def runs(self, project: str | None, limit: int) -> views.RunList:
        """Runs, newest first."""
        with self._database.read_session() as session:
            return views.RunList(runs=_summaries(session, runs.listed(session, project, limit)))

    def run(self, run_id: str) -> views.RunDetail:
        """All that a run's page needs before its series."""
        with self._database.read_session() as session:
            run, project = _find(session, run_id)
            (summary,) = _summaries(session, [(run, project)])
            names = metrics.names(session, run.id)
            counts = jobs.counts(session, run.id)
            num_deferred = jobs.num_deferred(session, run.id)
            result = batches.newest_result(session, run.id)
            evaluation = evaluations.newest(session, run.id, FIRST_TURN_SCOPE)
            samplings = evaluations.samplings(session, run.id, names)
            lineages = attempts.of_run(session, run.id)
            last = lineages.attempts[-1] if lineages.attempts else None
            unscored = None if last is None else why_unscored(session, run.id, last.pk)
        output = (evaluation.fold_output if evaluation else None) or {}
        absent = dict(result.absent) if result else {}
        if evaluation and result and evaluation.batch_pk == result.batch_pk:
            absent |= evaluation.result.get("absent", {})
        return views.RunDetail.model_validate(
            {
                **summary.model_dump(),
                "scopes": list(names),
                "metrics": names,
                "jobs": {status: counts.get(status, 0) for status in get_args(views.JobStatus)},
                "num_deferred": num_deferred,
                "baseline": output.get("baseline"),
                "samplings": samplings,
                "why_unscored": unscored,
                **_of_whole_batch(result),
                "absent": absent,
                "attempts": [_attempt(lineages, attempt) for attempt in lineages.attempts],
            }
        )

    def series(
        self,
        run_id: str,
        scope: str,
        names: Sequence[str],
        max_points: int,
        *,
        stretch: Stretch = ALL,
        attempt_id: str | None = None,
    ) -> views.SeriesView:
        """Series of the run or of an attempt: the named metrics, or all, cut down to `max_points` each."""
        with self._database.read_session() as session:
            run, attempt_pk = _find_attempt(session, run_id, attempt_id)
        return self._series.series(
            run.id, scope, names, stretch=stretch, max_points=max_points, attempt_pk=attempt_pk
        )

    def trajectory(
        self,
        run_id: str,
        scope: str,
        max_points: int,
        *,
        stretch: Stretch = ALL,
        attempt_id: str | None = None,
    ) -> views.TrajectoryView:
        """The way of the run, or of an attempt, through the quadrant, with the regions as they are now."""
        with self._database.read_session() as session:
            run, attempt_pk = _find_attempt(session, run_id, attempt_id)
        return self._series.trajectory(
            run.id, scope, stretch=stretch, max_points=max_points, attempt_pk=attempt_pk
        )

    def alerts(self, run_id: str) -> views.AlertList:
        """The run's alerts, newest first."""
        with self._database.read_session() as session:
            run, _ = _find(session, run_id)
            rows = alerts.of_run(session, run.id, _MAX_ROWS)
        return views.AlertList(alerts=[alert_view(row, attempt_id) for row, attempt_id in rows])

    def step(self, run_id: str, step: int, scope: str, attempt_id: str | None = None) -> views.StepView:
        """One step in one scope, as it is in the run's own series or as one attempt had it.

        Raises:
            StepNotFound: the step was not scored in this scope.
        """
        with self._database.read_session() as session:
            run, attempt_pk = _find_attempt(session, run_id, attempt_id)
            row = evaluations.of_step(session, run.id, scope, step, attempt_pk)
            if row is None:
                message = f"step {step} was not scored in the scope {scope!r}"
                raise StepNotFound(message, [wrong("step", "no evaluation", step)])
            result, batch = batches.result_of(session, row.batch_pk)
            lineages = attempts.of_run(session, run.id)
        attempt = next(one for one in lineages.attempts if one.pk == row.attempt_pk)
        return views.StepView.model_validate(
            {
                "step": step,
                "attempt_id": attempt.attempt_id,
                "policy_version": batch.policy_version,
                "evaluation": ScopeEvaluation.model_validate(row.result),
                "scorer": row.scorer,
                **_of_whole_batch(result),
            }
        )

    def jobs(self, run_id: str, status: str | None) -> views.JobList:
        """The run's jobs, newest first."""
        with self._database.read_session() as session:
            run, _ = _find(session, run_id)
            rows = jobs.of_run(session, run.id, status, _MAX_ROWS)
        return views.JobList(jobs=[_job(job, batch) for job, batch in rows])

    def events_after(self, event_id: int, run_id: str | None, limit: int) -> list[StoredEvent]:
        """Events newer than `event_id`, oldest first."""
        with self._database.read_session() as session:
            return events.after(session, event_id, run_id, limit)

    def kept_event_ids(self) -> tuple[int, int]:
        """Ids of the oldest and the newest event that are kept; (1, 0) when there never was one."""
        with self._database.read_session() as session:
            return events.kept_ids(session)


def _of_whole_batch(result: BatchResult | None) -> dict[str, Any]:
    """What both a run and a step tell of a batch apart from its scopes."""
    if result is None:
        return {"groups": [], "filters": [], "buckets": {}, "template_evidence": None}
    return {
        "groups": result.groups,
        "filters": result.filters,
        "buckets": result.buckets,
        "template_evidence": result.template_evidence,
    }


def _find(session: Session, run_id: str) -> tuple[Run, str]:
    found = runs.find(session, run_id)
    if found is None:
        raise RunNotFound(run_id)
    return found


def _find_attempt(session: Session, run_id: str, attempt_id: str | None) -> tuple[Run, int | None]:
    """The run, and the row id of the attempt when one is named."""
    run, _ = _find(session, run_id)
    if attempt_id is None:
        return run, None
    attempt = attempts.of_run(session, run.id).named(attempt_id)
    if attempt is None:
        raise AttemptNotFound(attempt_id)
    return run, attempt.pk


def _attempt(lineages: Lineages, attempt: Attempt) -> views.AttemptView:
    return views.AttemptView(
        attempt_id=attempt.attempt_id,
        started_at=iso(attempt.started_at),
        from_step=attempt.from_step,
        first_step=attempt.first_step,
        last_step=attempt.last_step,
        superseded_from=lineages.superseded_from(attempt.pk),
    )


def _summaries(session: Session, found: list[tuple[Run, str]]) -> list[views.RunSummary]:
    run_pks = [run.id for run, _ in found]
    if not run_pks:
        return []
    standings = evaluations.standings(session, run_pks)
    open_alerts = alerts.open_counts(session, run_pks)
    latest = metrics.latest(session, run_pks, _LATEST)
    sparklines = run_list.sparklines(session, run_pks, FIRST_TURN_SCOPE, "retrieval_skill", _SPARKLINE_POINTS)
    backlogs = watch.backlogs(session, run_pks, clock.read(session))
    return [
        views.RunSummary(
            run_id=run.run_id,
            project=project,
            name=run.name,
            state=RunState(run.state),
            config=run.config,
            tags=run.tags,
            notes=run.notes,
            archived=run.archived_at is not None,
            created_at=iso(run.created_at),
            updated_at=iso(run.updated_at),
            last_seen_at=None if run.last_seen_at is None else iso(run.last_seen_at),
            last_step=run.last_step,
            scorer=_scorer(standings.get(run.id)),
            regime=_regime(standings.get(run.id)),
            open_alerts=views.OpenAlerts(**open_alerts[run.id]),
            latest=latest[run.id],
            sparkline=views.Sparkline(
                steps=[step for step, _ in sparklines[run.id]],
                values=[value for _, value in sparklines[run.id]],
            ),
            **backlogs.get(run.id, Backlog())._asdict(),
        )
        for run, project in found
    ]


def _scorer(standing: evaluations.Standing | None) -> ScorerLabel | None:
    return None if standing is None else ScorerLabel.model_validate(standing.scorer)


def _regime(standing: evaluations.Standing | None) -> views.RegimeView | None:
    if standing is None or standing.regime is None:
        return None
    return views.RegimeView(
        scope=standing.scope, regime=standing.regime, reason=standing.reason or "", step=standing.step
    )


def alert_view(row: AlertRow, attempt_id: str | None) -> views.AlertView:
    """The alert as the API answers it."""
    return views.AlertView.model_validate(
        {
            "alert_id": row.id,
            "rule": row.rule,
            "scope": row.scope,
            "severity": row.severity,
            "status": row.status,
            "opened_step": row.opened_step,
            "resolved_step": row.resolved_step,
            "attempt_id": attempt_id,
            "superseded": row.superseded,
            "opened_at": iso(row.opened_at),
            "resolved_at": None if row.resolved_at is None else iso(row.resolved_at),
            "title": row.title,
            "message": row.message,
            "evidence": row.evidence,
        }
    )


def _job(job: JobRow, batch: Batch) -> views.JobView:
    return views.JobView.model_validate(
        {
            "job_id": job.id,
            "batch_id": batch.batch_id,
            "step": batch.step,
            "status": job.status,
            "starts": job.starts,
            "error": job.error,
            "traceback": job.traceback or None,
            "finished_at": None if job.finished_at is None else iso(job.finished_at),
        }
    )
