"""The handle on the scoring process, when the process does not come up or ends in an odd way."""

import sys
from pathlib import Path

import pytest

from collapsewatch_worker.loop.child import job_failure
from collapsewatch_worker.loop.scoring_process import ScoringProcess, ScoringProcessGone
from collapsewatch_worker.settings import ScoringSettings, WorkerSettings


@pytest.fixture
def settings(tmp_path: Path) -> ScoringSettings:
    return WorkerSettings(device="cpu", blob_url=str(tmp_path)).for_scoring("worker-1")


def test_a_process_that_cannot_be_started_does_not_end_the_worker(settings: ScoringSettings) -> None:
    with pytest.raises(ScoringProcessGone, match="cannot be started"):
        ScoringProcess(settings, command=("/no/such/program",))


def test_a_signal_without_a_name_is_told_by_its_number(settings: ScoringSettings) -> None:
    # It reads its settings first, so that they are not what fails.
    script = "import os, sys; os.read(int(sys.argv[1]), 1); os.kill(os.getpid(), 40)"
    process = ScoringProcess(settings, command=(sys.executable, "-c", script))
    with pytest.raises(ScoringProcessGone, match="signal 40"):
        process.receive(30.0)
    process.stop()


def test_a_failure_that_names_bytes_which_are_no_text_is_told_all_the_same() -> None:
    failure = job_failure("worker-1", ValueError("the file a\udc80b"))
    assert failure.error == "ValueError: the file a?b"
    assert "a?b" in failure.traceback
