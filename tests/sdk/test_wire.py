import gc
import weakref
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest

from collapsewatch.settings import Settings
from collapsewatch.wire import Outcome, Request, connect, send, verdict_of

from .conftest import Recorder


def test_an_answer_leaves_nothing_to_the_garbage_collection(
    quick_settings: Settings, recorder: Recorder
) -> None:
    answers: list[weakref.ref[httpx.Response]] = []
    with connect(quick_settings) as client:
        client.event_hooks = {"response": [lambda response: answers.append(weakref.ref(response))]}
        gc.disable()
        try:
            verdict = send(client, Request("POST", "/api/v1/runs", b"{}", {}))
            assert [answer() for answer in answers] == [None]
        finally:
            gc.enable()
    assert verdict.outcome is Outcome.accepted


@pytest.mark.parametrize(
    ("header", "expected"),
    [("3", 3.0), ("1e9", 300.0), ("-5", 0.0), ("nan", None), ("soon", None), (None, None)],
)
def test_retry_after_in_seconds_is_bounded(header: str | None, expected: float | None) -> None:
    headers = {} if header is None else {"retry-after": header}
    assert verdict_of(503, headers, "").retry_after_seconds == expected


def test_retry_after_may_be_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    seconds = verdict_of(429, {"retry-after": date}, "").retry_after_seconds
    assert seconds is not None
    assert 50 <= seconds <= 60


@pytest.mark.parametrize("date", ["Mon, 01 Jan 0001 00:00:00 -0000", "Fri, 31 Dec 9999 23:59:59 -2359"])
def test_a_date_that_no_clock_can_tell_is_no_date(date: str) -> None:
    assert verdict_of(503, {"retry-after": date}, "").outcome is Outcome.retry


@pytest.mark.parametrize("status", [402, 405, 407, 421, 426, 451])
def test_what_is_wrong_with_the_way_costs_no_data(status: int) -> None:
    assert verdict_of(status, {}, "").outcome is Outcome.barred


def test_a_page_in_the_way_is_no_acceptance() -> None:
    assert verdict_of(200, {"content-type": "text/html"}, "<html>log in</html>").outcome is Outcome.retry
    assert verdict_of(200, {}, "").outcome is Outcome.retry
    assert verdict_of(202, {"content-type": "application/json"}, "{}").outcome is Outcome.accepted
    assert verdict_of(204, {}, "").outcome is Outcome.accepted


@pytest.mark.parametrize(
    "text", ["", "<html>no</html>", "[]", '{"error": 3}', '{"error": {"code": "x"}}', "null"]
)
def test_any_answer_gives_a_reason(text: str) -> None:
    verdict = verdict_of(400, {}, text)
    assert verdict.outcome is Outcome.rejected
    assert verdict.reason.startswith("400")
