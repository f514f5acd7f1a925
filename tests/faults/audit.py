"""What the database says about a run, held against what its trainer's ledger says was sent."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sqlalchemy import select
from sqlalchemy.orm import Session

from collapsewatch_server.db import Database
from collapsewatch_server.tables import (
    AlertRow,
    Attempt,
    Batch,
    BatchResult,
    EvaluationRow,
    JobRow,
    MetricPoint,
    Run,
)

Derived = dict[tuple[Any, ...], Any]
"""Everything that was computed for a run, by a name that does not depend on ids and times."""

_MAX_SHOWN = 4
_ENDED = ("done", "dead", "thinned")


@dataclass
class Account:
    """Batches of one or more runs."""

    num_sent: int = 0
    """Steps whose `log_rollouts` had returned."""
    num_accepted: int = 0
    num_scored: int = 0
    num_dead: int = 0
    num_lost: int = 0
    """Sent and not accepted."""
    num_duplicated: int = 0
    """More than one batch or more than one set of results for one step of one attempt."""
    problems: list[str] = field(default_factory=list)

    def add(self, other: Self) -> None:
        self.num_sent += other.num_sent
        self.num_accepted += other.num_accepted
        self.num_scored += other.num_scored
        self.num_dead += other.num_dead
        self.num_lost += other.num_lost
        self.num_duplicated += other.num_duplicated
        self.problems += other.problems

    @property
    def is_clean(self) -> bool:
        return not (self.num_lost or self.num_duplicated or self.problems)

    def __str__(self) -> str:
        return (
            f"sent {self.num_sent}, accepted {self.num_accepted}, scored {self.num_scored}, "
            f"dead-lettered {self.num_dead}, lost {self.num_lost}, duplicated {self.num_duplicated}"
        )


class Audit:
    """Reads one deployment's database, past the server."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def num_jobs(self, run_id: str | None = None) -> Counter[str]:
        """Jobs by status, of one run or of all."""
        statement = select(JobRow.status)
        if run_id is not None:
            statement = statement.join(Run, Run.id == JobRow.run_pk).where(Run.run_id == run_id)
        with self._database.read_session() as session:
            return Counter(session.scalars(statement))

    def leased_pid(self) -> set[int]:
        """Process ids of the workers that hold a job; a worker's name ends in its process id and a word."""
        statement = select(JobRow.owner).where(JobRow.status == "leased")
        with self._database.read_session() as session:
            owners = [owner for owner in session.scalars(statement) if owner]
        return {int(owner.split("-")[-2]) for owner in owners}

    def batch(self, run_id: str, step: int) -> tuple[Batch, JobRow] | None:
        """A batch and its job."""
        with self._database.read_session() as session:
            run_pk = session.scalar(select(Run.id).where(Run.run_id == run_id))
            return next(
                ((batch, job) for batch, job in _batches(session, run_pk) if batch.step == step and job), None
            )

    def is_settled(self, run_id: str, steps: Iterable[int]) -> bool:
        """Whether every one of these steps was accepted, and all accepted ones are scored or dead."""
        with self._database.read_session() as session:
            run_pk = session.scalar(select(Run.id).where(Run.run_id == run_id))
            found = _batches(session, run_pk)
        accepted = {batch.step for batch, _ in found}
        return accepted >= set(steps) and all(job and job.status in _ENDED for _, job in found)

    def account(self, run_id: str, sent: Iterable[int]) -> Account:
        """What became of the steps that were sent."""
        sent_steps = set(sent)
        with self._database.read_session() as session:
            run_pk = session.scalar(select(Run.id).where(Run.run_id == run_id))
            found = _batches(session, run_pk)
            evaluations = _evaluations_per_step(session, run_pk)
        status_of: dict[int, str] = {}
        for batch, job in found:
            status_of[batch.step] = "none" if job is None else job.status
        per_step = Counter((batch.attempt_pk, batch.step) for batch, _ in found)
        statuses = Counter(status_of.values())
        account = Account(
            num_sent=len(sent_steps | set(status_of)),
            num_accepted=len(status_of),
            num_scored=statuses["done"],
            num_dead=statuses["dead"],
            num_lost=len(sent_steps - set(status_of)),
            num_duplicated=sum(count - 1 for count in per_step.values())
            + sum(count - 1 for count in evaluations.values()),
        )
        if sent_steps - set(status_of):
            account.problems.append(f"{run_id}: lost steps {sorted(sent_steps - set(status_of))}")
        open_steps = sorted(step for step, status in status_of.items() if status not in _ENDED)
        if open_steps:
            account.problems.append(f"{run_id}: neither scored nor dead: steps {open_steps}")
        for batch, job in found:
            if job is not None and job.status == "dead" and not job.error:
                account.problems.append(f"{run_id}: dead without a reason: step {batch.step}")
        return account

    def derived(self, run_id: str) -> Derived:
        """The run's own metrics, regimes and alerts: what a later attempt superseded is left out."""
        with self._database.read_session() as session:
            run_pk = session.scalar(select(Run.id).where(Run.run_id == run_id))
            return {
                **_metric_points(session, run_pk),
                **_evaluations(session, run_pk),
                **_results(session, run_pk),
                **_alerts(session, run_pk),
            }

    def state(self, run_id: str) -> str | None:
        with self._database.read_session() as session:
            return session.scalar(select(Run.state).where(Run.run_id == run_id))

    def num_attempts(self, run_id: str) -> int:
        statement = select(Attempt.id).join(Run, Run.id == Attempt.run_pk).where(Run.run_id == run_id)
        with self._database.read_session() as session:
            return len(session.scalars(statement).all())


def differences(expected: Mapping[Any, Any], found: Mapping[Any, Any]) -> list[str]:
    """Where two runs differ, a few of them in words; nothing when they agree."""
    places = [key for key in {**expected, **found} if expected.get(key) != found.get(key)]
    told = [
        f"{'/'.join(map(str, key))}: expected {_brief(expected.get(key))}, found {_brief(found.get(key))}"
        for key in sorted(places, key=str)[:_MAX_SHOWN]
    ]
    rest = len(places) - len(told)
    return [*told, f"and {rest} more differences"] if rest else told


def num_alerts(derived: Mapping[tuple[Any, ...], Any]) -> int:
    return sum(key[0] == "alert" for key in derived)


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:160]}…"


def _batches(session: Session, run_pk: int | None) -> list[tuple[Batch, JobRow | None]]:
    batches = session.scalars(select(Batch).where(Batch.run_pk == run_pk).order_by(Batch.id)).all()
    jobs = session.scalars(select(JobRow).where(JobRow.run_pk == run_pk)).all()
    by_id, by_batch = {job.id: job for job in jobs}, {job.batch_pk: job for job in jobs}
    return [(batch, by_id.get(batch.job_pk) if batch.job_pk else by_batch.get(batch.id)) for batch in batches]


def _evaluations_per_step(session: Session, run_pk: int | None) -> Counter[tuple[Any, ...]]:
    """Sets of results that claim to stand for a step, by attempt, scope and step."""
    statement = select(EvaluationRow).where(EvaluationRow.run_pk == run_pk, EvaluationRow.current)
    return Counter((row.attempt_pk, row.scope, row.step) for row in session.scalars(statement))


def _metric_points(session: Session, run_pk: int | None) -> Derived:
    statement = select(MetricPoint).where(MetricPoint.run_pk == run_pk, ~MetricPoint.superseded)
    return {
        ("metric", row.scope, row.metric, row.step): (row.value, row.low, row.high)
        for row in session.scalars(statement)
    }


def _evaluations(session: Session, run_pk: int | None) -> Derived:
    statement = select(EvaluationRow).where(
        EvaluationRow.run_pk == run_pk, EvaluationRow.current, ~EvaluationRow.superseded
    )
    return {
        ("evaluation", row.scope, row.step): (row.regime, row.reason, row.scorer, row.result, row.fold_output)
        for row in session.scalars(statement)
    }


def _results(session: Session, run_pk: int | None) -> Derived:
    statement = select(BatchResult).where(
        BatchResult.run_pk == run_pk, BatchResult.current, ~BatchResult.superseded
    )
    names = ("metrics", "absent", "groups", "filters", "buckets", "template_evidence")
    return {
        ("result", name, row.step): getattr(row, name) for row in session.scalars(statement) for name in names
    }


def _alerts(session: Session, run_pk: int | None) -> Derived:
    """Alerts about the training. Those of the watch have no step, and tell of the fault itself."""
    statement = select(AlertRow).where(
        AlertRow.run_pk == run_pk, AlertRow.opened_step.is_not(None), ~AlertRow.superseded
    )
    found: Derived = {}
    for row in session.scalars(statement.order_by(AlertRow.opened_step, AlertRow.severity)):
        key = ("alert", row.rule, row.scope, row.severity, row.opened_step)
        facts = (row.status, row.resolved_step, row.title, row.message, row.evidence)
        found[(*key, sum(other[:5] == key for other in found))] = facts
    return found
