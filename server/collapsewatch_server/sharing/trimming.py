"""What a link tells of a run apart from its series. Pure."""

from collections.abc import Iterable
from typing import Any

from collapsewatch_server.reading.compare_views import ComparedRun, ComparedRuns, RunGroup
from collapsewatch_server.reading.views import RunDetail
from collapsewatch_server.sharing.views import ChartLimits

# How the training is run and served is nobody's business who only sees what came of it.
_OF_THE_SERVICE: dict[str, Any] = {
    "jobs": {},
    "num_deferred": 0,
    "why_unscored": None,
    "num_writers": 0,
    "spool_records": 0,
    "spool_bytes": 0,
    "spool_oldest_seconds": 0.0,
    "dropped": {},
}
_BESIDE_A_CHART: dict[str, Any] = {
    "project": "",
    "config": {},
    "tags": [],
    "notes": "",
    "scorer": None,
    "open_alerts": {},
    "latest": {},
    "sparkline": {"steps": [], "values": []},
    "filters": [],
    "groups": [],
    "buckets": {},
    "template_evidence": None,
}
# Told with a chart, besides what is of the chart. Of a field that stands nowhere here there is no answer.
_WITH_A_CHART = (
    "run_id",
    "name",
    "state",
    "archived",
    "created_at",
    "updated_at",
    "last_seen_at",
    "last_step",
    "attempts",
)


def as_shared(run: RunDetail, limits: ChartLimits | None) -> RunDetail:
    """The run without what the link does not show: all that is not of its chart, where it is one."""
    document = run.model_dump(mode="json") | _OF_THE_SERVICE
    document["jobs"] = dict.fromkeys(run.jobs, 0)
    if limits is not None:
        told = {name: document[name] for name in (*_WITH_A_CHART, *_OF_THE_SERVICE)}
        document = told | _BESIDE_A_CHART | _of_chart(document, limits)
    return RunDetail.model_validate(document)


def _of_chart(document: dict[str, Any], limits: ChartLimits) -> dict[str, Any]:
    scopes = {*limits.series, *limits.trajectories}
    shown = {metric for metrics in limits.series.values() for metric in metrics}
    regime = document["regime"]
    has_quadrant = regime is not None and regime["scope"] in limits.trajectories
    return {
        "scopes": [scope for scope in document["scopes"] if scope in scopes],
        "metrics": _named(document["metrics"], limits),
        "samplings": _only(document["samplings"], scopes),
        "absent": _only(document["absent"], shown),
        "regime": regime if has_quadrant else None,
        "baseline": document["baseline"] if has_quadrant else None,
    }


def as_compared(answer: ComparedRuns, limits: ChartLimits | None) -> ComparedRuns:
    """The runs of a comparison without what the link does not show, as `as_shared`."""
    if limits is None:
        return answer
    runs = [_run_of_chart(run, answer.scope, limits) for run in answer.runs]
    groups = [_group_of_chart(group, limits) for group in answer.groups]
    return answer.model_copy(update={"runs": runs, "groups": groups})


def _run_of_chart(run: ComparedRun, scope: str, limits: ChartLimits) -> ComparedRun:
    document = run.model_dump(mode="json")
    scopes = {*limits.series, *limits.trajectories}
    document |= {
        "project": "",
        "config": {},
        "tags": [],
        "open_alerts": {},
        "scopes": [scope for scope in run.scopes if scope in scopes],
        "metrics": _named(run.metrics, limits),
        "scorer": None,
        "sampling": None,
        "temperature": None,
        "template": None,
        "absent": _only(run.absent, {metric for metrics in limits.series.values() for metric in metrics}),
        "ends": _ends(document["ends"], limits),
    }
    if scope not in limits.trajectories:
        document |= {"thresholds": None, "newest": None}
    if run.regime is None or run.regime.scope not in limits.trajectories:
        document["regime"] = None
    if not limits.tokens:
        document["tokens_from"] = None
    return ComparedRun.model_validate(document)


def _group_of_chart(group: RunGroup, limits: ChartLimits) -> RunGroup:
    return group.model_copy(update={"ends": _ends(group.ends, limits)})


def _ends(ends: dict[str, dict[str, Any]], limits: ChartLimits) -> dict[str, dict[str, Any]]:
    return {scope: _only(values, limits.series.get(scope, [])) for scope, values in ends.items()}


def _named(metrics: dict[str, list[str]], limits: ChartLimits) -> dict[str, list[str]]:
    """Names of metrics by scope, as far as the chart has them."""
    return {
        scope: [name for name in names if name in limits.series.get(scope, [])]
        for scope, names in metrics.items()
        if scope in limits.series or scope in limits.trajectories
    }


def _only(named: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name in set(names)}
