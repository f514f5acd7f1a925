"""Which prompt groups a reward-variance filter keeps, in plain Python, for use inside a trainer.

Two definitions are in circulation and both are offered by name. `score="std"` is the public code of
RAGEN-2: standard deviations rounded to float32, threshold ρ Σ std − 0.01, ties in order of position.
`score="variance"` is the paper's: threshold τ = ρ ΣV, the smallest number of groups that reaches τ.

Source: docs/metrics.md section 3; arXiv 2604.06268.
"""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from collapsewatch.filters.ranking import SCORE_OF, Group, Rule, check_rule, group_of, select
from collapsewatch.filters.rounding import ZERO_STD, exact_sum, none_unless_finite

GroupId = TypeVar("GroupId", bound=Hashable)
LossScale = Literal["none", "linear", "sqrt"]
_PREFIX = "filter/"
_REPORTED = ("in_group_std", "chosen_in_group_std", "in_group_mean", "chosen_in_group_mean")


class Log(Protocol):
    """What takes numbers of a step, such as a `Run`."""

    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Hands over plain numbers of one step."""


@dataclass(frozen=True)
class FilterSelection(Generic[GroupId]):
    """What one filter rule keeps of a batch.

    Groups are numbered in order of first appearance. None stands for what one rollout cannot show, or
    what a float cannot hold.
    """

    rule: str
    """Such as `top_p 0.9 linear std`."""
    selected: tuple[int, ...]
    """Positions of the kept groups, in the order of selection."""
    group_ids: tuple[GroupId, ...]
    """All groups."""
    scores: tuple[float | None, ...]
    """What each group was ranked by."""
    group_std: tuple[float | None, ...]
    """Sample standard deviation (K − 1) of each group's rewards; None for a single rollout."""
    group_of_rollout: tuple[int, ...]
    """Position of each rollout's group."""
    metrics: dict[str, float | None]
    """Means over all groups (`in_group_…`) and over the kept ones (`chosen_in_group_…`, 0 when none is
    kept), and `filter_kept_count`, `filter_kept_ratio`, `filter_zero_count`."""
    injected: tuple[int, ...] = ()
    """Those of the kept groups that the rule had dropped, let in so that they can recover."""

    @property
    def selected_group_ids(self) -> tuple[GroupId, ...]:
        """Ids of the kept groups, in the order of selection."""
        return tuple(self.group_ids[position] for position in self.selected)

    def to_keep(self) -> list[bool]:
        """For each rollout, in the order they were given: is its group kept?"""
        kept = set(self.selected)
        return [group in kept for group in self.group_of_rollout]

    @property
    def kept_rows(self) -> list[int]:
        """Positions of the kept rollouts, ascending."""
        return [row for row, keep in enumerate(self.to_keep()) if keep]

    @property
    def dropped_group_ids(self) -> tuple[GroupId, ...]:
        """Ids of the groups that are not kept, in order of first appearance."""
        kept = set(self.selected)
        return tuple(group for number, group in enumerate(self.group_ids) if number not in kept)

    def loss_scale(self, mode: LossScale = "linear") -> float:
        """What to multiply the loss or the advantages with, since fewer groups make a noisier update.

        `none`: 1, `linear`: kept ÷ all groups, `sqrt`: the square root of that.

        Raises:
            ValueError: another mode.
        """
        ratio = len(self.selected) / len(self.group_ids)
        scales = {"none": 1.0, "linear": ratio, "sqrt": math.sqrt(ratio)}
        if mode not in scales:
            raise ValueError(f"loss scale must be one of {', '.join(scales)}; got {mode!r}")
        return scales[mode]

    def told(self) -> dict[str, float]:
        """What the filter did, as scalars of a run: `filter/kept_ratio` and so on."""
        num_kept, num_zero = len(self.selected), self.metrics["filter_zero_count"]
        values = {
            "kept_count": float(num_kept),
            "dropped_count": float(len(self.group_ids) - num_kept),
            "kept_ratio": num_kept / len(self.group_ids),
            "zero_count": num_zero,
            **{name: self.metrics[name] for name in _REPORTED},
        }
        return {_PREFIX + name: value for name, value in values.items() if value is not None}


def snr_filter(
    rewards: Sequence[float],
    group_ids: Sequence[GroupId],
    *,
    strategy: str = "top_p",
    value: float = 0.9,
    score: str = "std",
    filter_type: str = "largest",
    top_p_mode: str = "linear",
    include_zero: bool = False,
    selection_eps: float | None = None,
    run: Log | None = None,
    step: int | None = None,
) -> FilterSelection[GroupId]:
    """Groups worth training on by the spread of their rewards; it may keep none.

    - `top_p` linear: best groups until their scores sum to `value` · total − `selection_eps`; nothing
      when that cannot be reached. `top_p` softmax: the same on softmax probabilities, without eps; with
      rewards of 0 and 1 it keeps almost every group, because their standard deviations stay below 0.71.
    - `top_k`: the best int(`value` · all groups), `top_k_abs`: the best int(`value`); at least one.
    - `min_p`: groups that reach `value` · best score (`smallest`: that stay within worst ÷ `value`).

    A group with one rollout has no spread. "variance" never keeps it; "std" does what the public code
    does with a NaN: with `include_zero`, `top_k` puts it first, and one such group empties `top_p` linear
    and `min_p`.

    Args:
        rewards: one finite number per rollout; a list, an array or a tensor, and so are the groups.
        group_ids: one per rollout; the rollouts of a group need not be adjacent.
        strategy: `top_p`, `top_k`, `top_k_abs` or `min_p`.
        value: what the strategy says; `top_p` with "std" and 1 or more keeps all.
        score: `std` (the public code), `variance` (the paper), or the group's reward `mean` or `sum`.
        filter_type: keep the `largest` or the `smallest` scores.
        top_p_mode: `linear` or `softmax`.
        include_zero: False drops groups whose score is 0 before anything else.
        selection_eps: 0.01 when absent, 0 for "variance".
        run: told at `step` what was kept and dropped, as `filter/…`.

    Raises:
        ValueError: an unknown name, lengths that differ, an empty batch, a number that is not finite, or
            for `top_p` by variance a share outside (0, 1].
    """
    eps = selection_eps if selection_eps is not None else 0.0 if score == "variance" else 0.01
    rule = Rule(strategy, value, score, filter_type, top_p_mode, include_zero, eps)
    check_rule(rule)
    batch = grouped(rewards, group_ids)
    scores = [SCORE_OF[score](group) for group in batch.groups]
    found = selection(rule.name, batch, scores, tuple(select(rule, scores)))
    if run is not None:
        run.log(found.told(), step=step)
    return found


@dataclass(frozen=True)
class Grouped(Generic[GroupId]):
    """A batch's rewards by group."""

    group_ids: tuple[GroupId, ...]
    group_of_rollout: tuple[int, ...]
    groups: tuple[Group, ...]


def grouped(rewards: Sequence[float], group_ids: Sequence[GroupId]) -> Grouped[GroupId]:
    """The rewards by group, groups in order of first appearance.

    Raises:
        ValueError: lengths that differ, nothing at all, or a reward that is not finite.
    """
    # The entries of a tensor are tensors, and two of them are never the same group.
    values, names = _entries(rewards), _entries(group_ids)
    if len(values) != len(names):
        raise ValueError(f"{len(values)} rewards for {len(names)} group_ids")
    if not values:
        raise ValueError("the filter needs at least one rollout")
    for position, reward in enumerate(values):
        if not math.isfinite(reward):
            raise ValueError(f"reward {position} is {reward}; the filter needs finite rewards")
    number_of = {group_id: number for number, group_id in enumerate(dict.fromkeys(names))}
    group_of_rollout = tuple(number_of[group_id] for group_id in names)
    rewards_of: list[list[float]] = [[] for _ in number_of]
    for number, reward in zip(group_of_rollout, values, strict=True):
        rewards_of[number].append(float(reward))
    return Grouped(tuple(number_of), group_of_rollout, tuple(map(group_of, rewards_of)))


def selection(
    rule: str,
    batch: Grouped[GroupId],
    scores: Sequence[float],
    selected: tuple[int, ...],
    injected: tuple[int, ...] = (),
) -> FilterSelection[GroupId]:
    """The selection of these groups, with what follows from it."""
    return FilterSelection(
        rule=rule,
        selected=selected,
        group_ids=batch.group_ids,
        scores=tuple(none_unless_finite(each) for each in scores),
        group_std=tuple(none_unless_finite(group.std) for group in batch.groups),
        group_of_rollout=batch.group_of_rollout,
        metrics=_metrics(batch.groups, selected, scores),
        injected=injected,
    )


def _entries(column: Any) -> list[Any]:
    to_list = getattr(column, "tolist", None)
    entries = to_list() if callable(to_list) else column
    return [entry.item() if callable(getattr(entry, "item", None)) else entry for entry in entries]


def _metrics(
    groups: Sequence[Group], selected: Sequence[int], scores: Sequence[float]
) -> dict[str, float | None]:
    chosen = [groups[position] for position in selected]
    metrics: dict[str, float | None] = {}
    for name, of in _GROUP_MEASURES.items():
        metrics[f"in_group_{name}"] = _mean([of(group) for group in groups])
        metrics[f"chosen_in_group_{name}"] = _mean([of(group) for group in chosen]) if chosen else 0.0
    metrics["filter_kept_count"] = float(len(selected))
    metrics["filter_kept_ratio"] = len(selected) / len(groups)
    metrics["filter_zero_count"] = float(sum(abs(each) <= ZERO_STD for each in scores))
    return metrics


_GROUP_MEASURES: dict[str, Callable[[Group], float]] = {
    "std": lambda group: group.std,
    "max": lambda group: group.highest,
    "mean": lambda group: group.mean,
    "reward_std": lambda group: group.std,
    "reward_max": lambda group: group.highest,
    "reward_mean": lambda group: group.mean,
    "reward_sum": lambda group: group.total,
}


def _mean(values: Sequence[float]) -> float | None:
    return none_unless_finite(exact_sum(values) / len(values))
