"""Runs with alerts by a rule on a value, and what people do to them; for the tests of the inbox."""

from typing import Any

from sqlalchemy import select

from collapsewatch_server.alert_tables import AlertChange
from tests.server.live import Json, LiveServer, result_body

STARTED_AT = 1_700_000_000.0


def log(live: LiveServer, run_id: str, values: dict[int, float], attempt: int | None = None) -> None:
    points = [{"step": step, "values": {"loss": value}} for step, value in values.items()]
    body: Json = {"points": points}
    if attempt is not None:
        body["attempt_id"] = f"a{attempt}"
    response = live.ingest("POST", f"/runs/{run_id}/scalars", json=body)
    assert response.status_code == 200, response.text


def save_rule(live: LiveServer, **changes: Any) -> Json:
    rule = {"name": "high", "metric": "loss", "scope": "trainer", "operator": ">", "threshold": 1.0}
    response = live.call("POST", "/alert-rules", json={**rule, **changes})
    assert response.status_code == 201, response.text
    found: Json = response.json()
    return found


def act(live: LiveServer, alert_id: int, kind: str, **body: Any) -> Json:
    response = live.call("POST", f"/alerts/{alert_id}/{kind}", json=body)
    assert response.status_code == 200, response.text
    found: Json = response.json()
    return found


def only(live: LiveServer, **filters: Any) -> Json:
    (item,) = live.get("/alerts", **filters)["items"]
    found: Json = item
    return found


def told(live: LiveServer) -> list[tuple[str, str, str | None, str | None]]:
    """The outbox: change, severity, by whom, and why it is resolved."""
    with live.services.database.read_session() as session:
        rows = session.scalars(select(AlertChange).order_by(AlertChange.id)).all()
    return [(row.change, row.severity, row.by, row.reason) for row in rows]


def changes(live: LiveServer) -> list[str]:
    return [change for change, *_ in told(live)]


def opened(live: LiveServer, **rule: Any) -> tuple[str, int]:
    """A run with an open alert since step 3."""
    save_rule(live, **rule)
    run_id = live.start_run()
    log(live, run_id, {1: 0.5, 2: 0.5})
    log(live, run_id, {3: 2.0})
    return run_id, int(only(live)["alert_id"])


def validity(rate: float) -> Json:
    metrics = {"reward": {"value": 0.5}, "valid_reasoning_rate": {"value": rate}}
    return result_body(batch_metrics=metrics)
