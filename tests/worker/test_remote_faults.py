"""Engines that are away, lag behind, end or change their weights while a batch is scored."""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from collapsewatch_worker.errors import CheckpointNotReady, EngineNotUsable, EngineUnavailable
from collapsewatch_worker.remote import engines, http_calls
from collapsewatch_worker.remote.engines import NUM_ROUNDS, remote_model
from collapsewatch_worker.remote.patience import Patience
from collapsewatch_worker.remote.replies import is_later
from collapsewatch_worker.scoring.engine import cross_log_probs
from tests.worker.engine_server import (
    CUT,
    CUT_IN_THE_MIDDLE,
    Answer,
    EngineServer,
    SglangServer,
    VllmServer,
    npy_in_base64,
    remote,
)
from tests.worker.job_server import free_port, wait_until

PROMPTS = [(1, 2, 3, 4, 5), (1, 2, 3, 30), (12,)]
REASONINGS = [(3, 4, 5), (38,), (0, 37, 17)]
SECONDS = 120.0
"""Longer than any of these tests takes: who waits that long in vain, fails them."""


def random_model(seed: int) -> PreTrainedModel:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        initializer_range=0.5,
    )
    model: PreTrainedModel = LlamaForCausalLM(config)
    model.eval()  # type: ignore[no-untyped-call]
    return model


@pytest.fixture(scope="module")
def models() -> list[PreTrainedModel]:
    """Before and after the engine changes."""
    return [random_model(5), random_model(6)]


@pytest.fixture(params=["sglang", "vllm"])
def server(request: pytest.FixtureRequest) -> EngineServer:
    engine_server: EngineServer = request.getfixturevalue(request.param)
    return engine_server


@pytest.fixture
def sglang(models: list[PreTrainedModel]) -> Iterator[SglangServer]:
    server = SglangServer(models[0])
    server.start()
    yield server
    server.stop()


@pytest.fixture
def vllm(models: list[PreTrainedModel]) -> Iterator[VllmServer]:
    server = VllmServer(models[0])
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_calls, "_FIRST_PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(http_calls, "_LONGEST_OWN_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(engines, "_LOOK_SECONDS", 0.01)


def score(server: EngineServer, **options: Any) -> np.ndarray:
    return remote(server, **options).cross_log_probs(PROMPTS, REASONINGS, temperature=1.0)


def on_request(
    monkeypatch: pytest.MonkeyPatch, server: EngineServer, hook: Callable[[int], Answer | None]
) -> None:
    """Calls the hook before each scored pair with its number from 1; its answer goes before the truth."""
    handle, lock, numbers = server.handle, threading.Lock(), iter(range(1, 1000))

    def hooked(path: str, body: dict[str, Any], key: str | None) -> Answer:
        if "token_ids_logprob" in body:
            return handle(path, body, key)
        with lock:
            answer = hook(next(numbers))
        return answer or handle(path, body, key)

    monkeypatch.setattr(server, "handle", hooked)


def on_look(monkeypatch: pytest.MonkeyPatch, server: EngineServer, hook: Callable[[int], None]) -> list[str]:
    """Calls the hook before each question of what is served, with its number from 1; the paths so far."""
    get = server.get
    paths: list[str] = []

    def hooked(path: str) -> Answer:
        paths.append(path)
        hook(len(paths))
        return get(path)

    monkeypatch.setattr(server, "get", hooked)
    return paths


def test_an_engine_with_older_weights_is_waited_for(
    sglang: SglangServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(look: int) -> None:
        sglang.weight_version = "39" if look < 5 else "40"

    looks = on_look(monkeypatch, sglang, load)
    assert (score(sglang, checkpoint="runs/7/40", patience=Patience(SECONDS)) < 0).all()
    assert len(looks) == 6  # five until it was there, one after the scores
    assert all(body["input_ids"] for _, body in sglang.requests)


def test_patience_ends_and_is_not_spent_again_before_it_was_rewarded(sglang: SglangServer) -> None:
    patience = Patience(0.3)
    started = time.monotonic()
    with pytest.raises(
        CheckpointNotReady, match=r"version default', not the checkpoint 'other', after \d+ s"
    ):
        score(sglang, checkpoint="other", patience=patience)
    assert time.monotonic() - started >= 0.3
    patience.seconds = SECONDS
    with pytest.raises(CheckpointNotReady):
        score(sglang, checkpoint="another", patience=patience)
    assert time.monotonic() - started < SECONDS / 2
    score(sglang, checkpoint="policy", patience=patience)
    assert patience.may_come(SECONDS / 2, has_moved_on=False)


def test_weights_that_the_engine_has_left_behind_are_not_waited_for(server: EngineServer) -> None:
    started = time.monotonic()
    with pytest.raises(CheckpointNotReady, match="not the checkpoint '7/step-39'"):
        score(server, checkpoint="7/step-39", patience=Patience(SECONDS))
    assert time.monotonic() - started < SECONDS / 2


@pytest.mark.parametrize(
    ("served", "checkpoint", "expected"),
    [
        ("/models/runs/7/step-41", "7/step-40", True),
        ("41", "runs/7/40", True),
        ("runs/7/global_step_100/actor", "global_step_20/actor", True),
        ("v2-100", "v2-20", True),
        ("step-39", "step-40", False),
        ("step-40", "step-40", False),
        ("8/step-41", "7/step-40", False),
        ("step-41-b", "step-40", False),
        ("41", "step-40", False),
        ("policy", "step-40", False),
        ("policy", "policy", False),
        (None, "step-40", False),
        ("", "40", False),
    ],
)
def test_a_later_version_has_a_larger_last_number(
    served: str | None, checkpoint: str, expected: bool
) -> None:
    assert is_later(served, checkpoint) is expected


@pytest.mark.parametrize("cut", [CUT, CUT_IN_THE_MIDDLE, (502, "Bad Gateway")])
@pytest.mark.parametrize("at", [1, 4, 9])
def test_an_engine_that_restarts_with_other_weights_gives_no_mixed_matrix(
    server: EngineServer,
    models: list[PreTrainedModel],
    monkeypatch: pytest.MonkeyPatch,
    cut: Answer,
    at: int,
) -> None:
    def restart(number: int) -> Answer | None:
        if number != at:
            return None
        server.model = models[1]
        return cut

    on_request(monkeypatch, server, restart)
    scores_RP = score(server, patience=Patience(SECONDS), num_at_once=2)
    np.testing.assert_allclose(scores_RP, cross_log_probs(models[1], PROMPTS, REASONINGS), atol=1e-4, rtol=0)
    assert np.abs(scores_RP - cross_log_probs(models[0], PROMPTS, REASONINGS)).max() > 0.1


def test_an_engine_that_was_really_started_anew_gives_no_mixed_matrix(
    models: list[PreTrainedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = VllmServer(models[0])
    first.start()
    port = int(first.url.rpartition(":")[2])
    has_ended = threading.Event()

    def hold(number: int) -> None:
        if number > 4:
            has_ended.wait(SECONDS)

    on_request(monkeypatch, first, hold)
    found: list[np.ndarray] = []
    model = remote(first, patience=Patience(SECONDS), num_at_once=1)
    thread = threading.Thread(
        target=lambda: found.append(model.cross_log_probs(PROMPTS, REASONINGS, temperature=1.0))
    )
    thread.start()
    wait_until(lambda: len(first.requests) >= 3, "some pairs are scored")
    first.end()
    has_ended.set()
    second = VllmServer(models[1], port)
    second.start()
    thread.join()
    second.stop()
    assert len(first.requests) < 9
    expected_RP = cross_log_probs(models[1], PROMPTS, REASONINGS)
    np.testing.assert_allclose(found[0], expected_RP, atol=1e-4, rtol=0)


def test_connections_that_are_lost_again_and_again_end_the_evaluation(server: EngineServer) -> None:
    server.script = [CUT] * 100
    with pytest.raises(EngineUnavailable, match=rf"connection .* lost .* the last of {NUM_ROUNDS} times"):
        score(server, patience=Patience(SECONDS), num_at_once=1)
    assert len(server.requests) == NUM_ROUNDS


def test_weights_that_change_once_are_all_asked_for_again(
    sglang: SglangServer, models: list[PreTrainedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    def push(number: int) -> None:
        if number == 4:
            sglang.model, sglang.weight_version = models[1], "13"

    on_request(monkeypatch, sglang, push)
    scores_RP = score(sglang, num_at_once=1)
    np.testing.assert_allclose(scores_RP, cross_log_probs(models[1], PROMPTS, REASONINGS), atol=1e-4, rtol=0)


def test_another_list_of_models_after_the_scores_is_noticed(
    vllm: VllmServer, models: list[PreTrainedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    def push(number: int) -> None:
        if number == 4:
            vllm.model, vllm.root = models[1], "/models/runs/7/step-41"

    on_request(monkeypatch, vllm, push)
    scores_RP = score(vllm, num_at_once=1)
    np.testing.assert_allclose(scores_RP, cross_log_probs(models[1], PROMPTS, REASONINGS), atol=1e-4, rtol=0)


def test_weights_that_leave_the_checkpoint_meanwhile_are_not_scored(
    vllm: VllmServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def push(number: int) -> None:
        if number == 4:
            vllm.root = "/models/runs/7/step-41"

    on_request(monkeypatch, vllm, push)
    with pytest.raises(CheckpointNotReady, match="not the checkpoint 'step-40'"):
        score(vllm, checkpoint="step-40", num_at_once=1, patience=Patience(SECONDS))


def test_an_engine_that_comes_up_in_time_is_waited_for(models: list[PreTrainedModel]) -> None:
    port = free_port()
    servers: list[SglangServer] = []

    def begin() -> None:
        servers.append(SglangServer(models[0], port))
        servers[0].start()

    timer = threading.Timer(0.3, begin)
    timer.start()
    model = remote_model(
        "sglang", f"http://127.0.0.1:{port}", api_key=None, tokenizer=None, patience=Patience(SECONDS)
    )
    try:
        assert (model.cross_log_probs(PROMPTS, REASONINGS, temperature=1.0) < 0).all()
    finally:
        timer.join()
        servers[0].stop()


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_engine_is_asked_for_as_long_as_patience_lasts(server: EngineServer, status: int) -> None:
    if isinstance(server, VllmServer):
        server.script = [None]  # the first pair finds out which route there is
    server.script += [(status, "busy")] * 30
    assert (score(server, patience=Patience(SECONDS), num_at_once=1) < 0).all()
    assert not server.script


def test_an_aborted_request_is_asked_again(sglang: SglangServer) -> None:
    aborted = {"finish_reason": {"type": "abort", "message": "Abort all"}}
    expected_RP = score(sglang)
    sglang.script = [None, *[(200, {"text": "", "meta_info": aborted})] * 3]
    np.testing.assert_array_equal(score(sglang), expected_RP)
    assert not sglang.script


def test_a_vllm_route_that_fails_by_a_status_500_is_given_up_without_patience(vllm: VllmServer) -> None:
    expected_RP = score(vllm)
    vllm.requests.clear()
    vllm.script = [(500, "NotImplementedError")] * 5
    started = time.monotonic()
    np.testing.assert_allclose(score(vllm, patience=Patience(SECONDS)), expected_RP, atol=1e-4, rtol=0)
    assert time.monotonic() - started < SECONDS / 2
    assert vllm.paths() == [*["/inference/v1/generate"] * 5, *["/v1/completions"] * 9]


def test_a_vllm_route_that_has_answered_is_not_given_up(vllm: VllmServer) -> None:
    vllm.script = [None, *[(200, "no JSON")]]
    with pytest.raises(EngineNotUsable, match="not JSON"):
        score(vllm, num_at_once=1)
    assert "/v1/completions" not in vllm.paths()


def test_an_answer_that_cannot_be_decompressed_is_unavailable(server: EngineServer) -> None:
    server.headers = {"Content-Encoding": "gzip"}
    with pytest.raises(EngineUnavailable, match="DecodingError"):
        score(server)


@pytest.mark.parametrize("value", [-float("inf"), -9999.0])
def test_an_impossible_token_has_probability_zero(server: EngineServer, value: float) -> None:
    def spoil(reply: Any) -> Any:
        if "meta_info" in reply:
            entries = reply["meta_info"]["input_token_logprobs"]
            entries[-1][0] = -float("inf")  # SGLang knows no -9999
        else:
            reply["prompt_token_id_logprobs"] = npy_in_base64(np.array([[-1.0], [value]], np.float32))
        return reply

    server.spoil = spoil
    scores_RP = remote(server).cross_log_probs([(1, 2)], [(3, 4)], temperature=1.0)
    assert scores_RP[0, 0] == -np.inf


def test_an_impossible_token_of_a_completion_has_probability_zero(vllm: VllmServer) -> None:
    def spoil(reply: Any) -> Any:
        reply["choices"][0]["prompt_logprobs"][-1] = {"4": {"logprob": -9999.0}}
        return reply

    vllm.has_token_route = False
    vllm.spoil = spoil
    assert remote(vllm).cross_log_probs([(1, 2)], [(3, 4)], temperature=1.0)[0, 0] == -np.inf
