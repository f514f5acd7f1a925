"""Whole series as columns of numbers: what a figure of a long run is drawn from."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import select
from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import TRAINER_SCOPE
from collapsewatch_server.tables import MetricPoint

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Columns(NamedTuple):
    """A series in step order; `low` and `high` are NaN where a point has no interval, None where none has."""

    steps: Ints
    values: Floats
    low: Floats | None
    high: Floats | None

    @property
    def num_bytes(self) -> int:
        """Memory that it takes."""
        return sum(column.nbytes for column in self if column is not None)

    def part(self, start: int, end: int) -> "Columns":
        """The points from position `start` to before `end`; shares memory with this one."""
        return self.at(slice(start, end))

    def at(self, positions: Ints | slice) -> "Columns":
        """The points at these positions."""
        low = None if self.low is None else self.low[positions]
        high = None if self.high is None else self.high[positions]
        return Columns(self.steps[positions], self.values[positions], low, high)


EMPTY = Columns(np.empty(0, np.int64), np.empty(0), None, None)


def read(
    session: Session, run_pk: int, scope: str, metric: str, since_step: int, attempt_pk: int | None = None
) -> Columns:
    """One metric from a step on: the run's own points, or those of one attempt."""
    of = MetricPoint.__table__.c
    # What a trainer sends has no intervals, and two columns less are half the time.
    limits = () if scope == TRAINER_SCOPE else (of.low, of.high)
    statement = (
        select(of.step, of.value, *limits)
        .where(of.run_pk == run_pk, of.scope == scope, of.metric == metric, of.step >= since_step)
        .where(~of.superseded if attempt_pk is None else of.attempt_pk == attempt_pk)
        .order_by(of.step)
    )
    result = session.connection().execute(statement)
    # The driver's own tuples: SQLAlchemy's rows would take half as long again.
    assert result.cursor is not None
    rows = result.cursor.fetchall()
    result.close()
    if not rows:
        return EMPTY
    # Steps are below 2**53 by contract, so they pass through a float unharmed; an absent limit becomes NaN.
    table = np.array(rows, dtype=np.float64)
    low, high = (_or_none(table[:, at]) for at in (2, 3)) if limits else (None, None)
    return Columns(table[:, 0].astype(np.int64), np.ascontiguousarray(table[:, 1]), low, high)


def _or_none(limit: Floats) -> Floats | None:
    return None if np.isnan(limit).all() else np.ascontiguousarray(limit)


def joined(before: Columns, tail: Columns) -> Columns:
    """The points of `before` up to the first step of `tail`, and then `tail`."""
    if len(tail.steps) == 0:
        return before
    kept = before.part(0, int(np.searchsorted(before.steps, tail.steps[0])))
    return Columns(
        np.concatenate([kept.steps, tail.steps]),
        np.concatenate([kept.values, tail.values]),
        _limits(kept.low, tail.low, len(kept.steps), len(tail.steps)),
        _limits(kept.high, tail.high, len(kept.steps), len(tail.steps)),
    )


def _limits(before: Floats | None, tail: Floats | None, num_before: int, num_tail: int) -> Floats | None:
    if before is None and tail is None:
        return None
    absent = np.nan
    return np.concatenate(
        [
            np.full(num_before, absent) if before is None else before,
            np.full(num_tail, absent) if tail is None else tail,
        ]
    )
