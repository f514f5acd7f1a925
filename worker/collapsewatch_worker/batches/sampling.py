"""Which reasonings are scored when not all of them are, and what is told of that. Pure.

A draw depends on the seed, the step, the scope and on what the turns hold, never on the order in which
rollouts and shards of the step arrived.

Legend: R turns (reasoning traces).
Source: docs/metrics.md section 2 ("Scoring a part").
"""

from array import array
from collections.abc import Collection, Sequence
from hashlib import blake2b

import numpy as np

from collapsewatch.contracts.rollouts import RolloutBatch
from collapsewatch.contracts.scoring import Sampling, ScorerConfig
from collapsewatch_worker.batches.partition import PartitionedTurn
from collapsewatch_worker.metrics.arrays import Floats, Ints


def why_left_out(config: ScorerConfig, batch: RolloutBatch) -> str | None:
    """Why the run's scorer leaves the whole batch out, by choice; none when it is to be scored."""
    if batch.step % config.every_steps:
        following = batch.step - batch.step % config.every_steps + config.every_steps
        return (
            f"left out by choice: the scorer takes the steps that {config.every_steps} divides, "
            f"and the next of them is {following}"
        )
    probes = config.probe_group_ids
    if probes is not None and {rollout.group_id for rollout in batch.rollouts}.isdisjoint(probes):
        return f"left out by choice: the batch has none of the {len(probes)} groups of the probe set"
    return None


def in_probe_set(
    turns: Sequence[PartitionedTurn], probe_group_ids: Collection[str] | None
) -> list[PartitionedTurn]:
    """The turns of these groups; all turns without a probe set."""
    if probe_group_ids is None:
        return list(turns)
    wanted = frozenset(probe_group_ids)
    return [turn for turn in turns if turn.group_id in wanted]


def told_sampling(config: ScorerConfig, available: Sequence[PartitionedTurn], num_rows: int) -> Sampling:
    """What was scored, and by which rule.

    Args:
        available: turns of the scope that could have been scored, of the whole batch.
        num_rows: those that were.
    """
    probes = config.probe_group_ids or []
    present = {turn.group_id for turn in available} & set(probes)
    return Sampling(
        num_rows_available=len(available),
        num_rows=num_rows,
        num_samples=config.num_samples,
        seed=config.seed,
        every_steps=config.every_steps,
        is_probe=config.probe_group_ids is not None,
        num_probe_groups=len(probes),
        num_probe_groups_present=len(present),
        probe_key=_probe_key(probes),
    )


def trainers_sampling(rows: Sequence[PartitionedTurn], available: Sequence[PartitionedTurn]) -> Sampling:
    """Of a matrix that the trainer sent: it is used as it came, whatever the scorer's rule is."""
    all_of_them = {turn.rollout_index for turn in available} | {row.rollout_index for row in rows}
    return Sampling(num_rows_available=len(all_of_them), num_rows=len(rows), by_trainer=True)


def drawn(
    turns: Sequence[PartitionedTurn],
    num_samples: int | None,
    generator: np.random.Generator,
    *,
    by_trajectory: bool = False,
) -> list[PartitionedTurn]:
    """At most `num_samples` of the turns, in the order in which they came; all of them when absent.

    A systematic sample, group by group: each turn is drawn with the same probability, and each group keeps
    its share to within one turn. With `by_trajectory` each trajectory m has the same probability instead,
    divided evenly among its T_m turns, as far as none of them exceeds 1.
    """
    if num_samples is None or len(turns) <= num_samples:
        return list(turns)
    weight_R = np.ones(len(turns))
    if by_trajectory:
        rollout_R = np.array([turn.rollout_index for turn in turns])
        weight_R = 1.0 / np.bincount(rollout_R)[rollout_R]
    order = canonical_order(turns)
    group_ids = [turns[position].group_id for position in order]
    number_of = {group_id: number for number, group_id in enumerate(dict.fromkeys(group_ids))}
    group_R = np.array([number_of[group_id] for group_id in group_ids])
    order = order[np.lexsort((generator.random(len(turns)), group_R))]
    probability_R = inclusion_probabilities(weight_R[order], num_samples)
    is_certain_R = probability_R >= 1.0
    certain, others = order[is_certain_R], order[~is_certain_R]
    num_open = num_samples - certain.size
    ends_R = np.cumsum(probability_R[~is_certain_R])
    # Every turn owns a stretch as long as its probability, and the marks lie 1 apart: none is hit twice.
    # The sum may miss the whole number that it should be by its rounding.
    marks = (generator.random() + np.arange(num_open)) * (ends_R[-1] / num_open if num_open else 1.0)
    hit = others[np.minimum(np.searchsorted(ends_R, marks, side="right"), others.size - 1)]
    return [turns[position] for position in sorted([*certain.tolist(), *hit.tolist()])]


def inclusion_probabilities(weight_R: Floats, num_samples: int) -> Floats:
    """Probabilities in proportion to the weights, at most 1 each, that sum to `num_samples`.

    Args:
        weight_R: above 0.
        num_samples: less than R.
    """
    probability_R = num_samples * weight_R / weight_R.sum()
    is_certain_R = probability_R >= 1.0
    while True:
        num_open = num_samples - int(is_certain_R.sum())
        open_R = np.where(is_certain_R, 0.0, weight_R)
        probability_R = np.where(is_certain_R, 1.0, num_open * open_R / open_R.sum())
        if not (probability_R[~is_certain_R] >= 1.0).any():
            return probability_R
        is_certain_R |= probability_R >= 1.0


def canonical_order(turns: Sequence[PartitionedTurn]) -> Ints:
    """[R] positions of the turns in an order that does not depend on the one in which they came.

    By group, then by what the rollout holds, then by turn. Rollouts that hold the same are interchangeable.
    """
    content: dict[int, bytes] = {}
    for turn in sorted(turns, key=lambda turn: turn.turn_index):
        content[turn.rollout_index] = content.get(turn.rollout_index, b"") + _digest(turn)
    keys = [(turn.group_id, content[turn.rollout_index], turn.turn_index) for turn in turns]
    return np.array(sorted(range(len(turns)), key=keys.__getitem__), dtype=np.int64)


def _digest(turn: PartitionedTurn) -> bytes:
    state = blake2b(turn.turn_index.to_bytes(8, "little"), digest_size=16)
    prompt = turn.prompt_text if turn.prompt_token_ids is None else turn.prompt_token_ids
    reasoning = turn.reasoning_text if turn.reasoning_token_ids is None else turn.reasoning_token_ids
    for part in (prompt, reasoning, turn.action_text or ""):
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else array("q", part).tobytes()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.digest()


def _probe_key(group_ids: Sequence[str]) -> str:
    if not group_ids:
        return ""
    state = blake2b(digest_size=8)
    for group_id in sorted(group_ids):
        data = group_id.encode("utf-8", "surrogatepass")
        state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()
