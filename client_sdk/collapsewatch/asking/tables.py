"""What the API answers, as text for a terminal. Pure.

Text that a model or a trainer wrote is shown without its control characters, which could steer a terminal.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

Row = Sequence[str]
_MOST_CELL_CHARS = 48
_FIRST = ("retrieval_skill", "retrieval_accuracy", "retrieval_chance", "mi_seq", "reward")


def of_runs(runs: Sequence[Mapping[str, Any]]) -> str:
    """One line per run."""
    if not runs:
        return "no runs"
    rows = [
        (
            run["run_id"],
            run["project"],
            run["name"],
            run["state"],
            _regime(run),
            _number(run["latest"].get("retrieval_skill")),
            _number(run["latest"].get("retrieval_accuracy")),
            _number(run["latest"].get("reward")),
            _shown(run["last_step"]),
            _age(run["last_seen_at"] or run["updated_at"]),
            _alerts(run["open_alerts"]),
        )
        for run in runs
    ]
    head = ("id", "project", "name", "state", "regime", "skill", "acc", "reward", "step", "seen", "alerts")
    return columns(head, rows)


def of_run(run: Mapping[str, Any]) -> str:
    """A run in a few lines."""
    jobs = run["jobs"]
    regime = run["regime"]
    lines = [
        f"{clean(run['project'])}/{clean(run['name'])}  ({run['run_id']})",
        f"  state      {run['state']}, last step {_shown(run['last_step'])}, "
        f"seen {_age(run['last_seen_at'])} ago",
        f"  regime     {_regime(run)}" + (f": {clean(regime['reason'])}" if regime else ""),
        f"  alerts     {_alerts(run['open_alerts']) or 'none open'}",
        f"  scoring    {jobs.get('done', 0)} scored, "
        f"{jobs.get('queued', 0) + jobs.get('leased', 0)} waiting, "
        f"{jobs.get('dead', 0)} failed, {jobs.get('thinned', 0)} laid aside",
    ]
    if run["why_unscored"]:
        lines.append(f"             {clean(run['why_unscored'])}")
    if run["tags"]:
        lines.append(f"  tags       {clean(', '.join(run['tags']))}")
    names = [*(name for name in _FIRST if name in run["latest"])]
    names += sorted(set(run["latest"]) - set(names))
    lines += [f"  {name:<26} {_number(run['latest'][name])}" for name in names]
    return "\n".join(lines)


def of_newest(series: Mapping[str, Any]) -> str:
    """The newest value of each metric."""
    if not series:
        return "no values"
    rows = [
        (
            name,
            _shown(one["steps"][-1]),
            _number(one["values"][-1]),
            _interval(_last(one["low"]), _last(one["high"])),
        )
        for name, one in sorted(series.items())
        if one["steps"]
    ]
    return columns(("metric", "step", "value", "95 % interval"), rows)


def of_series(series: Mapping[str, Any]) -> str:
    """Tab-separated: a head, then a line per step; empty where a metric has no value at the step."""
    names = list(series)
    values = {name: dict(zip(one["steps"], one["values"], strict=True)) for name, one in series.items()}
    steps = sorted({step for one in values.values() for step in one})
    lines = ["\t".join(["step", *names])]
    lines += ["\t".join([str(step), *(_exact(values[name].get(step)) for name in names)]) for step in steps]
    return "\n".join(lines)


def of_alerts(items: Sequence[Mapping[str, Any]]) -> str:
    """One line per alert."""
    if not items:
        return "no alerts"
    rows = [
        (
            str(item["alert_id"]),
            item["severity"],
            item["state"],
            item["run_name"] or "the service",
            _shown(item["opened_step"]),
            _age(item["changed_at"]),
            item["title"],
        )
        for item in items
    ]
    return columns(("id", "severity", "state", "run", "step", "changed", "what"), rows)


def of_rollouts(found: Mapping[str, Any]) -> str:
    """One line per rollout of a step."""
    head = f"step {found['step']}: {found['num_found']} of {found['num_rollouts']} rollouts"
    if found["reason"]:
        head += f"; {clean(found['reason'])}"
    rows = [
        (
            str(row["index"]),
            row["group_id"],
            _number(row["reward"]),
            str(row["num_turns"]),
            str(row["num_chars"]),
            row["excerpt"],
        )
        for row in found["rollouts"]
    ]
    return "\n".join([head, columns(("index", "prompt", "reward", "turns", "chars", "response"), rows)])


def of_hits(found: Mapping[str, Any]) -> str:
    """One line per rollout that holds a text."""
    rows = [
        (str(hit["step"]), str(hit["index"]), hit["group_id"], _number(hit["reward"]), _excerpt(hit))
        for hit in found["hits"]
    ]
    table = columns(("step", "index", "prompt", "reward", "where"), rows) if rows else "nothing found"
    if found.get("next"):
        table += f"\nthere may be more: a larger --limit, or --step {found['next']['step']} to go on there"
    return table


def of_rollout(found: Mapping[str, Any]) -> str:
    """One rollout, turn by turn."""
    lines = [
        f"step {found['step']}, rollout {found['index']} of {found['num_rollouts']}, "
        f"prompt {clean(found['group_id'])}, reward {_number(found['reward'])}"
    ]
    for number, turn in enumerate(found["turns"]):
        lines += [f"--- turn {number}: prompt", clean(turn["prompt"] or "(token ids only)", keeps_lines=True)]
        lines += [
            f"--- turn {number}: response",
            clean(turn["response"] or "(token ids only)", keeps_lines=True),
        ]
    return "\n".join(lines)


def of_comparison(found: Mapping[str, Any]) -> str:
    """A column per run: where it stands, its newest values, and the settings in which they differ."""
    runs = found["runs"]
    scope = found["scope"]
    rows: list[Row] = [
        ("state", *(run["state"] for run in runs)),
        ("regime", *(_regime(run) for run in runs)),
        ("last step", *(_shown(run["last_step"]) for run in runs)),
        ("alerts", *(_alerts(run["open_alerts"]) or "none" for run in runs)),
    ]
    for where in dict.fromkeys([scope, "batch", "trainer"]):
        names = {name for run in runs for name in run["ends"].get(where, {})}
        rows += [
            (name, *(_end(run["ends"].get(where, {}).get(name)) for run in runs)) for name in sorted(names)
        ]
    rows += [(f"config.{name}", *values) for name, values in _differing([run["config"] for run in runs])]
    table = columns(("", *(run["name"] for run in runs)), rows)
    missing = [f"there is no run {run_id}" for run_id in found["missing"]]
    return "\n".join([table, *missing])


def columns(head: Row, rows: Iterable[Row]) -> str:
    """An aligned table; cells are cut where they are long, but for the last column's."""
    cells = [[clean(cell) for cell in row] for row in [head, *rows]]
    cut = [[_cut(cell) if place + 1 < len(row) else cell for place, cell in enumerate(row)] for row in cells]
    widths = [max(len(row[place]) for row in cut) for place in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cut
    )


def clean(text: str, *, keeps_lines: bool = False) -> str:
    """The text without characters that steer a terminal; those that are left are as they were."""
    kept = {"\n", "\t"} if keeps_lines else set()
    return "".join(
        char if char in kept or not unicodedata.category(char).startswith("C") else " " for char in text
    )


def _differing(configs: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[str]]]:
    flat = [dict(_flat(config)) for config in configs]
    names = sorted({name for one in flat for name in one})
    rows = [(name, [_shown(one.get(name)) for one in flat]) for name in names]
    return [(name, values) for name, values in rows if len(set(values)) > 1]


def _flat(config: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def _end(end: Mapping[str, Any] | None) -> str:
    if end is None:
        return "–"
    interval = _interval(end["low"], end["high"])
    return f"{_number(end['value'])} {interval}".rstrip()


def _excerpt(hit: Mapping[str, Any]) -> str:
    return "".join(str(hit.get(part) or "") for part in ("before", "match", "after"))


def _regime(run: Mapping[str, Any]) -> str:
    return "–" if run["regime"] is None else str(run["regime"]["regime"]).replace("_", " ")


def _alerts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counts[name]} {name}" for name in ("critical", "warning", "info") if counts.get(name))


def _last(values: Sequence[float | None] | None) -> float | None:
    return values[-1] if values else None


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"[{_number(low)}, {_number(high)}]"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _exact(value: float | None) -> str:
    return "" if value is None else repr(value)


def _shown(value: object) -> str:
    return "–" if value is None else str(value)


def _age(moment: str | None) -> str:
    if moment is None:
        return "–"
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _cut(cell: str) -> str:
    return cell if len(cell) <= _MOST_CELL_CHARS else f"{cell[: _MOST_CELL_CHARS - 1]}…"
