"""The benchmark's arithmetic and its output."""

import json
import struct
from pathlib import Path

import pytest

from benchmarks.common import machine, shown
from benchmarks.ingest.libraries import run_file_records
from benchmarks.ingest.report import Row, table, write_json
from benchmarks.ingest.statistics import quantile, spread
from benchmarks.ingest.throughput import document
from benchmarks.ingest.work import NUM_ROLLOUTS, rollouts, scalars
from collapsewatch.contracts.rollouts import RolloutBatch


def test_quantiles_are_values_that_were_measured() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert spread(values) == {"p50": 50.0, "p99": 99.0, "max": 100.0}
    assert quantile([3.0], 0.0) == quantile([3.0], 1.0) == 3.0
    assert quantile([1.0, 9.0], 0.99) == 9.0


@pytest.mark.parametrize(("values", "share"), [([], 0.5), ([1.0], 1.5), ([1.0], -0.1)])
def test_a_quantile_of_nothing_is_an_error(values: list[float], share: float) -> None:
    with pytest.raises(ValueError, match=r"quantile|share"):
        quantile(values, share)


def test_the_ratio_is_ours_over_theirs_and_absent_without_one() -> None:
    assert Row("c", "p99", 2.0, "µs", 8.0, "peer").ratio == 0.25
    assert Row("c", "lost", 2.0, "calls", 0.0, "peer").ratio is None
    assert Row("c", "rollouts", 2.0, "1/s", higher_is_better=True).ratio is None


def test_the_file_has_the_form_that_all_benchmarks_share(tmp_path: Path) -> None:
    path = tmp_path / "bench" / "x.json"
    write_json(path, machine({"peer": "1.0"}), [Row("c", "p99", 2.0, "µs", 8.0, "peer")])
    found = json.loads(path.read_text())
    assert found["machine"]["libraries"] == {"peer": "1.0"}
    (row,) = found["rows"]
    assert row == {
        "case": "c",
        "metric": "p99",
        "ours": 2.0,
        "peer": 8.0,
        "peer_name": "peer",
        "ratio": 0.25,
        "unit": "µs",
        "higher_is_better": False,
    }


def test_the_table_has_a_line_for_each_row() -> None:
    text = table([Row("c", "p99", 1234.5, "µs", 8.0, "peer"), Row("d", "rate", 0.5, "1/s")])
    lines = text.splitlines()
    assert len(lines) == 4
    assert len({len(line) for line in lines}) == 1
    assert "1,23" in lines[2]
    assert [shown(value) for value in (0.0, 7.0, 0.01234, 99.94, 123.4)] == [
        "0",
        "7",
        "0.0123",
        "99.9",
        "123",
    ]


def test_all_libraries_are_given_the_same_work_of_the_size_that_is_said() -> None:
    rows = rollouts(3)
    assert rows == rollouts(3)
    assert len(rows) == NUM_ROLLOUTS
    assert {len(prompt) + len(response) for _, prompt, response, _ in rows} == {2000}
    assert (len(scalars(5)), scalars(5)["m0"]) == (20, 5.0)
    batch = RolloutBatch.model_validate_json(document(rows, step=4))
    assert (batch.step, len(batch.rollouts)) == (4, NUM_ROLLOUTS)


def test_a_run_file_is_read_up_to_where_it_was_cut() -> None:
    records = [b"a" * 10, b"b" * 70_000, b"c" * 32_740, b"d"]
    data = _run_file(records)
    assert list(run_file_records(data)) == records
    assert list(run_file_records(data[:-1])) == records[:-1]
    assert list(run_file_records(data[:100])) == records[:1]


def _run_file(records: list[bytes]) -> bytes:
    data = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    for record in records:
        is_first = True
        while True:
            left = 32768 - len(data) % 32768
            if left < 7:
                data += b"\0" * left
                continue
            piece, record = record[: left - 7], record[left - 7 :]
            kind = {(True, True): 1, (True, False): 2, (False, False): 3, (False, True): 4}[
                is_first, not record
            ]
            data += struct.pack("<IHB", 0, len(piece), kind) + piece
            is_first = False
            if not record:
                break
    return data
