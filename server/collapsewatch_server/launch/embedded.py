"""The worker process that comes with the server: started, restarted when it dies, stopped with the server."""

import asyncio
import ctypes
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec

from collapsewatch_server.settings import ServerSettings

log = logging.getLogger(__name__)

_MODULE = "collapsewatch_worker"
_NEEDED = (_MODULE, "torch", "transformers", "sklearn")
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0
_LONG_LIFE_SECONDS = 60.0
_JOB_GRACE_SECONDS = 2.0
_STOP_SECONDS = 3.0
_PR_SET_PDEATHSIG = 1
_OF_THE_SERVER_ALONE = (
    "COLLAPSEWATCH_DATABASE_URL",
    "COLLAPSEWATCH_SECRET_KEY",
    "COLLAPSEWATCH_OIDC_CLIENT_SECRET",
)


def missing_module() -> str | None:
    """A module that the worker needs and that is not installed."""
    return next((name for name in _NEEDED if find_spec(name) is None), None)


def worker_environment(
    settings: ServerSettings, server_url: str, worker_key: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """The environment of the embedded worker: where to ask and with which key; no secret of the server."""
    kept = {name: value for name, value in environment.items() if name not in _OF_THE_SERVER_ALONE}
    given = {
        "COLLAPSEWATCH_HOME": str(settings.home),
        "COLLAPSEWATCH_SERVER_URL": server_url,
        "COLLAPSEWATCH_WORKER_KEY": worker_key,
        "COLLAPSEWATCH_BLOB_URL": settings.effective_blob_url,
        "COLLAPSEWATCH_REDIS_URL": settings.effective_redis_url or "",
        "COLLAPSEWATCH_DEVICE": settings.worker_device,
        "COLLAPSEWATCH_CHECKPOINT_ROOTS": json.dumps([str(root) for root in settings.checkpoint_roots]),
        "COLLAPSEWATCH_MAX_BATCH_BYTES": str(settings.max_batch_bytes),
        "COLLAPSEWATCH_SHUTDOWN_SECONDS": str(_JOB_GRACE_SECONDS),
        "COLLAPSEWATCH_LOG_LEVEL": settings.log_level,
    }
    return {**kept, **given}


class EmbeddedWorker:
    """One worker process. Used from the event loop of the main thread.

    The main thread matters: the process asks to die with the thread that started it.
    """

    def __init__(self, environment: Mapping[str, str], command: Sequence[str] = ()) -> None:
        self._environment = dict(environment)
        self._command = list(command) or [sys.executable, "-m", _MODULE]
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that runs now."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Starts the process and watches over it."""
        self._task = asyncio.create_task(self._keep_running())

    async def stop(self) -> None:
        """Stops the process: the job in hand has a moment, then it goes back to the queue."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        process = self._process
        # A second SIGTERM tells the worker not to wait for the job in hand.
        for number, seconds in (
            (signal.SIGTERM, _STOP_SECONDS),
            (signal.SIGTERM, 1.0),
            (signal.SIGKILL, 2.0),
        ):
            if process is None or process.returncode is not None:
                return
            with suppress(ProcessLookupError):
                process.send_signal(number)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), seconds)

    async def _keep_running(self) -> None:
        pause_seconds = _FIRST_PAUSE_SECONDS
        while True:
            started = time.monotonic()
            try:
                returncode = await self._run_once()
                log.error("the worker process ended, another is started", extra={"returncode": returncode})
            except Exception:
                # Such as no memory or no file descriptor left, which another try may find.
                log.exception("the worker process could not be started")
            if time.monotonic() - started > _LONG_LIFE_SECONDS:
                pause_seconds = _FIRST_PAUSE_SECONDS
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)

    async def _run_once(self) -> int:
        """How the process ended."""
        # A session of its own: Ctrl-C reaches the server alone, which then stops the worker in order.
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            env=self._environment,
            stdin=asyncio.subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_die_with_parent(),
        )
        return await self._process.wait()


def _die_with_parent() -> Callable[[], None] | None:
    """Asks the kernel to end the new process with this one, even when this one is killed."""
    if sys.platform != "linux":
        return None
    # Looked up before the fork: between fork and exec as little as possible may happen.
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask
