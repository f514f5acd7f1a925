"""A trainer that uses the SDK as training code does, and writes down every call that has returned.

Started as `python -m tests.faults.trainer`; the server and the key come from the environment.
"""

import argparse
import json
import logging
import os
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import collapsewatch
from tests.faults.workload import Salts, Workload, salt_of, salts_from

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

    def steps(self, call: str = "log_rollouts", attempt: str | None = None) -> list[int]:
        """Steps whose call has returned, in order, of one attempt or of all."""
        return [step for name, step in self.keys(call) if attempt in (None, name)]

    def keys(self, call: str = "log_rollouts") -> list[tuple[str, int]]:
        """Attempt and step of every such call that has returned, in order."""
        return [(entry["attempt"], entry["step"]) for entry in self.entries() if entry["call"] == call]

    def dropped(self) -> Counter[str]:
        """What the trainers that came to their end have dropped, by reason."""
        found: Counter[str] = Counter()
        for entry in self.entries():
            if entry["call"] == "finish":
                found.update(entry["dropped"])
        return found


def train(workload: Workload, run_id: str, ledger: Ledger, *, from_step: int, salts: Salts) -> None:
    """Logs the workload's steps from `from_step` on, and waits until they have arrived."""
    attempt = os.environ["COLLAPSEWATCH_ATTEMPT_ID"]
    pauses = random.Random()
    run = collapsewatch.init(project="faults", name=run_id, run_id=run_id, scorer="lexical", resume="allow")
    for step in range(from_step, workload.num_steps):
        salt = salt_of(salts, step)
        run.log_rollouts(step, **workload.columns(step, salt))
        ledger.write(call="log_rollouts", attempt=attempt, step=step)
        run.log(workload.scalars(step, salt), step=step)
        ledger.write(call="log", attempt=attempt, step=step)
        time.sleep(pauses.uniform(0, 2 * workload.pace_seconds))
    run.finish(FINISH_SECONDS)
    ledger.write(call="finish", attempt=attempt, dropped=dict(run.dropped))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--ledger", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--num-steps", type=int, required=True)
    parser.add_argument("--pace-seconds", type=float, required=True)
    parser.add_argument("--from-step", type=int, default=0)
    parser.add_argument("--salts", type=salts_from, default=[])
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    workload = Workload(given.seed, given.num_steps, given.pace_seconds)
    train(workload, given.run_id, Ledger(given.ledger), from_step=given.from_step, salts=given.salts)


if __name__ == "__main__":
    main()
