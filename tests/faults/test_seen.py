"""What the fault suite notes of clients, logs and spools: without a service."""

import http.server
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from collapsewatch.spool import RecordKind, Spool, SpoolMeta
from tests.faults import seen, spool_fuzz
from tests.faults.__main__ import verdict
from tests.faults.account import Account
from tests.faults.proxy import Exchange, Network, Proxy
from tests.faults.stack import TrainerProcess
from tests.faults.suite import Outcome
from tests.faults.trainer import Ledger
from tests.faults.workload import Workload, salt_of, salts_from, told

_LINES = """2026-01-01 ERROR x: job is dead
2026-01-01 INFO x: fine
2026-01-01 INFO x: database is locked
"""


class _Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"path": "%b"}' % self.path.encode()
        self.send_response(503 if self.path.endswith("/away") else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def network() -> Iterator[Proxy]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with Proxy(server.server_address[1]) as proxy:
        yield proxy
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_network_writes_down_what_was_asked_and_answered(network: Proxy) -> None:
    with httpx.Client(base_url=network.url, timeout=60, trust_env=False) as client:
        answer = client.post("/runs/r1/batches", content=b"x" * 300_000)
        assert answer.headers["content-type"] == "application/json"
        assert client.post("/runs/r1/away").status_code == 503
    routes = [(one.route, one.status, one.end) for one in network.exchanges()]
    assert routes == [("POST /runs/…/batches", 202, "answered"), ("POST /runs/…/away", 503, "answered")]
    assert [one.route for one in network.exchanges(1)] == ["POST /runs/…/away"]


def test_a_caught_answer_reaches_nobody(network: Proxy) -> None:
    caught = network.catch_answer("/batches")

    def let_go() -> None:
        caught.wait(60)
        network.let_go()

    threading.Thread(target=let_go, daemon=True).start()
    with (
        httpx.Client(base_url=network.url, timeout=60, trust_env=False) as client,
        pytest.raises(httpx.RequestError),
    ):
        client.post("/batches", content=b"x")
    assert caught.is_set()
    assert [(one.status, one.end) for one in network.exchanges()] == [(202, "lost")]


def test_a_cut_is_counted_only_when_somebody_meets_it(network: Proxy) -> None:
    network.become(Network.reset)
    assert network.num_cut == 0
    with (
        httpx.Client(base_url=network.url, timeout=60, trust_env=False) as client,
        pytest.raises(httpx.RequestError),
    ):
        client.post("/batches", content=b"x")
    assert network.num_cut == 1


def test_answers_that_the_fault_does_not_explain_are_told() -> None:
    exchanges = [
        Exchange("POST", "/runs/r/batches", 0.0, status, 0.1, "answered") for status in (202, 503, 500)
    ]
    assert seen.bad_answers(exchanges[:2], frozenset({503})) == []
    assert len(seen.bad_answers(exchanges[:2], frozenset())) == 1
    assert len(seen.bad_answers(exchanges, frozenset({500, 503}))) == 1
    assert seen.unanswered(exchanges) == []
    assert len(seen.unanswered([Exchange("POST", "/x", 0.0, end="client")])) == 1


def test_only_new_lines_of_a_log_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text("a ERROR x: old\n")
    logs = seen.Logs([path])
    with path.open("a") as file:
        file.write(_LINES)
    new = tmp_path / "worker.log"
    new.write_text("2026-01-01 ERROR x: it failed\nTraceback (most recent call last):\nValueError: odd\n")
    assert logs.wrong([new], "ValueError: odd") == []
    assert logs.wrong([path], "job is dead") == [
        "server.log: 2026-01-01 INFO x: database is locked",
    ]
    assert len(logs.wrong([path, new], "")) == 3


@pytest.mark.parametrize(
    "account",
    [
        Account(num_sent=60, num_accepted=60, num_scored=0, num_dead=59),
        Account(num_sent=60, num_accepted=60, num_scored=10),
        Account(num_sent=60, num_accepted=59, num_scored=59, num_lost=1),
        Account(num_sent=60, num_accepted=60, num_scored=60, num_duplicated=1),
        Account(problems=["something"]),
    ],
)
def test_an_account_without_an_end_for_each_batch_is_not_clean(account: Account) -> None:
    assert not account.is_clean


def test_only_faults_that_were_done_count_as_passed() -> None:
    clean = Account(num_sent=1, num_accepted=1, num_scored=1)
    good = Outcome("embedded", "kill_server", clean, 1.0)
    skipped = replace(good, skipped="no mount")
    missed = replace(good, missed="too late")
    assert (good.is_good, skipped.is_good, missed.is_good) == (True, False, False)
    assert verdict([good], clean, may_skip=False) == 0
    assert verdict([good, skipped], clean, may_skip=False) == 1
    assert verdict([good, skipped], clean, may_skip=True) == 0
    assert verdict([good, missed], clean, may_skip=True) == 1
    assert verdict([good], Account(num_sent=1, num_accepted=1), may_skip=True) == 1


def test_every_attempt_logs_something_else() -> None:
    workload = Workload(1, 20, 0.0)
    assert workload.columns(3) == workload.columns(3, 0)
    assert workload.columns(3)["responses"] != workload.columns(3, 1)["responses"]
    assert workload.scalars(3) != workload.scalars(3, 1)
    salts = [(0, 0), (5, 2)]
    assert salts_from(told(salts)) == salts
    assert [salt_of(salts, step) for step in (0, 4, 5, 19)] == [0, 0, 2, 2]


def test_a_start_owns_what_it_replays_and_what_comes_after(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger")
    trainer = TrainerProcess("r", Workload(1, 20, 0.0), ledger, {}, tmp_path / "log", starts=[0, 8, 5, 9])
    assert trainer.owners() == [(0, 0), (5, 2), (9, 3)]
    ledger.write(call="log_rollouts", attempt="a3", step=9)
    assert trainer.next_step() == 9
    ledger.write(call="log", attempt="a3", step=9)
    # The scalars of step 10 did not return: the next start makes the whole step again.
    ledger.write(call="log_rollouts", attempt="a3", step=10)
    assert trainer.next_step() == 10


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a dead process, with a start, batches and scalars in it."""
    meta = SpoolMeta("http://x", "r", "p", "n", "w", "a", "h", 1, 1.0)
    spool = Spool.create(tmp_path / "spool", meta, max_bytes=2**30, on_drop=lambda *dropped: None)
    spool.append(RecordKind.start, b'{"run_id": "r"}')
    for step in range(30):
        spool.append(RecordKind.batch, b'{"step": %d, "x": "%s"}' % (step, b"y" * 900), logged_at=1.0 + step)
        spool.append(RecordKind.scalars, b'{"step": %d}' % step, logged_at=1.0 + step)
    # Some of it was shipped: the cursor is a file that a wound may hit, too.
    for _ in range(5):
        spool.take(0)
        spool.ack()
    spool.release()
    return spool.folder


def test_whatever_happens_to_a_spool_its_whole_records_come_out(folder: Path, tmp_path: Path) -> None:
    records = spool_fuzz.waiting_in(folder)
    assert len(records) == len(spool_fuzz.whole(folder, records)) == 56
    for number in range(300):
        drawn = random.Random(f"test/{number}")
        problem = spool_fuzz.read_back(folder, drawn, tmp_path / "scratch")
        assert problem is None, f"damaged copy {number}: {problem}"


def test_a_wound_costs_the_records_that_it_hits(folder: Path) -> None:
    records = spool_fuzz.records_in(folder)
    spool_fuzz.damage(folder, random.Random(1))
    assert 0 < len(spool_fuzz.whole(folder, records)) < len(records)
