"""What the packed flash kernel of a GPU is asked for, by a slow stand-in that keeps to its documentation."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from collapsewatch_worker.scoring import attention, cascade
from collapsewatch_worker.scoring.engine import cross_token_log_probs
from tests.worker.tiny_models import HEADS, PROMPTS, REASONINGS, REUSING, one_pair_per_forward, tiny_model


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Tiny models are ten times slower when threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Kernel:
    """`torch.nn.attention.varlen.varlen_attn`, sequence by sequence and head by head in float64."""

    def __init__(self) -> None:
        self.windows: set[tuple[int, int]] = set()

    def __call__(
        self,
        query_NHD: torch.Tensor,
        key_MGD: torch.Tensor,
        value_MGD: torch.Tensor,
        ends_Q: torch.Tensor,
        ends_K: torch.Tensor,
        most_queries: int,
        most_keys: int,
        *,
        return_aux: Any,
        scale: float,
        window_size: tuple[int, int],
        enable_gqa: bool,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        self.windows.add(window_size)
        num_heads, num_key_heads = query_NHD.shape[1], key_MGD.shape[1]
        assert return_aux.lse
        assert enable_gqa or num_heads == num_key_heads
        for packed, ends, most in ((query_NHD, ends_Q, most_queries), (key_MGD, ends_K, most_keys)):
            assert packed.is_contiguous()
            assert ends.dtype == torch.int32
            assert (int(ends[0]), int(ends[-1])) == (0, len(packed))
            assert int(ends.diff().min()) > 0
            assert int(ends.diff().max()) <= most
        out_NHD, lse_HN = torch.zeros_like(query_NHD), torch.zeros(num_heads, len(query_NHD))
        key_MHD, value_MHD = (
            kept.repeat_interleave(num_heads // num_key_heads, dim=1) for kept in (key_MGD, value_MGD)
        )
        pairs = zip(ends_Q.tolist(), ends_Q.tolist()[1:], ends_K.tolist(), ends_K.tolist()[1:], strict=False)
        for start_q, end_q, start_k, end_k in pairs:
            queries, keys = slice(start_q, end_q), slice(start_k, end_k)
            scores_HQK = torch.einsum(
                "qhd,khd->hqk", query_NHD[queries].double(), key_MHD[keys].double() * scale
            )
            # The last query stands beside the last key.
            places_Q = torch.arange(end_q - start_q)[:, None] + (end_k - start_k) - (end_q - start_q)
            before_QK = places_Q - torch.arange(end_k - start_k)
            left, right = window_size
            hidden_QK = ((before_QK > left) & (left >= 0)) | ((-before_QK > right) & (right >= 0))
            scores_HQK = scores_HQK.masked_fill(hidden_QK, -math.inf)
            weights_HQK = torch.softmax(scores_HQK, dim=-1)
            out_NHD[queries] = torch.einsum("hqk,khd->qhd", weights_HQK, value_MHD[keys].double()).float()
            lse_HN[:, queries] = scores_HQK.logsumexp(dim=-1).float()
        return out_NHD, lse_HN


@pytest.mark.parametrize(
    ("model_type", "options", "window"),
    [
        ("llama", HEADS, None),
        ("gpt2", {}, None),
        *[("mistral", {**HEADS, "head_dim": 8, "sliding_window": size}, size) for size in (2, 5, 14, 15, 40)],
        ("gpt_oss", REUSING["gpt_oss"], 8),
    ],
)
def test_packed_rows_are_asked_for_as_they_stand(
    model_type: str, options: dict[str, Any], window: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = Kernel()
    model = tiny_model(model_type, **options)
    monkeypatch.setattr(attention, "varlen_attn", kernel)
    monkeypatch.setattr(cascade, "flash_on_cuda", lambda _query, _value: True)

    got = cross_token_log_probs(model, PROMPTS, REASONINGS)

    np.testing.assert_allclose(got, one_pair_per_forward(model, PROMPTS, REASONINGS), atol=1e-5, rtol=0)
    assert ((-1, 0) if window is None else (window - 1, 0)) in kernel.windows
    # The prompt of one token is seen whole where the window is longer than the reasonings.
    assert ((-1, -1) in kernel.windows) == (window not in (2, 5))


@pytest.mark.parametrize(
    ("dtype", "size", "value_size", "taken"),
    [
        (torch.bfloat16, 64, 64, True),
        (torch.float16, 256, 256, True),
        (torch.float32, 64, 64, False),
        (torch.bfloat16, 60, 60, False),
        (torch.bfloat16, 264, 264, False),
        (torch.bfloat16, 192, 128, False),
    ],
)
def test_the_kernel_is_asked_for_heads_that_it_takes(
    dtype: torch.dtype, size: int, value_size: int, taken: bool
) -> None:
    class OnGpu:
        is_cuda = True

        def __init__(self, *shape: int) -> None:
            self.shape, self.dtype = shape, dtype

    query: Any = OnGpu(1, 4, 9, size)
    value: Any = OnGpu(1, 4, 9, value_size)

    assert cascade.flash_on_cuda(query, value) is taken
