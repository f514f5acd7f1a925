"""Stretches of steps of several runs, as tables that a statement is made over.

What is looked up in them is looked up by scalar subqueries: a join would let PostgreSQL read all points of
all runs to find a few of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import CTE, ColumnElement, Select, literal, literal_column, select, union_all

from collapsewatch_server.tables import MetricPoint, Run

Rows = Select[*tuple[Any, ...]]


class Window(NamedTuple):
    """The steps of one run that are read, in stretches of equal length."""

    run_pk: int
    from_step: int
    until_step: int
    """The last step, which is read as well."""
    width: int
    """Steps in a stretch; 1 reads every point."""

    @property
    def num_stretches(self) -> int:
        """How many stretches cover the steps."""
        return max(0, -(-(self.until_step - self.from_step + 1) // self.width))


def in_stretch(
    stretch: Any, begin: ColumnElement[Any], scope: str, metric: ColumnElement[Any]
) -> list[ColumnElement[bool]]:
    """Conditions for a point of the run's own series to lie in the stretch that begins there."""
    return [
        MetricPoint.run_pk == stretch.c.run_pk,
        MetricPoint.scope == scope,
        MetricPoint.metric == metric,
        MetricPoint.step >= begin,
        MetricPoint.step < begin + stretch.c.width,
        MetricPoint.step <= stretch.c.until_step,
        ~MetricPoint.superseded,
    ]


def stretches(windows: Sequence[Window], metrics: Sequence[str]) -> tuple[CTE, ColumnElement[Any]]:
    """Every stretch of every series, and where it begins."""
    window, number, metric = as_table(windows), numbers(windows), metric_table(metrics)
    begin = window.c.from_step + number.c.i * window.c.width
    stretch = (
        select(window, metric.c.metric, number.c.i)
        .select_from(window)
        .join(metric, literal(True))
        .join(number, begin <= window.c.until_step)
        .cte("stretches")
    )
    return stretch, stretch.c.from_step + stretch.c.i * stretch.c.width


def as_table(windows: Sequence[Window], *, name: str = "windows") -> CTE:
    """The windows as rows."""
    rows: list[Rows] = [
        select(*(literal_column(str(int(value))).label(field) for field, value in window._asdict().items()))
        for window in windows
    ]
    return union_all(*rows).cte(name)


def metric_table(metrics: Sequence[str], *, name: str = "metrics") -> CTE:
    """The names as rows."""
    return union_all(*(select(literal(metric).label("metric")) for metric in metrics)).cte(name)


def numbers(windows: Sequence[Window]) -> CTE:
    """0, 1, … as far as any window has stretches."""
    most = max(window.num_stretches for window in windows)
    number = select(literal_column("0").label("i")).cte("numbers", recursive=True)
    return number.union_all(select(number.c.i + 1).where(number.c.i + 1 < most))


def pairs(run_pks: Sequence[int], metrics: Sequence[str]) -> CTE:
    """Every run with every metric."""
    metric = metric_table(metrics)
    return (
        select(Run.id.label("run_pk"), metric.c.metric)
        .select_from(Run)
        .join(metric, literal(True))
        .where(Run.id.in_(run_pks))
        .cte("pairs")
    )
