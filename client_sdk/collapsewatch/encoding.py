"""What was logged as the JSON that is kept and sent."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError, to_json

from collapsewatch.arguments import Column, matrix_argument, validated
from collapsewatch.columns import plain_columns, rollouts_of_columns
from collapsewatch.contracts.base import WireModel
from collapsewatch.contracts.rollouts import BatchHead, CrossLogProbs, Rollout, RolloutBatch, ScalarPoint
from collapsewatch.contracts.runs import RunStart, RunUpdate
from collapsewatch.errors import InvalidInputError
from collapsewatch.plain import plain_column
from collapsewatch.ready import are_ready_columns

_ROWS_AT_ONCE = 32

_ADAPTERS: dict[type[WireModel], TypeAdapter[Any]] = {
    # Straight to bytes: `model_dump_json` makes a str first and takes three times as long for a batch.
    model: TypeAdapter(model)
    for model in (RunStart, RunUpdate, RolloutBatch, ScalarPoint)
}


def model_json(model: WireModel) -> bytes:
    """A wire type as JSON, without what is None."""
    return _ADAPTERS[type(model)].dump_json(model, exclude_none=True)


def batch_json(
    rollouts: Sequence[Rollout | Mapping[str, Any]] | None,
    columns: Mapping[str, Column | None],
    cross_log_probs: CrossLogProbs | Mapping[str, Any] | None,
    **head: object,
) -> bytes:
    """A `RolloutBatch` as JSON, its rollouts given as such or as columns.

    Args:
        head: the fields of `BatchHead`.

    Raises:
        InvalidInputError: both or neither were given, the columns do not fit together, or a field is bad.
    """
    if rollouts is not None:
        given = [name for name, column in columns.items() if column is not None]
        if given:
            told = ", ".join(given)
            raise InvalidInputError(f"a batch is given as `rollouts` or as columns, not both: {told}")
        rows = plain_column("rollouts", rollouts)
    else:
        plain = plain_columns(columns)
        if cross_log_probs is None and are_ready_columns(plain):
            # What UTF-8 cannot express is left for the wire type, which says where it is.
            with suppress(PydanticSerializationError):
                fields = to_json(validated(BatchHead, **head).model_dump(exclude_none=True))
                return b'%b,"rollouts":[%b]}' % (fields[:-1], b",".join(_rows_json(plain)))
        rows = rollouts_of_columns(plain)
    matrix = matrix_argument(cross_log_probs)
    return model_json(validated(RolloutBatch, rollouts=rows, cross_log_probs=matrix, **head))


def point_json(step: int, values: Mapping[str, float], logged_at: float) -> bytes:
    """A `ScalarPoint` as JSON, of values that need no second look."""
    return to_json({"step": step, "logged_at": logged_at, "values": values})


def _rows_json(columns: Mapping[str, list[Any]]) -> Iterator[bytes]:
    """The rollouts of the columns, a few at a time: what the processor's cache holds is written faster,
    and few objects at once wake no garbage collection."""
    for start in range(0, len(columns["group_ids"]), _ROWS_AT_ONCE):
        part = {name: column[start : start + _ROWS_AT_ONCE] for name, column in columns.items()}
        yield to_json(rollouts_of_columns(part))[1:-1]
