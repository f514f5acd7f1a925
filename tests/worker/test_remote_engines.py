"""Scoring by an SGLang or vLLM server: its numbers, its refusals, and what is asked of it."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from transformers import PreTrainedModel

from collapsewatch_worker.errors import (
    BatchNotScorable,
    CheckpointNotReady,
    EngineNotUsable,
    EngineUnavailable,
    JobError,
)
from collapsewatch_worker.remote import http_calls
from collapsewatch_worker.remote.engines import EngineKind, remote_model
from collapsewatch_worker.remote.patience import Patience
from collapsewatch_worker.scoring.engine import cross_log_probs
from collapsewatch_worker.scoring.own_tokens import OwnTokens
from tests.worker.engine_server import (
    EngineServer,
    SglangServer,
    VllmServer,
    npy_in_base64,
    remote,
    tiny_llama,
)
from tests.worker.job_server import free_port

PROMPTS = [(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), (1, 2, 3, 4, 5, 6, 30, 31), (12,), (1, 2, 3, 4, 5, 6, 30, 31)]
REASONINGS = [(3, 4, 5, 39), (39,), (), (0, 38, 17, 6, 6, 2, 8), (39,)]
"""39 is the last id of the vocabulary; SGLang sends it back as 0."""


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return tiny_llama()


@pytest.fixture
def sglang(model: PreTrainedModel) -> Iterator[SglangServer]:
    with SglangServer(model) as server:
        yield server


@pytest.fixture
def vllm(model: PreTrainedModel) -> Iterator[VllmServer]:
    with VllmServer(model) as server:
        yield server


@pytest.fixture(params=["sglang", "vllm"])
def server(request: pytest.FixtureRequest) -> EngineServer:
    engine_server: EngineServer = request.getfixturevalue(request.param)
    return engine_server


@pytest.fixture(autouse=True)
def _quick_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_calls, "_FIRST_PAUSE_SECONDS", 0.001)


def score(server: EngineServer, **options: Any) -> np.ndarray:
    return remote(server, **options).cross_log_probs([PROMPTS[0]], [REASONINGS[0]], temperature=1.0)


def test_scores_equal_those_of_the_model_itself(server: EngineServer, model: PreTrainedModel) -> None:
    expected_RP = cross_log_probs(model, PROMPTS, REASONINGS)
    scores_RP = remote(server).cross_log_probs(PROMPTS, REASONINGS, temperature=1.0)
    np.testing.assert_allclose(scores_RP, expected_RP, atol=1e-4, rtol=0)
    assert np.ptp(expected_RP[0, :3]) > 0.1  # or a mixed-up order would pass


def test_each_token_is_told_under_its_rows_own_prompt(server: EngineServer, model: PreTrainedModel) -> None:
    own_R = np.arange(len(REASONINGS)) % len(PROMPTS)
    here, there = OwnTokens(own_R), OwnTokens(own_R)
    cross_log_probs(model, PROMPTS, REASONINGS, note=here.note)
    remote(server).cross_log_probs(PROMPTS, REASONINGS, temperature=1.0, note=there.note)
    assert there.log_probs.keys() == here.log_probs.keys()
    for row, log_probs_T in there.log_probs.items():
        np.testing.assert_allclose(log_probs_T, here.log_probs[row], atol=1e-4, rtol=0)


def test_a_prompt_and_a_reasoning_that_come_twice_are_asked_for_once(sglang: SglangServer) -> None:
    remote(sglang).cross_log_probs(PROMPTS, REASONINGS, temperature=1.0)
    asked = [tuple(body["input_ids"]) for _, body in sglang.requests]
    assert len(asked) == len(set(asked)) == 3 * 3


def test_vllm_without_the_token_route_is_asked_by_completions(
    vllm: VllmServer, model: PreTrainedModel
) -> None:
    vllm.has_token_route = False
    scores_RP = remote(vllm).cross_log_probs(PROMPTS, REASONINGS, temperature=1.0)
    np.testing.assert_allclose(scores_RP, cross_log_probs(model, PROMPTS, REASONINGS), atol=1e-4, rtol=0)
    assert vllm.paths() == ["/inference/v1/generate", *["/v1/completions"] * 9]


def test_vllm_takes_prompts_from_its_cache(vllm: VllmServer) -> None:
    prompt = tuple(range(17))
    reasonings = [(20 + number, 1) for number in range(8)]
    remote(vllm).cross_log_probs([prompt], reasonings, temperature=1.0)
    assert vllm.num_tokens_computed == 19 + 7 * (19 - 16)
    remote(vllm).cross_log_probs([prompt], reasonings[:1], temperature=1.0)
    assert vllm.num_tokens_computed == 19 + 7 * 3 + 19  # blocks of an earlier evaluation may be stale


def test_a_pair_whose_reasoning_is_cached_by_vllm_is_computed_whole(
    vllm: VllmServer, model: PreTrainedModel
) -> None:
    prompts, reasonings = [(1, 2, 3)], [(4, 5, 6), (4, 5, 7), (8, 9)]
    scores_RP = remote(vllm).cross_log_probs(prompts, reasonings, temperature=1.0)
    np.testing.assert_allclose(scores_RP, cross_log_probs(model, prompts, reasonings), atol=1e-4, rtol=0)
    assert sorted(vllm.paths()) == ["/inference/v1/generate"] * 3 + ["/v1/completions"]


def test_a_prompts_first_pair_goes_before_its_others(server: EngineServer) -> None:
    server.delay_seconds = 0.01
    prompts, reasonings = [(number, 1) for number in range(4)], [(number, 2) for number in range(9)]
    remote(server).cross_log_probs(prompts, reasonings, temperature=1.0)
    first_tokens = [(body.get("input_ids") or body["token_ids"])[0] for _, body in server.requests]
    for prompt in range(1, 4):
        others = [place for place, token in enumerate(first_tokens) if token == prompt][1:]
        before = [place for place, token in enumerate(first_tokens) if token == prompt - 1]
        assert min(others) > max(before)


def test_only_so_many_requests_are_under_way_at_once(server: EngineServer) -> None:
    server.delay_seconds = 0.1
    reasonings = [(number, 2) for number in range(12)]
    remote(server, num_at_once=3).cross_log_probs([(1,)], reasonings, temperature=1.0)
    assert server.most_at_once == 3


def test_nothing_is_asked_for_empty_reasonings(server: EngineServer) -> None:
    scores_RP = remote(server).cross_log_probs(PROMPTS, [(), ()], temperature=1.0)
    assert scores_RP.shape == (2, 4) and not scores_RP.any() and not server.requests


def test_another_temperature_is_refused(server: EngineServer) -> None:
    with pytest.raises(BatchNotScorable, match=r"sampled at 0\.7"):
        remote(server).cross_log_probs(PROMPTS, REASONINGS, temperature=0.7)
    assert not server.requests


@pytest.mark.parametrize(
    ("prompts", "reasonings", "message"),
    [([()], [(1,)], "no tokens"), ([(1, -5)], [(1,)], "-5"), ([(1,)], [(1, -2)], "-2")],
)
def test_bad_tokens_are_refused(
    server: EngineServer, prompts: list[Any], reasonings: list[Any], message: str
) -> None:
    with pytest.raises(BatchNotScorable, match=message):
        remote(server).cross_log_probs(prompts, reasonings, temperature=1.0)


@pytest.mark.parametrize(("prompt", "reasoning"), [((3, 40), (5,)), ((3, 4), (5, 40))])
def test_a_token_outside_the_vocabulary_is_refused_before_it_reaches_the_model(
    server: EngineServer, prompt: tuple[int, ...], reasoning: tuple[int, ...]
) -> None:
    with pytest.raises(BatchNotScorable, match=r"(?i)token id 40"):
        remote(server).cross_log_probs([(1,), prompt], [(2,), reasoning], temperature=1.0)
    # A real SGLang server would have ended at such an id; vLLM refuses it by itself.
    assert not isinstance(server, SglangServer) or not server.requests


def test_a_pair_longer_than_vllm_takes_is_refused_unasked(vllm: VllmServer) -> None:
    fitting = [tuple([1] * 60)]
    assert remote(vllm).cross_log_probs(fitting, [(1, 2, 3)], temperature=1.0) < 0
    with pytest.raises(BatchNotScorable, match="exceeds the 63 tokens"):
        remote(vllm).cross_log_probs(fitting, [(1, 2, 3, 4)], temperature=1.0)
    assert len(vllm.requests) == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_passing_failure_is_tried_again(server: EngineServer, status: int) -> None:
    server.headers = {"Retry-After": "0"}
    expected = score(server)
    server.script = [(status, "busy"), (status, {"error": {"message": "queue is full"}})]
    assert score(server) == expected
    assert not server.script


def test_a_lasting_failure_may_be_tried_again_later(server: EngineServer) -> None:
    server.script = [(503, {"message": "out of service"})] * 20
    with pytest.raises(EngineUnavailable, match=r"status 503 out of service") as caught:
        score(server)
    assert caught.value.retry


def test_an_engine_that_is_not_there_is_unavailable() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    model = remote_model("sglang", url, api_key=None, tokenizer=None, patience=Patience(0.0))
    with pytest.raises(EngineUnavailable, match="ConnectError"):
        model.cross_log_probs(PROMPTS, REASONINGS, temperature=1.0)


def test_an_answer_that_takes_too_long_is_unavailable(server: EngineServer) -> None:
    server.delay_seconds = 5.0
    with pytest.raises(EngineUnavailable, match="ReadTimeout"):
        score(server, answer_seconds=0.05)


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ((400, {"error": {"message": "input too long"}}), BatchNotScorable, "input too long"),
        ((422, {"detail": "no such field"}), BatchNotScorable, "no such field"),
        ((401, {"error": "Unauthorized"}), EngineNotUsable, "refuses the key"),
        ((404, {"message": "no model policy"}), EngineNotUsable, "no model policy"),
        ((307, "elsewhere"), EngineNotUsable, "status 307"),
        ((200, "<html>a proxy</html>"), EngineNotUsable, "not JSON"),
        ((200, [1, 2]), EngineNotUsable, "not an object"),
        ((200, {}), EngineNotUsable, "no `"),
    ],
)
def test_a_refusal_or_a_strange_answer_is_for_good(
    server: EngineServer, answer: tuple[int, Any], error: type[JobError], message: str
) -> None:
    server.script = [answer] * 2
    with pytest.raises(error, match=message) as caught:
        score(server)
    assert not caught.value.retry


def test_the_first_error_ends_the_evaluation(sglang: SglangServer) -> None:
    sglang.delay_seconds = 0.01
    reasonings = [(number, 2) for number in range(30)]
    sglang.spoil = lambda reply: {} if len(sglang.requests) > 2 else reply
    with pytest.raises(EngineNotUsable):
        remote(sglang, num_at_once=2).cross_log_probs([(1,), (2,)], reasonings, temperature=1.0)
    assert len(sglang.requests) < 30


def _entries(change: Callable[[list[Any]], Any]) -> Callable[[Any], Any]:
    """Changes the list of log-probs of an SGLang or a completions reply."""

    def spoil(reply: Any) -> Any:
        holder, name = (
            (reply["meta_info"], "input_token_logprobs")
            if "meta_info" in reply
            else (reply["choices"][0], "prompt_logprobs")
        )
        holder[name] = change(holder[name])
        return reply

    return spoil


def _sglang_value(value: object) -> Callable[[Any], Any]:
    return _entries(lambda entries: [*entries[:-1], [value, entries[-1][1], None]])


def _vllm_value(value: object) -> Callable[[Any], Any]:
    return _entries(lambda entries: [*entries[:-1], {"39": {"logprob": value}}])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_sglang_value(None), "no log-probability for reasoning token 3: None"),
        (_sglang_value("-1"), "no log-probability"),
        (_sglang_value(True), "no log-probability"),
        (_sglang_value(float("nan")), "no log-probability"),
        (_sglang_value(2.5), "return logits"),
        (_entries(lambda entries: entries[1:]), "4 log-probabilities where 5"),
        (_entries(lambda entries: [[None, 10, None], *entries[2:], entries[1]]), "not about token 3"),
        (_entries(lambda entries: [7.0] * 5), "not about token 10"),
        (_entries(lambda entries: None), "no `input_token_logprobs`"),
    ],
)
def test_sglang_replies_without_the_asked_numbers_are_refused(
    sglang: SglangServer, spoil: Callable[[Any], Any], message: str
) -> None:
    sglang.spoil = spoil
    with pytest.raises(EngineNotUsable, match=message):
        score(sglang)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_vllm_value(None), "no log-probability for reasoning token 3: None"),
        (_vllm_value(float("nan")), "no log-probability"),
        (_vllm_value(2.5), "return logits"),
        (_entries(lambda entries: entries[1:]), "13 log-probabilities where 14"),
        (_entries(lambda entries: [*entries[:-1], {"8": {"logprob": -1.0}}]), "not about token 39"),
        (_entries(lambda entries: [*entries[:-1], None]), "not about token 39"),
        (lambda reply: {"choices": []}, "no `choices"),
    ],
)
def test_vllm_completions_without_the_asked_numbers_are_refused(
    vllm: VllmServer, spoil: Callable[[Any], Any], message: str
) -> None:
    vllm.has_token_route = False
    vllm.spoil = spoil
    with pytest.raises(EngineNotUsable, match=message):
        score(vllm)


@pytest.mark.parametrize(
    "encoded",
    [
        "no base64!",
        base64.b64encode(b"no array").decode(),
        "",
        npy_in_base64(np.zeros((3, 1), np.float32)),
        npy_in_base64(np.full((4, 1), np.nan, np.float32)),
        npy_in_base64(np.full((4, 1), 3.0, np.float32)),
        npy_in_base64(np.array([[object()]] * 4)),
        7,
    ],
)
def test_a_spoiled_matrix_of_vllm_is_not_used(vllm: VllmServer, encoded: object) -> None:
    expected = score(vllm)
    vllm.requests.clear()
    vllm.spoil = lambda reply: {**reply, "prompt_token_id_logprobs": encoded} if "choices" in reply else reply
    assert abs(score(vllm) - expected) < 1e-4
    assert vllm.paths() == ["/inference/v1/generate", "/v1/completions"]


def test_an_aborted_request_may_be_tried_again_later(sglang: SglangServer) -> None:
    aborted = {"finish_reason": {"type": "abort", "message": "Abort in waiting queue"}}
    sglang.spoil = lambda reply: {"text": "", "meta_info": aborted}
    with pytest.raises(EngineUnavailable, match="Abort in waiting queue"):
        score(sglang)


@pytest.mark.parametrize(
    "checkpoint", ["/models/runs/7/step-40", "7/step-40", "step-40", "policy", "v-12", "runs/7/v-12"]
)
def test_sglang_scores_the_checkpoint_that_it_has_loaded(sglang: SglangServer, checkpoint: str) -> None:
    sglang.weight_version = "v-12"
    assert score(sglang, checkpoint=checkpoint) < 0


def test_an_older_sglang_says_what_it_serves(sglang: SglangServer) -> None:
    sglang.info_path = "/get_model_info"
    assert score(sglang, checkpoint="step-40") < 0


@pytest.mark.parametrize(
    ("checkpoint", "name"), [("step-40", "policy"), ("adapter-3", "adapter-3"), ("adapters/3", "adapter-3")]
)
def test_vllm_is_asked_for_the_model_of_the_checkpoint(vllm: VllmServer, checkpoint: str, name: str) -> None:
    score(vllm, checkpoint=checkpoint)
    assert [body["model"] for _, body in vllm.requests] == [name]


def test_a_checkpoint_that_is_not_loaded_is_not_ready(server: EngineServer) -> None:
    for checkpoint in ("step-41", "0", "policy/step-40x", "models/step-40"):
        with pytest.raises(CheckpointNotReady, match=r"'policy'.*, not the checkpoint"):
            score(server, checkpoint=checkpoint)
    assert not server.requests


def test_weights_that_change_meanwhile_are_noticed(sglang: SglangServer) -> None:
    def spoil(reply: Any) -> Any:
        reply["meta_info"]["weight_version"] = "13" if len(sglang.requests) > 1 else "default"
        return reply

    sglang.spoil = spoil
    with pytest.raises(CheckpointNotReady, match="from version default to 13"):
        remote(sglang).cross_log_probs(PROMPTS, REASONINGS, temperature=1.0)


def test_the_key_is_sent_and_never_shown(server: EngineServer) -> None:
    model = remote(server, api_key="secret-7")
    model.cross_log_probs(PROMPTS[:1], REASONINGS[:1], temperature=1.0)
    assert server.keys == {"Bearer secret-7"}
    assert "secret-7" not in repr(model)


@pytest.mark.parametrize("suffix", ["/", "/v1", "/v1/"])
def test_the_address_of_other_clients_is_understood(server: EngineServer, suffix: str) -> None:
    kind: EngineKind = "sglang" if isinstance(server, SglangServer) else "vllm"
    model = remote_model(kind, server.url + suffix, api_key=None, tokenizer=None)
    assert model.cross_log_probs([(1,)], [(2,)], temperature=1.0) < 0


@pytest.mark.parametrize(
    ("kind", "url", "options"),
    [
        ("vllm", "ftp://host", {}),
        ("vllm", "host:8000", {}),
        ("vllm", "http://", {}),
        ("vllm", "http://user:secret@host", {}),
        ("vllm", "http://host?key=secret", {}),
        ("vllm", "http://host:port", {}),
        ("tgi", "http://host", {}),
        ("vllm", "http://host", {"num_at_once": 0}),
    ],
)
def test_bad_settings_are_refused_and_secrets_not_repeated(kind: Any, url: str, options: Any) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        remote_model(kind, url, api_key=None, tokenizer=None, **options)
    assert "secret" not in str(caught.value)
