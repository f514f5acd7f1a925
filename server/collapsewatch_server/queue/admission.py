"""Which batches become jobs, and which jobs give way when a run produces faster than workers score."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy.orm import Session

from collapsewatch_server.queue.feed import Feed
from collapsewatch_server.repositories import jobs, shards
from collapsewatch_server.repositories.events import Event
from collapsewatch_server.tables import Batch

log = logging.getLogger(__name__)


@dataclass
class Changes:
    """What a transaction did to the queue; told to the feed once it is committed."""

    queued: dict[int, float] = field(default_factory=dict)
    """Place of each job that was queued or moved."""
    thinned: list[int] = field(default_factory=list)

    def __or__(self, later: "Changes") -> "Changes":
        return Changes(self.queued | later.queued, self.thinned + later.thinned)

    def events(self, run_id: str, project: str) -> list[Event]:
        """For the page, what was laid aside: one event, however many jobs it were."""
        if not self.thinned:
            return []
        data = {"run_id": run_id, "project": project, "step": None, "job_id": self.thinned[-1]}
        return [Event("job", {**data, "status": "thinned", "num_jobs": len(self.thinned)})]

    def tell(self, feed: Feed) -> None:
        """Tells the feed, and the log of what is not scored."""
        feed.push(self.queued.items())
        if self.thinned:
            feed.forget(self.thinned)
            log.warning("batches laid aside unscored", extra={"num_jobs": len(self.thinned)})


@dataclass(frozen=True)
class Admission:
    """Both rules with their limits. Every method wants the run locked; see `runs.lock`."""

    max_waiting: int
    """Jobs of one run that keep their place; of more the oldest are deferred."""
    max_deferred: int
    """Deferred jobs of one run; of more the oldest are thinned."""

    def admit(self, session: Session, batch: Batch, *, is_due: bool = False) -> Changes:
        """Queues the batch, or the step that it completes.

        A shard waits for the others of its step, unless the step `is_due` or was queued before: a shard that
        comes later is scored together with all that are there.
        """
        if batch.num_shards == 1:
            group: Sequence[Batch] = [batch]
        else:
            group = shards.siblings(session, batch)
        parts = shards.chosen(group)
        earlier = max((part.job_pk for part in group if part.job_pk is not None), default=None)
        if earlier is None and not is_due and len(parts) < batch.num_shards:
            return Changes()
        if earlier is not None and batch.id not in {part.id for part in parts}:
            # An older copy of a shard, which came late: the step is scored without it.
            shards.set_job(session, batch, earlier)
            return Changes()
        job = self._job(session, batch, parts, earlier)
        shards.set_job(session, batch, job[0])
        return Changes(dict([job])) | self.relieve(session, batch.run_pk)

    def relieve(self, session: Session, run_pk: int) -> Changes:
        """Beyond the limits, defers the run's oldest waiting jobs and lays its oldest deferred ones aside."""
        moved = jobs.defer(session, run_pk, self.max_waiting)
        return Changes(dict(moved), jobs.thin(session, run_pk, self.max_deferred) if moved else [])

    def _job(
        self, session: Session, batch: Batch, parts: Sequence[Batch], earlier: int | None
    ) -> tuple[int, float]:
        """The job that scores the parts, and its place.

        It stands for the part with the largest (`logged_at`, `batch_id`), whatever the order of arrival. An
        earlier job that nobody started is used again. Else it may still bring a result, of fewer parts: it
        moves to the batch that has just come, whose rank is lower, so that the new result wins.
        """
        front = max(parts, key=lambda part: (part.logged_at, part.batch_id))
        if earlier is not None:
            place = jobs.take_over(session, earlier, batch_pk=front.id)
            if place is not None:
                return earlier, place
            if front.id != batch.id:
                shards.yield_result(session, front.id, to=batch.id)
                jobs.yield_batch(session, earlier, batch_pk=front.id, to=batch.id)
        return jobs.add(session, batch_pk=front.id, run_pk=batch.run_pk, max_waiting=self.max_waiting)
