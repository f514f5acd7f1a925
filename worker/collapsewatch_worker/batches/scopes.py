"""Which rows and columns each scope compares. Pure: turns in, tables out.

Legend: R rows (scored reasoning traces), P columns (distinct prompts).
Source: docs/metrics.md section 2 ("Scopes"); arXiv 2604.06268.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch_worker.batches.partition import PartitionedTurn
from collapsewatch_worker.metrics.arrays import Bools, Floats, Ints

TRAJECTORY_SCOPE = "trajectory"
TURNS_SCOPE = "turns"
"""Stands for one scope `turn/<t>` per turn index."""


@dataclass(frozen=True)
class Column:
    """One distinct prompt."""

    token_ids: tuple[int, ...] | None
    text: str
    group_ids: tuple[str, ...]
    """Groups that have this prompt in the scope, in order of appearance."""
    example: PartitionedTurn | None = None
    """A turn that has this prompt; none when the column came without one."""


@dataclass(frozen=True)
class ScopeTable:
    """What is scored against what."""

    scope: str
    rows: tuple[PartitionedTurn, ...]
    columns: tuple[Column, ...]
    prompt_of_R: Ints
    """Each row's own column."""
    weight_P: Floats
    """How many columns each distinct prompt stands for; a fraction where a group has several prompts."""
    mask_RP: Bools | None
    """True where a column must not be used for a row; never the row's own column. None: nothing is masked."""


def prompt_key(turn: PartitionedTurn) -> Hashable:
    """What makes two prompts the same one: their token ids, or their text when there are none."""
    return turn.prompt_token_ids if turn.prompt_token_ids is not None else turn.prompt_text


def scope_names(scopes: Sequence[str], turns: Sequence[PartitionedTurn]) -> list[str]:
    """The scopes with `turns` replaced by one `turn/<t>` for each turn index of the batch."""
    names: list[str] = []
    for scope in dict.fromkeys(scopes):
        if scope == TURNS_SCOPE:
            names += [f"turn/{index}" for index in sorted({turn.turn_index for turn in turns})]
        else:
            names.append(scope)
    return names


def scope_table(
    scope: str,
    turns: Sequence[PartitionedTurn],
    *,
    num_samples: int | None = None,
    seed: int = 0,
    step: int = 0,
) -> ScopeTable:
    """Rows and columns of `first_turn`, `turn/<t>` or `trajectory`; empty when no turn of it can be scored.

    Only turns with a scorable reasoning count, as rows and as columns: where the reasoning begins, and so
    where its prompt ends, is not known for the others.

    Args:
        turns: of the whole batch.
        num_samples: most rows; all of them when absent.
        seed: decides the drawn rows together with `step` and the scope, and nothing else does.
    """
    generator = np.random.default_rng([seed, step, crc32(scope.encode())])
    scorable = [turn for turn in turns if turn.invalid_reason is None]
    if scope == TRAJECTORY_SCOPE:
        drawn = _drawn_pairs(scorable, num_samples, generator)
        return _with_later_turns_masked(_table(scope, drawn, drawn, by_group=False))
    turn_index = 0 if scope == FIRST_TURN_SCOPE else int(scope.removeprefix("turn/"))
    in_scope = [turn for turn in scorable if turn.turn_index == turn_index]
    rows = _drawn_rows(in_scope, num_samples, generator)
    # The first prompts are few and all of them stay columns. Later prompts are one per trajectory, so a
    # cap on the rows that left the columns alone would cap next to nothing.
    table = _table(scope, rows, in_scope if turn_index == 0 else rows, by_group=True)
    return _with_siblings_masked(table)


def with_rows(table: ScopeTable, scores_RP: Floats, keep_R: Bools) -> tuple[ScopeTable, Floats]:
    """The table and its scores with the kept rows alone; columns that have rows come first again."""
    prompt_of_R = table.prompt_of_R[keep_R]
    order = list(dict.fromkeys([*prompt_of_R.tolist(), *range(len(table.columns))]))
    place_P = np.argsort(order)
    kept = ScopeTable(
        scope=table.scope,
        rows=tuple(row for row, keep in zip(table.rows, keep_R.tolist(), strict=True) if keep),
        columns=tuple(table.columns[number] for number in order),
        prompt_of_R=place_P[prompt_of_R],
        weight_P=table.weight_P[order],
        mask_RP=None if table.mask_RP is None else table.mask_RP[keep_R][:, order],
    )
    return kept, scores_RP[keep_R][:, order]


def _drawn_rows(
    turns: list[PartitionedTurn], num_samples: int | None, generator: np.random.Generator
) -> list[PartitionedTurn]:
    """Each turn with the same probability, each group by its share: a systematic sample, group by group."""
    if num_samples is None or len(turns) <= num_samples:
        return turns
    number_of = {group_id: number for number, group_id in enumerate(dict.fromkeys(t.group_id for t in turns))}
    group_R = np.array([number_of[turn.group_id] for turn in turns])
    by_group_R = np.lexsort((generator.random(len(turns)), group_R))
    places = (generator.random() + np.arange(num_samples)) * (len(turns) / num_samples)
    # The last place can round up to the end itself.
    chosen = by_group_R[np.minimum(places.astype(np.int64), len(turns) - 1)]
    return [turns[position] for position in sorted(chosen.tolist())]


def _drawn_pairs(
    turns: list[PartitionedTurn], num_samples: int | None, generator: np.random.Generator
) -> list[PartitionedTurn]:
    """Pairs of trajectory m and turn t, Pr(m, t) = 1/M · 1/T_m, without replacement."""
    if num_samples is None or len(turns) <= num_samples:
        return turns
    rollout_R = np.array([turn.rollout_index for turn in turns])
    num_turns_R = np.bincount(rollout_R)[rollout_R]
    probability_R = 1.0 / num_turns_R
    chosen = generator.choice(
        len(turns), size=num_samples, replace=False, p=probability_R / probability_R.sum()
    )
    return [turns[position] for position in sorted(chosen.tolist())]


def _table(
    scope: str, rows: Sequence[PartitionedTurn], members: Sequence[PartitionedTurn], *, by_group: bool
) -> ScopeTable:
    """The table whose columns are the distinct prompts of `members`.

    Each group counts as one column, shared by its prompts when it has several; with `by_group` off, each
    member counts as one.
    """
    number_of: dict[Hashable, int] = {}
    first: list[PartitionedTurn] = []
    groups: list[dict[str, None]] = []
    # Columns that have rows come first, so that a result's prompts and its heatmap share their order.
    for turn in [*rows, *members]:
        number = number_of.setdefault(prompt_key(turn), len(first))
        if number == len(first):
            first.append(turn)
            groups.append({})
        groups[number][turn.group_id] = None
    weight_P = np.zeros(len(first))
    num_in_group: dict[str, int] = {}
    for turn in members:
        num_in_group[turn.group_id] = num_in_group.get(turn.group_id, 0) + 1
    counts: dict[tuple[int, str], int] = {}
    for turn in members:
        pair = (number_of[prompt_key(turn)], turn.group_id)
        counts[pair] = counts.get(pair, 0) + 1
    for (number, group_id), count in counts.items():
        weight_P[number] += count / num_in_group[group_id] if by_group else count
    return ScopeTable(
        scope=scope,
        rows=tuple(rows),
        columns=tuple(
            Column(turn.prompt_token_ids, turn.prompt_text, tuple(group_ids), turn)
            for turn, group_ids in zip(first, groups, strict=True)
        ),
        prompt_of_R=np.array([number_of[prompt_key(turn)] for turn in rows], dtype=np.int64),
        weight_P=weight_P,
        mask_RP=None,
    )


def _with_siblings_masked(table: ScopeTable) -> ScopeTable:
    """Masks the other prompts of a row's own group: the scope compares with the prompts of other groups."""
    columns_of: dict[str, list[int]] = {}
    for number, column in enumerate(table.columns):
        for group_id in column.group_ids:
            columns_of.setdefault(group_id, []).append(number)
    return _masked(table, [columns_of[turn.group_id] for turn in table.rows])


def _with_later_turns_masked(table: ScopeTable) -> ScopeTable:
    """Masks the later turns of a row's own trajectory: their prompts contain the row's text."""
    turns_of: dict[int, list[tuple[int, int]]] = {}
    for turn, number in zip(table.rows, table.prompt_of_R.tolist(), strict=True):
        turns_of.setdefault(turn.rollout_index, []).append((turn.turn_index, number))
    later = [
        [number for index, number in turns_of[turn.rollout_index] if index > turn.turn_index]
        for turn in table.rows
    ]
    return _masked(table, later)


def _masked(table: ScopeTable, hidden: Sequence[Sequence[int]]) -> ScopeTable:
    mask_RP = np.zeros((len(table.rows), len(table.columns)), dtype=np.bool_)
    for row, numbers in enumerate(hidden):
        mask_RP[row, list(numbers)] = True
    # A later turn may look exactly like this one; then it is the row's own prompt, and no leak.
    mask_RP[np.arange(len(table.rows)), table.prompt_of_R] = False
    if not mask_RP.any():
        return table
    return replace(table, mask_RP=mask_RP)
