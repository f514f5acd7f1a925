"""Answers what the model wrote at any step of a run, from the batches in the blob store."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from sqlalchemy.orm import Session

from collapsewatch.blobs import BlobStore
from collapsewatch_server.attempts import Lineages, Segment
from collapsewatch_server.db import Database
from collapsewatch_server.errors import (
    AttemptNotFound,
    RolloutNotFound,
    RunNotFound,
    StepNotFound,
    TextRemoved,
    TooBusy,
    wrong,
)
from collapsewatch_server.reading import rollout_texts
from collapsewatch_server.reading.rollout_texts import FoundRollout
from collapsewatch_server.reading.rollout_views import RolloutDetail, RolloutList
from collapsewatch_server.reading.stored_batches import MAX_BYTES, StepSource, StoredBatches
from collapsewatch_server.reading.token_series import ScorerTokens, with_tokens
from collapsewatch_server.reading.traces import Moment
from collapsewatch_server.repositories import attempts, rollouts, runs
from collapsewatch_server.repositories.rollouts import Part, Told

_WAIT_SECONDS = 5.0


class RunOfRollouts:
    """A run, or one attempt of it, as far as its rollouts are to be found."""

    def __init__(self, session: Session, run_id: str, attempt_id: str | None) -> None:
        """Raises RunNotFound or AttemptNotFound."""
        found = runs.find(session, run_id)
        if found is None:
            raise RunNotFound(run_id)
        self.run_pk = found[0].id
        lineages = attempts.of_run(session, self.run_pk)
        self.names = {attempt.pk: attempt.attempt_id for attempt in lineages.attempts}
        self.lineage = _lineage(lineages, attempt_id)

    def source(self, step: int, parts: Sequence[Part]) -> StepSource:
        """Where the rollouts of the step are to be read."""
        attempt_id = self.names.get(parts[0].attempt_pk or 0, "")
        return StepSource(Moment(step, attempt_id), [part.blob_key for part in parts])


def _lineage(lineages: Lineages, attempt_id: str | None) -> tuple[Segment, ...]:
    if attempt_id is None:
        return lineages.run
    attempt = lineages.named(attempt_id)
    if attempt is None:
        raise AttemptNotFound(attempt_id)
    return (Segment(0, None, attempt.pk),)


class OneAtATime:
    """Lets one batch be read at a time: the largest takes 150 MiB, which many readers would multiply."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Holds the turn for the block.

        Raises:
            TooBusy: others have held it for too long.
        """
        if not self._lock.acquire(timeout=_WAIT_SECONDS):
            raise TooBusy("other rollouts are being read; try again", 1)
        try:
            yield
        finally:
            self._lock.release()


class RolloutReading:
    """Reads rollouts, and changes nothing."""

    def __init__(self, database: Database, blobs: BlobStore, *, max_bytes: int = MAX_BYTES) -> None:
        self._database = database
        self._stored = StoredBatches(blobs, max_bytes=max_bytes)
        self._tokens = ScorerTokens(blobs)
        self._turn = OneAtATime()

    def listed(
        self,
        run_id: str,
        step: int | None,
        attempt_id: str | None,
        *,
        group: str | None,
        order: str,
        offset: int,
        limit: int,
    ) -> RolloutList:
        """Rollouts of the step, or of the last step.

        Raises:
            StepNotFound: nothing arrived for the step, or at all.
        """
        with self._database.read_session() as session:
            run = RunOfRollouts(session, run_id, attempt_id)
            if step is None:
                step = rollouts.last_step(session, run.run_pk, run.lineage)
            parts = [] if step is None else rollouts.of_step(session, run.run_pk, run.lineage, step)
            if step is None or not parts:
                raise _no_step(step)
            around = rollouts.around(session, run.run_pk, run.lineage, step)
        source = run.source(step, parts)
        with self._turn.turn():
            rows = [
                rollout_texts.row_of(index, rollout)
                for index, rollout in self._stored.indexed(source, [part.num_rollouts for part in parts])
            ]
        found = [row for row in rows if group is None or row.group_id == group]
        assert around.first is not None
        assert around.last is not None
        return RolloutList(
            step=step,
            attempt_id=source.moment.attempt_id,
            policy_version=parts[0].policy_version,
            first_step=around.first,
            previous_step=around.previous,
            next_step=around.next,
            last_step=around.last,
            num_rollouts=sum(part.num_rollouts for part in parts),
            num_found=len(found),
            offset=offset,
            rollouts=rollout_texts.in_order(found, order)[offset : offset + limit],
            reason=source.words(),
            text_removed=source.is_removed,
        )

    def one(self, run_id: str, step: int, index: int, attempt_id: str | None) -> RolloutDetail:
        """One rollout as it can be read.

        Raises:
            StepNotFound: nothing arrived for the step.
            RolloutNotFound: the step has fewer, or the batch cannot be read.
            TextRemoved: the project does not keep its text any longer.
        """
        with self._database.read_session() as session:
            run = RunOfRollouts(session, run_id, attempt_id)
            parts = rollouts.of_step(session, run.run_pk, run.lineage, step)
            if not parts:
                raise _no_step(step)
            told = rollouts.told_of(session, parts)
        part, position = _place(parts, index)
        source = run.source(step, [part])
        if source.is_removed:
            raise TextRemoved(step)
        with self._turn.turn():
            found = self._found(source, position)
        if found is None:
            reason = source.words() or f"step {step} has no rollout {index}"
            raise RolloutNotFound(reason, [wrong("index", "it cannot be read", index)])
        key = None if told is None else told.tokens_key
        scored = self._tokens.of_rollout(key, index) if key else []
        rollout = found.rollout
        turns = list(rollout_texts.turn_views(rollout))
        return RolloutDetail(
            step=step,
            attempt_id=source.moment.attempt_id,
            index=index,
            num_rollouts=sum(one.num_rollouts for one in parts),
            group_id=rollout.group_id,
            rollout_id=rollout.rollout_id,
            reward=rollout.reward,
            success=rollout.success,
            policy_version=part.policy_version,
            temperature=found.temperature,
            open_tag=found.tags.open if found.has_tags else None,
            close_tag=found.tags.close if found.has_tags else None,
            turns=with_tokens(turns, rollout, scored, "" if told is None else str(told.scorer["label"])),
            num_turns=len(rollout.turns),
            tokens_reason=None if scored else _why_no_tokens(told),
        )

    def _found(self, source: StepSource, position: int) -> FoundRollout | None:
        for _, document in self._stored.documents(source):
            take = partial(rollout_texts.rollout_at, document, position)
            return self._stored.taken_apart(source, take)
        return None


def _why_no_tokens(told: Told | None) -> str:
    if told is None:
        return "the step is not scored yet"
    if told.scorer.get("kind") == "lexical":
        return "the scorer compares words and gives no log-probs"
    return str(told.absent.get("token_log_probs", "this reasoning was not scored"))


def _place(parts: Sequence[Part], index: int) -> tuple[Part, int]:
    """The part that holds the rollout, and its position there."""
    position = index
    for part in parts:
        if position < part.num_rollouts:
            return part, position
        position -= part.num_rollouts
    num = sum(part.num_rollouts for part in parts)
    raise RolloutNotFound(f"the step has {num} rollouts", [wrong("index", "no such rollout", index)])


def _no_step(step: int | None) -> StepNotFound:
    if step is None:
        return StepNotFound("the run has no rollouts yet", [wrong("step", "no rollouts", None)])
    return StepNotFound(f"step {step} has no rollouts", [wrong("step", "no rollouts", step)])
