"""What the fault suite's audit finds wrong: each case is a service that went wrong in one way."""

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from collapsewatch.blobs import open_blob_store
from tests.faults.account import Account, Sent
from tests.faults.audit import Audit
from tests.faults.derived import differences
from tests.server.live import LiveServer, result_body

Starter = Callable[..., LiveServer]


class Case:
    """A server without its loops' alerts, a run in it, and the audit of both."""

    def __init__(self, live: LiveServer, attempts: int = 1) -> None:
        self.live = live
        self.audit = Audit(live.services.database, open_blob_store(live.services.settings.effective_blob_url))
        self.run_id = live.start_run(attempt=_attempt(0))
        for number in range(1, attempts):
            start = {"run_id": self.run_id, "project": "p", "name": "n", "attempt": _attempt(number)}
            assert live.ingest("POST", "/runs", json=start).status_code == 200

    def send(self, step: int, attempt: str = "a0", **changes: Any) -> None:
        changes = {"batch_id": f"{attempt}-{step}", "attempt_id": attempt, **changes}
        assert self.live.send_batch(self.run_id, step, **changes).status_code == 202

    def score(self, step: int, attempt: str = "a0", skill: float = 0.6, **changes: Any) -> None:
        self.send(step, attempt, **changes)
        assert self.live.done(self.live.claim()["job_id"], result_body(skill))

    def account(self, *keys: tuple[str, int], **changes: Any) -> Account:
        return self.audit.account(self.run_id, Sent(set(keys), **changes))

    def problems(self, *keys: tuple[str, int], **changes: Any) -> str:
        changes = {"state": "running", **changes}
        return "\n".join(self.audit.problems(self.run_id, Sent(set(keys), **changes)))

    def run_sql(self, statement: str) -> None:
        with self.live.services.database.write_session() as session:
            session.execute(text(statement))


def _attempt(number: int) -> dict[str, Any]:
    return {"attempt_id": f"a{number}", "started_at": 1.0 + number}


@pytest.fixture
def start_case(start_sqlite_server: Starter) -> Callable[..., Case]:
    return lambda attempts=1, **settings: Case(start_sqlite_server(**settings), attempts)


def test_a_run_in_which_all_went_well_is_clean(start_case: Callable[..., Case]) -> None:
    case = start_case()
    case.score(0)
    case.score(1)
    account = case.account(("a0", 0), ("a0", 1))
    assert account.is_clean, account.problems
    assert str(account) == "sent 2, accepted 2, scored 2, dead-lettered 0, lost 0, duplicated 0"
    assert case.problems() == ""


def test_a_batch_that_nobody_scored_is_found(start_case: Callable[..., Case]) -> None:
    case = start_case(max_waiting_batches=1, max_deferred_batches=1)
    for step in range(4):
        case.send(step)
    while (job := case.live.try_claim()) is not None:
        case.live.done(job["job_id"], result_body())
    account = case.account(*(("a0", step) for step in range(4)))
    assert account.num_scored < 4
    assert not account.is_clean
    assert "thinned" in account.problems[0]


def test_a_job_that_is_done_without_a_result_is_not_scored(start_case: Callable[..., Case]) -> None:
    case = start_case()
    case.send(0)
    case.run_sql("UPDATE jobs SET status = 'done'")
    assert not case.account(("a0", 0)).is_clean


def test_a_death_counts_only_where_it_was_meant(start_case: Callable[..., Case]) -> None:
    case = start_case()
    case.send(0)
    job = case.live.claim()
    case.live.worker(f"/jobs/{job['job_id']}/fail", {"worker": "w1", "error": "x", "retry": False})
    assert not case.account(("a0", 0)).is_clean
    account = case.account(("a0", 0), dead=frozenset({0}))
    assert (account.is_clean, account.num_dead) == (True, 1)


def test_a_later_attempt_hides_no_dead_batch(start_case: Callable[..., Case]) -> None:
    case = start_case(attempts=2)
    case.send(0)
    job = case.live.claim()
    case.live.worker(f"/jobs/{job['job_id']}/fail", {"worker": "w1", "error": "x", "retry": False})
    case.score(0, "a1")
    account = case.account(("a0", 0), ("a1", 0))
    assert (account.num_accepted, account.num_scored, account.num_dead) == (2, 1, 1)
    assert not account.is_clean


def test_a_step_that_came_under_another_attempt_is_lost(start_case: Callable[..., Case]) -> None:
    case = start_case(attempts=2)
    case.score(0, "a1")
    assert case.account(("a0", 0), ("a1", 0)).num_lost == 1
    # What the trainer said that it dropped is missing and not lost, but only as often as it said so.
    account = case.account(("a0", 0), ("a1", 0), num_dropped=1)
    assert (account.is_clean, account.num_dropped) == (True, 1)
    assert not case.account(("a1", 0), num_dropped=1).is_clean


def test_one_step_accepted_twice_is_duplicated(start_case: Callable[..., Case]) -> None:
    case = start_case()
    case.score(0)
    case.score(0, batch_id="other")
    assert case.account(("a0", 0)).num_duplicated == 1


def test_rollouts_that_cannot_be_read_any_more_are_found(start_case: Callable[..., Case]) -> None:
    case = start_case()
    case.score(0)
    for path in (case.live.services.settings.home / "blobs").rglob("*.zst"):
        path.unlink()
    assert "cannot be read" in case.account(("a0", 0)).problems[0]


@pytest.mark.parametrize("table", ["batch_results", "evaluations", "metric_points"])
def test_a_wrong_owner_changes_what_is_compared(start_case: Callable[..., Case], table: str) -> None:
    case = start_case(attempts=2)
    case.score(0, skill=0.6)
    case.score(0, "a1", skill=0.4)
    before = case.audit.derived(case.run_id)
    case.run_sql(f"UPDATE {table} SET superseded = NOT superseded")  # noqa: S608
    swapped = case.audit.derived(case.run_id)
    case.run_sql(f"UPDATE {table} SET superseded = 0")  # noqa: S608
    both = case.audit.derived(case.run_id)
    assert table == "batch_results" or differences(before, swapped)
    assert differences(before, both)


def test_a_wrong_state_is_found(start_case: Callable[..., Case]) -> None:
    case = start_case()
    case.score(0)
    case.run_sql("UPDATE runs SET state = 'crashed'")
    assert "the run is crashed, and should be running" in case.problems()
    assert "was last told to be running" in case.problems()


def test_an_attempt_too_many_is_found(start_case: Callable[..., Case]) -> None:
    case = start_case(attempts=2)
    assert "2 attempts" in case.problems()
    assert case.problems(num_attempts=2) == ""


@pytest.mark.parametrize("kind", ["batch", "metrics", "run"])
def test_an_event_that_was_not_told_is_found(start_case: Callable[..., Case], kind: str) -> None:
    case = start_case()
    case.score(0)
    case.run_sql(f"DELETE FROM events WHERE kind = '{kind}'")  # noqa: S608
    assert case.problems()


def test_an_event_that_was_told_twice_is_found(start_case: Callable[..., Case]) -> None:
    case = start_case()
    case.score(0)
    case.run_sql(
        "INSERT INTO events (run_pk, kind, data, created_at) "
        "SELECT run_pk, kind, data, created_at FROM events WHERE kind = 'batch'"
    )
    assert "1 stored, 2 told" in case.problems()


def test_alerts_of_the_watch_have_to_be_explained(start_case: Callable[..., Case]) -> None:
    case = start_case()
    case.score(0)
    case.run_sql(
        "INSERT INTO alerts (run_pk, rule, scope, severity, status, superseded, opened_at, title, message, "
        "evidence) SELECT id, 'run_stalled', 'run', 'warning', 'open', 0, 1.0, 't', 'm', '{}' FROM runs"
    )
    assert "the watch opened run_stalled" in case.problems()
    assert "is still open" in case.problems(opened=frozenset({"run_stalled"}))
    assert "nobody was told of the alert" in case.problems(still_open=frozenset({"run_stalled"}))
    assert "never opened data_dropped" in case.problems(still_open=frozenset({"data_dropped"}))
