"""The cross-scoring matrix of a batch under the weights that a trainer holds.

Legend: R scored rollouts, P distinct prompts, N columns of the matrix (one per prompt group).
Source: docs/metrics.md section 2.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from collapsewatch.arguments import tags_argument, validated
from collapsewatch.boundary import Boundary, is_strict
from collapsewatch.columns import plain_columns, rollouts_of_columns
from collapsewatch.contracts.rollouts import CrossLogProbs, Rollout, RolloutBatch
from collapsewatch.errors import InvalidInputError
from collapsewatch.plain import group_name, plain_column, plain_step, plain_value
from collapsewatch.scoring.extra import needs_extra
from collapsewatch.scoring.ranks import Ranks, ranks_of
from collapsewatch.scoring.whole import whole_model

if TYPE_CHECKING:
    from collapsewatch_worker.batches.partition import PartitionedBatch
    from collapsewatch_worker.batches.scopes import ScopeTable

Batch = Mapping[str, Any] | Sequence[Rollout | Mapping[str, Any]] | RolloutBatch
"""The arguments of `Run.log_rollouts` by name, or rollouts."""

_HEAD = ("policy_version", "cross_log_probs", "reward_range", "shard")
"""Arguments of `log_rollouts` that scoring does not need."""
_boundary: Boundary | None = None


@dataclass(frozen=True)
class _Options:
    tokenizer: Any
    num_samples: int | None
    probe_group_ids: Sequence[str] | None
    seed: int
    step: int
    token_budget: int | None


def cross_score(
    model: Any,
    batch: Batch,
    *,
    tokenizer: Any = None,
    num_samples: int | None = None,
    probe_group_ids: Sequence[Any] | None = None,
    seed: int = 0,
    step: int = 0,
    token_budget: int | None = None,
    spread: bool = False,
) -> CrossLogProbs | None:
    """Every reasoning of the first turns under every prompt, by the model as it is; None when that fails.

    It goes to `Run.log_rollouts(..., cross_log_probs=)` with the same batch. The model may be wrapped (DDP,
    FSDP, DeepSpeed, `torch.compile`, PEFT); it is used in `eval` mode and comes back as it was: no weight,
    gradient, buffer or random state changes. When wrapped by FSDP or ZeRO-3 it is gathered whole on each
    device for the time, so every rank must make this call.

    An error is logged once per sort and gives None, so that training goes on; with `COLLAPSEWATCH_STRICT=1`
    it raises. A rank whose part fails brings None to all.

    Args:
        model: a causal language model of transformers.
        batch: what `log_rollouts` gets, as a mapping of its arguments, or the rollouts themselves. It should
            hold token ids; text is tokenised anew. `temperature` and `reasoning_tags` are taken from it.
        tokenizer: needed for text, and to find the tags in token ids without `close_token_ids` or a span.
        num_samples: most rows; drawn with `seed` and `step`; all when absent.
        probe_group_ids: only these groups are scored, under their own prompts.
        token_budget: most tokens of a micro-batch; found from the free memory when absent.
        spread: every rank has the same batch (see `gathered`), scores its share of the rows, and gets the
            whole matrix.
    """
    global _boundary
    # Reporting each sort of trouble once needs one boundary for all calls of a process.
    if _boundary is None or _boundary.strict is not is_strict():
        _boundary = Boundary(strict=is_strict())
    with _boundary.guard("cross_score"), needs_extra("cross_score"):
        options = _Options(tokenizer, num_samples, _names(probe_group_ids), seed, step, token_budget)
        ranks = ranks_of(spread)
        # Whatever fails must fail inside: gathering a model is something that all ranks do together.
        with whole_model(model) as whole:
            return _matrix(whole, batch, options, ranks, _boundary)
    return None


def _names(group_ids: Sequence[Any] | None) -> list[str] | None:
    if group_ids is None:
        return None
    return [str(group_name(group)) for group in plain_column("probe_group_ids", group_ids)]


def _matrix(
    model: Any, batch: Batch, options: _Options, ranks: Ranks, boundary: Boundary
) -> CrossLogProbs | None:
    """The matrix; None when nothing of the batch can be scored."""

    def part() -> tuple["ScopeTable | None", list[list[float]], str]:
        checked = _checked(batch, plain_step(options.step))
        partitioned = _partitioned(checked, options.tokenizer)
        table = _table(partitioned, options)
        if not table.rows:
            return None, [], _why_nothing(partitioned, options)
        return table, _scores(model, table, checked.temperature or 1.0, options, ranks), ""

    table, scores_RP, why = ranks.joined(part)
    if table is None:
        boundary.report(f"cross_score: {why}", "cross_score: nothing to score: %s", why)
        return None
    return _on_the_wire(table, scores_RP)


def _checked(batch: Batch, step: int) -> RolloutBatch:
    """The batch as the server would get it.

    Raises:
        InvalidInputError: it cannot be used.
    """
    if isinstance(batch, RolloutBatch):
        return batch
    given: dict[str, Any] = dict(batch) if isinstance(batch, Mapping) else {"rollouts": batch}
    for name in _HEAD:
        given.pop(name, None)
    rollouts, temperature = given.pop("rollouts", None), plain_value(given.pop("temperature", None))
    tags = tags_argument(given.pop("reasoning_tags", None))
    columns = {name: column for name, column in given.items() if column is not None}
    if rollouts is not None and columns:
        raise InvalidInputError(
            f"a batch is given as `rollouts` or as columns, not both: {', '.join(columns)}"
        )
    rows = (
        rollouts_of_columns(plain_columns(columns))
        if rollouts is None
        else plain_column("rollouts", rollouts)
    )
    return validated(
        RolloutBatch,
        batch_id="scored",
        step=step,
        rollouts=rows,
        temperature=temperature,
        reasoning_tags=tags,
    )


def _partitioned(batch: RolloutBatch, tokenizer: Any) -> "PartitionedBatch":
    from collapsewatch.scoring.tokenizers import exact_tokenizer
    from collapsewatch_worker.batches.partition import partition_batch

    return partition_batch(batch, exact_tokenizer(tokenizer))


def _table(partitioned: "PartitionedBatch", options: _Options) -> "ScopeTable":
    from collapsewatch_worker.batches.scopes import scope_table

    return scope_table(
        "first_turn",
        partitioned.turns,
        num_samples=options.num_samples,
        seed=options.seed,
        step=options.step,
        probe_group_ids=options.probe_group_ids,
    )


def _why_nothing(partitioned: "PartitionedBatch", options: _Options) -> str:
    reasons = [f"{reason} in {count} turns" for reason, count in partitioned.invalid_reasons.items()]
    if reasons:
        return "; ".join(reasons)
    return "no first turn" if options.probe_group_ids is None else "no first turn of the probe set"


def _scores(
    model: Any, table: "ScopeTable", temperature: float, options: _Options, ranks: Ranks
) -> list[list[float]]:
    """[R, P] nats, of this rank's rows alone when they are spread."""
    from collapsewatch_worker.scoring.engine import cross_log_probs

    prompts = [_known(column.token_ids) for column in table.columns]
    reasonings = [_known(row.reasoning_token_ids) for row in table.rows]
    scores_RP: list[list[float]] = cross_log_probs(
        model, prompts, ranks.share(reasonings), temperature=temperature, token_budget=options.token_budget
    ).tolist()
    return scores_RP


def _known(token_ids: tuple[int, ...] | None) -> tuple[int, ...]:
    if token_ids is None:
        raise InvalidInputError(
            "a prompt or reasoning came without token ids: hand `tokenizer` to `cross_score`",
            kind="tokenizer",
        )
    return token_ids


def _on_the_wire(table: "ScopeTable", scores_RP: list[list[float]]) -> CrossLogProbs:
    """The matrix with one column per prompt group.

    A group whose rollouts have several prompts, because the model wrote its opening tag in several ways, is
    for other rows the mixture of them, and for its own rows the prompt that they have.
    """
    columns_of: dict[str, list[int]] = {}
    for number, column in enumerate(table.columns):
        for group_id in column.group_ids:
            columns_of.setdefault(group_id, []).append(number)
    mask_RP = None if table.mask_RP is None else table.mask_RP.tolist()
    weights: list[float] = table.weight_P.tolist()
    log_probs: list[list[float | None]] = []
    for number, row in enumerate(table.rows):
        own, values = int(table.prompt_of_R[number]), scores_RP[number]
        hidden = mask_RP[number] if mask_RP is not None else [False] * len(values)
        log_probs.append(
            [
                values[own] if group_id == row.group_id else _mixture(members, values, weights, hidden)
                for group_id, members in columns_of.items()
            ]
        )
    return validated(
        CrossLogProbs,
        rollout_indices=[row.rollout_index for row in table.rows],
        column_group_ids=list(columns_of),
        log_probs=log_probs,
        token_counts=[len(_known(row.reasoning_token_ids)) for row in table.rows],
    )


def _mixture(
    members: Sequence[int], values: Sequence[float], weights: Sequence[float], hidden: Sequence[bool]
) -> float | None:
    """log Σ w p / Σ w over a group's prompts; None when all of them are masked."""
    seen = [number for number in members if not hidden[number]]
    if not seen:
        return None
    if len(seen) == 1:
        return values[seen[0]]
    highest = max(values[number] for number in seen)
    total = math.fsum(weights[number] * math.exp(values[number] - highest) for number in seen)
    return highest + math.log(total / math.fsum(weights[number] for number in seen))
