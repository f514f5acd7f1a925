"""The parent's handle on its scoring process: start, send a job, wait for the answer, stop."""

import contextlib
import logging
import multiprocessing
import os
import signal
import subprocess
import sys

from pydantic import ValidationError

from collapsewatch.contracts.scoring import Job
from collapsewatch_worker.loop.messages import Message, decoded
from collapsewatch_worker.settings import ScoringSettings

log = logging.getLogger(__name__)

CHILD_COMMAND = (sys.executable, "-P", "-m", "collapsewatch_worker.loop.child")
"""`-P` keeps a stray `torch.py` of the current folder from being imported."""

_EXIT_SECONDS = 0.5
# The child has no use for these, and what it does not hold a checkpoint's loader cannot read.
_KEPT_FROM_CHILD = ("COLLAPSEWATCH_WORKER_KEY", "COLLAPSEWATCH_REDIS_URL", "COLLAPSEWATCH_ENGINE_KEY")


class ScoringProcessGone(Exception):
    """The process ended, or its pipe did; the message says how."""


class ScoringProcess:
    """One child at the other end of a pipe of its own: what it prints on stdout disturbs nothing.

    Making one raises ScoringProcessGone when it cannot be started or ends at once.

    Start it in a thread that lives as long as it should: on Linux it dies with the thread that started it.
    """

    def __init__(self, settings: ScoringSettings, *, command: tuple[str, ...] = CHILD_COMMAND) -> None:
        environment = {key: value for key, value in os.environ.items() if key not in _KEPT_FROM_CHILD}
        try:
            self._pipe, theirs = multiprocessing.Pipe()
        except OSError as error:
            raise ScoringProcessGone(f"no pipe to a scoring process can be made: {error}") from error
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own module, no shell
                [*command, str(theirs.fileno()), str(os.getpid())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            # The machine may be out of memory or of process ids for a moment: no reason to end the worker.
            self._pipe.close()
            raise ScoringProcessGone(f"the scoring process cannot be started: {error}") from error
        finally:
            theirs.close()
        try:
            self._send_bytes(settings.model_dump_json().encode())
        except ScoringProcessGone:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Process id, also after it ended."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether the process has not ended yet."""
        return self._process.poll() is None

    def send(self, job: Job) -> None:
        """Hands the job over.

        Raises:
            ScoringProcessGone: nobody is there to take it.
        """
        if not self.is_alive():
            raise self._gone()
        self._send_bytes(job.model_dump_json().encode())

    def receive(self, timeout_seconds: float) -> Message | None:
        """The next message, or None when none came in time.

        Raises:
            ScoringProcessGone: the process ended without a word.
        """
        try:
            if not self._pipe.poll(max(0.0, timeout_seconds)):
                return None
            return decoded(self._pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise self._gone() from error
        except ValidationError as error:
            raise ScoringProcessGone(f"the scoring process sent a malformed message: {error}") from error

    def stop(self) -> None:
        """Ends the process: an idle one leaves when the pipe closes, a busy one is killed."""
        self._pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_SECONDS)
            return
        self._process.kill()
        self._process.wait()

    def _send_bytes(self, frame: bytes) -> None:
        try:
            self._pipe.send_bytes(frame)
        except OSError as error:
            raise self._gone() from error

    def _gone(self) -> ScoringProcessGone:
        try:
            # The pipe closes a moment before the exit status is there.
            code = self._process.wait(_EXIT_SECONDS)
        except subprocess.TimeoutExpired:
            return ScoringProcessGone("the scoring process closed its pipe")
        if code >= 0:
            return ScoringProcessGone(f"the scoring process left with exit status {code}")
        hint = ", often for lack of memory" if -code == signal.SIGKILL else ""
        return ScoringProcessGone(f"the scoring process was ended by {_signal_name(-code)}{hint}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have none
        return f"signal {number}"
