"""The scoring process when an engine elsewhere holds the weights: from a job to its result."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import SecretStr
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from collapsewatch.blobs import open_blob_store, pack_batch
from collapsewatch.contracts.rollouts import ReasoningTags, Rollout, RolloutBatch, Turn
from collapsewatch.contracts.scoring import ScorerConfig, ScorerKind
from collapsewatch_worker.loop.child import JobScorer
from collapsewatch_worker.loop.messages import Failed, Scored
from collapsewatch_worker.models.served import ServedModels
from collapsewatch_worker.scoring.engine import cross_log_probs
from collapsewatch_worker.settings import WorkerSettings
from tests.worker.batches import job
from tests.worker.engine_server import Answer, SglangServer

PROMPTS = [[1, 2, 3], [4, 5]]
REASONINGS = [[6, 7, 8], [9, 3], [11], [5, 10]]


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=16, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    )
    model = LlamaForCausalLM(config)
    model.train(False)
    return model


@pytest.fixture
def server(model: PreTrainedModel) -> Iterator[SglangServer]:
    server = SglangServer(model)
    server.start()
    yield server
    server.stop()


def settings(server: SglangServer, folder: Path, **changes: Any) -> WorkerSettings:
    return WorkerSettings(
        device="cuda",  # not there, and not needed
        blob_url=str(folder / "blobs"),
        checkpoint_roots=(folder / "models",),
        engine="sglang",
        engine_url=server.url,
        engine_key=SecretStr("key-of-the-engine"),
        **{"engine_patience_seconds": 0.0, **changes},
    )


def answer(server: SglangServer, folder: Path, checkpoint: str, **changes: Any) -> Scored | Failed:
    rollouts = [
        Rollout(
            group_id=str(row // 2),
            turns=[Turn(prompt_token_ids=PROMPTS[row // 2], response_token_ids=reasoning)],
        )
        for row, reasoning in enumerate(REASONINGS)
    ]
    tags = ReasoningTags(whole_response=True)
    batch = RolloutBatch(batch_id="b", step=40, rollouts=rollouts, reasoning_tags=tags)
    asked = job(ScorerConfig(kind=ScorerKind.policy, checkpoint=checkpoint))
    open_blob_store(str(folder / "blobs")).write(asked.blob_keys[0], pack_batch(batch))
    message = JobScorer(settings(server, folder, **changes).for_scoring("worker-1")).answer(asked)
    assert isinstance(message, Scored | Failed)
    return message


def test_a_job_is_scored_by_the_engine(server: SglangServer, model: PreTrainedModel, tmp_path: Path) -> None:
    message = answer(server, tmp_path, "runs/7/step-{step}")

    assert isinstance(message, Scored)
    (evaluation,) = message.result.evaluations
    scores_RP = cross_log_probs(model, PROMPTS, REASONINGS)
    matched_R = scores_RP[np.arange(4), [0, 0, 1, 1]]
    lengths_R = np.array([len(reasoning) for reasoning in REASONINGS])
    expected = (matched_R / lengths_R).mean()
    assert evaluation.ragen["matched_log_prob_mean"] == pytest.approx(expected, abs=1e-4)
    assert evaluation.metrics["retrieval_accuracy"].value == pytest.approx(
        np.mean(scores_RP.argmax(axis=1) == [0, 0, 1, 1])
    )
    assert server.keys == {"Bearer key-of-the-engine"}
    assert message.result.scorer.label == "policy checkpoint step-{step}"


def test_a_job_for_another_checkpoint_than_the_engine_serves_fails(
    server: SglangServer, tmp_path: Path
) -> None:
    message = answer(server, tmp_path, "runs/8/step-{step}")

    assert isinstance(message, Failed)
    assert message.failure.error.startswith("CheckpointNotReady")
    assert message.failure.retry


def test_a_job_waits_for_the_weights_of_its_batch(
    server: SglangServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, looks = server.get, []

    def later(path: str) -> Answer:
        looks.append(path)
        server.weight_version = "runs/8/step-39" if len(looks) < 3 else "runs/8/step-40"
        return get(path)

    monkeypatch.setattr(server, "get", later)
    message = answer(server, tmp_path, "runs/8/step-{step}", engine_patience_seconds=60.0)
    assert isinstance(message, Scored)
    assert looks[:3] == ["/model_info"] * 3


def test_only_batches_without_token_ids_need_the_folder(server: SglangServer, tmp_path: Path) -> None:
    served = ServedModels(settings(server, tmp_path).for_scoring("worker-1"))

    assert served.load("runs/7/step-40").tokenizer is None
    # It may be on the engine's host alone; a batch that brings its token ids is scored all the same.
    assert served.load("runs/7/step-40", needs_tokenizer=True).tokenizer is None
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "go": 1}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    for folder in ("models/runs/7/step-40", "elsewhere"):
        (tmp_path / folder).mkdir(parents=True)
        tokenizer.save(str(tmp_path / folder / "tokenizer.json"))
    assert served.load(str(tmp_path / "elsewhere"), needs_tokenizer=True).tokenizer is None
    loaded = served.load("runs/7/step-40", needs_tokenizer=True).tokenizer
    assert loaded is not None
    assert loaded.encode("go") == [1]
