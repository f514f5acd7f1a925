"""When values are sent: those in a row together, and never in the way of a batch."""

from collections.abc import Callable

import pytest

import collapsewatch

from .conftest import COLUMNS, Recorder


def test_a_batch_does_not_wait_for_values_to_gather(
    recorder: Recorder, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collapsewatch.sender._GATHER_SECONDS", 3600.0)
    with collapsewatch.init("p", "n", url=recorder.url) as run:
        run.log({"a": 1}, step=0)
        wait_until(lambda: recorder.of("/scalars"))
        run.log({"a": 2}, step=1)
        run.log_rollouts(1, **COLUMNS)
        wait_until(lambda: recorder.batches())
        run.log({"a": 3}, step=2)
    assert recorder.scalars() == {0: {"a": 1}, 1: {"a": 2}, 2: {"a": 3}}


def test_values_that_are_logged_in_a_row_after_a_silence_go_in_one_request(
    recorder: Recorder, wait_until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("collapsewatch.sender._FIRST_SECONDS", 3600.0)
    with collapsewatch.init("p", "n", url=recorder.url) as run:
        wait_until(lambda: recorder.of("/runs"))
        for step in range(20):
            run.log({"a": step}, step=step)
    assert len(recorder.of("/scalars")) == 1
    assert len(recorder.scalars()) == 20
