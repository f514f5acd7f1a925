"""Everything that one deployment consists of, as processes that a fault may kill and start again."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.exc import SQLAlchemyError

from collapsewatch_server.db import Database
from tests import servers
from tests.faults.proxy import Proxy
from tests.faults.trainer import Ledger
from tests.faults.workload import Salts, Workload, told
from tests.integration.service import COMMAND, Service, base_environment
from tests.worker.job_server import children_of

_WORKER_KEY = "cw_worker_" + "fault" * 8
MAX_WAITING = 64
"""The server's own default."""
MAX_DEFERRED = 16
MAX_INTAKE_REQUESTS = 8
_DISK_BYTES = 96 * 2**20
_REPOSITORY = Path(__file__).parents[2]


class Unavailable(Exception):
    """This machine cannot do what the fault needs; the message says why."""


class LoggedService(Service):
    """The service with its logs beside its home, so that a full disk does not silence it."""

    def log(self, name: str) -> Path:
        return self.home.parent / f"{name}.log"


@dataclass
class TrainerProcess:
    """One trainer, its ledger and its spool. Each start is an attempt of its own, and salts what it logs."""

    run_id: str
    workload: Workload
    ledger: Ledger
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None
    starts: list[int] = field(default_factory=list)
    """First step of every start; attempt `a2` is the third."""

    def start(self, from_step: int = 0, salts: Salts | None = None) -> None:
        """Starts it; with salts of its own it is one attempt that logs what several have logged elsewhere."""
        number = len(self.starts)
        self.starts.append(from_step)
        options = {
            "run-id": self.run_id,
            "ledger": self.ledger.path,
            "seed": self.workload.seed,
            "num-steps": self.workload.num_steps,
            "pace-seconds": self.workload.pace_seconds,
            "from-step": from_step,
            "salts": told([(0, number)] if salts is None else salts),
        }
        command = [sys.executable, "-m", "tests.faults.trainer"]
        command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
        environment = self.environment | {"COLLAPSEWATCH_ATTEMPT_ID": f"a{number}"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=_REPOSITORY)

    def next_step(self) -> int:
        """The first step of the newest start of which not all has returned: a next start makes it again."""
        done = self.ledger.steps("log", f"a{len(self.starts) - 1}")
        return max(done) + 1 if done else self.starts[-1]

    def owners(self) -> Salts:
        """Which attempt owns the steps from which on."""
        found: Salts = []
        for number, from_step in enumerate(self.starts):
            found = [owned for owned in found if owned[0] < from_step] + [(from_step, number)]
        return found

    def kill(self) -> bool:
        """Whether it ran until now."""
        was_running = self.process is not None and self.process.poll() is None
        if self.process is not None:
            servers.end_process(self.process, signal.SIGKILL)
        return was_running and self.process is not None and self.process.returncode == -signal.SIGKILL

    def has_ended(self) -> bool:
        return self.process is not None and self.process.poll() is not None

    @property
    def spool(self) -> Path:
        return Path(self.environment["COLLAPSEWATCH_SPOOL"])

    def sync(self) -> tuple[int, str]:
        """Exit code and words of `collapsewatch sync`, which ships what the trainer left."""
        done = subprocess.run(
            [*COMMAND, "sync", str(self.spool)],
            env=self.environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=180,
        )
        with self.log.open("a") as log:
            log.write(f"--- sync, code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.returncode, done.stdout + done.stderr


@dataclass
class Stack:
    """One deployment: a server, one or two workers, its databases, and the network to its trainers."""

    folder: Path
    scaled_out: bool
    lease_seconds: float = 1.5
    has_disk: bool = False
    """Whether the home folder is a small disk of its own."""
    redis_port: int = 0
    redis: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _closing: ExitStack = field(default_factory=ExitStack)

    @property
    def name(self) -> str:
        return "scaled_out" if self.scaled_out else "embedded"

    def start(self) -> None:
        """Starts everything; `stop` ends it, also when this raised half way."""
        home = self.folder / "home"
        home.mkdir()
        self.has_disk = self._mount(home, _DISK_BYTES)
        environment = base_environment(home, self.folder) | {
            "COLLAPSEWATCH_WORKER_KEY": _WORKER_KEY,
            "COLLAPSEWATCH_LEASE_SECONDS": str(self.lease_seconds),
            "COLLAPSEWATCH_RECONCILE_SECONDS": "0.3",
            "COLLAPSEWATCH_WATCH_SECONDS": "0.5",
            # A trainer that was killed for good stays as it is until the account is made.
            "COLLAPSEWATCH_STALL_SECONDS": "600",
            "COLLAPSEWATCH_CRASH_SECONDS": "1200",
            # Few enough that a flood and a crowd pass them, and no other run does.
            "COLLAPSEWATCH_MAX_DEFERRED_BATCHES": str(MAX_DEFERRED),
            "COLLAPSEWATCH_MAX_INTAKE_REQUESTS": str(MAX_INTAKE_REQUESTS),
        }
        self.service = LoggedService(home, environment, self.scaled_out)
        self._closing.callback(self.service.stop)
        if self.scaled_out:
            self._start_databases(environment)
        self.database = Database(
            environment.get("COLLAPSEWATCH_DATABASE_URL", f"sqlite:///{home}/collapsewatch.db")
        )
        self._closing.callback(self.database.close)
        self.network = self._closing.enter_context(Proxy(self.service.port))
        self.worker_network = self._closing.enter_context(Proxy(self.service.port))
        self.start_server()
        for _ in range(2 if self.scaled_out else 0):
            self.start_worker()

    def stop(self) -> None:
        with suppress(OSError):
            self.resume_workers()
        self._closing.close()

    def start_server(self) -> None:
        options = ["--port", str(self.service.port), *(["--no-worker"] if self.scaled_out else [])]
        self.server = self.service.spawn("server", "serve", *options)
        self.service.wait_until(self.service.is_ready, "the server is ready", timeout_seconds=120)

    def start_worker(self) -> None:
        options = ["--server", self.worker_network.url, "--device", "cpu"]
        self.workers.append(self.service.spawn(f"worker{len(self.workers)}", "worker", *options))

    def kill_server(self) -> None:
        servers.end_process(self.server, signal.SIGKILL)

    def start_redis(self) -> None:
        self.redis = servers.start_redis(self.redis_port, self.folder)

    def end_redis(self, number: signal.Signals = signal.SIGKILL) -> None:
        if self.redis is not None:
            servers.end_process(self.redis, number)

    def logs(self) -> list[Path]:
        """What the server and its workers write, and Redis and PostgreSQL not."""
        return [path for path in sorted(self.folder.glob("*.log")) if path.name != "redis.log"]

    def worker_pids(self) -> list[int]:
        """The workers' parent processes that run now."""
        if self.scaled_out:
            return [worker.pid for worker in self.workers if worker.poll() is None]
        return [pid for pid in _children(self.server.pid) if b"collapsewatch_worker" in _command(pid)]

    def scoring_pid(self, worker_pid: int) -> int | None:
        """The scoring process of a worker; none while it is being started."""
        found = [pid for pid in _children(worker_pid) if b"collapsewatch_worker" in _command(pid)]
        return found[0] if found else None

    def signal_workers(self, number: signal.Signals) -> None:
        """To every worker and its scoring process."""
        for worker in self.worker_pids():
            for pid in (worker, self.scoring_pid(worker)):
                if pid is not None:
                    with suppress(ProcessLookupError):
                        os.kill(pid, number)

    def resume_workers(self) -> None:
        self.signal_workers(signal.SIGCONT)

    def trainer(
        self, run_id: str, workload: Workload, *, network: Proxy | None = None, spool: Path | None = None
    ) -> TrainerProcess:
        """A trainer with a home of its own, on the far side of the network."""
        folder = self.folder / "trainers" / run_id
        folder.mkdir(parents=True)
        environment = base_environment(folder, self.folder) | {
            "COLLAPSEWATCH_URL": (network or self.network).url,
            "COLLAPSEWATCH_API_KEY": self.service.local_key(),
            "COLLAPSEWATCH_SPOOL": str(spool or folder / "spool"),
        }
        trainer = TrainerProcess(
            run_id, workload, Ledger(folder / "ledger.jsonl"), environment, folder / "trainer.log"
        )
        self._closing.callback(trainer.kill)
        return trainer

    def new_network(self) -> Proxy:
        """A way to the server for one trainer alone."""
        return self._closing.enter_context(Proxy(self.service.port))

    def new_disk(self, name: str, num_bytes: int) -> Path:
        """A small disk of its own.

        Raises:
            Unavailable: this user may not mount one.
        """
        folder = self.folder / name
        folder.mkdir()
        if not self._mount(folder, num_bytes):
            raise Unavailable("this user may not mount a small disk (tmpfs)")
        return folder

    def wait_until(
        self, condition: Callable[[], object], claim: str, *, timeout_seconds: float = 180.0
    ) -> None:
        """As `Service.wait_until`, for conditions that ask a database which may be away."""

        def holds() -> bool:
            try:
                return bool(condition())
            except SQLAlchemyError:
                return False

        end = time.monotonic() + timeout_seconds
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(f"not within {timeout_seconds:.0f} s: {claim}")
            time.sleep(0.01)

    def _mount(self, folder: Path, num_bytes: int) -> bool:
        """Makes the folder a small disk, so that it can be filled without harm to anybody else."""
        mount = shutil.which("mount")
        command = [mount or "mount", "-t", "tmpfs", "-o", f"size={num_bytes}", "tmpfs", str(folder)]
        if mount is None or subprocess.run(command, check=False, capture_output=True).returncode != 0:
            return False
        unmount = ["umount", "--lazy", str(folder)]
        self._closing.callback(lambda: subprocess.run(unmount, check=False, capture_output=True))
        return True

    def _start_databases(self, environment: dict[str, str]) -> None:
        folder = self.folder / "postgres"
        folder.mkdir()
        # PostgreSQL runs as another user, who must be able to reach its folder.
        self.folder.chmod(0o755)
        self.postgres = servers.PostgresServer(folder, durable=True)
        self._closing.callback(self.postgres.stop)
        self.postgres.start()
        self.redis_port = servers.free_port()
        self._closing.callback(self.end_redis)
        self.start_redis()
        environment["COLLAPSEWATCH_DATABASE_URL"] = self.postgres.new_database()
        environment["COLLAPSEWATCH_REDIS_URL"] = f"redis://127.0.0.1:{self.redis_port}/0"


def _children(pid: int) -> list[int]:
    try:
        return children_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        return []


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
