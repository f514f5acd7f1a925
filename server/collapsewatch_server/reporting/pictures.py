"""Charts as PNG and SVG, drawn on the server without a browser."""

import io
import threading
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from collapsewatch_server.reporting import quadrant
from collapsewatch_server.reporting.charts import DrawnChart, DrawnLine, DrawnPath, DrawnQuadrant
from collapsewatch_server.reporting.palette import (
    PALETTES,
    REGIME_NAMES,
    Palette,
    PictureFormat,
    Theme,
    colour_of,
    dash_of,
)

_DPI = 144
_CSS_DPI = 96
_MAX_NAME = 60
_STYLES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3))}
# Text stays text in an SVG, and no part of a name is set as a formula.
_SETTINGS: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "svg.hashsalt": "collapsewatch",
}
# Its font cache is shared and not made for threads.
_drawing = threading.Lock()


def picture(
    chart: DrawnChart | DrawnQuadrant,
    picture_format: PictureFormat,
    *,
    theme: Theme,
    width: int,
    height: int,
) -> bytes:
    """The chart as a picture; `width` and `height` in CSS pixels, of which a PNG has one and a half each."""
    palette = PALETTES[theme]
    with _drawing, rc_context(_SETTINGS):
        figure = Figure(
            figsize=(width / _CSS_DPI, height / _CSS_DPI),
            dpi=_DPI,
            facecolor=palette.surface,
            layout="constrained",
        )
        axes = figure.add_subplot()
        _dress(axes, chart.title, palette)
        if isinstance(chart, DrawnQuadrant):
            _draw_quadrant(axes, chart, palette)
        else:
            _draw_lines(axes, chart, palette)
        file = io.BytesIO()
        if picture_format == "png":
            figure.savefig(file, format="png", dpi=_DPI, metadata={"Software": "collapsewatch"})
        else:
            figure.savefig(file, format="svg", metadata={"Date": None, "Creator": "collapsewatch"})
    return file.getvalue()


def _dress(axes: Axes, title: str, palette: Palette) -> None:
    axes.set_facecolor(palette.surface)
    axes.set_title(_short(title), loc="left", color=palette.text, fontsize=11, fontweight="bold")
    axes.grid(visible=True, color=palette.grid, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=palette.text_soft, labelsize=9, length=0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(palette.line)


def _draw_lines(axes: Axes, chart: DrawnChart, palette: Palette) -> None:
    if chart.is_stacked:
        _draw_stack(axes, chart, palette)
    else:
        for line in chart.lines:
            _draw_line(axes, line, palette)
    for level in chart.levels:
        axes.axhline(level, color=palette.muted, linewidth=1, linestyle=":")
    if chart.y_range == "from zero":
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
    elif chart.y_range is not None:
        axes.set_ylim(chart.y_range)
    if chart.is_share:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("step", color=palette.text_soft, fontsize=9)
    _legend(axes, palette, num=len(chart.lines))


def _draw_line(axes: Axes, line: DrawnLine, palette: Palette) -> None:
    colour = colour_of(palette, line.colour)
    series = line.series
    style: Any = "--" if line.is_level else _STYLES[dash_of(palette, line.colour)]
    # A single point is no line.
    marker = "o" if len(series.steps) == 1 else None
    axes.plot(
        series.steps,
        series.values,
        color=colour,
        linewidth=1.1 if line.is_level else 1.8,
        linestyle=style,
        marker=marker,
        markersize=4,
        label=_short(line.name),
    )
    if line.has_band and series.low is not None and series.high is not None:
        low = [float("nan") if value is None else value for value in series.low]
        high = [float("nan") if value is None else value for value in series.high]
        axes.fill_between(series.steps, low, high, color=colour, alpha=0.16, linewidth=0)


def _draw_stack(axes: Axes, chart: DrawnChart, palette: Palette) -> None:
    steps = sorted({step for line in chart.lines for step in line.series.steps})
    at = [dict(zip(line.series.steps, line.series.values, strict=True)) for line in chart.lines]
    axes.stackplot(
        steps,
        [[values.get(step, 0.0) for step in steps] for values in at],
        labels=[_short(line.name) for line in chart.lines],
        colors=[colour_of(palette, line.colour) for line in chart.lines],
        alpha=0.75,
    )


def _draw_quadrant(axes: Axes, chart: DrawnQuadrant, palette: Palette) -> None:
    points = [one for path in chart.paths for one in quadrant.placed(path.trajectory.points)]
    first = chart.paths[0].trajectory
    limits = first.thresholds or quadrant.FLOORS
    shown = quadrant.ranges(points, limits)
    for region in quadrant.regions(limits, shown):
        colour = palette.regimes[region.regime]
        axes.fill_between([region.x0, region.x1], region.y0, region.y1, color=colour, alpha=0.08, linewidth=0)
        is_high = region.y0 > limits["low_dependence"]
        axes.annotate(
            REGIME_NAMES[region.regime],
            ((region.x0 + region.x1) / 2, region.y1 if is_high else region.y0),
            xytext=(0, -6 if is_high else 6),
            textcoords="offset points",
            ha="center",
            va="top" if is_high else "bottom",
            color=colour,
            fontsize=8.5,
            fontweight="bold",
        )
    for path in chart.paths:
        _draw_path(axes, path, palette)
    axes.set_xlim(shown.x)
    axes.set_ylim(shown.y)
    axes.set_xlabel("H(Z|X) ÷ baseline", color=palette.text_soft, fontsize=9)
    axes.set_ylabel("retrieval skill", color=palette.text_soft, fontsize=9)
    _legend(axes, palette, num=len(chart.paths))


def _draw_path(axes: Axes, path: DrawnPath, palette: Palette) -> None:
    points = quadrant.placed(path.trajectory.points)
    colour = colour_of(palette, path.colour)
    across, up = quadrant.places(points)
    axes.plot(across, up, color=colour, linewidth=1, alpha=0.45)
    axes.plot(across, up, "o", color=colour, markersize=3, alpha=0.7, label=_short(path.name))
    if points:
        axes.plot(across[-1:], up[-1:], "o", color=colour, markersize=9, markeredgecolor=palette.surface)
        axes.annotate(
            f"step {points[-1].step:,}",
            (across[-1], up[-1]),
            xytext=(8, 0),
            textcoords="offset points",
            va="center",
            color=palette.text,
            fontsize=8.5,
        )


def _legend(axes: Axes, palette: Palette, *, num: int) -> None:
    if num < 2:
        return
    legend = axes.legend(fontsize=8, frameon=False, loc="best", ncols=1 if num <= 6 else 2)
    for text in legend.get_texts():
        text.set_color(palette.text_soft)


def _short(name: str) -> str:
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}…"
