"""A model cut into body and head, and the log-probabilities read from it."""

import weakref
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from collapsewatch_worker.scoring import engine, readout
from collapsewatch_worker.scoring.causal_model import CausalModel
from collapsewatch_worker.scoring.engine import cross_log_probs
from collapsewatch_worker.scoring.readout import comes_apart, target_log_probs
from tests.worker.tiny_models import HEADS, REUSING, draw, tiny_model


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are ten times slower when threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def slices_of_two_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readout, "CPU_SLICE", 2 * 64)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 3.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_log_softmax_in_slices_is_log_softmax(
    temperature: float, dtype: torch.dtype, slices_of_two_rows: None
) -> None:
    # Far from 0 and far apart, where a softmax without care overflows.
    logits = (torch.randn(7, 64, generator=torch.Generator().manual_seed(0)) * 100 + 900).to(dtype)
    targets, before = torch.arange(7), logits.clone()

    got = target_log_probs(logits, targets, temperature)

    want = torch.log_softmax(logits.double() / temperature, dim=-1)[targets, targets]
    torch.testing.assert_close(got.double(), want, atol=1e-4, rtol=1e-5)
    assert got.dtype == torch.float32
    assert torch.equal(logits, before)


@pytest.mark.parametrize("model_type", ["gpt2", "gemma2", "opt", "mixtral", "bloom"])
def test_the_head_alone_does_what_the_model_does_to_its_logits(model_type: str) -> None:
    model: Any = tiny_model(model_type, **REUSING[model_type])
    tokens = torch.tensor([draw(9, 1)])

    with torch.inference_mode():
        assert comes_apart(model, model.get_input_embeddings().weight[:10].unsqueeze(0))
        whole = readout.Readout(model, splits=True)
        got = whole.logits(whole.features(whole.body(input_ids=tokens))[0])
        want = model(input_ids=tokens).logits[0]

    torch.testing.assert_close(got, want, atol=1e-5, rtol=0)


def test_a_model_that_does_more_than_its_two_halves_is_kept_whole() -> None:
    model = tiny_model("llama", **HEADS)
    ordinary: Any = type(model)

    class Shifted(ordinary):  # type: ignore[misc]
        """Adds to its logits something that its head does not know of."""

        def forward(self, input_ids: Any = None, inputs_embeds: Any = None, **options: Any) -> Any:
            output = super().forward(input_ids=input_ids, inputs_embeds=inputs_embeds, **options)
            if inputs_embeds is not None:
                output.logits = output.logits + inputs_embeds.sum()
            return output

    model.__class__ = Shifted
    embeddings: Any = model.get_input_embeddings()
    with torch.inference_mode():
        assert not comes_apart(model, embeddings.weight[:10].unsqueeze(0))

    assert not CausalModel(model).splits


class _LogitsSeen(TorchDispatchMode):
    """Remembers of how many tokens any tensor made within it holds logits."""

    def __init__(self, vocabulary_size: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.vocabulary_size = vocabulary_size
        self.most_tokens = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.shape[-1:] == (self.vocabulary_size,):
                self.most_tokens = max(self.most_tokens, tensor.numel() // self.vocabulary_size)
        return result


@pytest.mark.parametrize("model_type", ["llama", "bloom", "jamba"])
def test_no_tensor_holds_the_logits_of_all_tokens(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_FLOAT32_LOGITS", 50 * 4096)
    options = {"use_mamba_kernels": False, "num_experts": 2} if model_type == "jamba" else {}
    model = tiny_model(model_type, vocab_size=4096, **options)
    prompts, reasonings = [draw(12, 0), draw(9, 1)], [draw(11, 2 + row) for row in range(20)]
    cross_log_probs(model, prompts, reasonings)

    with _LogitsSeen(4096) as seen:
        cross_log_probs(model, prompts, reasonings)

    # The transposed embeddings are such a tensor as well: one row for each of the 32 hidden numbers.
    assert 32 < seen.most_tokens <= 50


def test_a_chunk_of_logits_is_gone_before_the_next_is_computed() -> None:
    model = tiny_model("llama", **HEADS)
    whole = readout.Readout(model, splits=True)
    alive: list[weakref.ref[torch.Tensor]] = []
    logits = whole.logits

    def counted(features: torch.Tensor) -> torch.Tensor:
        assert not [chunk for chunk in alive if chunk() is not None]
        made = logits(features)
        alive.append(weakref.ref(made))
        return made

    whole.logits = counted  # type: ignore[method-assign, assignment]
    with torch.inference_mode():
        features = whole.features(whole.body(input_ids=torch.tensor([draw(40, 1)])))[0]
        whole.log_probs(features, torch.tensor(draw(40, 2)), temperature=0.7, max_logits=16 * 64)

    assert len(alive) > 2


def test_a_large_vocabulary_is_read_for_many_tokens_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_FLOAT32_LOGITS", 4096)
    model = tiny_model("llama", vocab_size=4096)
    causal = CausalModel(model)

    assert engine._max_logits(causal) == engine.MIN_CPU_LOGIT_ROWS * 4096
