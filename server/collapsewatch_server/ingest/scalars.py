"""Accepts the trainer's own numbers."""

from collections.abc import Callable

from collapsewatch.contracts.metrics import TRAINER_SCOPE
from collapsewatch.contracts.rollouts import ScalarBatch
from collapsewatch.contracts.runs import ScalarReceipt
from collapsewatch_server.db import Database
from collapsewatch_server.repositories import events, metrics, runs
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.tables import Run


class ScalarIntake:
    """Accepts plain numbers of steps."""

    def __init__(self, database: Database, ring: Callable[[], None]) -> None:
        self._database = database
        self._ring = ring

    def add(self, run: Run, project: str, scalars: ScalarBatch) -> ScalarReceipt:
        """Stores plain numbers; of several values of one metric and step, the last counts."""
        points = {
            (metric, point.step): value for point in scalars.points for metric, value in point.values.items()
        }
        steps = [point.step for point in scalars.points]
        with self._database.write_session() as session:
            metrics.put_scalars(session, run.id, TRAINER_SCOPE, points)
            runs.touch(session, run.id, max(steps))
            data = {"run_id": run.run_id, "project": project, "step": min(steps), "scope": TRAINER_SCOPE}
            events.add(session, run.id, [Event("metrics", data)])
        self._ring()
        return ScalarReceipt(num_values=len(points))
