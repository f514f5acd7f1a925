import json
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import httpx
import pytest

from collapsewatch.heartbeat import ship_adopted
from collapsewatch.settings import Settings
from collapsewatch.spool import Record, RecordKind, Spool
from collapsewatch.wire import Request, Verdict, send

from .conftest import Answer, Recorder, Rig


def paths(recorder: Recorder) -> list[tuple[str, str]]:
    return [(seen.method, seen.path) for seen in recorder.seen]


def test_records_arrive_in_order_at_their_own_routes(rig: Rig, recorder: Recorder) -> None:
    rig.put(RecordKind.batch, {"batch_id": "b"})
    rig.put(RecordKind.update, {"state": "finished"})
    rig.put(RecordKind.scalars, {"step": 1, "values": {"a": 1}})
    rig.put(RecordKind.scalars, {"step": 2, "values": {"a": 2}})
    rig.sender.start()
    assert rig.sender.close(60).is_drained
    assert paths(recorder) == [
        ("POST", "/api/v1/runs"),
        ("POST", "/api/v1/runs/run1/batches"),
        ("PATCH", "/api/v1/runs/run1"),
        ("POST", "/api/v1/runs/run1/scalars"),
    ]
    assert recorder.seen[-1].body == {
        "attempt_id": "attempt1",
        "points": [{"step": 1, "values": {"a": 1}}, {"step": 2, "values": {"a": 2}}],
    }
    assert rig.boundary.dropped == {}


def test_requests_carry_the_key_and_say_what_they_are(rig: Rig, recorder: Recorder) -> None:
    rig.sender.start()
    rig.sender.close(60)
    headers = recorder.seen[0].headers
    assert headers["authorization"] == "Bearer k"
    assert headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("collapsewatch/")
    assert "content-encoding" not in headers


def test_without_a_key_no_authorization_is_sent(
    quick_settings: Settings, recorder: Recorder, tmp_path: Path
) -> None:
    rig = Rig(replace(quick_settings, api_key=None), tmp_path)
    rig.put(RecordKind.start, {})
    rig.sender.start()
    rig.sender.close(60)
    assert "authorization" not in recorder.seen[0].headers


def test_a_long_body_is_compressed(rig: Rig, recorder: Recorder) -> None:
    rig.put(RecordKind.batch, {"text": "again and " * 1000})
    rig.sender.start()
    rig.sender.close(60)
    batch = recorder.seen[1]
    assert batch.headers["content-encoding"] == "zstd"
    assert int(batch.headers["content-length"]) < 1000
    assert batch.body == {"text": "again and " * 1000}


def test_a_path_prefix_of_the_server_is_kept(
    quick_settings: Settings, recorder: Recorder, tmp_path: Path
) -> None:
    rig = Rig(replace(quick_settings, url=quick_settings.url + "/watch"), tmp_path)
    rig.put(RecordKind.start, {})
    rig.sender.start()
    rig.sender.close(60)
    assert recorder.seen[0].path == "/watch/api/v1/runs"


def test_loopback_is_reached_past_a_proxy(
    rig: Rig, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    rig.sender.start()
    assert rig.sender.close(60).is_drained
    assert len(recorder.seen) == 1


def test_an_absent_server_gets_everything_when_it_comes(
    rig: Rig, offline_recorder: Recorder, wait_until: Callable[..., None], sdk_log: Callable[[], list[str]]
) -> None:
    rig.sender.start()
    rig.put(RecordKind.batch, {"batch_id": "b"})
    wait_until(lambda: any("ConnectError" in message for message in sdk_log()))
    assert rig.spool.status().num_records == 2
    offline_recorder.up()
    wait_until(lambda: rig.spool.is_drained)
    assert paths(offline_recorder) == [("POST", "/api/v1/runs"), ("POST", "/api/v1/runs/run1/batches")]
    assert len(sdk_log()) == 1
    rig.sender.close(60)


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_passing_failure_is_tried_again(rig: Rig, recorder: Recorder, status: int) -> None:
    tries = count(1)
    recorder.answers = lambda seen: Answer(status) if next(tries) <= 3 else None
    rig.sender.start()
    assert rig.sender.close(60).is_drained
    assert len(recorder.seen) == 4
    assert rig.boundary.dropped == {}


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_a_refused_batch_is_dropped_and_the_next_one_goes(
    rig: Rig, recorder: Recorder, status: int, sdk_log: Callable[[], list[str]]
) -> None:
    body = json.dumps(
        {
            "error": {
                "code": "bad",
                "message": "the body does not fit",
                "details": [{"loc": "rollouts.3.reward", "message": "not a number", "given": "SECRET TEXT"}],
            }
        }
    )
    recorder.answers = lambda seen: Answer(status, body=body) if seen.body.get("bad") else None
    rig.put(RecordKind.batch, {"bad": True})
    rig.put(RecordKind.batch, {"bad": False})
    rig.sender.start()
    assert rig.sender.close(60).is_drained
    assert [seen.body for seen in recorder.of("/batches")] == [{"bad": True}, {"bad": False}]
    assert rig.boundary.dropped == {"batches_rejected": 1}
    (told,) = sdk_log()
    assert str(status) in told
    assert "SECRET" not in told
    assert "the body does not fit; rollouts.3.reward: not a number" in told
    assert rig.spool.status().dropped == {"batches_rejected": 1}


def test_a_redirect_does_not_carry_the_key_elsewhere(rig: Rig, recorder: Recorder) -> None:
    recorder.answers = lambda seen: Answer(307, {"Location": f"http://localhost:{recorder.port}/elsewhere"})
    rig.sender.start()
    assert "redirected" in (rig.sender.close(60).refusal or "")
    assert paths(recorder) == [("POST", "/api/v1/runs")]
    assert rig.boundary.dropped == {}
    assert rig.left() == [RecordKind.start]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_key_or_a_run_that_is_gone_keeps_what_was_not_sent(
    rig: Rig, recorder: Recorder, status: int
) -> None:
    recorder.answers = lambda seen: Answer(status) if seen.path.endswith("/batches") else None
    rig.put(RecordKind.batch, {})
    rig.put(RecordKind.update, {})
    rig.sender.start()
    assert not rig.sender.close(60).is_drained
    assert rig.boundary.dropped == {}
    assert rig.left() == [RecordKind.batch, RecordKind.update]


def test_the_next_process_ships_what_was_refused_before(
    rig: Rig, recorder: Recorder, quick_settings: Settings
) -> None:
    recorder.answers = lambda seen: Answer(401)
    rig.put(RecordKind.batch, {"batch_id": "b"})
    rig.sender.start()
    rig.sender.close(60)
    rig.spool.release()
    recorder.answers = lambda seen: None
    recorder.seen.clear()
    adopted = Spool.adopt(rig.spool.folder, max_bytes=10_000_000, on_drop=rig._on_drop)
    assert adopted is not None
    assert ship_adopted(adopted, quick_settings, rig.boundary, timeout_seconds=60).is_drained
    adopted.release()
    assert paths(recorder) == [("POST", "/api/v1/runs"), ("POST", "/api/v1/runs/run1/batches")]
    assert {seen.headers.get("x-collapsewatch-late") for seen in recorder.seen + recorder.beats} == {"1"}
    assert [beat.body["is_alive"] for beat in recorder.beats] == [False]
    assert not rig.spool.folder.exists()


def test_what_did_not_make_it_in_time_stays(rig: Rig, offline_recorder: Recorder) -> None:
    rig.put(RecordKind.batch, {})
    rig.sender.start()
    assert not rig.sender.close(0.05).is_drained
    assert rig.left() == [RecordKind.start, RecordKind.batch]


def test_shipping_in_the_callers_thread_ends_in_time(rig: Rig, offline_recorder: Recorder) -> None:
    assert not rig.sender.ship(0.05).is_drained
    assert not rig.spool.is_drained


def test_close_does_not_sit_out_a_long_pause(
    quick_settings: Settings,
    tmp_path: Path,
    offline_recorder: Recorder,
    sdk_log: Callable[[], list[str]],
    wait_until: Callable[..., None],
) -> None:
    rig = Rig(replace(quick_settings, retry_seconds=3600, max_retry_seconds=3600), tmp_path)
    rig.put(RecordKind.start, {})
    rig.sender.start()
    wait_until(sdk_log)
    offline_recorder.up()
    assert rig.sender.close(60).is_drained
    assert len(offline_recorder.seen) == 1


def test_what_the_server_asks_to_wait_is_waited(
    rig: Rig, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[tuple[float, float | None]] = []
    monkeypatch.setattr(rig.sender, "_pause", lambda seconds, asked: pauses.append((seconds, asked)))
    tries = count(1)
    recorder.answers = lambda seen: Answer(429, {"Retry-After": "7"}) if next(tries) == 1 else None
    rig.sender.start()
    rig.sender.close(60)
    assert [asked for _, asked in pauses] == [7.0]


def test_pauses_grow_up_to_their_limit(
    quick_settings: Settings, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = Rig(replace(quick_settings, retry_seconds=1, max_retry_seconds=4), tmp_path)
    rig.put(RecordKind.start, {})
    pauses: list[float] = []
    monkeypatch.setattr(rig.sender, "_pause", lambda seconds, asked: pauses.append(seconds))
    tries = count(1)
    recorder.answers = lambda seen: Answer(503) if next(tries) <= 5 else None
    rig.sender.start()
    rig.sender.close(60)
    for pause, limit in zip(pauses, [1, 2, 4, 4, 4], strict=True):
        assert limit / 2 <= pause <= limit


def test_a_broken_certificate_store_is_reported_and_not_raised(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, sdk_log: Callable[[], list[str]]
) -> None:
    def broken(*_: object, **__: object) -> object:
        raise FileNotFoundError("no such bundle")

    monkeypatch.setattr("collapsewatch.sender.connect", broken)
    rig.sender.start()
    assert not rig.sender.close(60).is_drained
    assert "no such bundle" in sdk_log()[0]


@pytest.mark.parametrize(("num_failures", "num_lost"), [(1, 0), (3, 1)])
def test_an_unforeseen_failure_costs_one_record_at_most(
    rig: Rig, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, num_failures: int, num_lost: int
) -> None:
    failures = iter([RuntimeError("unforeseen")] * num_failures)

    def fail_on_batches(client: httpx.Client, request: Request) -> Verdict:
        if "batches" in request.path:
            for failure in failures:
                raise failure
        return send(client, request)

    monkeypatch.setattr("collapsewatch.sender.send", fail_on_batches)
    rig.put(RecordKind.batch, {"n": 1})
    rig.put(RecordKind.batch, {"n": 2})
    rig.sender.start()
    assert rig.sender.close(60).is_drained
    assert [seen.body for seen in recorder.of("/batches")] == [{"n": 1}, {"n": 2}][num_lost:]
    assert rig.boundary.dropped.get("batches_rejected", 0) == num_lost


def test_an_unforeseen_failure_costs_none_of_the_values_beside_it(
    rig: Rig, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail_on_one(client: httpx.Client, request: Request) -> Verdict:
        if b'"step":-1' in request.body.replace(b" ", b""):
            raise RuntimeError("unforeseen")
        return send(client, request)

    monkeypatch.setattr("collapsewatch.sender.send", fail_on_one)
    for step in (1, -1, 2, -1, 3):
        rig.put(RecordKind.scalars, {"step": step}, num_items=2)
    rig.sender.start()
    assert rig.sender.close(60).is_drained
    points = [point["step"] for seen in recorder.of("/scalars") for point in seen.body["points"]]
    assert points == [1, 2, 3]
    assert rig.boundary.dropped == rig.spool.status().dropped == {"values_rejected": 4}


def test_a_server_that_says_to_come_again_at_once_is_not_asked_in_a_loop(
    quick_settings: Settings, recorder: Recorder, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    rig = Rig(replace(quick_settings, retry_seconds=0.4, max_retry_seconds=0.4), tmp_path)
    rig.put(RecordKind.start, {})
    recorder.answers = lambda seen: Answer(503, {"Retry-After": "0"})
    began = time.monotonic()
    rig.sender.start()
    wait_until(lambda: len(recorder.seen) >= 2)
    assert not rig.sender.close(1.0).is_drained
    # A pause is at least half of 0.4 s.
    assert len(recorder.seen) <= 2 + (time.monotonic() - began) / 0.2


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_page_of_a_proxy_is_no_word_of_the_server(rig: Rig, recorder: Recorder, status: int) -> None:
    # As of a proxy that finds no server behind it while that is started again.
    tries = count(1)
    page = Answer(status, {"Content-Type": "text/plain"}, "404 page not found")
    recorder.answers = lambda seen: page if next(tries) in (2, 3) else None
    rig.put(RecordKind.batch, {"n": 1})
    rig.sender.start()
    assert rig.sender.close(60).is_drained
    assert len(recorder.of("/batches")) == 3


def test_a_spool_that_cannot_be_read_for_a_while_is_read_later(
    rig: Rig, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    take = rig.spool.take
    failures = iter([OSError(5, "the disk is away")] * 3)

    def fail_first(timeout_seconds: float | None) -> list[Record]:
        for failure in failures:
            raise failure
        return take(timeout_seconds)

    monkeypatch.setattr(rig.spool, "take", fail_first)
    monkeypatch.setattr("collapsewatch.sender._CLOSING_PAUSE_SECONDS", 0.01)
    rig.sender.start()
    assert rig.sender.close(60).is_drained


def test_requests_do_not_fill_the_trainers_log(
    rig: Rig, recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rig.sender.start()
    rig.sender.close(60)
    assert [record for record in caplog.records if record.name == "httpx"] == []
    logging.getLogger("httpx").info("of someone else")
    assert [record.getMessage() for record in caplog.records if record.name == "httpx"] == ["of someone else"]
