"""Versions of one tiny policy in folders, and what each of them scores."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.models.resident import LoadedModel
from collapsewatch_worker.models.store import ModelStore
from collapsewatch_worker.scoring.engine import cross_log_probs

PROMPTS = [[1, 2, 3], [4, 5]]
REASONINGS = [[6, 7, 8], [9]]
SIZES: dict[str, Any] = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "max_position_embeddings": 64,
}
HEADS: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}


def saved_versions(root: Path) -> Path:
    """Versions `v0` to `v3` of one policy with tied embeddings, and `other`, of another make."""
    for number in range(4):
        torch.manual_seed(number)
        config = LlamaConfig(**SIZES, **HEADS, tie_word_embeddings=True)
        LlamaForCausalLM(config).save_pretrained(root / f"v{number}")
    other = GPT2Config(vocab_size=64, n_embd=32, n_layer=1, n_head=2, n_positions=64)
    GPT2LMHeadModel(other).save_pretrained(root / "other")
    return root


def store(root: Path, max_bytes: int, **options: Any) -> ModelStore:
    return ModelStore([root], device="cpu", **{"max_models": 8, **options}, max_memory=f"{max_bytes}B")


def scores(loaded: LoadedModel) -> Floats:
    with loaded.scoring() as model:
        return cross_log_probs(model, PROMPTS, REASONINGS)


def fresh_scores(folder: Path) -> Floats:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.train(False)
    return cross_log_probs(model, PROMPTS, REASONINGS)


def in_thread(work: Callable[[], object]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except Exception as error:  # noqa: BLE001 - the test looks at it
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def written_in_order(root: Path, *versions: str) -> None:
    for age, version in enumerate(reversed(versions)):
        os.utime(root / version, (time.time() - 60 * age,) * 2)
