"""The agent: a word-level tokenizer and a two-layer GPT-2, small enough to train on one CPU core.

Legend: B rollouts, P prompt tokens, T response tokens, V words.
"""

import shutil
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from collapsewatch.demo.demonstrations import MAX_RESPONSE_WORDS, vocabulary

PAD_ID, BOS_ID, EOS_ID = 0, 1, 2
BANNED_IDS = (PAD_ID, BOS_ID)
"""Never sampled: a sampled `<pad>` would be taken for the end."""
CONTEXT_LENGTH = 64


class Samples(NamedTuple):
    """Sampled responses, padded on the right with `<pad>`."""

    token_ids_BT: Tensor
    log_probs_BT: Tensor
    """Of each sampled token under the sampler, in nats; 0 at padding."""
    mask_BT: Tensor
    """True where a token was sampled; the closing `<eos>` is one."""


def build_tokenizer() -> PreTrainedTokenizerFast:
    """One id per word of the vocabulary; text in words separated by blanks, an unknown one is an error."""
    words = vocabulary()
    tokenizer = Tokenizer(WordLevel({word: index for index, word in enumerate(words)}))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token=words[PAD_ID], bos_token=words[BOS_ID], eos_token=words[EOS_ID]
    )


def new_policy(seed: int) -> GPT2LMHeadModel:
    """A fresh random model: 2 layers, width 64, 4 heads, learned positions, no dropout.

    Weights start at 1/sqrt(width). With GPT-2's usual 0.02, made for width 768, so small a model does not
    learn to look at its prompt within the warm-up.
    """
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(vocabulary()),
        n_positions=CONTEXT_LENGTH,
        n_embd=64,
        n_layer=2,
        n_head=4,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        activation_function="gelu_pytorch_tanh",
        initializer_range=64**-0.5,
        pad_token_id=PAD_ID,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
    )
    return GPT2LMHeadModel(config)


def _without_banned(logits: Tensor) -> Tensor:
    """Logits [..., V] under which `<pad>` and `<bos>` cannot be sampled.

    A large finite number rather than infinity, so that p · log p and differences of log-probs stay numbers.
    """
    banned = torch.zeros(logits.shape[-1], dtype=torch.bool)
    banned[list(BANNED_IDS)] = True
    return logits.masked_fill(banned, -1e9)


@torch.no_grad()
def sample(
    policy: GPT2LMHeadModel,
    prompts_BP: Tensor,
    generator: torch.Generator,
    *,
    max_tokens: int = MAX_RESPONSE_WORDS,
) -> Samples:
    """One response per prompt at temperature 1, with a key-value cache; stops at `<eos>` or `max_tokens`."""
    num_rollouts = len(prompts_BP)
    token_ids_BT = torch.full((num_rollouts, max_tokens), PAD_ID)
    log_probs_BT = torch.zeros(num_rollouts, max_tokens)
    mask_BT = torch.zeros(num_rollouts, max_tokens, dtype=torch.bool)
    running = torch.ones(num_rollouts, dtype=torch.bool)
    inputs, cache = prompts_BP, None
    for position in range(max_tokens):
        output = policy(input_ids=inputs, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = output.past_key_values
        log_probs_BV = _without_banned(output.logits[:, -1].float()).log_softmax(-1)
        chosen = torch.multinomial(log_probs_BV.exp(), 1, generator=generator)
        token_ids_BT[running, position] = chosen[running, 0]
        log_probs_BT[running, position] = log_probs_BV.gather(1, chosen)[running, 0]
        mask_BT[:, position] = running
        running = running & (chosen[:, 0] != EOS_ID)
        if not running.any():
            break
        inputs = chosen
    length = int(mask_BT.sum(1).max())
    return Samples(token_ids_BT[:, :length], log_probs_BT[:, :length], mask_BT[:, :length])


def next_word_log_probs(model: GPT2LMHeadModel, prompts_BP: Tensor, responses_BT: Tensor) -> Tensor:
    """[B, T, V] log-probs in nats of each response position's word, given all before it.

    The sampler's own distribution: `<pad>` and `<bos>` have probability 0. Padding lies on the right and
    the model looks back only, so the attention mask hides nothing.
    """
    tokens = torch.cat([prompts_BP, responses_BT[:, :-1]], dim=1)
    everything = torch.ones_like(tokens)
    logits = model(input_ids=tokens, attention_mask=everything).logits[:, prompts_BP.shape[1] - 1 :]
    return _without_banned(logits.float()).log_softmax(-1)


def encode_prompts(tokenizer: PreTrainedTokenizerFast, prompts: list[str]) -> Tensor:
    """[B, P] token ids; prompts all have the same number of words.

    Raises:
        ValueError: prompts of different lengths.
    """
    return torch.tensor([tokenizer.encode(prompt) for prompt in prompts])


def save_checkpoint(model: GPT2LMHeadModel, tokenizer: PreTrainedTokenizerFast, folder: Path) -> None:
    """Writes a Hugging Face folder (safetensors) that appears whole or not at all."""
    unfinished = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(unfinished, ignore_errors=True)
    model.save_pretrained(unfinished)
    tokenizer.save_pretrained(unfinished)
    unfinished.rename(folder)


def load_checkpoint(folder: Path) -> GPT2LMHeadModel:
    """The model of a folder that `save_checkpoint` wrote."""
    model: GPT2LMHeadModel = GPT2LMHeadModel.from_pretrained(  # nosec B615
        folder, use_safetensors=True, local_files_only=True
    )
    return model
