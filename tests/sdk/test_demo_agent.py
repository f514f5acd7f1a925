import random
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2LMHeadModel
from transformers.utils.logging import disable_progress_bar

from collapsewatch.demo.agent import (
    BANNED_IDS,
    BOS_ID,
    EOS_ID,
    PAD_ID,
    build_tokenizer,
    encode_prompts,
    load_checkpoint,
    new_policy,
    next_word_log_probs,
    sample,
    save_checkpoint,
)
from collapsewatch.demo.demonstrations import MAX_RESPONSE_WORDS, SFT_STYLE, draw_demonstration, vocabulary
from collapsewatch.demo.warm_up import WarmUpSettings, imitate
from collapsewatch.demo.world import SkyMix, draw_batch

disable_progress_bar()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def policy() -> GPT2LMHeadModel:
    """Trained just enough to say `<eos>` now and then."""
    torch.set_num_threads(1)
    model = new_policy(0)
    settings = WarmUpSettings(batch_size=16)
    imitate(
        model,
        build_tokenizer(),
        SFT_STYLE,
        num_steps=40,
        settings=settings,
        rng=random.Random(0),
        on_step=lambda loss: None,
    )
    return model


@pytest.fixture(scope="module", name="prompts_BP")
def _prompts() -> torch.Tensor:
    states = draw_batch(random.Random(0), SkyMix()) * 4
    return encode_prompts(build_tokenizer(), [state.prompt for state in states])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_text_survives_the_tokenizer() -> None:
    tokenizer, rng = build_tokenizer(), random.Random(0)
    for _ in range(50):
        text = " ".join(draw_demonstration(rng, SFT_STYLE))
        token_ids = tokenizer.encode(text)
        assert len(token_ids) == len(text.split())
        assert tokenizer.decode(token_ids) == text


def test_special_words_have_the_ids_that_sampling_relies_on() -> None:
    tokenizer = build_tokenizer()
    assert tokenizer.convert_tokens_to_ids(["<pad>", "<bos>", "<eos>"]) == [PAD_ID, BOS_ID, EOS_ID]
    assert len(tokenizer) == len(vocabulary())


def test_an_unknown_word_is_an_error() -> None:
    with pytest.raises(Exception, match="vocabulary"):
        build_tokenizer().encode("row seven")


def test_sampled_log_probs_equal_a_teacher_forced_forward(
    policy: GPT2LMHeadModel, prompts_BP: torch.Tensor
) -> None:
    samples = sample(policy, prompts_BP, seeded())
    with torch.no_grad():
        log_probs_BTV = next_word_log_probs(policy, prompts_BP, samples.token_ids_BT)
    forced_BT = log_probs_BTV.gather(-1, samples.token_ids_BT[..., None])[..., 0]
    assert samples.mask_BT.sum() > 500
    assert torch.allclose(
        forced_BT[samples.mask_BT], samples.log_probs_BT[samples.mask_BT], atol=1e-4, rtol=0
    )


def test_padding_beside_a_response_changes_none_of_its_log_probs(
    policy: GPT2LMHeadModel, prompts_BP: torch.Tensor
) -> None:
    samples = sample(policy, prompts_BP, seeded())
    lengths = samples.mask_BT.sum(1)
    row = int(lengths.argmin())
    length = int(lengths[row])
    assert length < samples.mask_BT.shape[1]
    with torch.no_grad():
        beside_others = next_word_log_probs(policy, prompts_BP, samples.token_ids_BT)[row, :length]
        alone = next_word_log_probs(
            policy, prompts_BP[row : row + 1], samples.token_ids_BT[row : row + 1, :length]
        )[0]
    assert torch.allclose(beside_others, alone, atol=1e-4, rtol=0)


def test_a_response_ends_at_its_first_eos_or_at_the_limit(
    policy: GPT2LMHeadModel, prompts_BP: torch.Tensor
) -> None:
    samples = sample(policy, prompts_BP, seeded())
    assert samples.token_ids_BT.shape[1] <= MAX_RESPONSE_WORDS
    ended = 0
    for token_ids, mask in zip(samples.token_ids_BT.tolist(), samples.mask_BT.tolist(), strict=True):
        length = sum(mask)
        assert mask == [True] * length + [False] * (len(mask) - length)
        assert set(token_ids[length:]) <= {PAD_ID}
        assert EOS_ID not in token_ids[: length - 1]
        assert token_ids[length - 1] == EOS_ID or length == MAX_RESPONSE_WORDS
        ended += token_ids[length - 1] == EOS_ID
    assert ended


def test_pad_and_bos_are_never_sampled_even_by_a_model_that_wants_to() -> None:
    model = new_policy(0)
    with torch.no_grad():
        # The last layer norm gives every position this direction, whose logit `<pad>` and `<bos>` lead.
        model.transformer.ln_f.weight.zero_()
        model.transformer.ln_f.bias.fill_(1.0)
        model.transformer.wte.weight[list(BANNED_IDS)] = 1.0
    prompts = encode_prompts(
        build_tokenizer(), [state.prompt for state in draw_batch(random.Random(0), SkyMix())]
    )
    wanted = model(input_ids=prompts).logits[0, -1].argmax()
    assert int(wanted) in BANNED_IDS
    samples = sample(model, prompts, seeded())
    sampled = samples.token_ids_BT[samples.mask_BT]
    assert not set(sampled.tolist()) & set(BANNED_IDS)
    assert samples.log_probs_BT[samples.mask_BT].isfinite().all()


def test_the_same_seed_gives_the_same_samples(policy: GPT2LMHeadModel, prompts_BP: torch.Tensor) -> None:
    first, again = (sample(policy, prompts_BP, seeded(7)) for _ in range(2))
    other = sample(policy, prompts_BP, seeded(8))
    assert torch.equal(first.token_ids_BT, again.token_ids_BT)
    assert first.token_ids_BT.shape != other.token_ids_BT.shape or not torch.equal(
        first.token_ids_BT, other.token_ids_BT
    )


def test_prompts_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="length"):
        encode_prompts(build_tokenizer(), ["<bos> sky", "<bos>"])


def test_a_checkpoint_loads_as_any_safetensors_folder_does(
    policy: GPT2LMHeadModel, prompts_BP: torch.Tensor, tmp_path: Path
) -> None:
    folder = tmp_path / "step-00000"
    save_checkpoint(policy, build_tokenizer(), folder)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000"]
    assert (folder / "model.safetensors").stat().st_size < 600_000
    assert not list(folder.glob("*.bin"))
    loaded = AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True, trust_remote_code=False)
    with torch.no_grad():
        expected, logits = policy(input_ids=prompts_BP).logits, loaded(input_ids=prompts_BP).logits
        again = load_checkpoint(folder)(input_ids=prompts_BP).logits
    assert torch.equal(logits, expected)
    assert torch.equal(again, expected)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.encode("row two <think>") == build_tokenizer().encode("row two <think>")
