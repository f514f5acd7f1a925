"""Accepts the trainer's own numbers."""

from collections.abc import Callable

from collapsewatch.contracts.metrics import TRAINER_SCOPE
from collapsewatch.contracts.rollouts import ScalarBatch
from collapsewatch.contracts.runs import ScalarReceipt
from collapsewatch_server.db import Database
from collapsewatch_server.errors import InvalidBody, wrong
from collapsewatch_server.liveness import signs
from collapsewatch_server.repositories import clock, events, metrics
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.repositories.metrics import Scalar
from collapsewatch_server.results.attempts import arrival
from collapsewatch_server.results.folding import ScopeOfRun
from collapsewatch_server.results.own_rules import judge
from collapsewatch_server.tables import Run

MAX_VALUES = 50_000
"""Of one request. On SQLite all other writers wait while they are stored, which takes about a second."""


class ScalarIntake:
    """Accepts plain numbers of steps."""

    def __init__(self, database: Database, ring: Callable[[], None]) -> None:
        self._database = database
        self._ring = ring

    def add(self, run: Run, project: str, scalars: ScalarBatch, *, late: bool = False) -> ScalarReceipt:
        """Stores plain numbers; of several values of one metric and step, the one logged last counts.

        Args:
            late: they come from the spool of a process that has ended, and so are no sign of life.

        Raises:
            InvalidBody: they are too many for one transaction.
            AttemptNotFound: nobody has opened the attempt that they name.
        """
        num_values = sum(len(point.values) for point in scalars.points)
        if num_values > MAX_VALUES:
            message = (
                f"one request may bring {MAX_VALUES} values, got {num_values}; send fewer points at once"
            )
            raise InvalidBody(message, [wrong("points", message, num_values)])
        steps = {point.step for point in scalars.points}
        span = (min(steps), max(steps))
        with self._database.read_session() as session:
            best = _last_logged(scalars, clock.read(session))
        with self._database.write_session() as session:
            arrived = arrival(session, run, project, scalars.attempt_id, span)
            superseded = {step: arrived.lineages.is_superseded(arrived.attempt_pk, step) for step in steps}
            rows = [
                Scalar(metric, step, value, logged_at, superseded[step])
                for (metric, step), (logged_at, _, value) in best.items()
            ]
            metrics.put_scalars(session, run.id, TRAINER_SCOPE, arrived.attempt_pk, rows)
            signs.saw_data(session, run.id, late=late)
            data = {"run_id": run.run_id, "project": project, "step": span[0], "scope": TRAINER_SCOPE}
            target = ScopeOfRun(run.id, run.run_id, project, TRAINER_SCOPE, arrived.lineages)
            judged = judge(session, target, span[0])
            events.add(session, run.id, [*arrived.events, Event("metrics", data), *judged])
        self._ring()
        return ScalarReceipt(num_values=len(rows))


def _last_logged(scalars: ScalarBatch, now: float) -> dict[tuple[str, int], tuple[float, int, float]]:
    """Of every metric and step the value logged last; of those without a time the last in the body."""
    best: dict[tuple[str, int], tuple[float, int, float]] = {}
    for position, point in enumerate(scalars.points):
        logged = (now, position) if point.logged_at is None else (point.logged_at, -1)
        for metric, value in point.values.items():
            key = (metric, point.step)
            best[key] = max(best.get(key, (*logged, value)), (*logged, value))
    return best
