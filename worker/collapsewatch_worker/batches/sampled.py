"""Diversity of reasoning from the log-probs that the sampler itself sent along.

They are the policy's own under the row's own prompt, so H(Z|X) is known exactly even where the matrix is
scored without a model. Nothing that needs other prompts can be had from them.

Legend: R rows (scored reasoning traces).
Source: docs/metrics.md section 2.
"""

import numpy as np

from collapsewatch.contracts.rollouts import RolloutBatch, Turn
from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_worker.batches.batch_metrics import means_by_group
from collapsewatch_worker.batches.partition import PartitionedTurn
from collapsewatch_worker.batches.scopes import ScopeTable
from collapsewatch_worker.batches.token_offsets import find_tokens

ENTROPIES = ("conditional_entropy", "conditional_entropy_seq")


def sampled_entropies(
    table: ScopeTable, batch: RolloutBatch, *, seed: int = 0
) -> tuple[dict[str, MetricValue], dict[str, str]]:
    """`conditional_entropy` in nats per token and `conditional_entropy_seq`, or why they are absent.

    Rows without log-probs or without a known reasoning span are left out. The interval is a bootstrap
    over groups.
    """
    reason = _refusal(batch)
    if reason:
        return {}, dict.fromkeys(ENTROPIES, reason)
    log_probs = [_reasoning_log_probs(row, _turn(batch, row)) for row in table.rows]
    kept = [(row.group_id, values) for row, values in zip(table.rows, log_probs, strict=True) if values]
    if not kept:
        reason = "needs `response_log_probs` with `response_token_ids` in which the reasoning can be found"
        return {}, dict.fromkeys(ENTROPIES, reason)
    sums_R = np.array([sum(values) for _, values in kept])
    if not np.isfinite(np.abs(sums_R).sum()):
        return {}, dict.fromkeys(ENTROPIES, "the sampled log-probs are too large to be added up")
    num_tokens_R = np.array([len(values) for _, values in kept])
    per_row = {"conditional_entropy": -sums_R / num_tokens_R, "conditional_entropy_seq": -sums_R}
    return means_by_group(per_row, [group_id for group_id, _ in kept], seed=seed), {}


def _refusal(batch: RolloutBatch) -> str:
    # Samplers disagree on whether they report log-probs before or after the division by the temperature.
    if batch.temperature not in (None, 1.0):
        return f"sampled log-probs are ambiguous at temperature {batch.temperature}"
    return ""


def _turn(batch: RolloutBatch, row: PartitionedTurn) -> Turn:
    return batch.rollouts[row.rollout_index].turns[row.turn_index]


def _reasoning_log_probs(row: PartitionedTurn, turn: Turn) -> list[float]:
    """Log-probs of the reasoning's tokens; empty when they are unknown."""
    if turn.response_log_probs is None or turn.response_token_ids is None:
        return []
    if turn.reasoning_span is not None:
        start, end = turn.reasoning_span
        return list(turn.response_log_probs[start:end])
    if row.reasoning_token_ids is None or row.retokenised:
        return []
    start = find_tokens(turn.response_token_ids, row.reasoning_token_ids)
    return list(turn.response_log_probs[start : start + len(row.reasoning_token_ids)]) if start >= 0 else []
