"""What a trainer is told of the alerts on its run."""

from collapsewatch.contracts.standing import StandingAlert, StandingAlerts
from collapsewatch_server.db import Database
from collapsewatch_server.repositories import alert_threads

MAX_ALERTS = 200


class Standing:
    """Alerts that are not resolved."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_run(self, run_pk: int) -> StandingAlerts:
        """Those on the run, the newest first."""
        with self._database.read_session() as session:
            found = alert_threads.standing_on(session, run_pk, limit=MAX_ALERTS)
        alerts = [
            StandingAlert(
                id=thread.id,
                rule=thread.rule,
                severity=thread.severity,
                state=thread.state,
                title=alert.title,
                message=alert.message,
                scope=alert.scope,
                step=alert.opened_step,
            )
            for thread, alert in found
        ]
        return StandingAlerts(alerts=alerts)
