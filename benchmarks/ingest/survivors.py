"""What is left of returned calls after the process was killed at a random moment."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ingest.child import CALL
from benchmarks.ingest.processes import Contestant, Server, ours, peers, settle
from benchmarks.ingest.report import Row

_CONTROL_CALLS = 20
_PAUSE_MS = {"scalars": "2", "rollouts": "20"}


def measure(folder: Path, server: Server, *, num_kills: int) -> Iterator[Row]:
    """Calls that had returned and are in no store afterwards, over all kills."""
    moments = random.Random(1)
    for contestant in (ours(server), *peers()):
        _check_the_counting(contestant, folder / f"control-{contestant.name}")
    for what in ("scalars", "rollouts"):
        lost: dict[str, int] = {}
        returned: dict[str, int] = {}
        for number in range(num_kills):
            seconds = moments.uniform(0.5, 3.0)
            for contestant in [ours(server), *peers()]:
                place = folder / f"kill-{what}-{number}-{contestant.name}"
                calls = _calls_until_killed(contestant, place, what, seconds)
                settle()
                answer = contestant.ask("found", place, "--what", what)
                assert isinstance(answer, list)
                name = contestant.name
                lost[name] = lost.get(name, 0) + len(calls - set(answer))
                returned[name] = returned.get(name, 0) + len(calls)
        times = "once" if num_kills == 1 else f"{num_kills} times"
        case = f"SIGKILL, {times}, {what}"
        for peer in peers():
            for metric, counts in (("calls lost", lost), ("calls returned", returned)):
                mine, theirs = counts["collapsewatch"], counts[peer.name]
                yield Row(case, metric, mine, "calls", theirs, peer.name, metric == "calls returned")


def _check_the_counting(contestant: Contestant, folder: Path) -> None:
    """Without a kill all must be found: else it is the counting that loses calls, and not the library."""
    for what in ("scalars", "rollouts"):
        place = folder / what
        options = ["--what", what, "--calls", str(_CONTROL_CALLS), "--warm-up", "0", "--pause-ms", "1"]
        contestant.ask("latency", place, *options)
        answer = contestant.ask("found", place, "--what", what)
        assert answer == list(range(_CONTROL_CALLS)), f"{contestant.name}, {what}: {answer}"


def _calls_until_killed(contestant: Contestant, folder: Path, what: str, seconds: float) -> set[int]:
    """Numbers of the calls that returned; killed `seconds` after the first one did."""
    options = ["--what", what, "--pause-ms", _PAUSE_MS[what]]
    with contestant.start("until-killed", folder, *options) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            if line.startswith(CALL.encode()):
                lines.append(line)
                break
        time.sleep(seconds)
        process.kill()
        lines += process.stdout.readlines()
    complete = [line for line in lines if line.startswith(CALL.encode()) and line.endswith(b"\n")]
    return {int(line[1:]) for line in complete}
