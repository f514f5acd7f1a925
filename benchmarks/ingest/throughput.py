"""How much one server on one core takes in, with SQLite and with PostgreSQL behind it."""

import json
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import httpx
import zstandard

from benchmarks.ingest.processes import Server, running_server
from benchmarks.ingest.report import Row
from benchmarks.ingest.work import NUM_ROLLOUTS, Rows, rollouts
from tests.servers import PostgresServer

_CORE = 0


def measure(folder: Path, *, num_batches: int) -> Iterator[Row]:
    """Acknowledged rollouts and megabytes (as JSON) a second; the server has core 0 and nothing else."""
    documents = [document(rollouts(seed), step=seed) for seed in range(num_batches)]
    for num_senders in (1, 8):
        with running_server(folder / f"sqlite-{num_senders}", core=_CORE) as server:
            yield from _rows("SQLite", num_senders, server, documents)
        with tempfile.TemporaryDirectory(prefix="cw-postgres-") as place:
            postgres = PostgresServer(Path(place), durable=True)
            postgres.start()
            try:
                url = postgres.new_database()
                home = folder / f"postgresql-{num_senders}"
                with running_server(home, core=_CORE, database_url=url) as server:
                    yield from _rows("PostgreSQL", num_senders, server, documents)
            finally:
                postgres.stop()


def document(rows: Rows, step: int) -> bytes:
    """A batch as the SDK sends it, not yet compressed."""
    items = [
        {"group_id": group, "reward": reward, "turns": [{"prompt": prompt, "response": response}]}
        for group, prompt, response, reward in rows
    ]
    return json.dumps({"batch_id": uuid.uuid4().hex, "step": step, "rollouts": items}).encode()


def _rows(database: str, num_senders: int, server: Server, documents: list[bytes]) -> Iterator[Row]:
    seconds = _send_all(server, documents, num_senders)
    case = f"ingest into {database} on one core, {num_senders} sender{'s' * (num_senders > 1)}"
    yield Row(case, "rollouts", len(documents) * NUM_ROLLOUTS / seconds, "1/s", higher_is_better=True)
    megabytes = sum(map(len, documents)) / 1e6
    yield Row(case, "JSON", megabytes / seconds, "MB/s", higher_is_better=True)


def _send_all(server: Server, documents: list[bytes], num_senders: int) -> float:
    """Seconds from the first request to the last answer. The senders keep off the server's core."""
    run_id = uuid.uuid4().hex
    headers = {"Authorization": f"Bearer {server.key}"}
    start = {"run_id": run_id, "project": "bench", "name": "throughput"}
    httpx.post(f"{server.url}/api/v1/runs", headers=headers, json=start).raise_for_status()
    bodies = [zstandard.ZstdCompressor().compress(text) for text in documents]
    waiting = iter(bodies)
    guard = threading.Lock()

    def send() -> None:
        with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
            while True:
                with guard:
                    body = next(waiting, None)
                if body is None:
                    return
                path = f"/api/v1/runs/{run_id}/batches"
                client.post(
                    path, content=body, headers={**headers, "Content-Encoding": "zstd"}
                ).raise_for_status()

    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores - {_CORE} or cores)
    try:
        threads = [threading.Thread(target=send) for _ in range(num_senders)]
        begun = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begun
    finally:
        os.sched_setaffinity(0, cores)
    found = httpx.get(f"{server.url}/api/v1/runs/{run_id}", trust_env=False).json()["jobs"]
    assert sum(found.values()) == len(documents), found
    return seconds
