"""How much memory models may take, as people write it and as the machine has it."""

import pytest
import torch

from collapsewatch_worker.models.memory import MemoryBound, asked_bytes, main_memory_bytes


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("auto", None), ("60%", 600), ("1000", 1000), ("2KiB", 2048), ("1.5 GiB", 3 * 2**29), ("7B", 7)],
)
def test_a_size_is_read_as_bytes_or_share(asked: str, expected: int | None) -> None:
    assert asked_bytes(asked, 1000) == expected


@pytest.mark.parametrize("asked", ["", "much", "12XB", "%", "-1"])
def test_a_size_that_is_none_is_refused(asked: str) -> None:
    with pytest.raises(ValueError, match="such as 24GiB, got"):
        asked_bytes(asked, 1000)


def test_on_a_cpu_models_take_half_of_the_memory_by_default() -> None:
    bound = MemoryBound("auto", torch.device("cpu"))

    assert not bound.is_fixed
    assert bound.room(123) == main_memory_bytes() // 2
    assert MemoryBound("25%", torch.device("cpu")).room(0) == pytest.approx(main_memory_bytes() / 4, abs=1)
