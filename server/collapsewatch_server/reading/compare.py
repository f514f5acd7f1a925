"""Several runs laid over one another: where they stand, their series on one axis, their ways."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import BATCH_SCOPE, TRAINER_SCOPE
from collapsewatch_server.db import Database
from collapsewatch_server.reading import compare_alignment as alignment
from collapsewatch_server.reading import compare_clocks as clocks
from collapsewatch_server.reading import compare_views as views
from collapsewatch_server.reading.compare_clocks import Clock
from collapsewatch_server.reading.compare_grouping import Group, grouped
from collapsewatch_server.reading.compare_heads import head_of
from collapsewatch_server.repositories import alerts, curves, metrics, runs
from collapsewatch_server.repositories.curves import CurvePoint
from collapsewatch_server.repositories.stretches import Window
from collapsewatch_server.tables import Run

MAX_RUNS = alignment.MAX_RUNS
_NUM_RECENT = 10
_ENDS_OF_SCORED = (
    "retrieval_skill",
    "retrieval_accuracy",
    "retrieval_chance",
    "mi_seq",
    "mi_ceiling",
    "conditional_entropy",
    "reasoning_entropy",
)
_ENDS_OF_BATCH = (
    "reward",
    "success",
    "reward_variance",
    "zero_variance_fraction",
    "valid_reasoning_rate",
    "reasoning_length",
)
_DIVERSITY, _DEPENDENCE = "diversity_ratio", "retrieval_skill"
_Ends = dict[str, dict[str, views.EndValue]]
_Limits = list[float | None]


class _Compared(NamedTuple):
    """The runs of a question that are there."""

    rows: list[tuple[Run, str]]
    missing: list[str]

    @property
    def pks(self) -> list[int]:
        return [run.id for run, _ in self.rows]

    @property
    def id_of(self) -> dict[int, str]:
        return {run.id: run.run_id for run, _ in self.rows}


class Comparison:
    """Reads, and changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def runs(
        self, run_ids: Sequence[str], scope: str, scalars: Sequence[str], group_by: Sequence[str]
    ) -> views.ComparedRuns:
        """Where the runs stand: settings, scorer, newest values, and the same of their groups.

        Args:
            scalars: which of the trainer's own values are wanted.
        """
        wanted = [
            *((scope, metric) for metric in _ENDS_OF_SCORED),
            *((BATCH_SCOPE, metric) for metric in _ENDS_OF_BATCH),
            *((TRAINER_SCOPE, metric) for metric in scalars),
        ]
        with self._database.read_session() as session:
            found = _find(session, run_ids)
            ends = _ends(curves.newest(session, found.pks, wanted, _NUM_RECENT))
            open_alerts = alerts.open_counts(session, found.pks)
            heads = [
                head_of(session, run, project, scope, open_alerts[run.id], ends.get(run.id, {}))
                for run, project in found.rows
            ]
        groups = _groups(found, group_by)
        return views.ComparedRuns(
            scope=scope,
            runs=heads,
            missing=found.missing,
            groups=[_group(group, [heads[position] for position in group.members]) for group in groups],
        )

    def series(
        self,
        run_ids: Sequence[str],
        scope: str,
        names: Sequence[str],
        *,
        axis: views.Axis = "step",
        max_points: int = 600,
        between: tuple[float, float] | None = None,
        intervals: bool = True,
        group_by: Sequence[str] = (),
    ) -> views.ComparedSeriesView:
        """The named metrics of the runs on one axis, each series cut down to about `max_points`.

        Args:
            between: the part of the axis that is shown; all of it without.
            intervals: whether those of single points are wanted.
        """
        with self._database.read_session() as session:
            found = _find(session, run_ids)
            spans = curves.spans(session, found.pks, scope, names)
            clock_of = _clocks(session, found, spans, axis, max_points)
            windows = _windows(spans, clock_of, between, max_points // 2)
            drawn = curves.drawn(session, windows, scope, names, with_limits=intervals)
            groups = _groups(found, group_by)
            means = curves.stretch_means(session, windows, scope, names) if groups else []
        series = _series(found, names, drawn, clock_of)
        curve_of = _curves(windows, means, clock_of)
        return views.ComparedSeriesView(
            scope=scope,
            axis=axis,
            series=series,
            groups={
                name: [
                    _band(number, [curve_of.get((pk, name)) for pk in _pks(found, group)], max_points // 2)
                    for number, group in enumerate(groups)
                ]
                for name in (names if groups else ())
            },
            unplaced=_unplaced(found, spans, clock_of, axis),
        )

    def paths(
        self, run_ids: Sequence[str], scope: str, *, max_points: int = 200, group_by: Sequence[str] = ()
    ) -> views.ComparedPaths:
        """The ways of the runs through the quadrant; a long one as the means of stretches of its steps."""
        with self._database.read_session() as session:
            found = _find(session, run_ids)
            spans = curves.spans(session, found.pks, scope, [_DEPENDENCE])
            windows = _windows(spans, None, None, max_points)
            means = curves.stretch_means(session, windows, scope, [_DIVERSITY, _DEPENDENCE])
        curve_of = _curves(windows, means, None)
        groups = _groups(found, group_by)
        paths = [_path(found.id_of[pk], curve_of, pk) for pk in found.pks if (pk, _DEPENDENCE) in curve_of]
        return views.ComparedPaths(
            scope=scope,
            paths=paths,
            groups=[
                _group_path(number, _pks(found, group), curve_of, max_points)
                for number, group in enumerate(groups)
            ],
        )


def _find(session: Session, run_ids: Sequence[str]) -> _Compared:
    rows, missing = [], []
    for run_id in run_ids:
        found = runs.find(session, run_id)
        if found is None:
            missing.append(run_id)
        else:
            rows.append(found)
    return _Compared(rows, missing)


def _groups(found: _Compared, group_by: Sequence[str]) -> list[Group]:
    return grouped([run.config for run, _ in found.rows], group_by) if group_by else []


def _pks(found: _Compared, group: Group) -> list[int]:
    return [found.pks[position] for position in group.members]


def _ends(newest: Mapping[tuple[int, str, str], Sequence[CurvePoint]]) -> dict[int, _Ends]:
    ends: dict[int, _Ends] = {}
    for (run_pk, scope, metric), points in newest.items():
        last = points[-1]
        ends.setdefault(run_pk, {}).setdefault(scope, {})[metric] = views.EndValue(
            step=last.step,
            value=last.value,
            low=last.low,
            high=last.high,
            recent_mean=float(np.mean([point.value for point in points])),
            num_recent=len(points),
        )
    return ends


def _group(group: Group, heads: Sequence[views.ComparedRun]) -> views.RunGroup:
    values: dict[tuple[str, str], list[float]] = {}
    for head in heads:
        for scope, ends in head.ends.items():
            for metric, end in ends.items():
                values.setdefault((scope, metric), []).append(end.value)
    means: dict[str, dict[str, views.EndMean]] = {}
    for (scope, metric), of_runs in sorted(values.items()):
        found = alignment.summary(of_runs)
        assert found is not None
        means.setdefault(scope, {})[metric] = views.EndMean(**found._asdict())
    return views.RunGroup(
        label=group.label, settings=group.settings, run_ids=[head.run_id for head in heads], ends=means
    )


def _clocks(
    session: Session,
    found: _Compared,
    spans: Mapping[int, tuple[int, int]],
    axis: views.Axis,
    max_points: int,
) -> dict[int, Clock] | None:
    """The clock of each run that has one; none on the axis of steps."""
    if axis == "step":
        return None
    # A clock counts from the run's own first step, whichever metric is asked for.
    whole = [
        _window(run.id, 0, max(run.last_step or 0, spans[run.id][1]), max_points)
        for run, _ in found.rows
        if run.id in spans
    ]
    names = {run_pk: metrics.names(session, run_pk) for run_pk in spans}
    read = clocks.time_clocks if axis == "time" else clocks.token_clocks
    return read(session, whole, names)


def _window(run_pk: int, first: int, last: int, num_stretches: int) -> Window:
    return Window(run_pk, first, last, max(1, -(-(last - first + 1) // num_stretches)))


def _windows(
    spans: Mapping[int, tuple[int, int]],
    clock_of: Mapping[int, Clock] | None,
    between: tuple[float, float] | None,
    num_stretches: int,
) -> list[Window]:
    """Which steps of each run are read; on the axis of steps all runs have the same stretches."""
    if not spans:
        return []
    if clock_of is None:
        first = min(low for low, _ in spans.values())
        last = max(high for _, high in spans.values())
        if between is not None:
            first, last = _within(first, last, *between)
        return [_window(run_pk, first, last, num_stretches) for run_pk in spans] if first <= last else []
    windows = []
    for run_pk, (first, last) in spans.items():
        if run_pk not in clock_of:
            continue
        if between is not None:
            low, high = (clock_of[run_pk].step_of(place) for place in between)
            first, last = _within(first, last, low, high)
        if first <= last:
            windows.append(_window(run_pk, first, last, num_stretches))
    return windows


def _within(first: int, last: int, low: float, high: float) -> tuple[int, int]:
    """The steps that lie between the bounds, and the ones next to these."""
    return int(np.floor(max(low, first))), int(np.ceil(min(high, last)))


def _series(
    found: _Compared,
    names: Sequence[str],
    drawn: Sequence[CurvePoint],
    clock_of: Mapping[int, Clock] | None,
) -> dict[str, list[views.ComparedSeries]]:
    points: dict[tuple[int, str], list[CurvePoint]] = {}
    for point in drawn:
        points.setdefault((point.run_pk, point.metric), []).append(point)
    return {
        name: [
            _one_series(found.id_of[pk], points[pk, name], None if clock_of is None else clock_of[pk])
            for pk in found.pks
            if (pk, name) in points
        ]
        for name in names
    }


def _one_series(run_id: str, points: Sequence[CurvePoint], clock: Clock | None) -> views.ComparedSeries:
    _, _, steps, values, low, high = zip(*points, strict=True)
    columns: dict[str, Any] = {"steps": steps, "values": values, "low": low, "high": high}
    places = None
    if clock is not None:
        at = clock.place_of(np.array(steps, dtype=float))
        kept = np.flatnonzero(np.isfinite(at))
        places = at[kept].tolist()
        columns = {name: [column[i] for i in kept] for name, column in columns.items()}
    for name in ("low", "high"):
        if all(limit is None for limit in columns[name]):
            columns[name] = None
    return views.ComparedSeries.model_construct(run_id=run_id, places=places, **_as_lists(columns))


def _as_lists(columns: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None if column is None else list(column) for name, column in columns.items()}


_Curves = dict[tuple[int, str], alignment.Curve]


def _curves(
    windows: Sequence[Window],
    means: Sequence[curves.StretchValue],
    clock_of: Mapping[int, Clock] | None,
) -> _Curves:
    """By run and metric the means of the stretches, each at the middle of its stretch."""
    window_of = {window.run_pk: window for window in windows}
    points: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for part in means:
        window = window_of[part.run_pk]
        middle = window.from_step + part.stretch * window.width + (window.width - 1) / 2
        points.setdefault((part.run_pk, part.metric), []).append((middle, part.value))
    found: _Curves = {}
    for (run_pk, metric), pairs in points.items():
        steps, values = np.array(pairs, dtype=float).T
        places = steps if clock_of is None else clock_of[run_pk].place_of(steps)
        there = np.isfinite(places)
        found[run_pk, metric] = alignment.Curve(places[there], values[there])
    return found


def _band(number: int, found: Sequence[alignment.Curve | None], max_places: int) -> views.GroupSeries:
    band = alignment.band([curve for curve in found if curve is not None], max_places)
    return views.GroupSeries.model_construct(
        group=number,
        places=band.places.tolist(),
        mean=band.mean.tolist(),
        low=_absent_as_none(band.low),
        high=_absent_as_none(band.high),
        lowest=band.lowest.tolist(),
        highest=band.highest.tolist(),
        num_runs=band.num_runs.tolist(),
    )


def _absent_as_none(values: alignment.Floats) -> _Limits:
    return [value if np.isfinite(value) else None for value in values.tolist()]


def _path(run_id: str, curve_of: _Curves, run_pk: int) -> views.RunPath:
    dependence = curve_of[run_pk, _DEPENDENCE]
    diversity = curve_of.get((run_pk, _DIVERSITY))
    known = np.full(len(dependence.places), np.nan)
    if diversity is not None:
        # Only what was measured at the same steps makes a place in the plane.
        at = dict(zip(diversity.places, diversity.values, strict=True))
        known = np.array([at.get(place, np.nan) for place in dependence.places])
    return views.RunPath.model_construct(
        run_id=run_id,
        steps=np.rint(dependence.places).astype(int).tolist(),
        diversity=_absent_as_none(known),
        dependence=dependence.values.tolist(),
    )


def _group_path(number: int, run_pks: Sequence[int], curve_of: _Curves, max_places: int) -> views.GroupPath:
    def of_metric(metric: str) -> alignment.Band:
        there = [curve_of[pk, metric] for pk in run_pks if (pk, metric) in curve_of]
        return alignment.band(there, max_places)

    dependence, diversity = of_metric(_DEPENDENCE), of_metric(_DIVERSITY)
    known = alignment.on_grid(alignment.Curve(diversity.places, diversity.mean), dependence.places)
    return views.GroupPath.model_construct(
        group=number,
        steps=dependence.places.tolist(),
        diversity=_absent_as_none(known),
        dependence=dependence.mean.tolist(),
        num_runs=dependence.num_runs.tolist(),
    )


def _unplaced(
    found: _Compared,
    spans: Mapping[int, tuple[int, int]],
    clock_of: Mapping[int, Clock] | None,
    axis: views.Axis,
) -> dict[str, str]:
    if clock_of is None:
        return {}
    reason = clocks.NO_TIMES if axis == "time" else clocks.NO_TOKENS
    return {run.run_id: reason for run, _ in found.rows if run.id in spans and run.id not in clock_of}
