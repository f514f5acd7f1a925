"""Live events: every event once, in order, across broken connections and several servers."""

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from tests.server.live import LiveServer, result_body


class Event(NamedTuple):
    name: str
    event_id: int
    data: dict[str, Any]


class Listener:
    """An event stream that is read in a thread."""

    def __init__(self, live: LiveServer, **request: Any) -> None:
        self.events: list[Event] = []
        self.ended = threading.Event()
        self._client = httpx.Client(base_url=live.url, timeout=60, trust_env=False)
        self._stream = self._client.stream("GET", "/api/v1/stream", **request)
        self.response = self._stream.__enter__()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            for line in self.response.iter_lines():
                if line:
                    name, _, value = line.partition(":")
                    fields[name] = value.strip()
                elif "data" in fields:
                    self.events.append(Event(fields["event"], int(fields["id"]), json.loads(fields["data"])))
                    fields = {}
        except httpx.HTTPError:
            pass
        self.ended.set()

    def names(self) -> list[str]:
        return [event.name for event in self.events]

    def close(self) -> None:
        # The reading thread holds the connection; the server's end of the stream lets it go.
        self._thread.join(60)
        self._stream.__exit__(None, None, None)
        self._client.close()


@pytest.fixture
def listen(start_server: Callable[..., LiveServer]) -> Iterator[Callable[..., Any]]:
    opened: list[tuple[LiveServer, Listener]] = []

    def start(live: LiveServer, **request: Any) -> Listener:
        listener = Listener(live, **request)
        opened.append((live, listener))
        return listener

    yield start
    for live, listener in opened:
        live.server.handle_exit(15, None)
        listener.close()


def test_events_arrive_as_they_happen(start_server: Any, listen: Any, wait_until: Any) -> None:
    live = start_server(lease_seconds=60)
    listener = listen(live)
    wait_until(lambda: listener.names() == ["hello"])
    assert listener.response.headers["content-type"].startswith("text/event-stream")
    run_id = live.start_run()
    live.score(run_id, 3, result_body())
    live.ingest("POST", f"/runs/{run_id}/scalars", json={"points": [{"step": 3, "values": {"kl": 1}}]})
    wait_until(lambda: len(listener.events) == 6, "all events came")
    assert listener.names() == ["hello", "run", "batch", "metrics", "metrics", "metrics"]
    ids = [event.event_id for event in listener.events]
    assert ids == sorted(set(ids))
    assert {event.data["run_id"] for event in listener.events[1:]} == {run_id}
    assert [event.data.get("scope") for event in listener.events[3:]] == ["batch", "first_turn", "trainer"]


@pytest.mark.parametrize("how", ["header", "parameter"])
def test_a_stream_resumes_after_the_last_event_it_saw(
    start_server: Any, listen: Any, wait_until: Any, how: str
) -> None:
    live = start_server(lease_seconds=60)
    run_id = live.start_run()
    for step in range(5):
        live.send_batch(run_id, step)
    stored = live.services.reading.events_after(0, None, 100)
    seen = stored[2].event_id
    # Another server of the same deployment, as after a restart.
    restarted = start_server()
    requests = {
        "header": {"headers": {"Last-Event-ID": str(seen)}},
        "parameter": {"params": {"last_event_id": seen}},
    }
    listener = listen(restarted, **requests[how])
    wait_until(lambda: len(listener.events) == len(stored) - 3)
    assert [event.event_id for event in listener.events] == [event.event_id for event in stored[3:]]


def test_an_id_of_a_database_that_is_no_more_starts_a_new_stream(
    start_server: Any, listen: Any, wait_until: Any
) -> None:
    live = start_server()
    page = listen(live, headers={"Last-Event-ID": "99999"})
    wait_until(lambda: page.names() == ["hello"], "the stream begins anew")
    live.start_run()
    wait_until(lambda: "run" in page.names(), "the run is told of")


def test_a_stream_of_one_run_tells_of_no_other(start_server: Any, listen: Any, wait_until: Any) -> None:
    live = start_server()
    mine, other = live.start_run(), live.start_run()
    listener = listen(live, params={"run_id": mine, "last_event_id": 0})
    live.send_batch(other, 1)
    live.send_batch(mine, 2)
    wait_until(lambda: listener.names() == ["run", "batch"])
    assert {event.data["run_id"] for event in listener.events} == {mine}


def test_another_server_of_the_deployment_is_heard(start_server: Any, listen: Any, wait_until: Any) -> None:
    one, two = start_server(), start_server()
    listener = listen(one)
    wait_until(lambda: listener.names() == ["hello"])
    two.start_run()
    wait_until(lambda: listener.names() == ["hello", "run"], "the event of the other server came")


def test_writers_at_once_lose_no_event(start_server: Any, listen: Any, wait_until: Any) -> None:
    live = start_server()
    listener = listen(live)
    wait_until(lambda: listener.names() == ["hello"])
    run_ids = [live.start_run() for _ in range(4)]

    def send(run_id: str) -> None:
        for step in range(10):
            assert live.send_batch(run_id, step).status_code == 202

    threads = [threading.Thread(target=send, args=(run_id,)) for run_id in run_ids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: listener.names().count("batch") == 40, "every batch was told of")
    ids = [event.event_id for event in listener.events]
    assert ids == sorted(set(ids))
    told = {(event.data["run_id"], event.data["step"]) for event in listener.events if event.name == "batch"}
    assert told == {(run_id, step) for run_id in run_ids for step in range(10)}


def test_open_streams_and_waiting_claims_do_not_hold_the_end(
    start_server: Any, listen: Any, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever holds the end holds it for so long.
    monkeypatch.setattr("collapsewatch_server.launch.serving._GRACE_SECONDS", 120)
    live = start_server()
    listeners = [listen(live) for _ in range(20)]
    answers: list[int] = []
    waiting = threading.Thread(
        target=lambda: answers.append(live.worker("/claim", {"worker": "w", "wait_seconds": 30}).status_code)
    )
    waiting.start()
    wait_until(lambda: live.services.work.num_requests == 1, "the claim waits")
    live.server.handle_exit(15, None)
    assert all(listener.ended.wait(20) for listener in listeners)
    waiting.join(20)
    assert answers == [204]


def test_a_bad_event_id_is_refused(start_server: Any) -> None:
    live = start_server()
    for value in ("-1", "x", str(2**70)):
        assert live.call("GET", "/stream", headers={"Last-Event-ID": value}).status_code == 422


def test_who_missed_more_than_it_wants_to_hear_begins_anew(
    quiet: LiveServer, listen: Callable[..., Any], wait_until: Any
) -> None:
    quiet.start_run()
    first = quiet.services.reading.kept_event_ids()[1]
    for _ in range(3):
        quiet.start_run()
    newest = quiet.services.reading.kept_event_ids()[1]
    assert newest - first == 3
    patient = listen(quiet, params={"last_event_id": first, "max_missed": 3})
    hurried = listen(quiet, params={"last_event_id": first, "max_missed": 2})
    wait_until(lambda: len(patient.events) == 3 and len(hurried.events) == 1, "both have heard")
    assert patient.names() == ["run", "run", "run"]
    assert hurried.events == [Event("hello", newest, {"last_event_id": newest})]
