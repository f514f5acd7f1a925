"""What goes, and what stays, when more waits than there is room for."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collapsewatch.spool import RecordKind, Spool

from .spools import Dropped, adopted, append, bodies, new_spool, requests, segments

BATCH, SCALARS = RecordKind.batch, RecordKind.scalars


@pytest.fixture
def dropped() -> Dropped:
    return []


@pytest.fixture
def spool(tmp_path: Path, dropped: Dropped) -> Spool:
    return new_spool(tmp_path, dropped)


def test_the_oldest_rollouts_go_first_when_there_is_no_room(tmp_path: Path, dropped: Dropped) -> None:
    spool = new_spool(tmp_path, dropped, max_bytes=4 * 300)
    append(spool, "r", "s", "b1", "b2", "b3", "b4", size=250)
    assert dropped == [(BATCH, 1, "spool_full"), (BATCH, 1, "spool_full")]
    assert spool.status().dropped == {"batches_spool_full": 2}
    assert requests(spool) == [["r"], ["s"], ["b3"], ["b4"]]


def test_scalars_go_when_no_rollouts_are_left_and_the_start_never(tmp_path: Path, dropped: Dropped) -> None:
    spool = new_spool(tmp_path, dropped, max_bytes=700)
    append(spool, "r", "b1", "s1", "u1", "u2", "u3", size=250)
    assert [kind for kind, _, _ in dropped] == [BATCH, SCALARS]
    assert requests(spool) == [["r"], ["u1"], ["u2"], ["u3"]]


def test_scalars_are_not_given_up_for_a_batch(tmp_path: Path, dropped: Dropped) -> None:
    spool = new_spool(tmp_path, dropped, max_bytes=1000)
    append(spool, "s1", "s2", "s3", size=250)
    append(spool, "b1", size=250)
    assert dropped == [(BATCH, 1, "spool_full")]
    assert requests(spool) == [["s1", "s2", "s3"]]


def test_a_batch_larger_than_the_budget_is_dropped_alone(tmp_path: Path, dropped: Dropped) -> None:
    spool = new_spool(tmp_path, dropped, max_bytes=1000)
    append(spool, "s", "b1")
    append(spool, "b-huge", size=2000)
    assert dropped == [(BATCH, 1, "spool_full")]
    assert requests(spool) == [["s"], ["b1"]]


def test_what_is_being_sent_is_not_dropped_under_the_sender(tmp_path: Path, dropped: Dropped) -> None:
    spool = new_spool(tmp_path, dropped, max_bytes=700)
    append(spool, "b-sending", size=250)
    spool.take(0)
    append(spool, "b1", "b2", size=250)
    assert len(dropped) == 1
    assert requests(spool) == [["b-sending"], ["b2"]]


def test_a_segment_pushed_out_under_the_reader_is_passed_over(tmp_path: Path, dropped: Dropped) -> None:
    spool = new_spool(tmp_path, dropped, max_bytes=4000)
    append(spool, *[f"b{number}" for number in range(12)], size=250)
    assert spool.take(0)[0].body.startswith(b"b0")
    append(spool, "b12", "b13", size=250)
    names = [name for request in requests(spool) for name in request]
    assert names[0] == "b0"
    assert names[-1] == "b13"
    assert len(names) + sum(count for _, count, _ in dropped) == 14


def test_acknowledged_bytes_are_free_again(tmp_path: Path, dropped: Dropped) -> None:
    spool = new_spool(tmp_path, dropped, max_bytes=700)
    for number in range(50):
        append(spool, f"b{number}", size=250)
        assert requests(spool) == [[f"b{number}"]]
    assert dropped == []
    assert len(segments(spool.folder)) <= 2


@given(
    appended=st.lists(st.tuples(st.sampled_from("rubs"), st.integers(1, 400), st.booleans()), max_size=60),
    max_bytes=st.integers(100, 3000),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_appended_arrives_in_order_or_is_counted(
    tmp_path_factory: pytest.TempPathFactory, appended: list[tuple[str, int, bool]], max_bytes: int
) -> None:
    dropped: Dropped = []
    spool = new_spool(tmp_path_factory.mktemp("spool"), dropped, max_bytes=max_bytes)
    got: list[str] = []
    for number, (letter, size, has_taker) in enumerate(appended):
        append(spool, f"{letter}{number:02d}", size=size)
        status = spool.status()
        if not any(letter in "ru" for letter, _, _ in appended):
            assert status.num_bytes <= max_bytes
        if has_taker and (records := spool.take(0)):
            got += [record.body.decode()[:3] for record in records]
            spool.ack()
    spool.release()
    if spool.folder.exists():
        got += [body[:3] for body in bodies(adopted(spool.folder))]
    numbers = [int(name[1:]) for name in got]
    assert numbers == sorted(set(numbers))
    names = {f"{letter}{number:02d}" for number, (letter, _, _) in enumerate(appended)}
    assert set(got) <= names
    assert all(name in got for name in names if name[0] in "ru")
    assert len(names) - len(got) == sum(count for _, count, _ in dropped)
    assert spool.status().dropped == {
        key: count
        for key, kind in (("batches_spool_full", BATCH), ("values_spool_full", SCALARS))
        if (count := sum(number for dropped_kind, number, _ in dropped if dropped_kind is kind))
    }


def test_a_body_beyond_the_largest_record_is_dropped(
    spool: Spool, dropped: Dropped, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collapsewatch.spool.writing.MAX_BODY_BYTES", 1000)
    append(spool, "b1", size=1001)
    append(spool, "b2", size=1000)
    assert dropped == [(BATCH, 1, "spool_full")]
    assert requests(spool) == [["b2"]]
