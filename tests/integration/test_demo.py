"""The demo as a user starts it, in a short form: real training, real scoring, and nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.integration.service import free_port

pytestmark = pytest.mark.integration


def start_demo(home: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "collapsewatch", "demo", "--no-browser", "--home", str(home), *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COLLAPSEWATCH_")}
    with (home / "demo.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)


def processes_of(home: Path) -> list[str]:
    """Command lines of the processes that were told about this home folder."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(home) in command:
                found.append(command)
    return found


def test_the_demo_trains_scores_and_tells_two_runs_apart(tmp_path: Path) -> None:
    report = tmp_path / "demo.json"
    options = ["--steps", "45", "--port", "0", "--exit-when-done", "--json", str(report)]
    demo = start_demo(tmp_path, *options)
    try:
        code = demo.wait(560)
    finally:
        demo.kill()
    assert code == 0, (tmp_path / "demo.log").read_text(errors="replace")[-3000:]

    told = json.loads(report.read_text())
    plain, filtered = (next(r for r in told["runs"] if r["variant"] == v) for v in ("plain", "filtered"))
    for run in (plain, filtered):
        assert run["jobs"] == {"queued": 0, "leased": 0, "done": 45, "dead": 0, "thinned": 0}
        assert run["scorer"]["is_policy"]
        assert run["first_metrics"]["retrieval_accuracy"] > 0.7
    assert {alert["severity"] for alert in plain["alerts"]} >= {"warning"}
    assert plain["last_metrics"]["retrieval_accuracy"] < 0.6 < filtered["last_metrics"]["retrieval_accuracy"]
    assert not [alert for alert in filtered["alerts"] if alert["severity"] != "info"]
    # What the usual monitors look at does not show it.
    entropy = plain["last_metrics"]["conditional_entropy"] / plain["first_metrics"]["conditional_entropy"]
    assert 0.8 < entropy < 1.2
    assert processes_of(tmp_path) == []


def test_ctrl_c_stops_everything_the_demo_started(tmp_path: Path) -> None:
    port = free_port()
    demo = start_demo(tmp_path, "--port", str(port))
    url = f"http://127.0.0.1:{port}/api/v1/runs"

    def has_run() -> bool:
        try:
            return any(run["last_step"] is not None for run in httpx.get(url, timeout=10).json()["runs"])
        except httpx.HTTPError:
            return False

    try:
        end = time.monotonic() + 400
        while not has_run():
            assert demo.poll() is None, (tmp_path / "demo.log").read_text(errors="replace")[-3000:]
            assert time.monotonic() < end, "no run within 400 s"
            time.sleep(0.5)
        assert processes_of(tmp_path)
        demo.send_signal(signal.SIGINT)
        demo.wait(90)
    finally:
        demo.kill()
    end = time.monotonic() + 60
    while processes_of(tmp_path) and time.monotonic() < end:
        time.sleep(0.1)
    assert processes_of(tmp_path) == []
