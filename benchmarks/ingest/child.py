"""One library at work in a process of its own: `python -m benchmarks.ingest.child MODE LIBRARY FOLDER …`.

The answer is the last line that begins with `=`, or, of a child that is to be killed, a line for each call.
"""

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.ingest.libraries import LIBRARIES, Library
from benchmarks.ingest.work import rollouts, scalars

ANSWER = "="
CALL = "+"
_NUM_TEXTS = 8
_SETTLING_SECONDS = 2.0


def main() -> None:
    """Does what the arguments say."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=["latency", "until-killed", "found", "memory"])
    parser.add_argument("library", choices=sorted(LIBRARIES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--what", choices=["scalars", "rollouts"], default="scalars")
    parser.add_argument("--calls", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--pause-ms", type=float, default=0.0)
    given = parser.parse_args()
    library = LIBRARIES[given.library](given.folder)
    if given.mode == "found":
        library.recover()
        answer: object = sorted(library.found(given.what))
    else:
        library.open()
        call = _caller(library, given.what)
        if given.mode == "until-killed":
            _call_until_killed(call, given.pause_ms / 1000)
        if given.mode == "memory":
            answer = _memory(call, given.calls)
        else:
            answer = _latencies(call, given.warm_up, given.calls, given.pause_ms / 1000)
            library.close()
    print(ANSWER + json.dumps(answer), flush=True)
    # What a library still does in the background is no part of the measurement.
    sys.stdout.flush()
    os._exit(0)


def _caller(library: Library, what: str) -> Callable[[int], None]:
    if what == "scalars":
        return lambda call: library.log(scalars(call), step=call)
    texts = [library.shaped(rollouts(seed)) for seed in range(_NUM_TEXTS)]
    return lambda call: library.log_rollouts(texts[call % _NUM_TEXTS], step=call)


def _latencies(call: Callable[[int], None], warm_up: int, calls: int, pause_seconds: float) -> list[int]:
    """Nanoseconds of each call after the first few."""
    for number in range(warm_up):
        call(number)
    # The start of a run is not what is measured: its threads come up, and what its imports left behind is
    # collected here and not in the middle of some library's call.
    time.sleep(_SETTLING_SECONDS)
    gc.collect()
    taken = []
    for number in range(warm_up, warm_up + calls):
        start = time.perf_counter_ns()
        call(number)
        taken.append(time.perf_counter_ns() - start)
        if pause_seconds:
            time.sleep(pause_seconds)
    return taken


def _call_until_killed(call: Callable[[int], None], pause_seconds: float) -> None:
    number = 0
    while True:
        call(number)
        # One write straight to the pipe: what is in it survives this process.
        os.write(1, f"{CALL}{number}\n".encode())
        number += 1
        time.sleep(pause_seconds)


def _memory(call: Callable[[int], None], calls: int) -> dict[str, int]:
    before = _resident_bytes()
    for number in range(calls):
        call(number)
    return {"before": before, "after": _resident_bytes()}


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("the system does not say how much memory a process holds")


if __name__ == "__main__":
    main()
