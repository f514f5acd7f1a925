"""How much memory the models kept at once may take."""

import os
import re
from pathlib import Path

import torch

from collapsewatch_worker.settings import MEMORY_PATTERN

_BYTES_PER = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_RESERVED_SHARE = 0.1
_RESERVED_BYTES = 2**30


class MemoryBound:
    """Most bytes that models may take on a device.

    Args:
        asked: `auto`, a share of the device's memory such as `60%`, or a size such as `24GiB`. `auto` is
            half of the main memory on a CPU; on a GPU, what is free but for a tenth, which scoring needs.
        device: where the models are.
        spread: they may be on every GPU.
    """

    def __init__(self, asked: str, device: torch.device, *, spread: bool = False) -> None:
        self._gpus: list[torch.device] = []
        if device.type == "cuda":
            self._gpus = [device]
            if spread:
                self._gpus = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
        self._fixed_bytes = asked_bytes(asked, self._total_bytes())
        self.is_fixed = self._fixed_bytes is not None
        """The operator gave a number: what does not fit is refused, and not tried."""

    def room(self, held_bytes: int) -> int:
        """Most bytes that models may take in all, when they take `held_bytes` now."""
        if self._fixed_bytes is not None:
            return self._fixed_bytes
        if not self._gpus:
            return self._total_bytes() // 2
        room = held_bytes
        for gpu in self._gpus:
            free, total = torch.cuda.mem_get_info(gpu)
            unused = torch.cuda.memory_reserved(gpu) - torch.cuda.memory_allocated(gpu)
            room += free + unused - max(_RESERVED_BYTES, int(total * _RESERVED_SHARE))
        return room

    def release(self) -> None:
        """Gives what dropped models held back to the device."""
        if self._gpus:
            torch.cuda.empty_cache()

    def _total_bytes(self) -> int:
        if self._gpus:
            return sum(torch.cuda.get_device_properties(gpu).total_memory for gpu in self._gpus)
        return main_memory_bytes()


def asked_bytes(asked: str, total_bytes: int) -> int | None:
    """`24GiB` or `60%` of the total as bytes; None for `auto`.

    Raises:
        ValueError: neither of the three.
    """
    if asked == "auto":
        return None
    found = re.match(MEMORY_PATTERN, asked)
    if found is None:
        raise ValueError(f"a size is auto, a share such as 60% or bytes such as 24GiB, got {asked!r}")
    number, unit = float(found[1]), found[2]
    return int(number * total_bytes / 100) if unit == "%" else int(number * _BYTES_PER[unit or "B"])


def main_memory_bytes() -> int:
    """Main memory of this machine, or of this container when that is less."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    for file in _CGROUP_LIMITS:
        try:
            limits.append(int(Path(file).read_text()))
        except (OSError, ValueError):  # no such group, or the word `max`
            continue
    return min(limits)


def told_size(num_bytes: int) -> str:
    """Bytes as a person reads them."""
    return f"{num_bytes / 2**30:.2f} GiB" if num_bytes >= 2**27 else f"{num_bytes / 2**20:.1f} MiB"
