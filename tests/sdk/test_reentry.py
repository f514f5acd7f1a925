"""Calls in the middle of a call: what a signal's handler, or a finaliser, may do to a run."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import collapsewatch
from collapsewatch.reentry import one_at_a_time, run_deferred
from collapsewatch.spool import RecordKind, Spool

from .conftest import COLUMNS, Recorder

LARGE: dict[str, Any] = {"prompts": ["p" * 300_000], "responses": ["r"], "rewards": [1.0], "group_ids": ["g"]}
"""A batch that is written in several pieces."""


@pytest.fixture
def offline_run(monkeypatch: pytest.MonkeyPatch) -> collapsewatch.Run:
    return collapsewatch.init("p", "n", url="http://127.0.0.1:9", mode="offline")


def folder_of(run: collapsewatch.Run) -> Path:
    assert run._delivery is not None
    return run._delivery.spool.folder


def kept(folder: Path) -> list[str]:
    """The kinds of the records that another process finds."""
    spool = Spool.adopt(folder, max_bytes=2**30, on_drop=lambda *what: pytest.fail(f"dropped {what}"))
    assert spool is not None
    kinds = []
    while records := spool.take(0):
        kinds += [record.kind.value for record in records]
        spool.ack(len(records))
    spool.release()
    return kinds


def in_the_second_piece(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Lets something happen between the pieces of the next large record, once."""
    written = os.pwrite

    def pwrite(*arguments: Any) -> int:
        monkeypatch.setattr(os, "pwrite", written)
        act()
        return written(*arguments)

    monkeypatch.setattr(os, "pwrite", pwrite)


def test_what_comes_in_the_middle_is_done_at_the_end_in_order() -> None:
    done: list[str] = []

    @one_at_a_time
    def call(name: str, *inner: str) -> None:
        for other in inner:
            call(other)
        done.append(name)

    call("outer", "first", "second")
    assert done == ["outer", "first", "second"]


def test_an_error_leaves_the_thread_ready_and_the_rest_for_later() -> None:
    done: list[str] = []

    @one_at_a_time
    def call(name: str, *inner: str) -> None:
        for other in inner:
            call(other)
        if name.startswith("bad"):
            raise ValueError(name)
        done.append(name)

    with pytest.raises(ValueError, match="bad inner"):
        call("outer", "bad inner", "good inner")
    assert done == ["outer"]
    run_deferred()
    assert done == ["outer", "good inner"]
    with pytest.raises(ValueError, match="bad"):
        call("bad")
    call("after")
    assert done[-1] == "after"


def test_finishing_in_the_middle_of_a_write_touches_no_file_of_others(
    offline_run: collapsewatch.Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = folder_of(offline_run)
    opened: list[int] = []

    def handler() -> None:
        offline_run.finish(1.0)
        # As a handler that saves a checkpoint: the lowest free descriptors are handed out again.
        for number in range(5):
            opened.append(os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT))
            os.write(opened[-1], b"16 bytes of ours")

    in_the_second_piece(monkeypatch, handler)
    offline_run.log_rollouts(0, **LARGE)
    assert [os.fstat(descriptor).st_size for descriptor in opened] == [16] * 5
    for descriptor in opened:
        os.close(descriptor)
    assert offline_run.dropped == {}
    assert kept(folder) == ["start", "batch", "update"]


def test_an_online_run_that_a_handler_finishes_in_mid_write_sends_all(
    run: collapsewatch.Run, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_second_piece(monkeypatch, run.finish)
    run.log_rollouts(0, **LARGE)
    assert len(recorder.batches()) == 1
    assert recorder.updates()[-1].state == "finished"
    assert run.dropped == {}


def test_logging_in_the_middle_of_a_write_loses_neither(
    offline_run: collapsewatch.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(offline_run)
    in_the_second_piece(monkeypatch, lambda: offline_run.log({"kl": 1.0}))
    offline_run.log_rollouts(0, **LARGE)
    offline_run.finish()
    assert kept(folder) == ["start", "batch", "scalars", "update"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_write_leaves_no_damage(
    offline_run: collapsewatch.Run, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def interrupt() -> None:
        raise error

    folder = folder_of(offline_run)
    in_the_second_piece(monkeypatch, interrupt)
    with pytest.raises(error):
        offline_run.log_rollouts(0, **LARGE)
    offline_run.log_rollouts(1, **COLUMNS)
    offline_run.finish()
    assert kept(folder) == ["start", "batch", "update"]


def test_a_part_that_cannot_be_taken_back_ends_its_segment(
    offline_run: collapsewatch.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(5, "the disk is ill")

    folder = folder_of(offline_run)
    in_the_second_piece(monkeypatch, fail)
    monkeypatch.setattr(os, "ftruncate", fail)
    offline_run.log_rollouts(0, **LARGE)
    assert offline_run.dropped == {"batches_spool_full": 1}
    offline_run.log_rollouts(1, **COLUMNS)
    offline_run.finish()
    # What was dropped is not counted again as damage.
    assert kept(folder) == ["start", "batch", "update"]


@pytest.mark.parametrize(
    ("handled", "num_runs", "num_steps"),
    [("run.log({'handled': 1.0})", 1, 1500), ("run.finish(1.0)", 40, 30)],
)
def test_handlers_of_real_signals_never_hang_a_training(
    handled: str, num_runs: int, num_steps: int, tmp_path: Path
) -> None:
    code = f"""
        import signal, collapsewatch
        num_handled = 0
        def handler(number, frame):
            global num_handled
            num_handled += 1
            run.dropped
            {handled}
        batch = dict(prompts=["p" * 20_000], responses=["r"], rewards=[1.0], group_ids=["g"])
        for number in range({num_runs}):
            run = collapsewatch.init("p", "n", url="http://127.0.0.1:9", mode="offline")
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
            for step in range({num_steps}):
                run.log_rollouts(step, **batch)
                run.log({{"kl": 1.0}}, step=step)
            run.finish(1.0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(num_handled > 5)
    """
    # So small a budget that batches are dropped all the time, which takes every lock there is.
    environment = {
        **os.environ,
        "COLLAPSEWATCH_SPOOL": str(tmp_path),
        "COLLAPSEWATCH_SPOOL_MAX_BYTES": str(2**20),
    }
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert ended.stdout == "True\n", ended.stderr[-3000:]


def test_what_the_disk_did_not_take_is_counted_when_the_run_ends(
    offline_run: collapsewatch.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "no space left on device")

    folder = folder_of(offline_run)
    monkeypatch.setattr(os, "pwrite", full)
    offline_run.set_scorer("lexical")
    offline_run.finish()
    monkeypatch.undo()
    # The change of the scorer, and the end.
    assert offline_run.dropped == {"updates_spool_full": 2}
    assert kept(folder) == [RecordKind.start.value]
