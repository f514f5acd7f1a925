"""The steps of a run, read: when they were, who wrote them, what filters kept of them."""

from collapsewatch_server.db import Database
from collapsewatch_server.errors import RunNotFound, StepNotFound, wrong
from collapsewatch_server.reading.kept import kept_history
from collapsewatch_server.reading.step_views import Checkpoint, KeptHistory, StepClock
from collapsewatch_server.repositories import attempts, runs, steps

_MAX_MOMENTS = 1000
_MAX_CHECKPOINTS = 200


class StepReading:
    """Reads, and changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def clock(self, run_id: str) -> StepClock:
        """When the run's steps were, and where another policy begins to write.

        Raises:
            RunNotFound: there is none of this id.
        """
        with self._database.read_session() as session:
            found = runs.find(session, run_id)
            if found is None:
                raise RunNotFound(run_id)
            run_pk = found[0].id
            lineage = attempts.of_run(session, run_pk).run
            moments = steps.batch_moments(session, run_pk, lineage, _MAX_MOMENTS)
            moments = moments or steps.scalar_moments(session, run_pk, _MAX_MOMENTS)
            versions = steps.versions(session, run_pk, lineage, _MAX_CHECKPOINTS + 1)
        is_marked = 0 < len(versions) <= _MAX_CHECKPOINTS
        reason = None
        if not is_marked:
            reason = (
                "its policy versions only count steps" if versions else "no batch names its policy version"
            )
        return StepClock(
            steps=[moment.step for moment in moments],
            times=[moment.logged_at for moment in moments],
            checkpoints=[
                Checkpoint(step=version.step, policy_version=version.policy_version)
                for version in (versions if is_marked else [])
            ],
            reason=reason,
        )

    def kept(self, run_id: str, step: int, window: int) -> KeptHistory:
        """What filter rules would have kept over the last `window` scored steps up to `step`.

        Raises:
            RunNotFound: there is none of this id.
            StepNotFound: the step was not scored.
        """
        with self._database.read_session() as session:
            found = runs.find(session, run_id)
            if found is None:
                raise RunNotFound(run_id)
            read = steps.kept_until(session, found[0].id, step, window)
        if not read or read[0].step != step:
            message = f"step {step} was not scored"
            raise StepNotFound(message, [wrong("step", "no result", step)])
        return kept_history(read)
