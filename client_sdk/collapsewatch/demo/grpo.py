"""One GRPO step: sample, pay, compare within each group, update.

Legend: N prompts, K rollouts per prompt, B = N·K rollouts, P prompt tokens, T response tokens, V words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from transformers import GPT2LMHeadModel, PreTrainedTokenizerFast

from collapsewatch.demo.agent import Samples, encode_prompts, next_word_log_probs, sample
from collapsewatch.demo.world import State, parse_action, reward


@dataclass(frozen=True, slots=True)
class GrpoSettings:
    group_size: int = 16
    learning_rate: float = 3e-4
    learning_rate_warm_up: int = 15
    """Steps over which the learning rate rises linearly."""
    adam_betas: tuple[float, float] = (0.9, 0.95)
    clip_range: float = 0.2
    max_grad_norm: float = 1.0
    entropy_bonus: float = 0.003
    kl_weight: float = 0.04
    """Of the exact KL to the base model, per token."""
    num_minibatches: int = 2


class Rollouts(NamedTuple):
    """What the policy did with one batch of prompts; rollouts of a group lie side by side."""

    states: list[State]
    """[N]"""
    prompts_BP: Tensor
    samples: Samples
    words: list[list[str]]
    """[B] the responses as words."""
    actions: list[str | None]
    rewards_B: Tensor

    @property
    def group_ids(self) -> list[str]:
        """[B] names of the states."""
        group_size = len(self.words) // len(self.states)
        return [state.name for state in self.states for _ in range(group_size)]


class PolicyStats(NamedTuple):
    """Of the policy that wrote the batch, as means over its tokens, in nats."""

    entropy: float
    kl: float
    """To the base model."""


class UpdateStats(NamedTuple):
    """Means over the minibatches of one update."""

    loss: float
    grad_norm: float
    """Before clipping."""
    clip_fraction: float


def make_optimizer(policy: GPT2LMHeadModel, settings: GrpoSettings) -> torch.optim.AdamW:
    """AdamW over all weights of the policy."""
    return torch.optim.AdamW(policy.parameters(), lr=settings.learning_rate, betas=settings.adam_betas)


def set_learning_rate(optimizer: torch.optim.Optimizer, settings: GrpoSettings, step: int) -> None:
    """Sets the learning rate of this step, counted from 0."""
    share = min(1.0, (step + 1) / max(1, settings.learning_rate_warm_up))
    for group in optimizer.param_groups:
        group["lr"] = share * settings.learning_rate


def collect(
    policy: GPT2LMHeadModel,
    tokenizer: PreTrainedTokenizerFast,
    states: Sequence[State],
    group_size: int,
    generator: torch.Generator,
) -> Rollouts:
    """`group_size` sampled rollouts for each state, with their rewards."""
    repeated = [state for state in states for _ in range(group_size)]
    prompts_BP = encode_prompts(tokenizer, [state.prompt for state in repeated])
    samples = sample(policy, prompts_BP, generator)
    vocabulary = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    words = [
        [vocabulary[token_id] for token_id in token_ids[mask].tolist()]
        for token_ids, mask in zip(samples.token_ids_BT, samples.mask_BT, strict=True)
    ]
    actions = [parse_action(response) for response in words]
    rewards = [reward(state, action) for state, action in zip(repeated, actions, strict=True)]
    return Rollouts(list(states), prompts_BP, samples, words, actions, torch.tensor(rewards))


def group_advantages(rewards_NK: Tensor) -> Tensor:
    """Rewards [N, K] less their group's mean, over its standard deviation; 0 where rewards do not vary."""
    centred = rewards_NK - rewards_NK.mean(1, keepdim=True)
    return centred / (rewards_NK.std(1, keepdim=True) + 1e-6)


def exact_kl(log_probs_BTV: Tensor, reference_log_probs_BTV: Tensor) -> Tensor:
    """KL from policy to reference at each position, [B, T] nats, summed over all words: never negative."""
    return (log_probs_BTV.exp() * (log_probs_BTV - reference_log_probs_BTV)).sum(-1)


def exact_entropy(log_probs_BTV: Tensor) -> Tensor:
    """Entropy of the next word at each position, [B, T] nats."""
    return -(log_probs_BTV.exp() * log_probs_BTV).sum(-1)


@torch.no_grad()
def measure(policy: GPT2LMHeadModel, base_log_probs_BTV: Tensor, rollouts: Rollouts) -> PolicyStats:
    """Entropy and KL over all sampled tokens of the batch, whatever the update will keep of it."""
    mask_BT = rollouts.samples.mask_BT
    log_probs_BTV = next_word_log_probs(policy, rollouts.prompts_BP, rollouts.samples.token_ids_BT)
    return PolicyStats(
        entropy=exact_entropy(log_probs_BTV)[mask_BT].mean().item(),
        kl=exact_kl(log_probs_BTV, base_log_probs_BTV)[mask_BT].mean().item(),
    )


@torch.no_grad()
def base_log_probs(base: GPT2LMHeadModel, rollouts: Rollouts) -> Tensor:
    """[B, T, V] what the base model would have said at each position."""
    return next_word_log_probs(base, rollouts.prompts_BP, rollouts.samples.token_ids_BT)


def _minibatch_loss(
    policy: GPT2LMHeadModel,
    base_log_probs_BTV: Tensor,
    rollouts: Rollouts,
    advantages_B: Tensor,
    rows: Tensor,
    settings: GrpoSettings,
) -> tuple[Tensor, float]:
    """The clipped surrogate, KL penalty and entropy bonus as a mean over tokens; and the clipped share."""
    tokens_BT, mask_BT = rollouts.samples.token_ids_BT[rows], rollouts.samples.mask_BT[rows]
    log_probs_BTV = next_word_log_probs(policy, rollouts.prompts_BP[rows], tokens_BT)
    chosen_BT = log_probs_BTV.gather(-1, tokens_BT[..., None])[..., 0]
    ratio_BT = (chosen_BT - rollouts.samples.log_probs_BT[rows]).exp()
    clipped_BT = ratio_BT.clamp(1 - settings.clip_range, 1 + settings.clip_range)
    advantages_B1 = advantages_B[rows, None]
    surrogate_BT = torch.minimum(ratio_BT * advantages_B1, clipped_BT * advantages_B1)
    kl_BT = exact_kl(log_probs_BTV, base_log_probs_BTV[rows])
    bonus_BT = settings.entropy_bonus * exact_entropy(log_probs_BTV)
    loss = (settings.kl_weight * kl_BT - surrogate_BT - bonus_BT)[mask_BT].mean()
    clip_fraction = (ratio_BT != clipped_BT)[mask_BT].float().mean().item()
    return loss, clip_fraction


def update(
    policy: GPT2LMHeadModel,
    optimizer: torch.optim.Optimizer,
    base_log_probs_BTV: Tensor,
    rollouts: Rollouts,
    *,
    kept_groups: Sequence[str],
    settings: GrpoSettings,
    generator: torch.Generator,
) -> UpdateStats | None:
    """One epoch over the rollouts of the kept groups; None, and no change, when no group is kept.

    A dropped group takes part in nothing: neither in the policy gradient nor in the KL penalty.
    """
    num_groups = len(rollouts.states)
    advantages_B = group_advantages(rollouts.rewards_B.view(num_groups, -1)).flatten()
    kept = set(kept_groups)
    rows = torch.tensor(
        [row for row, name in enumerate(rollouts.group_ids) if name in kept], dtype=torch.long
    )
    if len(rows) == 0:
        return None
    shuffled = rows[torch.randperm(len(rows), generator=generator)]
    losses, norms, clip_fractions = [], [], []
    for minibatch in shuffled.chunk(settings.num_minibatches):
        loss, clip_fraction = _minibatch_loss(
            policy, base_log_probs_BTV, rollouts, advantages_B, minibatch, settings
        )
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        norms.append(float(torch.nn.utils.clip_grad_norm_(policy.parameters(), settings.max_grad_norm)))
        optimizer.step()
        losses.append(loss.item())
        clip_fractions.append(clip_fraction)
    count = len(losses)
    return UpdateStats(sum(losses) / count, sum(norms) / count, sum(clip_fractions) / count)
