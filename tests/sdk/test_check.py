"""`collapsewatch check`: what it makes of a run, and of a name that several runs have."""

import json
from typing import Any

import pytest

from collapsewatch.asking.check import Finding, Verdict, check_run
from collapsewatch.asking.reader import ServerReader

CRITICAL = {
    "alert_id": 1,
    "rule": "input_dependence",
    "severity": "critical",
    "superseded": False,
    "opened_step": 41,
    "title": "Input dependence fell to about chance",
    "status": "resolved",
}


def run_of(run_id: str = "r1", **changes: Any) -> dict[str, Any]:
    run = {
        "run_id": run_id,
        "name": "grpo",
        "project": "default",
        "jobs": {"done": 20, "queued": 0, "leased": 0},
        "latest": {"retrieval_accuracy": 0.9},
        "regime": {"regime": "diverse_reasoning"},
        "baseline": {"complete": True},
        "why_unscored": None,
        "last_seen_at": "2026-01-01T00:00:00.000Z",
        "updated_at": "2026-01-01T00:00:00.000Z",
    }
    return {**run, **changes}


class FakeReader(ServerReader):
    def __init__(self, *runs: dict[str, Any], alerts: tuple[dict[str, Any], ...] = ()) -> None:
        self._runs = {run["run_id"]: run for run in runs}
        self._alerts = list(alerts)
        self.asked: list[str] = []

    def run(self, run_id: str) -> dict[str, Any] | None:
        self.asked.append(run_id)
        return self._runs.get(run_id)

    def runs(self, project: str | None) -> list[dict[str, Any]]:
        return [run for run in self._runs.values() if project in (None, run["project"])]

    def alerts(self, run_id: str) -> list[dict[str, Any]]:
        return self._alerts


def found(*runs: dict[str, Any], named: str = "grpo", **options: Any) -> Finding:
    project = options.pop("project", None)
    return check_run(FakeReader(*runs, **options), named, project, lambda line: None)


def test_a_critical_alert_is_a_collapse_also_once_it_is_resolved() -> None:
    finding = found(run_of(), alerts=(CRITICAL,))
    assert finding.verdict is Verdict.collapse
    assert int(finding.verdict) == 3
    assert finding.step == 41


def test_a_critical_alert_counts_while_the_rest_is_being_scored() -> None:
    waiting = {"done": 45, "queued": 5, "leased": 1}
    assert found(run_of(jobs=waiting), alerts=(CRITICAL,)).verdict is Verdict.collapse
    assert found(run_of(jobs=waiting)).verdict is Verdict.unknown


@pytest.mark.parametrize(
    "change", [{"severity": "warning"}, {"rule": "stalled_run"}, {"superseded": True}], ids=str
)
def test_other_alerts_are_no_collapse(change: dict[str, Any]) -> None:
    finding = found(run_of(), alerts=({**CRITICAL, **change},))
    assert finding.verdict is Verdict.no_collapse
    assert int(finding.verdict) == 0


def test_a_run_without_scores_is_unknown_and_says_why() -> None:
    finding = found(run_of(latest={}, why_unscored="no turn has a closed reasoning"))
    assert finding.verdict is Verdict.unknown
    assert int(finding.verdict) == 2
    assert "no turn has a closed reasoning" in finding.reason


def test_a_run_too_short_for_a_baseline_says_so() -> None:
    assert "no complete baseline" in found(run_of(baseline=None)).reason
    assert "no complete baseline" in found(run_of(baseline={"complete": False})).reason
    assert found(run_of()).reason == "no critical alert"


def test_no_such_run() -> None:
    assert found(run_of(), named="other").verdict is Verdict.unknown
    assert found(run_of(), project="other").verdict is Verdict.unknown
    assert found(run_of(), named="r1", project="other").verdict is Verdict.unknown


def test_by_id_by_name_and_of_several_the_one_heard_from_last() -> None:
    runs = [run_of(f"r{n}", last_seen_at=f"2026-01-0{n}T00:00:00.000Z") for n in (1, 3, 2)]
    told: list[str] = []
    assert check_run(FakeReader(*runs), "grpo", None, told.append).run_id == "r3"
    assert told == ["3 runs are called 'grpo'; this is the one heard from last, r3"]
    assert check_run(FakeReader(*runs), "r2", None, told.append).run_id == "r2"
    assert len(told) == 1


def test_a_name_that_no_id_can_be_is_not_asked_for_as_one() -> None:
    reader = FakeReader(run_of(name="by hand/2"))
    assert check_run(reader, "by hand/2", None, lambda line: None).run_id == "r1"
    assert reader.asked == ["r1"]


def test_the_json_says_all_of_it() -> None:
    document = json.loads(found(run_of(), alerts=(CRITICAL,)).as_json())
    assert document["verdict"] == "collapse"
    assert document["exit_code"] == 3
    assert document["step"] == 41
    assert document["retrieval_accuracy"] == 0.9
