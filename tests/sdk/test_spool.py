import os
import stat
import threading
import time
from pathlib import Path

import pytest

from collapsewatch.spool import RecordKind, Spool, SpoolError
from collapsewatch.spool.lanes import LOOK_SECONDS
from collapsewatch.spool.spool import MAX_ITEMS_PER_TAKE, MAX_RECORDS_PER_TAKE

from .spools import MAX_BYTES, Dropped, adopted, append, bodies, new_spool, requests, segments, takes

BATCH, SCALARS = RecordKind.batch, RecordKind.scalars


@pytest.fixture
def dropped() -> Dropped:
    return []


@pytest.fixture
def spool(tmp_path: Path, dropped: Dropped) -> Spool:
    return new_spool(tmp_path, dropped)


# Order and acknowledgement.


def test_records_come_out_in_the_order_they_went_in(spool: Spool) -> None:
    append(spool, "r", "b1", "u1", "b2")
    assert requests(spool) == [["r"], ["b1"], ["u1"], ["b2"]]
    assert spool.is_drained


def test_a_record_comes_out_as_it_went_in(spool: Spool) -> None:
    spool.append(SCALARS, b'{"a": 1}', num_items=7, logged_at=12.5)
    (record,) = spool.take(0)
    assert (record.kind, record.body, record.num_items, record.logged_at, record.seq) == (
        SCALARS,
        b'{"a": 1}',
        7,
        12.5,
        1,
    )


def test_only_scalars_in_a_row_share_a_request(spool: Spool) -> None:
    append(spool, "s1", "s2", "b1", "b2", "s3", "u1", "s4")
    assert requests(spool) == [["s1", "s2"], ["b1"], ["b2"], ["s3"], ["u1"], ["s4"]]


def test_a_request_of_scalars_is_bounded_in_number(spool: Spool) -> None:
    append(spool, *["s"] * (MAX_RECORDS_PER_TAKE + 1))
    assert [len(names) for names in requests(spool)] == [MAX_RECORDS_PER_TAKE, 1]


def test_a_request_of_scalars_is_bounded_in_bytes(spool: Spool) -> None:
    append(spool, *["s"] * 5, size=1_500_000)
    assert [len(names) for names in requests(spool)] == [2, 2, 1]


def test_a_request_of_scalars_is_bounded_in_values(spool: Spool) -> None:
    for _ in range(5):
        spool.append(SCALARS, b"s", num_items=MAX_ITEMS_PER_TAKE // 2)
    assert [len(names) for names in requests(spool)] == [2, 2, 1]


def test_what_was_taken_is_given_again_until_it_is_acknowledged(spool: Spool) -> None:
    append(spool, "s1")
    first = spool.take(0)
    append(spool, "s2")
    assert spool.take(0) == first
    assert spool.status().num_records == 2
    spool.ack()
    assert requests(spool) == [["s2"]]


def test_take_gives_nothing_when_the_time_is_up(spool: Spool) -> None:
    assert spool.take(0) == []
    assert spool.take(0.01) == []


def test_take_waits_for_a_record(spool: Spool) -> None:
    got: list[str] = []
    taker = threading.Thread(target=lambda: got.extend(record.body.decode() for record in spool.take(None)))
    taker.start()
    append(spool, "b-late")
    taker.join(10)
    assert got == ["b-late"]


def test_close_and_release_wake_a_waiting_taker(spool: Spool) -> None:
    taker = threading.Thread(target=spool.take, args=(None,))
    taker.start()
    spool.release()
    taker.join(10)
    assert not taker.is_alive()


def test_a_closed_spool_takes_nothing_in_and_gives_out_what_it_has(spool: Spool, dropped: Dropped) -> None:
    append(spool, "b1")
    spool.close()
    spool.append(SCALARS, b"{}", num_items=3)
    assert dropped == [(SCALARS, 3, "closed")]
    assert spool.status().dropped == {}
    assert requests(spool) == [["b1"]]
    assert spool.take(None) == []


def test_acknowledged_items_are_counted(spool: Spool) -> None:
    spool.append(SCALARS, b"{}", num_items=3)
    append(spool, "b1", "b2")
    assert spool.acknowledged == {}
    assert len(requests(spool)) == 3
    assert spool.acknowledged == {SCALARS: 3, BATCH: 2}


def test_appending_from_many_threads_loses_nothing_and_keeps_each_order(spool: Spool) -> None:
    def append_many(letter: str) -> None:
        for number in range(300):
            spool.append(BATCH if number % 3 else SCALARS, f"{letter}{number}".encode())

    threads = [threading.Thread(target=append_many, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    got: list[str] = []
    while len(got) < 4 * 300:
        records = spool.take(10)
        assert records
        got += [record.body.decode() for record in records]
        spool.ack()
    for thread in threads:
        thread.join()
    for letter in "abcd":
        assert [name for name in got if name[0] == letter] == [f"{letter}{number}" for number in range(300)]
    assert spool.is_drained


# On disk.


def test_folder_and_files_are_the_users_own(spool: Spool) -> None:
    append(spool, "r", "s", "b")
    list(takes(spool))
    assert stat.S_IMODE(spool.folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in spool.folder.iterdir()} == {0o600}


def test_a_done_segment_is_removed(spool: Spool) -> None:
    append(spool, *["b"] * 12, size=2**20)
    assert len(segments(spool.folder, "rollouts")) == 3
    list(takes(spool))
    assert len(segments(spool.folder, "rollouts")) == 1


def test_memory_holds_what_was_taken_only(tmp_path: Path, dropped: Dropped) -> None:
    import tracemalloc

    spool = new_spool(tmp_path, dropped)
    append(spool, "s")
    tracemalloc.start()
    for _ in range(5_000):
        spool.append(SCALARS, b"s" * 200)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000
    assert spool.status().num_records == 5_001


def test_a_drained_spool_leaves_nothing_behind(spool: Spool, tmp_path: Path) -> None:
    append(spool, "r", "b")
    list(takes(spool))
    spool.release()
    assert list(tmp_path.iterdir()) == []
    spool.release()
    spool.ack()
    assert spool.take(0) == []


def test_a_spool_with_something_in_it_stays(spool: Spool) -> None:
    append(spool, "b1", "b2")
    spool.take(0)
    spool.release()
    assert bodies(adopted(spool.folder)) == ["b1", "b2"]


def test_the_writer_id_is_free_once(spool: Spool, tmp_path: Path) -> None:
    append(spool, "b1")
    with pytest.raises(OSError, match=r"not empty|exists"):
        new_spool(tmp_path, [])
    assert bodies(spool) == ["b1"]
    assert [path.name for path in spool.folder.parent.iterdir()] == ["w"]


def test_a_place_that_is_no_folder_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        new_spool(tmp_path / "file", [])


def test_status_tells_what_waits(spool: Spool) -> None:
    assert spool.status().num_records == 0
    assert spool.status().oldest_seconds == 0
    spool.append(BATCH, b"b" * 1000, logged_at=time.time() - 100)
    append(spool, "s")
    status = spool.status()
    assert status.num_records == 2
    assert 1000 < status.num_bytes < 1200
    assert 100 <= status.oldest_seconds < 130
    spool.take(0)
    assert spool.status().oldest_seconds >= 100
    spool.ack()
    assert spool.status().oldest_seconds < 30


# A process after another.


def test_an_adopted_spool_goes_on_where_the_other_ended(spool: Spool) -> None:
    append(spool, "r", "b1", "s1", "b2")
    spool.take(0)
    spool.ack()
    spool.release()
    second = adopted(spool.folder)
    assert second.meta == spool.meta
    assert second.status().num_records == 3
    append(second, "b3")
    assert requests(second) == [["b1"], ["s1"], ["b2"], ["b3"]]
    second.release()
    assert not spool.folder.exists()


def test_the_sequence_goes_on_after_the_highest_number(spool: Spool) -> None:
    append(spool, "b1", "s1")
    spool.release()
    second = adopted(spool.folder)
    append(second, "u1")
    assert [record.seq for records in takes(second) for record in records] == [1, 2, 3]


def test_numbers_go_on_although_all_segments_are_gone(spool: Spool) -> None:
    append(spool, "b1", "b2")
    spool.take(0)
    spool.ack()
    spool.release()
    for path in segments(spool.folder):
        path.unlink()
    second = adopted(spool.folder)
    append(second, "b3")
    assert bodies(second) == ["b3"]


def test_a_living_spool_is_not_adopted(spool: Spool) -> None:
    assert Spool.adopt(spool.folder, max_bytes=MAX_BYTES, on_drop=lambda *_: None) is None


def test_a_folder_that_is_gone_is_not_adopted(tmp_path: Path) -> None:
    assert Spool.adopt(tmp_path / "r" / "w", max_bytes=MAX_BYTES, on_drop=lambda *_: None) is None


@pytest.mark.parametrize(
    "meta", ["", "{}", "[1]", '{"version": 1}', '{"version": 2}', "\x00\xff", "[" * 100_000]
)
def test_an_unreadable_meta_file_is_told_and_the_lock_given_back(spool: Spool, meta: str) -> None:
    append(spool, "b1")
    spool.release()
    (spool.folder / "meta.json").write_text(meta)
    for _ in range(2):
        with pytest.raises(SpoolError, match=r"meta\.json|version"):
            adopted(spool.folder)


@pytest.mark.parametrize(
    "cursor",
    [
        None,
        "",
        "{",
        "[]",
        '{"done": -1, "dropped": {}}',
        '{"done": true, "dropped": {}}',
        '{"done": 1e400}',
        "\xff",
    ],
)
def test_without_a_cursor_everything_is_shipped_again(spool: Spool, cursor: str | None) -> None:
    append(spool, "r", "b1", "b2")
    spool.take(0)
    spool.ack()
    spool.release()
    path = spool.folder / "cursor"
    path.unlink()
    if cursor is not None:
        path.write_text(cursor)
    assert bodies(adopted(spool.folder)) == ["r", "b1", "b2"]


def test_counts_of_what_was_dropped_outlive_the_process(spool: Spool) -> None:
    append(spool, "b1")
    spool.note_dropped("values_invalid", 2)
    spool.note_dropped("values_invalid", 3)
    spool.release()
    second = adopted(spool.folder)
    second.note_dropped("batches_rejected", 1)
    assert second.status().dropped == {"values_invalid": 5, "batches_rejected": 1}


# Somebody else at the folder.


def test_a_spool_whose_folder_was_removed_ships_all_the_same(spool: Spool, dropped: Dropped) -> None:
    import shutil

    append(spool, "r", "b1", "s1", "b2", "s2")
    shutil.rmtree(spool.folder.parent)
    append(spool, "b3")
    time.sleep(1.1 * LOOK_SECONDS)
    append(spool, "b4", "s4")
    # What is logged from here on is on disk again, under the lock.
    assert len(segments(spool.folder)) == 2
    assert Spool.adopt(spool.folder, max_bytes=MAX_BYTES, on_drop=lambda *_: None) is None
    assert requests(spool) == [["r"], ["b1"], ["s1"], ["b2"], ["s2"], ["b3"], ["b4"], ["s4"]]
    assert dropped == []
    spool.release()
    assert not spool.folder.exists()


def test_a_segment_that_was_removed_is_counted_as_damaged(spool: Spool, dropped: Dropped) -> None:
    append(spool, "b1", "b2", "s1")
    spool.release()
    segments(spool.folder, "rollouts")[0].unlink()
    assert bodies(adopted(spool.folder)) == ["s1"]


def test_other_files_in_the_folder_are_left_alone(spool: Spool) -> None:
    append(spool, "b1")
    spool.release()
    (spool.folder / "notes.seg").write_text("?")
    (spool.folder / "rollouts-x.seg").write_text("?")
    (spool.folder / "rollouts-00000007.seg").mkdir()
    assert bodies(adopted(spool.folder)) == ["b1"]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_spool_is_shipped(spool: Spool) -> None:
    append(spool, "b1", "b2")
    spool.release()
    for path in spool.folder.iterdir():
        path.chmod(0o400)
    spool.folder.chmod(0o500)
    try:
        second = adopted(spool.folder)
        assert bodies(second) == ["b1", "b2"]
        assert second.is_drained
        second.release()
    finally:
        spool.folder.chmod(0o700)
