"""From the trainer's call to the metric on the page's event stream, with an idle worker."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

import collapsewatch
from benchmarks.ingest.processes import Server, running_server
from benchmarks.ingest.report import Row
from benchmarks.ingest.statistics import quantile
from benchmarks.ingest.work import Rows, rollouts

_FIRST_SECONDS = 120.0
_EACH_SECONDS = 20.0
_PAUSE_SECONDS = 0.2


def measure(folder: Path, *, num_batches: int) -> Iterator[Row]:
    """Seconds from `log_rollouts` to the `metrics` event of its step, each batch after the one before."""
    with running_server(folder / "live", worker=True) as server:
        seconds = _seconds_of(server, folder, num_batches)
    case = "call to metric on the event stream, lexical scorer, 128 × 2 kB"
    for metric, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
        yield Row(case, metric, quantile(seconds, share), "s")


class _Listener:
    """Notes when the metrics of each step were seen on the stream."""

    def __init__(self, url: str, run_id: str) -> None:
        self._seen: dict[int, float] = {}
        self._changed = threading.Condition()
        self._open = threading.Event()
        self._url = f"{url}/api/v1/stream"
        self._run_id = run_id
        threading.Thread(target=self._listen, daemon=True).start()
        self._open.wait(10)

    def seen_at(self, step: int, timeout_seconds: float) -> float:
        """When the metrics of `step` came."""
        with self._changed:
            if not self._changed.wait_for(lambda: step in self._seen, timeout_seconds):
                raise TimeoutError(f"no metrics of step {step} within {timeout_seconds} s")
            return self._seen[step]

    def _listen(self) -> None:
        timeout = httpx.Timeout(10, read=None)
        with (
            httpx.Client(timeout=timeout, trust_env=False) as client,
            client.stream("GET", self._url, params={"run_id": self._run_id}) as stream,
        ):
            kind = ""
            for line in stream.iter_lines():
                self._open.set()
                if line.startswith("event:"):
                    kind = line.partition(":")[2].strip()
                if line.startswith("data:") and kind == "metrics":
                    self._note(json.loads(line.partition(":")[2]))

    def _note(self, data: dict[str, object]) -> None:
        step = data.get("step")
        if isinstance(step, int):
            with self._changed:
                self._seen.setdefault(step, time.perf_counter())
                self._changed.notify_all()


def _seconds_of(server: Server, folder: Path, num_batches: int) -> list[float]:
    run = collapsewatch.init("bench", "live", url=server.url, api_key=server.key)
    texts = [rollouts(seed) for seed in range(8)]
    _log(run, texts[0], 0)
    listener = _Listener(server.url, run.id)
    # The worker loads its scorer with the first batch, which nobody times.
    _log(run, texts[0], 1)
    listener.seen_at(1, _FIRST_SECONDS)
    taken = []
    for step in range(2, num_batches + 2):
        begun = time.perf_counter()
        _log(run, texts[step % len(texts)], step)
        taken.append(listener.seen_at(step, _EACH_SECONDS) - begun)
        time.sleep(_PAUSE_SECONDS)
    run.finish()
    return taken


def _log(run: collapsewatch.Run, rows: Rows, step: int) -> None:
    groups, prompts, responses, rewards = (list(column) for column in zip(*rows, strict=True))
    run.log_rollouts(step, group_ids=groups, prompts=prompts, responses=responses, rewards=rewards)
