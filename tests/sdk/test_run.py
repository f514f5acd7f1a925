import argparse
import os
import random
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collapsewatch
from collapsewatch.boundary import Boundary
from collapsewatch.contracts.rollouts import ScalarBatch
from collapsewatch.contracts.runs import RunStart
from collapsewatch.leftovers import ship_leftover
from collapsewatch.sender import Sender
from collapsewatch.settings import Settings, home_folder

from .conftest import COLUMNS, Recorder


def spool_root() -> Path:
    return home_folder() / "spool"


def spool_folders() -> list[Path]:
    return sorted(spool_root().glob("*/[!.]*"))


def num_waiting(run: collapsewatch.Run) -> int:
    assert run._delivery is not None
    return run._delivery.spool.status().num_records


def test_a_run_starts_ships_and_finishes_in_order(run: collapsewatch.Run, recorder: Recorder) -> None:
    run.log_rollouts(1, **COLUMNS)
    run.log({"success": 0.5})
    run.finish()
    assert [(seen.method, seen.path.rpartition("/")[2]) for seen in recorder.seen] == [
        ("POST", "runs"),
        ("POST", "batches"),
        ("POST", "scalars"),
        ("PATCH", run.id),
    ]
    start = RunStart.model_validate(recorder.seen[0].body)
    assert (start.run_id, start.project, start.name) == (run.id, "project", "name")
    assert recorder.seen[0].headers["authorization"] == "Bearer k"
    ScalarBatch.model_validate(recorder.of("/scalars")[0].body)
    assert recorder.updates()[0].state == "finished"
    assert run.dropped == {}
    assert run.id in run.url
    assert run.url.startswith(recorder.url)


def test_calls_return_while_the_server_is_away_and_all_arrives_later(offline_recorder: Recorder) -> None:
    run = collapsewatch.init("p", "n", url=offline_recorder.url)
    for step in range(5):
        run.log_rollouts(step, **COLUMNS)
        run.log({"loss": step / 10})
    assert num_waiting(run) == 11
    offline_recorder.up()
    run.finish()
    assert [batch.step for batch in offline_recorder.batches()] == [0, 1, 2, 3, 4]
    assert offline_recorder.scalars() == {step: {"loss": step / 10} for step in range(5)}
    assert run.dropped == {}


def test_finish_gives_up_in_time_keeps_the_rest_and_says_how_to_send_it(
    offline_recorder: Recorder, sdk_log: Callable[[], list[str]]
) -> None:
    run = collapsewatch.init("p", "n", url=offline_recorder.url)
    run.log_rollouts(1, **COLUMNS)
    run.log({"a": 1, "b": 2})
    run.finish(timeout_seconds=0.05)
    assert run.dropped == {}
    (folder,) = spool_folders()
    assert f"run n has 4 records left to send; to send it: collapsewatch sync {folder}" in sdk_log()[-1]


def test_the_next_run_sends_what_the_last_one_could_not(
    offline_recorder: Recorder, wait_until: Callable[..., None]
) -> None:
    first = collapsewatch.init("p", "first", url=offline_recorder.url)
    first.log_rollouts(1, **COLUMNS)
    first.finish(0)
    offline_recorder.up()
    second = collapsewatch.init("p", "second", url=offline_recorder.url)
    wait_until(lambda: first.id not in {folder.parent.name for folder in spool_folders()})
    second.finish()
    late = [seen for seen in offline_recorder.seen if "x-collapsewatch-late" in seen.headers]
    assert [(seen.method, seen.path.rpartition("/")[2]) for seen in late] == [
        ("POST", "runs"),
        ("POST", "batches"),
        ("PATCH", first.id),
    ]
    assert second.dropped == {}
    wait_until(lambda: not spool_folders())


def test_what_waits_for_another_server_is_left_alone(
    offline_recorder: Recorder, wait_until: Callable[..., None]
) -> None:
    other = collapsewatch.init("p", "other", url="http://127.0.0.1:1")
    other.finish(0)
    offline_recorder.up()
    collapsewatch.init("p", "n", url=offline_recorder.url).finish()
    assert [folder.parent.name for folder in spool_folders()] == [other.id]
    assert {seen.body.get("name", "n") for seen in offline_recorder.of("/runs")} == {"n"}


def test_an_offline_run_sends_nothing_until_it_is_synced(
    recorder: Recorder, sdk_log: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_STRICT", "1")
    with collapsewatch.init("p", "n", url=recorder.url, mode="offline") as run:
        run.log_rollouts(1, **COLUMNS)
        run.log({"a": 1})
    (folder,) = spool_folders()
    assert recorder.seen == recorder.beats == []
    assert run.dropped == {}
    assert sdk_log() == [f"run n is kept offline; to send it: collapsewatch sync {folder}"]
    leftover = ship_leftover(folder, Settings(url=recorder.url), Boundary(strict=True))
    assert leftover.state == "shipped"
    assert [batch.step for batch in recorder.batches()] == [1]
    assert recorder.scalars() == {1: {"a": 1}}
    assert recorder.updates()[-1].state == "finished"


def test_a_finished_run_leaves_nothing_on_disk(run: collapsewatch.Run) -> None:
    run.log({"a": 1})
    assert len(spool_folders()) == 1
    run.finish()
    assert list(spool_root().iterdir()) == []


def test_a_full_spool_drops_the_oldest_rollouts_and_keeps_the_rest(
    offline_recorder: Recorder, sdk_log: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_SPOOL_MAX_BYTES", str(2**20))
    run = collapsewatch.init("p", "n", url=offline_recorder.url)
    for step in range(30):
        run.log_rollouts(step, prompts=["p" * 50_000] * 2, responses=["r", "s"])
        run.log({"loss": step}, step=step)
    num_dropped = run.dropped["batches_spool_full"]
    assert run.dropped == {"batches_spool_full": num_dropped}
    assert sum("batches dropped" in message for message in sdk_log()) == 1
    offline_recorder.up()
    run.finish()
    assert [batch.step for batch in offline_recorder.batches()] == list(range(num_dropped, 30))
    assert sorted(offline_recorder.scalars()) == list(range(30))
    assert offline_recorder.beats[-1].body["dropped"] == run.dropped


def test_without_a_place_for_the_spool_the_temporary_folder_serves(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sdk_log: Callable[[], list[str]]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COLLAPSEWATCH_SPOOL", str(tmp_path / "file" / "spool"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run = collapsewatch.init("p", "n", url=recorder.url)
    (folder,) = (tmp_path / f"collapsewatch-{os.getuid()}" / "spool").glob("*/*")
    assert str(folder) in sdk_log()[0]
    run.log({"a": 1})
    run.finish()
    assert recorder.scalars() == {0: {"a": 1}}


def test_somebody_elses_temporary_folder_is_not_used(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COLLAPSEWATCH_SPOOL", str(tmp_path / "file" / "spool"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    open_to_all = tmp_path / f"collapsewatch-{os.getuid()}"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    collapsewatch.init("p", "n", url=recorder.url).finish()
    assert list(open_to_all.iterdir()) == []
    assert len(recorder.updates()) == 1


def test_without_any_place_for_the_spool_the_run_is_disabled(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("COLLAPSEWATCH_SPOOL", str(tmp_path / "file" / "spool"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    run = collapsewatch.init("p", "n", url=recorder.url)
    run.log({"a": 1})
    run.finish()
    assert run.mode == "disabled"
    assert recorder.seen == []
    assert [record.levelname for record in caplog.records if record.name == "collapsewatch"] == ["ERROR"]


def test_a_dead_sender_is_noticed_and_replaced(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, wait_until: Callable[..., None]
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(Sender, "_ship_all", lambda self: None)
        run = collapsewatch.init("p", "n", url=recorder.url)
        assert run._delivery is not None
        sender = run._delivery._sender
        assert sender is not None
        wait_until(lambda: sender.is_stuck)
    run.log({"a": 1})
    run.finish()
    assert recorder.scalars() == {0: {"a": 1}}


def test_a_run_says_which_start_it_is_and_what_it_may_find(recorder: Recorder) -> None:
    with collapsewatch.init("p", "n", url=recorder.url, run_id="r", resume="must", from_step=7) as run:
        run.log_rollouts(7, **COLUMNS)
        run.log({"a": 1})
    start = RunStart.model_validate(recorder.seen[0].body)
    assert start.attempt is not None
    assert (start.run_id, start.resume, start.attempt.from_step) == ("r", "must", 7)
    assert start.attempt.attempt_id == run.attempt_id
    assert {batch.attempt_id for batch in recorder.batches()} == {run.attempt_id}
    assert recorder.of("/scalars")[0].body["attempt_id"] == run.attempt_id
    assert recorder.updates()[-1].writer_id == start.writer_id == recorder.beats[0].body["writer_id"]


def test_each_start_is_an_attempt_of_its_own_in_order(recorder: Recorder) -> None:
    for _ in range(3):
        collapsewatch.init("p", "n", url=recorder.url, run_id="r").finish()
    starts = [RunStart.model_validate(seen.body) for seen in recorder.of("/runs")]
    attempts = [start.attempt for start in starts if start.attempt is not None]
    assert len({attempt.attempt_id for attempt in attempts}) == 3
    times = [attempt.started_at for attempt in attempts]
    assert times == sorted(set(times))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"resume": "must"}, "needs the `run_id`"),
        ({"run_id": "r", "resume": "maybe"}, "resume"),
        ({"run_id": "r", "from_step": -1}, "must lie in"),
    ],
)
def test_an_unusable_way_to_resume_disables_the_run(
    arguments: dict[str, Any], told: str, sdk_log: Callable[[], list[str]]
) -> None:
    assert collapsewatch.init(**arguments).mode == "disabled"
    assert told in sdk_log()[0]


def test_what_was_logged_carries_growing_times(run: collapsewatch.Run, recorder: Recorder) -> None:
    for step in range(20):
        run.log_rollouts(0, **COLUMNS)
        run.log({"a": step}, step=0)
    run.finish()
    times = [batch.logged_at for batch in recorder.batches()]
    points = [point["logged_at"] for seen in recorder.of("/scalars") for point in seen.body["points"]]
    assert len(set(times) | set(points)) == 40
    assert points == sorted(points)


def test_ranks_hand_over_their_part_of_a_step(run: collapsewatch.Run, recorder: Recorder) -> None:
    run.log_rollouts(1, **COLUMNS, shard=(1, 4))
    run.log_rollouts(1, **COLUMNS, shard=collapsewatch.Shard(index=0, count=4))
    run.log_rollouts(1, **COLUMNS, shard=(4, 4))
    run.log_rollouts(1, **COLUMNS, shard=3)  # type: ignore[arg-type]
    run.finish()
    assert [(batch.shard.index, batch.shard.count) for batch in recorder.batches() if batch.shard] == [
        (1, 4),
        (0, 4),
    ]
    assert run.dropped == {"batches_invalid": 2}


def test_finish_again_is_harmless(run: collapsewatch.Run, recorder: Recorder) -> None:
    run.finish()
    run.finish()
    assert len(recorder.updates()) == 1


def test_after_finish_calls_are_dropped_and_counted(run: collapsewatch.Run, recorder: Recorder) -> None:
    run.finish()
    run.log_rollouts(1, **COLUMNS)
    run.log({"a": 1})
    run.set_scorer("lexical")
    assert run.dropped == {"batches_closed": 1, "values_closed": 1, "updates_closed": 1}
    assert len(recorder.seen) == 2


def test_an_error_in_the_block_fails_the_run_and_goes_on(recorder: Recorder) -> None:
    error = ValueError("the training's own")
    with pytest.raises(ValueError, match="own") as raised, collapsewatch.init(url=recorder.url):
        raise error
    assert raised.value is error
    assert recorder.updates()[-1].state == "failed"


@pytest.mark.parametrize(("leaving", "state"), [(SystemExit(0), "finished"), (SystemExit(2), "failed")])
def test_leaving_by_exit_is_told_by_its_code(recorder: Recorder, leaving: SystemExit, state: str) -> None:
    with pytest.raises(SystemExit), collapsewatch.init(url=recorder.url):
        raise leaving
    assert recorder.updates()[-1].state == state


def test_a_keyboard_interrupt_passes_and_fails_the_run(recorder: Recorder) -> None:
    with pytest.raises(KeyboardInterrupt), collapsewatch.init(url=recorder.url):
        raise KeyboardInterrupt
    assert recorder.updates()[-1].state == "failed"


@dataclass
class Hyper:
    lr: float
    folder: Path


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, {}),
        ({"lr": 1e-6, "nested": {"a": [1, (2, 3)]}}, {"lr": 1e-6, "nested": {"a": [1, [2, 3]]}}),
        (Hyper(0.5, Path("/tmp/x")), {"lr": 0.5, "folder": "/tmp/x"}),  # noqa: S108 - never opened
        (argparse.Namespace(lr=np.float32(0.5), n=np.int64(3)), {"lr": 0.5, "n": 3}),
        ({"nan": float("nan"), 3: {1}}, {"nan": "nan", "3": [1]}),
        (collapsewatch.ReasoningTags(open="<a>"), {"open": "<a>"}),
    ],
)
def test_any_usual_config_is_sent_as_json(recorder: Recorder, config: Any, expected: dict[str, Any]) -> None:
    collapsewatch.init(url=recorder.url, config=config).finish()
    sent = RunStart.model_validate(recorder.seen[0].body).config
    assert {name: sent[name] for name in expected} == expected


def test_a_config_that_holds_itself_is_cut_off(recorder: Recorder) -> None:
    config: dict[str, Any] = {"lr": 1}
    config["self"] = config
    collapsewatch.init(url=recorder.url, config=config).finish()
    assert RunStart.model_validate(recorder.seen[0].body).config["lr"] == 1


def test_runs_without_a_name_get_readable_ones_and_leave_seeds_alone(recorder: Recorder) -> None:
    random.seed(3)
    before = random.getstate()
    runs = [collapsewatch.init(url=recorder.url) for _ in range(5)]
    for run in runs:
        run.finish()
    assert random.getstate() == before
    assert len({run.name for run in runs}) == len({run.id for run in runs}) == 5
    assert all(len(run.name.split("-")) == 3 for run in runs)


def test_a_named_run_id_is_kept(recorder: Recorder) -> None:
    run = collapsewatch.init(url=recorder.url, run_id="job-17")
    run.finish()
    assert (run.id, run.name) == ("job-17", "job-17")


def test_several_runs_of_one_process_stay_apart(recorder: Recorder) -> None:
    first, second = (collapsewatch.init("p", name, url=recorder.url) for name in ("first", "second"))
    first.log({"a": 1}, step=1)
    second.log({"a": 2}, step=1)
    first.finish()
    second.finish()
    for run, value in ((first, 1), (second, 2)):
        (seen,) = recorder.of(f"/runs/{run.id}/scalars")
        (point,) = seen.body["points"]
        assert (point["step"], point["values"]) == (1, {"a": value})


def test_logging_from_several_threads_loses_nothing(run: collapsewatch.Run, recorder: Recorder) -> None:
    def log_many(name: str) -> None:
        for step in range(50):
            run.log({name: step}, step=step)

    threads = [threading.Thread(target=log_many, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.finish()
    assert recorder.scalars() == {step: dict.fromkeys("abc", step) for step in range(50)}
