"""`python -m benchmarks.ingest`: what logging costs, what survives, and how much the server takes in.

`QUICK=1` gives the short form. Leaves build/bench/ingest.json.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.common import machine
from benchmarks.ingest import live_latency, memory, sdk_calls, survivors, throughput
from benchmarks.ingest.processes import PEERS_PYTHON, ROOT, running_server, versions
from benchmarks.ingest.report import Row, table, write_json

RESULT = ROOT / "build" / "bench" / "ingest.json"


def main() -> None:
    """Measures everything, or the parts that are named."""
    quick = os.environ.get("QUICK", "") not in ("", "0")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", help="calls, survivors, throughput, memory, live; all when absent"
    )
    named = parser.parse_args().parts
    if not PEERS_PYTHON.exists():
        sys.exit(f"{PEERS_PYTHON} is missing: make bench-ingest makes it")
    with tempfile.TemporaryDirectory(prefix="cw-bench-") as place:
        rows = []
        for name, part in _parts(Path(place), quick).items():
            if not named or name in named:
                begun = time.monotonic()
                rows += list(part())
                print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    print(table(rows))
    # Figures of a part alone are for whoever works on it.
    if not named:
        write_json(RESULT, machine(versions()), rows)
        print(f"\n{RESULT.relative_to(ROOT)}")


def _parts(folder: Path, quick: bool) -> dict[str, Callable[[], Iterable[Row]]]:
    def calls() -> list[Row]:
        with running_server(folder / "calls-server") as server:
            sizes = (
                {"num_rounds": 2, "scalars": 150, "rollouts": 20}
                if quick
                else {"num_rounds": 5, "scalars": 1000, "rollouts": 100}
            )
            return list(sdk_calls.measure(folder, server, **sizes))

    def kills() -> list[Row]:
        with running_server(folder / "kills-server") as server:
            return list(survivors.measure(folder, server, num_kills=1 if quick else 6))

    return {
        "calls": calls,
        "survivors": kills,
        "throughput": lambda: throughput.measure(folder, num_batches=60 if quick else 400),
        "memory": lambda: memory.measure(folder, calls=5_000 if quick else 100_000),
        "live": lambda: live_latency.measure(folder, num_batches=10 if quick else 60),
    }


if __name__ == "__main__":
    main()
