"""A tiny random policy trained by the real TRL, watched."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

trl = pytest.importorskip("trl")

import torch  # noqa: E402
from datasets import Dataset  # noqa: E402
from tokenizers import Tokenizer, models, pre_tokenizers  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: E402

from collapsewatch.contracts.rollouts import RolloutBatch  # noqa: E402
from collapsewatch.integrations.trl import CollapseWatchCallback, CollapseWatchMixin  # noqa: E402
from collapsewatch_worker.scoring.engine import cross_log_probs  # noqa: E402

from .conftest import Recorder  # noqa: E402

WORDS = ["<pad>", "<s>", "</s>", "<think>", "</think>", "red", "green", "go", "stop", "left", "right"]
CLOSE = WORDS.index("</think>")
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def server(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setenv("COLLAPSEWATCH_URL", recorder.url)
    monkeypatch.setenv("COLLAPSEWATCH_API_KEY", "k")
    monkeypatch.setenv("COLLAPSEWATCH_STRICT", "1")
    return recorder


def tokenizer() -> PreTrainedTokenizerFast:
    words = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<pad>")
    )
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    factory: Any = PreTrainedTokenizerFast
    made: PreTrainedTokenizerFast = factory(
        tokenizer_object=words, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )
    return made


def policy() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(WORDS),
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        attention_dropout=0.2,
    )
    return LlamaForCausalLM(config)


def reward(completions: list[str], **_: Any) -> list[float | None]:
    return [None if "stop stop" in text else float(text.count("left")) for text in completions]


def length(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [float(len(ids)) for ids in completion_ids]


def trained(
    kind: str, output: Path, callback: Any, *, model: Any = None, mixin: bool = True, **options: Any
) -> Any:
    """A trainer of TRL after two updates of 2 prompts × 4 rollouts."""
    base, config = getattr(trl, f"{kind}Trainer"), getattr(trl, f"{kind}Config")
    trainer_type = type("Trainer", (CollapseWatchMixin, base), {}) if mixin else base
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(1)
    prompts = ["<s> red <think>", "<s> green <think>", "<s> red green <think>"]
    given = {
        "num_generations": 4,
        "per_device_train_batch_size": 8,
        "max_completion_length": 12,
        "max_steps": 2,
        "logging_steps": 1,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "reward_weights": [1.0, 0.5],
        "save_strategy": "no",
        "run_name": "tiny",
        "temperature": 0.9,
        "learning_rate": 0.01,
        "disable_tqdm": True,
        "beta": 0.0,
        **options,
    }
    trainer = trainer_type(
        model=policy() if model is None else model,
        args=config(output_dir=str(output), **given),
        processing_class=tokenizer(),
        reward_funcs=[reward, length],
        train_dataset=Dataset.from_dict({"prompt": prompts * 4}),
        callbacks=[] if callback is None else [callback],
    )
    trainer.train()
    return trainer


def batches(server: Recorder) -> list[RolloutBatch]:
    return sorted(server.batches(), key=lambda batch: batch.step)


def matrix_of(batch: RolloutBatch) -> Any:
    assert batch.cross_log_probs is not None
    return np.array(batch.cross_log_probs.log_probs, dtype=float)


@pytest.mark.parametrize("kind", ["GRPO", "RLOO"])
def test_rollouts_and_logs_of_a_real_training_arrive(kind: str, server: Recorder, tmp_path: Path) -> None:
    trained(kind, tmp_path, CollapseWatchCallback("sokoban", reward_range=(0.0, 30.0)))
    start = server.of("/runs")[0].body
    assert (start["project"], start["name"]) == ("sokoban", "tiny")
    assert start["config"]["learning_rate"] == 0.01
    assert start["config"]["model"]["hidden_size"] == 16
    sent = batches(server)
    assert [(batch.step, batch.policy_version) for batch in sent] == [(1, "step-00001"), (2, "step-00002")]
    words = tokenizer()
    for batch in sent:
        assert batch.temperature == 0.9
        assert (batch.reward_min, batch.reward_max) == (0.0, 30.0)
        groups = [rollout.group_id for rollout in batch.rollouts]
        assert len(groups) == 8
        assert [groups.count(group) for group in dict.fromkeys(groups)] == [4, 4]
        for rollout in batch.rollouts:
            (turn,) = rollout.turns
            ids = turn.response_token_ids or []
            assert turn.prompt == words.decode(turn.prompt_token_ids or [])
            assert (turn.prompt or "").startswith("<s> ")
            text = words.decode([token for token in ids if token != 2])
            assert turn.response == text
            parts = [None if "stop stop" in text else float(text.count("left")), len(ids) / 2]
            assert rollout.reward == pytest.approx(sum(part for part in parts if part is not None))
    scalars = server.scalars()
    assert {1, 2} <= set(scalars)
    assert "loss" in scalars[1]
    assert "reward" in scalars[2]
    assert server.updates()[-1].state == "finished"


def test_the_live_policy_scores_the_batch_and_trains_as_if_it_had_not(
    server: Recorder, tmp_path: Path
) -> None:
    callback = CollapseWatchCallback("p", cross_score=True, token_budget=64)
    mixed: dict[str, Any] = {"bf16": True, "gradient_checkpointing": True, "max_completion_length": 24}
    watched = trained("GRPO", tmp_path / "a", callback, **mixed)
    plain = trained("GRPO", tmp_path / "b", None, mixin=False, **mixed)
    for name, value in plain.model.state_dict().items():
        assert torch.equal(value, watched.model.state_dict()[name]), name
    first = batches(server)[0]
    sent = first.cross_log_probs
    assert sent is not None
    # The first batch was written by the policy as it began.
    want = []
    model = policy().eval()  # type: ignore[no-untyped-call]
    columns = {rollout.group_id: rollout.turns[0].prompt_token_ids for rollout in first.rollouts}
    for row in sent.rollout_indices:
        ids = first.rollouts[row].turns[0].response_token_ids or []
        prompts = [columns[group] or [] for group in sent.column_group_ids]
        want.append(cross_log_probs(model, prompts, [ids[: ids.index(CLOSE)]], temperature=0.9)[0])
    assert len(want) >= 2
    np.testing.assert_allclose(matrix_of(first), want, atol=1e-4)
    assert np.abs(matrix_of(first)).max() > 0.1


def test_the_adapter_of_each_step_is_kept_for_the_worker(server: Recorder, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    from collapsewatch_worker.models.store import ModelStore

    policy().save_pretrained(tmp_path / "base")
    base = LlamaForCausalLM.from_pretrained(tmp_path / "base")
    model = get_peft_model(base, LoraConfig(r=2, target_modules=["q_proj", "v_proj"]))
    folder = tmp_path / "adapters"
    callback = CollapseWatchCallback("p", adapters=folder, cross_score=True, every_steps=2)
    trained("GRPO", tmp_path / "out", callback, model=model, learning_rate=0.5)
    assert sorted(path.name for path in folder.iterdir()) == ["step-00001", "step-00002"]
    scorer = server.of("/runs")[0].body["scorer"]
    assert scorer["checkpoint"] == str(folder / "{policy_version}")
    first, second = batches(server)
    assert first.cross_log_probs is None
    sent = second.cross_log_probs
    assert sent is not None
    row = sent.rollout_indices[0]
    ids = second.rollouts[row].turns[0].response_token_ids or []
    own = second.rollouts[row]
    with ModelStore([tmp_path]).load(str(folder / "step-00002")).scoring() as loaded:
        want = cross_log_probs(
            loaded, [own.turns[0].prompt_token_ids or []], [ids[: ids.index(CLOSE)]], temperature=0.9
        )
    column = sent.column_group_ids.index(own.group_id)
    assert matrix_of(second)[0][column] == pytest.approx(want[0, 0], abs=1e-4)


def test_an_alert_ends_the_training(
    server: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from collapsewatch.training_run import Run

    monkeypatch.setattr(Run, "should_stop", lambda self, **_: self.summary.get("loss") is not None)
    trainer = trained("GRPO", tmp_path, CollapseWatchCallback("p", stop_on_alert=True), max_steps=5)
    assert trainer.state.global_step == 2


def test_the_answers_of_tools_part_a_rollout_into_turns() -> None:
    from collapsewatch.integrations.trl import _turns

    words = tokenizer()
    first, second = _turns(words, [1, 3], [7, 4, 9, 5, 6, 10, 2], [1, 1, 1, 0, 0, 1, 1], [-0.5] * 7)
    assert (first["prompt_token_ids"], first["response_token_ids"]) == ([1, 3], [7, 4, 9])
    assert (second["prompt_token_ids"], second["response_token_ids"]) == ([1, 3, 7, 4, 9, 5, 6], [10, 2])
    assert second["response"] == "right"
    assert second["response_log_probs"] == [-0.5, -0.5]
    (only,) = _turns(words, [1], [5, 2], None, [None, -1.0])
    assert "response_log_probs" not in only
