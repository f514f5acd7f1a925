"""Cross log-probs against one forward pass per pair, on tiny random models of many architectures."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from collapsewatch_worker.errors import BatchNotScorable
from collapsewatch_worker.models.store import ModelStore
from collapsewatch_worker.scoring import engine
from collapsewatch_worker.scoring.causal_model import CausalModel
from collapsewatch_worker.scoring.engine import cross_log_probs, cross_token_log_probs
from tests.worker.tiny_models import (
    HEADS,
    LONG,
    PROMPTS,
    REASONINGS,
    REUSING,
    WHOLE,
    draw,
    one_pair_per_forward,
    tiny_model,
)

GOLDEN = Path(__file__).parents[1] / "data" / "golden" / "model_cases"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are ten times slower when threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def llama() -> PreTrainedModel:
    return tiny_model("llama", **HEADS)


@pytest.mark.parametrize(("model_type", "options"), [*REUSING.items(), *WHOLE.items()])
def test_scores_equal_one_forward_pass_per_pair(model_type: str, options: dict[str, Any]) -> None:
    model = tiny_model(model_type, **options)

    # The budget makes several micro-batches per prompt, all from one cached prompt.
    got = cross_token_log_probs(model, PROMPTS, REASONINGS, token_budget=60)

    want = one_pair_per_forward(model, PROMPTS, REASONINGS)
    np.testing.assert_allclose(got, want, atol=1e-5, rtol=0)
    assert float(np.nanstd(want)) > 0.05


@pytest.mark.parametrize(
    ("model_type", "options", "reused"),
    [(*case, True) for case in REUSING.items()] + [(*case, False) for case in WHOLE.items()],
)
def test_prompts_are_reused_where_the_architecture_allows(
    model_type: str, options: dict[str, Any], reused: bool
) -> None:
    state = CausalModel(tiny_model(model_type, **options)).encode(LONG, longest_pair=30, piece=100)

    assert (state.cache is not None) is reused


@pytest.mark.parametrize("model_type", ["llama", "mistral", "gemma2", "opt", "bloom"])
def test_reading_in_pieces_changes_nothing(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(model_type, **REUSING[model_type])
    want = cross_token_log_probs(model, PROMPTS, REASONINGS)

    monkeypatch.setattr(engine, "MAX_LOGITS", 5 * 64)
    monkeypatch.setattr(engine, "MAX_FLOAT32_LOGITS", 3 * 64)
    # Reasonings longer than the budget as well.
    got = cross_token_log_probs(model, PROMPTS, REASONINGS, token_budget=6)

    np.testing.assert_allclose(got, want, atol=1e-5, rtol=0)


def golden_cases() -> Iterator[Any]:
    for case in json.loads((GOLDEN / "cases.json").read_text())["cases"]:
        yield pytest.param(case, id=case["id"])


@pytest.mark.parametrize("case", list(golden_cases()))
@pytest.mark.parametrize("token_budget", [None, engine.DEFAULT_TOKEN_BUDGET, 100])
def test_golden_sums_and_means_are_met(case: dict[str, Any], token_budget: int | None) -> None:
    model = ModelStore([GOLDEN], device="cpu").load(case["model_dir"]).model

    sums = cross_log_probs(model, case["column_prompts"], case["reasonings"], token_budget=token_budget)

    counts = np.maximum(1, [len(reasoning) for reasoning in case["reasonings"]])[:, None]
    assert np.all(np.abs(sums - np.array(case["expected"]["sum_f64"])) <= 2e-5 * counts)
    np.testing.assert_allclose(sums / counts, case["expected"]["mean_f64"], atol=2e-5, rtol=0)


@pytest.mark.parametrize("case", list(golden_cases()))
def test_golden_token_log_probs_are_met(case: dict[str, Any]) -> None:
    model = ModelStore([GOLDEN], device="cpu").load(case["model_dir"]).model

    got = cross_token_log_probs(model, case["column_prompts"], case["reasonings"])

    with np.load(GOLDEN / "token_logprobs.npz") as tokens:
        np.testing.assert_allclose(got, tokens[case["id"].replace("/", "__")], atol=2e-5, rtol=0)


def test_sums_are_the_sums_of_the_tokens(llama: PreTrainedModel) -> None:
    sums = cross_log_probs(llama, PROMPTS, REASONINGS)

    np.testing.assert_allclose(sums, np.nansum(cross_token_log_probs(llama, PROMPTS, REASONINGS), axis=2))
    assert sums.dtype == np.float64


def test_all_continuations_of_one_token_sum_to_one(llama: PreTrainedModel) -> None:
    sums = cross_log_probs(llama, [LONG, LONG[:2]], [[token] for token in range(64)])

    np.testing.assert_allclose(np.exp(sums).sum(axis=0), [1, 1], atol=1e-5)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_logits_are_divided_by_the_temperature(llama: PreTrainedModel, temperature: float) -> None:
    got = cross_token_log_probs(llama, PROMPTS, REASONINGS, temperature=temperature)

    want = one_pair_per_forward(llama, PROMPTS, REASONINGS, temperature)
    np.testing.assert_allclose(got, want, atol=1e-5, rtol=0)


def tokens_read(model: PreTrainedModel, prompts: list[list[int]], reasonings: list[list[int]]) -> int:
    """Tokens, padding included, that the model reads to score these."""
    read: list[int] = []
    hook = model.get_input_embeddings().register_forward_pre_hook(
        lambda _module, inputs: read.append(inputs[0].numel())
    )
    cross_log_probs(model, prompts, reasonings)
    hook.remove()
    return sum(read)


def test_each_distinct_prompt_is_read_once(llama: PreTrainedModel) -> None:
    prompts = [LONG, LONG, draw(5, 1)]

    assert tokens_read(llama, prompts, [draw(4, 30), draw(4, 31)]) == 14 + 5 + 2 * (2 * 3)


def test_what_prompts_have_in_common_is_read_once(llama: PreTrainedModel) -> None:
    system = draw(40, 5)
    prompts = [system + draw(3, 6), system, system + draw(4, 7), draw(40, 8)]

    assert tokens_read(llama, prompts, [draw(4, 30)]) == 40 + 3 + 4 + 40 + 4 * 3


@pytest.mark.parametrize("model_type", list(REUSING))
def test_any_common_prefix_may_be_read_once(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MIN_SAVED_TOKENS", 1)
    model = tiny_model(model_type, **REUSING[model_type])

    got = cross_token_log_probs(model, PROMPTS, REASONINGS)

    np.testing.assert_allclose(got, one_pair_per_forward(model, PROMPTS, REASONINGS), atol=1e-5, rtol=0)


def test_equal_reasonings_are_read_once(llama: PreTrainedModel) -> None:
    assert tokens_read(llama, [LONG], [draw(4, 30)] * 50) == 14 + 3


def test_an_empty_reasoning_sums_to_zero_and_has_no_tokens(llama: PreTrainedModel) -> None:
    assert cross_log_probs(llama, [LONG], [[], [5]])[0, 0] == 0
    assert np.isnan(cross_token_log_probs(llama, [LONG], [[], [5]])[0]).all()
    assert cross_log_probs(llama, [LONG], []).shape == (0, 1)


def running_out_of_memory(model: PreTrainedModel, max_tokens: int, error: Exception) -> Callable[[], None]:
    """Makes the model fail on more tokens than that, as a small device would."""

    def check(_module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        if inputs[0].numel() > max_tokens:
            raise error

    return model.get_input_embeddings().register_forward_pre_hook(check).remove


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("DefaultCPUAllocator: not enough memory")],
)
def test_out_of_memory_makes_micro_batches_smaller(llama: PreTrainedModel, error: Exception) -> None:
    want = cross_log_probs(llama, PROMPTS, REASONINGS)

    restore = running_out_of_memory(llama, 25, error)
    try:
        got = cross_log_probs(llama, PROMPTS, REASONINGS)
    finally:
        restore()

    np.testing.assert_allclose(got, want, atol=1e-4, rtol=0)


def test_memory_that_does_not_suffice_for_one_row_is_an_error(llama: PreTrainedModel) -> None:
    restore = running_out_of_memory(llama, 0, torch.OutOfMemoryError("CUDA out of memory"))
    try:
        with pytest.raises(torch.OutOfMemoryError):
            cross_log_probs(llama, PROMPTS, REASONINGS)
    finally:
        restore()


def test_other_runtime_errors_are_not_taken_for_lack_of_memory(llama: PreTrainedModel) -> None:
    restore = running_out_of_memory(llama, 0, RuntimeError("index out of range"))
    try:
        with pytest.raises(RuntimeError, match="index out of range"):
            cross_log_probs(llama, PROMPTS, REASONINGS)
    finally:
        restore()


def test_the_last_position_is_used_and_the_next_is_refused(llama: PreTrainedModel) -> None:
    assert np.isfinite(cross_log_probs(llama, [draw(60, 0)], [draw(5, 1)])).all()
    with pytest.raises(BatchNotScorable, match=r"prompt \(60 tokens\).*reasoning \(6 tokens\).*64 positions"):
        cross_log_probs(llama, [draw(60, 0)], [draw(6, 1)])


@pytest.mark.parametrize(
    ("prompts", "reasonings", "temperature", "message"),
    [
        ([[]], [[1]], 1.0, "prompt has no tokens"),
        ([[64]], [[1]], 1.0, "token id 64 is outside the model's vocabulary of 64"),
        ([[1]], [[-1]], 1.0, "token id -1"),
        ([[1]], [[1]], 0.0, "temperature must be above 0, got 0.0"),
        ([[1]], [[1]], float("nan"), "temperature"),
    ],
)
def test_what_cannot_be_scored_is_refused_in_words(
    llama: PreTrainedModel,
    prompts: list[list[int]],
    reasonings: list[list[int]],
    temperature: float,
    message: str,
) -> None:
    with pytest.raises(BatchNotScorable, match=message):
        cross_log_probs(llama, prompts, reasonings, temperature=temperature)


def test_half_precision_models_are_summed_in_full_precision() -> None:
    model = tiny_model("llama", **HEADS)
    want = cross_log_probs(model, PROMPTS, REASONINGS)

    torch.nn.Module.to(model, torch.bfloat16)
    got = cross_log_probs(model, PROMPTS, REASONINGS)

    assert got.dtype == np.float64
    np.testing.assert_allclose(got, want, rtol=0.05, atol=0.2)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
@pytest.mark.parametrize("model_type", ["llama", "gpt2"])
def test_a_model_with_adapters_is_scored_with_them(model_type: str) -> None:
    peft = pytest.importorskip("peft")
    model = tiny_model(model_type, **REUSING[model_type])
    plain = cross_token_log_probs(model, PROMPTS, REASONINGS)
    config = peft.LoraConfig(
        target_modules=["c_attn"] if model_type == "gpt2" else ["q_proj", "v_proj", "lm_head"],
        init_lora_weights=False,
        fan_in_fan_out=model_type == "gpt2",
    )
    adapted = peft.get_peft_model(model, config)
    adapted.train(False)

    got = cross_token_log_probs(adapted, PROMPTS, REASONINGS)

    np.testing.assert_allclose(got, one_pair_per_forward(adapted, PROMPTS, REASONINGS), atol=1e-5, rtol=0)
    assert np.nanmax(np.abs(got - plain)) > 0.1


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing. is deprecated:FutureWarning")
def test_virtual_tokens_before_the_prompt_are_refused() -> None:
    peft = pytest.importorskip("peft")
    config = peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=2)
    adapted = peft.get_peft_model(tiny_model("llama", **HEADS), config)

    with pytest.raises(BatchNotScorable, match="virtual tokens"):
        cross_log_probs(adapted, PROMPTS, REASONINGS)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("model_type", ["gpt2", "llama", "mistral", "gemma2"])
def test_a_gpu_gives_the_same_numbers(model_type: str) -> None:
    model = tiny_model(model_type, **REUSING[model_type])
    want = cross_log_probs(model, PROMPTS, REASONINGS)

    torch.nn.Module.to(model, "cuda")
    got = cross_log_probs(model, PROMPTS, REASONINGS, token_budget=60)

    np.testing.assert_allclose(got, want, atol=1e-3, rtol=0)
