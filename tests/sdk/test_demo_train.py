import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.utils.logging import disable_progress_bar

import collapsewatch
from collapsewatch.contracts.scoring import ScorerKind
from collapsewatch.demo.agent import new_policy, next_word_log_probs
from collapsewatch.demo.demonstrations import SFT_STYLE
from collapsewatch.demo.grpo import GrpoSettings, Rollouts
from collapsewatch.demo.train import StepRecord, Trainer, TrainSettings, Variant, train
from collapsewatch.demo.warm_up import WarmUpSettings, imitate
from collapsewatch.demo.world import State

disable_progress_bar()  # type: ignore[no-untyped-call]

NUM_STEPS = 3


@pytest.fixture(scope="module")
def sft_weights() -> dict[str, torch.Tensor]:
    """Of a model that closes its reasoning now and then."""
    torch.set_num_threads(1)
    model = new_policy(0)
    trainer = Trainer(model, model, TrainSettings("plain"))
    imitate(
        model,
        trainer.tokenizer,
        SFT_STYLE,
        num_steps=60,
        settings=WarmUpSettings(batch_size=16),
        rng=random.Random(0),
        on_step=lambda loss: None,
    )
    return model.state_dict()


def new_trainer(sft_weights: dict[str, torch.Tensor], variant: Variant) -> Trainer:
    settings = TrainSettings(variant, num_steps=NUM_STEPS, eval_every=2, grpo=GrpoSettings(group_size=4))
    policy = new_policy(0)
    policy.load_state_dict(sft_weights)
    return Trainer(new_policy(1), policy, settings)


@pytest.fixture
def trained(
    recorder: Any, run: collapsewatch.Run, sft_weights: dict[str, torch.Tensor], tmp_path: Path
) -> list[StepRecord]:
    """A whole short run, sent over HTTP to a server that records it."""
    records: list[StepRecord] = []
    train(run, new_trainer(sft_weights, "plain"), tmp_path / "plain", records.append)
    run.finish()
    assert run.dropped == {}
    return records


def test_every_step_arrives_with_the_samplers_ids_and_log_probs(
    recorder: Any, trained: list[StepRecord]
) -> None:
    batches = recorder.batches()
    assert [batch.step for batch in batches] == list(range(NUM_STEPS))
    for batch, record in zip(batches, trained, strict=True):
        assert len(batch.rollouts) == 32
        assert len({rollout.group_id for rollout in batch.rollouts}) == 8
        assert (batch.reward_min, batch.reward_max, batch.temperature) == (0.0, 1.0, 1.0)
        assert len(batch.reasoning_tags.open_token_ids) == len(batch.reasoning_tags.close_token_ids) == 1
        rewards = [rollout.reward for rollout in batch.rollouts]
        assert sum(rewards) / len(rewards) == pytest.approx(record.reward)
        for rollout in batch.rollouts:
            (turn,) = rollout.turns
            assert turn.prompt_token_ids[-1:] == batch.reasoning_tags.open_token_ids
            assert len(turn.response_token_ids) == len(turn.response.split())


def test_the_named_checkpoint_is_the_policy_that_wrote_the_batch(
    recorder: Any, trained: list[StepRecord], tmp_path: Path
) -> None:
    (update,) = [each for each in recorder.updates() if each.scorer is not None]
    assert update.scorer.kind is ScorerKind.policy
    for batch in recorder.batches():
        folder = update.scorer.checkpoint.format(policy_version=batch.policy_version)
        assert folder == str(tmp_path / "plain" / f"step-{batch.step:05d}")
        policy: Any = AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True)
        turn = batch.rollouts[0].turns[0]
        with torch.no_grad():
            log_probs_TV = next_word_log_probs(
                policy, torch.tensor([turn.prompt_token_ids]), torch.tensor([turn.response_token_ids])
            )[0]
        rescored = log_probs_TV.gather(1, torch.tensor(turn.response_token_ids)[:, None])[:, 0]
        assert rescored.tolist() == pytest.approx(turn.response_log_probs, abs=1e-4)


def test_scalars_arrive_under_their_step_and_success_only_when_evaluated(
    recorder: Any, trained: list[StepRecord]
) -> None:
    scalars = recorder.scalars()
    assert list(scalars) == [0, 1, 2]
    assert [step for step, values in scalars.items() if "success" in values] == [0, 2]
    for record in trained:
        assert scalars[record.step] == pytest.approx(record.scalars)
        assert {"entropy", "kl", "grad_norm", "kept_groups"} <= scalars[record.step].keys()
        assert record.policy.kl >= 0


def prompts_of(trainer: Trainer) -> list[list[State]]:
    seen: list[list[State]] = []

    def keep(step: int, rollouts: Rollouts) -> None:
        seen.append(rollouts.states)

    for _ in range(NUM_STEPS):
        trainer.step(keep)
    return seen


def test_both_variants_see_the_same_prompts(sft_weights: dict[str, torch.Tensor]) -> None:
    plain, filtered = (prompts_of(new_trainer(sft_weights, variant)) for variant in ("plain", "filtered"))
    assert plain == filtered


def test_the_filter_keeps_only_groups_whose_rewards_vary(sft_weights: dict[str, torch.Tensor]) -> None:
    trainer = new_trainer(sft_weights, "filtered")
    collected: list[Rollouts] = []
    trainer.step(lambda step, rollouts: collected.append(rollouts))
    rollouts = collected[0]
    rewards = torch.zeros(8, 4)
    rewards[1], rewards[2, 0], rewards[5, :2] = 1.0, 1.0, 1.0
    mixed = rollouts._replace(rewards_B=rewards.flatten())
    assert set(trainer.kept_groups(mixed)) == {rollouts.states[2].name, rollouts.states[5].name}
    flat = rollouts._replace(rewards_B=torch.ones(32))
    assert trainer.kept_groups(flat) == []
    plain = new_trainer(sft_weights, "plain")
    assert plain.kept_groups(flat) == [state.name for state in rollouts.states]


def test_a_step_without_kept_groups_reports_no_update(sft_weights: dict[str, torch.Tensor]) -> None:
    trainer = new_trainer(sft_weights, "filtered")
    before = {name: value.clone() for name, value in trainer.policy.state_dict().items()}

    def pay_all_alike(step: int, rollouts: Rollouts) -> None:
        rollouts.rewards_B.fill_(1.0)

    record = trainer.step(pay_all_alike)
    assert (record.num_kept_groups, record.update) == (0, None)
    assert "grad_norm" not in record.scalars
    assert all(torch.equal(before[name], value) for name, value in trainer.policy.state_dict().items())


def test_old_checkpoints_make_room(
    monkeypatch: pytest.MonkeyPatch,
    sft_weights: dict[str, torch.Tensor],
    tmp_path: Path,
    wait_until: Callable[..., None],
) -> None:
    monkeypatch.setattr("collapsewatch.demo.train.MAX_CHECKPOINTS", 2)
    run = collapsewatch.init(mode="disabled")
    train(run, new_trainer(sft_weights, "plain"), tmp_path, lambda record: None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00001", "step-00002"]
