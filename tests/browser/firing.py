"""Alerts of rules of one's own, opened through the API and the SDK as users do."""

from typing import Any

import httpx

import collapsewatch
from tests.integration.service import Service

_RULE = {"metric": "level", "scope": "trainer", "operator": ">", "threshold": 0.5, "project": "ruled"}


def post(service: Service, path: str, body: dict[str, Any]) -> Any:
    answer = httpx.post(f"{service.url}/api/v1{path}", json=body, timeout=60)
    answer.raise_for_status()
    return answer.json()


def log_levels(service: Service, run_id: str) -> None:
    """A run whose level rises above what the rules allow, at its second step."""
    with collapsewatch.init(
        "ruled", run_id, run_id=run_id, url=service.url, api_key=service.local_key()
    ) as run:
        run.log({"level": 0.1}, step=0)
        run.log({"level": 0.9}, step=1)


def fire(service: Service, run_id: str, names: list[str], *, severity: str = "warning") -> None:
    """Opens one alert per name on a run of its own, and waits until they are in the inbox."""
    for name in names:
        post(service, "/alert-rules", {**_RULE, "name": name, "run": run_id, "severity": severity})
    log_levels(service, run_id)
    service.wait_until(
        lambda: len(service.get("/alerts", run=run_id, limit=500)["items"]) == len(names),
        "the alerts are open",
    )
