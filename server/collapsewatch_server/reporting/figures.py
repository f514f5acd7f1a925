"""Charts as Plotly figures: plain data, for the report that draws itself where it is opened. Pure."""

from html import escape
from typing import Any

from collapsewatch_server.reporting import quadrant
from collapsewatch_server.reporting.charts import DrawnChart, DrawnLine, DrawnPath, DrawnQuadrant
from collapsewatch_server.reporting.palette import PALETTES, REGIME_NAMES, Palette, colour_of, dash_of

Json = dict[str, Any]
_PALETTE = PALETTES["light"]
_FONT = "Inter, 'Segoe UI', Roboto, 'Noto Sans', system-ui, sans-serif"


def figure_of(chart: DrawnChart | DrawnQuadrant, palette: Palette = _PALETTE) -> Json:
    """The chart as `{data, layout}`."""
    if isinstance(chart, DrawnQuadrant):
        return _quadrant_figure(chart, palette)
    return _line_figure(chart, palette)


def _layout(palette: Palette, *, num_lines: int) -> Json:
    axis: Json = {
        "gridcolor": palette.grid,
        "linecolor": palette.line,
        "zeroline": False,
        "tickfont": {"color": palette.text_soft},
        "title": {"font": {"color": palette.text_soft, "size": 12}},
    }
    return {
        "paper_bgcolor": palette.surface,
        "plot_bgcolor": palette.surface,
        "font": {"family": _FONT, "size": 12, "color": palette.text},
        "margin": {"l": 56, "r": 16, "t": 8, "b": 44},
        "height": 320,
        "hovermode": "x unified",
        "showlegend": num_lines > 1,
        "legend": {
            "orientation": "h",
            "y": -0.22,
            "traceorder": "normal",
            "font": {"color": palette.text_soft},
        },
        "xaxis": {**axis, "title": {**axis["title"], "text": "step"}},
        "yaxis": {**axis, "automargin": True},
    }


def _line_figure(chart: DrawnChart, palette: Palette) -> Json:
    data: list[Json] = []
    for line in chart.lines:
        data += _band(line, palette)
        data.append(_line(line, palette, is_stacked=chart.is_stacked, is_share=chart.is_share))
    layout = _layout(palette, num_lines=len(chart.lines))
    if chart.y_range == "from zero":
        layout["yaxis"]["rangemode"] = "tozero"
    elif chart.y_range is not None:
        layout["yaxis"]["range"] = list(chart.y_range)
    if chart.is_share:
        layout["yaxis"]["tickformat"] = ".0%"
    layout["shapes"] = [
        {
            "type": "line",
            "xref": "paper",
            "x0": 0,
            "x1": 1,
            "y0": level,
            "y1": level,
            "line": {"color": palette.muted, "width": 1, "dash": "dot"},
        }
        for level in chart.levels
    ]
    return {"data": data, "layout": layout}


def _line(line: DrawnLine, palette: Palette, *, is_stacked: bool, is_share: bool) -> Json:
    colour = colour_of(palette, line.colour)
    series = line.series
    style = {
        "color": colour,
        "width": 1.2 if line.is_level else 2,
        "dash": "dash" if line.is_level else dash_of(palette, line.colour),
    }
    trace: Json = {
        "type": "scatter",
        "mode": "lines+markers" if len(series.steps) == 1 else "lines",
        "name": as_plotly_text(line.name),
        "x": series.steps,
        "y": series.values,
        "line": style,
        "hovertemplate": "%{y:.1%}" if is_share else "%{y:.4~g}",
    }
    return {**trace, "stackgroup": "one", "fillcolor": rgba(colour, 0.6)} if is_stacked else trace


def _band(line: DrawnLine, palette: Palette) -> list[Json]:
    series = line.series
    if not line.has_band or series.low is None or series.high is None:
        return []
    hidden: Json = {
        "type": "scatter",
        "mode": "lines",
        "x": series.steps,
        "line": {"width": 0},
        "showlegend": False,
        "hoverinfo": "skip",
    }
    fill = rgba(colour_of(palette, line.colour), 0.16)
    return [
        {**hidden, "y": series.low},
        {**hidden, "y": series.high, "fill": "tonexty", "fillcolor": fill},
    ]


def _quadrant_figure(chart: DrawnQuadrant, palette: Palette) -> Json:
    points = [one for path in chart.paths for one in quadrant.placed(path.trajectory.points)]
    limits = chart.paths[0].trajectory.thresholds or quadrant.FLOORS
    shown = quadrant.ranges(points, limits)
    layout = _layout(palette, num_lines=len(chart.paths))
    layout["height"] = 460
    layout["hovermode"] = "closest"
    layout["xaxis"] |= {"range": list(shown.x)}
    layout["xaxis"]["title"]["text"] = "H(Z|X) ÷ baseline"
    layout["yaxis"] |= {"range": list(shown.y)}
    layout["yaxis"]["title"]["text"] = "retrieval skill"
    found = quadrant.regions(limits, shown)
    layout["shapes"] = [_region_shape(region, palette) for region in found]
    layout["annotations"] = [_region_name(region, palette, limits["low_dependence"]) for region in found]
    data = [trace for path in chart.paths for trace in _path_traces(path, palette)]
    return {"data": data, "layout": layout}


def _region_shape(region: quadrant.Region, palette: Palette) -> Json:
    place = {"x0": region.x0, "x1": region.x1, "y0": region.y0, "y1": region.y1}
    fill = rgba(palette.regimes[region.regime], 0.08)
    return {"type": "rect", "layer": "below", "line": {"width": 0}, "fillcolor": fill, **place}


def _region_name(region: quadrant.Region, palette: Palette, low: float) -> Json:
    is_high = region.y0 > low
    return {
        "text": REGIME_NAMES[region.regime],
        "x": (region.x0 + region.x1) / 2,
        "y": region.y1 if is_high else region.y0,
        "yanchor": "top" if is_high else "bottom",
        "showarrow": False,
        "font": {"color": palette.regimes[region.regime], "size": 12},
    }


def _path_traces(path: DrawnPath, palette: Palette) -> list[Json]:
    points = quadrant.placed(path.trajectory.points)
    colour = colour_of(palette, path.colour)
    name = as_plotly_text(path.name)
    trail: Json = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": [one.diversity for one in points],
        "y": [one.dependence for one in points],
        "text": [f"step {one.step:,}: {REGIME_NAMES.get(one.regime, one.regime)}" for one in points],
        "line": {"color": rgba(colour, 0.4), "width": 1},
        "marker": {"color": colour, "size": 5, "opacity": 0.7},
        "hovertemplate": "%{text}<br>diversity %{x:.3g}, skill %{y:.3g}<extra></extra>",
    }
    if not points:
        return [trail]
    last: Json = {
        **trail,
        "mode": "markers",
        "showlegend": False,
        "x": trail["x"][-1:],
        "y": trail["y"][-1:],
        "text": trail["text"][-1:],
        "marker": {"color": colour, "size": 13, "line": {"color": palette.surface, "width": 2}},
    }
    return [trail, last]


def as_plotly_text(name: str) -> str:
    """The name as Plotly shows it letter by letter; it takes a few tags for markup."""
    return escape(name, quote=False)


def rgba(colour: str, opacity: float) -> str:
    """A colour of the palette, partly transparent."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgba({red}, {green}, {blue}, {opacity:g})"
