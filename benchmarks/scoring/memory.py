"""Peak memory above the loaded model, one process for each contestant.

`python -m benchmarks.scoring.memory SIZE CONTESTANT DEVICE DTYPE` is the process; its last line is the answer
in bytes.
"""

import ctypes
import gc
import subprocess
import sys
from pathlib import Path

import torch
from transformers import PreTrainedModel

from benchmarks.scoring import work as works
from benchmarks.scoring.contestants import CONTESTANTS, ENGINE, Contestant
from benchmarks.scoring.work import Size, Work

ROOT = Path(__file__).parents[2]

_CHILD_SECONDS = 3600
_NUM_REFERENCE_ROWS = 16
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def peak_bytes(size: Size, contestant: Contestant, device: torch.device, dtype: torch.dtype) -> int:
    """Most memory that a process had at once while it scored the batch, less what the loaded model took.

    Raises:
        RuntimeError: the process failed; its errors are in the message.
    """
    module = [sys.executable, "-m", "benchmarks.scoring.memory"]
    command = [*module, size.name, contestant.name, str(device), str(dtype).removeprefix("torch.")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_CHILD_SECONDS)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} failed: {done.stderr[-2000:]}")
    return int(done.stdout.split()[-1])


def main() -> None:
    """Loads, scores once and prints the growth."""
    name, contestant_name, device_name, dtype_name = sys.argv[1:]
    torch.set_num_threads(1)
    size = next(one for one in (*works.CPU_SIZES, *works.GPU_SIZES) if one.name == name)
    contestant, device = CONTESTANTS[contestant_name], torch.device(device_name)
    model = works.model(size.shape, device, getattr(torch, dtype_name))
    work = works.work(size)
    if contestant is not ENGINE:
        # The reference scheme keeps nothing from one forward pass to the next but a number for each token:
        # the longest prompt with some of the reasonings, the longest among them, reaches its peak.
        longest = sorted(work.reasonings, key=len, reverse=True)[:_NUM_REFERENCE_ROWS]
        work = Work([max(work.prompts, key=len)], longest)
    # The libraries' own start is no growth, so they are used once before the count.
    with torch.inference_mode():
        model(input_ids=torch.arange(8, device=device)[None])
    grown = _gpu_growth if device.type == "cuda" else _cpu_growth
    print(grown(contestant, model, work), flush=True)


def _gpu_growth(contestant: Contestant, model: PreTrainedModel, work: Work) -> int:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(model.device)
    before = torch.cuda.memory_allocated(model.device)
    contestant.score(model, work)
    return torch.cuda.max_memory_allocated(model.device) - before


def _cpu_growth(contestant: Contestant, model: PreTrainedModel, work: Work) -> int:
    gc.collect()
    # Freed memory that the allocator still holds would hide as much of the growth.
    ctypes.CDLL(None).malloc_trim(0)
    # Loading may have taken more than scoring will: the high-water mark starts again from here.
    _CLEAR.write_text("5")
    before = _status_bytes("VmRSS")
    if _status_bytes("VmHWM") > before + 2**20:
        raise RuntimeError("the system did not reset the high-water mark of this process's memory")
    contestant.score(model, work)
    return _status_bytes("VmHWM") - before


def _status_bytes(field: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"the system does not report {field}")


if __name__ == "__main__":
    main()
