"""Alerts on the run, as its trainer hears of them."""

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from collapsewatch.boundary import Boundary, log
from collapsewatch.errors import InvalidInputError
from collapsewatch.settings import Settings
from collapsewatch.wire import THREAD_NAMES, connect

if TYPE_CHECKING:
    import httpx

Severity = Literal["info", "warning", "critical"]
_RANK: Mapping[str, int] = {"info": 0, "warning": 1, "critical": 2}
ASK_SECONDS = 5.0
_MAX_ASK_SECONDS = 60.0
_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert on the run."""

    id: int
    """The same from its opening to its end, whatever its severity."""
    rule: str
    """Such as `input_dependence`."""
    severity: str
    """`info`, `warning` or `critical`."""
    state: str
    """`open`, `acknowledged`, `snoozed` or `resolved`."""
    title: str
    message: str
    """What was measured, against what, and which other signals agree or disagree."""
    scope: str
    step: int | None
    """At which it opened; None for one on the life of the run, such as a stall."""
    change: Literal["opened", "escalated", "resolved"] = "opened"
    """Why a callback hears of it."""


AlertCallback = Callable[[Alert], None]


class AlertWatch:
    """Asks the server from time to time what alerts stand on the run, once somebody wants to know.

    In a daemon thread, which also calls the callbacks: nothing here ever holds the training up. A server that
    does not answer leaves what was known as it was.
    """

    def __init__(self, run_id: str, settings: Settings, boundary: Boundary) -> None:
        self._run_id = run_id
        self._settings = settings
        self._boundary = boundary
        self._callbacks: list[tuple[AlertCallback, str, dict[int, Alert]]] = []
        """Function, least severity, and what it was told of."""
        self._standing: tuple[Alert, ...] = ()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = threading.Event()
        self._wanted = threading.Event()

    def add(self, callback: AlertCallback, severity: Severity) -> None:
        """Calls the function from now on.

        Raises:
            InvalidInputError: no such severity.
        """
        self._callbacks.append((callback, _known(severity), {}))
        self._begin()
        self._wanted.set()

    def should_stop(self, severity: Severity, rules: Collection[str] | None) -> bool:
        """Whether an alert with a step that nobody looks after is as grave as this, as far as is known.

        Raises:
            InvalidInputError: no such severity.
        """
        least = _RANK[_known(severity)]
        self._begin()
        return any(
            alert.state == "open"
            and alert.step is not None
            and _RANK.get(alert.severity, 0) >= least
            and (rules is None or alert.rule in rules)
            for alert in self._standing
        )

    def close(self) -> None:
        """Asks no more, and waits for nobody: a callback may be at work."""
        self._closing.set()
        self._wanted.set()

    def _begin(self) -> None:
        if self._thread is not None:
            return
        with self._starting:
            if self._thread is None and not self._closing.is_set():
                thread = threading.Thread(target=self._watch, name=f"{THREAD_NAMES}alerts", daemon=True)
                # No more threads, or an interpreter that is going down: the next call tries again.
                with suppress(RuntimeError):
                    thread.start()
                    self._thread = thread

    def _watch(self) -> None:
        pause_seconds = ASK_SECONDS
        try:
            with connect(self._settings) as client:
                while not self._closing.is_set():
                    self._wanted.clear()
                    standing = _ask(client, self._run_id)
                    if standing is None:
                        pause_seconds = min(2 * pause_seconds, _MAX_ASK_SECONDS)
                    else:
                        pause_seconds = ASK_SECONDS
                        self._standing = standing
                        self._tell(standing)
                    self._wanted.wait(pause_seconds)
        except Exception as error:  # noqa: BLE001 - the SDK boundary: a run without its alerts goes on
            self._boundary.report("alerts", "alerts are not watched: %s: %s", type(error).__name__, error)

    def _tell(self, standing: tuple[Alert, ...]) -> None:
        for callback, severity, told in list(self._callbacks):
            for alert in changes(told, standing, severity):
                if self._closing.is_set():
                    return
                with self._boundary.guard("on_alert"):
                    callback(alert)


def changes(told: dict[int, Alert], standing: Collection[Alert], severity: str) -> list[Alert]:
    """What a listener has to hear, which is noted in `told` as heard.

    Args:
        told: what it has heard of and not of its end, by id.
        standing: all alerts on the run that are not resolved.
        severity: the least that it wants to hear of.
    """
    news = []
    now = {alert.id: alert for alert in standing}
    for number, before in list(told.items()):
        if number not in now:
            news.append(replace(told.pop(number), state="resolved", change="resolved"))
        elif _RANK.get(now[number].severity, 0) > _RANK.get(before.severity, 0):
            told[number] = now[number]
            news.append(replace(now[number], change="escalated"))
    for number, alert in now.items():
        if number not in told and _RANK.get(alert.severity, 0) >= _RANK[severity]:
            told[number] = alert
            news.append(alert)
    return news


def _ask(client: "httpx.Client", run_id: str) -> tuple[Alert, ...] | None:
    """The alerts that stand on the run; None when the server did not say."""
    import httpx

    try:
        response = client.get(f"/api/v1/runs/{run_id}/alerts/standing", timeout=_TIMEOUT_SECONDS)
        response.raise_for_status()
        return tuple(_alert(one) for one in response.json()["alerts"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError, AttributeError) as error:
        log.debug("no news of alerts: %s: %s", type(error).__name__, error)
        return None


def _alert(given: Mapping[str, Any]) -> Alert:
    step = given.get("step")
    return Alert(
        id=int(given["id"]),
        rule=str(given["rule"]),
        severity=str(given["severity"]),
        state=str(given["state"]),
        title=str(given["title"]),
        message=str(given["message"]),
        scope=str(given["scope"]),
        step=None if step is None else int(step),
    )


def _known(severity: str) -> str:
    if severity not in _RANK:
        raise InvalidInputError(f"severity is one of {', '.join(_RANK)}, got {severity!r}")
    return severity
