"""The commands: `serve` starts and stops with all it started, `keys` makes and withdraws keys."""

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from collapsewatch_server.db import Database
from collapsewatch_server.launch.serving import open_socket
from tests.server.live import batch_body
from tests.server.outbox import add_alert, tell
from tests.server.receivers import Answer, Got, http_receiver


def command(name: str, *arguments: str) -> list[str]:
    program = (
        "import sys; from collapsewatch_server import main; from collapsewatch_server.launch import serving;"
        # What holds the end of a server up holds it for so long: no standstill of the machine does.
        f" serving._GRACE_SECONDS = 30; main.{name}_app(sys.argv[1:])"
    )
    return [sys.executable, "-c", program, *arguments]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COLLAPSEWATCH_")}
    return kept | {"COLLAPSEWATCH_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}


class Serving:
    """A running `serve` and what it has printed."""

    def __init__(self, arguments: list[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command("serve", "--port", "0", *arguments),
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)

    @property
    def output(self) -> str:
        return "".join(self.lines)

    @property
    def url(self) -> str | None:
        match = re.search(r"page +(http://\S+)", self.output)
        return match and match.group(1)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> float:
        """Seconds until it had ended."""
        start = time.monotonic()
        self.process.send_signal(number)
        try:
            self.process.wait(60)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait(30)
            self._reader.join(30)
            assert self.process.stdout is not None
            self.process.stdout.close()
        return time.monotonic() - start


@pytest.fixture
def serve(environment: dict[str, str], wait_until: Any) -> Iterator[Callable[..., Serving]]:
    started: list[Serving] = []

    def start(*arguments: str) -> Serving:
        serving = Serving(list(arguments), environment)
        started.append(serving)
        wait_until(
            lambda: serving.url or serving.process.poll() is not None,
            "it prints its address",
            timeout_seconds=60,
        )
        assert serving.url, serving.output
        return serving

    yield start
    for serving in started:
        if serving.process.poll() is None:
            serving.stop()


def children_of(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_prints_its_address_and_stops_at_once_with_open_streams(
    serve: Callable[..., Serving], number: signal.Signals
) -> None:
    serving = serve("--no-worker")
    with httpx.Client(base_url=str(serving.url), timeout=60, trust_env=False) as client:
        # There is no worker.
        assert client.get("/readyz").json()["status"] == "degraded"
        with client.stream("GET", "/api/v1/stream") as response:
            # Kept: an iterator that nobody holds would close the stream.
            lines = response.iter_lines()
            assert next(lines) == "event: hello"
            serving.stop(number)
    # An open stream that is not told to end holds the shutdown until the server's patience is over.
    assert "timeout graceful shutdown exceeded" not in serving.output
    assert serving.process.returncode == 0
    assert "Traceback" not in serving.output


def test_the_first_start_leaves_a_key_for_this_user_and_the_next_keeps_it(
    serve: Callable[..., Serving], environment: dict[str, str]
) -> None:
    path = Path(environment["COLLAPSEWATCH_HOME"]) / "credentials.json"
    first = serve("--no-worker")
    left = json.loads(path.read_text())
    assert left["url"] == first.url
    assert left["api_key"] in first.output
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    first.stop()

    second = serve("--no-worker")
    again = json.loads(path.read_text())
    assert again == {**left, "url": second.url}
    assert left["api_key"] not in second.output
    assert left["read_key"] not in first.output + second.output
    headers = {"Authorization": f"Bearer {left['api_key']}"}
    body = {"run_id": "r", "project": "p", "name": "n"}
    with httpx.Client(base_url=str(second.url), headers=headers, timeout=60, trust_env=False) as client:
        assert client.post("/api/v1/runs", json=body).status_code == 201
        assert client.post("/api/v1/runs/r/batches", json=batch_body(1)).status_code == 202


@pytest.mark.integration
def test_the_worker_scores_is_restarted_and_ends_with_the_server(
    serve: Callable[..., Serving], wait_until: Any, environment: dict[str, str]
) -> None:
    serving = serve("--worker-device", "cpu")
    key = json.loads((Path(environment["COLLAPSEWATCH_HOME"]) / "credentials.json").read_text())["api_key"]
    headers = {"Authorization": f"Bearer {key}"}
    pid = serving.process.pid
    wait_until(lambda: children_of(pid), "the worker runs")
    (worker,) = children_of(pid)
    with httpx.Client(base_url=str(serving.url), headers=headers, timeout=60, trust_env=False) as client:
        client.post("/api/v1/runs", json={"run_id": "r", "project": "p", "name": "n"})
        os.kill(worker, signal.SIGKILL)
        assert client.post("/api/v1/runs/r/batches", json=batch_body(1)).status_code == 202

        def is_done() -> bool:
            jobs = client.get("/api/v1/runs/r").json()["jobs"]
            return bool(jobs["done"] + jobs["dead"])

        wait_until(is_done, "a new worker took the job", timeout_seconds=90)
    (new_worker,) = children_of(pid)
    assert new_worker != worker
    serving.process.kill()
    wait_until(lambda: not is_alive(new_worker), "the worker ended with the server", timeout_seconds=30)
    serving.stop()


def test_an_answer_in_two_packets_does_not_wait_for_an_acknowledgement() -> None:
    with open_socket("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_what_cannot_work_is_said_in_one_line(environment: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        cases = [
            (["--no-worker", "--port", port], {}, "--port 0 takes a free port"),
            (["--port", "0", "--login", "--insecure"], {}, "not both"),
            (["--port", "70000"], {}, "port"),
            (["--port", "0"], {"COLLAPSEWATCH_DATABASE_URL": "mysql://x"}, "postgresql://"),
            (
                ["--port", "0"],
                {"COLLAPSEWATCH_DATABASE_URL": "postgresql://x@127.0.0.1:1/y"},
                "cannot be opened",
            ),
            (["--port", "0"], {"COLLAPSEWATCH_BLOB_URL": "ftp://x"}, "blob URLs"),
            (["--port", "0"], {"COLLAPSEWATCH_WORKER_KEY": "secret"}, "cw_worker_"),
        ]
        for arguments, changes, told in cases:
            done = subprocess.run(
                command("serve", *arguments),
                env=environment | changes,
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            assert done.returncode == 1, done.stderr
            assert told in done.stderr
            assert "Traceback" not in done.stderr
            assert "secret" not in done.stderr


def test_keys_are_made_listed_and_revoked(environment: dict[str, str], serve: Callable[..., Serving]) -> None:
    def keys(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command("keys", *arguments),
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    made = keys("create", "--project", "p", "--label", "node 7").stdout.strip()
    assert re.fullmatch(r"cw_ingest_[A-Za-z0-9_-]{43}", made)
    worker = keys("create", "--purpose", "worker").stdout.strip()
    assert re.fullmatch(r"cw_worker_[A-Za-z0-9_-]{43}", worker)
    listed = keys("list").stdout
    assert made not in listed
    assert made[:18] in listed
    assert "node 7" in listed

    serving = serve("--no-worker")
    with httpx.Client(base_url=str(serving.url), timeout=60, trust_env=False) as client:

        def status() -> int:
            body = {"run_id": "r", "project": "p", "name": "n"}
            headers = {"Authorization": f"Bearer {made}"}
            return client.post("/api/v1/runs", json=body, headers=headers).status_code

        assert status() == 201
        assert keys("revoke", "1").returncode == 0
        assert status() == 401
    assert keys("revoke", "1").returncode == 1
    assert keys("create", "--purpose", "worker", "--project", "p").returncode != 0

    stored = b"".join(path.read_bytes() for path in Path(environment["COLLAPSEWATCH_HOME"]).glob("*.db*"))
    assert made.encode() not in stored
    assert worker.encode() not in stored


def test_a_worker_key_chosen_by_the_operator_is_good(
    serve: Callable[..., Serving], environment: dict[str, str]
) -> None:
    key = "cw_worker_" + "k" * 43
    environment["COLLAPSEWATCH_WORKER_KEY"] = key
    serving = serve("--no-worker")
    with httpx.Client(base_url=str(serving.url), timeout=60, trust_env=False) as client:
        headers = {"Authorization": f"Bearer {key}"}
        answer = client.post("/api/v1/worker/claim", json={"worker": "w"}, headers=headers)
    assert answer.status_code == 204


def test_a_message_in_the_hands_of_a_killed_server_is_sent_by_the_next_with_the_same_id(
    environment: dict[str, str], serve: Callable[..., Serving], wait_until: Any
) -> None:
    environment["COLLAPSEWATCH_ALLOW_PRIVATE_CHANNELS"] = "true"
    released = threading.Event()

    def answer(got: Got) -> Answer:
        released.wait(60)
        return Answer()

    database = Database(f"sqlite:///{environment['COLLAPSEWATCH_HOME']}/collapsewatch.db")
    with http_receiver() as receiver:
        receiver.answer = answer
        first = serve("--no-worker")
        with httpx.Client(base_url=f"{first.url}/api/v1", timeout=60, trust_env=False) as client:
            draft = {"name": "hook", "kind": "webhook", "url": receiver.url("/hook-token")}
            assert client.post("/channels", json=draft).status_code == 201
        change_id = tell(database, add_alert(database))
        wait_until(lambda: receiver.got)
        first.stop(signal.SIGKILL)
        released.set()
        with database.write_session() as session:
            session.execute(text("UPDATE channels SET lease_until = lease_until - 1000"))
        second = serve("--no-worker")
        wait_until(lambda: len(receiver.got) == 2)
        with httpx.Client(base_url=f"{second.url}/api/v1", timeout=60, trust_env=False) as client:
            wait_until(lambda: client.get("/channels/1").json()["last_sent_at"])
            (kept,) = client.get("/channels/1/deliveries").json()["deliveries"]
            later = tell(database, add_alert(database))
            wait_until(lambda: len(receiver.got) == 3)
        second.stop()
    database.close()
    bodies = [got.body for got in receiver.got]
    assert bodies[0] == bodies[1]
    told = [json.loads(body) for body in bodies[1:]]
    assert [one["changes"][0]["change_id"] for one in told] == [change_id, later]
    assert told[0]["delivery_id"] == kept["delivery_id"] != told[1]["delivery_id"]
    assert "hook-token" not in first.output + second.output
