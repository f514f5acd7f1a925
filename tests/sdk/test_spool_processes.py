"""The spool under real processes: killed, forked, several at once."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from collapsewatch.spool import RecordKind, Spool

from .spools import MAX_BYTES, Dropped, adopted, bodies, new_spool

LOGGER = """
    import sys
    from pathlib import Path
    from tests.sdk.spools import *
    spool = new_spool(Path(sys.argv[1]), [], writer_id=sys.argv[2])
    kinds = [RecordKind.scalars, RecordKind.batch, RecordKind.scalars, RecordKind.update]
    number = 0
    while True:
        spool.append(kinds[number % 4], (f"{number}:" + "x" * (number * 37 % 50_000)).encode())
        print(number, flush=True)
        number += 1
"""


def process(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def is_live(folder: Path) -> bool:
    spool = Spool.adopt(folder, max_bytes=MAX_BYTES, on_drop=lambda *_: None)
    if spool is not None:
        spool.release()
    return spool is None


@pytest.mark.parametrize("seed", range(8))
def test_what_a_call_returned_from_survives_sigkill_at_any_moment(tmp_path: Path, seed: int) -> None:
    with process(LOGGER, tmp_path, "w") as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "0\n"
        # The moment of the kill is the test's input: anywhere in the child's loop.
        time.sleep(random.Random(seed).uniform(0.0, 0.15))
        child.kill()
        told = [0, *map(int, child.stdout.read().splitlines())]
    dropped: Dropped = []
    spool = adopted(tmp_path / "r" / "w", dropped)
    numbers = [int(body.partition(":")[0]) for body in bodies(spool)]
    assert numbers == list(range(len(numbers)))
    # One more may have been written whose number was not told any more.
    assert len(told) <= len(numbers) <= len(told) + 1
    assert dropped == []
    spool.release()
    assert list(tmp_path.iterdir()) == []


def test_a_shipper_killed_between_two_requests_ships_again_only_what_was_not_acknowledged(
    tmp_path: Path,
) -> None:
    spool = new_spool(tmp_path, [])
    for number in range(500):
        spool.append(RecordKind.batch, str(number).encode())
    spool.release()
    shipper = """
        import sys
        from pathlib import Path
        from tests.sdk.spools import *
        spool = adopted(Path(sys.argv[1]))
        while records := spool.take(0):
            print(records[0].body.decode(), flush=True)
            spool.ack()
    """
    with process(shipper, spool.folder) as child:
        assert child.stdout is not None
        shipped = [int(child.stdout.readline()) for _ in range(20)]
        child.kill()
        shipped += map(int, child.stdout.read().split())
    assert shipped == list(range(len(shipped)))
    left = [int(body) for body in bodies(adopted(spool.folder))]
    assert left == list(range(500))[-len(left) :] if left else len(shipped) == 500
    # The last one told was perhaps not acknowledged yet.
    assert len(shipped) - 1 <= 500 - len(left) <= len(shipped)


def test_two_processes_of_a_run_have_a_folder_each(tmp_path: Path) -> None:
    with process(LOGGER, tmp_path, "w1") as one, process(LOGGER, tmp_path, "w2") as two:
        for child in (one, two):
            assert child.stdout is not None
            for number in range(50):
                assert child.stdout.readline() == f"{number}\n"
        assert is_live(tmp_path / "r" / "w1")
        assert is_live(tmp_path / "r" / "w2")
        one.kill()
        two.kill()
    for writer in ("w1", "w2"):
        assert len(bodies(adopted(tmp_path / "r" / writer))) >= 50


def test_of_several_processes_that_want_a_leftover_one_gets_it(tmp_path: Path) -> None:
    spool = new_spool(tmp_path, [])
    for number in range(100):
        spool.append(RecordKind.batch, str(number).encode())
    spool.release()
    shipper = """
        import sys
        from pathlib import Path
        from tests.sdk.spools import *
        print("ready", flush=True)
        sys.stdin.readline()
        spool = Spool.adopt(Path(sys.argv[1]), max_bytes=MAX_BYTES, on_drop=lambda *_: None)
        if spool is not None:
            print(*bodies(spool))
            spool.release()
    """
    command = [sys.executable, "-c", textwrap.dedent(shipper), str(spool.folder)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    answers = []
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    for child in children:
        answers.append(child.communicate(timeout=60)[0].split())
        assert child.returncode == 0
    assert sorted((number for answer in answers for number in answer), key=int) == [
        str(number) for number in range(100)
    ]
    assert not spool.folder.exists()


def test_the_lock_is_free_when_the_process_is_gone_however_it_ends(tmp_path: Path) -> None:
    with process(LOGGER, tmp_path, "w") as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert is_live(tmp_path / "r" / "w")
        child.send_signal(signal.SIGTERM)
        child.stdout.read()
    assert not is_live(tmp_path / "r" / "w")


FORKING = """
    import os, sys
    from pathlib import Path
    from tests.sdk.spools import *
    spool = new_spool(Path(sys.argv[1]), [])
    spool.append(RecordKind.batch, b"parent 1")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        spool.leave_to_parent()
        spool.append(RecordKind.batch, b"child")
        spool.leave_to_parent()
        assert spool.take(0) == []
        spool.ack()
        spool.close()
        spool.release()
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    os.close(reading)
    spool.append(RecordKind.batch, b"parent 2")
"""


def test_a_forked_child_touches_nothing(tmp_path: Path) -> None:
    code = FORKING + "    os.close(writing)\n    os.wait()\n    print(bodies(spool), spool.is_drained)"
    with process(code, tmp_path) as parent:
        out, error = parent.communicate(timeout=60)
    assert out == "['parent 1', 'parent 2'] True\n", error


def test_a_child_that_outlives_its_parent_does_not_hold_the_lock(tmp_path: Path) -> None:
    code = FORKING + "    print(child, flush=True)\n    os.kill(os.getpid(), 9)"
    with process(code, tmp_path) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        parent.wait(60)
        # The pipe's other end died with the parent, so the child ends too; the lock must not wait for it.
        deadline = time.monotonic() + 60
        while is_live(tmp_path / "r" / "w"):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    assert child > 0
    assert bodies(adopted(tmp_path / "r" / "w")) == ["parent 1", "parent 2"]


def test_a_released_lock_is_free_although_a_forked_child_has_it_open(tmp_path: Path) -> None:
    spool = new_spool(tmp_path, [])
    spool.append(RecordKind.batch, b"b")
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False, pass_fds=()
    ) as child:
        spool.release()
        assert not is_live(spool.folder)
        child.communicate(b"\n", timeout=60)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
def test_a_read_only_spool_is_shipped_and_stays() -> None:
    with tempfile.TemporaryDirectory() as root:
        spool = new_spool(Path(root), [])
        for number in range(3):
            spool.append(RecordKind.batch, str(number).encode())
        spool.release()
        for path in (Path(root), *Path(root).rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        reader = """
            import os, sys
            from pathlib import Path
            from tests.sdk.spools import *
            os.setuid(65534)
            spool = adopted(Path(sys.argv[1]))
            print(bodies(spool), spool.is_drained)
            spool.release()
        """
        with process(reader, spool.folder) as child:
            out, error = child.communicate(timeout=60)
        assert out == "['0', '1', '2'] True\n", error
        assert len(bodies(adopted(spool.folder))) == 3
