"""Series and trajectories of any length, cut down to what a figure can show."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import BATCH_SCOPE, FIRST_TURN_SCOPE
from collapsewatch_server.db import Database
from collapsewatch_server.reading import views
from collapsewatch_server.reading.downsample import positions, thinned, window
from collapsewatch_server.reading.series_cache import SeriesCache
from collapsewatch_server.repositories import columns, evaluations, metrics, run_list
from collapsewatch_server.repositories.columns import Columns, Floats, Ints

log = logging.getLogger(__name__)

_AXES = ("retrieval_skill", "diversity_ratio")
"""The metrics that the axes of the quadrant are made of."""

# Of all series of one answer: some 100 MB of JSON. A run may have thousands of metrics.
_MOST_POINTS = 2_000_000
_LEAST_POINTS = 10
# To read a series of so many steps for the first time takes longer than to draw it.
_LONG_STEPS = 10_000
_NUM_WARM = 4


@dataclass(frozen=True)
class Stretch:
    """Which steps are asked for."""

    since_step: int = 0
    """The first, and nothing before it: what came after the last answer."""
    from_step: int | None = None
    """With `to_step` the steps that a figure shows: the points next to them come along."""
    to_step: int | None = None

    @property
    def is_update(self) -> bool:
        """Whether all is here already but the newest steps."""
        return self.since_step > 0 and self.from_step is None and self.to_step is None

    def of(self, whole: Columns) -> Columns:
        """The points of the series that are asked for."""
        if self.since_step > 0:
            whole = whole.part(int(np.searchsorted(whole.steps, self.since_step)), len(whole.steps))
        if self.from_step is None and self.to_step is None:
            return whole
        return window(whole, self.from_step or 0, self.to_step)


ALL = Stretch()


class SeriesReading:
    """Reads series and trajectories, of the run itself or of one attempt."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache = SeriesCache(database)
        self._is_closed = False

    def series(
        self,
        run_pk: int,
        scope: str,
        names: Sequence[str],
        *,
        stretch: Stretch,
        max_points: int,
        attempt_pk: int | None,
    ) -> views.SeriesView:
        """The named series, or all of the scope, each cut down to `max_points`; very many to fewer."""
        found = self._columns(run_pk, scope, names, stretch, attempt_pk)
        max_points = min(max_points, max(_LEAST_POINTS, _MOST_POINTS // max(1, len(found))))
        return views.SeriesView(
            scope=scope,
            series={name: _view(stretch.of(whole), max_points) for name, whole in found.items()},
        )

    def trajectory(
        self, run_pk: int, scope: str, *, stretch: Stretch, max_points: int, attempt_pk: int | None
    ) -> views.TrajectoryView:
        """The way through the quadrant, with the regions as they are now.

        Of a long run these are its ends, its newest evaluation and the extremes along both axes.
        """
        axes = self._columns(run_pk, scope, _AXES, stretch, attempt_pk)
        steps = _steps_to_show([stretch.of(axis) for axis in axes.values()], max_points)
        with self._database.read_session() as session:
            newest = evaluations.newest(session, run_pk, scope, attempt_pk)
            if steps is None:
                points, num_points = _every_point(session, run_pk, scope, stretch, attempt_pk)
            else:
                chosen, num_points = steps
                last = [] if newest is None or stretch.to_step is not None else [newest.step]
                wanted = np.union1d(chosen, np.array(last, np.int64)).tolist()
                points = evaluations.trajectory_at(session, run_pk, scope, wanted, attempt_pk)
        output = (newest.fold_output if newest else None) or {}
        return views.TrajectoryView(
            scope=scope,
            points=[
                views.TrajectoryPoint.model_validate({**fold, "step": step, "scorer": scorer["label"]})
                for step, scorer, fold in points
            ],
            num_points=num_points,
            thresholds=output.get("thresholds"),
            baseline=output.get("baseline"),
        )

    def warm(self) -> None:
        """Reads what the pages of the long runs that were active last show first, before anybody asks."""
        try:
            with self._database.read_session() as session:
                longest = run_list.longest_lived(session, _LONG_STEPS, _NUM_WARM)
            for run_pk, last_step in longest:
                self._warm_run(run_pk, last_step)
        except SQLAlchemyError as error:
            # Whoever asks reads it then.
            log.warning("long series could not be read ahead", extra={"error": type(error).__name__})

    def _warm_run(self, run_pk: int, last_step: int) -> None:
        with self._database.read_session() as session:
            names = metrics.names(session, run_pk)
        # One by one: whoever asks meanwhile, or ends the server, waits for one series at most.
        for scope in (FIRST_TURN_SCOPE, BATCH_SCOPE):
            for name in names.get(scope, []):
                if self._is_closed or not self._cache.read_ahead(run_pk, scope, name, last_step + 1):
                    return

    def close(self) -> None:
        """Has it read nothing more ahead."""
        self._is_closed = True

    def _columns(
        self, run_pk: int, scope: str, names: Sequence[str], stretch: Stretch, attempt_pk: int | None
    ) -> dict[str, Columns]:
        with self._database.read_session() as session:
            wanted = names or metrics.names(session, run_pk, attempt_pk).get(scope, [])
            if stretch.is_update or attempt_pk is not None:
                return {
                    name: columns.read(session, run_pk, scope, name, stretch.since_step, attempt_pk)
                    for name in wanted
                }
        return self._cache.read(run_pk, scope, wanted)


def _view(asked: Columns, max_points: int) -> views.Series:
    cut = thinned(asked, max_points)
    return views.Series(
        steps=cut.steps.tolist(),
        values=cut.values.tolist(),
        low=_limits(cut.low),
        high=_limits(cut.high),
        num_points=len(asked.steps),
    )


def _limits(column: Floats | None) -> list[float | None] | None:
    if column is None or np.isnan(column).all():
        return None
    return [None if limit != limit else limit for limit in column.tolist()]


def _steps_to_show(axes: Sequence[Columns], max_points: int) -> tuple[Ints, int] | None:
    """The steps at which the path turns, and of how many they are; None when all of them can be shown."""
    every = np.unique(np.concatenate([axis.steps for axis in axes]))
    if len(every) <= max_points:
        return None
    each = max(4, max_points // len(axes))
    shown = [axis.steps[positions(axis.steps, axis.values, each)] for axis in axes if len(axis.steps)]
    return np.unique(np.concatenate(shown)), len(every)


def _every_point(
    session: Session, run_pk: int, scope: str, stretch: Stretch, attempt_pk: int | None
) -> tuple[list[evaluations.TrajectoryRow], int]:
    first = max(stretch.since_step, stretch.from_step or 0)
    rows = evaluations.trajectory(session, run_pk, scope, first, attempt_pk, until_step=stretch.to_step)
    return rows, len(rows)
