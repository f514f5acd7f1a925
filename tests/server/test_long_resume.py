"""A resume of a long run: what has to be folded again is not folded within the trainer's request."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import delete, func, select, text

from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch.contracts.runs import RunStart
from collapsewatch.contracts.scoring import ScoringResult
from collapsewatch_server.alert_tables import AlertAction, AlertChange, AlertRow, AlertThread
from collapsewatch_server.attempts import Lineages
from collapsewatch_server.auth import Caller, Purpose
from collapsewatch_server.repositories import attempts
from collapsewatch_server.repositories.metrics import Point, series
from collapsewatch_server.results import ownership
from collapsewatch_server.results.folding import ScopeOfRun, refold
from collapsewatch_server.results.late import fold_or_put_off
from collapsewatch_server.services import Services, build_services
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.tables import EvaluationRow, JobRow, LateFold, MetricPoint
from tests.server.live import batch_body, result_body

CALLER = Caller(1, Purpose.ingest, None)
SCOPE = "first_turn"
COLLAPSE_AT = 24


@pytest.fixture
def services(deployment: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Services]:
    def few_at_once(*arguments: Any, **options: Any) -> Any:
        return fold_or_put_off(*arguments, **{"most_at_once": 5, **options})

    monkeypatch.setattr(ownership, "fold_or_put_off", few_at_once)
    made = build_services(ServerSettings(**deployment.settings()))
    made.prepare()
    yield made
    made.close()


def begin(services: Services, number: int, from_step: int) -> None:
    attempt = {"attempt_id": f"a{number}", "started_at": 100.0 + number, "from_step": from_step}
    body = {"run_id": "r", "project": "p", "name": "n", "attempt": attempt}
    services.runs.start_run(CALLER, RunStart.model_validate(body))


def score(services: Services, number: int, step: int) -> None:
    run, project = services.runs.open_run(CALLER, "r")
    about = {"attempt_id": f"a{number}", "batch_id": f"a{number}-{step}"}
    services.batches.add(run, project, RolloutBatch.model_validate(batch_body(step, **about)))
    with services.database.read_session() as session:
        job_id = session.scalars(select(JobRow.id).order_by(JobRow.id.desc())).first()
    assert job_id is not None
    skill = 0.6 + 0.01 * number if step < COLLAPSE_AT else 0.01
    assert services.results.accept(job_id, ScoringResult.model_validate(result_body(skill)))


def is_behind(services: Services) -> bool:
    with services.database.read_session() as session:
        return bool(session.scalar(select(func.count()).select_from(LateFold)))


def derived(services: Services) -> tuple[list[Any], dict[str, list[Point]], list[Any]]:
    """Folds, series and alerts, without the times at which people saw them."""
    with services.database.read_session() as session:
        columns = (EvaluationRow.attempt_pk, EvaluationRow.step, EvaluationRow.fold_state)
        columns_of_fold = (*columns, EvaluationRow.fold_output, EvaluationRow.alert_moves)
        folds = session.execute(select(*columns_of_fold).order_by(EvaluationRow.id)).all()
        told = select(AlertRow.attempt_pk, AlertRow.rule, AlertRow.opened_step, AlertRow.superseded)
        told = told.where(~AlertRow.withdrawn).order_by(AlertRow.rule, AlertRow.opened_step)
        alerts = session.execute(told).all()
        return [tuple(row) for row in folds], series(session, 1, SCOPE, [], 0), [tuple(row) for row in alerts]


def fold_all(services: Services) -> None:
    """The slow second way: all from the start, in order, at once."""
    with services.database.write_session() as session:
        lineages: Lineages = attempts.of_run(session, 1)
        target = ScopeOfRun(1, "r", "p", SCOPE, lineages)
        for table in (AlertChange, AlertAction, AlertThread, AlertRow):
            session.execute(delete(table))
        refold(session, target, {one.pk: 0 for one in lineages.attempts}, alerts_changed=True)


def test_what_an_earlier_attempt_changes_about_a_long_one_is_folded_piece_by_piece(
    services: Services,
) -> None:
    begin(services, 2, 10)
    for step in range(10, 40):
        score(services, 2, step)
    before, _, alerts_before = derived(services)
    assert alerts_before
    # The spool of the first attempt is shipped after the second has come far.
    begin(services, 1, 0)
    assert is_behind(services)
    assert derived(services)[0] == before
    services.results.late.look()
    assert not is_behind(services)
    for step in range(10):
        score(services, 1, step)
    while is_behind(services):
        services.results.late._fold_piece(1, SCOPE)
    folded = derived(services)
    assert folded[0] != before
    fold_all(services)
    assert derived(services) == folded


def test_a_result_that_comes_while_a_resume_is_folded_is_folded_as_well(services: Services) -> None:
    begin(services, 2, 10)
    for step in range(10, 30):
        score(services, 2, step)
    begin(services, 1, 0)
    score(services, 2, 30)
    score(services, 1, 3)
    assert is_behind(services)
    while is_behind(services):
        services.results.late._fold_piece(1, SCOPE)
    folded = derived(services)
    fold_all(services)
    assert derived(services) == folded


def test_a_long_run_may_be_replayed_however_long_it_takes_to_mark_it(deployment: Any) -> None:
    if deployment.database_url is None:
        pytest.skip("SQLite has no limit on the time of a statement")
    services = build_services(ServerSettings(**deployment.settings()))
    services.prepare()
    begin(services, 1, 0)
    with services.database.write_session() as session:
        session.execute(
            text(
                "INSERT INTO metric_points"
                " (run_pk, scope, metric, step, attempt_pk, value, logged_at, superseded)"
                " SELECT 1, 'trainer', 'm' || m, s, (SELECT min(id) FROM attempts), 0.5, 0, false"
                " FROM generate_series(0, 1999) s, generate_series(0, 59) m"
            )
        )
    services.close()
    # The limit is 15 s, and 120,000 values take one.
    hurried = f"{deployment.database_url}?options=-c%20statement_timeout%3D300"
    services = build_services(ServerSettings(**deployment.settings(database_url=hurried)))
    begin(services, 2, 0)
    services.close()
    services = build_services(ServerSettings(**deployment.settings()))
    with services.database.read_session() as session:
        left = session.scalar(select(func.count()).select_from(MetricPoint).where(~MetricPoint.superseded))
    services.close()
    assert left == 0
