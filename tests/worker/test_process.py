"""From a batch of recorded rollouts to its metrics, without any model."""

import numpy as np
import pytest

from collapsewatch.contracts.rollouts import ReasoningTags, Rollout, RolloutBatch, Turn
from collapsewatch.contracts.scoring import LexicalMethod, ScorerKind
from collapsewatch_worker.errors import BatchNotScorable
from collapsewatch_worker.process import template_signature
from tests.worker.batches import recorded_batch, score


@pytest.mark.parametrize(("step", "lowest", "highest"), [(0, 0.70, 0.95), (2, 0.75, 0.95), (159, 0.0, 0.20)])
def test_lexical_retrieval_tells_the_start_of_a_collapsing_run_from_its_end(
    step: int, lowest: float, highest: float
) -> None:
    result = score(recorded_batch(step))
    (evaluation,) = result.evaluations
    assert evaluation.num_prompts == 8
    assert lowest <= evaluation.metrics["retrieval_accuracy"].value <= highest
    assert evaluation.metrics["retrieval_chance"].value == pytest.approx(1 / 8)
    p_value = evaluation.metrics["retrieval_p_value"].value
    assert p_value <= 0.01 if step < 10 else p_value > 0.1
    assert result.scorer.label == "lexical group_centroid"
    assert not result.scorer.is_policy


def test_lexical_scores_never_become_nats() -> None:
    result = score(recorded_batch(0), lexical_method=LexicalMethod.tfidf_prompt)
    (evaluation,) = result.evaluations
    assert not any(name.startswith(("mi_", "reasoning_entropy", "pmi")) for name in evaluation.metrics)
    assert "no log-probs" in evaluation.absent["mi_seq"]
    assert evaluation.ragen == {}


def test_a_batch_is_measured_beside_its_scores() -> None:
    batch = recorded_batch(0)
    result = score(batch)
    rewards = [rollout.reward or 0.0 for rollout in batch.rollouts]
    # The run's own log of this step: 0.6875 reward, 0.625 zero-variance groups, 0.98438 parseable answers.
    assert result.batch_metrics["reward"].value == pytest.approx(np.mean(rewards)) == pytest.approx(0.6875)
    assert result.batch_metrics["zero_variance_fraction"].value == pytest.approx(0.625)
    assert result.batch_metrics["success"].value == pytest.approx(
        np.mean([reward == 1 for reward in rewards])
    )
    assert result.num_turns == 128
    assert result.num_scored_turns == 127
    assert result.batch_metrics["valid_reasoning_rate"].value == pytest.approx(127 / 128)
    assert 18 < result.batch_metrics["reasoning_length"].value < 24
    assert [group.group_id for group in result.groups] == list(
        dict.fromkeys(r.group_id for r in batch.rollouts)
    )


def test_filter_previews_show_how_differently_the_rules_choose() -> None:
    result = score(recorded_batch(0))
    kept = {preview.rule: len(preview.kept_group_ids) for preview in result.filters}
    assert set(kept) == {
        "top_p 0.9 linear std",
        "top_p 0.9 softmax std",
        "top_p 0.9 linear variance",
        "top_k 0.25 std",
        "min_p 0.5 std",
    }
    assert kept["top_k 0.25 std"] == 2
    # Three of eight groups vary at all, and none is kept that does not.
    varying = {group.group_id for group in result.groups if group.std}
    assert len(varying) == 3
    for preview in result.filters:
        assert preview.num_groups == 8
        assert set(preview.kept_group_ids) <= varying


def test_the_compression_ratio_rises_to_one_as_the_recorded_run_collapses() -> None:
    start, end = score(recorded_batch(0)), score(recorded_batch(159))
    ratios = [result.batch_metrics["compression_distance_ratio"].value for result in (start, end)]
    assert ratios[0] < 0.92
    assert ratios[1] == pytest.approx(1, abs=0.03)
    evidence = end.template_evidence
    assert evidence is not None
    assert evidence.compression_distance_ratio == ratios[1]
    assert (evidence.num_prompts, evidence.num_reasonings) == (8, 128)
    # Early on the commonest phrases are in a tenth of the reasonings; in the end they are in a fifth.
    assert start.template_evidence is not None
    assert evidence.phrases[0].coverage > 1.5 * start.template_evidence.phrases[0].coverage
    assert evidence.phrases[0].num_prompts == 8
    assert "compression_distance_ratio" not in end.absent


def test_groups_are_bucketed_by_their_spread() -> None:
    result = score(recorded_batch(0))
    quantile = result.buckets.quantile
    assert [bucket.name for bucket in quantile] == ["Q1", "Q2", "Q3", "Q4", "Q5", "Q6"]
    assert sum(bucket.num_groups for bucket in quantile) == 8
    mean = sum(bucket.reward_variance * bucket.num_groups for bucket in quantile) / 8
    assert mean == pytest.approx(result.batch_metrics["reward_variance"].value)
    assert [(bucket.name, bucket.num_groups) for bucket in result.buckets.fixed] == [("[0, 1)", 8)]


def test_a_batch_without_rewards_is_welcome_and_says_what_it_lacks() -> None:
    batch = recorded_batch(0)
    bare = batch.model_copy(
        update={"rollouts": [r.model_copy(update={"reward": None, "success": None}) for r in batch.rollouts]}
    )
    result = score(bare)
    assert result.evaluations[0].metrics["retrieval_accuracy"].value > 0.7
    assert "reward" not in result.batch_metrics
    assert "no rewards" in result.absent["reward"]
    assert "success" in result.absent
    assert result.groups == []
    assert result.filters == []
    assert result.buckets.quantile == result.buckets.fixed == []


def test_prompts_are_named_by_group_and_shown_by_text() -> None:
    (evaluation,) = score(recorded_batch(0)).evaluations
    assert [prompt.group_ids for prompt in evaluation.prompts] == [[f"s0g{number}"] for number in range(8)]
    assert evaluation.prompts[0].preview == "<bos> sky clear me four zero goal two two hole down <think>"
    for number, prompt in enumerate(evaluation.prompts):
        assert prompt.retrieved[number] == pytest.approx(prompt.accuracy)
        assert sum(prompt.retrieved) == pytest.approx(1.0)


def test_long_prompts_are_shown_from_where_they_differ() -> None:
    rules = "You walk on a frozen lake. " * 100
    rollouts = [
        Rollout(group_id=group, turns=[Turn(prompt=f"{rules}Goal: {group}", response="i go </think> up")])
        for group in ("north", "south")
        for _ in range(2)
    ]
    (evaluation,) = score(RolloutBatch(batch_id="b", step=0, rollouts=rollouts)).evaluations
    previews = [prompt.preview for prompt in evaluation.prompts]
    assert [preview.rpartition(" ")[2] for preview in previews] == ["north", "south"]
    assert all(preview.startswith("…") and len(preview) <= 400 for preview in previews)


def test_sampled_log_probs_give_the_diversity_that_words_cannot() -> None:
    batch = recorded_batch(0, with_ids=True)
    (evaluation,) = score(batch).evaluations
    # A loop over the record, cutting at the closing tag: the second way.
    means, sums = [], []
    for rollout in batch.rollouts:
        (turn,) = rollout.turns
        assert turn.response_token_ids is not None
        assert turn.response_log_probs is not None
        if 0 not in turn.response_token_ids:
            continue
        log_probs = turn.response_log_probs[: turn.response_token_ids.index(0)]
        means.append(-sum(log_probs) / len(log_probs))
        sums.append(-sum(log_probs))
    entropy = evaluation.metrics["conditional_entropy"]
    assert entropy.value == pytest.approx(np.mean(means), abs=1e-9)
    assert evaluation.metrics["conditional_entropy_seq"].value == pytest.approx(np.mean(sums), abs=1e-9)
    # The run's own log says 0.6313 nats per token, from the 64 reasonings it scored.
    assert entropy.value == pytest.approx(0.6313, abs=0.03)
    assert entropy.low is not None
    assert entropy.high is not None
    assert entropy.low < entropy.value < entropy.high
    assert "conditional_entropy" not in evaluation.absent


def test_sampled_log_probs_that_cannot_be_added_up_leave_the_rest_of_the_batch_alone() -> None:
    batch = recorded_batch(0, with_ids=True)
    rollouts = []
    for rollout in batch.rollouts:
        (turn,) = rollout.turns
        log_probs = [-1e308] * len(turn.response_token_ids or [])
        turns = [turn.model_copy(update={"response_log_probs": log_probs})]
        rollouts.append(rollout.model_copy(update={"turns": turns}))
    (evaluation,) = score(batch.model_copy(update={"rollouts": rollouts})).evaluations
    assert "retrieval_accuracy" in evaluation.metrics
    assert "conditional_entropy" not in evaluation.metrics
    assert "too large" in evaluation.absent["conditional_entropy"]


def test_sampled_log_probs_at_another_temperature_are_not_taken_for_the_policys() -> None:
    (evaluation,) = score(recorded_batch(0, with_ids=True, temperature=0.7)).evaluations
    assert "conditional_entropy" not in evaluation.metrics
    assert "temperature" in evaluation.absent["conditional_entropy"]
    assert evaluation.temperature == 0.7


def test_a_policy_without_matrix_or_checkpoint_leaves_the_scope_out_and_says_why() -> None:
    result = score(recorded_batch(0), kind=ScorerKind.policy)
    assert result.evaluations == []
    assert "no matrix" in result.absent["first_turn"]
    assert result.batch_metrics["reward"].value == pytest.approx(0.6875)


def test_a_bad_tag_pattern_is_the_batchs_fault() -> None:
    batch = recorded_batch(0).model_copy(update={"reasoning_tags": ReasoningTags(pattern="(?P<reasoning>")})
    with pytest.raises(BatchNotScorable):
        score(batch)


def test_the_template_signature_tells_ways_of_cutting_apart() -> None:
    ways = [
        ReasoningTags(),
        ReasoningTags(open="<thinking>", close="</thinking>"),
        ReasoningTags(whole_response=True),
        ReasoningTags(pattern="(?P<reasoning>.*)"),
    ]
    assert len({template_signature(tags) for tags in ways}) == 4
