"""Before RL: a base model that mostly talks without saying anything, and a fine-tuned one that states facts.

RL starts from the second and is held near the first by its KL penalty. That is the usual set-up (a reference
policy, a fine-tuned start) with the pressure towards templates built in.

    python -m collapsewatch.demo.warm_up --folder FOLDER --seed 1
"""

import argparse
import copy
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

from collapsewatch.demo.agent import PAD_ID, build_tokenizer, new_policy, save_checkpoint
from collapsewatch.demo.demonstrations import BASE_STYLE, SFT_STYLE, Style, draw_demonstration
from collapsewatch.demo.progress import quiet_process, report
from collapsewatch.demo.world import PROMPT_LENGTH

BASE_FOLDER = "base"
SFT_FOLDER = "sft"


@dataclass(frozen=True, slots=True)
class WarmUpSettings:
    base_steps: int = 220
    sft_steps: int = 260
    batch_size: int = 64
    learning_rate: float = 3e-3

    @property
    def num_steps(self) -> int:
        return self.base_steps + self.sft_steps


class WarmModels(NamedTuple):
    base: GPT2LMHeadModel
    """The KL reference."""
    sft: GPT2LMHeadModel
    """Where RL starts."""


def _imitation_loss(model: GPT2LMHeadModel, tokens: Tensor) -> Tensor:
    """Mean cross-entropy of the response words, in nats; prompt and padding are not learned."""
    inputs, targets = tokens[:, :-1], tokens[:, 1:].clone()
    targets[:, : PROMPT_LENGTH - 1] = PAD_ID
    logits = model(input_ids=inputs, attention_mask=torch.ones_like(inputs)).logits
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD_ID)


def imitate(
    model: GPT2LMHeadModel,
    tokenizer: PreTrainedTokenizerFast,
    style: Style,
    *,
    num_steps: int,
    settings: WarmUpSettings,
    rng: random.Random,
    on_step: Callable[[float], None],
) -> None:
    """Trains the model in place on fresh demonstrations; `on_step` gets each step's loss in nats per word."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, num_steps)
    model.train()
    for _ in range(num_steps):
        texts = [" ".join(draw_demonstration(rng, style)) for _ in range(settings.batch_size)]
        tokens = tokenizer(texts, padding=True, return_tensors="pt").input_ids
        loss = _imitation_loss(model, tokens)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        on_step(loss.item())
    model.eval()  # type: ignore[no-untyped-call]


def warm_up(
    seed: int, settings: WarmUpSettings, on_step: Callable[[float], None] = lambda _: None
) -> WarmModels:
    """The base and the fine-tuned model of this seed."""
    tokenizer, rng = build_tokenizer(), random.Random(seed)
    model = new_policy(seed)
    imitate(
        model,
        tokenizer,
        BASE_STYLE,
        num_steps=settings.base_steps,
        settings=settings,
        rng=rng,
        on_step=on_step,
    )
    base = copy.deepcopy(model)
    imitate(
        model,
        tokenizer,
        SFT_STYLE,
        num_steps=settings.sft_steps,
        settings=settings,
        rng=rng,
        on_step=on_step,
    )
    return WarmModels(base, model)


def main() -> None:
    """Warms up once for all runs; tells its progress as JSON lines on standard output."""
    parser = argparse.ArgumentParser(description="Train the base and the fine-tuned model of the demo.")
    parser.add_argument("--folder", type=Path, required=True, help="receives base/ and sft/")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    quiet_process()
    settings = WarmUpSettings()
    done = 0

    def on_step(loss: float) -> None:
        nonlocal done
        done += 1
        report("step", done=done, total=settings.num_steps, loss=loss)

    models = warm_up(arguments.seed, settings, on_step)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    save_checkpoint(models.base, build_tokenizer(), arguments.folder / BASE_FOLDER)
    save_checkpoint(models.sft, build_tokenizer(), arguments.folder / SFT_FOLDER)
    report("done")


if __name__ == "__main__":
    main()
