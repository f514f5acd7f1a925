"""Which rows and columns each scope compares. Pure: turns in, tables out.

Legend: R rows (scored reasoning traces), P columns (distinct prompts).
Source: docs/metrics.md section 2 ("Scopes"); arXiv 2604.06268.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch_worker.batches.partition import PartitionedTurn
from collapsewatch_worker.batches.sampling import drawn, in_probe_set
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


def scope_turns(scope: str, turns: Sequence[PartitionedTurn]) -> list[PartitionedTurn]:
    """The turns of `first_turn`, `turn/<t>` or `trajectory` that can be scored.

    The others count neither as rows nor as columns: where the reasoning begins, and so where its prompt
    ends, is not known for them.
    """
    scorable = [turn for turn in turns if turn.invalid_reason is None]
    if scope == TRAJECTORY_SCOPE:
        return scorable
    turn_index = 0 if scope == FIRST_TURN_SCOPE else int(scope.removeprefix("turn/"))
    return [turn for turn in scorable if turn.turn_index == turn_index]


def scope_table(
    scope: str,
    turns: Sequence[PartitionedTurn],
    *,
    num_samples: int | None = None,
    seed: int = 0,
    step: int = 0,
    probe_group_ids: Collection[str] | None = None,
) -> ScopeTable:
    """Rows and columns of the scope; empty when no turn of it can be scored.

    Args:
        turns: of the whole batch.
        num_samples: most rows; all of them when absent.
        seed: decides the drawn rows together with `step`, the scope and what the turns hold, and nothing
            else does.
        probe_group_ids: groups that are rows and columns; all of them when absent.
    """
    generator = np.random.default_rng([seed, step, crc32(scope.encode())])
    members = in_probe_set(scope_turns(scope, turns), probe_group_ids)
    if scope == TRAJECTORY_SCOPE:
        pairs = drawn(members, num_samples, generator, by_trajectory=True)
        return _with_later_turns_masked(_table(scope, pairs, pairs, by_group=False))
    rows = drawn(members, num_samples, generator)
    # The first prompts are few and all of them stay columns. Later prompts are one per trajectory, so a
    # cap on the rows that left the columns alone would cap next to nothing.
    is_first = all(turn.turn_index == 0 for turn in members)
    return _with_siblings_masked(_table(scope, rows, members if is_first else rows, by_group=True))


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
