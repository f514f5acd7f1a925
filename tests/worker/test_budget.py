"""Micro-batches that fit."""

import platform
import subprocess
import sys

import pytest
import torch

from collapsewatch_worker.scoring import budget
from collapsewatch_worker.scoring.budget import MIN_TOKEN_BUDGET, found_budget
from tests.worker.tiny_models import HEADS, tiny_model


def test_a_workspace_is_shared_out_by_the_size_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "CPU_WORKSPACE", 2**20)
    small = found_budget(tiny_model("llama", **HEADS), None)
    wide = found_budget(tiny_model("llama", **HEADS, hidden_size=64, intermediate_size=96), None)

    # 4 bytes · (12 · hidden 32 + 4 · widest 48) for a new token; 4 · 2 · 2 layers · 2 heads · 8 in a cache.
    assert small.new_tokens == 2**20 // (4 * (12 * 32 + 4 * 48))
    assert small.padded_tokens == 2**20 // (4 * 2 * 2 * 2 * 8)
    assert wide.new_tokens == small.new_tokens // 2


def test_a_limit_holds_for_all_kinds_of_micro_batches() -> None:
    found = found_budget(tiny_model("gpt2"), 20)

    assert (found.new_tokens, found.packed_tokens, found.padded_tokens) == (20, 20, 20)
    with pytest.raises(ValueError, match="at least 1, got 0"):
        found_budget(tiny_model("gpt2"), 0)


def test_it_halves_down_to_the_least_and_no_further() -> None:
    found = found_budget(tiny_model("gpt2"), 100)

    assert found.halve()
    assert (found.new_tokens, found.packed_tokens, found.padded_tokens) == (50, 50, 50)
    assert found.halve()
    assert found.halve()
    assert found.new_tokens == MIN_TOKEN_BUDGET
    assert not found.halve()


@pytest.mark.parametrize(
    ("model_type", "options"),
    [("gpt2", {}), ("opt", {"ffn_dim": 48}), ("bloom", {}), ("mamba", {"state_size": 4})],
)
def test_every_kind_of_configuration_has_a_budget(model_type: str, options: dict[str, int]) -> None:
    found = found_budget(tiny_model(model_type, **options), None)

    assert found.new_tokens >= found.packed_tokens >= MIN_TOKEN_BUDGET
    assert found.packed_tokens <= budget.CPU_PACKED_TOKENS * torch.get_num_threads()


_FAULTS = """
import resource, torch
from collapsewatch_worker.scoring.budget import keep_freed_memory
keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(50):
    three = [torch.ones(2**21) for _ in range(3)]
    del three
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library keeps memory by other rules")
def test_freed_memory_is_not_asked_for_again() -> None:
    def faults() -> int:
        command = [sys.executable, "-c", _FAULTS]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    # 50 times three blocks of 2,048 pages; the first few of them are new. Left to itself the C library asks
    # for all of them anew in about every second process, by where its heap happens to lie.
    assert max(faults() for _ in range(5)) < 30 * 2048
