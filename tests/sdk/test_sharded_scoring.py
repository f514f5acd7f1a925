"""Scoring in the middle of sharded trainings: real process groups of two ranks on the CPU."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.mark.parametrize("kind", ["ddp", "fsdp1", "fsdp2", "zero3"])
def test_each_rank_scores_its_share_on_the_whole_model_and_training_goes_on(
    kind: str, tmp_path: Path, wait_until: Callable[..., None]
) -> None:
    if kind == "zero3" and find_spec("deepspeed") is None:
        pytest.skip("deepspeed is not installed")
    # Into files: a full pipe of one rank would hold up the other.
    logs = [(tmp_path / f"out-{rank}").open("w+") for rank in range(2)]
    ranks = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.sdk.sharded_scoring", kind, str(rank), "2", str(tmp_path / "meet")],
            env={
                **os.environ,
                "COLLAPSEWATCH_STRICT": "1",
                "DS_ACCELERATOR": "cpu",
                "PYTHONWARNINGS": "ignore",
            },
            cwd=Path(__file__).parents[2],
            stdout=logs[rank],
            stderr=subprocess.STDOUT,
        )
        for rank in range(2)
    ]
    try:
        # One that fails leaves the other waiting for it.
        wait_until(lambda: all(each.poll() == 0 for each in ranks) or any(each.poll() for each in ranks), 200)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    for log in logs:
        log.seek(0)
        told = log.read()
        (line,) = [line for line in told.splitlines() if line.startswith("{")] or [told[-4000:]]
        assert line.startswith("{"), line
        seen = json.loads(line)
        assert seen["sizes"] == [[6, 6], [6, 6]]
        assert max(seen["errors"]) < 1e-4
        assert seen["same_as_unscored"]
        log.close()
