"""The plot of the alert benchmark, as a small SVG: how long each change goes on before the warning."""

from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH = 860
_LEFT = 330
_RIGHT = 40
_TOP = 70
_ROW = 40
_BAR = 12
_FOOT = 44
_OURS = "#1f6feb"
_THEIRS = "#8a919d"
_TITLE = "Evaluations from the change to the warning"
_SUBTITLE = (
    "Median, whisker to the 95th percentile; the plain detector has one parameter for all runs and no more"
)
_SUBTITLE_2 = "false alarms than ours. No bar: half of the runs or more were missed."


@dataclass(frozen=True, slots=True)
class Line:
    """One change."""

    title: str
    ours: float | None
    ours_p95: float | None
    theirs: float | None
    theirs_p95: float | None
    their_name: str


def svg(lines: Sequence[Line]) -> str:
    """The plot; its axis begins at 0, so lengths compare.

    Raises:
        ValueError: nothing to draw.
    """
    if not lines:
        raise ValueError("a plot needs at least one change")
    values = [value for line in lines for value in (line.ours, line.ours_p95, line.theirs, line.theirs_p95)]
    largest = max(max((value for value in values if value is not None), default=1.0), 1.0)
    step = next(step for step in (1, 2, 5, 10, 20, 50) if largest / step <= 12 or step == 50)
    end = step * -(-largest // step)
    scale = (_WIDTH - _LEFT - _RIGHT) / end
    bottom = _TOP + len(lines) * _ROW
    height = bottom + _FOOT
    ticks = [_tick(number * step, scale, bottom) for number in range(round(end / step) + 1)]
    drawn = [
        part for position, line in enumerate(lines) for part in _drawn(line, _TOP + position * _ROW, scale)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" font-family="system-ui, sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            _text(16, 22, _TITLE, "#1f2328", "600", 15),
            _text(16, 40, _SUBTITLE, "#57606a"),
            _text(16, 56, _SUBTITLE_2, "#57606a"),
            *ticks,
            *drawn,
            _text(_LEFT, bottom + 34, "evaluations", "#57606a"),
            "</svg>\n",
        ]
    )


def _drawn(line: Line, y: float, scale: float) -> list[str]:
    return [
        _text(_LEFT - 8, y + 17, line.title, "#1f2328", anchor="end"),
        *_bar(line.ours, line.ours_p95, y + 4, scale, _OURS, "ours"),
        *_bar(line.theirs, line.theirs_p95, y + 4 + _BAR + 2, scale, _THEIRS, line.their_name),
    ]


def _bar(value: float | None, p95: float | None, y: float, scale: float, colour: str, name: str) -> list[str]:
    if value is None:
        return [_text(_LEFT + 5, y + 10, f"{name}: missed", colour, size=11)]
    width, end = value * scale, max(value, p95 or value) * scale
    return [
        f'<rect x="{_LEFT}" y="{y:.1f}" width="{width:.1f}" height="{_BAR}" fill="{colour}"/>',
        f'<line x1="{_LEFT + width:.1f}" x2="{_LEFT + end:.1f}" y1="{y + _BAR / 2:.1f}" '
        f'y2="{y + _BAR / 2:.1f}" stroke="{colour}" stroke-width="2"/>',
        _text(_LEFT + end + 5, y + 10, f"{value:g} {name}", "#1f2328", size=11),
    ]


def _tick(value: float, scale: float, bottom: float) -> str:
    x = _LEFT + value * scale
    line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}" stroke="#eaeef2"/>'
    return line + _text(x, bottom + 14, f"{value:g}", "#57606a", anchor="middle")


def _text(
    x: float, y: float, words: str, colour: str, weight: str = "400", size: int = 12, *, anchor: str = "start"
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-weight="{weight}" font-size="{size}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )
