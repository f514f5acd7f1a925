"""`collapsewatch check`: whether a run has raised a critical alert on its input dependence."""

import json
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from collapsewatch.asking.named import NoSuchRunError, Tell, find_run
from collapsewatch.asking.reader import ServerReader

RULE = "input_dependence"
"""The rule whose critical alert says that reasoning no longer depends on the input."""


class Verdict(IntEnum):
    """The exit code."""

    no_collapse = 0
    unknown = 2
    """No such run, or nothing of it is scored yet."""
    collapse = 3


@dataclass(frozen=True)
class Finding:
    """What is known of a run."""

    verdict: Verdict
    reason: str
    run_id: str | None = None
    name: str | None = None
    project: str | None = None
    step: int | None = None
    """Step at which the first critical alert was opened."""
    num_scored: int = 0
    num_waiting: int = 0
    retrieval_accuracy: float | None = None
    regime: str | None = None

    def as_json(self) -> str:
        """The finding as one JSON object."""
        return json.dumps({**asdict(self), "verdict": self.verdict.name, "exit_code": int(self.verdict)})


def check_run(reader: ServerReader, named: str, project: str | None, tell: Tell) -> Finding:
    """The finding on the run of this id, else of this name.

    Args:
        tell: told when several runs have the name; the one that was heard from last is looked at.
    """
    try:
        run = find_run(reader, named, project, tell)
    except NoSuchRunError as error:
        return Finding(Verdict.unknown, str(error))
    return _finding(run, reader.alerts(run["run_id"]))


def _finding(run: dict[str, Any], alerts: list[dict[str, Any]]) -> Finding:
    raised = [
        alert
        for alert in alerts
        if alert["rule"] == RULE and alert["severity"] == "critical" and not alert["superseded"]
    ]
    jobs = run["jobs"]
    waiting = jobs.get("queued", 0) + jobs.get("leased", 0)
    accuracy = run["latest"].get("retrieval_accuracy")
    if raised:
        verdict, reason = Verdict.collapse, f"{raised[0]['title']}, at step {raised[0]['opened_step']}"
    elif waiting:
        verdict, reason = Verdict.unknown, f"{waiting} batches are not scored yet"
    elif accuracy is None:
        verdict = Verdict.unknown
        reason = (
            f"nothing of it is scored: {run['why_unscored'] or 'no batch with enough prompts and reasonings'}"
        )
    else:
        verdict, reason = Verdict.no_collapse, _calm(run)
    return Finding(
        verdict=verdict,
        reason=reason,
        run_id=run["run_id"],
        name=run["name"],
        project=run["project"],
        step=raised[0]["opened_step"] if raised else None,
        num_scored=jobs.get("done", 0),
        num_waiting=waiting,
        retrieval_accuracy=accuracy,
        regime=run["regime"]["regime"] if run["regime"] else None,
    )


def _calm(run: dict[str, Any]) -> str:
    if run["baseline"] is None or not run["baseline"].get("complete", True):
        return "no critical alert so far, and no complete baseline that could be fallen below"
    return "no critical alert"
