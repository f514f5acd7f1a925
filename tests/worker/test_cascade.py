"""Packed reasonings behind one copy of a prompt's cache."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from collapsewatch_worker.scoring import cascade, engine, products
from collapsewatch_worker.scoring.cascade import IMPLEMENTATION, CannotCascade, Cascade, row_groups
from collapsewatch_worker.scoring.causal_model import CausalModel
from collapsewatch_worker.scoring.engine import cross_token_log_probs
from tests.worker.tiny_models import (
    HEADS,
    PROMPTS,
    REASONINGS,
    REUSING,
    WHOLE,
    draw,
    one_pair_per_forward,
    tiny_model,
)

OTHERS = {"gpt_neo", "bloom", "falcon", "mpt"}
"""Without transformers' attention interface: scored with copies of the prompt's cache."""


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are ten times slower when threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def llama() -> PreTrainedModel:
    return tiny_model("llama", **HEADS)


@pytest.mark.parametrize(
    ("model_type", "options", "packs"),
    [(name, options, name not in OTHERS) for name, options in REUSING.items()]
    + [(name, options, name == "phi3") for name, options in WHOLE.items()],
)
def test_architectures_with_the_attention_interface_are_packed(
    model_type: str, options: dict[str, Any], packs: bool
) -> None:
    assert CausalModel(tiny_model(model_type, **options)).cascades is packs


@pytest.mark.parametrize(
    "model_type", ["gpt2", "mistral", "gemma2", "gemma3_text", "gpt_neox", "opt", "gpt_oss"]
)
def test_packing_gives_what_copying_gives(model_type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model(model_type, **REUSING[model_type])
    packed = cross_token_log_probs(model, PROMPTS, REASONINGS)

    monkeypatch.setattr(engine, "_packs", lambda *_: False)
    copied = cross_token_log_probs(model, PROMPTS, REASONINGS)

    np.testing.assert_allclose(packed, copied, atol=1e-5, rtol=0)


@pytest.mark.parametrize("window", [1, 2, 5, 14, 15, 40])
def test_windows_of_every_size_reach_into_the_prompt_as_far_as_they_should(window: int) -> None:
    model = tiny_model("mistral", **HEADS, head_dim=8, sliding_window=window)
    assert CausalModel(model).cascades

    got = cross_token_log_probs(model, PROMPTS, REASONINGS)

    np.testing.assert_allclose(got, one_pair_per_forward(model, PROMPTS, REASONINGS), atol=1e-5, rtol=0)


def test_very_unequal_lengths_and_one_token_rows() -> None:
    model = tiny_model("llama", **HEADS)
    reasonings = [draw(length, length) for length in (40, 1, 2, 39, 1, 3, 17, 2)]
    reasonings[4] = draw(1, 77)

    got = cross_token_log_probs(model, PROMPTS, reasonings)

    np.testing.assert_allclose(got, one_pair_per_forward(model, PROMPTS, reasonings), atol=1e-5, rtol=0)


def test_padding_tokens_inside_a_prompt_are_tokens_like_any_other() -> None:
    model = tiny_model("opt", **REUSING["opt"])
    prompts = [[0, 0, 0, *draw(5, 1)], [0, *draw(5, 1)], draw(5, 1)]

    got = cross_token_log_probs(model, prompts, REASONINGS)

    np.testing.assert_allclose(got, one_pair_per_forward(model, prompts, REASONINGS), atol=1e-5, rtol=0)


def test_no_padding_is_read(llama: PreTrainedModel) -> None:
    causal = CausalModel(llama)
    state = causal.encode(draw(9, 0), longest_pair=40, piece=100)

    features = causal.packed_features(state, [draw(7, 1), draw(3, 2), draw(3, 3), draw(1, 4)])

    assert features.shape == (14, 32)


def test_the_prompt_and_the_model_are_left_as_they_were(llama: PreTrainedModel) -> None:
    causal = CausalModel(llama)
    state = causal.encode(draw(9, 0), longest_pair=40, piece=100)
    assert state.cache is not None
    layers: list[Any] = state.cache.layers
    before = [(layer.keys, layer.keys.clone(), layer.values.clone()) for layer in layers]

    causal.packed_features(state, [draw(7, 1)])

    for layer, (same, keys, values) in zip(layers, before, strict=True):
        assert layer.keys is same
        assert torch.equal(layer.keys, keys)
        assert torch.equal(layer.values, values)
    assert llama.config._attn_implementation == "sdpa"


def test_a_failed_call_leaves_the_models_own_attention(llama: PreTrainedModel) -> None:
    state = CausalModel(llama).encode(draw(9, 0), longest_pair=40, piece=100)
    assert state.cache is not None
    body: Any = llama.get_decoder()  # type: ignore[no-untyped-call]

    with pytest.raises(IndexError):
        Cascade(body).forward(state.cache, 9, [1], input_ids=torch.tensor([[999]]))

    assert llama.config._attn_implementation == "sdpa"
    assert IMPLEMENTATION != "sdpa"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attention_mask": torch.ones(1, 1, 3, 3)}, "mask of its own"),
        ({"position_bias": torch.ones(1)}, "position_bias"),
        ({"is_causal": False}, "not causal"),
        ({"sliding_window": 4}, "window 4, its cache None"),
        ({"layer_idx": 7}, "share the keys"),
    ],
)
def test_attention_that_is_not_understood_is_refused(
    llama: PreTrainedModel, change: dict[str, Any], message: str
) -> None:
    state = CausalModel(llama).encode(draw(9, 0), longest_pair=40, piece=100)
    assert state.cache is not None
    layer: Any = state.cache.layers[0]
    module = torch.nn.Module()
    vars(module)["layer_idx"] = change.pop("layer_idx", 0) if "layer_idx" in change else 0
    query, key = torch.zeros(1, 4, 3, 8), torch.zeros(1, 2, 3, 8)
    assert layer.keys.shape[1:] == (2, 9, 8)
    plan = cascade._Plan(state.cache, 9, row_groups([3]), torch.arange(3))
    token = cascade._plan.set(plan)
    try:
        with pytest.raises(CannotCascade, match=message):
            cascade.cascade_attention(module, query, key, key, **{"attention_mask": None, **change})
    finally:
        cascade._plan.reset(token)


def test_equal_neighbours_make_one_group() -> None:
    groups = [(group.start, group.num_rows, group.length) for group in row_groups([5, 5, 3, 1, 1])]

    assert groups == [(0, 2, 5), (10, 1, 3), (13, 2, 1)]


@pytest.mark.skipif(not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch has no oneDNN")
def test_filler_and_products_change_nothing(monkeypatch: pytest.MonkeyPatch, llama: PreTrainedModel) -> None:
    want = cross_token_log_probs(llama, PROMPTS, REASONINGS)
    read: list[int] = []
    llama.model.register_forward_pre_hook(
        lambda _module, _inputs, options: read.append(options["input_ids"].shape[1]), with_kwargs=True
    )
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(products, "MIN_FILLED", 1)
    monkeypatch.setattr(cascade, "suits_joint", lambda _query, _key: True)

    got = cross_token_log_probs(llama, PROMPTS, REASONINGS)

    np.testing.assert_allclose(got, want, atol=1e-4, rtol=0)
    assert any(num_tokens % 16 == 0 for num_tokens in read)
