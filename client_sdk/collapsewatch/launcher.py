"""Which run and which attempt a process belongs to, from what its launcher left in the environment.

The processes of one launch must meet in one run without talking to each other, so each derives the same ids
from what all of them can see. A launcher's restart is a new attempt of the same run.
"""

import os
import socket
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from collapsewatch.clock import CLOCK
from collapsewatch.names import derived_run_name, random_run_name

_PROC = Path("/proc")
_MAX_ANCESTORS = 50
_opened: Counter[tuple[object, ...]] = Counter()
"""How often this process opened each run. Its n-th run of a name is the n-th of every rank."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What a process knows about the launch that it is part of."""

    run_key: str | None = None
    """The same in every process and restart of the launch, and in no other launch; None: they cannot know."""
    attempt_key: str | None = None
    """The same in every process of one start, and another after a restart."""
    rank: int | None = None
    num_processes: int = 1

    @property
    def is_scattered(self) -> bool:
        """Whether this is one of several processes that cannot find each other."""
        return self.run_key is None and bool(self.rank)


@dataclass(frozen=True, slots=True)
class Identity:
    """The ids under which a process opens its run."""

    run_id: str
    name: str
    attempt_id: str
    started_at: float
    """Seconds since 1970. Orders the attempts of a run; the server keeps the earliest of its processes.

    For a shared attempt it is when the process began: within one start all processes begin within seconds,
    and all of them after every process of the start before, so any of their times gives the same order as
    long as the hosts' clocks differ by less than an attempt takes.
    """


def identity(
    launch: Launch, *, project: object, name: str | None, run_id: str | None, attempt_id: str | None
) -> Identity:
    """The ids of the next run that this process opens.

    Args:
        run_id, attempt_id: what was named; else the launch decides, else both are new.
    """
    key = (launch.run_key, str(project), name, run_id)
    ordinal = _opened[key]
    _opened[key] += 1
    is_shared = attempt_id is not None or (launch.attempt_key is not None and ordinal == 0)
    if attempt_id is None:
        attempt_id = uuid.uuid4().hex
        if launch.attempt_key is not None:
            attempt_id = _digest("attempt", launch.attempt_key, ordinal)
    if run_id is not None:
        name = name or run_id
    elif launch.run_key is not None:
        run_id = _digest("run", *key, ordinal)
        name = name or derived_run_name(run_id)
    return Identity(
        run_id=run_id or uuid.uuid4().hex,
        name=name or random_run_name(),
        attempt_id=attempt_id,
        started_at=process_start() if is_shared else CLOCK.now(),
    )


def launch_of(environ: Mapping[str, str] = os.environ, proc: Path = _PROC) -> Launch:
    """The launch by torchrun, Slurm or another launcher that says `RANK` and `WORLD_SIZE`."""
    if "TORCHELASTIC_RUN_ID" in environ:
        return _torchrun_launch(environ, proc)
    if "SLURM_STEP_ID" in environ and _number(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS") > 1:
        return _slurm_launch(environ)
    if _number(environ, "WORLD_SIZE") > 1:
        return _other_launch(environ, proc)
    return Launch()


def _torchrun_launch(environ: Mapping[str, str], proc: Path) -> Launch:
    job = environ["TORCHELASTIC_RUN_ID"]
    restart = environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    num_processes = _number(environ, "WORLD_SIZE")
    known = ["torchrun", job, environ.get("SLURM_JOB_ID")]
    run_key: str | None = None
    if _number(environ, "LOCAL_WORLD_SIZE") == num_processes:
        # On one node the agent is the launch, whatever it is called: it outlives the restarts of its
        # workers, and a second launch with the same --rdzv-id is another agent.
        agent = _agent("TORCHELASTIC_RUN_ID", proc)
        run_key = None if agent is None else _digest(*known, agent)
    elif job not in ("", "none"):
        run_key = _digest(*known)
    elif _number(environ, "SLURM_STEP_NUM_TASKS") > 1:
        run_key = _digest(*known, environ.get("SLURM_STEP_ID"))
    attempt = [environ.get("SLURM_RESTART_COUNT"), environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")]
    attempt_key = _digest(*known, run_key, restart, *attempt)
    return Launch(run_key, attempt_key, _number(environ, "RANK", default=0), num_processes)


def _slurm_launch(environ: Mapping[str, str]) -> Launch:
    names = ("SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_STEP_ID")
    run_key = _digest("slurm", *(environ.get(name) for name in names))
    # A job that was put back into the queue keeps its id and numbers its steps anew.
    attempt_key = _digest(run_key, environ.get("SLURM_RESTART_COUNT", "0"))
    num_processes = _number(environ, "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    return Launch(run_key, attempt_key, _number(environ, "SLURM_PROCID", default=0), num_processes)


def _other_launch(environ: Mapping[str, str], proc: Path) -> Launch:
    """A launcher that says no more than `RANK` and `WORLD_SIZE`, such as DeepSpeed's."""
    num_processes = _number(environ, "WORLD_SIZE")
    run_key: str | None = None
    if _number(environ, "LOCAL_WORLD_SIZE", "LOCAL_SIZE") == num_processes:
        agent = _agent("RANK", proc)
        run_key = None if agent is None else _digest("ranks", agent)
    attempt_key = run_key
    if run_key is None and "MASTER_ADDR" in environ:
        # For ranks that were told their run: one attempt, even if the next launch here takes it for its own.
        attempt_key = _digest("ranks", environ["MASTER_ADDR"], environ.get("MASTER_PORT"), num_processes)
    return Launch(run_key, attempt_key, _number(environ, "RANK", default=0), num_processes)


def _agent(variable: str, proc: Path) -> str | None:
    """The launcher on this host: the nearest ancestor whose environment lacks what it sets for its children.

    None when it cannot be told: no /proc, or a process that set the variable for itself.
    """
    try:
        pid = os.getpid()
        if not _has_variable(pid, variable, proc):
            return None
        for _ in range(_MAX_ANCESTORS):
            pid = int(_stat(pid, proc)[1])
            if pid <= 1 or not _has_variable(pid, variable, proc):
                break
        boot = (proc / "sys/kernel/random/boot_id").read_text().strip()
        # A number may come back, with the next process or in another container; with its start it does not.
        return (
            f"{boot} {(proc / 'self/ns/pid').readlink()} {socket.gethostname()} {pid} {_stat(pid, proc)[19]}"
        )
    except (OSError, ValueError, IndexError):
        return None


def _has_variable(pid: int, variable: str, proc: Path) -> bool:
    entries = (proc / str(pid) / "environ").read_bytes().split(b"\0")
    return any(entry.startswith(variable.encode() + b"=") for entry in entries)


def _stat(pid: int, proc: Path) -> list[str]:
    """Fields of a process from its state on: the parent is field 1, the start in clock ticks field 19."""
    text = (proc / str(pid) / "stat").read_text(errors="replace")
    return text.rpartition(")")[2].split()


def process_start(proc: Path = _PROC) -> float:
    """When this process began, in seconds since 1970; when this module was loaded, where nobody says."""
    try:
        ticks = int(_stat(os.getpid(), proc)[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return _LOADED_AT
    return time.time() - max(age, 0.0)


def _number(environ: Mapping[str, str], *names: str, default: int = 1) -> int:
    """The first of the variables that holds a number from 0 on."""
    for name in names:
        text = environ.get(name, "")
        if text.isascii() and text.isdigit() and len(text) < 10:
            return int(text)
    return default


def _digest(*parts: object) -> str:
    return blake2b(repr(parts).encode("utf-8", "backslashreplace"), digest_size=16).hexdigest()


_LOADED_AT = time.time()
