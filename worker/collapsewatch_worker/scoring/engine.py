"""Exact log-probabilities of every reasoning under every prompt, with the least work there is.

What prompts have in common is read once, and so is each prompt's own rest. Reasonings are packed without
padding and share the prompt's one cache. Logits exist at reasoning positions only, a small chunk at a time.
Architectures that do not allow the one or the other are scored in slower ways that are as exact.

Source: docs/metrics.md section 2; arXiv 2604.06268.

Legend: R reasonings, P prompts, B rows of a micro-batch, T reasoning tokens, N packed tokens, F features.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import torch
from transformers import PreTrainedModel

from collapsewatch_worker.errors import BatchNotScorable
from collapsewatch_worker.scoring.batching import Ints, filled_rows, packed_rows, padded
from collapsewatch_worker.scoring.budget import (
    MIN_TOKEN_BUDGET,
    TOKENS_PER_TRIM,
    TokenBudget,
    found_budget,
    keep_freed_memory,
    return_freed_memory,
)
from collapsewatch_worker.scoring.causal_model import CausalModel, PromptState
from collapsewatch_worker.scoring.own_tokens import TokenNote
from collapsewatch_worker.scoring.prefix_tree import shared_segments
from collapsewatch_worker.scoring.products import stepped_down
from collapsewatch_worker.scoring.readout import is_out_of_memory

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float64]
Tokens = Sequence[int]
TokenIds = tuple[int, ...]
Result = TypeVar("Result")

DEFAULT_TOKEN_BUDGET = 16_384
"""A limit for those who want one: 2 GiB of copied caches for a 7B model with grouped queries."""
MAX_LOGITS = 2**28
"""Most logits of one forward call of a model whose head cannot be called alone: 1 GiB in float32."""
MAX_FLOAT32_LOGITS = 2**21
"""Most logits that are log-softmaxed in float32 at once on a CPU: 8 MiB."""
MIN_CPU_LOGIT_ROWS = 32
"""Fewest tokens whose logits are taken at once: fewer would read a large vocabulary's weights too often."""
MAX_CUDA_LOGITS = 2**27
"""The same on a CUDA device, which needs more to be busy: 512 MiB."""
MIN_SAVED_TOKENS = 32
"""Common prefixes that save fewer tokens are read again: a forward call of its own costs more."""


@dataclass(frozen=True)
class _Work:
    """What all micro-batches of a call have in common."""

    causal: CausalModel
    reasonings: list[TokenIds]
    """Distinct, none empty."""
    temperature: float
    budget: TokenBudget
    longest_pair: int
    max_logits: int

    @property
    def piece(self) -> int:
        """Most tokens of one forward call."""
        if self.causal.splits:
            return self.budget.new_tokens
        return max(1, min(self.budget.new_tokens, MAX_LOGITS // self.causal.vocabulary_size))


def cross_log_probs(
    model: PreTrainedModel,
    prompts: Sequence[Tokens],
    reasonings: Sequence[Tokens],
    *,
    temperature: float = 1.0,
    token_budget: int | None = None,
    note: TokenNote | None = None,
) -> Floats:
    """Log-probability of each reasoning under each prompt [R, P], nats summed over its tokens.

    An empty reasoning has the empty sum, 0. Equal prompts and equal reasonings are computed once.
    Log-softmax runs in float32 on the logits divided by the temperature, the sums in float64.

    Args:
        model: causal language model in `eval()`, on the device and in the dtype it shall run in; or a peft
            model around one.
        prompts: token ids, each prompt at least one token.
        reasonings: token ids.
        temperature: the sampling temperature, above 0.
        token_budget: most tokens of a micro-batch; found from the device's memory when absent, and halved
            whenever the device runs out of memory.
        note: is told log p of each token of every pair; a pair may be told twice, then the last counts.

    Raises:
        BatchNotScorable: (a ValueError) an empty prompt, a token id outside the model's vocabulary, a pair
            longer than the model's positions, or a bad temperature.
        torch.OutOfMemoryError: not even one short piece of one row fits.
    """
    sums_RP = np.zeros((len(reasonings), len(prompts)), dtype=np.float64)
    for rows, columns, log_probs_T in _scored_pairs(model, prompts, reasonings, temperature, token_budget):
        sums_RP[np.ix_(rows, columns)] = log_probs_T.sum()
        if note is not None:
            note(rows, columns, log_probs_T)
    return sums_RP


def cross_token_log_probs(
    model: PreTrainedModel,
    prompts: Sequence[Tokens],
    reasonings: Sequence[Tokens],
    *,
    temperature: float = 1.0,
    token_budget: int | None = None,
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
    token_budget: int | None,
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
    work = _Work(
        causal,
        distinct,
        temperature,
        found_budget(causal.model, token_budget),
        longest_pair=max(map(len, columns_of)) + max(map(len, distinct)),
        max_logits=_max_logits(causal),
    )
    on_cpu = causal.device.type == "cpu"
    if on_cpu:
        keep_freed_memory()
    num_tokens = 0
    for prompt, state in _encoded_prompts(work, list(columns_of)):
        for row, log_probs_T in _scored_rows(work, state):
            yield rows_of[distinct[row]], columns_of[prompt], log_probs_T
            num_tokens += len(log_probs_T)
        if on_cpu and num_tokens >= TOKENS_PER_TRIM:
            return_freed_memory()
            num_tokens = 0


def _max_logits(causal: CausalModel) -> int:
    if causal.device.type == "cuda":
        return MAX_CUDA_LOGITS
    return max(MAX_FLOAT32_LOGITS, MIN_CPU_LOGIT_ROWS * causal.vocabulary_size)


def _positions(sequences: Sequence[Tokens]) -> dict[TokenIds, list[int]]:
    positions: dict[TokenIds, list[int]] = {}
    for position, tokens in enumerate(sequences):
        positions.setdefault(tuple(int(token) for token in tokens), []).append(position)
    return positions


def _check_tokens(causal: CausalModel, prompts: list[TokenIds], reasonings: list[TokenIds]) -> None:
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


def _encoded_prompts(work: _Work, prompts: list[TokenIds]) -> Iterator[tuple[TokenIds, PromptState]]:
    """Every prompt with its state, in the order in which shared prefixes live shortest."""
    if not work.causal.reuses(work.longest_pair):
        for prompt in prompts:
            yield prompt, work.causal.encode(prompt, work.longest_pair, work.piece)
        return
    path: list[PromptState] = []
    for segment in shared_segments(prompts, min_saved=MIN_SAVED_TOKENS):
        # Whatever stands deeper belongs to prompts that are done.
        del path[segment.depth :]
        path.append(_encoded(work, segment.tokens, path[-1] if path else None))
        if segment.ends is not None:
            yield prompts[segment.ends], path[-1]


def _encoded(work: _Work, tokens: TokenIds, above: PromptState | None) -> PromptState:
    # Not `piece`: past the first one the stock attention takes a mask of piece times prompt.
    return _within_memory(
        work.budget,
        lambda: work.causal.encode(
            tokens, work.longest_pair, min(work.piece, work.budget.packed_tokens), after=above
        ),
    )


def _within_memory(budget: TokenBudget, attempt: Callable[[], Result]) -> Result:
    """The attempt's result; made again with half the budget as often as the device runs out of memory."""
    while True:
        result = _unless_out_of_memory(budget, attempt)
        if result is not None:
            return result


def _unless_out_of_memory(budget: TokenBudget, attempt: Callable[[], Result]) -> Result | None:
    """The attempt's result; or none, with the budget halved, when the device has run out of memory."""
    try:
        return attempt()
    except (torch.OutOfMemoryError, RuntimeError) as error:
        if not is_out_of_memory(error) or budget.new_tokens <= MIN_TOKEN_BUDGET:
            raise
    # Outside the except clause: there the traceback would still hold the failed tensors.
    budget.halve()
    return None


def _scored_rows(work: _Work, state: PromptState) -> Iterator[tuple[int, Floats]]:
    """(row, log-probs per token) of every reasoning under one prompt, in no particular order."""
    firsts_R = _within_memory(work.budget, partial(_first_log_probs, work, state))
    batches = _micro_batches(work, state, np.arange(len(work.reasonings)))
    while batches:
        rows = [work.reasonings[row] for row in batches[0]]
        score = partial(_log_probs, work, state, rows, firsts_R[batches[0]])
        log_probs = _unless_out_of_memory(work.budget, score)
        if log_probs is None:
            batches = _micro_batches(work, state, np.concatenate(batches))
            continue
        yield from zip((int(row) for row in batches[0]), log_probs, strict=True)
        batches = batches[1:]


def _first_log_probs(work: _Work, state: PromptState) -> Floats:
    """Log-probs of the first token of each reasoning, from one look at what follows the prompt."""
    if not _packs(work, state):
        return np.zeros(len(work.reasonings))
    firsts = [reasoning[0] for reasoning in work.reasonings]
    return _as_numpy(work.causal.next_log_probs(state, firsts, work.temperature))


def _packs(work: _Work, state: PromptState) -> bool:
    return state.cache is not None and work.causal.cascades


def _micro_batches(work: _Work, state: PromptState, rows: Ints) -> list[Ints]:
    """The rows in groups that fit the budget, longest first."""
    budget = work.budget
    lengths_R = np.array([len(work.reasonings[row]) for row in rows])
    if _packs(work, state):
        # The last token of a row is only predicted, so it is never read. The model may fill up to a step.
        batches = filled_rows(lengths_R - 1, stepped_down(budget.packed_tokens))
    else:
        reads_prompt = state.cache is None
        batches = packed_rows(
            lengths_R,
            min(work.piece, budget.padded_tokens) if reads_prompt else budget.padded_tokens,
            context_length=state.num_tokens,
            new_token_budget=work.piece,
            equal_lengths=state.equal_lengths,
        )
    return [rows[batch] for batch in batches]


def _log_probs(work: _Work, state: PromptState, rows: list[TokenIds], firsts_B: Floats) -> list[Floats]:
    """Log-probs per token of each of a micro-batch's rows; packed ones have those of the first given."""
    if _packs(work, state) and len(rows[0]) - 1 <= work.budget.new_tokens:
        return _packed_log_probs(work, state, rows, firsts_B)
    return _padded_log_probs(work, state, rows)


def _packed_log_probs(
    work: _Work, state: PromptState, rows: list[TokenIds], firsts_B: Floats
) -> list[Floats]:
    causal = work.causal
    inputs = [row[:-1] for row in rows if len(row) > 1]
    later = np.zeros(0)
    if inputs:
        features_NF = causal.packed_features(state, inputs)
        targets = [token for row in rows for token in row[1:]]
        later = _as_numpy(_read(work, features_NF, torch.tensor(targets, device=causal.device)))
    ends = np.cumsum([len(row) - 1 for row in rows])[:-1]
    parts = np.split(later, ends)
    return [np.concatenate([[first], part]) for first, part in zip(firsts_B, parts, strict=True)]


def _padded_log_probs(work: _Work, state: PromptState, rows: list[TokenIds]) -> list[Floats]:
    tokens_BT = torch.from_numpy(padded(rows)).to(work.causal.device)
    pieces = []
    start = 0
    for features_BTF in work.causal.padded_features(state, tokens_BT, max(1, work.piece // len(rows))):
        end = start + features_BTF.shape[1]
        targets_BT = tokens_BT[:, start:end]
        pieces.append(_read(work, features_BTF.flatten(0, 1), targets_BT.flatten()).view(targets_BT.shape))
        start = end
    log_probs_BT = _as_numpy(torch.cat(pieces, dim=1))
    return [log_probs_BT[position, : len(row)] for position, row in enumerate(rows)]


def _read(work: _Work, features_NF: torch.Tensor, targets_N: torch.Tensor) -> torch.Tensor:
    return work.causal.log_probs(
        features_NF, targets_N, temperature=work.temperature, max_logits=work.max_logits
    )


def _as_numpy(tensor: torch.Tensor) -> Floats:
    array: Floats = tensor.double().cpu().numpy()
    return array
