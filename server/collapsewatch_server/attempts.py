"""Which attempt of a run counts at which step. Pure: attempts in, answers out.

A run that is started again replays steps. The last attempt (ordered by when it started) that reaches back to
a step owns it; what other attempts made of that step is superseded. Each attempt has a lineage of its own:
the owners of all steps if it and those before it were all there are. Folds run along lineages.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

DEFAULT_ATTEMPT = "default"
"""Id of the attempt to which everything belongs that names none."""


class Attempt(NamedTuple):
    """One start of the training, as far as the order of steps depends on it."""

    pk: int
    attempt_id: str
    started_at: float
    from_step: int | None = None
    """As declared."""
    first_step: int | None = None
    """It owns no step before this one: what was declared, else the smallest that arrived."""
    last_step: int | None = None

    def with_steps(self, first: int, last: int) -> "Attempt":
        """The attempt after steps `first` to `last` arrived in it."""
        known = self.first_step
        if self.from_step is None:
            known = first if known is None else min(known, first)
        return self._replace(
            first_step=known, last_step=last if self.last_step is None else max(self.last_step, last)
        )

    def as_declared(self, started_at: float, from_step: int | None) -> "Attempt":
        """The attempt after one more process of it said when and where it began; the earliest counts."""
        declared = min((step for step in (self.from_step, from_step) if step is not None), default=None)
        return self._replace(
            started_at=min(self.started_at, started_at),
            from_step=declared,
            first_step=self.first_step if declared is None else declared,
        )


class Segment(NamedTuple):
    """Steps that one attempt owns in a lineage."""

    from_step: int
    until_step: int | None
    """The first step that is no longer its own; none for all to come."""
    attempt_pk: int


class Move(NamedTuple):
    """Steps that went from one owner to another."""

    from_step: int
    until_step: int | None
    before_pk: int | None
    after_pk: int | None


class Lineages:
    """The attempts of a run in their order, and who owns which step."""

    def __init__(self, attempts: Iterable[Attempt]) -> None:
        self.attempts = tuple(sorted(attempts, key=lambda one: (one.started_at, one.attempt_id)))
        self._positions = {attempt.pk: position for position, attempt in enumerate(self.attempts)}
        self._lineages: dict[int, tuple[Segment, ...]] = {}

    def __contains__(self, attempt_pk: object) -> bool:
        return attempt_pk in self._positions

    def named(self, attempt_id: str) -> Attempt | None:
        """The attempt of this id."""
        return next((one for one in self.attempts if one.attempt_id == attempt_id), None)

    def with_attempt(self, attempt: Attempt) -> "Lineages":
        """The same with this attempt added, or in place of the one that it was."""
        return Lineages([*(one for one in self.attempts if one.pk != attempt.pk), attempt])

    def of(self, attempt_pk: int) -> tuple[Segment, ...]:
        """The attempt's lineage in step order, without gaps from step 0 on; empty before any step.

        Steps before the first that anybody declared or sent belong to whoever owns that first step.
        """
        if attempt_pk not in self._lineages:
            self._lineages[attempt_pk] = _lineage(self.attempts[: self._positions[attempt_pk] + 1])
        return self._lineages[attempt_pk]

    @property
    def run(self) -> tuple[Segment, ...]:
        """The run's own lineage: that of its last attempt."""
        return self.of(self.attempts[-1].pk) if self.attempts else ()

    @property
    def last_step(self) -> int | None:
        """The last step that arrived of those that the run's own lineage holds; the steps replayed do not."""
        for segment in reversed(self.run):
            last = self.attempts[self._positions[segment.attempt_pk]].last_step
            if last is not None and last >= segment.from_step:
                return last if segment.until_step is None else min(last, segment.until_step - 1)
        return None

    def owner(self, attempt_pk: int, step: int) -> int | None:
        """Who owns the step in the attempt's lineage."""
        return _owner(self.of(attempt_pk), step)

    def is_superseded(self, attempt_pk: int, step: int) -> bool:
        """Whether another attempt owns the step."""
        return _owner(self.run, step) not in (None, attempt_pk)

    def superseded_from(self, attempt_pk: int) -> int | None:
        """The first of the attempt's steps that a later attempt replayed; none when all are its own."""
        attempt = self.attempts[self._positions[attempt_pk]]
        own = next((one for one in self.run if one.attempt_pk == attempt_pk), None)
        return attempt.first_step if own is None else own.until_step

    def own_from(self, attempt_pk: int) -> int | None:
        """First step that the attempt owns in its own lineage; none when it has no step."""
        own = next((one for one in self.of(attempt_pk) if one.attempt_pk == attempt_pk), None)
        return None if own is None else own.from_step

    def before(self, attempt_pk: int, step: int) -> Iterator[Segment]:
        """The attempt's lineage before `step`, cut off there, backwards."""
        for segment in reversed(self.of(attempt_pk)):
            if segment.from_step < step:
                until = step if segment.until_step is None else min(step, segment.until_step)
                yield segment._replace(until_step=until)

    def building_on(self, attempt_pk: int, step: int) -> Iterator[Attempt]:
        """The later attempts, in order, whose lineage holds this attempt's `step`.

        They end with the first that reaches back to the step itself: whoever comes later builds on that one.
        """
        for attempt in self.attempts[self._positions[attempt_pk] + 1 :]:
            if attempt.first_step is None:
                continue
            if attempt.first_step <= step:
                return
            yield attempt


def changed_from(before: Lineages, after: Lineages) -> dict[int, int]:
    """First step that changed hands in each lineage of `after`; without the attempts that kept theirs."""
    found = {}
    for attempt in after.attempts[_num_alike(before, after) :]:
        was = before.of(attempt.pk) if attempt.pk in before else ()
        move = next(_moves(was, after.of(attempt.pk)), None)
        if move is not None:
            found[attempt.pk] = move.from_step
    return found


def moved(before: Lineages, after: Lineages) -> list[Move]:
    """The steps of the run that changed hands, in step order."""
    return list(_moves(before.run, after.run))


def _lineage(attempts: Sequence[Attempt]) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    until: int | None = None
    for attempt in reversed(attempts):
        first = attempt.first_step
        if first is not None and (until is None or first < until):
            segments.append(Segment(first, until, attempt.pk))
            until = first
    if segments:
        segments[-1] = segments[-1]._replace(from_step=0)
    return tuple(reversed(segments))


def _num_alike(before: Lineages, after: Lineages) -> int:
    """How many attempts at the start of both are alike: a lineage depends on none that come later."""
    pairs = zip(before.attempts, after.attempts, strict=False)
    alike = takewhile(
        lambda pair: (pair[0].pk, pair[0].first_step) == (pair[1].pk, pair[1].first_step), pairs
    )
    return sum(1 for _ in alike)


def _moves(was: Sequence[Segment], becomes: Sequence[Segment]) -> Iterator[Move]:
    starts = sorted({segment.from_step for segment in (*was, *becomes)})
    for position, start in enumerate(starts):
        until = starts[position + 1] if position + 1 < len(starts) else None
        before_pk, after_pk = _owner(was, start), _owner(becomes, start)
        if before_pk != after_pk:
            yield Move(start, until, before_pk, after_pk)


def _owner(lineage: Sequence[Segment], step: int) -> int | None:
    if not lineage:
        return None
    return lineage[bisect_right(lineage, step, key=lambda segment: segment.from_step) - 1].attempt_pk
