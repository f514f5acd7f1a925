import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from collapsewatch.boundary import Boundary
from collapsewatch.contracts.runs import Heartbeat
from collapsewatch.leftovers import LeftoverState, ship_leftover, ship_leftovers, spool_roots
from collapsewatch.settings import Settings
from collapsewatch.spool.folders import writer_folders

from .conftest import Answer, Recorder, Seen
from .spools import adopted, bodies, left_run, new_spool, segments


@pytest.fixture
def boundary() -> Boundary:
    return Boundary(strict=False)


def test_what_a_dead_process_left_arrives_in_order_and_its_folder_goes(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    left_run(tmp_path, recorder.url)
    (result,) = ship_leftovers(tmp_path, quick_settings, boundary)
    assert result.state is LeftoverState.shipped
    assert result.sent == {"runs": 1, "batches": 3, "values": 6}
    assert (result.dropped, result.left_records, result.reason) == ({}, 0, "")
    paths = [seen.path.removeprefix("/api/v1/runs") for seen in recorder.seen]
    assert paths == ["", *["/r/batches", "/r/scalars"] * 3]
    assert recorder.scalars() == {step: {"kl": 0.5, "loss": 0.25} for step in range(3)}
    assert list(tmp_path.iterdir()) == []


def test_what_is_shipped_late_is_no_sign_of_life(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    folder = left_run(tmp_path, recorder.url)
    spool = adopted(folder)
    spool.note_dropped("values_invalid", 4)
    spool.release()
    ship_leftovers(tmp_path, quick_settings, boundary)
    assert {seen.headers.get("x-collapsewatch-late") for seen in recorder.seen + recorder.beats} == {"1"}
    (beat,) = [Heartbeat.model_validate(seen.body) for seen in recorder.beats]
    assert (beat.writer_id, beat.is_alive, beat.spool_records) == ("w", False, 0)
    assert beat.dropped == {"values_invalid": 4}


def test_the_last_word_about_a_spool_is_said_again_until_it_is_heard(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    left_run(tmp_path, recorder.url)
    recorder.answers = lambda seen: Answer(503) if [seen] == recorder.beats else None
    (result,) = ship_leftovers(tmp_path, quick_settings, boundary)
    assert result.state is LeftoverState.shipped
    assert [Heartbeat.model_validate(seen.body).spool_records for seen in recorder.beats] == [0, 0]


def test_what_is_meant_for_another_server_stays(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    folder = left_run(tmp_path, "http://elsewhere:7788")
    assert ship_leftovers(tmp_path, quick_settings, boundary) == []
    assert recorder.seen == []
    assert len(bodies(adopted(folder))) == 7


def test_a_living_process_is_left_alone(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    left_run(tmp_path, recorder.url, writer_id="dead")
    alive = adopted(left_run(tmp_path, recorder.url, writer_id="alive"))
    results = ship_leftovers(tmp_path, quick_settings, boundary)
    assert [(result.folder.name, result.state) for result in results] == [
        ("alive", LeftoverState.live),
        ("dead", LeftoverState.shipped),
    ]
    assert len(bodies(alive)) == 7


def test_when_the_server_takes_nothing_all_stays_and_the_next_folder_is_not_tried(
    tmp_path: Path, offline_recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    folders = [left_run(tmp_path, offline_recorder.url, writer_id=name) for name in ("w1", "w2")]
    (result,) = ship_leftovers(tmp_path, quick_settings, boundary, patience_seconds=0.2)
    assert (result.state, result.left_records, result.sent) == (LeftoverState.left, 7, {})
    assert "took nothing for 0.2 s" in result.reason
    offline_recorder.up()
    results = ship_leftovers(tmp_path, quick_settings, boundary)
    assert [result.state for result in results] == [LeftoverState.shipped] * 2
    assert not any(folder.exists() for folder in folders)
    assert [batch.batch_id for batch in offline_recorder.batches()] == [
        f"{writer}-{step}" for writer in ("w1", "w2") for step in range(3)
    ]


def test_patience_is_with_a_standstill_and_not_with_the_whole(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    # Every request is answered late, so that the whole takes longer than the patience. No standstill of the
    # machine is as long as that.
    pause = threading.Event()

    def answers(seen: Seen) -> None:
        pause.wait(0.5)

    recorder.answers = answers
    left_run(tmp_path, recorder.url, num_steps=6)
    began = time.monotonic()
    (result,) = ship_leftovers(tmp_path, quick_settings, boundary, patience_seconds=5.0)
    assert time.monotonic() - began > 5.0
    assert result.state is LeftoverState.shipped
    assert len(recorder.batches()) == 6


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_taken_drops_nothing(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary, status: int
) -> None:
    folder = left_run(tmp_path, recorder.url)
    recorder.answers = lambda seen: Answer(status, body='{"error": {"message": "no such key"}}')
    (result,) = ship_leftovers(tmp_path, quick_settings, boundary)
    kept = LeftoverState.left if status == 401 else LeftoverState.refused
    assert (result.state, result.left_records, result.dropped) == (kept, 7, {})
    assert "no such key" in result.reason
    assert len(bodies(adopted(folder))) == 7


def test_a_run_that_is_refused_does_not_hold_up_the_others(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    left_run(tmp_path, recorder.url, writer_id="w1")
    left_run(tmp_path, recorder.url, writer_id="w2")
    refused: list[str] = []

    def refuse_the_first_start(seen: Seen) -> Answer | None:
        if seen.path == "/api/v1/runs" and not refused:
            refused.append(seen.path)
            return Answer(409)
        return None

    recorder.answers = refuse_the_first_start
    results = ship_leftovers(tmp_path, quick_settings, boundary)
    assert [result.state for result in results] == [LeftoverState.refused, LeftoverState.shipped]
    assert (results[0].left_records, results[0].dropped) == (7, {})


def test_what_the_server_refuses_is_told_and_does_not_hold_up_the_rest(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    left_run(tmp_path, recorder.url)

    def answers(seen: Seen) -> Answer | None:
        is_refused = seen.path.endswith("/batches") and seen.body["step"] == 1
        return Answer(422, body='{"error": {"message": "too odd"}}') if is_refused else None

    recorder.answers = answers
    (result,) = ship_leftovers(tmp_path, quick_settings, boundary)
    assert result.state is LeftoverState.shipped
    assert result.sent == {"runs": 1, "batches": 2, "values": 6}
    assert result.dropped == {"batches_rejected": 1}


def test_damage_is_told(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    folder = left_run(tmp_path, recorder.url)
    path = segments(folder, "rollouts")[0]
    path.write_bytes(b"?" + path.read_bytes()[1:])
    result = ship_leftover(folder, quick_settings, boundary)
    assert result.dropped == {"batches_damaged": 1}
    assert boundary.dropped == {"batches_damaged": 1}
    assert result.sent["batches"] == 2


def test_an_empty_spool_is_removed_without_a_request(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    folder = left_run(tmp_path, recorder.url)
    bodies(spool := adopted(folder))
    for path in folder.iterdir():
        assert path.name != "notes"
    # The process died between its last acknowledgement and the removal of the folder.
    spool.leave_to_parent()
    assert folder.exists()
    result = ship_leftover(folder, quick_settings, boundary)
    assert result.state is LeftoverState.shipped
    assert recorder.seen == recorder.beats == []
    assert not folder.exists()


def test_a_folder_that_nobody_can_read_is_named_and_left(
    tmp_path: Path, recorder: Recorder, quick_settings: Settings, boundary: Boundary
) -> None:
    folder = left_run(tmp_path, recorder.url)
    (folder / "meta.json").write_text("{")
    result = ship_leftover(folder, quick_settings, boundary)
    assert result.state is LeftoverState.unreadable
    assert "meta.json" in result.reason
    assert ship_leftovers(tmp_path, quick_settings, boundary) == []
    assert segments(folder)


def test_writers_are_found_from_every_floor(tmp_path: Path) -> None:
    folders = [
        left_run(tmp_path / "spool", "http://x", run_id=run, writer_id=writer)
        for run in ("r1", "r2")
        for writer in ("w1", "w2")
    ]
    (tmp_path / "spool" / "r1" / ".w3.new").mkdir()
    (tmp_path / "spool" / "note").write_text("")
    assert list(writer_folders(tmp_path / "spool")) == folders
    assert list(writer_folders(tmp_path / "spool" / "r2")) == folders[2:]
    assert list(writer_folders(folders[1])) == [folders[1]]
    assert list(writer_folders(tmp_path / "nowhere")) == []


def test_what_a_process_left_that_died_in_making_its_folder_goes_after_a_while(tmp_path: Path) -> None:
    fresh, stale = tmp_path / "r" / ".w1.new", tmp_path / "r" / ".w2.done"
    for folder in (fresh, stale):
        folder.mkdir(parents=True)
    os.utime(stale, (0, 0))
    assert list(writer_folders(tmp_path)) == []
    assert fresh.exists()
    assert not stale.exists()


def test_what_looks_like_a_remainder_and_is_somebody_elses_stays(tmp_path: Path) -> None:
    # `collapsewatch sync DIR` may be told any folder, such as a home.
    for name in (".photos.new", "notes/.drafts.done"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "mine.txt").write_text("dear to me")
        (tmp_path / name / "meta.json").write_text("{}")
        os.utime(tmp_path / name, (0, 0))
    left = tmp_path / "run" / ".w1.done"
    left.mkdir(parents=True)
    for name in ("meta.json", "lock", "cursor", "cursor.new", "rollouts-00000001.seg"):
        (left / name).touch()
    os.utime(left, (0, 0))
    assert list(writer_folders(tmp_path)) == []
    assert (tmp_path / ".photos.new" / "mine.txt").exists()
    assert (tmp_path / "notes" / ".drafts.done" / "mine.txt").exists()
    assert not left.exists()


def test_spools_in_the_temporary_folder_are_found_as_well(
    tmp_path: Path, quick_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    moved = tmp_path / "collapsewatch-7" / "spool"
    moved.mkdir(parents=True)
    (tmp_path / "collapsewatch-8").mkdir()
    assert spool_roots(quick_settings) == [moved]


def test_two_shippers_at_once_send_everything_once(
    tmp_path: Path,
    recorder: Recorder,
    quick_settings: Settings,
    boundary: Boundary,
    wait_until: Callable[..., None],
) -> None:
    for number in range(6):
        left_run(tmp_path, recorder.url, writer_id=f"w{number}")
    threads = [
        threading.Thread(target=ship_leftovers, args=(tmp_path, quick_settings, boundary)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    ids = [batch.batch_id for batch in recorder.batches()]
    assert sorted(ids) == sorted(f"w{number}-{step}" for number in range(6) for step in range(3))
    wait_until(lambda: list(tmp_path.iterdir()) == [])


def test_a_spool_that_is_still_written_keeps_its_runs_folder(tmp_path: Path) -> None:
    spool = new_spool(tmp_path, [])
    left = left_run(tmp_path, "http://x", writer_id="other")
    bodies(other := adopted(left))
    other.release()
    assert spool.folder.exists()
