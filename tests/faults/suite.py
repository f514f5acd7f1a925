"""Runs faults against a deployment and keeps the account of each."""

import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.audit import Account, Audit, Derived, differences, num_alerts
from tests.faults.faults import FAULTS, Fault, Scene
from tests.faults.stack import Stack, TrainerProcess, Unavailable
from tests.faults.workload import Workload

DEPLOYMENTS = ("embedded", "scaled_out")
SETTLE_SECONDS = 120.0


@dataclass
class Outcome:
    """What one fault came to."""

    deployment: str
    fault: str
    account: Account
    seconds: float
    notes: list[str] = field(default_factory=list)
    skipped: str = ""

    def __str__(self) -> str:
        if self.skipped:
            return f"{self.deployment:<11}{self.fault:<22}skipped: {self.skipped}"
        verdict = "ok" if self.account.is_clean else "FAILED"
        notes = f"  ({'; '.join(dict.fromkeys(self.notes))})" if self.notes else ""
        return f"{self.deployment:<11}{self.fault:<22}{self.account}  {self.seconds:.1f} s  {verdict}{notes}"


class Suite:
    """Faults against one started deployment, all with the same workload."""

    def __init__(self, stack: Stack, workload: Workload, *, is_short: bool) -> None:
        self.stack = stack
        self.audit = Audit(stack.database)
        self._workload = workload
        self._is_short = is_short
        self._expected: Derived = {}
        self._num_runs = 0

    def run_undisturbed(self) -> Outcome:
        """The run that every other is compared with."""
        outcome, trainer = self._observed("undisturbed", lambda scene: None)
        self._expected = self.audit.derived(trainer.run_id)
        if num_alerts(self._expected) < 2:
            outcome.account.problems.append(f"only {num_alerts(self._expected)} alerts to compare")
        return outcome

    def run(self, fault: Fault) -> Outcome:
        """One fault, and what the database says afterwards."""
        outcome, trainer = self._observed(fault.name, fault.act)
        if not outcome.skipped:
            found = self.audit.derived(trainer.run_id)
            outcome.account.problems += [
                f"differs from the undisturbed run: {line}" for line in differences(self._expected, found)
            ]
        return outcome

    def _observed(self, name: str, act: Callable[[Scene], None]) -> tuple[Outcome, TrainerProcess]:
        started = time.monotonic()
        self._num_runs += 1
        drawn = random.Random(f"{self._workload.seed}/{self.stack.name}/{name}")
        trainer = self.stack.trainer(f"{self._num_runs:02}-{name.replace('_', '-')}", self._workload)
        scene = Scene(self.stack, self.audit, trainer, drawn, self._is_short)
        problems: list[str] = []
        skipped = ""
        trainer.start()
        try:
            act(scene)
        except Unavailable as unavailable:
            skipped = str(unavailable)
        except (AssertionError, TimeoutError) as error:
            problems.append(str(error))
        finally:
            self._mend()
        if not skipped:
            problems += self._settle(scene)
        account = self._account(scene)
        account.problems += problems
        trainer.kill()
        outcome = Outcome(self.stack.name, name, account, time.monotonic() - started, scene.notes, skipped)
        return outcome, trainer

    def _mend(self) -> None:
        """Whatever a fault that failed half way may have left broken."""
        from tests.faults.proxy import Network

        self.stack.resume_workers()
        for network in (self.stack.network, self.stack.worker_network):
            network.become(Network.up)
        (self.stack.service.home / "balloon").unlink(missing_ok=True)
        if self.stack.scaled_out:
            if self.stack.redis is not None and self.stack.redis.poll() is not None:
                self.stack.start_redis()
            if not self.stack.postgres.is_running:
                self.stack.postgres.start()
        if self.stack.server.poll() is not None:
            self.stack.start_server()

    def _settle(self, scene: Scene) -> list[str]:
        """Waits for a bounded time until nothing more can happen. Returns what did not."""
        trainer = scene.trainer
        problems = []
        try:
            self.stack.wait_until(trainer.has_ended, "the trainer ends", timeout_seconds=SETTLE_SECONDS)
        except TimeoutError as error:
            problems.append(str(error))
        if trainer.process is not None and trainer.process.poll() not in (0, None):
            problems.append(f"the trainer ended with {trainer.process.poll()}: see {trainer.log}")
        dropped = [entry["dropped"] for entry in trainer.ledger.entries() if entry["call"] == "finish"]
        problems += [f"the trainer dropped {counts}" for counts in dropped if counts]
        if trainer.spool.exists() and any(trainer.spool.rglob("*.seg")):
            trainer.sync()
        for run_id, steps in {trainer.run_id: set(trainer.ledger.steps()), **scene.other_runs}.items():
            problems += self._await_scores(run_id, steps)
        return problems

    def _await_scores(self, run_id: str, steps: set[int]) -> list[str]:
        try:
            self.stack.wait_until(
                lambda: self.audit.is_settled(run_id, steps),
                f"all batches of {run_id} are scored or dead",
                timeout_seconds=SETTLE_SECONDS,
            )
        except TimeoutError as error:
            return [f"{error}; jobs: {dict(self.audit.num_jobs(run_id))}"]
        return []

    def _account(self, scene: Scene) -> Account:
        account = Account()
        account.add(self.audit.account(scene.trainer.run_id, scene.trainer.ledger.steps()))
        for run_id, steps in scene.other_runs.items():
            account.add(self.audit.account(run_id, steps))
        return account


def faults_of(deployment: str) -> list[Fault]:
    """Those that there are in this deployment."""
    return [fault for fault in FAULTS if deployment in fault.deployments]


def workload_of(seed: int, *, is_short: bool) -> Workload:
    """What the trainers log in the short and in the long form."""
    return Workload(seed, 18, 0.04) if is_short else Workload(seed, 60, 0.1)


def new_folder() -> Path:
    """For everything that a deployment leaves on disk."""
    return Path(tempfile.mkdtemp(prefix="cw-faults-"))
