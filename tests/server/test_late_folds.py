"""Late results: stored at once, folded together a little later, a few evaluations at a time."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update

from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch.contracts.runs import RunStart
from collapsewatch.contracts.scoring import ScoringResult
from collapsewatch_server.alert_tables import AlertRow
from collapsewatch_server.auth import Caller, Purpose
from collapsewatch_server.repositories import attempts, late_folds, metrics
from collapsewatch_server.results.folding import fold_some
from collapsewatch_server.results.late import LateFolds
from collapsewatch_server.results.writer import Results
from collapsewatch_server.services import Services, build_services
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.tables import EvaluationRow, JobRow
from tests.server.live import batch_body, result_body

CALLER = Caller(1, Purpose.ingest, None)
MOST_AT_ONCE = 5
STEPS = range(1, 39)
COLLAPSE_AT = 20


@pytest.fixture
def services(deployment: Any) -> Iterator[Services]:
    made = build_services(ServerSettings(**deployment.settings()))
    results = Results(made.database, lambda: None, most_folded_at_once=MOST_AT_ONCE)
    made = replace(made, results=results)
    made.prepare()
    made.runs.start_run(CALLER, RunStart(run_id="r", project="p", name="n"))
    yield made
    made.close()


def send(services: Services, step: int, **changes: Any) -> int:
    """Id of the new batch's job."""
    run, project = services.runs.open_run(CALLER, "r")
    services.batches.add(run, project, RolloutBatch.model_validate(batch_body(step, **changes)))
    with services.database.read_session() as session:
        return session.scalars(select(JobRow.id).order_by(JobRow.id.desc())).first() or 0


def score(services: Services, step: int, **changes: Any) -> None:
    result = result_body(0.6 if step < COLLAPSE_AT else 0.01)
    assert services.results.accept(send(services, step, **changes), ScoringResult.model_validate(result))


def outputs(services: Services) -> dict[int, Any]:
    with services.database.read_session() as session:
        statement = select(EvaluationRow.step, EvaluationRow.fold_output)
        rows: list[Any] = list(session.execute(statement.where(EvaluationRow.current)))
        return dict(rows)


def alerts(services: Services) -> list[tuple[str, int | None, int | None]]:
    with services.database.read_session() as session:
        rows = session.scalars(select(AlertRow).order_by(AlertRow.id))
        return [(row.rule, row.opened_step, row.resolved_step) for row in rows]


def pieces(services: Services, chunk: int) -> Iterator[None]:
    """Folds what was put off, piece by piece."""
    late = LateFolds(services.database, lambda: None, chunk=chunk)
    with services.database.read_session() as session:
        (behind,) = late_folds.behind(session)
    while late._fold_piece(behind.run_pk, behind.scope):
        yield


def test_a_late_result_is_stored_at_once_and_folded_in_a_pass_of_its_own(services: Services) -> None:
    for step in STEPS:
        score(services, step)
    before, alerts_before = outputs(services), alerts(services)
    assert alerts_before
    score(services, 0)
    # The hand-in, which holds the one write lock, has folded none of those that came after it.
    assert outputs(services) == {**before, 0: None}
    run, _ = services.runs.open_run(CALLER, "r")
    with services.database.read_session() as session:
        found = metrics.series(session, run.id, "first_turn", ["retrieval_skill"], 0)
    assert [point.step for point in found["retrieval_skill"]] == [0, *STEPS]
    num_pieces = 0
    for _ in pieces(services, 10):
        num_pieces += 1
        # What the rules said is partly new by now: nothing is told of it, and nothing told is taken back.
        assert alerts(services) == alerts_before
    assert num_pieces == (len(STEPS) + 1) // 10
    after = outputs(services)
    assert after[0] is not None
    assert after[STEPS[-1]]["baseline"] != before[STEPS[-1]]["baseline"]


def test_the_newest_result_is_folded_at_once_while_a_late_one_waits(services: Services) -> None:
    for step in STEPS:
        score(services, step)
    score(services, 0)
    newest = STEPS[-1] + 1
    score(services, newest)
    assert outputs(services)[newest] is not None
    assert outputs(services)[0] is None


def test_a_backlog_is_folded_once_when_nothing_of_the_run_waits_any_more(services: Services) -> None:
    for step in STEPS:
        score(services, step + 10)
    jobs = [send(services, step) for step in range(3)]
    for job_id in jobs[:2]:
        assert services.results.accept(job_id, ScoringResult.model_validate(result_body()))
    services.results.late.look()
    assert [outputs(services)[step] for step in range(2)] == [None, None]
    assert services.results.accept(jobs[2], ScoringResult.model_validate(result_body()))
    while behind(services):
        services.results.late.look()
    assert None not in outputs(services).values()


def test_a_late_result_does_not_wait_for_ever_for_a_run_that_goes_on(services: Services) -> None:
    for step in STEPS:
        score(services, step)
    score(services, 0)
    send(services, STEPS[-1] + 1)
    patient = LateFolds(services.database, lambda: None, patience_seconds=3600)
    patient.look()
    assert behind(services)
    hasty = LateFolds(services.database, lambda: None, patience_seconds=0)
    while behind(services):
        hasty.look()
    assert None not in outputs(services).values()


def test_alerts_stay_when_a_step_of_long_ago_comes_again(services: Services) -> None:
    for step in STEPS:
        score(services, step)
    before = alerts(services)
    opened = before[0][1]
    assert opened is not None
    score(services, opened, batch_id="again", logged_at=1e12)
    score(services, STEPS[-1] + 1)
    assert alerts(services) == before
    for _ in pieces(services, 10):
        assert alerts(services) == before
    assert alerts(services) == before


def test_states_of_another_version_are_folded_anew_once(services: Services) -> None:
    for step in STEPS:
        score(services, step)
    expected, told = outputs(services), alerts(services)
    with services.database.write_session() as session:
        session.execute(update(EvaluationRow).values(fold_state={"version": "of another time"}))
    newest = STEPS[-1] + 1
    score(services, newest)
    assert outputs(services)[newest] is None
    for _ in pieces(services, 10):
        # What comes meanwhile does not begin it anew.
        newest += 1
        score(services, newest)
    found = outputs(services)
    assert None not in found.values()
    assert {step: found[step] for step in expected} == expected
    assert alerts(services) == told


def behind(services: Services) -> bool:
    with services.database.read_session() as session:
        return bool(late_folds.behind(session))


def test_one_that_cannot_be_folded_keeps_no_other_waiting(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.runs.start_run(CALLER, RunStart(run_id="s", project="p", name="n"))
    with services.database.write_session() as session:
        for run_pk in (1, 2):
            (attempt,) = attempts.of_run(session, run_pk).attempts
            late_folds.note(session, run_pk, "first_turn", {attempt.pk: 0})

    def fold_but_the_first(session: Any, target: Any, *arguments: Any) -> Any:
        if target.run_pk == 1:
            raise ValueError("a result that this version cannot read")
        return fold_some(session, target, *arguments)

    monkeypatch.setattr("collapsewatch_server.results.late.fold_some", fold_but_the_first)
    late = LateFolds(services.database, lambda: None)
    for _ in range(2):
        with pytest.raises(ValueError, match="cannot read"):
            late.look()
    assert waiting(services) == [1]
    monkeypatch.undo()
    late.look()
    assert waiting(services) == []


def waiting(services: Services) -> list[int]:
    with services.database.read_session() as session:
        return [one.run_pk for one in late_folds.behind(session)]
