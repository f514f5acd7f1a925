"""The trackers behind one small interface. Runs inside a child process, with that library's own Python.

Only the standard library may be imported here: the peers' environment holds nothing of ours.
"""

import importlib
import json
import os
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from benchmarks.ingest.work import MARK, Rows

PROJECT = "bench"
RUN = "run-1"


class Library(Protocol):
    """One tracker, which keeps everything in one folder."""

    def open(self) -> None:
        """Starts the run."""

    def log(self, values: dict[str, float], step: int) -> None:
        """Logs numbers."""

    def shaped(self, rows: Rows) -> Any:
        """The rollouts of a step in the shape that the library takes them in."""

    def log_rollouts(self, rollouts: Any, step: int) -> None:
        """Logs what `shaped` gave by the nearest thing that the library has."""

    def close(self) -> None:
        """Ends the run."""

    def recover(self) -> None:
        """What a user does after a crash to bring what is left to the library's store."""

    def found(self, what: str) -> set[int]:
        """The calls whose `scalars` or `rollouts` are in the store."""


class Ours:
    """collapsewatch, with its server on this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._run: Any = None
        os.environ["COLLAPSEWATCH_SPOOL"] = str(folder / "spool")

    def open(self) -> None:
        """Starts the run."""
        library = importlib.import_module("collapsewatch")
        self._run = library.init(PROJECT, RUN, run_id=os.environ["BENCH_RUN_ID"])

    def log(self, values: dict[str, float], step: int) -> None:
        """`run.log`."""
        self._run.log(values, step=step)

    def shaped(self, rows: Rows) -> Any:
        """Columns."""
        groups, prompts, responses, rewards = map(list, zip(*rows, strict=True))
        return {"group_ids": groups, "prompts": prompts, "responses": responses, "rewards": rewards}

    def log_rollouts(self, rollouts: Any, step: int) -> None:
        """`run.log_rollouts`, with columns."""
        self._run.log_rollouts(step, **rollouts)

    def close(self) -> None:
        """`run.finish`."""
        self._run.finish()

    def recover(self) -> None:
        """`collapsewatch sync`."""
        command = [sys.executable, "-m", "collapsewatch", "sync", str(self._folder / "spool")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=300)

    def found(self, what: str) -> set[int]:
        """Looks into the server's database."""
        database = Path(os.environ["BENCH_SERVER_HOME"]) / "collapsewatch.db"
        if what == "rollouts":
            query = "SELECT b.step FROM batches b JOIN runs r ON r.id = b.run_pk WHERE r.run_id = ?"
            return _steps(database, query, os.environ["BENCH_RUN_ID"])
        query = (
            "SELECT m.step FROM metric_points m JOIN runs r ON r.id = m.run_pk"
            " WHERE r.run_id = ? AND m.metric = ?"
        )
        return _steps(database, query, os.environ["BENCH_RUN_ID"], MARK)


class Trackio:
    """trackio, local."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        os.environ |= {"TRACKIO_DIR": str(folder / "trackio"), "HF_HUB_OFFLINE": "1"}
        self._library: Any = None
        self._run: Any = None

    def open(self) -> None:
        """Starts the run."""
        self._library = importlib.import_module("trackio")
        self._run = self._library.init(PROJECT, RUN, embed=False)

    def log(self, values: dict[str, float], step: int) -> None:
        """`run.log`."""
        self._run.log(values, step=step)

    def shaped(self, rows: Rows) -> Any:
        """Rows."""
        return rows

    def log_rollouts(self, rollouts: Any, step: int) -> None:
        """A `trackio.Table`."""
        table = self._library.Table(columns=["group", "prompt", "response", "reward"], data=rollouts)
        self._run.log({"rollouts": table}, step=step)

    def close(self) -> None:
        """`run.finish`."""
        self._run.finish()

    def recover(self) -> None:
        """The next start of the same project: it takes up what an earlier one has left on disk."""
        self._library = importlib.import_module("trackio")
        run = self._library.init(PROJECT, "after-the-crash", embed=False)
        run.log({"again": 1.0})
        run.finish()

    def found(self, what: str) -> set[int]:
        """Looks into its database."""
        # The column holds bytes, which LIKE never matches.
        query = "SELECT step FROM metrics WHERE run_name = ? AND CAST(metrics AS TEXT) LIKE ?"
        pattern = f'%"{MARK if what == "scalars" else "rollouts"}"%'
        return _steps(self._folder / "trackio" / f"{PROJECT}.db", query, RUN, pattern)


class Wandb:
    """wandb in its offline mode."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        os.environ |= {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "WANDB_DIR": str(folder)}
        os.environ |= {"WANDB_DATA_DIR": str(folder), "WANDB_CACHE_DIR": str(folder)}
        self._library: Any = None
        self._run: Any = None

    def open(self) -> None:
        """Starts the run, without the console's text, git and system metrics."""
        self._library = importlib.import_module("wandb")
        settings = self._library.Settings(console="off", disable_git=True, x_disable_stats=True)
        self._run = self._library.init(project=PROJECT, name=RUN, settings=settings)

    def log(self, values: dict[str, float], step: int) -> None:
        """`run.log`."""
        self._run.log(values, step=step)

    def shaped(self, rows: Rows) -> Any:
        """Rows."""
        return rows

    def log_rollouts(self, rollouts: Any, step: int) -> None:
        """A `wandb.Table`."""
        columns = ["group", "prompt", "response", "reward"]
        self._run.log({"rollouts": self._library.Table(columns=columns, data=rollouts)}, step=step)

    def close(self) -> None:
        """`run.finish`."""
        self._run.finish()

    def recover(self) -> None:
        """Nothing: `wandb sync` reads the run file as it is."""

    def found(self, what: str) -> set[int]:
        """Reads the run file that `wandb sync` would upload."""
        messages = importlib.import_module("wandb.proto.wandb_internal_pb2")
        wanted = MARK if what == "scalars" else "rollouts"
        steps: set[int] = set()
        for path in self._folder.glob("wandb/offline-run-*/*.wandb"):
            for record in run_file_records(path.read_bytes()):
                message = messages.Record.FromString(record)
                if message.WhichOneof("record_type") != "history":
                    continue
                names = {item.key or ".".join(item.nested_key) for item in message.history.item}
                if any(name.partition(".")[0] == wanted for name in names):
                    steps.add(message.history.step.num)
        return steps


class Mlflow:
    """MLflow with a SQLite store and a folder for artefacts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        os.environ |= {
            "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "DO_NOT_TRACK": "true",
        }
        self._library: Any = None

    def open(self) -> None:
        """Starts the run."""
        self._library = importlib.import_module("mlflow")
        artifacts = (self._folder / "artifacts").as_uri()
        if self._library.get_experiment_by_name(PROJECT) is None:
            self._library.create_experiment(PROJECT, artifact_location=artifacts)
        self._library.set_experiment(PROJECT)
        self._library.start_run(run_name=RUN)

    def log(self, values: dict[str, float], step: int) -> None:
        """`mlflow.log_metrics`."""
        self._library.log_metrics(values, step=step)

    def shaped(self, rows: Rows) -> Any:
        """Columns."""
        return dict(
            zip(("group", "prompt", "response", "reward"), map(list, zip(*rows, strict=True)), strict=True)
        )

    def log_rollouts(self, rollouts: Any, step: int) -> None:
        """`mlflow.log_table`, a file for each step: with one file it would read all of it each time."""
        self._library.log_table(rollouts, artifact_file=f"rollouts/{step}.json")

    def close(self) -> None:
        """`mlflow.end_run`."""
        self._library.end_run()

    def recover(self) -> None:
        """Nothing: each call has written to the store."""

    def found(self, what: str) -> set[int]:
        """Looks into its database, or for complete files."""
        if what == "scalars":
            return _steps(self._folder / "mlflow.db", "SELECT step FROM metrics WHERE key = ?", MARK)
        return {
            int(path.stem)
            for path in self._folder.glob("artifacts/*/artifacts/rollouts/*.json")
            if _is_json(path)
        }


LIBRARIES: dict[str, Callable[[Path], Library]] = {
    "collapsewatch": Ours,
    "trackio": Trackio,
    "wandb": Wandb,
    "mlflow": Mlflow,
}


def run_file_records(data: bytes) -> Iterator[bytes]:
    """The records of a wandb run file: blocks of 32 KiB, records cut into pieces at their borders."""
    block_bytes, head_bytes, whole, last = 32768, 7, 1, 4
    position = head_bytes
    waiting = b""
    while position + head_bytes <= len(data):
        left = block_bytes - position % block_bytes
        if left < head_bytes:
            position += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, position)
        piece = data[position + head_bytes : position + head_bytes + length]
        if len(piece) < length or kind == 0:
            return
        position += head_bytes + length
        waiting = piece if kind in (whole, 2) else waiting + piece
        if kind in (whole, last):
            yield waiting
            waiting = b""


def _steps(database: Path, query: str, *arguments: str) -> set[int]:
    with sqlite3.connect(database, timeout=30) as connection:
        return {int(step) for (step,) in connection.execute(query, arguments)}


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True
