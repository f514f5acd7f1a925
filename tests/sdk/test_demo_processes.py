import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collapsewatch.demo.home import DemoHome
from collapsewatch.demo.processes import Child, ChildFailedError, event_of, start_child, stop_children
from collapsewatch.demo.service import StartingService, child_environment, usable_port
from collapsewatch.demo.timings import Timings

Start = Callable[..., Child]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts Python code as a child of the demo; nothing of it outlives the test."""
    children: list[Child] = []

    def start_code(code: str, on_line: Callable[[str], None] = lambda line: None) -> Child:
        (tmp_path / "scratch.py").write_text(code, encoding="utf-8")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        child = start_child(
            "the child",
            ["scratch"],
            environment=environment,
            log_path=tmp_path / "logs" / "child.log",
            on_line=on_line,
        )
        children.append(child)
        return child

    yield start_code
    stop_children(children)


def is_alive(pid: int) -> bool:
    """Whether it runs; one that has ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_is_heard_line_by_line_and_ends_well(start: Start, wait_until: Callable[..., None]) -> None:
    lines: list[str] = []
    child = start("print('one'); print('two')", lines.append)
    wait_until(child.check)
    wait_until(lambda: lines == ["one", "two"])


def test_a_failed_child_is_told_with_its_last_lines(start: Start, wait_until: Callable[..., None]) -> None:
    child = start("raise SystemExit('the disk is full')")
    with pytest.raises(ChildFailedError, match=r"(?s)the child ended with code 1.*the disk is full"):
        wait_until(child.check)


def test_stopping_ends_what_the_child_started_too(start: Start, wait_until: Callable[..., None]) -> None:
    lines: list[str] = []
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "code = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'\n"
        "grandchild = subprocess.Popen([sys.executable, '-c', code])\n"
        "print(grandchild.pid)\n"
        "sys.stdout.flush()\n"
        "time.sleep(600)\n"
    )
    child = start(code, lines.append)
    wait_until(lambda: lines)
    grandchild = int(lines[0])
    assert is_alive(grandchild)
    stop_children([child])
    assert child.process.returncode == 0
    wait_until(lambda: not is_alive(grandchild))


def test_stopping_a_child_that_has_ended_is_harmless(start: Start, wait_until: Callable[..., None]) -> None:
    child = start("pass")
    wait_until(child.check)
    stop_children([child, child])


@pytest.mark.skipif(sys.platform != "linux", reason="the leash is a Linux feature")
def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    (tmp_path / "sleeper.py").write_text("import time; time.sleep(600)", encoding="utf-8")
    code = (
        "import os, sys, time\n"
        "from pathlib import Path\n"
        "from collapsewatch.demo.processes import start_child\n"
        f"log = Path({str(tmp_path)!r}) / 'log'\n"
        "child = start_child('x', ['sleeper'], environment=os.environ, log_path=log, on_line=print)\n"
        "print(child.process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        # Only once it is the sleeper itself does the leash hold.
        wait_until(lambda: b"sleeper" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"))
        wait_until(lambda: b"leash" not in Path(f"/proc/{pid}/cmdline").read_bytes())
        parent.send_signal(signal.SIGKILL)
    wait_until(lambda: not is_alive(pid))


def test_only_events_are_taken_for_events() -> None:
    assert event_of('{"event": "step", "done": 3}') == {"event": "step", "done": 3}
    for line in ("", "a warning", "3", "[1]", '{"done": 3}'):
        assert event_of(line) is None


def test_children_see_the_demos_service_and_no_other() -> None:
    environment = child_environment(
        Path("/demo"),
        {
            "PATH": "/bin",
            "COLLAPSEWATCH_URL": "https://watch.example.org",
            "COLLAPSEWATCH_API_KEY": "k",
            "COLLAPSEWATCH_DATABASE_URL": "postgresql://db/x",
        },
    )
    assert environment["PATH"] == "/bin"
    ours = {name for name in environment if name.startswith("COLLAPSEWATCH_")}
    assert ours == {"COLLAPSEWATCH_HOME", "COLLAPSEWATCH_WORKER_DEVICE"}
    assert environment["COLLAPSEWATCH_HOME"] == "/demo"


def test_a_port_that_was_asked_for_is_used() -> None:
    assert usable_port(0) == 0
    assert usable_port(8123) == 8123
    assert usable_port(None) in (0, 7788)


def test_a_service_that_cannot_start_says_why(tmp_path: Path) -> None:
    starting = StartingService(tmp_path, 99_999, tmp_path / "checkpoints")
    with pytest.raises(ChildFailedError, match=r"(?s)service ended with code .*65535"):
        starting.wait()
    stop_children([starting.child])


def test_a_home_is_fresh_locked_and_left_without_checkpoints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_HOME", str(tmp_path))
    with DemoHome() as home:
        assert home.folder.parent == tmp_path / "demo"
        (home.checkpoints / "step-00000").mkdir()
        (home.folder / "collapsewatch.db").touch()
        with pytest.raises(BlockingIOError), DemoHome(home.folder):
            pass
        assert (home.checkpoints / "step-00000").is_dir()
    assert not home.checkpoints.exists()
    assert (home.folder / "collapsewatch.db").exists()


def test_the_next_demo_frees_what_a_killed_one_left_and_spares_a_living_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_HOME", str(tmp_path))
    killed = tmp_path / "demo" / "killed"
    (killed / "checkpoints" / "plain").mkdir(parents=True)
    (killed / "demo.lock").touch()
    with DemoHome(tmp_path / "demo" / "living") as living:
        (living.checkpoints / "plain").mkdir()
        DemoHome()
        assert not (killed / "checkpoints").exists()
        assert (living.checkpoints / "plain").is_dir()


def test_the_first_time_counts_and_later_ones_do_not() -> None:
    timings = Timings()
    timings.service_is_up()
    timings.mark("trained_seconds")
    first = timings.as_json([])
    timings.mark("trained_seconds")
    assert timings.as_json([]) == first
    assert timings.as_json([None, 31.0, 12.5])["first_alert_seconds"] == 12.5
    assert json.loads(json.dumps(first))["first_alert_seconds"] is None
