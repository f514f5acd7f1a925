"""`collapsewatch sync` as its user runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from collapsewatch.cli import app

from .conftest import Answer, Recorder, Seen
from .spools import adopted, bodies, left_run, segments


def sync(*arguments: object, **environ: str) -> Result:
    return CliRunner().invoke(app, ["sync", *map(str, arguments)], env=environ)


def keys(recorder: Recorder) -> set[str | None]:
    return {seen.headers.get("authorization") for seen in recorder.seen}


def test_leftovers_are_sent_and_summed_up(tmp_path: Path, recorder: Recorder) -> None:
    left_run(tmp_path, recorder.url, run_id="r1")
    left_run(tmp_path, recorder.url, run_id="r2")
    done = sync(tmp_path)
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "project/name (r1/w): sent batches 3, runs 1, values 6",
        "project/name (r2/w): sent batches 3, runs 1, values 6",
        "sent: runs 2, batches 6, values 12; refused: nothing; left: 0 records in 0 folders",
    ]
    assert len(recorder.batches()) == 6
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_it_is_the_users_own_spool(recorder: Recorder) -> None:
    left_run(Path(os.environ["COLLAPSEWATCH_HOME"]) / "spool", recorder.url)
    done = sync()
    assert done.exit_code == 0
    assert len(recorder.batches()) == 3


def test_the_spool_of_the_environment_is_taken(tmp_path: Path, recorder: Recorder) -> None:
    left_run(tmp_path / "elsewhere", recorder.url)
    assert sync(COLLAPSEWATCH_SPOOL=str(tmp_path / "elsewhere")).exit_code == 0
    assert len(recorder.batches()) == 3


@pytest.mark.parametrize("floor", [0, 1])
def test_a_writers_or_a_runs_folder_will_do(tmp_path: Path, recorder: Recorder, floor: int) -> None:
    folder = left_run(tmp_path, recorder.url)
    other = left_run(tmp_path, recorder.url, run_id="other")
    assert sync([folder, folder.parent][floor]).exit_code == 0
    assert len(recorder.batches()) == 3
    assert other.exists()


def test_nothing_to_do_is_fine(tmp_path: Path) -> None:
    done = sync(tmp_path)
    assert (done.exit_code, done.stdout) == (0, f"nothing waits in {tmp_path}\n")


def test_a_folder_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    done = sync(tmp_path / "nowhere")
    assert done.exit_code == 1
    assert done.stderr == f"no such folder: {tmp_path / 'nowhere'}\n"


def test_a_run_that_still_logs_is_named_and_skipped(tmp_path: Path, recorder: Recorder) -> None:
    live = adopted(left_run(tmp_path, recorder.url))
    done = sync(tmp_path)
    assert done.exit_code == 0
    assert done.stdout.splitlines()[0] == "r/w: skipped, a running process has it"
    assert done.stdout.splitlines()[-1].endswith("; 1 in use")
    assert recorder.seen == []
    assert len(bodies(live)) == 7


def test_a_server_that_is_away_leaves_everything_where_it_is(
    tmp_path: Path, offline_recorder: Recorder
) -> None:
    left_run(tmp_path, offline_recorder.url, writer_id="w1")
    left_run(tmp_path, offline_recorder.url, writer_id="w2")
    done = sync(tmp_path, "--timeout", 1)
    assert done.exit_code == 1
    first, second, summary = done.stdout.splitlines()
    assert first.endswith(f"left 7 records (0.0 MB): {offline_recorder.url} took nothing for 1 s")
    assert second.endswith(f"left 7 records (0.0 MB): {offline_recorder.url} takes nothing")
    assert summary.endswith("left: 14 records in 2 folders")
    assert "will try again" in done.stderr
    offline_recorder.up()
    assert sync(tmp_path).exit_code == 0
    assert len(offline_recorder.batches()) == 6


def test_what_the_server_refuses_is_told_with_its_reason(tmp_path: Path, recorder: Recorder) -> None:
    def answers(seen: Seen) -> Answer | None:
        is_refused = seen.path.endswith("/batches") and seen.body["step"] == 1
        return Answer(422, body='{"error": {"message": "too odd"}}') if is_refused else None

    left_run(tmp_path, recorder.url)
    recorder.answers = answers
    done = sync(tmp_path)
    assert done.exit_code == 0
    summary, reason = done.stdout.splitlines()[-2:]
    assert "batches 2" in summary
    assert "refused: batches rejected 1" in summary
    assert reason == "  batches rejected by the server: 422: too odd"


def test_a_damaged_or_nameless_folder_is_told_and_kept(tmp_path: Path, recorder: Recorder) -> None:
    folder = left_run(tmp_path, recorder.url, run_id="r1")
    (folder / "meta.json").unlink()
    left_run(tmp_path, recorder.url, run_id="r2")
    done = sync(tmp_path)
    assert done.exit_code == 1
    assert "r1/w: left as it is" in done.stdout
    assert "meta.json is unreadable" in done.stdout
    assert segments(folder)
    assert len(recorder.batches()) == 3


def test_another_server_can_be_named(tmp_path: Path, recorder: Recorder) -> None:
    left_run(tmp_path, "http://gone.example:7788")
    assert sync(tmp_path, "--url", recorder.url + "/").exit_code == 0
    assert len(recorder.batches()) == 3


def test_the_key_comes_from_the_environment(tmp_path: Path, recorder: Recorder) -> None:
    left_run(tmp_path, recorder.url)
    sync(tmp_path, COLLAPSEWATCH_URL=recorder.url, COLLAPSEWATCH_API_KEY="cw_env")
    assert keys(recorder) == {"Bearer cw_env"}


def test_a_key_of_one_server_does_not_go_to_another(tmp_path: Path, recorder: Recorder) -> None:
    left_run(tmp_path, recorder.url)
    sync(tmp_path, COLLAPSEWATCH_URL="http://other:7788", COLLAPSEWATCH_API_KEY="cw_env")
    assert keys(recorder) == {None}


def test_the_variable_with_the_key_can_be_named(tmp_path: Path, recorder: Recorder) -> None:
    left_run(tmp_path, recorder.url)
    sync(tmp_path, "--api-key-env", "MY_KEY", MY_KEY="cw_mine", COLLAPSEWATCH_API_KEY="cw_env")
    assert keys(recorder) == {"Bearer cw_mine"}
    done = sync(tmp_path, "--api-key-env", "NO_KEY")
    assert done.exit_code == 1
    assert "no variable NO_KEY" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_somebody_elses_spool_gets_no_key_unless_the_server_is_named(
    tmp_path: Path, recorder: Recorder
) -> None:
    folder = left_run(tmp_path, recorder.url)
    os.chown(folder, 65534, 65534)
    done = sync(tmp_path, COLLAPSEWATCH_API_KEY="cw_env")
    assert done.exit_code == 1
    assert f"say --url {recorder.url}" in done.stdout
    assert recorder.seen == []
    assert sync(tmp_path, "--url", recorder.url, COLLAPSEWATCH_API_KEY="cw_env").exit_code == 0


def test_the_command_needs_no_server_extra(tmp_path: Path, recorder: Recorder) -> None:
    left_run(tmp_path, recorder.url)
    heavy = ["fastapi", "sqlalchemy", "numpy", "torch", "redis", "uvicorn", "rich.progress"]
    code = f"import sys\nfor name in {heavy}: sys.modules[name] = None\n"
    code += (
        f"sys.argv = ['collapsewatch', 'sync', {str(tmp_path)!r}]\nfrom collapsewatch.cli import main\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(recorder.batches()) == 3
