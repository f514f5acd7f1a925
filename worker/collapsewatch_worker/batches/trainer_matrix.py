"""The matrix that the trainer computed on its own policy, brought into the form of a scope table.

Legend: R rows (scored reasoning traces), G columns as sent (prompt groups), P distinct prompts.
Source: docs/metrics.md section 2.
"""

from collections.abc import Hashable, Sequence

import numpy as np

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch.contracts.rollouts import CrossLogProbs, RolloutBatch
from collapsewatch_worker.batches.partition import PartitionedTurn
from collapsewatch_worker.batches.scopes import Column, ScopeTable
from collapsewatch_worker.errors import BatchNotScorable
from collapsewatch_worker.metrics.arrays import Floats, Ints


def trainer_table(
    batch: RolloutBatch, sent: CrossLogProbs, turns: Sequence[PartitionedTurn]
) -> tuple[ScopeTable, Floats, Ints]:
    """Table, cross log-probs [R, P] in nats and token counts [R] of the matrix that came with a batch.

    Groups with the same prompt become one column; where their values differ, by rounding, the mean counts.
    A value left out (null) masks its column for that row.

    Raises:
        BatchNotScorable: a row has no value under its own prompt.
    """
    first_turns = {turn.rollout_index: turn for turn in turns if turn.turn_index == 0}
    keys = _prompt_keys(batch, sent.column_group_ids)
    rows = tuple(first_turns[index] for index in sent.rollout_indices)
    # Columns that have rows come first, so that the prompts of a result and its heatmap share their order.
    with_rows = dict.fromkeys(keys[turn.group_id] for turn in rows)
    number_of = {key: number for number, key in enumerate(dict.fromkeys([*with_rows, *keys.values()]))}
    column_of_G = np.array([number_of[keys[group_id]] for group_id in sent.column_group_ids])
    prompt_of_R = np.array([number_of[keys[turn.group_id]] for turn in rows], dtype=np.int64)
    values_RG = np.array(
        [[np.nan if value is None else value for value in row] for row in sent.log_probs], dtype=np.float64
    )
    scores_RP = _merged(values_RG, column_of_G, len(number_of))
    mask_RP = np.isnan(scores_RP)
    for row in np.flatnonzero(mask_RP[np.arange(len(rows)), prompt_of_R]):
        raise BatchNotScorable(
            f"`cross_log_probs` has no value for rollout {sent.rollout_indices[row]} under its own prompt"
        )
    table = ScopeTable(
        scope=FIRST_TURN_SCOPE,
        rows=rows,
        columns=_columns(batch, sent.column_group_ids, column_of_G),
        prompt_of_R=prompt_of_R,
        weight_P=np.bincount(column_of_G).astype(np.float64),
        mask_RP=mask_RP if mask_RP.any() else None,
    )
    return table, scores_RP, np.array(sent.token_counts, dtype=np.int64)


def _prompt_keys(batch: RolloutBatch, group_ids: Sequence[str]) -> dict[str, Hashable]:
    """What makes the prompts of two groups the same; a group without rollouts is like no other."""
    keys: dict[str, Hashable] = {group_id: ("group", group_id) for group_id in group_ids}
    for rollout in reversed(batch.rollouts):
        turn = rollout.turns[0]
        ids = turn.prompt_token_ids
        keys[rollout.group_id] = ("ids", tuple(ids)) if ids is not None else ("text", turn.prompt)
    return {group_id: keys[group_id] for group_id in group_ids}


def _merged(values_RG: Floats, column_of_G: Ints, num_columns: int) -> Floats:
    """[R, P] mean of what was sent for the groups of each column; NaN where nothing was."""
    sent_RG = ~np.isnan(values_RG)
    members_GP = (column_of_G[:, None] == np.arange(num_columns)).astype(np.float64)
    sums_RP, counts_RP = np.where(sent_RG, values_RG, 0.0) @ members_GP, sent_RG @ members_GP
    return np.where(counts_RP > 0, sums_RP / np.maximum(counts_RP, 1.0), np.nan)


def _columns(batch: RolloutBatch, group_ids: Sequence[str], column_of_G: Ints) -> tuple[Column, ...]:
    first_turn_of = {rollout.group_id: rollout.turns[0] for rollout in reversed(batch.rollouts)}
    columns: list[Column] = []
    for number in range(int(column_of_G.max()) + 1):
        members = [group_ids[position] for position in np.flatnonzero(column_of_G == number).tolist()]
        turn = next((first_turn_of[group_id] for group_id in members if group_id in first_turn_of), None)
        ids = turn.prompt_token_ids if turn is not None else None
        text = (turn.prompt or "") if turn is not None else ""
        columns.append(Column(tuple(ids) if ids is not None else None, text, tuple(members)))
    return tuple(columns)
