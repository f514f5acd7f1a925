"""`make faults`: kills every part of both deployments, and counts what became of each batch."""

import argparse
import random
import shutil
import sys
import time

from tests.faults.account import Account
from tests.faults.stack import Stack
from tests.faults.suite import DEPLOYMENTS, Outcome, Suite, faults_of, new_folder, workload_of


def run_round(deployment: str, seed: int, names: list[str], *, is_short: bool) -> list[Outcome]:
    """All faults of one deployment, in an order drawn from the seed; each outcome is told at once."""
    folder = new_folder()
    stack = Stack(folder, deployment == "scaled_out")
    outcomes: list[Outcome] = []
    try:
        stack.start()
        suite = Suite(stack, workload_of(seed, is_short=is_short), is_short=is_short)
        outcomes.append(_told(suite.run_undisturbed()))
        faults = [fault for fault in faults_of(deployment) if not names or fault.name in names]
        random.Random(seed).shuffle(faults)
        outcomes += [_told(suite.run(fault)) for fault in faults]
    finally:
        stack.stop()
        if outcomes and all(outcome.account.is_clean for outcome in outcomes):
            shutil.rmtree(folder, ignore_errors=True)
        else:
            print(f"the logs are in {folder}", flush=True)
    return outcomes


def _told(outcome: Outcome) -> Outcome:
    print(outcome, flush=True)
    for problem in outcome.account.problems:
        print(f"    {problem}", flush=True)
    return outcome


def verdict(outcomes: list[Outcome], total: Account, *, may_skip: bool) -> int:
    """Exit code: 0 only when every fault was done and nothing is wrong."""
    undone = {
        "skipped": sorted({f"{one.deployment} {one.fault}" for one in outcomes if one.skipped}),
        "hit nothing": sorted({f"{one.deployment} {one.fault}" for one in outcomes if one.missed}),
    }
    for why, names in undone.items():
        if names:
            print(f"{why}: {', '.join(names)}")
    if total.num_dropped:
        print(f"dropped by trainers without room, and counted by them: {total.num_dropped}")
    print(total)
    is_done = not undone["hit nothing"] and (may_skip or not undone["skipped"])
    return 0 if total.is_clean and is_done else 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=10.0, help="rounds begin until so long has passed")
    parser.add_argument("--deployment", choices=[*DEPLOYMENTS, "both"], default="both")
    parser.add_argument("--short", action="store_true", help="one short round")
    parser.add_argument("--only", action="append", default=[], metavar="FAULT", help="may be given again")
    parser.add_argument("--may-skip", action="store_true", help="faults that need root may be left out")
    given = parser.parse_args()
    deployments = DEPLOYMENTS if given.deployment == "both" else (given.deployment,)
    outcomes: list[Outcome] = []
    started, seed = time.monotonic(), given.seed
    while True:
        print(f"seed {seed}", flush=True)
        for deployment in deployments:
            outcomes += run_round(deployment, seed, given.only, is_short=given.short)
        seed += 1
        if given.short or time.monotonic() - started >= given.minutes * 60:
            break
    total = Account()
    for outcome in outcomes:
        total.add(outcome.account)
    return verdict(outcomes, total, may_skip=given.may_skip)


if __name__ == "__main__":
    sys.exit(main())
