"""Sends the steps of an import as a run: through a spool, each once, no faster than they are scored."""

import logging
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

from collapsewatch.arguments import validated
from collapsewatch.asking.errors import AskingFailedError
from collapsewatch.boundary import Boundary
from collapsewatch.contracts.rollouts import ReasoningTags, Rollout, RolloutBatch, ScalarPoint, Shard
from collapsewatch.contracts.runs import RunStart, RunState, RunUpdate
from collapsewatch.delivery import Delivery
from collapsewatch.encoding import model_json
from collapsewatch.errors import InvalidInputError
from collapsewatch.importers.scoring import Scoring
from collapsewatch.importers.steps import ImportFailedError, Step
from collapsewatch.ready import MAX_VALUES_PER_POINT
from collapsewatch.settings import Settings
from collapsewatch.spool import RecordKind

MAX_PART_BYTES = 96 * 2**20
"""A step whose JSON is larger goes in parts, as shards: well below what the server takes at once."""
_MAX_SPOOL_RECORDS = 32
_MAX_SPOOL_BYTES = 64 * 2**20
_MAX_WAITING = 48
"""Batches that wait to be scored while more are sent: fewer than the server keeps in line for one run."""
_LOOK_EVERY = 8
_PATIENCE_SECONDS = 120.0
_FINISH_SECONDS = 60.0
_FAILED_SECONDS = 5.0
_PAUSE_SECONDS = 0.02


@dataclass(frozen=True)
class BatchOptions:
    """What every batch of the import says beside its rollouts."""

    reasoning_tags: ReasoningTags = field(default_factory=ReasoningTags)
    reward_range: tuple[float, float] | None = None
    temperature: float | None = None


class Notes(Boundary):
    """Tells what the sender reports, once per sort, and remembers why nothing is taken any more."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__(strict=False)
        self._tell = tell
        self._kinds: set[str] = set()
        self.refusal: str | None = None

    def report(self, kind: str, message: str, *args: object, level: int = logging.WARNING) -> None:
        """Tells the first trouble of its kind."""
        told = message % args
        if kind.startswith("refused"):
            self.refusal = told
        if kind not in self._kinds:
            self._kinds.add(kind)
            self._tell(told)


class RunSender:
    """One run that is being sent. Open it with `sender_of`.

    Args:
        known: ids of batches that the server has, which are not sent again.
        scoring: waited for while too much waits; None: the server may put off or lay aside what is too much.
    """

    def __init__(
        self,
        start: RunStart,
        delivery: Delivery,
        notes: Notes,
        *,
        known: set[str],
        options: BatchOptions,
        scoring: Scoring | None,
    ) -> None:
        self._start = start
        self._delivery = delivery
        self._notes = notes
        self._known = known
        self._options = options
        self._scoring = scoring
        self.num_sent = 0
        """Steps that were sent now."""
        self.num_known = 0
        """Steps that the server had already."""

    def send(self, step: Step) -> None:
        """Hands one step over; returns when there is room for the next.

        Raises:
            ImportFailedError: the server takes nothing, or nothing of it is scored.
        """
        batches = list(self._batches(step))
        fresh = [batch for batch in batches if batch.batch_id not in self._known]
        if not fresh:
            self.num_known += 1
            return
        if self._notes.refusal is not None:
            raise ImportFailedError(self._notes.refusal)
        for batch in fresh:
            self._delivery.append_body(RecordKind.batch, model_json(batch), 1, time.time())
            self._make_room(_MAX_SPOOL_RECORDS, _MAX_SPOOL_BYTES)
        values = dict(list(step.values.items())[:MAX_VALUES_PER_POINT])
        if values:
            point = validated(ScalarPoint, step=step.number, values=values)
            self._delivery.append(RecordKind.scalars, point, len(values))
        self.num_sent += 1
        if self._scoring is not None and self.num_sent % _LOOK_EVERY == 0:
            self._scoring.wait(_MAX_WAITING)

    def finish(self, *, failed: bool = False) -> None:
        """Sends what is left and ends the run.

        Raises:
            ImportFailedError: something did not arrive.
        """
        if not failed:
            try:
                self._make_room(0, 0)
            except (ImportFailedError, AskingFailedError):
                self.finish(failed=True)
                raise
        state = RunState.failed if failed else RunState.finished
        last = RunUpdate(state=state, writer_id=self._start.writer_id)
        end = self._delivery.end(last, _FAILED_SECONDS if failed else _FINISH_SECONDS)
        if failed:
            return
        if end.num_left or self._notes.dropped:
            told = ", ".join(
                f"{what.replace('_', ' ')} {count}" for what, count in self._notes.dropped.items()
            )
            left = f"{end.num_left} records are not sent" if end.num_left else ""
            reason = self._notes.refusal or "; ".join(part for part in (left, told) if part)
            raise ImportFailedError(
                f"not all of it arrived: {reason}. The same command goes on with the rest"
            )

    def _batches(self, step: Step) -> Iterator[RolloutBatch]:
        """The step's batch, or its parts; their ids follow from what is in them."""
        whole = self._batch(step, step.rollouts, None)
        num_parts = math.ceil(len(model_json(whole)) / MAX_PART_BYTES)
        if num_parts <= 1:
            yield whole
            return
        size = math.ceil(len(step.rollouts) / num_parts)
        starts = range(0, len(step.rollouts), size)
        for index, first in enumerate(starts):
            shard = Shard(index=index, count=len(starts))
            yield self._batch(step, step.rollouts[first : first + size], shard)

    def _batch(self, step: Step, rollouts: Sequence[Rollout], shard: Shard | None) -> RolloutBatch:
        lowest, highest = self._options.reward_range or (None, None)
        assert self._start.attempt is not None
        try:
            batch = validated(
                RolloutBatch,
                batch_id="unnamed",
                step=step.number,
                policy_version=step.policy_version,
                temperature=self._options.temperature,
                reasoning_tags=self._options.reasoning_tags,
                reward_min=lowest,
                reward_max=highest,
                # Without a time of its own, so that the same content is the same batch whenever it is sent.
                attempt_id=self._start.attempt.attempt_id,
                shard=shard,
                rollouts=rollouts,
            )
        except InvalidInputError as error:
            raise ImportFailedError(f"{step.place}: step {step.number}: {error}") from error
        digest = blake2b(model_json(batch), digest_size=16).hexdigest()
        return batch.model_copy(update={"batch_id": f"{step.number}-{digest}"})

    def _make_room(self, max_records: int, max_bytes: int) -> None:
        """Waits while more than that is on disk which the server has not taken.

        Raises:
            ImportFailedError: the server takes nothing.
        """
        least, since = math.inf, time.monotonic()
        while True:
            status = self._delivery.spool.status()
            if status.num_records <= max_records and status.num_bytes <= max_bytes:
                return
            if self._notes.refusal is not None:
                raise ImportFailedError(self._notes.refusal)
            if status.num_records < least:
                least, since = status.num_records, time.monotonic()
            if time.monotonic() - since > _PATIENCE_SECONDS:
                raise ImportFailedError(f"the server took nothing for {_PATIENCE_SECONDS:.0f} s")
            time.sleep(_PAUSE_SECONDS)


@contextmanager
def sender_of(
    start: RunStart,
    settings: Settings,
    *,
    known: set[str],
    options: BatchOptions,
    scoring: Scoring | None,
    tell: Callable[[str], None],
) -> Iterator[RunSender]:
    """A sender whose run ends with the block, as failed when the block failed.

    Its spool is a folder that goes with it: whatever is lost there is still in what is imported.

    Raises:
        ImportFailedError: something did not arrive.
    """
    notes = Notes(tell)
    with tempfile.TemporaryDirectory(prefix="collapsewatch-import-") as folder:
        placed = replace(settings, spool_root=Path(folder) / "spool")
        delivery = Delivery(start, placed, notes, mode="online", rank=None)
        # An earlier import of the same has ended this writer, or was killed and could not.
        delivery.append(RecordKind.update, RunUpdate(state=RunState.running, writer_id=start.writer_id))
        sender = RunSender(start, delivery, notes, known=known, options=options, scoring=scoring)
        try:
            yield sender
        except BaseException:
            sender.finish(failed=True)
            raise
        sender.finish()
