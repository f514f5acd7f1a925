"""The page's colours, for what is drawn without it; a test compares them with the style sheet."""

from dataclasses import dataclass
from typing import Literal

Theme = Literal["light", "dark"]
PictureFormat = Literal["png", "svg"]


@dataclass(frozen=True)
class Palette:
    """Colours of one theme, as `#rrggbb`."""

    surface: str
    text: str
    text_soft: str
    line: str
    grid: str
    series: tuple[str, ...]
    muted: str
    regimes: dict[str, str]
    scale: tuple[str, ...]
    """From the earliest step to the newest."""


PALETTES: dict[Theme, Palette] = {
    "light": Palette(
        surface="#ffffff",
        text="#10151d",
        text_soft="#485260",
        line="#dce1e8",
        grid="#e8ebf0",
        series=("#1f5fbf", "#c25a06", "#0b7a66", "#86358b"),
        muted="#8d97a5",
        regimes={
            "diverse_reasoning": "#0b7360",
            "template_collapse": "#bb3d08",
            "compressed_reasoning": "#2a63ad",
            "low_entropy_collapse": "#86358b",
        },
        scale=("#c4d3e6", "#7fa6d6", "#3b6fb5", "#1f2a6b"),
    ),
    "dark": Palette(
        surface="#12161d",
        text="#e9edf3",
        text_soft="#b3bdcb",
        line="#2a3340",
        grid="#222a35",
        series=("#74aefb", "#ffa45e", "#52cdad", "#dd98dc"),
        muted="#5f6b7c",
        regimes={
            "diverse_reasoning": "#4fcbaa",
            "template_collapse": "#ff9060",
            "compressed_reasoning": "#7db4f5",
            "low_entropy_collapse": "#dd98dc",
        },
        scale=("#2b3a50", "#3f6596", "#6ba2dd", "#f3ecc4"),
    ),
}
REGIME_NAMES = {
    "diverse_reasoning": "Diverse reasoning",
    "template_collapse": "Template collapse",
    "compressed_reasoning": "Compressed reasoning",
    "low_entropy_collapse": "Low-entropy collapse",
    "indeterminate": "Indeterminate",
    "insufficient": "Not enough evidence",
}
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
"""Lines of one colour are told apart by these, in the words of Plotly."""


def colour_of(palette: Palette, number: int) -> str:
    """Colour of a line; that of levels for a negative number."""
    return palette.muted if number < 0 else palette.series[number % len(palette.series)]


def dash_of(palette: Palette, number: int) -> str:
    """Dashes of a line: lines that share a colour have others."""
    return "solid" if number < 0 else DASHES[number // len(palette.series) % len(DASHES)]
