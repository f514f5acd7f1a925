"""What a run says of who scores it, and of how much."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collapsewatch
from collapsewatch.contracts.runs import RunStart

from .conftest import Recorder


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


def test_what_part_is_scored_is_told_with_the_scorer(recorder: Recorder) -> None:
    run = collapsewatch.init(
        url=recorder.url, scorer={"kind": "lexical", "every_steps": 5, "num_samples": 64}
    )
    run.set_scorer("lexical", num_samples=64, seed=3, every_steps=5, probe_group_ids=["a", "b"])
    # As `group_ids` of a batch: numbers are names, an array is a list.
    run.set_scorer("lexical", probe_group_ids=np.array([3, 5, 8]))
    run.set_scorer("lexical", probe_group_ids=(7, "b"))
    run.finish()
    start = RunStart.model_validate(recorder.seen[0].body)
    assert start.scorer is not None
    assert (start.scorer.every_steps, start.scorer.num_samples) == (5, 64)
    first, second, third, _ = [update.scorer for update in recorder.updates()]
    assert first is not None
    assert (first.num_samples, first.seed, first.every_steps) == (64, 3, 5)
    assert first.probe_group_ids == ["a", "b"]
    assert second is not None
    assert second.probe_group_ids == ["3", "5", "8"]
    assert (second.every_steps, second.num_samples) == (1, None)
    assert third is not None
    assert third.probe_group_ids == ["7", "b"]
    assert run.dropped == {}


@pytest.mark.parametrize(
    "options",
    [
        {"every_steps": 0},
        {"every_steps": 1.5},
        {"num_samples": 7},
        {"seed": -1},
        {"probe_group_ids": ["only"]},
        {"probe_group_ids": ["twice", " twice "]},
        {"probe_group_ids": "abc"},
        {"probe_group_ids": [f"g{number}" for number in range(513)]},
        {"every_step": 5},
    ],
)
def test_a_part_that_cannot_be_scored_is_refused_and_counted(
    recorder: Recorder, options: dict[str, Any]
) -> None:
    run = collapsewatch.init(url=recorder.url)
    run.set_scorer("lexical", **options)
    run.finish()
    assert run.dropped == {"updates_invalid": 1}
    assert all(update.scorer is None for update in recorder.updates())
