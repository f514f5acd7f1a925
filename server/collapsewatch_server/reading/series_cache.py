"""Long series that were read once, kept in memory and brought up to date by what the events table tells.

Every change of a run's own series is told by an event of the same transaction, with the step from which on
it counts, because open pages live by that. So a series that is here can be trusted up to the last event
that was seen, and only what came after is read again.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy.orm import Session

from collapsewatch_server.db import Database
from collapsewatch_server.repositories import attempts, columns, events
from collapsewatch_server.repositories.columns import Columns

DEFAULT_BYTES = 128 * 2**20
_POINT_BYTES = 32
"""Of a point with its step and its interval."""
_Place = tuple[str, str]


@dataclass
class _Run:
    """What is kept of one run."""

    signature: tuple[tuple[int, int | None], ...] = ()
    """The run's attempts: with another one, steps may belong to others than before."""
    last_event_id: int = -1
    lock: threading.Lock = field(default_factory=threading.Lock)
    series: dict[_Place, Columns] = field(default_factory=dict)
    stale_from: dict[_Place, int] = field(default_factory=dict)
    """First step that has to be read again, where there is one."""


class SeriesCache:
    """Keeps what was read last, up to `max_bytes`; any thread may ask."""

    def __init__(self, database: Database, max_bytes: int = DEFAULT_BYTES) -> None:
        self._database = database
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._runs: OrderedDict[int, _Run] = OrderedDict()

    def read(self, run_pk: int, scope: str, metrics: Sequence[str]) -> dict[str, Columns]:
        """The run's own series of these metrics, as they are in the database."""
        found = self._read(self._entry(run_pk), run_pk, scope, metrics)
        self._make_room()
        return found

    def read_ahead(self, run_pk: int, scope: str, metric: str, most_points: int) -> bool:
        """Reads a series that nobody has asked for yet, where there is plenty of room; says whether there is.

        It drives nothing out, and is the first to go.

        Args:
            most_points: as many the series may have.
        """
        with self._lock:
            entry = self._runs.get(run_pk, _Run())
            is_new = (scope, metric) not in entry.series
            if is_new and self._num_bytes() + most_points * _POINT_BYTES > self._max_bytes / 2:
                return False
            if run_pk not in self._runs:
                self._runs[run_pk] = entry
                self._runs.move_to_end(run_pk, last=False)
        self._read(entry, run_pk, scope, [metric])
        return True

    def _read(self, entry: _Run, run_pk: int, scope: str, metrics: Sequence[str]) -> dict[str, Columns]:
        # The session begins within the lock, so that nobody brings in what is older than what was noted.
        with entry.lock, self._database.read_session() as session:
            _note_changes(session, entry, run_pk)
            return {metric: _up_to_date(session, entry, run_pk, (scope, metric)) for metric in metrics}

    @property
    def num_bytes(self) -> int:
        """Memory that is taken."""
        with self._lock:
            return self._num_bytes()

    def _num_bytes(self) -> int:
        return sum(map(_num_bytes, self._runs.values()))

    def _entry(self, run_pk: int) -> _Run:
        with self._lock:
            entry = self._runs.setdefault(run_pk, _Run())
            self._runs.move_to_end(run_pk)
            return entry

    def _make_room(self) -> None:
        with self._lock:
            total = self._num_bytes()
            for run_pk in list(self._runs):
                if total <= self._max_bytes:
                    return
                total -= _num_bytes(self._runs.pop(run_pk))


def _num_bytes(entry: _Run) -> int:
    # A copy, because another thread may be adding to it. Metrics of the same steps share these.
    held = list(entry.series.values())
    steps = {id(one.steps): one.steps.nbytes for one in held}
    return sum(one.num_bytes - one.steps.nbytes for one in held) + sum(steps.values())


def _note_changes(session: Session, entry: _Run, run_pk: int) -> None:
    # The id comes first: what is written between two reads is then read once more, and never missed.
    oldest, newest = events.kept_ids(session)
    signature = tuple((one.pk, one.first_step) for one in attempts.of_run(session, run_pk).attempts)
    # Of what was told before the oldest event nothing can be learnt any more; and a newest one that goes
    # back is of another database.
    if entry.signature != signature or not oldest - 1 <= entry.last_event_id <= newest:
        entry.series.clear()
        entry.stale_from.clear()
    elif entry.last_event_id < newest:
        for scope, step in events.changed_steps(session, run_pk, entry.last_event_id):
            for place in entry.series:
                if scope in (None, place[0]):
                    entry.stale_from[place] = min(step or 0, entry.stale_from.get(place, step or 0))
    entry.signature = signature
    entry.last_event_id = newest


def _up_to_date(session: Session, entry: _Run, run_pk: int, place: _Place) -> Columns:
    known = entry.series.get(place)
    since_step = entry.stale_from.pop(place, None)
    if known is not None and since_step is None:
        return known
    tail = columns.read(session, run_pk, *place, since_step or 0)
    if known is None or since_step == 0:
        whole = tail
    else:
        assert since_step is not None
        whole = columns.joined(known.part(0, int(np.searchsorted(known.steps, since_step))), tail)
    entry.series[place] = _with_shared_steps(entry, whole)
    return entry.series[place]


def _with_shared_steps(entry: _Run, whole: Columns) -> Columns:
    for other in entry.series.values():
        if len(other.steps) == len(whole.steps) and np.array_equal(other.steps, whole.steps):
            return whole._replace(steps=other.steps)
    return whole
