"""The client of the worker API: what it sends, what it retries, what it tells."""

import json
from collections.abc import Iterator

import httpx
import pytest
import zstandard

from collapsewatch.contracts.scoring import (
    JobFailure,
    MetricValue,
    ScopeEvaluation,
    ScorerKind,
    ScorerLabel,
    ScoringResult,
)
from collapsewatch_worker.loop.server_api import RequestRefused, ServerUnreachable, WorkerApi

JOB = {
    "job_id": 7,
    "run_id": "run-1",
    "batch_id": "batch-1",
    "step": 3,
    "blob_keys": ["batches/run-1/batch-1.zst"],
    "scorer": {"kind": "lexical"},
    "start": 1,
    "lease_seconds": 5.0,
}


class Network:
    """Answers from a script, and keeps what was asked."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.pauses: list[float] = []
        self._script: Iterator[httpx.Response | Exception] = iter(())

    def api(self, *script: httpx.Response | Exception, key: str | None = "worker-key") -> WorkerApi:
        self._script = iter(script)
        return WorkerApi(
            "http://server",
            key,
            "worker-1",
            transport=httpx.MockTransport(self._answer),
            sleep=self.pauses.append,
        )

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = next(self._script)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def network() -> Network:
    return Network()


def result(num_evaluations: int = 0) -> ScoringResult:
    evaluation = ScopeEvaluation(
        scope="first_turn",
        num_prompts=8,
        num_rows=64,
        metrics={"retrieval_accuracy": MetricValue(value=0.5)},
        prompts=[],
    )
    return ScoringResult(
        worker="worker-1",
        scorer=ScorerLabel(kind=ScorerKind.lexical, label="lexical group_centroid"),
        seconds=0.1,
        evaluations=[evaluation] * num_evaluations,
    )


def test_a_claim_brings_the_job_and_names_the_worker(network: Network) -> None:
    with network.api(httpx.Response(200, json=JOB)) as api:
        job = api.claim(wait_seconds=2, job_id=7)
    assert job is not None
    assert job.job_id == 7
    request = network.requests[0]
    assert request.url == "http://server/api/v1/worker/claim"
    assert request.headers["Authorization"] == "Bearer worker-key"
    assert json.loads(request.content) == {
        "worker": "worker-1",
        "wait_seconds": 2,
        "job_id": 7,
        "repeats": False,
    }
    # The answer may take as long as the server was asked to wait.
    assert request.extensions["timeout"]["read"] > 2 + 10


def test_no_job_is_none(network: Network) -> None:
    with network.api(httpx.Response(204)) as api:
        assert api.claim() is None


def test_lost_connections_and_server_errors_are_tried_again_with_growing_pauses(network: Network) -> None:
    with network.api(
        httpx.ConnectError("refused"), httpx.Response(503), httpx.Response(200, json=JOB)
    ) as api:
        assert api.claim() is not None
    assert len(network.requests) == 3
    first, second = network.pauses
    assert 0 < first < 2 * second
    assert sum(network.pauses) < 2


def test_a_claim_whose_answer_was_lost_says_so_when_it_is_repeated(network: Network) -> None:
    lost = httpx.ReadError("reset")
    with network.api(lost, lost, lost, httpx.Response(200, json=JOB), httpx.Response(204)) as api:
        with pytest.raises(ServerUnreachable):
            api.claim()
        assert api.claim() is not None
        assert api.claim() is None
    repeats = [json.loads(request.content)["repeats"] for request in network.requests]
    assert repeats == [False, True, True, True, False]


def test_a_server_that_stays_away_is_told_after_three_tries(network: Network) -> None:
    with (
        network.api(*[httpx.ConnectError("refused")] * 3) as api,
        pytest.raises(ServerUnreachable, match="refused"),
    ):
        api.fail(7, JobFailure(worker="worker-1", error="broken"))
    assert len(network.requests) == 3


def test_a_refusal_is_never_tried_again_and_says_what_was_wrong(network: Network) -> None:
    body = {"error": {"code": "job_not_found", "message": "no job 7", "details": [{"loc": "job_id"}]}}
    with network.api(httpx.Response(404, json=body)) as api, pytest.raises(RequestRefused) as refused:
        api.done(7, result())
    assert len(network.requests) == 1
    assert refused.value.status_code == 404
    assert refused.value.code == "job_not_found"
    assert "no job 7" in str(refused.value)
    assert not refused.value.is_about_the_key


@pytest.mark.parametrize("status", [302, 404, 408, 421, 425, 429])
def test_what_is_not_said_of_the_result_costs_no_work(network: Network, status: int) -> None:
    told = {"error": {"code": "too_busy", "message": "come again", "details": []}}
    answers = [httpx.Response(status, text="<html>"), httpx.Response(status, json=told)]
    with network.api(*answers, httpx.Response(200, json={"accepted": True})) as api:
        assert api.done(7, result())
    with network.api(*answers, answers[0]) as api, pytest.raises(ServerUnreachable, match=str(status)):
        api.done(7, result())


def test_a_refused_key_is_recognised_whatever_the_body(network: Network) -> None:
    with (
        network.api(httpx.Response(401, text="<html>"), key=None) as api,
        pytest.raises(RequestRefused) as refused,
    ):
        api.claim()
    assert refused.value.is_about_the_key
    assert "Authorization" not in network.requests[0].headers


def test_a_heartbeat_is_tried_once(network: Network) -> None:
    with network.api(httpx.Response(200, json={"held": False}), httpx.ReadTimeout("late")) as api:
        assert api.beat(7) is False
        with pytest.raises(ServerUnreachable):
            api.beat(7)
    assert len(network.requests) == 2
    assert network.pauses == []


@pytest.mark.parametrize("accepted", [True, False])
def test_handing_in_says_whether_the_result_was_the_first(network: Network, accepted: bool) -> None:
    with network.api(httpx.Response(200, json={"accepted": accepted})) as api:
        assert api.done(7, result(1)) is accepted
    request = network.requests[0]
    assert request.url.path == "/api/v1/worker/jobs/7/done"
    assert ScoringResult.model_validate_json(request.content) == result(1)


def test_a_large_result_travels_compressed(network: Network) -> None:
    large = result(2000)
    with network.api(httpx.Response(200, json={"accepted": True})) as api:
        api.done(7, large)
    request = network.requests[0]
    assert request.headers["Content-Encoding"] == "zstd"
    plain = zstandard.ZstdDecompressor().decompress(request.content)
    assert len(request.content) < len(plain) / 10
    assert ScoringResult.model_validate_json(plain) == large


@pytest.mark.parametrize("answer", [httpx.Response(200, text="hello"), httpx.Response(200, json={"id": 1})])
def test_an_answer_that_is_no_job_counts_as_no_server(network: Network, answer: httpx.Response) -> None:
    with network.api(answer) as api, pytest.raises(ServerUnreachable, match="not a Job"):
        api.claim()


def test_failing_tells_what_becomes_of_the_job(network: Network) -> None:
    with network.api(httpx.Response(200, json={"status": "dead"})) as api:
        assert api.fail(7, JobFailure(worker="worker-1", error="broken", retry=False)) == "dead"
    sent = JobFailure.model_validate_json(network.requests[0].content)
    assert sent == JobFailure(worker="worker-1", error="broken", retry=False)


def test_an_answer_that_cannot_be_unpacked_is_no_answer(network: Network) -> None:
    headers = {"Content-Encoding": "gzip"}
    garbled = [
        httpx.Response(502, headers=headers, stream=httpx.ByteStream(b"not packed at all")) for _ in range(3)
    ]
    with pytest.raises(ServerUnreachable, match="DecodingError"):
        network.api(*garbled).claim()
    assert len(network.requests) == 3
