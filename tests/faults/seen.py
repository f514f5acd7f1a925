"""What clients saw and what was logged during a fault: an error that is tried again shows nowhere else."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.faults.proxy import Exchange

NEVER_LOGGED = re.compile(
    r"Traceback \(most recent call last\)|Exception in ASGI|never retrieved|database is locked"
    r"|pyo3|RuntimeError|Segmentation"
)
_ERROR_LINE = re.compile(r" (ERROR|CRITICAL) ")
_ENTRY = re.compile(r"^(?=\d{4}-\d\d-\d\d )", re.MULTILINE)
"""Where one begins; a traceback belongs to the line before it."""
_MAX_SHOWN = 3


def bad_answers(exchanges: Iterable[Exchange], allowed: frozenset[int]) -> list[str]:
    """Answers from 400 up that this fault does not explain; an unforeseen error (500) nothing explains."""
    wrong = [
        exchange
        for exchange in exchanges
        if exchange.status >= 400 and exchange.status not in allowed - {500}
    ]
    counts = Counter((exchange.route, exchange.status) for exchange in wrong)
    shown = [
        f"{count} x {status} to {route}: {_body(wrong, route, status)}"
        for (route, status), count in counts.most_common(_MAX_SHOWN)
    ]
    return shown + ([f"and {len(counts) - _MAX_SHOWN} other sorts"] if len(counts) > _MAX_SHOWN else [])


def unanswered(exchanges: Iterable[Exchange]) -> list[str]:
    """Requests that got no answer although nobody touched the network or a process."""
    counts = Counter(
        (exchange.route, exchange.end)
        for exchange in exchanges
        if exchange.end in ("client", "server", "lost")
    )
    return [f"{count} x no answer to {route}: closed by the {end}" for (route, end), count in counts.items()]


def statuses(exchanges: Iterable[Exchange]) -> str:
    """What was answered from 400 up, and what was not answered at all, in a few words."""
    counts = Counter(
        str(exchange.status) if exchange.status else exchange.end
        for exchange in exchanges
        if not 0 < exchange.status < 400 and exchange.end != "waiting"
    )
    return ", ".join(f"{count} x {what}" for what, count in sorted(counts.items()))


def slowest(exchanges: Iterable[Exchange]) -> str:
    """The answer that took longest; waiting for a job is no slowness."""
    answered = [
        exchange
        for exchange in exchanges
        if exchange.end == "answered" and not exchange.path.endswith("/claim")
    ]
    if not answered:
        return "nothing answered"
    one = max(answered, key=lambda exchange: exchange.seconds)
    return f"slowest {one.seconds:.1f} s"


class Logs:
    """What is written to log files from now on."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._ends = {path: path.stat().st_size for path in paths}

    def wrong(self, paths: Iterable[Path], allowed: str) -> list[str]:
        """Entries that no log should have; one is in order when `allowed` is found in it."""
        found: list[str] = []
        for path in paths:
            with path.open("rb") as file:
                file.seek(self._ends.get(path, 0))
                entries = _ENTRY.split(file.read().decode(errors="replace"))
            bad = [
                entry.strip()
                for entry in entries
                if (NEVER_LOGGED.search(entry) or _ERROR_LINE.search(entry))
                and not (allowed and re.search(allowed, entry))
            ]
            found += [f"{path.name}: {_short(entry)}" for entry in bad[:_MAX_SHOWN]]
            if len(bad) > _MAX_SHOWN:
                found.append(f"{path.name}: and {len(bad) - _MAX_SHOWN} more entries")
        return found


def _short(entry: str) -> str:
    first, _, last = entry.partition("\n")
    return f"{first[:300]} … {last.splitlines()[-1][:200]}" if last else first[:300]


def _body(wrong: Iterable[Exchange], route: str, status: int) -> str:
    return next(one.body for one in wrong if (one.route, one.status) == (route, status)).strip()[-120:]
