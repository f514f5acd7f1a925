"""A report of runs as one HTML file: it opens without a network, and loads nothing from anywhere."""

import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.metadata import version
from importlib.resources import files

from collapsewatch.contracts.metrics import METRICS
from collapsewatch_server.reading.views import Iso, Series
from collapsewatch_server.reporting.charts import DrawnChart, DrawnQuadrant
from collapsewatch_server.reporting.drawing import Drawn, ReportedRun
from collapsewatch_server.reporting.figures import figure_of
from collapsewatch_server.reporting.palette import REGIME_NAMES

# The file may be opened from anywhere, and what is in it came from trainers.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)
_CONFIG_ROWS = 300
_NAMED_FIRST = (
    "retrieval_accuracy",
    "retrieval_chance",
    "retrieval_skill",
    "mi_seq",
    "mi_ceiling",
    "conditional_entropy",
    "reward",
    "success",
)


def report(
    runs: Sequence[ReportedRun], charts: Sequence[Drawn], *, title: str, scope: str, made_at: Iso
) -> str:
    """The report as a whole page.

    Args:
        scope: the scored scope that its charts show.
        made_at: when it was read.
    """
    sections = [
        _heads(runs),
        _charts(charts),
        _values(runs),
        _alerts(runs),
        _settings(runs),
    ]
    facts = (
        f"made {escape(made_at)} · scope {escape(scope)} · collapsewatch {escape(version('collapsewatch'))}"
    )
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_style()}</style></head><body><main>",
            f'<header><h1>{escape(title)}</h1><p class="soft">{facts}</p></header>',
            *sections,
            "</main>",
            f"<script>{_plotly()}</script>",
            f'<script type="application/json" id="figures">{_figures(charts)}</script>',
            f"<script>{_script()}</script></body></html>",
        ]
    )


def as_json_in_html(value: object) -> str:
    """JSON that cannot end the element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _figures(charts: Sequence[Drawn]) -> str:
    return as_json_in_html([figure_of(chart) for chart in charts])


def _charts(charts: Sequence[Drawn]) -> str:
    if not charts:
        return '<p class="soft">Nothing has been scored or logged yet.</p>'
    return f'<section class="charts">{"".join(map(_card, charts))}</section>'


def _card(chart: DrawnChart | DrawnQuadrant) -> str:
    explanation = METRICS.get(chart.metric) if isinstance(chart, DrawnChart) else None
    about = "" if explanation is None else f'<p class="soft">{escape(explanation.explanation)}</p>'
    wide = " wide" if isinstance(chart, DrawnQuadrant) else ""
    return (
        f'<figure class="card{wide}" data-chart="{escape(chart.chart_id)}">'
        f"<figcaption>{escape(chart.title)}</figcaption>{about}"
        '<div class="plot"></div></figure>'
    )


def _heads(runs: Sequence[ReportedRun]) -> str:
    rows = []
    for reported in runs:
        run = reported.run
        regime = run.regime
        standing = "not measured" if regime is None else REGIME_NAMES.get(regime.regime, regime.regime)
        reason = "" if regime is None else regime.reason
        scorer = "" if run.scorer is None else run.scorer.label
        step = "" if run.last_step is None else f"{run.last_step:,}"
        cells = (run.name, run.project, str(run.state.value), step, standing, reason, scorer)
        rows.append(cells)
    head = ("run", "project", "state", "last step", "regime", "why", "scored by")
    return f"<section>{_table(head, rows)}</section>"


def _values(runs: Sequence[ReportedRun]) -> str:
    names = {(scope, metric) for run in runs for scope, found in run.newest.items() for metric in found}
    ordered = sorted(names, key=lambda name: (_rank(name[1]), name))
    rows = [
        (metric, scope, *(_value(run.newest.get(scope, {}).get(metric)) for run in runs))
        for scope, metric in ordered
    ]
    if not rows:
        return ""
    head = ("metric", "scope", *(run.run.name for run in runs))
    return f"<section><h2>Newest values, with 95 % intervals</h2>{_table(head, rows)}</section>"


def _rank(metric: str) -> int:
    return _NAMED_FIRST.index(metric) if metric in _NAMED_FIRST else len(_NAMED_FIRST)


def _value(series: Series | None) -> str:
    if series is None or not series.values:
        return "–"
    low = series.low[0] if series.low else None
    high = series.high[0] if series.high else None
    interval = "" if low is None or high is None else f" ({low:.3g} to {high:.3g})"
    return f"{series.values[0]:.4g}{interval}"


def _alerts(runs: Sequence[ReportedRun]) -> str:
    rows = [
        (
            run.run.name,
            alert.severity,
            alert.status,
            "" if alert.opened_step is None else f"{alert.opened_step:,}",
            alert.title,
            alert.message,
        )
        for run in runs
        for alert in run.alerts
        if not alert.superseded
    ]
    if not rows:
        return "<section><h2>Alerts</h2><p>None.</p></section>"
    head = ("run", "severity", "status", "step", "alert", "what was measured")
    return f"<section><h2>Alerts</h2>{_table(head, rows)}</section>"


def _settings(runs: Sequence[ReportedRun]) -> str:
    keys = sorted({key for run in runs for key in run.run.config})[:_CONFIG_ROWS]
    if not keys:
        return ""
    rows = [(key, *(_setting(run, key) for run in runs)) for key in keys]
    head = ("setting", *(run.run.name for run in runs))
    return f"<section><h2>Settings</h2>{_table(head, rows)}</section>"


def _setting(run: ReportedRun, key: str) -> str:
    if key not in run.run.config:
        return "–"
    value = run.run.config[key]
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table></div>'


def _plotly() -> str:
    text = (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
    # Within a script's text this alone would end the element.
    return text.replace("</script", "<\\/script")


def _style() -> str:
    return (files("collapsewatch_server.reporting") / "report.css").read_text(encoding="utf-8")


def _script() -> str:
    return (files("collapsewatch_server.reporting") / "report.js").read_text(encoding="utf-8")
