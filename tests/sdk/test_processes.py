import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable

import pytest

import collapsewatch
from collapsewatch.boundary import Boundary
from collapsewatch.leftovers import ship_leftover
from collapsewatch.settings import Settings, home_folder

from .conftest import Recorder


def script(body: str, recorder: Recorder, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a training script of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body)],
        env={**os.environ, "COLLAPSEWATCH_URL": recorder.url, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_script_that_just_ends_has_sent_everything(recorder: Recorder) -> None:
    done = script(
        """
        import collapsewatch
        run = collapsewatch.init("p", "n")
        run.log_rollouts(1, prompts=["a"], responses=["b"])
        """,
        recorder,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(recorder.batches()) == 1
    assert recorder.updates()[-1].state == "finished"


def test_a_script_that_dies_of_an_error_leaves_a_failed_run(recorder: Recorder) -> None:
    done = script(
        """
        import collapsewatch
        run = collapsewatch.init("p", "n")
        raise ValueError("training diverged")
        """,
        recorder,
    )
    assert done.returncode == 1
    assert "training diverged" in done.stderr
    assert recorder.updates()[-1].state == "failed"


def test_a_forked_child_sends_nothing_and_the_parent_everything(offline_recorder: Recorder) -> None:
    # The server comes up only after the child is gone: what the child held, it would have had to send itself.
    done = script(
        """
        import json, os, sys, collapsewatch
        run = collapsewatch.init("p", "n")
        run.log_rollouts(1, prompts=["a"], responses=["b"])
        child = os.fork()
        if child == 0:
            run.log_rollouts(2, prompts=["a"], responses=["child"])
            run.log({"a": 1})
            print(json.dumps(run.dropped), flush=True)
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        run.log_rollouts(3, prompts=["a"], responses=["b"])
        print(json.dumps([os.waitstatus_to_exitcode(status), run._delivery.spool.status().num_records]))
        run.finish(0.05)
        """,
        offline_recorder,
    )
    assert done.returncode == 0, done.stderr
    child, parent = (json.loads(line) for line in done.stdout.splitlines())
    assert child == {"batches_closed": 1, "values_closed": 1}
    assert parent == [0, 3]


def test_a_forked_child_does_not_finish_its_parents_run(recorder: Recorder) -> None:
    done = script(
        """
        import os, sys, collapsewatch
        with collapsewatch.init("p", "n") as run:
            run.log_rollouts(1, prompts=["a"], responses=["b"])
            if os.fork() == 0:
                sys.exit(3)
            os.wait()
            run.log_rollouts(2, prompts=["a"], responses=["b"])
        """,
        recorder,
    )
    assert done.returncode == 0, done.stderr
    assert len(recorder.of("/runs")) == 1
    assert [batch.step for batch in recorder.batches()] == [1, 2]
    assert [update.state for update in recorder.updates()] == ["finished"]


def test_a_child_that_outlives_its_parent_does_not_hold_the_parents_spool(
    offline_recorder: Recorder, wait_until: Callable[..., None]
) -> None:
    done = script(
        """
        import os, time, collapsewatch
        run = collapsewatch.init("p", "n")
        run.log({"a": 1})
        child = os.fork()
        if child == 0:
            os.close(1), os.close(2)
            time.sleep(600)
            os._exit(0)
        print(child, flush=True)
        os._exit(0)
        """,
        offline_recorder,
    )
    child = int(done.stdout)
    try:
        (folder,) = (home_folder() / "spool").glob("*/*")
        offline_recorder.up()
        leftover = ship_leftover(folder, Settings(url=offline_recorder.url), Boundary(strict=True))
        assert leftover.state == "shipped"
        assert offline_recorder.scalars() == {0: {"a": 1}}
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_child_may_open_a_run_of_its_own(recorder: Recorder) -> None:
    done = script(
        """
        import os, sys, collapsewatch
        with collapsewatch.init("p", "parent") as run:
            if os.fork() == 0:
                with collapsewatch.init("p", "child") as own:
                    own.log({"a": 2})
                sys.exit(0)
            os.wait()
            run.log({"a": 1})
        """,
        recorder,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(seen.body["name"] for seen in recorder.of("/runs")) == ["child", "parent"]
    assert len(recorder.of("/scalars")) == 2


@pytest.mark.parametrize("is_away", [False, True])
def test_a_killed_trainer_loses_nothing_that_a_call_returned_from(
    offline_recorder: Recorder, wait_until: Callable[..., None], is_away: bool
) -> None:
    if not is_away:
        offline_recorder.up()
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            textwrap.dedent(
                """
                import itertools, collapsewatch
                run = collapsewatch.init("p", "n", run_id="r")
                for step in itertools.count():
                    run.log_rollouts(step, prompts=["a"] * 8, responses=["b"] * 8)
                    run.log({"loss": step}, step=step)
                    print(step, flush=True)
                """
            ),
        ],
        env={**os.environ, "COLLAPSEWATCH_URL": offline_recorder.url},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout as lines:
        for line in lines:
            if int(line) == 60:
                process.kill()
        last = int(line)
    process.wait()
    if is_away:
        offline_recorder.up()
    # The next start of the training finds what is left; nobody calls for it.
    with collapsewatch.init("p", "n", run_id="r", url=offline_recorder.url):
        wait_until(lambda: len(list((home_folder() / "spool").glob("*/*"))) == 1, seconds=60)
    assert last >= 60
    arrived = {batch.step for batch in offline_recorder.batches()}
    assert arrived >= set(range(last + 1))
    assert set(offline_recorder.scalars()) >= set(range(last + 1))


def test_an_exit_while_the_server_is_away_is_bounded_and_says_where_the_rest_is(
    offline_recorder: Recorder,
) -> None:
    done = script(
        """
        import collapsewatch, collapsewatch.lifetime
        collapsewatch.lifetime.EXIT_SECONDS = 0.2
        run = collapsewatch.init("p", "n")
        run.log({"a": 1})
        """,
        offline_recorder,
    )
    assert done.returncode == 0
    assert done.stderr.count("collapsewatch sync ") == 1
    assert "Traceback" not in done.stderr
