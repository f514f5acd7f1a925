import copy
import math
import random
from dataclasses import replace

import pytest
import torch
from transformers import GPT2LMHeadModel

from collapsewatch.demo.agent import build_tokenizer, new_policy, next_word_log_probs
from collapsewatch.demo.demonstrations import SFT_STYLE
from collapsewatch.demo.grpo import (
    GrpoSettings,
    Rollouts,
    base_log_probs,
    collect,
    exact_entropy,
    exact_kl,
    group_advantages,
    make_optimizer,
    measure,
    set_learning_rate,
    update,
)
from collapsewatch.demo.warm_up import WarmUpSettings, imitate
from collapsewatch.demo.world import SkyMix, draw_batch, parse_action, reward

GROUP_SIZE = 4


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def policy() -> GPT2LMHeadModel:
    return new_policy(0)


@pytest.fixture
def base() -> GPT2LMHeadModel:
    return new_policy(1)


@pytest.fixture
def rollouts(policy: GPT2LMHeadModel) -> Rollouts:
    """Of a random policy, with rewards put in: groups 0 and 1 vary, the others do not."""
    states = draw_batch(random.Random(0), SkyMix())
    collected = collect(policy, build_tokenizer(), states, GROUP_SIZE, torch.Generator().manual_seed(0))
    rewards_NK = torch.zeros(len(states), GROUP_SIZE)
    rewards_NK[0, 0] = rewards_NK[1, 2] = 1.0
    rewards_NK[2:4] = 1.0
    return collected._replace(rewards_B=rewards_NK.flatten())


def updated(
    policy: GPT2LMHeadModel,
    base: GPT2LMHeadModel,
    rollouts: Rollouts,
    kept_groups: list[str],
    settings: GrpoSettings | None = None,
) -> dict[str, torch.Tensor]:
    """Weights of a copy of the policy after one update."""
    settings = settings or GrpoSettings()
    trained = copy.deepcopy(policy)
    update(
        trained,
        make_optimizer(trained, settings),
        base_log_probs(base, rollouts),
        rollouts,
        kept_groups=kept_groups,
        settings=settings,
        generator=torch.Generator().manual_seed(0),
    )
    return trained.state_dict()


def largest_change(before: dict[str, torch.Tensor], after: dict[str, torch.Tensor]) -> float:
    return max((before[name] - after[name]).abs().max().item() for name in before)


def test_rollouts_of_a_group_lie_side_by_side_and_are_paid_by_their_words(policy: GPT2LMHeadModel) -> None:
    states = draw_batch(random.Random(0), SkyMix())
    rollouts = collect(policy, build_tokenizer(), states, GROUP_SIZE, torch.Generator().manual_seed(0))
    assert rollouts.group_ids == [state.name for state in states for _ in range(GROUP_SIZE)]
    for row, words in enumerate(rollouts.words):
        state = states[row // GROUP_SIZE]
        assert build_tokenizer().decode(rollouts.prompts_BP[row]) == state.prompt
        assert rollouts.actions[row] == parse_action(words)
        assert rollouts.rewards_B[row].item() == reward(state, rollouts.actions[row])
        assert len(words) == int(rollouts.samples.mask_BT[row].sum())


def test_advantages_compare_within_a_group_and_vanish_without_variance() -> None:
    advantages = group_advantages(torch.tensor([[1.0, 0.0, 0.0, 1.0], [1.0] * 4, [0.0] * 4]))
    # Two of four: mean 1/2, sample standard deviation 1/√3, so ±√3/2.
    assert advantages[0].tolist() == pytest.approx([0.8660, -0.8660, -0.8660, 0.8660], abs=1e-4)
    assert advantages[1:].abs().max() == 0


def test_exact_kl_is_never_negative_zero_to_itself_and_equals_a_loop(
    policy: GPT2LMHeadModel, base: GPT2LMHeadModel, rollouts: Rollouts
) -> None:
    tokens = rollouts.samples.token_ids_BT
    with torch.no_grad():
        own = next_word_log_probs(policy, rollouts.prompts_BP, tokens)
        other = next_word_log_probs(base, rollouts.prompts_BP, tokens)
    kl = exact_kl(own, other)
    assert kl.min() >= -1e-6
    assert kl.max() > 0.01
    assert exact_kl(own, own).abs().max() == 0
    slow = sum(
        p * (math.log(p) - q)
        for p, q in zip(own[0, 0].exp().tolist(), other[0, 0].tolist(), strict=True)
        if p > 0
    )
    assert kl[0, 0].item() == pytest.approx(slow, abs=1e-5)


def test_entropy_of_equally_likely_words_is_the_log_of_their_number() -> None:
    assert exact_entropy(torch.full((1, 1, 8), -math.log(8))).item() == pytest.approx(math.log(8), abs=1e-6)


def test_measured_entropy_and_kl_are_means_over_sampled_tokens_only(
    policy: GPT2LMHeadModel, base: GPT2LMHeadModel, rollouts: Rollouts
) -> None:
    stats = measure(policy, base_log_probs(base, rollouts), rollouts)
    padded = rollouts.samples._replace(
        token_ids_BT=torch.nn.functional.pad(rollouts.samples.token_ids_BT, (0, 5)),
        log_probs_BT=torch.nn.functional.pad(rollouts.samples.log_probs_BT, (0, 5)),
        mask_BT=torch.nn.functional.pad(rollouts.samples.mask_BT, (0, 5)),
    )
    wider = rollouts._replace(samples=padded)
    again = measure(policy, base_log_probs(base, wider), wider)
    assert again == pytest.approx(stats, abs=1e-5)
    # A random model of 77 usable words is nearly uniform.
    assert 0.7 * math.log(77) < stats.entropy <= math.log(77)


def test_an_update_changes_the_policy_and_leaves_the_base_alone(
    policy: GPT2LMHeadModel, base: GPT2LMHeadModel, rollouts: Rollouts
) -> None:
    before = copy.deepcopy(base.state_dict())
    after = updated(policy, base, rollouts, [state.name for state in rollouts.states])
    assert largest_change(policy.state_dict(), after) > 1e-4
    assert largest_change(before, base.state_dict()) == 0


def test_without_kept_groups_nothing_changes(
    policy: GPT2LMHeadModel, base: GPT2LMHeadModel, rollouts: Rollouts
) -> None:
    assert largest_change(policy.state_dict(), updated(policy, base, rollouts, [])) == 0


def test_a_dropped_group_takes_no_part(
    policy: GPT2LMHeadModel, base: GPT2LMHeadModel, rollouts: Rollouts
) -> None:
    kept = [state.name for state in rollouts.states[:2]]
    rewards = rollouts.rewards_B.clone()
    rewards[2 * GROUP_SIZE] = 0.0
    other_rewards = rollouts._replace(rewards_B=rewards)
    same = largest_change(updated(policy, base, rollouts, kept), updated(policy, base, other_rewards, kept))
    everything = [state.name for state in rollouts.states]
    differs = largest_change(
        updated(policy, base, rollouts, everything), updated(policy, base, other_rewards, everything)
    )
    assert same == 0
    assert differs > 1e-5


def test_groups_without_variance_still_feel_the_pull_to_the_base(
    policy: GPT2LMHeadModel, base: GPT2LMHeadModel, rollouts: Rollouts
) -> None:
    flat = [state.name for state in rollouts.states[2:]]
    pulled = updated(policy, base, rollouts, flat)
    untouched = updated(
        policy, base, rollouts, flat, replace(GrpoSettings(), kl_weight=0.0, entropy_bonus=0.0)
    )
    assert largest_change(policy.state_dict(), pulled) > 1e-4
    # Without penalty and bonus only AdamW's weight decay is left.
    assert largest_change(policy.state_dict(), untouched) < 1e-4


def test_a_kl_penalty_alone_brings_the_policy_nearer_to_the_base(
    policy: GPT2LMHeadModel, base: GPT2LMHeadModel, rollouts: Rollouts
) -> None:
    settings = GrpoSettings(kl_weight=1.0, entropy_bonus=0.0, learning_rate=3e-3)
    base_log_probs_BTV = base_log_probs(base, rollouts)
    flat = rollouts._replace(rewards_B=torch.zeros_like(rollouts.rewards_B))
    optimizer = make_optimizer(policy, settings)
    before = measure(policy, base_log_probs_BTV, rollouts).kl
    for _ in range(5):
        update(
            policy,
            optimizer,
            base_log_probs_BTV,
            flat,
            kept_groups=[state.name for state in rollouts.states],
            settings=settings,
            generator=torch.Generator().manual_seed(0),
        )
    assert measure(policy, base_log_probs_BTV, rollouts).kl < 0.8 * before


def test_the_learning_rate_rises_linearly_and_stays(policy: GPT2LMHeadModel) -> None:
    settings = GrpoSettings(learning_rate=1e-3, learning_rate_warm_up=4)
    optimizer = make_optimizer(policy, settings)
    rates = []
    for step in range(6):
        set_learning_rate(optimizer, settings, step)
        rates.append(optimizer.param_groups[0]["lr"])
    assert rates == pytest.approx([0.25e-3, 0.5e-3, 0.75e-3, 1e-3, 1e-3, 1e-3])


def test_a_few_steps_raise_the_reward_that_is_paid(policy: GPT2LMHeadModel) -> None:
    settings = GrpoSettings(kl_weight=0.0, entropy_bonus=0.0, learning_rate=3e-3)
    tokenizer, generator = build_tokenizer(), torch.Generator().manual_seed(0)
    states = draw_batch(random.Random(0), SkyMix(calm=2, clear=0, storm=0))
    optimizer = make_optimizer(policy, settings)
    paid = []
    for _ in range(12):
        rollouts = collect(policy, tokenizer, states, 16, generator)
        # A reward that a random policy meets at once: the share of words that are full stops.
        rewards = torch.tensor([words.count(".") / len(words) for words in rollouts.words])
        paid.append(rewards.mean().item())
        rollouts = rollouts._replace(rewards_B=rewards)
        update(
            policy,
            optimizer,
            base_log_probs(policy, rollouts),
            rollouts,
            kept_groups=[state.name for state in states],
            settings=settings,
            generator=generator,
        )
    assert paid[-1] > 3 * paid[0]


def test_imitation_learns_the_demonstrations(policy: GPT2LMHeadModel) -> None:
    losses: list[float] = []
    imitate(
        policy,
        build_tokenizer(),
        SFT_STYLE,
        num_steps=30,
        settings=WarmUpSettings(batch_size=16),
        rng=random.Random(0),
        on_step=losses.append,
    )
    assert losses[0] > 3.0
    assert losses[-1] < 0.5 * losses[0]
