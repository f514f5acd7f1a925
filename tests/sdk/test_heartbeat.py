import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import collapsewatch
from collapsewatch.contracts.runs import Heartbeat
from collapsewatch.heartbeat import Heart
from collapsewatch.settings import Settings
from collapsewatch.spool import RecordKind, Spool, SpoolMeta

from .conftest import COLUMNS, Answer, Recorder


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    meta = SpoolMeta("http://x", "run1", "p", "n", "writer1", "attempt1", "host", 1, 1.0)
    spool = Spool.create(tmp_path, meta, max_bytes=10_000_000, on_drop=lambda *_: None)
    yield spool
    spool.release()


def test_beats_tell_what_waits_and_what_was_lost(
    spool: Spool, recorder: Recorder, quick_settings: Settings, wait_until: Callable[..., None]
) -> None:
    spool.append(RecordKind.batch, b"{}", logged_at=1.0)
    heart = Heart(spool, quick_settings, rank=3, dropped=lambda: {"values_invalid": 2}, interval_seconds=0.01)
    assert heart.begin()
    assert not heart.begin()
    wait_until(lambda: len(recorder.beats) >= 3)
    heart.close(10)
    beat = Heartbeat.model_validate(recorder.beats[0].body)
    assert recorder.beats[0].path == "/api/v1/runs/run1/heartbeat"
    assert (beat.writer_id, beat.attempt_id, beat.host, beat.rank) == ("writer1", "attempt1", "host", 3)
    assert (beat.is_alive, beat.spool_records, beat.dropped) == (True, 1, {"values_invalid": 2})
    assert beat.spool_bytes > 0
    assert beat.spool_oldest_seconds > 1000


def test_a_run_beats_when_it_was_accepted_and_when_it_ends(
    run: collapsewatch.Run, recorder: Recorder, wait_until: Callable[..., None]
) -> None:
    wait_until(lambda: recorder.beats)
    run.log_rollouts(1, **COLUMNS)
    run.log({"a": float("nan")})
    run.finish()
    # One every ten seconds stands between them on a machine that stands still.
    first, *_, last = (Heartbeat.model_validate(seen.body) for seen in recorder.beats)
    assert first.dropped == {}
    assert (last.spool_records, last.dropped) == (0, {"values_not_finite": 1})
    assert first.writer_id == last.writer_id


def test_a_run_that_was_refused_shows_no_life(recorder: Recorder) -> None:
    recorder.answers = lambda seen: Answer(409)
    run = collapsewatch.init(url=recorder.url)
    run.finish(10)
    assert recorder.beats == []


def test_beats_that_fail_are_silent(
    spool: Spool,
    offline_recorder: Recorder,
    quick_settings: Settings,
    wait_until: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="collapsewatch")
    heart = Heart(spool, quick_settings, rank=None, dropped=dict, interval_seconds=0.01)
    heart.begin()
    wait_until(lambda: len(caplog.records) >= 2)
    offline_recorder.answers = lambda seen: Answer(404)
    offline_recorder.up()
    wait_until(lambda: len(offline_recorder.beats) >= 2)
    heart.close(10)
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}
