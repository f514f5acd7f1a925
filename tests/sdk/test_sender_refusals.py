import json
import logging
import threading
from collections.abc import Callable

import pytest

from collapsewatch.spool import RecordKind, Spool

from .conftest import Answer, Recorder, Rig, Seen


@pytest.mark.parametrize("status", [401, 403, 404, 409, 422])
def test_a_refused_start_ends_the_shipping_and_keeps_everything(
    rig: Rig, recorder: Recorder, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.answers = lambda seen: Answer(status)
    rig.put(RecordKind.batch, {})
    rig.put(RecordKind.scalars, {}, num_items=3)
    rig.sender.start()
    assert not rig.sender.close(60).is_drained
    assert [(seen.method, seen.path) for seen in recorder.seen] == [("POST", "/api/v1/runs")]
    assert rig.boundary.dropped == rig.spool.status().dropped == {}
    (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert str(rig.spool.folder) in told.getMessage()
    assert rig.left() == [RecordKind.start, RecordKind.batch, RecordKind.scalars]


def test_one_bad_point_does_not_take_its_neighbours_along(rig: Rig, recorder: Recorder) -> None:
    def refuse_negative(seen: Seen) -> Answer | None:
        points = seen.body.get("points", [])
        return Answer(422) if any(point["step"] < 0 for point in points) else None

    recorder.answers = refuse_negative
    for step in (1, -1, 2):
        rig.put(RecordKind.scalars, {"step": step, "values": {"a": 1}}, num_items=2)
    rig.sender.start()
    assert rig.sender.close(60).is_drained
    assert [len(seen.body["points"]) for seen in recorder.of("/scalars")] == [3, 1, 1, 1]
    assert rig.boundary.dropped == {"values_rejected": 2}


def test_what_was_refused_before_an_outage_is_counted_once(
    rig: Rig, recorder: Recorder, wait_until: Callable[..., None]
) -> None:
    def refuse_then_fail(seen: Seen) -> Answer | None:
        steps = [point["step"] for point in seen.body.get("points", [])]
        if steps == [2]:
            return Answer(503)
        return Answer(422) if -1 in steps else None

    recorder.answers = refuse_then_fail
    for step in (-1, 2, 3):
        rig.put(RecordKind.scalars, {"step": step, "values": {"a": 1}}, num_items=1)
    rig.sender.start()
    wait_until(lambda: rig.spool.status().dropped)
    assert not rig.sender.close(0.2).is_drained
    rig.spool.release()
    adopted = Spool.adopt(rig.spool.folder, max_bytes=10_000_000, on_drop=rig._on_drop)
    assert adopted is not None
    assert adopted.status().dropped == {"values_rejected": 1}
    assert [json.loads(record.body)["step"] for record in adopted.take(0)] == [2, 3]
    adopted.release()


def test_a_refusal_that_nobody_waits_for_is_left_to_the_next_one(
    rig: Rig, recorder: Recorder, wait_until: Callable[..., None]
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def refuse_late(seen: Seen) -> Answer | None:
        if not seen.path.endswith("/batches"):
            return None
        asked.set()
        answer.wait(60)
        return Answer(422)

    recorder.answers = refuse_late
    rig.put(RecordKind.batch, {})
    rig.sender.start()
    assert asked.wait(60)
    rig.sender.close(0.05)
    rig.spool.release()
    answer.set()
    thread = rig.sender._thread
    assert thread is not None
    thread.join(60)
    assert not thread.is_alive()
    assert rig.boundary.dropped == {}
    adopted = Spool.adopt(rig.spool.folder, max_bytes=10_000_000, on_drop=rig._on_drop)
    assert adopted is not None
    assert adopted.status().dropped == {}
    assert [record.kind for record in adopted.take(0)] == [RecordKind.batch]
    adopted.release()
