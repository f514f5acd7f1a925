import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import collapsewatch
from collapsewatch.contracts.runs import AttemptStart, RunStart
from collapsewatch.launcher import Launch, identity, launch_of, process_start

from .conftest import Recorder

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "TORCHELASTIC_RESTART_COUNT": "0",
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_WORLD_SIZE": "2",
    "MASTER_ADDR": "node0",
    "MASTER_PORT": "29500",
}
SLURM = {
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NUM_TASKS": "8",
    "SLURM_PROCID": "3",
}


def same_run(*environs: dict[str, str]) -> bool:
    keys = {launch_of(environ).run_key for environ in environs}
    return len(keys) == 1 and None not in keys


def same_attempt(*environs: dict[str, str]) -> bool:
    keys = {launch_of(environ).attempt_key for environ in environs}
    return len(keys) == 1 and None not in keys


def test_a_process_without_a_launcher_is_alone() -> None:
    assert launch_of({}) == Launch()
    assert launch_of({"RANK": "0", "WORLD_SIZE": "1"}) == Launch()


def test_ranks_on_several_nodes_meet_by_the_rendezvous_id() -> None:
    job = {**TORCHRUN, "TORCHELASTIC_RUN_ID": "job-5"}
    assert same_run(job, {**job, "RANK": "3"}, {**job, "TORCHELASTIC_RESTART_COUNT": "1"})
    assert same_attempt(job, {**job, "RANK": "3"})
    assert not same_attempt(job, {**job, "TORCHELASTIC_RESTART_COUNT": "1"})
    assert not same_run(job, {**job, "TORCHELASTIC_RUN_ID": "job-6"})
    assert launch_of(job).rank == 1


def test_ranks_on_several_nodes_without_an_id_share_an_attempt_but_know_no_run() -> None:
    assert launch_of(TORCHRUN).run_key is None
    assert same_attempt(TORCHRUN, {**TORCHRUN, "RANK": "2"})


def test_torchrun_below_slurm_meets_by_the_job_step() -> None:
    both = {**TORCHRUN, "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    assert same_run(both, {**both, "RANK": "3", "SLURM_PROCID": "1"})
    assert not same_run(both, {**both, "SLURM_STEP_ID": "1"})
    assert not same_attempt(both, {**both, "SLURM_RESTART_COUNT": "1"})


def test_tasks_of_a_slurm_step_meet_and_a_requeued_job_is_a_new_attempt() -> None:
    again = {**SLURM, "SLURM_RESTART_COUNT": "1"}
    assert same_run(SLURM, {**SLURM, "SLURM_PROCID": "5"}, again)
    assert same_attempt(SLURM, {**SLURM, "SLURM_PROCID": "5"})
    assert not same_attempt(SLURM, again)
    assert launch_of(SLURM).rank == 3


def test_single_programs_of_a_slurm_script_are_runs_of_their_own() -> None:
    script = {"SLURM_JOB_ID": "17", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
    assert launch_of(script) == Launch()
    assert launch_of({**script, "SLURM_STEP_ID": "0"}) == Launch()


@pytest.mark.parametrize("number", ["", "x", "-1", "1.5", "٣", "9" * 20])
def test_unreadable_numbers_do_not_matter(number: str) -> None:
    assert launch_of({**TORCHRUN, "WORLD_SIZE": number, "RANK": number}).num_processes >= 1
    assert launch_of({**SLURM, "SLURM_STEP_NUM_TASKS": number}) == Launch()


def test_without_proc_a_single_node_launch_is_not_recognised(tmp_path: Path) -> None:
    single = {**TORCHRUN, "WORLD_SIZE": "2"}
    launch = launch_of(single, proc=tmp_path)
    assert launch.run_key is None
    assert launch.attempt_key is not None


def test_ids_agree_where_the_launch_does() -> None:
    def ids(launch: Launch, name: str | None = None) -> Any:
        return identity(launch, project="p", name=name, run_id=None, attempt_id=None)

    # Each call is the first of its launch: it stands for one rank.
    first, second = (ids(Launch(run_key=f"k{i}", attempt_key="a")) for i in range(2))
    assert first.run_id != second.run_id
    again = ids(Launch(run_key="k0", attempt_key="a"))
    assert again.run_id != first.run_id, "the second run of a rank is another run"
    named = ids(Launch(run_key="k0", attempt_key="a"), name="n")
    assert named.run_id not in {first.run_id, again.run_id}
    assert named.name == "n"
    assert len(first.name.split("-")) == 3


def test_a_process_knows_when_it_began() -> None:
    code = "from collapsewatch.launcher import process_start; print(process_start())"
    before = time.time()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert before - 0.1 <= float(done.stdout) <= time.time()
    assert process_start(Path("/nowhere")) <= time.time()


def test_a_rank_that_cannot_find_the_others_says_what_to_do(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, sdk_log: Callable[[], list[str]]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    for rank in ("0", "2"):
        monkeypatch.setenv("RANK", rank)
        collapsewatch.init("p", "n", url=recorder.url).finish()
    (told,) = sdk_log()
    assert "rank 2 of 4" in told
    assert "COLLAPSEWATCH_RUN_ID" in told
    assert recorder.beats[-1].body["rank"] == 2


def test_a_named_run_still_needs_to_know_the_attempt(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, sdk_log: Callable[[], list[str]]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("RANK", "2")
    collapsewatch.init("p", "n", url=recorder.url, run_id="r").finish()
    assert "COLLAPSEWATCH_ATTEMPT_ID" in sdk_log()[0]
    monkeypatch.setenv("COLLAPSEWATCH_RUN_ID", "r2")
    monkeypatch.setenv("COLLAPSEWATCH_ATTEMPT_ID", "start-1")
    run = collapsewatch.init("p", "n", url=recorder.url)
    run.finish()
    assert (run.id, run.attempt_id) == ("r2", "start-1")
    assert len(sdk_log()) == 1


TRAINING = """
    import os, sys, time, collapsewatch
    run = collapsewatch.init("p", config={"lr": 1})
    rank = int(os.environ["RANK"])
    run.log_rollouts(0, prompts=["a"], responses=["b"], shard=(rank, 2))
    run.log({f"loss/{rank}": rank}, step=int(os.environ["TORCHELASTIC_RESTART_COUNT"]))
    run.finish()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and "--fail-once" in sys.argv:
        raise SystemExit(3)
"""


def torchrun(folder: Path, recorder: Recorder, *arguments: str) -> None:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(TRAINING))
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--max-restarts", "1", "--monitor-interval", "0.1", *arguments[:-1], str(script)]
    done = subprocess.run(
        [*command, arguments[-1]],
        env={**os.environ, "COLLAPSEWATCH_URL": recorder.url, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "collapsewatch" not in done.stderr


def starts_of(recorder: Recorder) -> list[tuple[RunStart, AttemptStart]]:
    starts = [RunStart.model_validate(seen.body) for seen in recorder.of("/runs")]
    return [(start, start.attempt) for start in starts if start.attempt is not None]


@pytest.mark.integration
def test_ranks_of_torchrun_log_to_one_run_and_a_restart_is_its_next_attempt(
    recorder: Recorder, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    torchrun(tmp_path, recorder, "--master-port", "0", "--fail-once")
    starts = starts_of(recorder)
    assert len({(start.run_id, start.name) for start, _ in starts}) == 1
    assert len({start.writer_id for start, _ in starts}) == len(starts)
    times: dict[str, list[float]] = {}
    for _, attempt in starts:
        times.setdefault(attempt.attempt_id, []).append(attempt.started_at)
    first, second = sorted(times.values())
    assert max(first) < min(second)
    assert {beat.body["rank"] for beat in recorder.beats} == {0, 1}
    last = {batch.shard.index for batch in recorder.batches() if batch.shard is not None}
    assert last == {0, 1}


@pytest.mark.integration
def test_two_launches_of_torchrun_are_two_runs(recorder: Recorder, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for _ in range(2):
        torchrun(tmp_path, recorder, "--standalone", "--rdzv-id", "same", "--once")
    assert len(starts_of(recorder)) == 4
    assert len({start.run_id for start, _ in starts_of(recorder)}) == 2
