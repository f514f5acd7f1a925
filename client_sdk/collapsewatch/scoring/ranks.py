"""What the ranks of a training bring together: their rollouts, and their shares of a matrix."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeVar

from collapsewatch.columns import plain_columns, rollouts_of_columns
from collapsewatch.contracts.rollouts import Rollout
from collapsewatch.errors import CollapsewatchError
from collapsewatch.plain import plain_column
from collapsewatch.scoring.extra import needs_extra

if TYPE_CHECKING:
    from collapsewatch_worker.batches.scopes import ScopeTable

Item = TypeVar("Item")
Part = tuple["ScopeTable | None", list[list[float]], str]
_ROLLOUT_COLUMNS = frozenset(
    {
        "prompts", "responses", "rewards", "group_ids", "prompt_token_ids", "response_token_ids",
        "response_log_probs", "reasonings", "actions", "successes",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Ranks:
    """This process among those that score a batch together."""

    rank: int = 0
    count: int = 1

    def share(self, rows: Sequence[Item]) -> list[Item]:
        """This rank's rows: every `count`-th, so that long ones are spread as evenly as short ones."""
        return list(rows[self.rank :: self.count])

    def joined(self, part: Callable[[], Part]) -> Part:
        """The table with the rows of all ranks in their order.

        Raises:
            CollapsewatchError: a rank failed, or the ranks do not have the same batch; on all ranks alike.
        """
        if self.count == 1:
            return part()
        import torch.distributed as dist

        problem: Exception | None = None
        table: ScopeTable | None = None
        scores: list[list[float]] = []
        why = ""
        try:
            table, scores, why = part()
        except Exception as error:  # noqa: BLE001 - the other ranks wait: they must be told before it goes on
            problem = error
        told = (scores, _digest(table), None if problem is None else f"{type(problem).__name__}: {problem}")
        all_told: list[Any] = [None] * self.count
        dist.all_gather_object(all_told, told)
        if problem is not None:
            raise problem
        failed = [f"rank {rank}: {error}" for rank, (_, _, error) in enumerate(all_told) if error is not None]
        if failed:
            raise CollapsewatchError(f"another rank could not score its rows: {failed[0]}")
        if len({digest for _, digest, _ in all_told}) > 1:
            raise CollapsewatchError("the ranks hold different batches: bring them together by `gathered`")
        num_rows = 0 if table is None else len(table.rows)
        return table, [all_told[row % self.count][0][row // self.count] for row in range(num_rows)], why


def ranks_of(spread: bool) -> Ranks:
    """All ranks of the default process group when the rows are spread over them; else this process alone."""
    if not spread:
        return Ranks()
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        return Ranks()
    return Ranks(dist.get_rank(), dist.get_world_size())


def gathered(batch: Mapping[str, Any]) -> dict[str, Any]:
    """The step's whole batch, on every rank: the rollouts of all of them in the order of the ranks.

    Every rank must make this call. What is no column stays as this rank has it. Without a process group, or
    with one rank, it is the batch itself with its columns turned into rollouts.

    Args:
        batch: this rank's part as arguments of `Run.log_rollouts`; it may be empty (`{"rollouts": []}`).

    Raises:
        InvalidInputError: columns that do not fit together.
    """
    columns = {
        name: column for name, column in batch.items() if name in _ROLLOUT_COLUMNS and column is not None
    }
    rest = {name: value for name, value in batch.items() if name not in _ROLLOUT_COLUMNS}
    rollouts = rest.pop("rollouts", None)
    rows = (
        rollouts_of_columns(plain_columns(columns))
        if rollouts is None
        else [_plain_rollout(rollout) for rollout in plain_column("rollouts", rollouts)]
    )
    with needs_extra("gathered"):
        ranks = ranks_of(True)
    if ranks.count > 1:
        import torch.distributed as dist

        parts: list[Any] = [None] * ranks.count
        dist.all_gather_object(parts, rows)
        rows = [row for part in parts for row in part]
    return {**rest, "rollouts": rows}


def _plain_rollout(rollout: Rollout | Mapping[str, Any]) -> dict[str, Any]:
    return rollout.model_dump(exclude_none=True) if isinstance(rollout, Rollout) else dict(rollout)


def _digest(table: "ScopeTable | None") -> bytes:
    """What tells one table from another: its prompts and its reasonings."""
    if table is None:
        return b""
    told = [[column.token_ids for column in table.columns], [row.reasoning_token_ids for row in table.rows]]
    return blake2b(repr(told).encode(), digest_size=16).digest()
