"""A real HTTP server that stands where the collapsewatch server would: it records, and answers as told."""

import gzip
import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import zstandard

import collapsewatch
from collapsewatch.boundary import Boundary
from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch.contracts.runs import RunUpdate
from collapsewatch.errors import DeliveryError
from collapsewatch.lifetime import open_runs
from collapsewatch.sender import Sender
from collapsewatch.settings import Settings
from collapsewatch.spool import RecordKind, Spool, SpoolMeta

USUAL: dict[str, list[Any]] = {
    "group_ids": ["g", "h"],
    "prompts": ["p <think>", "q <think>"],
    "responses": ["a</think> b", "\x00\n\u2028 \U0001f600"],
    "rewards": [0.5, 1],
    "successes": [True, False],
    "prompt_token_ids": [[1, 2], []],
    "response_token_ids": [[3], [4, 5]],
    "response_log_probs": [[-0.5], [-1.0, 0.0]],
}
"""A batch with every plain column."""

COLUMNS: dict[str, Any] = {
    "prompts": ["p <think>", "p <think>", "q <think>"],
    "responses": ["a</think>1", "b</think>2", "c</think>3"],
    "rewards": [0.0, 1.0, 0.5],
}
"""A small valid batch: two rollouts of one prompt, one of another."""


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: str = "{}"


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Silent: clients are killed here."""


class Recorder:
    """Listens on a port of its own; `down` and `up` take it off the network and bring it back there."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        """All but the heartbeats, whose number and order depend on the clock."""
        self.beats: list[Seen] = []
        self.answers: Callable[[Seen], Answer | None] = lambda seen: None
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = int(free.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def up(self) -> None:
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                answer = recorder.take_in(self)
                payload = answer.body.encode()
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            do_GET = do_POST = do_PATCH = _answer

            def log_message(self, format: str, *args: object) -> None:
                """Silent."""

        self._server = _QuietServer(("127.0.0.1", self.port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def down(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def take_in(self, handler: BaseHTTPRequestHandler) -> Answer:
        raw = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
        match handler.headers.get("Content-Encoding"):
            case "zstd":
                raw = zstandard.ZstdDecompressor().decompress(raw)
            case "gzip":
                raw = gzip.decompress(raw)
        headers = {name.lower(): value for name, value in handler.headers.items()}
        seen = Seen(handler.command, handler.path, headers, json.loads(raw) if raw else None)
        with self._lock:
            (self.beats if seen.path.endswith("/heartbeat") else self.seen).append(seen)
            return self.answers(seen) or Answer(200)

    def of(self, ending: str) -> list[Seen]:
        """Requests whose path ends so."""
        with self._lock:
            return [seen for seen in self.seen if seen.path.endswith(ending)]

    def batches(self) -> list[RolloutBatch]:
        return [RolloutBatch.model_validate(seen.body) for seen in self.of("/batches")]

    def updates(self) -> list[RunUpdate]:
        return [RunUpdate.model_validate(seen.body) for seen in self.seen if seen.method == "PATCH"]

    def scalars(self) -> dict[int, dict[str, float]]:
        """Step → values, over all scalar requests."""
        values: dict[int, dict[str, float]] = {}
        for seen in self.of("/scalars"):
            for point in seen.body["points"]:
                values.setdefault(point["step"], {}).update(point["values"])
        return values


@pytest.fixture
def offline_recorder() -> Iterator[Recorder]:
    """Has a port and does not listen yet."""
    recorder = Recorder()
    yield recorder
    recorder.down()


@pytest.fixture
def recorder(offline_recorder: Recorder) -> Recorder:
    offline_recorder.up()
    return offline_recorder


@pytest.fixture
def run(recorder: Recorder) -> Iterator[collapsewatch.Run]:
    run = collapsewatch.init("project", "name", url=recorder.url, api_key="k")
    yield run
    run.finish(0)


@pytest.fixture
def quick_settings(offline_recorder: Recorder) -> Settings:
    """Settings for that server, with retries that a test can wait for."""
    return Settings(url=offline_recorder.url, api_key="k", retry_seconds=0.01, max_retry_seconds=0.05)


class Rig:
    """A sender with its spool, as a run puts them together."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        self.boundary = Boundary(strict=False)
        meta = SpoolMeta(settings.url, "run1", "p", "n", "writer1", "attempt1", "host", 1, 1.0)
        self.spool = Spool.create(folder, meta, max_bytes=10_000_000, on_drop=self._on_drop)
        self.sender = Sender(self.spool, settings, self.boundary)

    def _on_drop(self, kind: RecordKind, num_items: int, reason: str) -> None:
        self.boundary.drop(reason, num_items)

    def put(self, kind: RecordKind, body: object, num_items: int = 1) -> None:
        self.spool.append(kind, json.dumps(body).encode(), num_items=num_items)

    def left(self) -> list[RecordKind]:
        """What is still there, taken out one after the other."""
        kinds = []
        while records := self.spool.take(0):
            kinds += [record.kind for record in records]
            self.spool.ack()
        return kinds


@pytest.fixture
def rig(quick_settings: Settings, tmp_path: Path) -> Iterator[Rig]:
    rig = Rig(quick_settings, tmp_path)
    rig.put(RecordKind.start, {"run_id": "run1"})
    yield rig
    rig.sender.close(0)
    rig.spool.release()


@pytest.fixture
def wait_until() -> Callable[..., None]:
    """Waits for a condition, and fails when it does not come."""

    def wait(condition: Callable[[], object], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, "the condition did not come true"
            time.sleep(0.01)

    return wait


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """No settings of the machine, and none of a test's neighbours."""
    for name in list(os.environ):
        if name.startswith(("COLLAPSEWATCH_", "TORCHELASTIC_", "SLURM_")) or name in ("RANK", "WORLD_SIZE"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLLAPSEWATCH_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture(autouse=True)
def _no_run_left_open(_own_environment: None) -> Iterator[None]:
    """A run that a test leaves open goes on sending, and logging, while others are tested."""
    before = set(open_runs)
    yield
    left = open_runs - before
    for run in left:
        with suppress(DeliveryError):
            run.finish(0, state="finished")
    assert not left, "the test left a run open"


@pytest.fixture
def sdk_log(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """What the SDK said at WARNING or above."""
    caplog.set_level(logging.DEBUG, logger="collapsewatch")

    def told() -> list[str]:
        return [
            record.getMessage()
            for record in caplog.records
            if record.name == "collapsewatch" and record.levelno >= logging.WARNING
        ]

    return told
