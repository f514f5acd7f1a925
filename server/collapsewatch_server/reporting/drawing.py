"""Reads what charts and reports of runs show."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from collapsewatch.contracts.metrics import BATCH_SCOPE, FIRST_TURN_SCOPE, TRAINER_SCOPE
from collapsewatch_server.errors import ChartNotFound
from collapsewatch_server.reading.answers import Reading
from collapsewatch_server.reading.views import AlertView, RunDetail, Series
from collapsewatch_server.reporting import quadrant
from collapsewatch_server.reporting.charts import (
    PANELS,
    QUADRANT,
    DrawnChart,
    DrawnPath,
    DrawnQuadrant,
    Line,
    Panel,
    drawn,
    panel_of,
    trainer_panels,
)

Drawn = DrawnChart | DrawnQuadrant
MAX_POINTS = 2_000
_MAX_TRAINER_CHARTS = 24
# What stands on the vertical axis alone, where no scorer gives the other one.
_DEPENDENCE = Panel(
    QUADRANT,
    "scored",
    "Input dependence (diversity is unknown)",
    (Line("retrieval_skill", "retrieval skill", 0, has_band=True),),
)


@dataclass(frozen=True)
class ReportedRun:
    """What a report says of one run besides its charts."""

    run: RunDetail
    alerts: list[AlertView]
    newest: dict[str, dict[str, Series]]
    """By scope and metric, the last point of each series."""


class Drawing:
    """Reads charts of runs; whatever is long is cut down to what a picture can show."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def chart(self, run_ids: Sequence[str], chart_id: str, scope: str) -> Drawn:
        """One chart of the runs.

        Raises:
            RunNotFound: one of the runs is not there.
            ChartNotFound: there is no chart of that name, or the runs have no values for it.
        """
        runs = [(run_id, self._reading.run(run_id).name) for run_id in run_ids]
        found: Drawn | None
        if chart_id == QUADRANT:
            found = self._quadrant(runs, scope)
        else:
            panel = panel_of(chart_id)
            if panel is None:
                raise ChartNotFound(f"there is no chart {chart_id[:200]!r}")
            found = drawn(panel, runs, scope, self._read)
        if found is None:
            raise ChartNotFound("none of the runs has values for this chart")
        return found

    def all_charts(self, runs: Sequence[RunDetail], scope: str) -> list[Drawn]:
        """Every chart for which one of the runs has values, in the order of the page."""
        named = [(run.run_id, run.name) for run in runs]
        metrics = {name for run in runs for name in run.metrics.get(TRAINER_SCOPE, [])}
        panels = [*PANELS, *trainer_panels(sorted(metrics), _MAX_TRAINER_CHARTS)]
        found: list[Drawn | None] = [self._quadrant(named, scope)]
        found += [drawn(panel, named, scope, self._read) for panel in panels]
        return [chart for chart in found if chart is not None]

    def reported(self, run_id: str, scope: str) -> ReportedRun:
        """What a report says of one run besides its charts.

        Raises:
            RunNotFound: there is no such run.
        """
        run = self._reading.run(run_id)
        newest = {
            place: {name: _last(series) for name, series in self._read(run_id, place, names).items()}
            for place, names in run.metrics.items()
            if place in (scope, BATCH_SCOPE, TRAINER_SCOPE)
        }
        return ReportedRun(run, self._reading.alerts(run_id).alerts, newest)

    def _quadrant(self, runs: Sequence[tuple[str, str]], scope: str) -> Drawn | None:
        paths = [
            DrawnPath(name, self._reading.trajectory(run_id, scope, MAX_POINTS), number)
            for number, (run_id, name) in enumerate(runs)
        ]
        placed = [path for path in paths if quadrant.placed(path.trajectory.points)]
        if placed:
            return DrawnQuadrant(tuple(placed))
        return drawn(_DEPENDENCE, runs, scope, self._read)

    def _read(self, run_id: str, scope: str, names: Sequence[str]) -> Mapping[str, Series]:
        if not names:
            return {}
        return self._reading.series(run_id, scope, names, MAX_POINTS).series


def scope_of(runs: Sequence[RunDetail], wanted: str | None) -> str:
    """The scored scope to look at: the one asked for, else the first turns, else the first that there is."""
    if wanted is not None:
        return wanted
    scopes = [scope for run in runs for scope in run.scopes if scope not in (BATCH_SCOPE, TRAINER_SCOPE)]
    return FIRST_TURN_SCOPE if FIRST_TURN_SCOPE in scopes or not scopes else scopes[0]


def _last(series: Series) -> Series:
    return Series(
        steps=series.steps[-1:],
        values=series.values[-1:],
        low=None if series.low is None else series.low[-1:],
        high=None if series.high is None else series.high[-1:],
        num_points=series.num_points,
    )
