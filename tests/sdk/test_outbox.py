import threading

import pytest

from collapsewatch.outbox import MAX_POINTS_PER_REQUEST, DropReason, Outbox, Record, RecordKind


def record(kind: RecordKind, name: str, size: int = 100) -> Record:
    return Record(kind, name.encode().ljust(size, b"."))


def names(records: list[Record]) -> list[str]:
    return [record.body.rstrip(b".").decode() for record in records]


@pytest.fixture
def dropped() -> list[tuple[str, DropReason]]:
    return []


def outbox_of(max_bytes: int, dropped: list[tuple[str, DropReason]]) -> Outbox:
    return Outbox(max_bytes, lambda gone, reason: dropped.append((names([gone])[0], reason)))


def test_records_come_out_in_the_order_they_went_in(dropped: list[tuple[str, DropReason]]) -> None:
    outbox = outbox_of(10_000, dropped)
    for kind, name in ((RecordKind.start, "a"), (RecordKind.batch, "b"), (RecordKind.update, "c")):
        outbox.append(record(kind, name))
    out = []
    for _ in range(3):
        out += names(outbox.take())
        outbox.ack()
    assert out == ["a", "b", "c"]
    assert len(outbox) == 0


def test_what_was_taken_is_given_again_until_it_is_acknowledged(
    dropped: list[tuple[str, DropReason]],
) -> None:
    outbox = outbox_of(10_000, dropped)
    outbox.append(record(RecordKind.batch, "a"))
    assert names(outbox.take()) == names(outbox.take()) == ["a"]
    assert len(outbox) == 1
    outbox.ack()
    assert len(outbox) == 0


def test_only_scalars_in_a_row_share_a_request(dropped: list[tuple[str, DropReason]]) -> None:
    outbox = outbox_of(10_000, dropped)
    for name in ("s1", "s2"):
        outbox.append(record(RecordKind.scalars, name))
    outbox.append(record(RecordKind.batch, "b1"))
    outbox.append(record(RecordKind.batch, "b2"))
    outbox.append(record(RecordKind.scalars, "s3"))
    requests = []
    for _ in range(4):
        requests.append(names(outbox.take()))
        outbox.ack()
    assert requests == [["s1", "s2"], ["b1"], ["b2"], ["s3"]]


def test_a_request_of_scalars_is_bounded(dropped: list[tuple[str, DropReason]]) -> None:
    outbox = outbox_of(10_000_000, dropped)
    for number in range(MAX_POINTS_PER_REQUEST + 1):
        outbox.append(record(RecordKind.scalars, str(number)))
    assert len(outbox.take()) == MAX_POINTS_PER_REQUEST


def test_the_oldest_rollouts_go_first_when_there_is_no_room(dropped: list[tuple[str, DropReason]]) -> None:
    outbox = outbox_of(4 * 300, dropped)
    outbox.append(record(RecordKind.start, "start"))
    outbox.append(record(RecordKind.scalars, "s"))
    for name in ("b1", "b2", "b3", "b4"):
        outbox.append(record(RecordKind.batch, name))
    assert dropped == [("b1", DropReason.outbox_full), ("b2", DropReason.outbox_full)]
    outbox.close()
    assert names(outbox.drain()) == ["start", "s", "b3", "b4"]


def test_scalars_go_when_no_rollouts_are_left_and_the_start_never(
    dropped: list[tuple[str, DropReason]],
) -> None:
    outbox = outbox_of(300, dropped)
    outbox.append(record(RecordKind.start, "start"))
    outbox.append(record(RecordKind.scalars, "s1"))
    outbox.append(record(RecordKind.update, "update"))
    assert dropped == [("s1", DropReason.outbox_full)]
    assert names(outbox.drain()) == ["start", "update"]


def test_a_batch_larger_than_the_budget_is_dropped_alone(dropped: list[tuple[str, DropReason]]) -> None:
    outbox = outbox_of(1000, dropped)
    outbox.append(record(RecordKind.scalars, "s"))
    outbox.append(record(RecordKind.batch, "huge", size=2000))
    assert dropped == [("huge", DropReason.outbox_full)]
    assert names(outbox.take()) == ["s"]


def test_what_is_being_sent_is_not_dropped_under_the_sender(dropped: list[tuple[str, DropReason]]) -> None:
    outbox = outbox_of(600, dropped)
    outbox.append(record(RecordKind.batch, "sending"))
    outbox.take()
    for name in ("b1", "b2"):
        outbox.append(record(RecordKind.batch, name))
    assert dropped == [("b1", DropReason.outbox_full)]
    assert names(outbox.take()) == ["sending"]


def test_acknowledged_bytes_are_free_again(dropped: list[tuple[str, DropReason]]) -> None:
    outbox = outbox_of(300, dropped)
    for number in range(5):
        outbox.append(record(RecordKind.batch, str(number)))
        outbox.take()
        outbox.ack()
    assert dropped == []


def test_a_closed_outbox_takes_nothing_in_and_gives_out_what_it_has(
    dropped: list[tuple[str, DropReason]],
) -> None:
    outbox = outbox_of(10_000, dropped)
    outbox.append(record(RecordKind.batch, "before"))
    outbox.close()
    outbox.append(record(RecordKind.batch, "after"))
    assert dropped == [("after", DropReason.outbox_closed)]
    assert names(outbox.take()) == ["before"]
    outbox.ack()
    assert outbox.take() == []


def test_take_waits_for_a_record(dropped: list[tuple[str, DropReason]]) -> None:
    outbox = outbox_of(10_000, dropped)
    got: list[str] = []
    taker = threading.Thread(target=lambda: got.extend(names(outbox.take())))
    taker.start()
    assert got == []
    outbox.append(record(RecordKind.batch, "late"))
    taker.join(10)
    assert got == ["late"]


def test_close_wakes_a_waiting_taker(dropped: list[tuple[str, DropReason]]) -> None:
    outbox = outbox_of(10_000, dropped)
    taker = threading.Thread(target=outbox.take)
    taker.start()
    outbox.close()
    taker.join(10)
    assert not taker.is_alive()


def test_appending_from_many_threads_loses_nothing(dropped: list[tuple[str, DropReason]]) -> None:
    outbox = outbox_of(10_000_000, dropped)

    def append_many(letter: str) -> None:
        for number in range(200):
            outbox.append(record(RecordKind.batch, f"{letter}{number}"))

    threads = [threading.Thread(target=append_many, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = names(outbox.drain())
    assert sorted(left) == sorted(f"{letter}{number}" for letter in "abcd" for number in range(200))
    for letter in "abcd":
        assert [name for name in left if name[0] == letter] == [f"{letter}{number}" for number in range(200)]
