"""The results as JSON, as tables, and between the markers of the documentation."""

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.alerts.peers import PEERS
from benchmarks.alerts.run import DriftResult, RuleResult, StableResult, WholeRun, best
from benchmarks.alerts.watching import Delays, Opened, rate_with_interval
from benchmarks.common import markdown_table, shown

BEGIN = "<!-- bench-alerts: begin -->"
END = "<!-- bench-alerts: end -->"
SHORT = dict(
    zip(
        (peer.name for peer in PEERS),
        ("fixed", "two in a row", "CUSUM", "RAGEN spread", "RAGEN success"),
        strict=True,
    )
)
"""What each plain detector is called where there is little room."""


@dataclass(frozen=True)
class Report:
    """A whole run."""

    measured_on: dict[str, Any]
    is_quick: bool
    seconds: float
    fold_milliseconds: float
    stable: list[StableResult]
    for_all: dict[str, float]
    drifts: list[DriftResult]
    rules: list[RuleResult]
    terser: list[tuple[float, float, list[Opened]]]
    whole: list[WholeRun]

    def rows(self) -> list[dict[str, Any]]:
        """Every figure of ours beside the best plain detector's."""
        rows = [row for result in self.stable for row in _stable_rows(result)]
        rows += [row for drift in self.drifts for row in _drift_rows(drift)]
        for result in self.rules:
            name, delays = best(result.peers)
            rows.append(
                _row(f"{result.case.rule}: {result.case.what}", "delay, median", result.ours, delays, name)
            )
        return rows

    def as_json(self) -> str:
        return json.dumps({"machine": self.measured_on, "rows": self.rows()}, indent=1) + "\n"


def _stable_rows(result: StableResult) -> list[dict[str, Any]]:
    number = result.ours.num_evaluations
    rows = []
    for severity in ("warning", "critical"):
        rate, low, high = rate_with_interval(result.ours.total(severity), number)
        for peer in PEERS[:3]:
            theirs = 1000.0 * result.usual[peer.name] / number
            rows.append(
                {
                    "case": f"stable: {result.setting.name}",
                    "metric": f"false alarms, all rules, {severity}",
                    "ours": rate,
                    "ours_low": low,
                    "ours_high": high,
                    "peer": theirs,
                    "peer_name": f"{peer.name}, {peer.parameter} {peer.usual:g}",
                    "ratio": rate / theirs if theirs else None,
                    "unit": "per 1,000 evaluations",
                    "higher_is_better": False,
                }
            )
    return rows


def _drift_rows(result: DriftResult) -> list[dict[str, Any]]:
    rows = []
    for label, peers in (
        ("same false alarms over all series", result.peers),
        ("told the series", result.told),
    ):
        name, delays = best(peers)
        rows.append(_row(result.name, "delay, median", result.warning, delays, f"{name} ({label})"))
    return rows


def _row(case: str, metric: str, ours: Delays, theirs: Delays, name: str) -> dict[str, Any]:
    ratio = ours.median / theirs.median if ours.median and theirs.median else None
    return {
        "case": case,
        "metric": metric,
        "ours": ours.median,
        "ours_p95": ours.p95,
        "ours_missed": ours.num_missed,
        "peer": theirs.median,
        "peer_missed": theirs.num_missed,
        "peer_name": name,
        "ratio": ratio,
        "runs": len(ours.found),
        "unit": "evaluations",
        "higher_is_better": False,
    }


def block(report: Report, plot: str) -> str:
    """What stands between the markers: where and how it was measured, the tables, the plot."""
    parts = [
        _conditions(report),
        "### Nothing happens: false alarms",
        _stable_table(report),
        _sums(report),
        "### Something happens to skill: delay of the warning",
        f"![Evaluations until the warning]({plot})",
        _drift_table(report.drifts),
        "### What the other rules look for",
        _rule_table(report.rules),
        "### A run that only gets terser",
        _terser_table(report.terser),
        "### Recorded runs as they were",
        _whole_table(report.whole),
    ]
    return "\n\n".join(parts)


def _conditions(report: Report) -> str:
    on = report.measured_on
    versions = ", ".join(f"{name} {version}" for name, version in on["libraries"].items())
    text = (
        f"Measured {on['date']}, {on['cores']} cores, {on['memory_gib']} GiB, {on['architecture']} "
        f"{on['system']}, Python {on['python']}, {versions}; {report.seconds:.0f} s of CPU time. "
        f"One evaluation costs the folds {report.fold_milliseconds:.1f} ms with 8 prompts."
    )
    return textwrap.fill(f"**Short form (`QUICK=1`).** {text}" if report.is_quick else text, 118)


def _per_thousand(count: int, number: int) -> str:
    rate, low, high = rate_with_interval(count, number)
    return f"{rate:.2f} ({low:.2f} to {high:.2f})"


def _stable_table(report: Report) -> str:
    header = ["series", "evaluations", "warnings", "critical", *(SHORT[peer.name] for peer in PEERS[:3])]
    lines = []
    for result in report.stable:
        number = result.ours.num_evaluations
        lines.append(
            [
                result.setting.name,
                f"{number:,}",
                _per_thousand(result.ours.total("warning"), number),
                _per_thousand(result.ours.total("critical"), number),
                *(f"{1000 * result.usual[peer.name] / number:.1f}" for peer in PEERS[:3]),
            ]
        )
    return markdown_table(header, lines)


def _sums(report: Report) -> str:
    number = sum(result.ours.num_evaluations for result in report.stable)
    told = []
    for severity in ("warning", "critical", "info"):
        count = sum(result.ours.total(severity) for result in report.stable)
        told.append(f"{severity} {_per_thousand(count, number)}")
    parameters = "; ".join(
        f"{peer.name}: {peer.parameter} {shown(report.for_all[peer.name])} (usual: {peer.usual:g})"
        for peer in PEERS
    )
    text = (
        f"All series together, {number:,} evaluations, per 1,000 with the exact 95 % interval: "
        f"{', '.join(told)}. "
        f"Parameters at which the plain detectors give as few false warnings on all of them: {parameters}."
    )
    return textwrap.fill(text, 118)


def _delay(delays: Delays) -> list[str]:
    return [_number(delays.median), _number(delays.p95), f"{delays.num_missed} of {len(delays.found)}"]


def _number(value: float | None) -> str:
    return "–" if value is None else shown(value)


def _ratio(ours: Delays, theirs: Delays) -> str:
    return "–" if not (ours.median and theirs.median) else shown(ours.median / theirs.median)


def _drift_table(drifts: Sequence[DriftResult]) -> str:
    header = [
        "change",
        "median",
        "p95",
        "missed",
        "critical",
        "best plain",
        "its median",
        "missed",
        "ratio",
        "told",
    ]
    lines = []
    for drift in drifts:
        name, theirs = drift.best_peer()
        told_name, told = best(drift.told)
        lines.append(
            [
                drift.name,
                *_delay(drift.warning),
                _number(drift.critical.median),
                SHORT[name],
                _number(theirs.median),
                f"{theirs.num_missed} of {len(theirs.found)}",
                _ratio(drift.warning, theirs),
                f"{SHORT[told_name]} {_number(told.median)}",
            ]
        )
    return markdown_table(header, lines)


def _rule_table(rules: Sequence[RuleResult]) -> str:
    header = ["rule", "change", "false", "median", "p95", "missed", "best plain", "its median", "ratio"]
    lines = []
    for result in rules:
        name, theirs = best(result.peers)
        lines.append(
            [
                f"`{result.case.rule}`",
                result.case.what,
                f"{result.false_alarms} in {result.num_evaluations:,}",
                *_delay(result.ours),
                SHORT[name],
                _number(theirs.median),
                _ratio(result.ours, theirs),
            ]
        )
    return markdown_table(header, lines)


def _opened(found: Sequence[Opened]) -> str:
    first: dict[tuple[str, str], int] = {}
    for one in found:
        first.setdefault((one.rule, one.severity), one.index)
    told = [f"`{rule}` {severity} at {index}" for (rule, severity), index in first.items()]
    return ", ".join(told) or "silent"


def _terser_table(terser: Sequence[tuple[float, float, list[Opened]]]) -> str:
    lines = [[f"{100 * kept:.0f} %", f"{ratio:.2f}", _opened(found)] for kept, ratio, found in terser]
    return markdown_table(["words left", "skill ÷ baseline", "alerts"], lines)


def _whole_table(whole: Sequence[WholeRun]) -> str:
    header = ["run", "evaluations", "ours", *(SHORT[peer.name] for peer in PEERS)]
    lines = [
        [
            run.name,
            str(run.num_evaluations),
            _opened(run.ours),
            *(_number(run.peers[peer.name]) for peer in PEERS),
        ]
        for run in whole
    ]
    return markdown_table(header, lines)


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
