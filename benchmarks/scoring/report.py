"""The results as JSON, as a table, and between the markers of the documentation."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import markdown_table, shown
from benchmarks.scoring.bound import Flops

BEGIN = "<!-- bench-scoring: begin -->"
END = "<!-- bench-scoring: end -->"

_HEADER = (
    "batch",
    "contestant",
    "seconds",
    "wall",
    "tokens/s",
    "times (b)",
    "of the bound",
    "memory (MiB)",
)
_SHARED_LOAD = 0.5
"""Load beside this run from which the table says that the machine was shared."""
_FACTS_HEADER = (
    "batch",
    "layers (GFLOP)",
    "attention",
    "head",
    "least work",
    "difference (nats)",
)


@dataclass(frozen=True, slots=True)
class Result:
    """One contestant on one size."""

    size: str
    title: str
    contestant: str
    label: str
    seconds: list[float]
    """CPU seconds of each round for the whole batch; on a GPU those until it had finished."""
    wall_seconds: list[float]
    median_seconds: float | None
    """None when only the memory was measured."""
    share_run: float
    """Which part of the batch's padded tokens was run; the seconds are scaled up from it."""
    num_scored_tokens: int
    times_reference: float | None
    """Seconds of the reference scheme with one row a forward pass, over these."""
    share_of_bound: float | None
    """Seconds that the least work takes at the best matrix rate, over these."""
    peak_bytes: int
    """Above the loaded model."""


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """What holds for a size, whoever scores it."""

    size: str
    title: str
    flops: Flops
    worst_difference: float | None
    """Between the engine and the reference scheme, nats a token; none where they were not compared."""


@dataclass(frozen=True, slots=True)
class Report:
    """A whole run."""

    measured_on: dict[str, Any]
    is_quick: bool
    results: list[Result]
    facts: list[SizeFacts]
    breakdown: dict[str, float]

    def as_json(self) -> str:
        """Everything, rounds included."""
        return json.dumps(asdict(self), indent=1) + "\n"


def table(results: Sequence[Result]) -> str:
    """A line for each contestant of each size."""
    return markdown_table(_HEADER, [_line(result) for result in results])


def _line(result: Result) -> list[str]:
    memory = shown(result.peak_bytes / 2**20)
    if result.median_seconds is None:
        return [result.title, result.label, "–", "–", "–", "–", "–", memory]
    wall = sorted(result.wall_seconds)[len(result.wall_seconds) // 2]
    bound = "–" if result.share_of_bound is None else f"{100 * result.share_of_bound:.0f} %"
    times = "–" if result.times_reference is None else f"{result.times_reference:.2f}"
    rate = shown(result.num_scored_tokens / result.median_seconds)
    return [
        result.title,
        result.label,
        shown(result.median_seconds),
        shown(wall),
        rate,
        times,
        bound,
        memory,
    ]


def block(report: Report, plot: str) -> str:
    """What stands between the markers: where and how it was measured, the tables, the plot."""
    lines = [
        _conditions(report),
        "",
        table(report.results),
        "",
        f"![How many times as fast as the reference scheme]({plot})",
        "",
        markdown_table(
            _FACTS_HEADER,
            [_facts_line(fact) for fact in report.facts],
        ),
    ]
    if report.breakdown:
        shares = [(kind, f"{100 * share:.1f} %") for kind, share in report.breakdown.items()]
        lines += [
            "",
            "Where the engine's time went, on the first of these batches:",
            "",
            markdown_table(("kind of operation", "share of CPU time"), shares),
        ]
    return "\n".join(lines)


def _conditions(report: Report) -> str:
    on = report.measured_on
    versions = ", ".join(f"{name} {version}" for name, version in on["libraries"].items())
    rounds = max((len(result.seconds) for result in report.results), default=0)
    text = (
        f"Measured {on['date']} on {on['device']}, {on['cores']} cores, {on['memory_gib']} GiB, "
        f"{on['architecture']} {on['system']}, Python {on['python']}, {versions}; "
        f"{rounds} round{'s' * (rounds != 1)}. Load of the machine: {on['load_before']:.1f} when the run "
        f"began, {on['load_after']:.1f} at its end; this run alone makes 1."
    )
    if max(on["load_before"], on["load_after"] - 1) > _SHARED_LOAD:
        text += " **The machine was shared with other work**, so compare lines, not with another run."
    rates = ", ".join(f"{name} {shown(rate)}" for name, rate in on["matmul_gflops"].items())
    text += f" Best matrix rate of the run: {rates} GFLOP/s; the bound uses the highest."
    shares = sorted({f"{100 * result.share_run:.0f} %" for result in report.results if result.share_run < 1})
    if report.is_quick:
        text = f"**Short form (`QUICK=1`).** {text}"
    if shares:
        text += (
            f" Of the larger batches (a) and (b) ran {' or '.join(shares)} of the padded tokens, and their "
            "seconds are scaled up from that."
        )
    return textwrap.fill(text, 118)


def _facts_line(fact: SizeFacts) -> list[str]:
    flops = fact.flops
    counts = [flops.layers, flops.attention, flops.head, flops.total]
    difference = "–" if fact.worst_difference is None else f"{fact.worst_difference:.1e}"
    return [
        fact.title,
        *(shown(count / 1e9) for count in counts),
        difference,
    ]


def replaced(text: str, new_block: str) -> str:
    """The document with what stands between the markers exchanged.

    Raises:
        ValueError: the markers are not both there, once and in order.
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"the document needs the lines {BEGIN} and {END} once each, in this order")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{new_block}\n{END}{tail}"


def write_document(path: Path, report: Report, plot: str) -> None:
    """Puts the run into the documentation, where only a whole run belongs."""
    path.write_text(replaced(path.read_text(), block(report, plot)))
