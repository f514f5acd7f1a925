"""Answers in which rollouts of a run a text stands, a stretch of steps at a time.

Nothing is indexed: a batch is unpacked and looked through in milliseconds, while an index of every word that
a model ever wrote would be as large as what it wrote. A long run is searched in several calls.
"""

import time
from collections.abc import Sequence
from functools import partial

from collapsewatch.blobs import BlobStore
from collapsewatch_server.db import Database
from collapsewatch_server.errors import InvalidRequest, wrong
from collapsewatch_server.reading.rollout_search import Wanted, Where, found_in, hit_of
from collapsewatch_server.reading.rollout_views import Cursor, RolloutHit, RolloutHits
from collapsewatch_server.reading.rollouts import OneAtATime, RunOfRollouts
from collapsewatch_server.reading.stored_batches import (
    MAX_BYTES,
    StepSource,
    StoredBatches,
    rollouts_of,
)
from collapsewatch_server.repositories import rollouts
from collapsewatch_server.repositories.rollouts import Part

_LOOK_SECONDS = 1.0
_STEPS_AT_ONCE = 64


class RolloutSearch:
    """Looks through stored batches, and changes nothing."""

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        *,
        max_bytes: int = MAX_BYTES,
        look_seconds: float = _LOOK_SECONDS,
    ) -> None:
        """The service.

        Args:
            look_seconds: how long one call looks; it ends with the step that it is at.
        """
        self._database = database
        self._stored = StoredBatches(blobs, max_bytes=max_bytes)
        self._look_seconds = look_seconds
        self._turn = OneAtATime()

    def hits(
        self,
        run_id: str,
        text: str,
        where: Where,
        attempt_id: str | None,
        *,
        start: Cursor | None,
        limit: int,
    ) -> RolloutHits:
        """Rollouts that have the text, newest step first, as far as one call comes.

        Args:
            start: where to begin; the last step when absent.

        Raises:
            InvalidRequest: the text is nothing but whitespace.
            TooBusy: others are searching.
        """
        try:
            wanted = Wanted(text, where)
        except ValueError as error:
            raise InvalidRequest(str(error), [wrong("q", "no word", text)]) from None
        with self._database.read_session() as session:
            run = RunOfRollouts(session, run_id, attempt_id)
            last = rollouts.last_step(session, run.run_pk, run.lineage)
        found = RolloutHits(
            hits=[], next=None, num_steps=0, num_rollouts=0, unreadable_steps=[], num_removed_steps=0
        )
        if last is None:
            return found
        at: Cursor | None = start or Cursor(step=last, index=0)
        with self._turn.turn():
            until = time.monotonic() + self._look_seconds
            while at is not None:
                at = self._stretch(run, wanted, at, found, limit, until)
                if len(found.hits) >= limit or time.monotonic() >= until:
                    break
        found.next = at
        return found

    def _stretch(
        self, run: RunOfRollouts, wanted: Wanted, at: Cursor, found: RolloutHits, limit: int, until: float
    ) -> Cursor | None:
        """Looks through some steps from `at` down; where to go on, none when there is nothing left."""
        with self._database.read_session() as session:
            steps = rollouts.steps_down(session, run.run_pk, run.lineage, at.step, _STEPS_AT_ONCE + 1)
            parts_of = rollouts.of_steps(session, run.run_pk, run.lineage, steps[:_STEPS_AT_ONCE])
        for step, following in zip(steps, [*steps[1:], None], strict=True):
            if step not in parts_of:
                return Cursor(step=step, index=0)
            parts = parts_of[step]
            source = run.source(step, parts)
            room, first = limit - len(found.hits), at.index if step == at.step else 0
            more = self._step(source, parts, wanted, first, room, found)
            if more is not None:
                found.num_rollouts += more - first
                return Cursor(step=step, index=more)
            found.num_steps += 1
            found.num_rollouts += max(0, sum(part.num_rollouts for part in parts) - first)
            if source.is_broken:
                found.unreadable_steps.append(step)
            elif source.faults:
                found.num_removed_steps += 1
            if following is not None and (len(found.hits) >= limit or time.monotonic() >= until):
                return Cursor(step=following, index=0)
        return None

    def _step(
        self,
        source: StepSource,
        parts: Sequence[Part],
        wanted: Wanted,
        from_index: int,
        room: int,
        found: RolloutHits,
    ) -> int | None:
        """Adds the step's hits; the first rollout that there was no room for, none when all fitted."""
        hits: list[RolloutHit] = []
        for number, document in self._stored.documents(source):
            if not wanted.may_be_in(document):
                continue
            first = sum(part.num_rollouts for part in parts[:number])
            taken = self._stored.taken_apart(source, partial(rollouts_of, document)) or []
            for index, rollout in enumerate(taken, first):
                place = None if index < from_index else found_in(wanted, rollout)
                if place is None:
                    continue
                if len(hits) == room:
                    found.hits += hits
                    return index
                hits.append(hit_of(source.moment, index, rollout, place))
        found.hits += hits
        return None
