"""The charts of a run's page as data that any drawing can be made of. Pure, the reading handed in.

What is drawn, and in which colours, is what the page draws; the two are held together by a test.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from collapsewatch.contracts.metrics import BATCH_SCOPE, TRAINER_SCOPE
from collapsewatch_server.reading.views import Series, TrajectoryView

SCORED = "scored"
"""Stands for the scored scope that somebody looks at, such as `first_turn`."""
MUTED = -1
"""Colour of levels such as chance."""
QUADRANT = "quadrant"
_TRAINER_PREFIX = "trainer-"

ReadSeries = Callable[[str, str, Sequence[str]], Mapping[str, Series]]
"""Series by name, of a run and a scope."""


@dataclass(frozen=True)
class Line:
    """One metric of a panel."""

    metric: str
    name: str
    colour: int
    has_band: bool = False


@dataclass(frozen=True)
class Panel:
    """What one chart shows."""

    chart_id: str
    scope: str
    title: str
    lines: tuple[Line, ...]
    y_range: tuple[float, float] | Literal["from zero"] | None = None
    is_share: bool = False
    """Values are parts of one, shown in percent."""
    is_stacked: bool = False
    levels: tuple[float, ...] = ()
    """Fixed values to compare with."""


_WHOLE = (0.0, 1.03)
PANELS: tuple[Panel, ...] = (
    Panel(
        "retrieval",
        SCORED,
        "Retrieval accuracy",
        (
            Line("retrieval_accuracy", "accuracy", 0, has_band=True),
            Line("retrieval_chance", "chance", MUTED),
        ),
        _WHOLE,
    ),
    Panel(
        "mi",
        SCORED,
        "Mutual information",
        (Line("mi_seq", "I(X;Z)", 2, has_band=True), Line("mi_ceiling", "ceiling", MUTED)),
        "from zero",
    ),
    Panel(
        "entropy",
        SCORED,
        "H(Z|X) and H(Z)",
        (Line("conditional_entropy", "H(Z|X)", 0, has_band=True), Line("reasoning_entropy", "H(Z)", 1)),
        "from zero",
    ),
    Panel("reward", BATCH_SCOPE, "Reward", (Line("reward", "reward", 2),)),
    Panel(
        "reward-variance",
        BATCH_SCOPE,
        "Reward variance",
        (Line("reward_variance", "variance", 2),),
        "from zero",
    ),
    Panel(
        "zero-variance",
        BATCH_SCOPE,
        "Zero-variance groups, by cause",
        (
            Line("zero_variance_too_hard", "too hard", 1),
            Line("zero_variance_too_easy", "too easy", 0),
            Line("zero_variance_reward_insensitive", "insensitive reward", 3),
            Line("zero_variance_tied", "tied, cause unknown", MUTED),
        ),
        _WHOLE,
        is_share=True,
        is_stacked=True,
    ),
    Panel(
        "valid-reasoning",
        BATCH_SCOPE,
        "Valid reasoning",
        (Line("valid_reasoning_rate", "valid", 0),),
        _WHOLE,
        is_share=True,
        levels=(0.9, 0.8),
    ),
    Panel("length", BATCH_SCOPE, "Reasoning length", (Line("reasoning_length", "tokens", 0),), "from zero"),
    Panel(
        "evidence",
        SCORED,
        "Evidence of a drop",
        (
            Line("log_evalue_warning", "warning level", 1),
            Line("log_evalue_critical", "critical level", 3),
        ),
        "from zero",
    ),
    Panel(
        "template-ratio",
        BATCH_SCOPE,
        "Compression distance ratio",
        (Line("compression_distance_ratio", "within ÷ across prompts", 3),),
        levels=(1.0,),
    ),
)


@dataclass(frozen=True)
class DrawnLine:
    """One line of a chart, with its values."""

    name: str
    series: Series
    colour: int
    has_band: bool = False
    is_level: bool = False
    """A level to compare with, such as chance: drawn thin and dashed."""


@dataclass(frozen=True)
class DrawnChart:
    """A chart with its values."""

    chart_id: str
    metric: str
    """The one that names the chart and explains it."""
    title: str
    lines: tuple[DrawnLine, ...]
    y_range: tuple[float, float] | Literal["from zero"] | None = None
    is_share: bool = False
    is_stacked: bool = False
    levels: tuple[float, ...] = ()


@dataclass(frozen=True)
class DrawnPath:
    """A run's way through the quadrant."""

    name: str
    trajectory: TrajectoryView
    colour: int


@dataclass(frozen=True)
class DrawnQuadrant:
    """The quadrant with the ways of some runs."""

    paths: tuple[DrawnPath, ...]
    title: str = "Reasoning quadrant"
    chart_id: str = field(default=QUADRANT)


def panel_of(chart_id: str) -> Panel | None:
    """The panel of that name; one for each of the trainer's own values as well, as `trainer-<name>`."""
    if chart_id.startswith(_TRAINER_PREFIX) and len(chart_id) > len(_TRAINER_PREFIX):
        name = chart_id.removeprefix(_TRAINER_PREFIX)
        return Panel(chart_id, TRAINER_SCOPE, name, (Line(name, name, 0),))
    return next((panel for panel in PANELS if panel.chart_id == chart_id), None)


def trainer_panels(names: Sequence[str], most: int) -> list[Panel]:
    """A panel for each of the trainer's values, at most so many; success comes first."""
    ordered = sorted(names, key=lambda name: ("success" not in name, name))
    found = [panel_of(f"{_TRAINER_PREFIX}{name}") for name in ordered[:most]]
    return [panel for panel in found if panel is not None]


def drawn(panel: Panel, runs: Sequence[tuple[str, str]], scope: str, read: ReadSeries) -> DrawnChart | None:
    """The panel with the values of the runs; none when no run has any.

    Of several runs its main metric is drawn, a line each.

    Args:
        runs: (id, name) of each.
        scope: which scored scope is looked at.
    """
    place = scope if panel.scope == SCORED else panel.scope
    lines = panel.lines if len(runs) == 1 else panel.lines[:1]
    found: list[DrawnLine] = []
    for number, (run_id, name) in enumerate(runs):
        series = read(run_id, place, [line.metric for line in lines])
        for line in lines:
            if line.metric in series and series[line.metric].steps:
                is_one = len(runs) == 1
                found.append(
                    DrawnLine(
                        line.name if is_one else name,
                        series[line.metric],
                        line.colour if is_one else number,
                        has_band=line.has_band,
                        is_level=line.colour == MUTED and not panel.is_stacked,
                    )
                )
    if all(line.is_level for line in found):
        return None
    title = panel.title if len(runs) == 1 or not panel.is_stacked else f"{panel.title}: {lines[0].name}"
    return DrawnChart(
        panel.chart_id,
        panel.lines[-1].metric if panel.chart_id == "evidence" else panel.lines[0].metric,
        title,
        tuple(found),
        panel.y_range,
        panel.is_share,
        panel.is_stacked and len(runs) == 1,
        panel.levels,
    )
