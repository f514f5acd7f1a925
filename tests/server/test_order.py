"""Whatever the order in which things arrive and are scored, the database ends with the same content."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from collapsewatch.contracts.rollouts import RolloutBatch, ScalarBatch
from collapsewatch.contracts.runs import RunStart
from collapsewatch.contracts.scoring import ScoringResult
from collapsewatch_server.alert_tables import AlertRow
from collapsewatch_server.alerts.custom import OWN_PREFIX, RuleText
from collapsewatch_server.auth import Caller, Purpose
from collapsewatch_server.repositories import late_folds
from collapsewatch_server.results.late import LateFolds
from collapsewatch_server.results.writer import Results
from collapsewatch_server.services import Services, build_services
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.tables import Attempt, Base, Batch, BatchResult, EvaluationRow, JobRow, MetricPoint
from tests.server.live import batch_body, result_body

CALLER = Caller(1, Purpose.ingest, None)
NOT_COMPARED = {
    "id",
    "run_pk",
    "attempt_pk",
    "batch_pk",
    "thread_pk",
    "opened_at",
    "resolved_at",
    "created_at",
}

OWN_RULES = [
    {"name": "x", "metric": "x", "scope": "trainer", "operator": "<", "threshold": 0.3},
    {"name": "x twice", "metric": "x", "scope": "trainer", "operator": "drop", "threshold": 0.5}
    | {"for_evaluations": 2},
    {"name": "skill", "metric": "retrieval_skill", "operator": "drop", "threshold": 0.4},
    {"name": "reward", "metric": "reward", "scope": "batch", "operator": "drop", "threshold": 0.2},
]


@dataclass(frozen=True)
class Sent:
    """One thing that arrives; what it names in `needs` has to be there before."""

    name: str
    needs: str
    attempt: str
    step: int = 0
    value: float = 0.0
    logged_at: float = 0.0


def start(attempt: str, started_at: float, from_step: int | None = None, *, rank: int = 0) -> Sent:
    step = -1 if from_step is None else from_step
    return Sent(f"start {attempt}" + (f" {rank}" if rank else ""), "", attempt, step, logged_at=started_at)


def scored(attempt: str, step: int, skill: float, logged_at: float, batch_id: str = "") -> list[Sent]:
    name = batch_id or f"{attempt}-{step}"
    return [
        Sent(f"batch {name}", f"start {attempt}", attempt, step, skill, logged_at),
        Sent(f"result {name}", f"batch {name}", attempt, step, skill),
    ]


def scalar(attempt: str, step: int, value: float, logged_at: float) -> Sent:
    return Sent(f"scalar {attempt} {step} {value}", f"start {attempt}", attempt, step, value, logged_at)


def story() -> list[Sent]:
    """A run that collapses, is killed, goes on from an earlier step, recovers, and is resumed once more."""
    first = [(step, 0.6) for step in range(1, 13)] + [(step, 0.01) for step in range(13, 18)]
    second = [(step, 0.01) for step in range(15, 17)] + [(step, 0.6) for step in range(17, 21)]
    third = [(19, 0.01), (20, 0.02), (21, 0.01), (22, 0.01), (23, 0.01)]
    sent = [start("a1", 100.0), start("a2", 200.0), start("a3", 300.0)]
    for attempt, history in (("a1", first), ("a2", second), ("a3", third)):
        for step, skill in history:
            sent += scored(attempt, step, skill, 1000.0 + step)
            sent.append(scalar(attempt, step, skill, 1000.0 + step))
    # Sent again with other content: the one logged last counts, within its attempt.
    sent += scored("a1", 5, 0.3, 5000.0, "a1-5-again") + scored("a2", 16, 0.9, 1.0, "a2-16-earlier")
    sent += [scalar("a1", 5, 0.25, 5000.0), scalar("a2", 16, 0.75, 1.0), scalar("a2", 18, 0.5, 1018.0)]
    # Of this step the second attempt has nothing but a number; it takes the step over all the same.
    sent.append(scalar("a2", 14, 0.1, 1014.0))
    # Stray things of the beginning, in an attempt of which another process says where it begins.
    sent += [*scored("a3", 3, 0.4, 1.0), scalar("a3", 0, 7.0, 1.0), start("a3", 299.0, 19, rank=1)]
    return sent


STORY = story()


def play(services: Services, run_id: str, events: Sequence[Sent]) -> None:
    """Sends everything, each as soon as what it needs is there."""
    for _ in play_on(services, run_id, events):
        pass


def play_on(services: Services, run_id: str, events: Sequence[Sent]) -> Iterator[None]:
    """The same, one at a time."""
    there, waiting = {""}, list(events)
    while waiting:
        one = next(event for event in waiting if event.needs in there)
        waiting.remove(one)
        there.add(one.name)
        kind, name = one.name.split()[:2]
        if kind == "start":
            declared = None if one.step < 0 else one.step
            services.runs.start_run(CALLER, run_start(run_id, one.attempt, one.logged_at, declared))
            yield
            continue
        run, project = services.runs.open_run(CALLER, run_id)
        if kind == "batch":
            about = {"batch_id": name, "attempt_id": one.attempt, "logged_at": one.logged_at}
            services.batches.add(run, project, RolloutBatch.model_validate(batch_body(one.step, **about)))
        elif kind == "result":
            body = result_body(one.value, batch_metrics={"reward": {"value": one.value}})
            assert services.results.accept(job_of(services, run.id, name), ScoringResult.model_validate(body))
        else:
            point = {"step": one.step, "values": {"x": one.value}, "logged_at": one.logged_at}
            body = {"attempt_id": one.attempt, "points": [point]}
            services.scalars.add(run, project, ScalarBatch.model_validate(body))
        yield


def run_start(run_id: str, attempt: str, started_at: float, from_step: int | None) -> RunStart:
    about = {"attempt_id": attempt, "started_at": started_at, "from_step": from_step}
    return RunStart.model_validate({"run_id": run_id, "project": "p", "name": "n", "attempt": about})


def job_of(services: Services, run_pk: int, batch_id: str) -> int:
    with services.database.read_session() as session:
        statement = select(JobRow.id).join(Batch, Batch.id == JobRow.batch_pk)
        statement = statement.where(Batch.run_pk == run_pk, Batch.batch_id == batch_id)
        return session.execute(statement).scalar_one()


def content(services: Services, run_id: str) -> dict[str, Any]:
    """All that is stored of the run, with ids of clients in place of row ids, and without times."""
    found: dict[str, Any] = {}
    run, _ = services.runs.open_run(CALLER, run_id)
    with services.database.read_session() as session:
        attempts = {row.id: row.attempt_id for row in session.scalars(select(Attempt))}
        batches = {row.id: row.batch_id for row in session.scalars(select(Batch))}
        tables: list[type[Base]] = [Attempt, MetricPoint, EvaluationRow, BatchResult, AlertRow]
        for table in tables:
            names = [column.key for column in table.__table__.columns]
            rows = []
            for row in session.scalars(select(table).where(table.__table__.c.run_pk == run.id)):
                values = {name: getattr(row, name) for name in names if name not in NOT_COMPARED}
                values["attempt"] = attempts.get(getattr(row, "attempt_pk", None) or 0)
                values["batch"] = batches.get(getattr(row, "batch_pk", None) or 0)
                if not _depends_on_the_order(values):
                    rows.append(values)
            found[table.__tablename__] = sorted(rows, key=lambda values: repr(sorted(values.items())))
    return {**found, "last_step": run.last_step, "state": run.state}


def _depends_on_the_order(values: dict[str, Any]) -> bool:
    """Whether it is history that a run in another order has not been through.

    What was taken back as steps came late is not there in a run that came in order. And rules of one's own
    judge the run's own series: what came when its step was superseded already was never judged.
    """
    is_own = str(values.get("rule", "")).startswith(OWN_PREFIX)
    return bool(values.get("withdrawn") or (is_own and values["superseded"]))


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    yield from _services(home=tmp_path, embedded_worker=False)


@pytest.fixture
def deployed(deployment: Any) -> Iterator[Services]:
    yield from _services(**deployment.settings())


def _services(**given: Any) -> Iterator[Services]:
    made = build_services(ServerSettings(**given))
    made.prepare()
    for rule in OWN_RULES:
        made.rules.create(RuleText.model_validate(rule))
    yield made
    made.close()


def in_order(services: Services) -> dict[str, Any]:
    """The content after everything came in order; made once a server."""
    try:
        services.runs.open_run(CALLER, "in-order")
    except Exception:  # noqa: BLE001 (there is none yet)
        play(services, "in-order", STORY)
        assert not are_behind(services)
    return content(services, "in-order")


def are_behind(services: Services) -> bool:
    """Whether any fold was put off."""
    with services.database.read_session() as session:
        return bool(late_folds.behind(session))


def settle(services: Services) -> None:
    """Folds what was put off."""
    while are_behind(services):
        services.results.late.look()


def test_the_story_has_what_it_is_told_for(services: Services) -> None:
    expected = in_order(services)
    assert {alert["superseded"] for alert in expected["alerts"]} == {False, True}
    assert {alert["status"] for alert in expected["alerts"]} == {"open", "resolved"}
    assert {alert["attempt"] for alert in expected["alerts"]} == {"a1", "a2", "a3"}
    own = {alert["title"] for alert in expected["alerts"] if alert["rule"].startswith(OWN_PREFIX)}
    assert own == {rule["name"] for rule in OWN_RULES}
    assert "mi_zscore_ema" in {point["metric"] for point in expected["metric_points"]}
    assert any(not row["current"] for row in expected["evaluations"])
    assert {row["attempt"] for row in expected["evaluations"] if row["superseded"]} == {"a1", "a2", "a3"}
    assert [row["first_step"] for row in expected["attempts"]] == [1, 14, 19]
    assert expected["last_step"] == 23


@settings(
    max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)
@given(seed=st.integers(0, 2**32), how_late=st.sampled_from([3, 1000]))
def test_every_order_of_arrival_and_of_scoring_ends_in_the_same_content(
    services: Services, seed: int, how_late: int
) -> None:
    expected = in_order(services)
    # Some orders are nearly right, as those of several ranks; others are not right at all.
    spread = random.Random(seed)
    places = {event: place + spread.random() * how_late for place, event in enumerate(STORY)}
    run_id = f"run-{seed}-{how_late}"
    play(services, run_id, sorted(STORY, key=lambda event: places[event]))
    assert content(services, run_id) == expected


@settings(
    max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
)
@given(seed=st.integers(0, 2**32), how_late=st.sampled_from([6, 1000]), at_once=st.sampled_from([0, 3]))
def test_folds_that_were_put_off_end_in_the_same_content(
    services: Services, seed: int, how_late: int, at_once: int
) -> None:
    expected = in_order(services)
    chance = random.Random(seed)
    places = {event: place + chance.random() * how_late for place, event in enumerate(STORY)}
    results = Results(services.database, lambda: None, most_folded_at_once=at_once)
    results.late = LateFolds(services.database, lambda: None, chunk=2, patience_seconds=0)
    run_id = f"late-{seed}-{how_late}-{at_once}"
    put_off = 0
    for _ in play_on(replace(services, results=results), run_id, sorted(STORY, key=places.__getitem__)):
        put_off += are_behind(services)
        # Single pieces, so that much arrives in the middle of a pass.
        if put_off and chance.random() < 0.3:
            run, _ = services.runs.open_run(CALLER, run_id)
            with services.database.read_session() as session:
                behind = [one for one in late_folds.behind(session) if one.run_pk == run.id]
            for one in behind:
                results.late._fold_piece(one.run_pk, one.scope)
    settle(replace(services, results=results))
    assert put_off
    assert content(services, run_id) == expected


def test_an_order_that_is_not_right_at_all_ends_the_same_in_both_deployments(deployed: Services) -> None:
    shuffled = list(STORY)
    random.Random(7).shuffle(shuffled)
    play(deployed, "shuffled", shuffled)
    assert content(deployed, "shuffled") == in_order(deployed)


def test_what_comes_twice_changes_nothing(services: Services) -> None:
    expected = in_order(services)
    again = [event for event in STORY if not event.name.startswith("result")]
    play(services, "in-order", again)
    assert content(services, "in-order") == expected
