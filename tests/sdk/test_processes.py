import json
import os
import subprocess
import sys
import textwrap

from .conftest import Recorder


def script(body: str, recorder: Recorder, **environ: str) -> subprocess.CompletedProcess[str]:
    """Runs a training script of its own."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(body)],
        env={**os.environ, "COLLAPSEWATCH_URL": recorder.url, **environ},
        capture_output=True,
        text=True,
        timeout=60,
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
            print(json.dumps([len(run._outbox), run.dropped]), flush=True)
            sys.exit(0)
        _, status = os.waitpid(child, 0)
        run.log_rollouts(3, prompts=["a"], responses=["b"])
        run.finish(0.05)
        print(json.dumps([os.waitstatus_to_exitcode(status), run.dropped]))
        """,
        offline_recorder,
    )
    assert done.returncode == 0, done.stderr
    child, parent = (json.loads(line) for line in done.stdout.splitlines())
    assert child == [0, {"batches_closed": 1, "values_closed": 1}]
    assert parent == [0, {"runs_unsent": 1, "batches_unsent": 2, "updates_unsent": 1}]


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
