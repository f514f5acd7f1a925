"""Numbers shared with a real W&B run, which is kept offline in a folder of the test."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

import collapsewatch
from collapsewatch import mirror

from .conftest import Answer, Recorder, Seen

wandb = pytest.importorskip("wandb")


@pytest.fixture(scope="module", autouse=True)
def _service() -> Iterator[None]:
    yield
    wandb.teardown()


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("WANDB_SILENT", "WANDB_DISABLE_GIT", "WANDB_DISABLE_CODE"):
        monkeypatch.setenv(name, "true")
    run = wandb.init(mode="offline", dir=os.fspath(tmp_path), project="p")
    yield run
    run.finish()


@pytest.fixture
def scored(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> dict[int, float]:
    """What the server has scored, step → retrieval accuracy; a test adds to it."""
    monkeypatch.setattr(mirror, "ASK_SECONDS", 0.02)
    values: dict[int, float] = {}

    def answer(seen: Seen) -> Answer | None:
        if seen.method != "GET":
            return None
        query = parse_qs(urlsplit(seen.path).query)
        since = int(query["since_step"][0])
        steps = [step for step in sorted(values) if step >= since and query["scope"] == ["first_turn"]]
        points = {"steps": steps, "values": [values[step] for step in steps], "low": [], "high": []}
        return Answer(200, body=json.dumps({"scope": "s", "series": {"retrieval_accuracy": points}}))

    recorder.answers = answer
    return values


def rows_of(run: Any, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Every row that W&B is given from here on."""
    rows: list[dict[str, Any]] = []
    own = run._log

    def noted(data: Any, *args: Any, **options: Any) -> Any:
        rows.append(dict(data))
        return own(data, *args, **options)

    monkeypatch.setattr(run, "_log", noted)
    return rows


def open_run(recorder: Recorder, kind: Any) -> collapsewatch.Run:
    return collapsewatch.init("p", "n", url=recorder.url, api_key="k", mirror=kind)


def test_numbers_that_wandb_is_given_come_here_at_their_steps(theirs: Any, recorder: Recorder) -> None:
    run = open_run(recorder, "from_wandb")
    wandb.log({"kl": 0.5, "phase": "warm", "nested": {"a": 1}})
    theirs.log({"kl": 0.25, "actor/grad_norm": 2}, step=7)
    wandb.log({"kl": 0.125, "nan": float("nan"), "collapsewatch/mi_seq": 3.0}, step=8, commit=True)
    run.finish()
    assert recorder.scalars() == {0: {"kl": 0.5}, 7: {"kl": 0.25, "actor/grad_norm": 2.0}, 8: {"kl": 0.125}}


def test_what_is_scored_rides_on_wandbs_own_rows_and_the_rest_follows_at_the_end(
    theirs: Any,
    recorder: Recorder,
    scored: dict[int, float],
    monkeypatch: pytest.MonkeyPatch,
    wait_until: Callable[..., None],
) -> None:
    rows = rows_of(theirs, monkeypatch)
    run = open_run(recorder, "to_wandb")
    scored.update({3: 0.5, 4: 0.25})
    wait_until(lambda: any("since_step=5" in seen.path for seen in recorder.seen))
    wandb.log({"kl": 1.0}, step=10)
    wandb.log({"kl": 2.0}, step=11)
    wandb.log({"kl": 3.0}, step=12)
    scored[9] = 0.125
    run.finish()
    name, step = "collapsewatch/retrieval_accuracy", "collapsewatch/step"
    assert rows == [
        {"kl": 1.0, name: 0.5, step: 3.0},
        {"kl": 2.0, name: 0.25, step: 4.0},
        {"kl": 3.0},
        {name: 0.125, step: 9.0},
    ]
    assert recorder.scalars() == {}


def test_both_ways_take_nothing_back_that_came_from_here(
    theirs: Any, recorder: Recorder, scored: dict[int, float], wait_until: Callable[..., None]
) -> None:
    run = open_run(recorder, "both")
    scored[0] = 0.5
    wait_until(lambda: any("since_step=1" in seen.path for seen in recorder.seen))
    wandb.log({"kl": 1.0}, step=1)
    run.finish()
    assert recorder.scalars() == {1: {"kl": 1.0}}


def test_where_people_sign_in_scores_are_read_with_a_key_for_reading(
    theirs: Any,
    recorder: Recorder,
    scored: dict[int, float],
    monkeypatch: pytest.MonkeyPatch,
    wait_until: Callable[..., None],
    sdk_log: Callable[[], list[str]],
) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_READ_KEY", "cw_read_x")
    run = open_run(recorder, "to_wandb")
    wait_until(lambda: any("/series" in seen.path for seen in recorder.seen))
    run.finish()
    keys = {seen.headers["authorization"] for seen in recorder.seen if "/series" in seen.path}
    assert keys == {"Bearer cw_read_x"}
    assert sdk_log() == []


def test_a_key_that_may_not_read_is_told_once(
    theirs: Any,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    wait_until: Callable[..., None],
    sdk_log: Callable[[], list[str]],
) -> None:
    monkeypatch.setattr(mirror, "ASK_SECONDS", 0.02)
    recorder.answers = lambda seen: Answer(401) if seen.method == "GET" else None
    run = open_run(recorder, "to_wandb")
    wait_until(lambda: sum("/series" in seen.path for seen in recorder.seen) > 4)
    run.finish()
    (told,) = sdk_log()
    assert told.startswith("nothing goes to W&B. ")
    assert "COLLAPSEWATCH_READ_KEY" in told


def test_without_a_wandb_run_there_is_nothing_to_mirror(
    recorder: Recorder, sdk_log: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_MIRROR", "both")
    run = collapsewatch.init("p", "n", url=recorder.url, api_key="k")
    run.log({"a": 1.0})
    run.finish()
    assert recorder.scalars() == {0: {"a": 1.0}}
    assert sdk_log() == ["mirror: `mirror` needs a W&B run: call `wandb.init` before `collapsewatch.init`"]
