"""Tiny random models of many architectures, and what every pair scores in one forward pass of its own."""

from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from collapsewatch_worker.scoring.engine import Floats

WINDOW = {"sliding_window": 8}
HEADS = {"num_key_value_heads": 2}
LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [2.0, 3.0, 4.0, 5.0],
    "original_max_position_embeddings": 24,
}
REUSING: dict[str, dict[str, Any]] = {
    "gpt2": {},
    "llama": HEADS,
    "mistral": {**HEADS, **WINDOW, "head_dim": 8},
    "qwen2": {**HEADS, **WINDOW, "use_sliding_window": True, "max_window_layers": 1},
    "qwen3": {**HEADS, "head_dim": 8, "tie_word_embeddings": True},
    "gemma2": {**HEADS, **WINDOW, "head_dim": 8, "query_pre_attn_scalar": 8},
    "gemma3_text": {
        **HEADS,
        **WINDOW,
        "head_dim": 8,
        "query_pre_attn_scalar": 8,
        "layer_types": ["sliding_attention", "full_attention"],
    },
    "phi": {},
    "phi3": HEADS,
    "gpt_neox": {},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8, "num_layers": 2},
    "opt": {"word_embed_proj_dim": 16, "ffn_dim": 48},
    "bloom": {},
    "falcon": {"new_decoder_architecture": True, "num_kv_heads": 2},
    "mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
    "mixtral": {**HEADS, **WINDOW, "num_local_experts": 4},
    "gpt_oss": {**HEADS, **WINDOW, "num_local_experts": 4, "head_dim": 8},
}
"""Architectures whose prompts are encoded once; windows are shorter than the prompts."""
WHOLE: dict[str, dict[str, Any]] = {
    "mamba": {"state_size": 4},
    "rwkv": {"attention_hidden_size": 32, "context_length": 64},
    "jamba": {
        **HEADS,
        "num_experts": 2,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "mamba_d_state": 4,
        "use_mamba_kernels": False,
    },
    "lfm2": {**HEADS, "layer_types": ["conv", "full_attention"]},
    "llama4_text": {**HEADS, "head_dim": 8, "attention_chunk_size": 8, "num_local_experts": 2},
    "phi3": {**HEADS, "rope_parameters": LONG_ROPE, "original_max_position_embeddings": 24},
}
"""Recurrent, convolutional, chunked and length-dependent ones: prompt and reasoning in one pass."""


def tiny_model(model_type: str, **options: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 64,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 64,
        "initializer_range": 0.2,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    config = AutoConfig.for_model(model_type, **{**sizes, **options})
    factory: Any = AutoModelForCausalLM
    model: PreTrainedModel = factory.from_config(config)
    model.train(False)
    return model


def draw(num_tokens: int, seed: int) -> list[int]:
    return [int(token) for token in np.random.default_rng(seed).integers(3, 64, num_tokens)]


LONG = draw(14, 0)
PROMPTS = [LONG, draw(5, 1), LONG[:9], LONG, LONG + draw(6, 2), draw(1, 3)]
"""A strict prefix of another, a duplicate, a long common prefix, one token."""
REASONINGS = [draw(length, 10 + length) for length in (1, 7, 12, 3, 2, 9)] + [draw(12, 22)]


def one_pair_per_forward(
    model: PreTrainedModel, prompts: list[list[int]], reasonings: list[list[int]], temperature: float = 1.0
) -> Floats:
    """[R, P, T], the slow second way."""
    want = np.full((len(reasonings), len(prompts), max(map(len, reasonings))), np.nan)
    with torch.inference_mode():
        for row, reasoning in enumerate(reasonings):
            for column, prompt in enumerate(prompts):
                logits = model(input_ids=torch.tensor([prompt + reasoning]), use_cache=False).logits[0]
                log_probs = torch.log_softmax(logits.float() / temperature, dim=-1)
                for t, token in enumerate(reasoning):
                    want[row, column, t] = log_probs[len(prompt) - 1 + t, token]
    return want
