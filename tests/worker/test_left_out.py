"""What is scored of a batch, what is left out by choice, and what the result says of either."""

from typing import Any

import pytest
import tokenizers
import tokenizers.models
import tokenizers.pre_tokenizers

from collapsewatch.blobs import open_blob_store, pack_document
from collapsewatch.contracts.rollouts import CrossLogProbs, Rollout, RolloutBatch, Turn
from collapsewatch.contracts.scoring import Sampling, ScorerConfig, ScorerKind, ScoringResult
from collapsewatch_worker.loop.child import JobScorer
from collapsewatch_worker.process import process
from collapsewatch_worker.scorers import ScoringModel
from collapsewatch_worker.settings import WorkerSettings
from tests.worker.batches import job, no_model, recorded_batch, score, two_turn_batch
from tests.worker.test_scorers import CountingModel


def scored(batch: RolloutBatch, model: ScoringModel, **scorer: Any) -> ScoringResult:
    config = ScorerConfig(kind=ScorerKind.policy, checkpoint="/runs/{policy_version}", **scorer)
    return process(job(config), batch, worker="worker-1", load_model=lambda _: model)


def told(result: ScoringResult) -> Sampling:
    (evaluation,) = result.evaluations
    assert evaluation.sampling is not None
    return evaluation.sampling


def test_a_step_between_is_measured_and_not_scored_and_loads_no_model() -> None:
    config = ScorerConfig(
        kind=ScorerKind.policy,
        checkpoint="/runs/{policy_version}",
        every_steps=5,
        scopes=["first_turn", "turns"],
    )
    batch = two_turn_batch(policy_version="v1")
    between = process(job(config), batch, worker="worker-1", load_model=no_model)
    assert between.evaluations == []
    assert set(between.absent) >= {"first_turn", "turn/0", "turn/1"}
    assert "next of them is 15" in between.absent["first_turn"]
    assert between.batch_metrics["valid_reasoning_rate"].value == 1.0
    assert between.batch_metrics["reasoning_length"].value == 1.0
    assert between.scorer.label == "policy checkpoint {policy_version}"
    due = scored(
        two_turn_batch(policy_version="v1").model_copy(update={"step": 15}), CountingModel(), every_steps=5
    )
    assert told(due).every_steps == 5
    assert "first_turn" not in due.absent


def test_lexical_scorers_leave_steps_out_too() -> None:
    between = score(recorded_batch(1), every_steps=2)
    assert between.evaluations == []
    assert "first_turn" in between.absent
    assert between.batch_metrics["reward"].value >= 0
    assert between.template_evidence is not None
    # Words are what a lexical scorer counts at every step.
    assert between.batch_metrics["reasoning_length"].value > 1
    assert told(score(recorded_batch(2), every_steps=2)).num_rows == 128


def test_a_cap_is_told_with_its_seed() -> None:
    sampling = told(score(recorded_batch(2), num_samples=32, seed=9))
    assert (sampling.num_rows, sampling.num_rows_available) == (32, 128)
    assert (sampling.num_samples, sampling.seed, sampling.every_steps) == (32, 9, 1)
    assert not sampling.is_probe
    whole = told(score(recorded_batch(2)))
    assert (whole.num_rows, whole.num_rows_available, whole.num_samples) == (128, 128, None)


def test_a_probe_set_makes_rows_and_columns_of_its_groups_alone() -> None:
    batch = recorded_batch(2)
    groups = sorted({rollout.group_id for rollout in batch.rollouts})
    result = score(batch, probe_group_ids=groups[:3])
    (evaluation,) = result.evaluations
    assert evaluation.num_prompts == 3
    assert {group for prompt in evaluation.prompts for group in prompt.group_ids} == set(groups[:3])
    sampling = told(result)
    assert (sampling.num_rows, sampling.num_rows_available) == (48, 128)
    assert (sampling.is_probe, sampling.num_probe_groups, sampling.num_probe_groups_present) == (True, 3, 3)
    # What needs no scores is still measured on the whole batch.
    assert len(result.groups) == 8


def test_a_batch_without_probes_loads_no_model() -> None:
    config = ScorerConfig(kind=ScorerKind.reference, checkpoint="/models/small", probe_group_ids=["p1", "p2"])
    result = process(job(config), two_turn_batch(), worker="worker-1", load_model=no_model)
    assert result.evaluations == []
    assert "probe set" in result.absent["first_turn"]


def test_probes_without_usable_reasoning_are_absent_with_that_reason() -> None:
    turns = {
        "a": "thought </think> go",
        "b": "thought </think> go",
        "p1": "never closed",
        "p2": "never closed",
    }
    batch = RolloutBatch(
        batch_id="b",
        step=0,
        rollouts=[
            Rollout(group_id=group, turns=[Turn(prompt=f"{group} <think>", response=response)])
            for group, response in turns.items()
        ],
    )
    result = score(batch, probe_group_ids=["p1", "p2"])
    assert result.absent["first_turn"].startswith("no turn of the probe set")


@pytest.mark.parametrize("every_steps", [1, 5])
def test_a_matrix_of_the_trainer_is_used_as_it_came(every_steps: int) -> None:
    matrix = CrossLogProbs(
        rollout_indices=list(range(6)),
        column_group_ids=[f"g{group}" for group in range(4)],
        log_probs=[[-1.0 if group == row // 2 else -2.0 for group in range(4)] for row in range(6)],
        token_counts=[1] * 6,
    )
    config = ScorerConfig(
        kind=ScorerKind.policy,
        checkpoint="/runs/latest",
        every_steps=every_steps,
        probe_group_ids=["g0", "g1"],
        scopes=["first_turn", "trajectory"],
    )
    load_model = no_model if every_steps > 1 else lambda _: CountingModel()
    result = process(job(config), two_turn_batch(cross_log_probs=matrix), worker="w", load_model=load_model)
    by_scope = {evaluation.scope: evaluation.sampling for evaluation in result.evaluations}
    assert by_scope["first_turn"] == Sampling(num_rows=6, num_rows_available=8, by_trainer=True)
    if every_steps > 1:
        assert "next of them is 15" in result.absent["trajectory"]
    else:
        told_of_pairs = by_scope["trajectory"]
        assert told_of_pairs is not None
        assert (told_of_pairs.num_rows, told_of_pairs.num_rows_available) == (8, 16)


def text_batch(step: int) -> RolloutBatch:
    """Text alone: only a tokenizer can count its tokens."""
    rollouts = [
        Rollout(group_id=f"g{n}", turns=[Turn(prompt=f"{n} <think>", response="ab cd </think> go")])
        for n in range(2)
    ]
    return RolloutBatch(batch_id="b", step=step, policy_version="v1", rollouts=rollouts)


def uncut_batch() -> RolloutBatch:
    """Token ids alone, in which only a tokenizer can find the tags."""
    rollouts = [
        Rollout(group_id=f"g{n}", turns=[Turn(prompt_token_ids=[n, 5], response_token_ids=[n, 6, 7])])
        for n in range(2)
    ]
    return RolloutBatch(batch_id="b", step=1, policy_version="v1", rollouts=rollouts)


def test_a_length_in_words_does_not_stand_among_lengths_in_tokens() -> None:
    config = ScorerConfig(kind=ScorerKind.policy, checkpoint="/runs/{policy_version}", every_steps=5)
    result = process(job(config), text_batch(1), worker="w", load_model=no_model)
    assert "reasoning_length" not in result.batch_metrics
    assert "tokenizer" in result.absent["reasoning_length"]
    assert result.batch_metrics["valid_reasoning_rate"].value == 1.0
    # A batch that does not say which policy wrote it cannot be scored, but nobody asks for that here.
    unnamed = text_batch(1).model_copy(update={"policy_version": None})
    assert "reasoning_length" in process(job(config), unnamed, worker="w", load_model=no_model).absent


def test_turns_that_only_a_tokenizer_could_cut_do_not_count_as_invalid() -> None:
    config = ScorerConfig(kind=ScorerKind.policy, checkpoint="/runs/{policy_version}", every_steps=5)
    result = process(job(config), uncut_batch(), worker="w", load_model=no_model)
    assert "valid_reasoning_rate" not in result.batch_metrics
    assert "cannot be cut" in result.absent["valid_reasoning_rate"]


def save_tokenizer(folder: Any) -> None:
    words = tokenizers.models.WordLevel({"?": 0, "a": 1, "b": 2, "c": 3, "d": 4}, unk_token="?")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    folder.mkdir(parents=True)
    tokenizer.save(str(folder / "tokenizer.json"))


def test_the_scoring_process_reads_the_tokenizer_alone_for_a_step_between(tmp_path: Any) -> None:
    # The folder holds no weights: loading the model would fail.
    save_tokenizer(tmp_path / "runs" / "v1")
    settings = WorkerSettings(
        device="cpu", checkpoint_roots=(tmp_path / "runs",), home=tmp_path, blob_url=str(tmp_path / "blobs")
    ).for_scoring("worker-1")
    packed = pack_document(text_batch(1).model_dump_json(exclude_none=True).encode())
    open_blob_store(settings.blob_url).write("batches/run-1/batch-1.zst", packed)
    config = ScorerConfig(kind=ScorerKind.policy, checkpoint="{policy_version}", every_steps=5)
    result = JobScorer(settings).result(job(config))
    assert result.evaluations == []
    # Of " ab cd " each character is a token of this tokenizer.
    assert result.batch_metrics["reasoning_length"].value > 2
    outside = settings.model_copy(update={"checkpoint_roots": (tmp_path / "elsewhere",)})
    assert "reasoning_length" in JobScorer(outside).result(job(config)).absent


def test_reasonings_that_a_lexical_scorer_cannot_compare_are_not_told_as_scored() -> None:
    batch = recorded_batch(2)
    first = batch.rollouts[0].group_id
    alone = [
        rollout for rollout in batch.rollouts if rollout.group_id != first or rollout is batch.rollouts[0]
    ]
    result = score(batch.model_copy(update={"rollouts": alone}))
    (evaluation,) = result.evaluations
    # Whoever has no other reasoning of its prompt has nothing to be compared with.
    assert told(result).num_rows == evaluation.num_rows == len(alone) - 1
    assert told(result).num_rows_available == len(alone)
