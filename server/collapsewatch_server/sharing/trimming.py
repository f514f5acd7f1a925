"""What a link tells of a run apart from its series. Pure."""

from collections.abc import Iterable
from typing import Any

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
    "open_alerts": {},
    "latest": {},
    "sparkline": {"steps": [], "values": []},
    "filters": [],
    "groups": [],
    "buckets": {},
    "template_evidence": None,
}


def as_shared(run: RunDetail, limits: ChartLimits | None) -> RunDetail:
    """The run without what the link does not show: all that is not of its chart, where it is one."""
    document = run.model_dump(mode="json") | _OF_THE_SERVICE
    document["jobs"] = dict.fromkeys(run.jobs, 0)
    if limits is not None:
        document |= _BESIDE_A_CHART | _of_chart(document, limits)
    return RunDetail.model_validate(document)


def _of_chart(document: dict[str, Any], limits: ChartLimits) -> dict[str, Any]:
    scopes = {*limits.series, *limits.trajectories}
    shown = {metric for metrics in limits.series.values() for metric in metrics}
    metrics = {
        scope: [name for name in document["metrics"].get(scope, []) if name in limits.series.get(scope, [])]
        for scope in document["metrics"]
        if scope in scopes
    }
    regime = document["regime"]
    has_quadrant = regime is not None and regime["scope"] in limits.trajectories
    return {
        "scopes": [scope for scope in document["scopes"] if scope in scopes],
        "metrics": metrics,
        "samplings": _only(document["samplings"], scopes),
        "absent": _only(document["absent"], shown),
        "regime": regime if has_quadrant else None,
        "baseline": document["baseline"] if has_quadrant else None,
    }


def _only(named: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in named.items() if name in set(names)}
