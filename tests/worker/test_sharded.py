"""Steps that came in shards: one batch, whichever rank held which rollout."""

from pathlib import Path
from typing import Any

import pytest

from collapsewatch.blobs import open_blob_store, pack_batch
from collapsewatch.contracts.rollouts import ReasoningTags, RolloutBatch, Shard
from collapsewatch.contracts.scoring import ScopeEvaluation, ScorerConfig
from collapsewatch_worker.batches.sharded import whole_step
from collapsewatch_worker.errors import BatchNotScorable
from collapsewatch_worker.loop.child import JobScorer
from collapsewatch_worker.settings import WorkerSettings
from tests.worker.batches import job, recorded_batch, score


def cut(batch: RolloutBatch, count: int) -> list[RolloutBatch]:
    """The batch as `count` ranks send it: rollout by rollout in turn, so that each group is everywhere."""
    return [
        batch.model_copy(
            update={
                "batch_id": f"{batch.batch_id}-{index}",
                "rollouts": batch.rollouts[index::count],
                "shard": Shard(index=index, count=count),
            }
        )
        for index in range(count)
    ]


def job_scorer(folder: Path, **settings: Any) -> JobScorer:
    given = WorkerSettings(device="cpu", blob_url=str(folder), **settings)
    return JobScorer(given.for_scoring("worker-1"))


def test_shards_score_like_the_whole_batch(tmp_path: Path) -> None:
    batch = recorded_batch(0)
    blobs = open_blob_store(str(tmp_path))
    keys = []
    for shard in cut(batch, 4):
        keys.append(f"{shard.batch_id}.zst")
        blobs.write(keys[-1], pack_batch(shard))
    result = job_scorer(tmp_path).result(job().model_copy(update={"blob_keys": keys}))
    in_shard_order = [rollout for index in range(4) for rollout in batch.rollouts[index::4]]
    expected = score(batch.model_copy(update={"rollouts": in_shard_order}))
    assert result.model_dump(exclude={"seconds"}) == expected.model_dump(exclude={"seconds"})
    assert {group.num_rollouts for group in result.groups} == {16}


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("order", [1, -1])
def test_the_same_part_is_scored_however_the_step_was_cut_into_shards(
    tmp_path: Path, count: int, order: int
) -> None:
    batch = recorded_batch(1)
    turned = batch.model_copy(update={"rollouts": batch.rollouts[::order]})
    blobs = open_blob_store(str(tmp_path))
    keys = [f"{number}.zst" for number in range(count)]
    shards = cut(turned, count) if count > 1 else [turned]
    for key, shard in zip(keys, shards, strict=True):
        blobs.write(key, pack_batch(shard))
    config = {"num_samples": 40, "seed": 9, "scopes": ["first_turn", "trajectory"]}
    asked = job(ScorerConfig.model_validate(config)).model_copy(update={"blob_keys": keys})
    results = [job_scorer(tmp_path).result(asked) for _ in range(2)]
    assert results[0].model_dump(exclude={"seconds"}) == results[1].model_dump(exclude={"seconds"})
    expected = score(batch, **config)
    assert len(expected.evaluations) == 2
    assert [_by_group(one) for one in results[0].evaluations] == [
        _by_group(one) for one in expected.evaluations
    ]
    other_seed = score(batch, **{**config, "seed": 10})
    assert _by_group(other_seed.evaluations[0]) != _by_group(expected.evaluations[0])


def _by_group(evaluation: ScopeEvaluation) -> list[tuple[object, ...]]:
    """What depends on which rows were drawn, and on nothing else."""
    assert evaluation.num_rows == 40
    return sorted((tuple(p.group_ids), p.num_rows, round(p.accuracy, 9)) for p in evaluation.prompts)


def test_a_single_batch_is_itself() -> None:
    batch = recorded_batch(0)
    assert whole_step([batch]) is batch


@pytest.mark.parametrize(
    ("field", "value"), [("temperature", 0.7), ("reasoning_tags", ReasoningTags(whole_response=True))]
)
def test_shards_that_cannot_be_compared_are_refused(field: str, value: object) -> None:
    first, second = cut(recorded_batch(0), 2)
    with pytest.raises(BatchNotScorable, match=field):
        whole_step([first, second.model_copy(update={field: value})])


def test_what_shards_do_not_agree_on_is_not_made_up() -> None:
    first, second = cut(recorded_batch(0, policy_version="v1"), 2)
    assert whole_step([first, second]).policy_version == "v1"
    other = second.model_copy(update={"policy_version": "v2", "reward_min": -1.0, "reward_max": None})
    whole = whole_step([first, other])
    assert (whole.policy_version, whole.reward_min, whole.reward_max) == (None, -1.0, 1.0)
    assert whole.shard is None


def test_the_limit_of_a_batch_counts_for_its_shards_together(tmp_path: Path) -> None:
    blobs = open_blob_store(str(tmp_path))
    keys, sizes = [], []
    for shard in cut(recorded_batch(0), 3):
        keys.append(f"{shard.batch_id}.zst")
        blobs.write(keys[-1], pack_batch(shard))
        sizes.append(len(shard.model_dump_json(exclude_none=True).encode()))
    wanted = job().model_copy(update={"blob_keys": keys})
    assert job_scorer(tmp_path, max_batch_bytes=sum(sizes)).result(wanted).evaluations
    with pytest.raises(BatchNotScorable, match="first 3 shards taken together"):
        job_scorer(tmp_path, max_batch_bytes=sum(sizes) - 1).result(wanted)
    with pytest.raises(BatchNotScorable, match="first 2 shards"):
        job_scorer(tmp_path, max_batch_bytes=sum(sizes[:2]) - 1).result(wanted)
