import os
import subprocess
import sys
from pathlib import Path

from collapsewatch.contracts.rollouts import RolloutBatch

from .conftest import Recorder

EXAMPLE = Path(__file__).parents[2] / "examples" / "minimal.py"


def test_the_minimal_example_sends_what_can_be_diagnosed(recorder: Recorder) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env={**os.environ, "COLLAPSEWATCH_URL": recorder.url, "COLLAPSEWATCH_STRICT": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    batches = [RolloutBatch.model_validate(seen.body) for seen in recorder.of("/batches")]
    assert [batch.step for batch in batches] == list(range(20))
    assert all(len(batch.rollouts) >= 32 for batch in batches)
    assert all(len({rollout.group_id for rollout in batch.rollouts}) >= 8 for batch in batches)
    assert set(recorder.scalars()) == set(range(20))
