"""One RL run of the demo, as a process. It knows the service through the public SDK alone.

    python -m collapsewatch.demo.train --variant plain --folder FOLDER --seed 1 --steps 160

`plain` trains on every group. `filtered` first drops the groups whose rewards do not vary, as the
reward-variance filter says; all else is equal, the prompts of each step included. Each step is logged with
the checkpoint that wrote it, so that whoever scores it scores with the policy itself.
"""

import argparse
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Literal, NoReturn

import torch
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

import collapsewatch
from collapsewatch.demo.agent import build_tokenizer, load_checkpoint, save_checkpoint
from collapsewatch.demo.grpo import (
    GrpoSettings,
    PolicyStats,
    Rollouts,
    UpdateStats,
    base_log_probs,
    collect,
    make_optimizer,
    measure,
    set_learning_rate,
    update,
)
from collapsewatch.demo.progress import quiet_process, report
from collapsewatch.demo.warm_up import BASE_FOLDER, SFT_FOLDER
from collapsewatch.demo.world import REWARD_RANGE, SkyMix, draw_batch, held_out_states
from collapsewatch.filters import snr_filter

PROJECT = "demo"
VARIANT_NAMES = {"plain": "GRPO", "filtered": "GRPO + reward-variance filter"}
Variant = Literal["plain", "filtered"]
POLICY_VERSION = "step-{step:05d}"
MAX_CHECKPOINTS = 200
"""Kept per run, 0.4 MB each. Scoring that falls further behind than this finds its checkpoint gone."""


@dataclass(frozen=True, slots=True)
class TrainSettings:
    """All that defines a run; logged as its config."""

    variant: Variant
    seed: int = 1
    num_steps: int = 160
    eval_every: int = 5
    skies: SkyMix = field(default_factory=SkyMix)
    grpo: GrpoSettings = field(default_factory=GrpoSettings)


@dataclass(frozen=True)
class StepRecord:
    """What one step showed."""

    step: int
    reward: float
    num_kept_groups: int
    policy: PolicyStats
    update: UpdateStats | None
    """None when no group was kept."""
    success: float | None
    """Share of the held-out states that are solved; None between evaluations."""

    @property
    def scalars(self) -> dict[str, float]:
        """What goes to the run as plain numbers; what was not measured at this step is left out."""
        values = {
            "entropy": self.policy.entropy,
            "kl": self.policy.kl,
            "kept_groups": float(self.num_kept_groups),
        }
        if self.update is not None:
            values |= {
                "loss": self.update.loss,
                "grad_norm": self.update.grad_norm,
                "clip_fraction": self.update.clip_fraction,
            }
        if self.success is not None:
            values["success"] = self.success
        return values


class Trainer:
    """The state of one RL run: policy, optimizer and the random numbers of prompts and sampling."""

    def __init__(self, base: GPT2LMHeadModel, policy: GPT2LMHeadModel, settings: TrainSettings) -> None:
        self.settings = settings
        self.tokenizer = build_tokenizer()
        self.base = base
        self.policy = policy
        self.optimizer = make_optimizer(policy, settings.grpo)
        # Prompts have a stream of their own, so that both runs of a seed see the same ones.
        self._prompt_rng = random.Random(settings.seed)
        self._generator = torch.Generator().manual_seed(settings.seed)
        self._next_step = 0

    def step(self, on_rollouts: Callable[[int, Rollouts], None]) -> StepRecord:
        """Samples, hands the rollouts to `on_rollouts` before the policy changes, then updates it."""
        settings, step = self.settings, self._next_step
        states = draw_batch(self._prompt_rng, settings.skies)
        rollouts = collect(self.policy, self.tokenizer, states, settings.grpo.group_size, self._generator)
        on_rollouts(step, rollouts)
        base_log_probs_BTV = base_log_probs(self.base, rollouts)
        policy_stats = measure(self.policy, base_log_probs_BTV, rollouts)
        success = self.success() if step % settings.eval_every == 0 else None
        kept_groups = self.kept_groups(rollouts)
        set_learning_rate(self.optimizer, settings.grpo, step)
        update_stats = update(
            self.policy,
            self.optimizer,
            base_log_probs_BTV,
            rollouts,
            kept_groups=kept_groups,
            settings=settings.grpo,
            generator=self._generator,
        )
        self._next_step += 1
        reward = rollouts.rewards_B.mean().item()
        return StepRecord(step, reward, len(kept_groups), policy_stats, update_stats, success)

    def kept_groups(self, rollouts: Rollouts) -> list[str]:
        """Names of the groups that are trained on: all of them, or what the filter keeps."""
        if self.settings.variant == "plain":
            return [state.name for state in rollouts.states]
        selection = snr_filter(
            rollouts.rewards_B.tolist(), rollouts.group_ids, strategy="top_p", value=0.9, score="std"
        )
        return list(selection.selected_group_ids)

    def success(self) -> float:
        """Share of the held-out states on which one sampled response takes the right move; chance is 1/4."""
        same_dice = torch.Generator().manual_seed(0)
        rollouts = collect(self.policy, self.tokenizer, held_out_states(), 1, same_dice)
        return rollouts.rewards_B.mean().item()


def log_step(
    run: collapsewatch.Run, tokenizer: PreTrainedTokenizerFast, step: int, rollouts: Rollouts
) -> None:
    """Hands a step's rollouts to the run: the sampler's own token ids and log-probs, and the text to read."""
    samples = rollouts.samples
    group_size = len(rollouts.words) // len(rollouts.states)
    lengths = samples.mask_BT.sum(1).tolist()
    run.log_rollouts(
        step,
        prompts=[state.prompt for state in rollouts.states for _ in range(group_size)],
        responses=[" ".join(words) for words in rollouts.words],
        prompt_token_ids=rollouts.prompts_BP,
        response_token_ids=[
            row[:length] for row, length in zip(samples.token_ids_BT.tolist(), lengths, strict=True)
        ],
        response_log_probs=[
            row[:length] for row, length in zip(samples.log_probs_BT.tolist(), lengths, strict=True)
        ],
        actions=rollouts.actions,
        rewards=rollouts.rewards_B,
        group_ids=rollouts.group_ids,
        reward_range=REWARD_RANGE,
        reasoning_tags=collapsewatch.ReasoningTags(
            open="<think>",
            close="</think>",
            open_token_ids=[tokenizer.convert_tokens_to_ids("<think>")],
            close_token_ids=[tokenizer.convert_tokens_to_ids("</think>")],
        ),
        temperature=1.0,
        policy_version=POLICY_VERSION.format(step=step),
    )


def train(
    run: collapsewatch.Run, trainer: Trainer, folder: Path, on_step: Callable[[StepRecord], None]
) -> None:
    """Trains to the last step; every step's policy lies in `folder` before its rollouts are logged."""
    folder.mkdir(parents=True, exist_ok=True)
    run.set_scorer("policy", checkpoint=f"{folder}/{{policy_version}}")

    def hand_over(step: int, rollouts: Rollouts) -> None:
        save_checkpoint(trainer.policy, trainer.tokenizer, folder / POLICY_VERSION.format(step=step))
        if step >= MAX_CHECKPOINTS:
            shutil.rmtree(folder / POLICY_VERSION.format(step=step - MAX_CHECKPOINTS), ignore_errors=True)
        log_step(run, trainer.tokenizer, step, rollouts)

    for _ in range(trainer.settings.num_steps):
        record = trainer.step(hand_over)
        run.log(record.scalars, step=record.step)
        on_step(record)


class Terminated(Exception):
    """The process was asked to stop."""


def _on_terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train one run of the demo.")
    parser.add_argument("--variant", choices=sorted(VARIANT_NAMES), required=True)
    parser.add_argument("--folder", type=Path, required=True, help="holds base/ and sft/; gets checkpoints")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=160)
    parser.add_argument("--run-id", default=None)
    parser.add_argument("--mode", choices=["online", "disabled"], default="online")
    return parser.parse_args()


def main() -> None:
    """Trains one run; url and key come from the SDK's environment variables.

    Tells its progress as JSON lines on standard output.
    """
    arguments = _arguments()
    quiet_process()
    settings = TrainSettings(arguments.variant, seed=arguments.seed, num_steps=arguments.steps)
    folder = arguments.folder.absolute()
    trainer = Trainer(load_checkpoint(folder / BASE_FOLDER), load_checkpoint(folder / SFT_FOLDER), settings)
    run = collapsewatch.init(
        project=PROJECT,
        name=f"{VARIANT_NAMES[settings.variant]}, seed {settings.seed}",
        config=settings,
        tags=["demo", settings.variant],
        run_id=arguments.run_id,
        mode=arguments.mode,
    )
    signal.signal(signal.SIGTERM, _on_terminate)
    try:
        with run:
            train(run, trainer, folder / settings.variant, _report_step)
    except Terminated:
        raise SystemExit(128 + signal.SIGTERM) from None
    report("done", dropped=sum(run.dropped.values()))


def _report_step(record: StepRecord) -> None:
    report("step", done=record.step + 1, reward=record.reward, entropy=record.policy.entropy)


if __name__ == "__main__":
    main()
