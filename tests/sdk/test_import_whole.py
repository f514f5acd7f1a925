"""The commands as a user types them, with a real server and worker: files in, alerts out."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from collapsewatch.asking.reader import answers
from tests.integration.service import Service, free_port
from tests.sdk.importing import DATA, RECORDED, write_rows

pytestmark = pytest.mark.integration
COMMAND = [sys.executable, "-m", "collapsewatch"]
HEALTHY = RECORDED.with_name("filtered_run.jsonl.gz")


def environment_of(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COLLAPSEWATCH_")}
    return {
        **kept,
        "COLLAPSEWATCH_HOME": str(home),
        "COLLAPSEWATCH_WORKER_DEVICE": "cpu",
        "OMP_NUM_THREADS": "1",
    }


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    home = tmp_path_factory.mktemp("service")
    environment = environment_of(home)
    environment["COLLAPSEWATCH_CHECKPOINT_ROOTS"] = str(DATA.parent / "golden" / "model_cases")
    running = Service(home, environment, scaled_out=False)
    try:
        running.start()
        yield running
    finally:
        running.stop()


def command(environment: dict[str, str], *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def run_named(service: Service, name: str) -> dict[str, Any]:
    [run] = [run for run in service.get("/runs")["runs"] if run["name"] == name]
    detail: dict[str, Any] = service.get(f"/runs/{run['run_id']}")
    return detail


def test_a_recorded_collapse_is_imported_alone_and_raises_its_alert(tmp_path: Path) -> None:
    # No server runs for this home: one is started for the import, and one for the check.
    environment = environment_of(tmp_path / "home")
    environment["COLLAPSEWATCH_PORT"] = str(free_port())
    done = command(environment, "import", RECORDED)
    assert done.returncode == 0, done.stderr
    assert "default/collapsing_run: 50 steps sent, 6,400 rollouts read, 50 batches scored" in done.stdout
    url = json.loads((tmp_path / "home/credentials.json").read_text())["url"]
    assert not answers(url)
    checked = command(environment, "check", "collapsing_run", "--json")
    assert checked.returncode == 3, checked.stderr
    finding = json.loads(checked.stdout)
    assert (finding["verdict"], finding["num_scored"], finding["project"]) == ("collapse", 50, "default")
    # The trial of the rule on the whole of this run has its critical alert at step 37, without the second
    # condition, which waits for three evaluations together.
    assert 35 <= finding["step"] <= 45
    assert not answers(url)
    assert command(environment, "check", "no such run").returncode == 2


def test_the_same_file_again_sends_nothing(service: Service) -> None:
    first = command(service.environment, "import", HEALTHY, "--name", "healthy")
    assert first.returncode == 0, first.stderr
    run = run_named(service, "healthy")
    assert (run["state"], run["jobs"]["done"], run["last_step"]) == ("finished", 50, 49)
    assert run["scorer"]["label"] == "lexical group_centroid"
    again = command(service.environment, "import", HEALTHY, "--name", "healthy")
    assert again.returncode == 0, again.stderr
    assert "0 steps sent, 50 were there already" in again.stdout
    after = run_named(service, "healthy")
    assert after["jobs"] == run["jobs"]
    assert after["state"] == "finished"
    assert len(after["attempts"]) == 1
    checked = command(service.environment, "check", "healthy")
    assert (checked.returncode, checked.stdout) == (0, "default/healthy: no critical alert\n"), checked.stderr
    assert "heard from last" not in checked.stderr


def test_an_import_that_is_killed_goes_on_where_it_was(service: Service, tmp_path: Path) -> None:
    # What the killed process leaves in the temporary folder goes with the test.
    environment = {**service.environment, "TMPDIR": str(tmp_path)}
    arguments = [*COMMAND, "import", str(RECORDED), "--name", "killed"]
    with subprocess.Popen(arguments, env=environment, stderr=subprocess.DEVNULL) as process:
        service.wait_until(
            lambda: any(
                run["name"] == "killed" and run["last_step"] is not None
                for run in service.get("/runs")["runs"]
            ),
            "the first steps are there",
        )
        process.send_signal(signal.SIGKILL)
    num_before = sum(run_named(service, "killed")["jobs"].values())
    assert 0 < num_before <= 50
    done = command(service.environment, "import", RECORDED, "--name", "killed")
    assert done.returncode == 0, done.stderr
    run = run_named(service, "killed")
    assert (run["jobs"]["done"], sum(run["jobs"].values()), run["state"]) == (50, 50, "finished")


def test_a_folder_is_followed_while_it_fills(service: Service, tmp_path: Path) -> None:
    rows = [
        {
            "input": f"prompt {n % 3} <think>",
            "output": f"reason {n % 3} {n} </think> go",
            "score": n % 2,
            "step": 0,
        }
        for n in range(12)
    ]
    folder = tmp_path / "rollout_data"
    folder.mkdir()
    arguments = ["import", str(folder), "--name", "followed", "--follow", "--until-idle", "120"]
    with subprocess.Popen([*COMMAND, *arguments], env=service.environment, stderr=subprocess.PIPE) as process:
        for number in range(1, 5):
            write_rows(folder / f"{number}.jsonl", [{**row, "step": number} for row in rows])
            time.sleep(0.2)

        def has_all_but_the_newest() -> bool:
            found = [run for run in service.get("/runs")["runs"] if run["name"] == "followed"]
            return bool(found) and found[0]["last_step"] is not None and found[0]["last_step"] >= 3

        service.wait_until(has_all_but_the_newest, "the finished steps are there")
        assert run_named(service, "followed")["state"] == "running"
        # The first Ctrl-C ends the following; what is there is still sent and scored.
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0, process.stderr.read() if process.stderr else ""
    run = run_named(service, "followed")
    assert (run["last_step"], run["jobs"]["done"], run["state"]) == (4, 4, "finished")


def test_a_reference_model_scores_what_was_imported(service: Service, tmp_path: Path) -> None:
    path = write_rows(
        tmp_path / "tokens.jsonl",
        [
            {
                "step": 0,
                "group_id": f"g{n % 4}",
                "prompt_ids": [1 + n % 4, 7, 8],
                "response_ids": [9 + n % 5, 3, 4],
            }
            for n in range(16)
        ],
    )
    model = DATA.parent / "golden/model_cases/tiny_llama"
    done = command(
        service.environment, "import", path, "--model", model, "--whole-response", "--name", "by model"
    )
    assert done.returncode == 0, done.stderr
    run = run_named(service, "by model")
    assert run["scorer"]["kind"] == "reference"
    assert "mi_seq" in run["metrics"]["first_turn"]
    assert run["jobs"]["done"] == 1


@pytest.mark.parametrize(
    ("folder", "num_steps", "num_rollouts"),
    [("verl_v0", 3, 48), ("verl_v1", 3, 48), ("trl", 3, 20), ("ragen", 2, 32), ("skyrl", 3, 48),
     ("nemo_rl", 2, 32), ("prime_rl", 3, 36)],
)  # fmt: skip
def test_every_format_arrives_and_is_scored(
    service: Service, folder: str, num_steps: int, num_rollouts: int
) -> None:
    done = command(service.environment, "import", DATA / folder, "--strict")
    assert done.returncode == 0, done.stderr
    assert f"{num_steps} steps sent, {num_rollouts} rollouts read" in done.stdout
    run = run_named(service, folder)
    assert (run["jobs"]["done"], sum(run["jobs"].values())) == (num_steps, num_steps)
    # TRL's rollouts are those of a random model; a few of its reasonings end with a tag.
    assert "retrieval_accuracy" in run["latest"] or folder == "trl"


def test_bad_rows_are_counted_and_strict_stops_at_the_first(service: Service, tmp_path: Path) -> None:
    row = {"step": 0, "group": "g", "prompt": "p <think>", "response": "a </think> b"}
    path = write_rows(tmp_path / "dirty.jsonl", [row, "{", row])
    strict = command(service.environment, "import", path, "--strict")
    assert strict.returncode == 1
    assert f"collapsewatch import: {path}:2: not JSON" in strict.stderr
    done = command(service.environment, "import", path)
    assert done.returncode == 0
    assert "2 rollouts read, 1 rows skipped" in done.stdout
    assert f"{path}:2: skipped: not JSON" in done.stderr


def test_a_named_server_that_is_away_is_not_replaced_by_another(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    environment = environment_of(tmp_path / "home")
    done = command(environment, "import", RECORDED, "--url", url)
    assert done.returncode == 1
    assert f"no server answers at {url}" in done.stderr
    assert command(environment, "check", "any", "--url", url).returncode == 2
    assert not (tmp_path / "home" / "collapsewatch.db").exists()


def test_a_key_of_nobody_ends_the_import(service: Service) -> None:
    environment = {**service.environment, "COLLAPSEWATCH_URL": service.url, "MY_KEY": "cw_ingest_" + "x" * 40}
    done = command(environment, "import", RECORDED, "--name", "keyless", "--api-key-env", "MY_KEY")
    assert done.returncode == 1
    assert "nothing more will be sent" in done.stderr
    assert not [run for run in service.get("/runs")["runs"] if run["name"] == "keyless"]
    missing = command(environment, "import", RECORDED, "--api-key-env", "NO_SUCH")
    assert "no variable NO_SUCH" in missing.stderr


def test_two_imports_at_once_share_the_service_that_the_first_started(tmp_path: Path) -> None:
    environment = environment_of(tmp_path / "home")
    arguments = [[*COMMAND, "import", str(path)] for path in (RECORDED, HEALTHY)]
    processes = [
        subprocess.Popen(each, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for each in arguments
    ]
    results = [process.communicate(timeout=200) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], results
    assert sum("starting one in" in errors for _, errors in results) == 1
    assert all("50 batches scored" in told for told, _ in results)
    url = json.loads((tmp_path / "home/credentials.json").read_text())["url"]
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/healthz")
