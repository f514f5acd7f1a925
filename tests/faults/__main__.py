"""`make faults`: kills every part of both deployments, and counts what became of each batch."""

import argparse
import random
import shutil
import sys
import time

from tests.faults.audit import Account
from tests.faults.stack import Stack
from tests.faults.suite import DEPLOYMENTS, Outcome, Suite, faults_of, new_folder, workload_of


def run_round(deployment: str, seed: int, *, is_short: bool) -> list[Outcome]:
    """All faults of one deployment, in an order drawn from the seed; each outcome is told at once."""
    folder = new_folder()
    stack = Stack(folder, deployment == "scaled_out")
    outcomes: list[Outcome] = []
    try:
        stack.start()
        suite = Suite(stack, workload_of(seed, is_short=is_short), is_short=is_short)
        outcomes.append(_told(suite.run_undisturbed()))
        faults = faults_of(deployment)
        random.Random(seed).shuffle(faults)
        outcomes += [_told(suite.run(fault)) for fault in faults]
    finally:
        stack.stop()
        if all(outcome.account.is_clean for outcome in outcomes):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"the logs are in {folder}", flush=True)
    return outcomes


def _told(outcome: Outcome) -> Outcome:
    print(outcome, flush=True)
    for problem in outcome.account.problems:
        print(f"    {problem}", flush=True)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0, help="rounds begin until so long has passed")
    parser.add_argument("--deployment", choices=[*DEPLOYMENTS, "both"], default="both")
    parser.add_argument("--short", action="store_true", help="one short round")
    given = parser.parse_args()
    deployments = DEPLOYMENTS if given.deployment == "both" else (given.deployment,)
    total, started, seed = Account(), time.monotonic(), given.seed
    while True:
        print(f"seed {seed}", flush=True)
        for deployment in deployments:
            for outcome in run_round(deployment, seed, is_short=given.short):
                total.add(outcome.account)
        seed += 1
        if given.short or time.monotonic() - started >= given.minutes * 60:
            break
    print(total)
    return 0 if total.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
