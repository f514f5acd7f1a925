"""Runs faults against a deployment and keeps the account of each."""

import random
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from collapsewatch.blobs import open_blob_store
from tests.faults import seen
from tests.faults.account import Account, Sent
from tests.faults.audit import Audit
from tests.faults.derived import Derived, differences, num_alerts
from tests.faults.faults import FAULTS
from tests.faults.proxy import Network, Proxy
from tests.faults.scene import Fault, Missed, Scene
from tests.faults.stack import Stack, TrainerProcess, Unavailable
from tests.faults.workload import Salts, Workload

DEPLOYMENTS = ("embedded", "scaled_out")
SETTLE_SECONDS = 240.0
_STANDING_SECONDS = 120.0
_MAX_TRIES = 3
_UNDISTURBED = Fault("undisturbed", lambda scene: None, leaves_unanswered=False)


@dataclass
class Outcome:
    """What one fault came to."""

    deployment: str
    fault: str
    account: Account
    seconds: float
    notes: list[str] = field(default_factory=list)
    skipped: str = ""
    """Why this machine cannot do it."""
    missed: str = ""
    """Why it hit nothing."""

    @property
    def is_good(self) -> bool:
        """Whether it was done, and nothing is wrong."""
        return self.account.is_clean and not (self.skipped or self.missed)

    def __str__(self) -> str:
        if self.skipped:
            return f"{self.deployment:<11}{self.fault:<22}skipped: {self.skipped}"
        verdict = "ok" if self.is_good else "MISSED" if self.account.is_clean else "FAILED"
        notes = f"  ({'; '.join(dict.fromkeys(self.notes))})" if self.notes else ""
        return f"{self.deployment:<11}{self.fault:<22}{self.account}  {self.seconds:.1f} s  {verdict}{notes}"


class Suite:
    """Faults against one started deployment, all with the same workload."""

    def __init__(self, stack: Stack, workload: Workload, *, is_short: bool) -> None:
        self.stack = stack
        self.audit = Audit(stack.database, open_blob_store(str(stack.service.home / "blobs")))
        self._workload = workload
        self._is_short = is_short
        self._expected: Derived = {}
        self._num_runs = 0

    def run_undisturbed(self) -> Outcome:
        """The run that every other is compared with."""
        outcome, trainer = self._observed(_UNDISTURBED)
        self._expected = self.audit.derived(trainer.run_id)
        if num_alerts(self._expected) < 2:
            outcome.account.problems.append(f"only {num_alerts(self._expected)} alerts to compare")
        return outcome

    def run(self, fault: Fault) -> Outcome:
        """One fault, and what the database says afterwards. One that hits nothing is tried again."""
        total, notes = Account(), list[str]()
        started = time.monotonic()
        for _ in range(_MAX_TRIES):
            outcome, trainer = self._observed(fault)
            total.add(outcome.account)
            notes += outcome.notes
            if not outcome.skipped:
                total.problems += [
                    f"differs from the undisturbed run: {line}" for line in self._differences(trainer)
                ]
            if not outcome.missed or not total.is_clean:
                break
        return replace(outcome, account=total, notes=notes, seconds=time.monotonic() - started)

    def _differences(self, trainer: TrainerProcess) -> list[str]:
        """A run of several attempts is held against one attempt that logs what each of them owns."""
        if len(trainer.starts) == 1:
            return differences(self._expected, self.audit.derived(trainer.run_id))
        return self._compare(trainer.run_id, trainer.workload, trainer.owners())

    def _compare(self, run_id: str, workload: Workload, salts: Salts | None = None) -> list[str]:
        reference = self.stack.trainer(f"{run_id}-reference", replace(workload, pace_seconds=0.02))
        reference.start(0, salts)
        problems = self._settle_trainer(reference)
        problems += self._await_scores(reference.run_id, Sent(set(reference.ledger.keys())))
        if self.audit.num_jobs(reference.run_id)["thinned"]:
            problems.append("batches of the run that it is compared with were thinned")
        return problems or differences(self.audit.derived(reference.run_id), self.audit.derived(run_id))

    def _observed(self, fault: Fault) -> tuple[Outcome, TrainerProcess]:
        started = time.monotonic()
        self._num_runs += 1
        drawn = random.Random(f"{self._workload.seed}/{self.stack.name}/{fault.name}/{self._num_runs}")
        trainer = self.stack.trainer(f"{self._num_runs:02}-{fault.name.replace('_', '-')}", self._workload)
        scene = Scene(self.stack, self.audit, trainer, drawn, self._is_short, self._compare)
        logs = seen.Logs(self.stack.logs())
        since = [network.num_exchanges for network in self._networks()]
        problems: list[str] = []
        skipped = missed = ""
        trainer.start()
        try:
            fault.act(scene)
        except Unavailable as unavailable:
            skipped = str(unavailable)
        except Missed as error:
            missed = str(error)
            scene.note(f"missed: {missed}")
        except (AssertionError, TimeoutError) as error:
            problems.append(str(error))
        finally:
            self._mend()
        problems += self._settle(scene, fault)
        problems += self._seen(fault, since, scene)
        problems += logs.wrong([*self.stack.logs(), trainer.log], fault.logged)
        account = self._account(scene, fault)
        account.problems += problems
        trainer.kill()
        seconds = time.monotonic() - started
        outcome = Outcome(self.stack.name, fault.name, account, seconds, scene.notes, skipped, missed)
        return outcome, trainer

    def _networks(self) -> tuple[Proxy, Proxy]:
        return self.stack.network, self.stack.worker_network

    def _seen(self, fault: Fault, since: list[int], scene: Scene) -> list[str]:
        """What clients saw and should not have."""
        trainers, workers = (
            network.exchanges(count) for network, count in zip(self._networks(), since, strict=True)
        )
        problems = seen.bad_answers([*trainers, *workers], fault.answers)
        if not fault.leaves_unanswered:
            problems += seen.unanswered(trainers)
        for who, exchanges in (("trainers", trainers), ("workers", workers)):
            if exchanges:
                told = [seen.slowest(exchanges), seen.statuses(exchanges)]
                scene.note(f"{who} saw {len(exchanges)} answers: {', '.join(filter(None, told))}")
        return problems

    def _mend(self) -> None:
        """Whatever a fault that failed half way may have left broken."""
        self.stack.resume_workers()
        for network in self._networks():
            network.let_go()
            network.become(Network.up)
        (self.stack.service.home / "balloon").unlink(missing_ok=True)
        if self.stack.scaled_out:
            if self.stack.redis is not None and self.stack.redis.poll() is not None:
                self.stack.start_redis()
            if not self.stack.postgres.is_running:
                self.stack.postgres.start()
        if self.stack.server.poll() is not None:
            self.stack.start_server()
        while self.stack.scaled_out and len(self.stack.worker_pids()) < 2:
            self.stack.start_worker()

    def _settle(self, scene: Scene, fault: Fault) -> list[str]:
        """Waits for a bounded time until nothing more can happen. Returns what did not."""
        problems = self._settle_trainer(scene.trainer)
        for run_id, sent in self._sent(scene, fault).items():
            problems += self._await_scores(run_id, sent)
        problems += self._await_standing(scene, fault)
        return problems

    def _settle_trainer(self, trainer: TrainerProcess) -> list[str]:
        problems = []
        try:
            self.stack.wait_until(trainer.has_ended, "the trainer ends", timeout_seconds=SETTLE_SECONDS)
        except TimeoutError as error:
            problems.append(str(error))
        if trainer.process is not None and trainer.process.poll() not in (0, None):
            problems.append(f"the trainer ended with {trainer.process.poll()}: see {trainer.log}")
        if trainer.ledger.dropped():
            problems.append(f"the trainer dropped {dict(trainer.ledger.dropped())}")
        if trainer.spool.exists() and any(trainer.spool.rglob("*.seg")):
            trainer.sync()
        return problems

    def _await_scores(self, run_id: str, sent: Sent) -> list[str]:
        keys = sent.keys if not sent.num_dropped else self.audit.accepted(run_id)
        try:
            self.stack.wait_until(
                lambda: self.audit.is_settled(run_id, keys),
                f"all batches of {run_id} are scored or dead",
                timeout_seconds=SETTLE_SECONDS,
            )
        except TimeoutError as error:
            return [f"{error}; jobs: {dict(self.audit.num_jobs(run_id))}"]
        return []

    def _await_standing(self, scene: Scene, fault: Fault) -> list[str]:
        """Waits until the watch and the events say what is true; what they say instead, when they do not."""
        found: list[str] = []

        def is_right() -> bool:
            found.clear()
            for run_id, sent in self._sent(scene, fault).items():
                found.extend(self.audit.problems(run_id, sent))
            found.extend(f"open: {alert}" for alert in self.audit.open_service_alerts())
            return not found

        try:
            self.stack.wait_until(is_right, "the runs stand right", timeout_seconds=_STANDING_SECONDS)
        except TimeoutError:
            return found
        return []

    def _sent(self, scene: Scene, fault: Fault) -> dict[str, Sent]:
        trainer = scene.trainer
        own = Sent(set(trainer.ledger.keys()), num_attempts=len(trainer.starts), opened=fault.opened)
        return {trainer.run_id: own, **scene.other_runs}

    def _account(self, scene: Scene, fault: Fault) -> Account:
        account = Account()
        for run_id, sent in self._sent(scene, fault).items():
            account.add(self.audit.account(run_id, sent))
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
