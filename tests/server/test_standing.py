"""A trainer that asks what stands on its run, by the real SDK."""

from typing import Any

import pytest

import collapsewatch
from collapsewatch import alerts
from collapsewatch.alerts import Alert
from tests.conftest import WaitUntil
from tests.server.alerted import act, only, save_rule
from tests.server.live import LiveServer


@pytest.fixture
def run(live: LiveServer, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(alerts, "ASK_SECONDS", 0.05)
    monkeypatch.setenv("COLLAPSEWATCH_SPOOL", str(tmp_path / "spool"))
    run = collapsewatch.init("p", "n", url=live.url, api_key=live.ingest_key)
    yield run
    run.finish(10)


def test_a_trainer_hears_of_its_alerts_and_stops_unless_somebody_looks_after_them(
    live: LiveServer, run: collapsewatch.Run, wait_until: WaitUntil
) -> None:
    save_rule(live, severity="critical")
    heard: list[Alert] = []
    run.on_alert(heard.append)
    assert not run.should_stop()
    run.log({"loss": 0.5}, step=1)
    run.log({"loss": 2.0}, step=2)
    wait_until(lambda: run.should_stop(), "the run should stop")
    wait_until(lambda: len(heard) == 1, "the callback was called")
    assert (heard[0].change, heard[0].severity, heard[0].state, heard[0].step) == (
        "opened",
        "critical",
        "open",
        2,
    )
    alert_id = int(only(live)["alert_id"])
    act(live, alert_id, "acknowledge")
    wait_until(lambda: not run.should_stop(), "an acknowledged alert stops nobody")
    act(live, alert_id, "resolve")
    wait_until(lambda: len(heard) == 2, "the callback was called again")
    assert heard[1].change == "resolved"


def test_alerts_of_a_run_are_told_to_its_own_project_only(live: LiveServer) -> None:
    run_id = live.start_run()
    path = f"/runs/{run_id}/alerts/standing"
    assert live.ingest("GET", path).json() == {"alerts": []}
    assert live.call("GET", path).status_code == 401
    assert live.call("GET", path, key=live.worker_key).status_code == 403
    assert live.ingest("GET", "/runs/nobody/alerts/standing").status_code == 404
