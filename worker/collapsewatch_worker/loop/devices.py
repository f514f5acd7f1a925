"""One worker for each device: which devices are asked for, and a thread for each. Imports no torch."""

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence

log = logging.getLogger(__name__)

_COUNT_GPUS = "import torch; print(torch.cuda.device_count())"
_COUNT_SECONDS = 120.0
_LOOK_SECONDS = 0.5


def visible_gpus() -> int:
    """GPUs that PyTorch sees, asked of a process of its own; 0 when it cannot be asked."""
    try:
        done = subprocess.run(  # noqa: S603 - our own interpreter, no shell
            [sys.executable, "-P", "-c", _COUNT_GPUS],
            capture_output=True,
            text=True,
            timeout=_COUNT_SECONDS,
            check=True,
        )
        return int(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.warning("the GPUs cannot be counted", extra={"error": str(error)})
        return 0


def scoring_devices(
    asked: str, *, spread: bool = False, count_gpus: Callable[[], int] = visible_gpus
) -> list[str]:
    """The device of each scoring process.

    Args:
        asked: devices separated by commas; `cuda` stands for every visible GPU.
        spread: one model lies on all GPUs, so one process has them all.
        count_gpus: called only for `cuda`.
    """
    devices: list[str] = []
    for device in asked.split(","):
        # Without a GPU the name stays: the scoring process says what is missing.
        num_gpus = count_gpus() if device == "cuda" and not spread else 0
        devices += [f"cuda:{number}" for number in range(num_gpus)] or [device]
    return devices


def run_each(workers: Sequence[Callable[[], None]], stop: threading.Event) -> None:
    """Runs every worker in a thread until all have ended; when one fails, the others are asked to stop.

    The threads are daemons, so a second signal ends the process at once; a scoring process dies with its
    thread.

    Raises:
        BaseException: what the first failed worker raised.
    """
    faults: list[BaseException] = []

    def run(worker: Callable[[], None]) -> None:
        try:
            worker()
        except BaseException as error:  # noqa: BLE001 - handed to the main thread, which raises it
            faults.append(error)
            stop.set()

    threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
    if faults:
        raise faults[0]
