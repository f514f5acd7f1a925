"""Who scores which scope: checkpoints, the trainer's matrix beside them, and real tiny models."""

import json
import os
import shutil
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import tokenizers.models

from collapsewatch.contracts.rollouts import CrossLogProbs, ReasoningTags, Rollout, RolloutBatch, Turn
from collapsewatch.contracts.scoring import ScorerConfig, ScorerKind
from collapsewatch_worker.batches.partition import Tokenizer
from collapsewatch_worker.errors import (
    BatchNotScorable,
    CheckpointNotAllowed,
    CheckpointNotReady,
    CheckpointNotUsable,
)
from collapsewatch_worker.metrics.arrays import Floats
from collapsewatch_worker.models.checkpoints import Checkpoints
from collapsewatch_worker.process import process
from collapsewatch_worker.scorers import ScoringModel
from collapsewatch_worker.scoring.own_tokens import TokenNote
from collapsewatch_worker.settings import WorkerSettings
from tests.worker.batches import DATA, job, matrix_batch, no_model, recorded_batch, score, two_turn_batch

GOLDEN_MODELS = DATA / "golden" / "model_cases"


class CountingModel:
    """Log-prob of a reasoning: minus the tokens that do not stand in the prompt. Keeps what it was asked."""

    tokenizer: Tokenizer | None = None

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, float]] = []

    def cross_log_probs(
        self,
        prompts: Sequence[Sequence[int]],
        reasonings: Sequence[Sequence[int]],
        *,
        temperature: float,
        note: TokenNote | None = None,
    ) -> Floats:
        self.asked.append((len(reasonings), len(prompts), temperature))
        return np.array([[-float(sum(t not in p for t in r)) for p in prompts] for r in reasonings])


def test_each_scope_is_scored_by_the_checkpoint_of_the_batchs_policy() -> None:
    model, asked = CountingModel(), []

    def load_model(checkpoint: str) -> ScoringModel:
        asked.append(checkpoint)
        return model

    config = ScorerConfig(
        kind=ScorerKind.policy,
        checkpoint="/runs/{policy_version}/step-{step}/hf",
        scopes=["first_turn", "turns", "trajectory"],
    )
    batch = two_turn_batch(policy_version="iter 3", temperature=0.5)
    result = process(job(config), batch, worker="worker-1", load_model=load_model)
    assert asked == ["/runs/iter 3/step-12/hf"]
    assert [evaluation.scope for evaluation in result.evaluations] == [
        "first_turn",
        "turn/0",
        "turn/1",
        "trajectory",
    ]
    # Rows, distinct prompts, temperature: the trajectory has 4 first prompts and 8 second ones.
    assert model.asked == [(8, 4, 0.5), (8, 4, 0.5), (8, 8, 0.5), (16, 12, 0.5)]
    assert result.scorer.label == "policy checkpoint {policy_version}/step-{step}/hf"
    assert result.scorer.is_policy
    assert all(evaluation.metrics["retrieval_accuracy"].value > 0.6 for evaluation in result.evaluations)


def test_the_cap_on_rows_reaches_the_model() -> None:
    model = CountingModel()
    config = ScorerConfig(
        kind=ScorerKind.reference, checkpoint="/models/small", num_samples=8, scopes=["trajectory"]
    )
    result = process(job(config), two_turn_batch(), worker="worker-1", load_model=lambda _: model)
    assert model.asked[0][0] == 8
    assert result.scorer.label == "reference small"
    assert not result.scorer.is_policy


def test_a_matrix_and_a_checkpoint_share_the_work() -> None:
    model = CountingModel()
    batch = two_turn_batch(
        cross_log_probs=CrossLogProbs(
            rollout_indices=list(range(8)),
            column_group_ids=[f"g{group}" for group in range(4)],
            log_probs=[[-1.0 if group == row // 2 else -2.0 for group in range(4)] for row in range(8)],
            token_counts=[1] * 8,
        )
    )
    config = ScorerConfig(
        kind=ScorerKind.policy, checkpoint="/runs/latest", scopes=["first_turn", "trajectory"]
    )
    result = process(job(config), batch, worker="worker-1", load_model=lambda _: model)
    assert [evaluation.scope for evaluation in result.evaluations] == ["first_turn", "trajectory"]
    assert model.asked == [(16, 12, 1.0)]
    assert result.scorer.label == "policy matrix from the trainer, other scopes by policy checkpoint latest"


def test_a_matrix_beside_a_lexical_scorer_is_not_mixed_with_it() -> None:
    batch = matrix_batch([[-1.0, -3.0], [-5.0, -1.0]], ["a", "b"], {"a": "x", "b": "y"})
    result = score(batch, scopes=["first_turn", "turns"])
    assert [evaluation.scope for evaluation in result.evaluations] == ["first_turn"]
    assert result.scorer.is_policy
    assert "first turns only" in result.absent["turn/0"]


@pytest.mark.parametrize("version", [None, "../../etc", "/etc"])
def test_a_checkpoint_needs_a_usable_policy_version(version: str | None) -> None:
    config = ScorerConfig(kind=ScorerKind.policy, checkpoint="/runs/{policy_version}")
    with pytest.raises(BatchNotScorable, match="policy_version"):
        process(job(config), two_turn_batch(policy_version=version), worker="worker-1", load_model=no_model)


def test_text_without_a_tokenizer_is_refused_by_name() -> None:
    config = ScorerConfig(kind=ScorerKind.reference, checkpoint="/models/small")
    with pytest.raises(BatchNotScorable, match="without token ids"):
        process(job(config), recorded_batch(0), worker="worker-1", load_model=lambda _: CountingModel())


def golden_case(identifier: str) -> dict[str, Any]:
    cases = json.loads((GOLDEN_MODELS / "cases.json").read_text())["cases"]
    (case,) = (case for case in cases if case["id"] == identifier)
    return dict(case)


def golden_batch(case: dict[str, Any], policy_version: str) -> RolloutBatch:
    rollouts = []
    for column, reasoning in zip(case["col_ids"], case["reasonings"], strict=True):
        turn = Turn(
            prompt_token_ids=case["column_prompts"][column],
            response_token_ids=reasoning,
        )
        rollouts.append(Rollout(group_id=str(case["column_group_ids"][column]), turns=[turn]))
    tags = ReasoningTags(whole_response=True)
    return RolloutBatch(
        batch_id="b", step=0, rollouts=rollouts, policy_version=policy_version, reasoning_tags=tags
    )


def checkpoints(tmp_path: Path, *roots: Path, **patience: float) -> Checkpoints:
    settings = WorkerSettings(device="cpu", checkpoint_roots=roots, num_torch_threads=1, home=tmp_path)
    return Checkpoints(settings.for_scoring("worker-1"), **patience)


@pytest.mark.parametrize("model", ["tiny_llama", "tiny_gpt2"])
@pytest.mark.parametrize("kind", ["basic", "shared_prefix", "duplicate_prompt_pair", "unbalanced_k"])
def test_a_real_checkpoint_gives_the_reference_metrics(tmp_path: Path, model: str, kind: str) -> None:
    case = golden_case(f"{model}/{kind}/public")
    config = ScorerConfig(kind=ScorerKind.policy, checkpoint=str(GOLDEN_MODELS / "{policy_version}"))
    load_model = checkpoints(tmp_path, GOLDEN_MODELS).load
    result = process(job(config), golden_batch(case, model), worker="worker-1", load_model=load_model)
    (evaluation,) = result.evaluations
    expected = case["expected"]["metrics_from_f64_matrices"]
    bounds = case.get("tie_bounds", {})
    assert set(evaluation.ragen) == {name for name in expected if "_ema" not in name}
    for name, value in evaluation.ragen.items():
        if name not in bounds:
            tolerance = 1e-3 * (1 + abs(expected[name])) if "zscore" in name else 1e-4
            assert value == pytest.approx(expected[name], abs=tolerance), name
    assert evaluation.metrics["mi_seq"].value <= evaluation.metrics["mi_ceiling"].value
    assert result.scorer.label == "policy checkpoint {policy_version}"
    assert not result.scorer.retokenised


def test_a_checkpoint_outside_the_allowed_folders_is_refused(tmp_path: Path) -> None:
    config = ScorerConfig(kind=ScorerKind.reference, checkpoint=str(GOLDEN_MODELS / "tiny_llama"))
    batch = golden_batch(golden_case("tiny_llama/basic/public"), "any")
    for roots in ((), (tmp_path,)):
        with pytest.raises(CheckpointNotAllowed, match="operator"):
            process(job(config), batch, worker="worker-1", load_model=checkpoints(tmp_path, *roots).load)


def test_a_checkpoint_that_is_being_written_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "step-0"
    shutil.copytree(GOLDEN_MODELS / "tiny_llama", folder)
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])
    writer = threading.Timer(1.0, weights.write_bytes, [whole])
    writer.start()
    loaded = checkpoints(tmp_path, tmp_path).load(str(folder))
    writer.join()
    assert loaded.cross_log_probs([[3, 4]], [[5]], temperature=1.0).item() < 0


def test_a_checkpoint_that_stays_broken_fails_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "step-0"
    shutil.copytree(GOLDEN_MODELS / "tiny_llama", folder)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    for path in (folder, *folder.iterdir()):
        os.utime(path, (time.time() - 60, time.time() - 60))
    started = time.monotonic()
    with pytest.raises(CheckpointNotReady):
        checkpoints(tmp_path, tmp_path).load(str(folder))
    assert time.monotonic() - started < 20


def test_a_folder_whose_optimizer_is_there_before_its_weights_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "step-0"
    shutil.copytree(GOLDEN_MODELS / "tiny_llama", folder)
    (folder / "model.safetensors").rename(tmp_path / "kept-back")
    (folder / "optimizer.pt").write_bytes(b"state")
    writer = threading.Timer(0.5, (tmp_path / "kept-back").rename, [folder / "model.safetensors"])
    writer.start()
    loaded = checkpoints(tmp_path, tmp_path).load(str(folder))
    writer.join()
    assert loaded.cross_log_probs([[3, 4]], [[5]], temperature=1.0).item() < 0


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Those between two looks at a checkpoint: a machine that stands still makes none."""
    sleep, found = time.sleep, list[float]()

    def pause(seconds: float) -> None:
        found.append(seconds)
        sleep(seconds)

    monkeypatch.setattr("collapsewatch_worker.models.checkpoints.time.sleep", pause)
    return found


def test_what_stays_unusable_is_said_so_once_nobody_writes_any_more(
    tmp_path: Path, pauses: list[float]
) -> None:
    folder = tmp_path / "step-0"
    shutil.copytree(GOLDEN_MODELS / "tiny_llama", folder)
    (folder / "model.safetensors").rename(folder / "model.bin")
    for patience_seconds, age in ((0.6, 0.0), (120.0, 60.0)):
        for path in (folder, *folder.iterdir()):
            os.utime(path, (time.time() - age, time.time() - age))
        started = time.monotonic()
        pauses.clear()
        with pytest.raises(CheckpointNotUsable, match="pickled weights only"):
            checkpoints(tmp_path, tmp_path, patience_seconds=patience_seconds).load(str(folder))
        assert (time.monotonic() - started >= 0.5) if age == 0.0 else pauses == []


def test_a_checkpoint_that_is_still_to_come_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "step-0"
    writer = threading.Timer(0.5, shutil.copytree, [GOLDEN_MODELS / "tiny_llama", folder])
    writer.start()
    loaded = checkpoints(tmp_path, tmp_path).load(str(folder))
    writer.join()
    assert loaded.cross_log_probs([[3, 4]], [[5]], temperature=1.0).item() < 0


def test_a_tokenizer_that_is_written_after_the_weights_is_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "step-0"
    shutil.copytree(GOLDEN_MODELS / "tiny_llama", folder)
    os.utime(folder)
    models = checkpoints(tmp_path, tmp_path)
    assert models.load(str(folder)).tokenizer is None
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0, "go": 1}, unk_token="[UNK]"))
    writer = threading.Timer(0.5, tokenizer.save, [str(folder / "tokenizer.json")])
    writer.start()
    found = models.load(str(folder), needs_tokenizer=True).tokenizer
    writer.join()
    assert found is not None
    assert found.encode("go") == [1]


def test_a_tokenizer_that_never_comes_is_not_waited_for(tmp_path: Path) -> None:
    models = checkpoints(tmp_path, GOLDEN_MODELS, patience_seconds=0.1)
    assert models.load(str(GOLDEN_MODELS / "tiny_llama"), needs_tokenizer=True).tokenizer is None


def test_after_one_checkpoint_that_never_came_the_next_is_not_waited_for(
    tmp_path: Path, pauses: list[float]
) -> None:
    models = checkpoints(tmp_path, tmp_path, missing_seconds=0.5)
    shutil.copytree(GOLDEN_MODELS / "tiny_llama", tmp_path / "there")
    for name in ("gone", "gone-as-well", "there", "gone-too"):
        started = time.monotonic()
        pauses.clear()
        with suppress(CheckpointNotReady):
            models.load(name)
        if name == "gone-as-well":
            assert pauses == []
        elif name != "there":
            assert time.monotonic() - started >= 0.5


def test_a_checkpoint_that_is_not_there_yet_may_be_tried_again(tmp_path: Path) -> None:
    config = ScorerConfig(kind=ScorerKind.policy, checkpoint=str(tmp_path / "step-{step}"))
    batch = golden_batch(golden_case("tiny_llama/basic/public"), "any")
    load_model = checkpoints(tmp_path, tmp_path, missing_seconds=0.1).load
    with pytest.raises(CheckpointNotReady) as failure:
        process(job(config), batch, worker="worker-1", load_model=load_model)
    assert failure.value.retry
