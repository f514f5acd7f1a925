"""What a fault is, and what it may touch."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.faults.account import Sent
from tests.faults.audit import Audit
from tests.faults.stack import Stack, TrainerProcess
from tests.faults.workload import Workload

BOTH = ("embedded", "scaled_out")


class Missed(Exception):
    """The fault hit nothing: too late, or too early. It counts as not done and is tried again."""


@dataclass
class Scene:
    """What a fault may touch."""

    stack: Stack
    audit: Audit
    trainer: TrainerProcess
    random: random.Random
    is_short: bool
    compare: Callable[[str, "Workload"], list[str]] = lambda run_id, workload: []
    """Where the run differs from one with the same workload that nothing disturbed."""
    other_runs: dict[str, Sent] = field(default_factory=dict)
    """Runs beside the trainer's, with what was sent to them."""
    notes: list[str] = field(default_factory=list)

    def seconds(self, short: float, long: float) -> float:
        return short if self.is_short else long

    def times(self, long: int) -> range:
        """Once in the short form."""
        return range(1 if self.is_short else long)

    def await_moment(self, part: float = 0.6) -> None:
        """Comes back at a random moment in the first `part` of the training that is still to come."""
        done, last = len(self.trainer.ledger.steps()), self.trainer.workload.num_steps
        step = min(self.random.randint(min(done + 2, last), max(done + 2, int(last * part))), last - 1)
        self.stack.wait_until(
            lambda: len(self.trainer.ledger.steps()) >= step or self.trainer.has_ended(),
            f"the trainer reaches step {step}",
        )
        time.sleep(self.random.uniform(0, 0.02))

    def demand(self, has_hit: object, what: str) -> None:
        """Goes on when the fault has hit what it should.

        Raises:
            Missed: it has not.
        """
        if not has_hit:
            raise Missed(what)

    def freeze_in_job(self) -> int:
        """A worker whose scoring process now stands still in the middle of a job.

        Raises:
            Missed: all is scored.
        """
        # A third start that fails makes a job a dead one; that is no fault of the service.
        self.stack.wait_until(lambda: not self.audit.has_tried_jobs(2), "what was tried twice is scored")
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            for worker in self.stack.worker_pids():
                if self._freezes_in_job(worker):
                    return worker
            self.demand(not self.trainer.has_ended() or self._has_open_jobs(), "all was scored already")
        raise TimeoutError("no worker took a job within 180 s")

    def let_jobs_wait(self) -> None:
        """Stops the workers until a few jobs have queued up.

        Raises:
            Missed: no more come.
        """
        self.stack.signal_workers(signal.SIGSTOP)
        self.stack.wait_until(
            lambda: self.audit.num_jobs()["queued"] >= 2 or self.trainer.has_ended(), "jobs wait"
        )
        self.demand(self.audit.num_jobs()["queued"], "no job waited")

    def note(self, text: str) -> None:
        self.notes.append(text)

    def _freezes_in_job(self, worker: int) -> bool:
        child = self.stack.scoring_pid(worker)
        with suppress(ProcessLookupError):
            if child is not None:
                os.kill(child, signal.SIGSTOP)
                # The parent may still lease a job for it; an idle worker goes on.
                end = time.monotonic() + 1.0
                while time.monotonic() < end:
                    if worker in self.audit.leased_pid():
                        return True
                    time.sleep(0.01)
                os.kill(child, signal.SIGCONT)
                # One that is only starting must get on with it before it is stopped again.
                time.sleep(0.5)
        return False

    def _has_open_jobs(self) -> bool:
        jobs = self.audit.num_jobs()
        return bool(jobs["queued"] + jobs["leased"])


@dataclass(frozen=True)
class Fault:
    """One way to break a deployment, and what it explains."""

    name: str
    act: Callable[[Scene], None]
    deployments: tuple[str, ...] = BOTH
    answers: frozenset[int] = frozenset()
    """Statuses from 400 up that clients may see."""
    leaves_unanswered: bool = True
    """Whether it ends connections, so that some requests get no answer."""
    logged: str = ""
    """Errors in the logs that it explains, as a regular expression."""
    opened: frozenset[str] = frozenset()
    """Rules of the watch that may open an alert about the trainer's run."""
