"""Files as a bad disk, a full disk or a crash leaves them."""

import json
import resource
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collapsewatch.spool import Record, RecordKind, Spool
from collapsewatch.spool.records import HEADER_BYTES, MAX_SEQ, encode_header, header_of

from .spools import KINDS, Dropped, adopted, bodies, meta_of, new_spool, segments, takes

NAMES = ["r0", "b1", "s2", "s3", "b4", "u5", "b6", "s7"]


def left_spool(root: Path, names: list[str] = NAMES) -> Path:
    """The folder of a process that is gone."""
    spool = new_spool(root, [])
    for name in names:
        spool.append(KINDS[name[0]], f'{{"name": "{name}"}}'.encode(), logged_at=1.0)
    spool.release()
    return spool.folder


def names_in(spool: Spool) -> list[str]:
    return [body[10:12] for body in bodies(spool)]


def without(*names: str) -> list[str]:
    return [name for name in NAMES if name not in names]


RECORD_BYTES = HEADER_BYTES + len('{"name": "b1"}')


@pytest.mark.parametrize("num_bytes", [1, 3, 5, HEADER_BYTES, HEADER_BYTES + 1, RECORD_BYTES - 1])
def test_a_torn_last_record_is_skipped_and_is_no_damage(tmp_path: Path, num_bytes: int) -> None:
    folder = left_spool(tmp_path)
    (path,) = segments(folder, "rollouts")
    raw = path.read_bytes()
    path.write_bytes(raw[: 2 * RECORD_BYTES + num_bytes])
    dropped: Dropped = []
    spool = adopted(folder, dropped)
    assert spool.status().num_records == len(NAMES) - 1
    assert names_in(spool) == without("b6")
    assert dropped == []
    assert spool.is_drained


@pytest.mark.parametrize("offset", [0, 5, 30, HEADER_BYTES - 1, HEADER_BYTES, RECORD_BYTES - 1])
@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_damaged_record_costs_itself_and_is_counted(tmp_path: Path, offset: int, number: int) -> None:
    folder = left_spool(tmp_path)
    (path,) = segments(folder, "rollouts")
    raw = bytearray(path.read_bytes())
    raw[number * RECORD_BYTES + offset] ^= 0x10
    path.write_bytes(raw)
    dropped: Dropped = []
    spool = adopted(folder, dropped)
    assert names_in(spool) == without(("b1", "b4", "b6")[number])
    assert dropped == [(RecordKind.batch, 1, "damaged")]
    assert spool.status().dropped == {"batches_damaged": 1}
    assert spool.is_drained


@pytest.mark.parametrize("offset", [0, 30, HEADER_BYTES - 1, HEADER_BYTES, RECORD_BYTES - 1])
@pytest.mark.parametrize("number", range(6))
def test_a_damaged_record_in_a_row_of_values_costs_itself_and_is_counted(
    tmp_path: Path, offset: int, number: int
) -> None:
    names = [f"s{k}" for k in range(6)]
    folder = left_spool(tmp_path, names)
    (path,) = segments(folder, "scalars")
    raw = bytearray(path.read_bytes())
    raw[number * RECORD_BYTES + offset] ^= 0x10
    path.write_bytes(raw)
    dropped: Dropped = []
    spool = adopted(folder, dropped)
    assert names_in(spool) == [name for name in names if name != f"s{number}"]
    assert sum(count for _, count, _ in dropped) == 1
    assert spool.is_drained
    assert spool.status().num_bytes == 0


def test_damage_is_not_counted_again_by_the_next_process(tmp_path: Path) -> None:
    folder = left_spool(tmp_path)
    (path,) = segments(folder, "rollouts")
    raw = bytearray(path.read_bytes())
    raw[RECORD_BYTES // 2] ^= 1
    path.write_bytes(raw)
    for num_requests in (3, 2, 9):
        spool = adopted(folder)
        for _ in range(num_requests):
            spool.take(0)
            spool.ack()
        assert spool.status().dropped == {"batches_damaged": 1}
        spool.release()
    assert not folder.exists()


def test_a_file_of_zeros_at_its_end_is_damage(tmp_path: Path) -> None:
    # What an operating system that died leaves: the length was written, the bytes were not.
    folder = left_spool(tmp_path)
    (path,) = segments(folder, "rollouts")
    raw = path.read_bytes()
    path.write_bytes(raw[: 2 * RECORD_BYTES] + bytes(RECORD_BYTES))
    dropped: Dropped = []
    assert names_in(adopted(folder, dropped)) == without("b6")
    assert dropped == [(RecordKind.batch, 1, "damaged")]


def test_damage_while_the_process_lives_is_skipped(tmp_path: Path) -> None:
    dropped: Dropped = []
    spool = new_spool(tmp_path, dropped)
    for name in NAMES:
        spool.append(KINDS[name[0]], f'{{"name": "{name}"}}'.encode())
    (path,) = segments(spool.folder, "scalars")
    with path.open("r+b") as file:
        file.seek(RECORD_BYTES + 3)
        file.write(b"????????")
    assert names_in(spool) == without("s3")
    assert dropped == [(RecordKind.scalars, 1, "damaged")]
    assert spool.is_drained
    spool.append(RecordKind.scalars, b'{"name": "s8"}')
    assert names_in(spool) == ["s8"]


def test_a_truncated_file_of_a_living_process_ends_in_nothing_worse_than_a_loss(tmp_path: Path) -> None:
    spool = new_spool(tmp_path, [])
    for name in NAMES:
        spool.append(KINDS[name[0]], f'{{"name": "{name}"}}'.encode())
    for path in segments(spool.folder):
        path.write_bytes(b"")
    assert names_in(spool) == []
    spool.append(RecordKind.batch, b'{"name": "b8"}')
    assert names_in(spool) == ["b8"]


mutations = st.lists(
    st.tuples(
        st.sampled_from(["control", "scalars", "rollouts"]),
        st.floats(0, 1),
        st.floats(0, 0.3),
        st.binary(max_size=80),
    ),
    min_size=1,
    max_size=4,
)


@given(mutations, st.booleans())
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_files_give_out_only_what_was_written(
    tmp_path_factory: pytest.TempPathFactory,
    mutated: list[tuple[str, float, float, bytes]],
    has_cursor: bool,
) -> None:
    folder = left_spool(tmp_path_factory.mktemp("spool"))
    touched = set()
    for lane, place, extent, junk in mutated:
        for path in segments(folder, lane):
            raw = path.read_bytes()
            start = int(place * len(raw))
            path.write_bytes(raw[:start] + junk + raw[start + int(extent * len(raw)) :])
            touched.add(lane)
    if not has_cursor:
        (folder / "cursor").unlink(missing_ok=True)
    spool = adopted(folder)
    names = names_in(spool)
    assert names == [name for name in NAMES if name in names]
    lane_of = {"r": "control", "u": "control", "s": "scalars", "b": "rollouts"}
    assert {name for name in NAMES if lane_of[name[0]] not in touched} <= set(names)
    assert spool.is_drained
    spool.append(RecordKind.batch, b'{"name": "b8"}')
    assert names_in(spool) == ["b8"]


@given(st.dictionaries(st.sampled_from(["meta.json", "cursor", "lock"]), st.binary(max_size=200)))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_mutated_small_files_end_in_a_spool_error_or_a_whole_spool(
    tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes]
) -> None:
    from collapsewatch.spool import SpoolError

    folder = left_spool(tmp_path_factory.mktemp("spool"))
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    try:
        spool = adopted(folder)
    except SpoolError:
        assert "meta.json" in contents
    else:
        assert names_in(spool) == NAMES


@pytest.mark.parametrize("seq", [2**60, MAX_SEQ - 1])
def test_a_record_whose_number_lies_far_ahead_breaks_nothing(tmp_path: Path, seq: int) -> None:
    folder = left_spool(tmp_path)
    ahead = Record(RecordKind.batch, b'{"name": "b9"}', 1, 1.0, seq)
    with segments(folder, "rollouts")[0].open("ab") as file:
        file.write(encode_header(header_of(ahead)) + ahead.body)
    dropped: Dropped = []
    spool = adopted(folder, dropped)
    spool.append(RecordKind.batch, b'{"name": "b8"}')
    # Where no higher number is left, what is new is dropped and counted.
    assert names_in(spool) == [*NAMES, "b9", *(["b8"] if not dropped else [])]
    assert len(dropped) == (seq == MAX_SEQ - 1)


# The full disk.


def test_a_stray_header_does_not_let_other_lanes_overtake_what_lies_behind_it(tmp_path: Path) -> None:
    folder = left_spool(tmp_path)
    (path,) = segments(folder, "rollouts")
    raw = path.read_bytes()
    path.write_bytes(raw[2 * RECORD_BYTES :][:HEADER_BYTES] + raw)
    assert sorted(names_in(adopted(folder))) == sorted(NAMES)


def test_a_stray_header_of_what_has_arrived_hides_nothing_behind_it(tmp_path: Path) -> None:
    folder = left_spool(tmp_path)
    spool = adopted(folder)
    for _ in range(2):
        spool.take(0)
        spool.ack()
    spool.release()
    (path,) = segments(folder, "rollouts")
    raw = path.read_bytes()
    path.write_bytes(raw[:RECORD_BYTES] + raw[:HEADER_BYTES] + raw[RECORD_BYTES:])
    assert sorted(names_in(adopted(folder))) == sorted(without("r0", "b1"))


@pytest.mark.parametrize("done", [2, 5, 400])
def test_a_cursor_whose_number_changed_is_not_trusted(tmp_path: Path, done: int) -> None:
    folder = left_spool(tmp_path)
    spool = adopted(folder)
    spool.take(0)
    spool.ack()
    spool.release()
    path = folder / "cursor"
    path.write_bytes(path.read_bytes().replace(b'"done": 1', b'"done": %d' % done))
    # A second shipping of what had arrived is harmless.
    assert names_in(adopted(folder)) == NAMES


def limited(code: str, limit: int = 64 * 1024) -> subprocess.CompletedProcess[str]:
    """Runs code in a process whose files may not grow beyond the limit, which fails as a full disk does."""

    def limit_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    preamble = "from tests.sdk.spools import *\nimport sys\nfrom pathlib import Path\n"
    return subprocess.run(
        [sys.executable, "-c", preamble + textwrap.dedent(code)],
        preexec_fn=limit_files,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )


def test_when_the_disk_is_full_the_oldest_rollouts_go_and_no_call_raises(tmp_path: Path) -> None:
    done = limited(f"""
        import json
        dropped = []
        spool = new_spool(Path({str(tmp_path)!r}), dropped)
        spool.append(RecordKind.start, b"r")
        for number in range(20):
            spool.append(RecordKind.batch, f"b{{number}}".encode().ljust(20_000))
            spool.append(RecordKind.scalars, f"s{{number}}".encode())
        print(json.dumps([[body.strip() for body in bodies(spool)], dropped]))
    """)
    got, dropped = json.loads(done.stdout)
    assert [name for name in got if name[0] != "b"] == ["r", *[f"s{number}" for number in range(20)]]
    batches = [name for name in got if name[0] == "b"]
    assert batches == [f"b{number}" for number in range(20 - len(batches), 20)]
    assert len(batches) + sum(count for _, count, _ in dropped) == 20
    assert {(kind, reason) for kind, _, reason in dropped} == {("batch", "spool_full")}


def test_a_start_that_the_disk_does_not_take_is_kept_in_memory_and_comes_first(tmp_path: Path) -> None:
    done = limited(f"""
        spool = new_spool(Path({str(tmp_path)!r}), [])
        spool.append(RecordKind.start, b"r" * 70_000)
        spool.append(RecordKind.update, b"u")
        spool.append(RecordKind.scalars, b"s")
        print(spool.status().num_records, [body[:1] for body in bodies(spool)], spool.is_drained)
    """)
    assert done.stdout == "3 ['r', 'u', 's'] True\n"


def test_what_was_kept_in_memory_is_written_as_soon_as_there_is_room(tmp_path: Path) -> None:
    spool = new_spool(tmp_path, [])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        spool.append(RecordKind.start, b"r")
        spool.append(RecordKind.update, b"u")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert all(path.stat().st_size == 0 for path in segments(spool.folder))
    spool.append(RecordKind.scalars, b"s")
    spool.release()
    assert bodies(adopted(spool.folder)) == ["r", "u", "s"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this user may not mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_file_system_that_is_full_keeps_the_newest_rollouts_and_every_value(small_disk: Path) -> None:
    dropped: Dropped = []
    spool = new_spool(small_disk, dropped, max_bytes=2**21)
    spool.append(RecordKind.start, b"r")
    for number in range(60):
        spool.append(RecordKind.batch, f"b{number:02d}".encode().ljust(40_000))
        spool.append(RecordKind.scalars, f"s{number:02d}".encode())
    kept = [body.strip() for body in bodies(spool)]
    assert [name for name in kept if name[0] == "s"] == [f"s{number:02d}" for number in range(60)]
    batches = [name for name in kept if name[0] == "b"]
    assert batches == [f"b{number:02d}" for number in range(60 - len(batches), 60)]
    assert len(batches) + sum(count for _, count, _ in dropped) == 60
    assert {reason for _, _, reason in dropped} == {"spool_full"}
    assert len(batches) >= 15
    spool.release()
    assert list(small_disk.iterdir()) == []


def test_a_disk_that_was_full_from_the_start_costs_the_rollouts_only(small_disk: Path) -> None:
    spool = Spool.create(small_disk, meta_of(), max_bytes=2**21, on_drop=lambda *_: None)
    filler = small_disk / "filler"
    with filler.open("wb", buffering=0) as file:
        while True:
            try:
                file.write(bytes(4096))
            except OSError:
                break
    spool.append(RecordKind.start, b"r")
    spool.append(RecordKind.batch, b"b1")
    assert spool.status().dropped == {"batches_spool_full": 1}
    assert [records[0].body for records in takes(spool)] == [b"r"]
    filler.unlink()
    spool.append(RecordKind.batch, b"b2")
    assert bodies(spool) == ["b2"]
    spool.release()
