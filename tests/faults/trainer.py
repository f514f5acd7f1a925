"""A trainer that uses the SDK as training code does, and writes down every call that has returned.

Started as `python -m tests.faults.trainer`; the server and the key come from the environment.
"""

import argparse
import inspect
import json
import logging
import os
import random
import time
from pathlib import Path
from typing import Any

import collapsewatch
from tests.faults.workload import Workload

FINISH_SECONDS = 120.0


class Ledger:
    """What has returned, one JSON line each. What was written outlives a SIGKILL of the writer."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, **entry: Any) -> None:
        """One system call per line, so that no line is ever half there."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, (json.dumps(entry) + "\n").encode())
        finally:
            os.close(descriptor)

    def entries(self) -> list[dict[str, Any]]:
        """All lines so far."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def steps(self, call: str = "log_rollouts") -> list[int]:
        """Steps whose call has returned, in order."""
        return [entry["step"] for entry in self.entries() if entry["call"] == call]


def train(workload: Workload, run_id: str, ledger: Ledger, *, from_step: int) -> None:
    """Logs the workload's steps from `from_step` on, and waits until they have arrived."""
    options: dict[str, Any] = {"resume": "allow"} if "resume" in _parameters() else {}
    pauses = random.Random()
    run = collapsewatch.init(project="faults", name=run_id, run_id=run_id, scorer="lexical", **options)
    for step in range(from_step, workload.num_steps):
        run.log_rollouts(step, **workload.columns(step))
        ledger.write(call="log_rollouts", step=step)
        run.log(workload.scalars(step), step=step)
        ledger.write(call="log", step=step)
        time.sleep(pauses.uniform(0, 2 * workload.pace_seconds))
    run.finish(FINISH_SECONDS)
    ledger.write(call="finish", dropped=dict(run.dropped))


def _parameters() -> set[str]:
    return set(inspect.signature(collapsewatch.init).parameters)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--num-steps", type=int, required=True)
    parser.add_argument("--pace-seconds", type=float, required=True)
    parser.add_argument("--from-step", type=int, default=0)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    workload = Workload(given.seed, given.num_steps, given.pace_seconds)
    train(workload, given.run_id, Ledger(given.ledger), from_step=given.from_step)


if __name__ == "__main__":
    main()
