"""How the demo's processes talk to the one that started them: JSON lines on standard output."""

import json
import sys

import torch
from transformers.utils import logging as transformers_logging


def report(event: str, **facts: float | str) -> None:
    """Sends one line, such as `{"event": "step", "done": 3, "total": 160}`."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


def quiet_process() -> None:
    """One torch thread (the demo shares two cores among four processes) and no bars but the demo's own."""
    torch.set_num_threads(1)
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
