"""Files: compressed, damaged, and still being written."""

import gzip
import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import zstandard

from collapsewatch.importers.files import SETTLE_SECONDS, Watch, json_rows
from collapsewatch.importers.formats import MAX_ROLLOUTS
from collapsewatch.importers.registry import chosen_format
from collapsewatch.importers.steps import ImportFailedError, Step
from tests.sdk.importing import following, reading, steps_of, write_rows
from tests.servers import wait_until

LINES = b'{"n": 1}\n\n{"n": 2}\n{"n": 3}'
ROW = {"group": "g", "prompt": "p", "response": "a </think>"}


def numbers(path: Path) -> list[int]:
    look, _ = reading()
    return [row["n"] for _, row in json_rows(path, look)]


def rows_of_step(number: int, count: int = 2) -> list[dict[str, Any]]:
    return [{**ROW, "step": number} for _ in range(count)]


def test_plain_gzip_and_zstandard_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(LINES))
    # A log that was compressed in two goes consists of two frames.
    head, tail = LINES[:9], LINES[9:]
    frames = zstandard.ZstdCompressor().compress(head) + zstandard.ZstdCompressor().compress(tail)
    (tmp_path / "a.jsonl.zst").write_bytes(frames)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(head) + gzip.compress(tail))
    for name in ("a.jsonl", "a.jsonl.gz", "a.jsonl.zst", "b.jsonl.gz"):
        assert numbers(tmp_path / name) == [1, 2, 3], name


def test_places_count_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(LINES)
    look, _ = reading()
    assert [str(place) for place, _ in json_rows(path, look)] == [f"{path}:{n}" for n in (1, 3, 4)]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_of_a_file_that_was_cut_off_all_before_the_cut_is_read(tmp_path: Path, suffix: str) -> None:
    whole = b"".join(b'{"n": %d, "noise": "%s"}\n' % (n, os.urandom(40).hex().encode()) for n in range(4000))
    packed = gzip.compress(whole) if suffix == ".gz" else zstandard.ZstdCompressor().compress(whole)
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(packed[: len(packed) // 2])
    look, told = reading()
    found = [row["n"] for _, row in json_rows(path, look)]
    assert found == list(range(len(found)))
    assert 0 < len(found) < 4000
    assert look.problems.num_skipped == 1
    assert f"a.jsonl{suffix}:{len(found) + 1}: skipped: the rest cannot be read" in told[0]


def test_a_file_that_is_gone_ends_the_import(tmp_path: Path) -> None:
    with pytest.raises(ImportFailedError, match="cannot be read"):
        numbers(tmp_path / "none.jsonl")


def test_text_that_is_no_unicode_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"n": 1}\n{"n": "\xff\xfe"}\n{"n": 2}\n')
    assert numbers(path) == [1, 2]


def test_a_lone_surrogate_is_a_bad_row_and_not_a_crash(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [*rows_of_step(0), {**ROW, "step": 0, "response": "\ud800"}])
    [step], look, _ = steps_of(path)
    assert (len(step.rollouts), look.problems.num_skipped) == (2, 1)


def test_one_step_is_in_memory_at_a_time(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [row for n in range(50) for row in rows_of_step(n)])
    look, _ = reading()
    steps = chosen_format("auto", path).steps(path, look)
    place = next(steps).place
    # The first step is handed on as soon as a row of the second was read.
    assert place.line == 1
    assert next(steps).place.line == 3


def test_a_file_whose_rows_are_all_one_step_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MAX_ROLLOUTS == 100_000
    monkeypatch.setattr("collapsewatch.importers.formats.MAX_ROLLOUTS", 3)
    [step], look, told = steps_of(write_rows(tmp_path / "a.jsonl", rows_of_step(0, 5)))
    assert (len(step.rollouts), look.problems.num_skipped) == (3, 2)
    assert "more than 3 rollouts" in told[0]


def test_the_same_fault_over_and_over_is_told_a_few_times_and_counted(tmp_path: Path) -> None:
    _, look, told = steps_of(write_rows(tmp_path / "a.jsonl", [*rows_of_step(0), *["{"] * 500]))
    assert look.problems.num_skipped == 500
    assert len(told) < 20


class CountingWatch(Watch):
    """Knows how often it has waited."""

    def __init__(self, idle_seconds: float) -> None:
        super().__init__(follows=True, idle_seconds=idle_seconds, poll_seconds=0.02)
        self.num_waits = 0

    def wait(self) -> bool:
        self.num_waits += 1
        return super().wait()


class Collected:
    """The steps of a path that is followed, in a thread of their own."""

    def __init__(self, path: Path, format_name: str, idle_seconds: float = 600) -> None:
        self.steps: list[Step] = []
        self.watch = CountingWatch(idle_seconds)
        look, _ = reading(watch=self.watch)
        look.is_folder = path.is_dir()
        format_ = chosen_format(format_name, path)
        self.thread = threading.Thread(
            target=lambda: self.steps.extend(format_.steps(path, look)), daemon=True
        )
        self.thread.start()

    def has_waited(self) -> None:
        """Comes back once all that is there now was read, and more is waited for."""
        before = self.watch.num_waits
        wait_until(lambda: self.watch.num_waits > before + 2 or not self.thread.is_alive())

    def numbers(self) -> list[int]:
        """The steps, once nothing new came for as long as the test says, or it was stopped."""
        self.thread.join(60)
        assert not self.thread.is_alive()
        return [step.number for step in self.steps]


def test_a_file_that_grows_is_followed_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", rows_of_step(0))
    text = "".join(line + "\n" for line in map(json.dumps, rows_of_step(1, 3)))
    collected = Collected(path, "recorded")
    for start in range(0, len(text), 37):
        with path.open("a") as file:
            file.write(text[start : start + 37])
        time.sleep(0.01)
    collected.has_waited()
    collected.watch.stopped.set()
    assert collected.numbers() == [0, 1]
    assert [len(step.rollouts) for step in collected.steps] == [2, 3]


def test_a_folder_that_fills_is_followed_until_nothing_comes(tmp_path: Path) -> None:
    row = {"input": "p", "output": "a", "score": 1.0}
    write_rows(tmp_path / "1.jsonl", [row])
    # Longer than a busy machine stands still between two of them.
    collected = Collected(tmp_path, "verl", idle_seconds=4)
    for number in (2, 3):
        time.sleep(0.1)
        write_rows(tmp_path / f"{number}.jsonl", [row] * number)
    assert collected.numbers() == [1, 2, 3]
    assert [len(step.rollouts) for step in collected.steps] == [1, 2, 3]


def test_the_newest_file_of_a_folder_waits_until_it_is_settled(tmp_path: Path) -> None:
    row = {"input": "p", "output": "a", "score": 1.0}
    path = write_rows(tmp_path / "1.jsonl", [row])
    path.write_text(path.read_text() + '{"input": "p", "output": "half')
    collected = Collected(tmp_path, "verl")
    for text in (' a line", "score": 0.0}\n', ""):
        with path.open("a") as file:
            file.write(text)
        # Fresh, however long the machine stands still.
        os.utime(path, (time.time(), time.time() + 600))
        collected.has_waited()
        assert collected.steps == []
    os.utime(path, (time.time(), time.time() - SETTLE_SECONDS - 1))
    wait_until(lambda: collected.steps)
    collected.watch.stopped.set()
    assert [len(step.rollouts) for step in collected.steps] == [2]
    assert collected.numbers() == [1]


def test_a_follow_that_is_stopped_hands_on_what_is_there(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", rows_of_step(0))
    collected = Collected(path, "recorded")
    collected.has_waited()
    collected.watch.stopped.set()
    assert collected.numbers() == [0]


def test_a_file_that_is_begun_anew_is_not_waited_for(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "a.jsonl", [row for n in range(3) for row in rows_of_step(n)])
    collected = Collected(path, "recorded")
    collected.has_waited()
    path.write_text("")
    assert collected.numbers() == [0, 1, 2]


def test_what_the_import_itself_takes_does_not_count_as_idle() -> None:
    watch = following(idle_seconds=0.2)
    time.sleep(0.3)
    began = time.monotonic()
    while watch.wait():
        assert time.monotonic() - began < 60
    # It still waited for all of its time.
    assert time.monotonic() - began >= 0.15


def test_an_empty_folder_that_is_followed_is_waited_at(tmp_path: Path) -> None:
    for format_name in ("verl", "columns"):
        folder = tmp_path / format_name
        folder.mkdir()
        collected = Collected(folder, format_name)
        collected.has_waited()
        write_rows(folder / "1.jsonl", [{"input": "p", "output": "a", "score": 1.0}])
        collected.has_waited()
        collected.watch.stopped.set()
        assert collected.numbers() == [1]
