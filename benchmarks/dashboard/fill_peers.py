"""Fills trackio's or MLflow's store with the same series; runs with the Python that has them installed.

trackio takes them through its own bulk call; MLflow's rows are written into its tables, since its API would
take hours for millions of points. Both then show them through their own pages.
"""

import importlib
import json
import math
import sqlite3
import sys
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.dashboard.series import SECONDS_A_STEP, STARTED_AT, RunShape

_ROWS_AT_ONCE = 10_000


def main() -> None:
    """`fill_peers.py trackio|mlflow FOLDER SHAPES`; prints what the pages' addresses need."""
    library, folder, shapes = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])
    projects = {name: [RunShape(**shape) for shape in runs] for name, runs in shapes.items()}
    print(json.dumps((_fill_trackio if library == "trackio" else _fill_mlflow)(folder, projects)))


def _fill_trackio(folder: Path, projects: dict[str, list[RunShape]]) -> dict[str, Any]:
    storage = importlib.import_module("trackio.sqlite_storage").SQLiteStorage

    for project, runs in projects.items():
        for run in runs:
            columns = {name: values.tolist() for _, name, values in run.values()}
            rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
            step = 0
            while some := list(islice(rows, _ROWS_AT_ONCE)):
                steps = list(range(step, step + len(some)))
                times = [_iso(STARTED_AT + at * SECONDS_A_STEP) for at in steps]
                storage.bulk_log(project, run.name, some, steps=steps, timestamps=times)
                step += len(some)
    return {}


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def _fill_mlflow(folder: Path, projects: dict[str, list[RunShape]]) -> dict[str, Any]:
    client = importlib.import_module("mlflow").MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiments = {project: client.create_experiment(project) for project in projects}
    run_ids: dict[str, list[str]] = {}
    for project, runs in projects.items():
        for run in runs:
            made = client.create_run(experiments[project], run_name=run.name)
            client.set_terminated(made.info.run_id)
            run_ids.setdefault(project, []).append(made.info.run_id)
    connection = sqlite3.connect(folder / "mlflow.db", isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    for project, runs in projects.items():
        for run, run_id in zip(runs, run_ids[project], strict=True):
            _write_mlflow(connection, run, run_id)
    connection.execute("COMMIT")
    connection.execute("ANALYZE")
    return {"experiments": experiments, "run_ids": run_ids}


def _write_mlflow(connection: sqlite3.Connection, run: RunShape, run_id: str) -> None:
    for _, name, values in run.values():
        points = (
            (name, value, math.floor((STARTED_AT + step * SECONDS_A_STEP) * 1000), run_id, step)
            for step, value in enumerate(values.tolist())
        )
        connection.executemany(
            'INSERT INTO metrics ("key", value, "timestamp", run_uuid, step, is_nan) '
            "VALUES (?, ?, ?, ?, ?, 0)",
            points,
        )
        last = run.num_steps - 1
        at = math.floor((STARTED_AT + last * SECONDS_A_STEP) * 1000)
        connection.execute(
            'INSERT INTO latest_metrics ("key", value, "timestamp", step, is_nan, run_uuid) '
            "VALUES (?, ?, ?, ?, 0, ?)",
            (name, float(values[-1]), at, last, run_id),
        )


if __name__ == "__main__":
    main()
