"""The plot of the scoring benchmark, as a small SVG: speed beside the reference scheme, and the bound."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

_WIDTH = 860
_LEFT = 340
_RIGHT = 40
_TOP = 64
_BAR = 13
_GAP = 5
_BETWEEN = 16
_FOOT = 40
_TITLE = "Cross-scoring: how many times as fast as the reference scheme"
_SUBTITLE = "One batch each; the dashed line is the least work at the machine's best matrix rate."
_COLOURS = {"naive": "#b9bec7", "engine": "#1f6feb"}
_OTHER_COLOUR = "#8a919d"
_NAMES = {
    "naive": "naive pairs",
    "reference": "reference scheme, 1 row a forward",
    "reference-onednn": "the same with oneDNN's products",
    "reference-16": "reference scheme, 16 rows a forward",
    "engine": "engine",
}


@dataclass(frozen=True, slots=True)
class Bar:
    """How many times as fast as the reference scheme with one row a forward pass."""

    contestant: str
    times: float


@dataclass(frozen=True, slots=True)
class Group:
    """The bars of one batch, and where the bound is."""

    title: str
    bars: Sequence[Bar]
    bound: float


def svg(groups: Sequence[Group]) -> str:
    """The plot; its axis begins at 0, so lengths compare.

    Raises:
        ValueError: nothing to draw.
    """
    if not groups:
        raise ValueError("a plot needs at least one batch")
    largest = max(max(group.bound, *(bar.times for bar in group.bars)) for group in groups)
    step = _step(largest)
    end = math.ceil(largest / step) * step
    scale = (_WIDTH - _LEFT - _RIGHT) / end
    body: list[str] = []
    y = float(_TOP)
    for group in groups:
        body += _group(group, y, scale)
        y += 20 + len(group.bars) * (_BAR + _GAP) + _BETWEEN
    height = y + _FOOT
    axis = [_tick(number * step, scale, y) for number in range(round(end / step) + 1)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" '
            f'width="{_WIDTH}" height="{height:.0f}" font-family="system-ui, sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{height:.0f}" fill="#ffffff"/>',
            _text(16, 24, _TITLE, "#1f2328", "600", 15),
            _text(16, 44, _SUBTITLE, "#57606a"),
            *axis,
            *body,
            _text(_LEFT, y + 30, "times as fast as (b) with one row a forward pass", "#57606a"),
            "</svg>\n",
        ]
    )


def _step(largest: float) -> float:
    """A round distance of the ticks that gives 4 to 10 of them."""
    power = 10.0 ** math.floor(math.log10(largest))
    return next(power * factor for factor in (0.1, 0.2, 0.5, 1, 2) if largest / (power * factor) <= 10)


def _group(group: Group, y: float, scale: float) -> list[str]:
    drawn = [_text(16, y + 12, group.title, "#1f2328", "600")]
    top = y + 20
    for position, bar in enumerate(group.bars):
        at = top + position * (_BAR + _GAP)
        length = bar.times * scale
        drawn += [
            _text(_LEFT - 8, at + 11, _NAMES[bar.contestant], "#1f2328", anchor="end"),
            f'<rect x="{_LEFT}" y="{at:.1f}" width="{length:.1f}" height="{_BAR}" '
            f'fill="{_COLOURS.get(bar.contestant, _OTHER_COLOUR)}"/>',
            _text(_LEFT + length + 5, at + 11, f"{bar.times:.1f}", "#1f2328"),
        ]
    bottom = top + len(group.bars) * (_BAR + _GAP) - _GAP
    x = _LEFT + group.bound * scale
    drawn += [
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 4:.1f}" y2="{bottom + 4:.1f}" '
        'stroke="#cf222e" stroke-width="1.5" stroke-dasharray="4 3"/>',
        _text(x - 4, top + 9, f"bound {group.bound:.1f}", "#cf222e", anchor="end"),
    ]
    return drawn


def _tick(value: float, scale: float, bottom: float) -> str:
    x = _LEFT + value * scale
    line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom:.1f}" stroke="#eaeef2"/>'
    return line + _text(x, bottom + 14, f"{value:g}", "#57606a", anchor="middle")


def _text(
    x: float,
    y: float,
    words: str,
    colour: str,
    weight: str = "400",
    size: int = 12,
    *,
    anchor: str = "start",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" font-weight="{weight}" font-size="{size}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )
