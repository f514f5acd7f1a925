"""Fills our database with runs of any length, as if they had been logged and scored.

Ingest is measured elsewhere (`make bench-ingest`); here the rows are written as the server would have
written them, so that hours of training take a minute.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.dashboard.series import SECONDS_A_STEP, STARTED_AT, WITH_INTERVAL, RunShape
from collapsewatch_server.db import Database
from collapsewatch_server.migrations import upgrade

PROJECT = "bench"
_SCORER = json.dumps({"kind": "lexical", "label": "lexical: tf-idf"})
_THRESHOLDS = {"low_dependence": 0.16, "high_dependence": 0.31, "low_diversity": 0.5, "high_diversity": 2.0}


def fill(database_file: Path, runs: Iterable[RunShape]) -> None:
    """Brings the file up to date and writes the runs."""
    database = Database(f"sqlite:///{database_file}")
    upgrade(database.engine)
    database.close()
    connection = sqlite3.connect(database_file, isolation_level=None)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    _insert(connection, "projects", [{"name": PROJECT, "created_at": STARTED_AT}])
    for number, run in enumerate(runs, start=1):
        _write(connection, run, number)
    connection.execute("COMMIT")
    connection.execute("ANALYZE")
    connection.close()


def _write(connection: sqlite3.Connection, run: RunShape, run_pk: int) -> None:
    ended_at = STARTED_AT + run.num_steps * SECONDS_A_STEP
    _insert(connection, "runs", [_run(run, run_pk, ended_at)])
    attempt = {"id": run_pk, "run_pk": run_pk, "attempt_id": "default", "started_at": STARTED_AT}
    attempt |= {"first_step": 0, "last_step": run.num_steps - 1, "created_at": STARTED_AT}
    _insert(connection, "attempts", [attempt])
    found = list(run.values())
    for scope, metric, values in found:
        _insert(connection, "metric_points", _points(run_pk, scope, metric, values.tolist()))
    first_turn = {metric: values for scope, metric, values in found if scope == "first_turn"}
    if "retrieval_skill" in first_turn:
        base = connection.execute("SELECT coalesce(max(id), 0) FROM batches").fetchone()[0]
        for table, rows in _scored(run_pk, base, first_turn):
            _insert(connection, table, rows)


def _run(run: RunShape, run_pk: int, ended_at: float) -> dict[str, Any]:
    return {
        "id": run_pk,
        "run_id": run.name,
        "project_id": 1,
        "name": run.name,
        "config": json.dumps({"algorithm": "grpo", "seed": run.seed}),
        "tags": "[]",
        "state": "finished",
        "last_step": run.num_steps - 1,
        "created_at": STARTED_AT + run_pk,
        "updated_at": ended_at,
        "last_seen_at": ended_at,
        "last_data_at": ended_at,
    }


def _points(run_pk: int, scope: str, metric: str, values: list[float]) -> Iterator[dict[str, Any]]:
    has_interval = metric in WITH_INTERVAL
    for step, value in enumerate(values):
        yield {
            "run_pk": run_pk,
            "scope": scope,
            "metric": metric,
            "step": step,
            "attempt_pk": run_pk,
            "value": value,
            "low": value - 0.05 if has_interval else None,
            "high": value + 0.05 if has_interval else None,
            "logged_at": STARTED_AT + step * SECONDS_A_STEP if scope == "trainer" else 0.0,
            "superseded": 0,
        }


def _scored(
    run_pk: int, base: int, first_turn: dict[str, Any]
) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    skills = first_turn["retrieval_skill"].tolist()
    diversities = first_turn.get("diversity_ratio", first_turn["retrieval_skill"]).tolist()
    times = [STARTED_AT + step * SECONDS_A_STEP for step in range(len(skills))]
    yield "batches", (_batch(run_pk, base + 1 + step, step, at) for step, at in enumerate(times))
    yield "jobs", (_job(run_pk, base + 1 + step, at) for step, at in enumerate(times))
    yield "batch_results", (_result(run_pk, base + 1 + step, step, at) for step, at in enumerate(times))
    yield (
        "evaluations",
        (
            _evaluation(run_pk, base + 1 + step, step, skill, diversity)
            for step, (skill, diversity) in enumerate(zip(skills, diversities, strict=True))
        ),
    )


def _batch(run_pk: int, pk: int, step: int, at: float) -> dict[str, Any]:
    return {
        "id": pk,
        "run_pk": run_pk,
        "attempt_pk": run_pk,
        "batch_id": f"b{step}",
        "step": step,
        "content_hash": "0" * 64,
        "blob_key": f"{run_pk}/b{step}",
        "num_bytes": 1000,
        "num_rollouts": 64,
        "logged_at": at,
        "shard_index": 0,
        "num_shards": 1,
        "job_pk": pk,
        "created_at": at,
    }


def _job(run_pk: int, pk: int, at: float) -> dict[str, Any]:
    moments = {"queued_at": at, "created_at": at, "finished_at": at + 1}
    return {"id": pk, "batch_pk": pk, "run_pk": run_pk, "status": "done", "score": at, "starts": 1} | {
        **moments,
        "deferred": 0,
    }


def _result(run_pk: int, pk: int, step: int, at: float) -> dict[str, Any]:
    empty = {"metrics": "{}", "absent": "{}", "groups": "[]", "filters": "[]", "buckets": "{}"}
    place = {"batch_pk": pk, "run_pk": run_pk, "attempt_pk": run_pk, "step": step}
    return {
        **place,
        "current": 1,
        "superseded": 0,
        "scorer": _SCORER,
        "seconds": 0.5,
        "created_at": at,
        **empty,
    }


def _evaluation(run_pk: int, pk: int, step: int, skill: float, diversity: float) -> dict[str, Any]:
    fold = {
        "diversity": diversity,
        "diversity_low": diversity - 0.05,
        "diversity_high": diversity + 0.05,
        "dependence": skill,
        "dependence_low": skill - 0.05,
        "dependence_high": skill + 0.05,
        "regime": "diverse_reasoning",
        "reason": "reasoning varies within a prompt and depends on it",
        "thresholds": _THRESHOLDS,
        "baseline": None,
        "derived": [],
    }
    prompts = [{"group_ids": [f"g{i}"], "num_rows": 8, "accuracy": 0.8, "chance": 0.125} for i in range(8)]
    result = {"scope": "first_turn", "num_prompts": 8, "num_rows": 64, "metrics": {}, "prompts": prompts}
    return {
        "run_pk": run_pk,
        "attempt_pk": run_pk,
        "batch_pk": pk,
        "step": step,
        "scope": "first_turn",
        "current": 1,
        "superseded": 0,
        "scorer": _SCORER,
        "result": json.dumps(result),
        "fold_output": json.dumps(fold),
        "regime": fold["regime"],
        "reason": fold["reason"],
    }


def _insert(connection: sqlite3.Connection, table: str, rows: Iterable[dict[str, Any]]) -> None:
    rows = iter(rows)
    first = next(rows, None)
    if first is None:
        return
    names = ", ".join(first)
    marks = ", ".join(f":{name}" for name in first)
    statement = f"INSERT INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 (our own names)
    connection.execute(statement, first)
    connection.executemany(statement, rows)
