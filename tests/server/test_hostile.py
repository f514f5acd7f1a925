"""What nobody sends by accident: refused clearly, with nothing changed and with bounded memory.

The server is a process of its own, so that its memory can be told from that of the test.
"""

import gzip
import json
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard

from tests.integration.service import Service, base_environment

pytestmark = pytest.mark.integration

_MEBIBYTE = 2**20
MAX_RSS_BYTES = 2048 * _MEBIBYTE
"""The server's peak over all of these requests; at rest it has about 150 MiB."""

ZEROS = b"\0" * (8 * _MEBIBYTE)
POST = b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\n"
TURN = {"prompt": "p <think>", "response": "r</think>a"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("hostile")
    running = Service(home, base_environment(home, home), scaled_out=False)
    # The watch leaves the run alone while it is looked at.
    running.environment |= {"COLLAPSEWATCH_STALL_SECONDS": "86400", "COLLAPSEWATCH_LAG_SECONDS": "86400"}
    running.environment["COLLAPSEWATCH_BODY_SECONDS"] = "5"
    try:
        running.spawn("server", "serve", "--port", str(running.port), "--no-worker")
        running.wait_until(running.is_ready, "the server is ready", timeout_seconds=120)
        assert send(running, "/runs", {"run_id": "r", "project": "p", "name": "n"}).status_code == 201
        assert send(running, "/runs/r/batches", batch()).status_code == 202
        yield running
    finally:
        running.stop()


def send(service: Service, path: str, body: Any, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Authorization": f"Bearer {service.local_key()}", **headers}
    return httpx.post(
        f"{service.url}/api/v1{path}", content=content, headers=given, timeout=120, trust_env=False
    )


def batch(**changes: Any) -> dict[str, Any]:
    return {"batch_id": "b", "step": 0, "rollouts": [{"group_id": "g", "turns": [TURN]}], **changes}


def packed(document: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=1).compress(document)


def zstd_bomb() -> bytes:
    """4 GiB of zeros in a few hundred kilobytes."""
    compressor = zstandard.ZstdCompressor(level=1).compressobj()
    return b"".join(compressor.compress(ZEROS) for _ in range(512)) + compressor.flush()


def in_turn(fields: bytes) -> bytes:
    """A batch whose only turn has these fields."""
    return b'{"batch_id":"x","step":1,"rollouts":[{"group_id":"g","turns":[{' + fields + b"}]}]}"


def in_rollouts(values: bytes) -> bytes:
    return b'{"batch_id":"x","step":1,"rollouts":[' + values + b"]}"


def many(unit: bytes, last: bytes, num_bytes: int = 48 * _MEBIBYTE) -> bytes:
    return unit * (num_bytes // len(unit)) + last


def groups() -> bytes:
    """10⁶ rollouts, each in a group of its own."""
    turn = json.dumps({"prompt": "p", "response": "r"}).encode()
    return in_rollouts(b",".join(b'{"group_id":"%d","turns":[%s]}' % (i, turn) for i in range(1_000_000)))


ZSTD = {"Content-Encoding": "zstd"}
GZIP = {"Content-Encoding": "gzip"}
SCALARS = "/runs/r/scalars"
BATCHES = "/runs/r/batches"


def value(text: bytes) -> bytes:
    return b'{"points":[{"step":0,"values":{"kl":' + text + b"}}]}"


CASES: dict[str, tuple[str, Any, dict[str, str], int]] = {
    "zstd bomb": (BATCHES, zstd_bomb, ZSTD, 413),
    "gzip bomb": (BATCHES, lambda: gzip.compress(ZEROS * 40, 1), GZIP, 413),
    "bomb in a bomb": (BATCHES, lambda: packed(zstd_bomb()), ZSTD, 400),
    "more bytes than allowed": (BATCHES, lambda: b" " * (65 * _MEBIBYTE), {}, 413),
    "prompt of 100 MB": (
        BATCHES,
        lambda: packed(in_turn(b'"prompt":"' + b"a" * 100_000_000 + b'","response":"r"')),
        ZSTD,
        422,
    ),
    "a million groups": (BATCHES, groups, {}, 413),
    "numbers for rollouts": (BATCHES, lambda: packed(in_rollouts(many(b"0,", b"0"))), ZSTD, 413),
    "fewer numbers for rollouts": (
        BATCHES,
        lambda: packed(in_rollouts(many(b"0,", b"0", 24 * _MEBIBYTE))),
        ZSTD,
        422,
    ),
    "empty rollouts": (BATCHES, lambda: packed(in_rollouts(many(b"{},", b"{}"))), ZSTD, 413),
    "texts for tokens": (
        BATCHES,
        lambda: packed(in_turn(b'"response":"r","prompt_token_ids":[' + many(b'"",', b'""]'))),
        ZSTD,
        422,
    ),
    "unknown names": (
        BATCHES,
        lambda: packed(b"{" + b",".join(b'"%d":0' % i for i in range(1_900_000)) + b"}"),
        ZSTD,
        422,
    ),
    "deep arrays": (BATCHES, lambda: in_rollouts(b"[" * 100_000), {}, 400),
    "deep config": (
        "/runs",
        lambda: (
            b'{"run_id":"d","project":"p","name":"n","config":' + b'{"a":' * 100_000 + b"0" + b"}" * 100_001
        ),
        {},
        400,
    ),
    "1e309": (SCALARS, lambda: value(b"1e309"), {}, 422),
    "NaN": (SCALARS, lambda: value(b"NaN"), {}, 422),
    "-Infinity": (SCALARS, lambda: value(b"-Infinity"), {}, 422),
    "huge integer": (SCALARS, lambda: value(b"9" * 4000), {}, 422),
    "integer of a megabyte": (SCALARS, lambda: value(b"9" * 1_000_000), {}, 400),
    "step beyond 2**53": (BATCHES, lambda: json.dumps(batch(step=2**53 + 1)).encode(), {}, 422),
    "step of 300 digits": (BATCHES, lambda: json.dumps(batch(step=10**300)).encode(), {}, 422),
    "NaN in free JSON": (
        "/runs",
        lambda: b'{"run_id":"f","project":"p","name":"n","config":{"lr":NaN}}',
        {},
        422,
    ),
    "lone surrogate": (BATCHES, lambda: in_turn(b'"prompt":"\\ud800","response":"r"'), {}, 400),
    "wrong UTF-8": (BATCHES, lambda: in_turn(b'"prompt":"\xff\xfe","response":"r"'), {}, 400),
    "overlong UTF-8": (BATCHES, lambda: in_turn(b'"prompt":"\xc0\x80","response":"r"'), {}, 400),
    "UTF-16": (BATCHES, lambda: json.dumps(batch()).encode("utf-16"), {}, 400),
    "NUL in a name": ("/runs", lambda: b'{"run_id":"z","project":"p","name":"a\\u0000"}', {}, 422),
    "known id, other content": (BATCHES, lambda: json.dumps(batch(step=9)).encode(), {}, 409),
    "two documents": (BATCHES, lambda: json.dumps(batch()).encode() * 2, {}, 400),
    "cut short": (BATCHES, lambda: packed(json.dumps(batch(batch_id="c")).encode())[:-4], ZSTD, 400),
    "unknown encoding": (BATCHES, lambda: b"x", {"Content-Encoding": "br"}, 415),
    "two encodings": (BATCHES, lambda: b"x", {"Content-Encoding": "gzip, gzip"}, 415),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_clearly_with_nothing_changed_and_bounded_memory(service: Service, name: str) -> None:
    path, make, headers, status = CASES[name]
    body = make()
    before = contents(service)
    response = send(service, path, body, **headers)
    assert response.status_code == status, response.text[:1000]
    error = response.json()["error"]
    assert error["code"]
    assert error["message"]
    # What was sent is not sent back.
    assert len(response.content) < 20_000
    assert contents(service) == before
    assert peak_bytes(service) < MAX_RSS_BYTES


def test_1e308_is_a_number_like_any_other(service: Service) -> None:
    assert send(service, SCALARS, value(b"1e308")).status_code == 200
    series = service.get("/runs/r/series", scope="trainer")["series"]["kl"]
    assert series["values"] == [1e308]


def test_of_a_name_that_comes_twice_the_last_counts(service: Service) -> None:
    body = json.dumps(batch(batch_id="twice")).encode().replace(b'"step": 0', b'"step": 3, "step": 4')
    assert send(service, BATCHES, body).status_code == 202
    assert send(service, BATCHES, batch(batch_id="twice", step=4)).status_code == 200
    assert send(service, BATCHES, batch(batch_id="twice", step=3)).status_code == 409


def test_a_body_without_a_length_is_stopped_at_the_limit(service: Service) -> None:
    before = contents(service)

    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * _MEBIBYTE

    headers = {"Authorization": f"Bearer {service.local_key()}"}
    try:
        response = httpx.post(
            f"{service.url}/api/v1{BATCHES}", content=endless(), headers=headers, timeout=60, trust_env=False
        )
        assert response.status_code == 413
    except httpx.TransportError:
        # The server has answered and closed while we were still sending.
        pass
    assert contents(service) == before
    assert peak_bytes(service) < MAX_RSS_BYTES


@pytest.mark.parametrize(
    "head",
    [
        b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n" + b"X-Flood: 1\r\n" * 20_000 + b"\r\n",
        b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"a" * 2_000_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 2_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n12345",
        POST + b"Content-Length: -1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200 + b"\r\n\r\n",
    ],
    ids=["many headers", "long header", "long path", "two lengths", "negative length", "TLS"],
)
def test_a_flood_of_headers_ends_its_connection_and_nothing_else(service: Service, head: bytes) -> None:
    before = contents(service)
    answer = b""
    with socket.create_connection(("127.0.0.1", service.port), 10) as connection:
        connection.settimeout(60)
        try:
            connection.sendall(head)
            connection.shutdown(socket.SHUT_WR)
            while piece := connection.recv(65536):
                answer += piece
        except OSError:
            # The server has closed before it had read everything.
            pass
    assert answer == b"" or answer.split()[1].startswith(b"4"), answer[:200]
    assert service.is_ready()
    assert contents(service) == before
    assert peak_bytes(service) < MAX_RSS_BYTES


def test_slow_senders_hold_up_nobody_and_are_told_so(service: Service) -> None:
    before = contents(service)
    head = (
        f"POST /api/v1{BATCHES} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5000000\r\n"
        f"Authorization: Bearer {service.local_key()}\r\n\r\n{{"
    )
    slow = [socket.create_connection(("127.0.0.1", service.port), 10) for _ in range(100)]
    try:
        for connection in slow:
            connection.sendall(head.encode())
        assert send(service, SCALARS, value(b"0.5")).status_code == 200
        told = slow[0]
        told.settimeout(60)
        assert told.recv(1000).split()[1] == b"408"
    finally:
        for connection in slow:
            connection.close()
    service.wait_until(lambda: send(service, SCALARS, value(b"0.25")).is_success, "others are served")
    after = contents(service)
    assert (after["batches"], after["blobs"]) == (before["batches"], before["blobs"])


def contents(service: Service) -> dict[str, Any]:
    """All rows but those of the keys and of the watch, and the names of all blobs."""
    tables = ("projects", "runs", "attempts", "writers", "batches", "jobs", "metric_points", "events")
    with sqlite3.connect(f"file:{service.home}/collapsewatch.db?mode=ro", uri=True) as connection:
        rows = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}  # noqa: S608
    connection.close()
    blobs = service.home / "blobs"
    found = {table: [row for row in given if "no_worker" not in str(row)] for table, given in rows.items()}
    return {**found, "blobs": sorted(str(path) for path in blobs.rglob("*") if path.is_file())}


def peak_bytes(service: Service) -> int:
    """Most memory that the server has ever had."""
    status = Path(f"/proc/{service.processes[0].pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024
