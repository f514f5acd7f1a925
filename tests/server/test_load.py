"""Ingest under load: it sheds with 429 and bounded memory, and everybody else is served meanwhile."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
import zstandard

from tests.conftest import WaitUntil
from tests.server.live import LiveServer, batch_body, result_body


@contextmanager
def held_bodies(live: LiveServer, run_id: str, count: int, length: int) -> Iterator[list[socket.socket]]:
    """Requests that have declared `length` bytes and sent a few of them."""
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            connection = socket.create_connection(("127.0.0.1", int(live.url.rpartition(":")[2])))
            stack.enter_context(connection)
            connection.sendall(_head(live, run_id, length) + b"{" * 10)
            opened.append(connection)
        yield opened


def _head(live: LiveServer, run_id: str, length: int) -> bytes:
    lines = [
        f"POST /api/v1/runs/{run_id}/batches HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {live.ingest_key}",
        f"Content-Length: {length}",
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_when_all_places_are_taken_only_ingest_is_told_to_wait(
    start_server: Any, wait_until: WaitUntil
) -> None:
    live: LiveServer = start_server(max_intake_requests=4)
    gate = live.services.gate
    run_id = live.start_run()
    assert live.send_batch(run_id, 1).status_code == 202
    with held_bodies(live, run_id, 4, 1000):
        wait_until(lambda: gate.num_requests == 4)
        refused = live.send_batch(run_id, 2)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_busy")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": []}).status_code == 429
        # Reading, health, and the workers.
        assert live.get(f"/runs/{run_id}")["last_step"] == 1
        assert live.http.get("/readyz").status_code == 200
        job = live.claim()
        assert live.done(job["job_id"], result_body())
    wait_until(lambda: gate.num_requests == 0)
    assert live.send_batch(run_id, 2).status_code == 202


def test_bodies_that_would_fill_the_memory_are_refused_before_they_are_sent(
    start_sqlite_server: Any, wait_until: WaitUntil
) -> None:
    live: LiveServer = start_sqlite_server(max_intake_bytes=1_000_000)
    gate = live.services.gate
    run_id = live.start_run()
    with held_bodies(live, run_id, 2, 400_000):
        wait_until(lambda: gate.num_bytes == 800_000)
        body = json.dumps(batch_body(1, policy_version="x" * 190)).encode()
        large = body + b" " * 300_000
        headers = {"Content-Encoding": "zstd"}
        path = f"/runs/{run_id}/batches"
        assert live.ingest("POST", path, content=large).status_code == 429
        # Small as sent, large once it is unfolded.
        packed = zstandard.ZstdCompressor().compress(large)
        assert live.ingest("POST", path, content=packed, headers=headers).status_code == 429
        assert live.ingest("POST", path, content=_chunks(large)).status_code == 429
        assert gate.num_bytes == 800_000
        assert live.ingest("POST", path, content=body).status_code == 202
    wait_until(lambda: gate.num_bytes == 0)
    assert live.ingest("POST", path, content=packed, headers=headers).status_code == 200


def _chunks(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 10_000):
        yield body[start : start + 10_000]


def test_a_body_that_trickles_in_is_cut_off(start_sqlite_server: Any, wait_until: WaitUntil) -> None:
    live: LiveServer = start_sqlite_server(body_seconds=3.0)
    run_id = live.start_run()
    with held_bodies(live, run_id, 1, 1000) as (connection,):
        connection.settimeout(60)
        answer = b""
        # Until the server closes the connection: what would still come is not waited for.
        while chunk := connection.recv(4096):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"body_too_slow"' in answer
    wait_until(lambda: live.services.gate.num_requests == 0)
    assert live.send_batch(run_id, 1).status_code == 202


@pytest.mark.parametrize("reset", [False, True])
def test_a_client_that_is_gone_in_the_middle_leaves_nothing(
    start_sqlite_server: Any, wait_until: WaitUntil, reset: bool
) -> None:
    live: LiveServer = start_sqlite_server()
    gate = live.services.gate
    run_id = live.start_run()
    with held_bodies(live, run_id, 1, 100_000) as (connection,):
        wait_until(lambda: gate.num_bytes == 100_000)
        if reset:
            # Closed with a reset instead of an orderly end.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    wait_until(lambda: gate.num_requests == 0)
    assert gate.num_bytes == 0
    assert live.get(f"/runs/{run_id}")["last_step"] is None
    assert live.send_batch(run_id, 1).status_code == 202


def test_clients_that_come_again_when_told_all_get_in(start_server: Any) -> None:
    live: LiveServer = start_server(max_intake_requests=2)
    run_ids = [live.start_run() for _ in range(8)]
    codes: list[int] = []
    barrier = threading.Barrier(8)

    def send_all(run_id: str) -> None:
        barrier.wait()
        with httpx.Client(base_url=live.url, timeout=60, trust_env=False) as client:
            for step in range(5):
                codes.extend(_send_until_taken(client, live, run_id, step))

    threads = [threading.Thread(target=send_all, args=(run_id,)) for run_id in run_ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes.count(202) == 40
    assert set(codes) <= {202, 429}
    for run_id in run_ids:
        assert live.get(f"/runs/{run_id}")["jobs"]["queued"] == 5


def _send_until_taken(client: httpx.Client, live: LiveServer, run_id: str, step: int) -> Iterator[int]:
    pause = threading.Event()
    while True:
        headers = {"Authorization": f"Bearer {live.ingest_key}"}
        answer = client.post(f"/api/v1/runs/{run_id}/batches", headers=headers, json=batch_body(step))
        yield answer.status_code
        if answer.status_code != 429:
            return
        pause.wait(int(answer.headers["retry-after"]) / 20)
