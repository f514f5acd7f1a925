import argparse
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collapsewatch
from collapsewatch.contracts.rollouts import ScalarBatch
from collapsewatch.contracts.runs import RunStart

from .conftest import COLUMNS, Recorder


def test_a_run_starts_ships_and_finishes_in_order(run: collapsewatch.Run, recorder: Recorder) -> None:
    run.log_rollouts(1, **COLUMNS)
    run.log({"success": 0.5})
    run.finish()
    assert [(seen.method, seen.path.rpartition("/")[2]) for seen in recorder.seen] == [
        ("POST", "runs"),
        ("POST", "batches"),
        ("POST", "scalars"),
        ("PATCH", run.id),
    ]
    start = RunStart.model_validate(recorder.seen[0].body)
    assert (start.run_id, start.project, start.name) == (run.id, "project", "name")
    assert recorder.seen[0].headers["authorization"] == "Bearer k"
    ScalarBatch.model_validate(recorder.of("/scalars")[0].body)
    assert recorder.updates()[0].state == "finished"
    assert run.dropped == {}
    assert run.id in run.url
    assert run.url.startswith(recorder.url)


def test_calls_return_while_the_server_is_away_and_all_arrives_later(offline_recorder: Recorder) -> None:
    run = collapsewatch.init("p", "n", url=offline_recorder.url)
    for step in range(5):
        run.log_rollouts(step, **COLUMNS)
        run.log({"loss": step / 10})
    assert len(run._outbox) == 11
    offline_recorder.up()
    run.finish()
    assert [batch.step for batch in offline_recorder.batches()] == [0, 1, 2, 3, 4]
    assert offline_recorder.scalars() == {step: {"loss": step / 10} for step in range(5)}
    assert run.dropped == {}


def test_finish_gives_up_in_time_and_says_what_was_lost(
    offline_recorder: Recorder, sdk_log: Callable[[], list[str]]
) -> None:
    run = collapsewatch.init("p", "n", url=offline_recorder.url)
    run.log_rollouts(1, **COLUMNS)
    run.log({"a": 1, "b": 2})
    run.finish(timeout_seconds=0.05)
    assert run.dropped == {"runs_unsent": 1, "batches_unsent": 1, "values_unsent": 2, "updates_unsent": 1}
    assert "batches_unsent 1" in sdk_log()[-1]


def test_finish_again_is_harmless(run: collapsewatch.Run, recorder: Recorder) -> None:
    run.finish()
    run.finish()
    assert len(recorder.updates()) == 1


def test_after_finish_calls_are_dropped_and_counted(run: collapsewatch.Run, recorder: Recorder) -> None:
    run.finish()
    run.log_rollouts(1, **COLUMNS)
    run.log({"a": 1})
    run.set_scorer("lexical")
    assert run.dropped == {"batches_closed": 1, "values_closed": 1, "updates_closed": 1}
    assert len(recorder.seen) == 2


def test_an_error_in_the_block_fails_the_run_and_goes_on(recorder: Recorder) -> None:
    error = ValueError("the training's own")
    with pytest.raises(ValueError, match="own") as raised, collapsewatch.init(url=recorder.url):
        raise error
    assert raised.value is error
    assert recorder.updates()[-1].state == "failed"


@pytest.mark.parametrize(("leaving", "state"), [(SystemExit(0), "finished"), (SystemExit(2), "failed")])
def test_leaving_by_exit_is_told_by_its_code(recorder: Recorder, leaving: SystemExit, state: str) -> None:
    with pytest.raises(SystemExit), collapsewatch.init(url=recorder.url):
        raise leaving
    assert recorder.updates()[-1].state == state


def test_a_keyboard_interrupt_passes_and_fails_the_run(recorder: Recorder) -> None:
    with pytest.raises(KeyboardInterrupt), collapsewatch.init(url=recorder.url):
        raise KeyboardInterrupt
    assert recorder.updates()[-1].state == "failed"


def test_the_scorer_is_told_at_the_start_and_changed_later(recorder: Recorder, tmp_path: Path) -> None:
    run = collapsewatch.init(url=recorder.url, scorer={"kind": "reference", "checkpoint": tmp_path})
    run.set_scorer("policy", checkpoint=tmp_path / "{policy_version}", scopes=["first_turn", "trajectory"])
    run.set_scorer(collapsewatch.ScorerConfig(num_samples=64), seed=3)
    run.set_scorer("oracle")  # type: ignore[arg-type]
    run.set_scorer("reference")
    run.finish()
    start = RunStart.model_validate(recorder.seen[0].body)
    assert start.scorer is not None
    assert (start.scorer.kind, start.scorer.checkpoint) == ("reference", str(tmp_path))
    first, second, _ = recorder.updates()
    assert first.scorer is not None
    assert second.scorer is not None
    assert first.scorer.checkpoint == str(tmp_path / "{policy_version}")
    assert first.scorer.scopes == ["first_turn", "trajectory"]
    assert (second.scorer.kind, second.scorer.num_samples, second.scorer.seed) == ("lexical", 64, 3)
    assert run.dropped == {"updates_invalid": 2}


@dataclass
class Hyper:
    lr: float
    folder: Path


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, {}),
        ({"lr": 1e-6, "nested": {"a": [1, (2, 3)]}}, {"lr": 1e-6, "nested": {"a": [1, [2, 3]]}}),
        (Hyper(0.5, Path("/tmp/x")), {"lr": 0.5, "folder": "/tmp/x"}),  # noqa: S108 - never opened
        (argparse.Namespace(lr=np.float32(0.5), n=np.int64(3)), {"lr": 0.5, "n": 3}),
        ({"nan": float("nan"), 3: {1}}, {"nan": "nan", "3": [1]}),
        (collapsewatch.ReasoningTags(open="<a>"), {"open": "<a>"}),
    ],
)
def test_any_usual_config_is_sent_as_json(recorder: Recorder, config: Any, expected: dict[str, Any]) -> None:
    collapsewatch.init(url=recorder.url, config=config).finish()
    sent = RunStart.model_validate(recorder.seen[0].body).config
    assert {name: sent[name] for name in expected} == expected


def test_a_config_that_holds_itself_is_cut_off(recorder: Recorder) -> None:
    config: dict[str, Any] = {"lr": 1}
    config["self"] = config
    collapsewatch.init(url=recorder.url, config=config).finish()
    assert RunStart.model_validate(recorder.seen[0].body).config["lr"] == 1


def test_runs_without_a_name_get_readable_ones_and_leave_seeds_alone(recorder: Recorder) -> None:
    random.seed(3)
    before = random.getstate()
    runs = [collapsewatch.init(url=recorder.url) for _ in range(5)]
    for run in runs:
        run.finish()
    assert random.getstate() == before
    assert len({run.name for run in runs}) == len({run.id for run in runs}) == 5
    assert all(len(run.name.split("-")) == 3 for run in runs)


def test_a_named_run_id_is_kept(recorder: Recorder) -> None:
    run = collapsewatch.init(url=recorder.url, run_id="job-17")
    run.finish()
    assert (run.id, run.name) == ("job-17", "job-17")


def test_several_runs_of_one_process_stay_apart(recorder: Recorder) -> None:
    first, second = (collapsewatch.init("p", name, url=recorder.url) for name in ("first", "second"))
    first.log({"a": 1}, step=1)
    second.log({"a": 2}, step=1)
    first.finish()
    second.finish()
    for run, value in ((first, 1), (second, 2)):
        (seen,) = recorder.of(f"/runs/{run.id}/scalars")
        assert seen.body == {"points": [{"step": 1, "values": {"a": value}}]}


def test_logging_from_several_threads_loses_nothing(run: collapsewatch.Run, recorder: Recorder) -> None:
    def log_many(name: str) -> None:
        for step in range(50):
            run.log({name: step}, step=step)

    threads = [threading.Thread(target=log_many, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    run.finish()
    assert recorder.scalars() == {step: dict.fromkeys("abc", step) for step in range(50)}
