"""Exact log-probabilities of every reasoning under every prompt, each distinct prompt encoded once.

Source: docs/metrics.md section 2; arXiv 2604.06268.

Legend: R reasonings, P prompts, B rows of a micro-batch, T reasoning tokens, V vocabulary.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from collapsewatch_worker.errors import BatchNotScorable
from collapsewatch_worker.scoring.batching import Ints, packed_rows, padded
from collapsewatch_worker.scoring.causal_model import CausalModel, PromptState

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
Tokens = Sequence[int]

DEFAULT_TOKEN_BUDGET = 16_384
"""Padded tokens of a micro-batch, prompt included: 2 GiB of cache for a 7B model with grouped queries."""
MAX_LOGITS = 2**28
"""Most logits of one forward call: 1 GiB in float32."""
MAX_FLOAT32_LOGITS = 2**24
"""Most logits that are log-softmaxed in float32 at once."""
MIN_TOKEN_BUDGET = 16
"""An out-of-memory error below this budget is not ours to repair."""


@dataclass
class _Memory:
    """How large a micro-batch may be; shrinks when the device runs out of memory."""

    token_budget: int
    new_token_budget: int

    def halve(self) -> bool:
        """True when there was something left to give up."""
        if self.token_budget <= MIN_TOKEN_BUDGET:
            return False
        self.token_budget = max(MIN_TOKEN_BUDGET, self.token_budget // 2)
        self.new_token_budget = max(1, self.new_token_budget // 2)
        log.warning("out of memory, carrying on smaller", extra={"token_budget": self.token_budget})
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return True


def cross_log_probs(
    model: PreTrainedModel,
    prompts: Sequence[Tokens],
    reasonings: Sequence[Tokens],
    *,
    temperature: float = 1.0,
    token_budget: int = DEFAULT_TOKEN_BUDGET,
) -> Floats:
    """Log-probability of each reasoning under each prompt [R, P], nats summed over its tokens.

    An empty reasoning has the empty sum, 0. Equal prompts and equal reasonings are computed once.
    Log-softmax runs in float32 on the logits divided by the temperature, the sums in float64.

    Args:
        model: causal language model in `eval()`, on the device and in the dtype it shall run in.
        prompts: token ids, each prompt at least one token.
        reasonings: token ids.
        temperature: the sampling temperature, above 0.
        token_budget: padded tokens of a micro-batch; halved whenever the device runs out of memory.

    Raises:
        BatchNotScorable: (a ValueError) an empty prompt, a token id outside the model's vocabulary, a pair
            longer than the model's positions, or a bad temperature.
        torch.OutOfMemoryError: not even one short piece of one row fits.
    """
    sums_RP = np.zeros((len(reasonings), len(prompts)), dtype=np.float64)
    for rows, columns, log_probs_T in _scored_pairs(model, prompts, reasonings, temperature, token_budget):
        sums_RP[np.ix_(rows, columns)] = log_probs_T.sum()
    return sums_RP


def cross_token_log_probs(
    model: PreTrainedModel,
    prompts: Sequence[Tokens],
    reasonings: Sequence[Tokens],
    *,
    temperature: float = 1.0,
    token_budget: int = DEFAULT_TOKEN_BUDGET,
) -> Floats:
    """The same per token [R, P, longest reasoning], in nats; NaN past the end of a reasoning.

    Arguments and errors as for `cross_log_probs`.
    """
    longest = max((len(reasoning) for reasoning in reasonings), default=0)
    tokens_RPT = np.full((len(reasonings), len(prompts), longest), np.nan)
    for rows, columns, log_probs_T in _scored_pairs(model, prompts, reasonings, temperature, token_budget):
        tokens_RPT[np.ix_(rows, columns, range(len(log_probs_T)))] = log_probs_T
    return tokens_RPT


def _scored_pairs(
    model: PreTrainedModel,
    prompts: Sequence[Tokens],
    reasonings: Sequence[Tokens],
    temperature: float,
    token_budget: int,
) -> Iterator[tuple[list[int], list[int], Floats]]:
    """(rows, columns, log-probs per token) of each pair of a distinct reasoning and a distinct prompt."""
    if not (np.isfinite(temperature) and temperature > 0):
        raise BatchNotScorable(f"the temperature must be above 0, got {temperature}")
    rows_of = _positions(reasonings)
    columns_of = _positions(prompts)
    rows_of.pop((), None)
    if not rows_of or not columns_of:
        return
    causal = CausalModel(model)
    distinct = list(rows_of)
    _check_tokens(causal, list(columns_of), distinct)
    longest_pair = max(map(len, columns_of)) + max(map(len, distinct))
    memory = _Memory(token_budget, max(1, MAX_LOGITS // causal.vocabulary_size))
    for prompt, columns in columns_of.items():
        for row, log_probs_T in _scored_rows(causal, prompt, distinct, temperature, memory, longest_pair):
            yield rows_of[distinct[row]], columns, log_probs_T


def _positions(sequences: Sequence[Tokens]) -> dict[tuple[int, ...], list[int]]:
    positions: dict[tuple[int, ...], list[int]] = {}
    for position, tokens in enumerate(sequences):
        positions.setdefault(tuple(int(token) for token in tokens), []).append(position)
    return positions


def _check_tokens(
    causal: CausalModel, prompts: list[tuple[int, ...]], reasonings: list[tuple[int, ...]]
) -> None:
    """Refuses what the model would answer with an index error, which on CUDA poisons the process."""
    if () in prompts:
        raise BatchNotScorable("a prompt has no tokens; scoring needs at least one")
    tokens = [token for sequence in (*prompts, *reasonings) for token in sequence]
    if min(tokens) < 0 or max(tokens) >= causal.num_embeddings:
        worst = min(tokens) if min(tokens) < 0 else max(tokens)
        raise BatchNotScorable(
            f"token id {worst} is outside the model's vocabulary of {causal.num_embeddings}: "
            "the batch was written with another tokenizer"
        )
    longest_prompt, longest_reasoning = max(map(len, prompts)), max(map(len, reasonings))
    limit = causal.max_positions
    # The last reasoning token is only predicted, never read.
    if limit is not None and longest_prompt + longest_reasoning - 1 > limit:
        raise BatchNotScorable(
            f"the longest prompt ({longest_prompt} tokens) with the longest reasoning "
            f"({longest_reasoning} tokens) exceeds the model's {limit} positions"
        )


def _scored_rows(
    causal: CausalModel,
    prompt: tuple[int, ...],
    reasonings: list[tuple[int, ...]],
    temperature: float,
    memory: _Memory,
    longest_pair: int,
) -> Iterator[tuple[int, Floats]]:
    """(row, log-probs per token) of every reasoning under one prompt, in no particular order."""
    state: PromptState | None = None
    pending: Ints = np.arange(len(reasonings))
    lengths_R = np.array([len(reasoning) for reasoning in reasonings])
    while pending.size:
        try:
            if state is None:
                state = causal.encode(prompt, longest_pair, memory.new_token_budget)
            batch = pending[
                packed_rows(
                    lengths_R[pending],
                    memory.token_budget,
                    context_length=len(prompt),
                    new_token_budget=memory.new_token_budget,
                    equal_lengths=state.equal_lengths,
                )[0]
            ]
            rows = [reasonings[row] for row in batch]
            log_probs_BT = _batch_log_probs(causal, state, rows, temperature, memory)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            log_probs_BT = None
            if memory.token_budget <= MIN_TOKEN_BUDGET:
                raise
        if log_probs_BT is None:
            # Outside the except clause: there the traceback would still hold the failed tensors.
            memory.halve()
            continue
        for position, row in enumerate(batch):
            yield int(row), log_probs_BT[position, : lengths_R[row]]
        pending = np.setdiff1d(pending, batch, assume_unique=True)


def _is_out_of_memory(error: BaseException) -> bool:
    # The CPU allocator has no error class of its own.
    return isinstance(error, torch.OutOfMemoryError) or "not enough memory" in str(error)


def _batch_log_probs(
    causal: CausalModel,
    state: PromptState,
    rows: list[tuple[int, ...]],
    temperature: float,
    memory: _Memory,
) -> Floats:
    """Log-probs [B, T] of rows after one encoded prompt; past a row's end the numbers mean nothing."""
    tokens_BT = torch.from_numpy(padded(rows)).to(causal.device)
    piece = max(1, memory.new_token_budget // len(rows))
    pieces: list[torch.Tensor] = []
    start = 0
    for logits_BTV in causal.continuation_logits(state, tokens_BT, piece):
        end = start + logits_BTV.shape[1]
        pieces.append(_gathered(logits_BTV, tokens_BT[:, start:end], temperature))
        start = end
    return torch.cat(pieces, dim=1).double().cpu().numpy()


def _gathered(logits_BTV: torch.Tensor, tokens_BT: torch.Tensor, temperature: float) -> torch.Tensor:
    """log p of each token [B, T] in float32; the float32 copy of the logits exists in small chunks only."""
    vocabulary_size = logits_BTV.shape[-1]
    chunk = max(1, MAX_FLOAT32_LOGITS // vocabulary_size)
    picked = []
    logits_NV, tokens_N = logits_BTV.reshape(-1, vocabulary_size), tokens_BT.reshape(-1, 1)
    for start in range(0, len(tokens_N), chunk):
        logits_CV = logits_NV[start : start + chunk].float() / temperature
        log_probs_CV = torch.log_softmax(logits_CV, dim=-1)
        picked.append(log_probs_CV.gather(-1, tokens_N[start : start + chunk]).squeeze(-1))
    return torch.cat(picked).reshape(tokens_BT.shape)
