"""How long a call holds the training up: every library in turn, in rounds, each in a process of its own."""

import random
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ingest.processes import Contestant, Server, ours, peers
from benchmarks.ingest.report import Row
from benchmarks.ingest.statistics import spread

_CASES = {"scalars": "log of 20 scalars", "rollouts": "log_rollouts of 128 × 2 kB"}


def measure(folder: Path, server: Server, *, num_rounds: int, scalars: int, rollouts: int) -> Iterator[Row]:
    """Latencies with and without a pause between the calls.

    Args:
        scalars, rollouts: calls of each kind in one round.
    """
    for what, calls, pauses in (("scalars", scalars, (2.0, 0.0)), ("rollouts", rollouts, (50.0, 0.0))):
        for pause_ms in pauses:
            taken = _rounds(folder, server, what, calls, pause_ms, num_rounds)
            pause = f"{pause_ms:g} ms between calls" if pause_ms else "back to back"
            yield from _rows(f"{_CASES[what]}, {pause}", taken)


def _rounds(
    folder: Path, server: Server, what: str, calls: int, pause_ms: float, num_rounds: int
) -> dict[str, list[float]]:
    """Microseconds of every call of every library."""
    taken: dict[str, list[float]] = {}
    order = random.Random(0)
    for number in range(num_rounds):
        contestants: list[Contestant] = [ours(server), *peers()]
        # Another order each time, so that none always comes after the same.
        order.shuffle(contestants)
        for contestant in contestants:
            place = folder / f"{what}-{pause_ms:g}-{number}-{contestant.name}"
            options = ["--what", what, "--calls", str(calls), "--pause-ms", str(pause_ms)]
            answer = contestant.ask("latency", place, *options)
            assert isinstance(answer, list)
            taken.setdefault(contestant.name, []).extend(nanoseconds / 1000 for nanoseconds in answer)
    return taken


def _rows(case: str, taken: dict[str, list[float]]) -> Iterator[Row]:
    mine = spread(taken.pop("collapsewatch"))
    for peer_name in sorted(taken):
        theirs = spread(taken[peer_name])
        for metric in ("p50", "p99", "max"):
            yield Row(case, metric, mine[metric], "µs", theirs[metric], peer_name)
