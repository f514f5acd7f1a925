"""Batches of every odd shape, under each way that the engine has, against one forward pass per pair."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from collapsewatch_worker.scoring import cascade, engine, products
from collapsewatch_worker.scoring.causal_model import CausalModel
from collapsewatch_worker.scoring.engine import cross_log_probs, cross_token_log_probs
from tests.worker.tiny_models import HEADS, LONG_ROPE, REUSING, WHOLE, draw, one_pair_per_forward, tiny_model

Batch = tuple[list[list[int]], list[list[int]]]

MODELS: dict[str, Callable[[], PreTrainedModel]] = {
    "grouped heads": lambda: tiny_model("llama", **HEADS),
    "window of 1": lambda: tiny_model("mistral", **HEADS, head_dim=8, sliding_window=1),
    "window of 4": lambda: tiny_model("mistral", **HEADS, head_dim=8, sliding_window=4),
    "window of 16": lambda: tiny_model("mistral", **HEADS, head_dim=8, sliding_window=16),
    "window and soft cap": lambda: tiny_model("gemma2", **{**REUSING["gemma2"], "sliding_window": 5}),
    "window and sinks": lambda: tiny_model("gpt_oss", **{**REUSING["gpt_oss"], "sliding_window": 5}),
    "learned positions": lambda: tiny_model("gpt2"),
    "copied caches": lambda: tiny_model("bloom"),
    "recurrent": lambda: tiny_model("mamba", **WHOLE["mamba"]),
    "length-dependent": lambda: tiny_model(
        "phi3", **HEADS, rope_parameters=LONG_ROPE, original_max_position_embeddings=24
    ),
}

UNPACKED = {"copied caches", "recurrent"}
"""Architectures that have one way only."""

STEM = draw(20, 1)
BATCHES: dict[str, Batch] = {
    "one pair of one token each": ([[7]], [[9]]),
    "one group of one rollout": ([draw(9, 2)], [draw(6, 3)]),
    "one group": ([draw(9, 2)], [draw(length, length) for length in (6, 1, 4)]),
    "one rollout for each prompt": ([draw(length, length) for length in (9, 3, 17)], [draw(5, 4), [], [8]]),
    "nothing but empty reasonings": ([draw(9, 2), [4]], [[], []]),
    "empty reasonings among others": ([draw(9, 2), [4]], [[], draw(3, 5), [], [6]]),
    "prompts of one token": ([[3], [4], [5]], [draw(7, 6), [9], draw(2, 7)]),
    "one token after prompts of one": ([[3], [4]], [[token] for token in range(10, 16)]),
    "prompts that are prefixes of one another": (
        [STEM[:length] for length in (20, 1, 2, 19, 10)],
        [draw(5, 8), draw(2, 9)],
    ),
    "prompts that go on with a reasoning": ([STEM[:8], STEM[:12], STEM], [STEM[8:12], STEM[12:], STEM[:8]]),
    "reasonings that are prefixes of one another": ([STEM[:5], [9]], [STEM[:length] for length in (9, 1, 4)]),
    "equal prompts and equal reasonings": ([STEM, STEM[:3], STEM], [[5, 5], [5], [5, 5], [5]]),
    "a reasoning much longer than the prompts": ([[7], STEM[:2]], [draw(40, 10), [3]]),
    "as long as the model reads": ([draw(59, 11), draw(25, 12)], [draw(5, 13), [4]]),
    "a window's length on both sides": (
        [draw(length, length) for length in (15, 16, 17)],
        [draw(length, 30 + length) for length in (15, 16, 17)],
    ),
    "one token over and over": ([[5] * 12, [5] * 3], [[5] * 9, [5]]),
}
WAYS: dict[str, dict[tuple[Any, str], object]] = {
    "as it is": {},
    "a few tokens at a time": {},
    "one softmax, filled up": {
        (cascade, "suits_joint"): lambda query, _key: query.dtype == torch.float32,
        (products, "onednn_is_faster"): lambda: hasattr(torch.ops.mkldnn, "_linear_pointwise"),
        (products, "MIN_FILLED"): 1,
        (engine, "MIN_SAVED_TOKENS"): 1,
    },
    "copied caches": {(engine, "_packs"): lambda *_: False, (engine, "MIN_SAVED_TOKENS"): 1},
}
BUDGETS = {"a few tokens at a time": 7, "copied caches": 40}


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are ten times slower when threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@cache
def model_of(name: str) -> PreTrainedModel:
    return MODELS[name]()


@cache
def expected(model_name: str, batch_name: str) -> engine.Floats:
    return one_pair_per_forward(model_of(model_name), *BATCHES[batch_name])


@pytest.mark.parametrize(
    ("model_name", "way"),
    [(name, way) for name in MODELS for way in WAYS if name not in UNPACKED or not WAYS[way]],
)
def test_every_odd_batch_scores_as_its_pairs_do(
    model_name: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for (place, name), value in WAYS[way].items():
        monkeypatch.setattr(place, name, value)
    model = model_of(model_name)
    for batch_name, (prompts, reasonings) in BATCHES.items():
        got = cross_token_log_probs(model, prompts, reasonings, token_budget=BUDGETS.get(way))
        want = expected(model_name, batch_name)
        np.testing.assert_allclose(got, want, atol=2e-5, rtol=0, err_msg=batch_name)


def test_the_ways_are_those_that_they_are_named_after() -> None:
    packs = {name: CausalModel(model_of(name)).cascades for name in MODELS}

    assert {name for name, does in packs.items() if not does} == UNPACKED


def test_many_reasonings_of_one_token_take_one_softmax(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = []
    real = torch.log_softmax

    def counted(logits: torch.Tensor, dim: int) -> torch.Tensor:
        numbers.append(logits.numel())
        return real(logits, dim=dim)

    monkeypatch.setattr(torch, "log_softmax", counted)

    sums = cross_log_probs(model_of("grouped heads"), [draw(9, 2)], [[token] for token in range(64)])

    assert numbers == [64]
    np.testing.assert_allclose(np.exp(sums).sum(), 1, atol=1e-5)
