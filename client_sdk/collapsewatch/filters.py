"""Which prompt groups a reward-variance filter keeps, in plain Python, for use inside a trainer.

Two definitions are in circulation and both are offered by name. `score="std"` is the public code of
RAGEN-2: standard deviations rounded to float32, threshold ρ Σ std − 0.01, ties in order of position.
`score="variance"` is the paper's: threshold τ = ρ ΣV, the smallest number of groups that reaches τ.

Source: docs/metrics.md section 3; arXiv 2604.06268.
"""

import math
import struct
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

GroupId = TypeVar("GroupId", bound=Hashable)

ZERO_STD = 1e-10
"""A score no further from 0 counts as 0."""
FIXED_BUCKET_EDGES = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
"""Lower edges of the fixed buckets; the last is open above."""

_STRATEGIES = ("top_p", "top_k", "top_k_abs", "min_p")
_SCORES = ("std", "variance", "mean", "sum")
_DIRECTIONS = ("largest", "smallest")
_TOP_P_MODES = ("linear", "softmax")


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


@dataclass(frozen=True)
class _Group:
    std: float
    """NaN for a single rollout, so that it compares as the public code's does."""
    highest: float
    mean: float
    total: float


@dataclass(frozen=True)
class _Rule:
    strategy: str
    value: float
    score: str
    filter_type: str
    top_p_mode: str
    include_zero: bool
    selection_eps: float

    @property
    def name(self) -> str:
        words = [self.strategy, f"{self.value:g}", self.top_p_mode if self.strategy == "top_p" else ""]
        words += [self.score, "" if self.filter_type == "largest" else self.filter_type]
        return " ".join(word for word in words if word)


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
        rewards: one finite number per rollout.
        group_ids: one per rollout; the rollouts of a group need not be adjacent.
        strategy: `top_p`, `top_k`, `top_k_abs` or `min_p`.
        value: what the strategy says; `top_p` with "std" and 1 or more keeps all.
        score: `std` (the public code), `variance` (the paper), or the group's reward `mean` or `sum`.
        filter_type: keep the `largest` or the `smallest` scores.
        top_p_mode: `linear` or `softmax`.
        include_zero: False drops groups whose score is 0 before anything else.
        selection_eps: 0.01 when absent, 0 for "variance".

    Raises:
        ValueError: an unknown name, lengths that differ, an empty batch, a number that is not finite, or
            for `top_p` by variance a share outside (0, 1].
    """
    eps = selection_eps if selection_eps is not None else 0.0 if score == "variance" else 0.01
    rule = _Rule(strategy, value, score, filter_type, top_p_mode, include_zero, eps)
    _check(rule, rewards, group_ids)
    number_of = {group_id: number for number, group_id in enumerate(dict.fromkeys(group_ids))}
    group_of_rollout = tuple(number_of[group_id] for group_id in group_ids)
    rewards_of: list[list[float]] = [[] for _ in number_of]
    for number, reward in zip(group_of_rollout, rewards, strict=True):
        rewards_of[number].append(float(reward))
    groups = [_group(values) for values in rewards_of]
    scores = [_SCORE_OF[score](group) for group in groups]
    selected = tuple(_select(rule, scores))
    return FilterSelection(
        rule=rule.name,
        selected=selected,
        group_ids=tuple(number_of),
        scores=tuple(_none_unless_finite(each) for each in scores),
        group_std=tuple(_none_unless_finite(group.std) for group in groups),
        group_of_rollout=group_of_rollout,
        metrics=_metrics(groups, selected, scores),
    )


def variance_buckets(
    stds: Sequence[float], *, mode: str = "quantile", num_buckets: int = 6
) -> list[tuple[int, ...]]:
    """Positions of the groups in each bucket of reward spread, from low to high.

    `quantile`: equal numbers of groups, ties in order of position, the remainder in the last, fewer
    buckets when there are fewer groups. `fixed`: one bucket per `FIXED_BUCKET_EDGES`, some maybe empty,
    whatever `num_buckets` says. Spreads are rounded to float32, so that one computed as
    4.999999999999999 lies on the edge 5.

    Raises:
        ValueError: another mode, `num_buckets` below 1, or a spread that is no number.
    """
    if mode not in ("quantile", "fixed"):
        raise ValueError(f"bucket mode must be 'quantile' or 'fixed', got {mode!r}")
    if num_buckets < 1:
        raise ValueError(f"num_buckets must be at least 1, got {num_buckets}")
    if any(math.isnan(std) for std in stds):
        raise ValueError("a group without a spread (one rollout) belongs to no bucket")
    rounded = [_float32(std) for std in stds]
    if mode == "fixed":
        uppers = [*FIXED_BUCKET_EDGES[1:], math.inf]
        return [
            tuple(
                position
                for position, std in enumerate(rounded)
                if low <= std < high or std == high == math.inf
            )
            for low, high in zip(FIXED_BUCKET_EDGES, uppers, strict=True)
        ]
    order = sorted(range(len(rounded)), key=rounded.__getitem__)
    used = min(num_buckets, len(order))
    size = len(order) // used if used else 0
    starts = [number * size for number in range(used)]
    ends = [*starts[1:], len(order)]
    return [tuple(order[start:end]) for start, end in zip(starts, ends, strict=bool(used))]


def _check(rule: _Rule, rewards: Sequence[float], group_ids: Sequence[GroupId]) -> None:
    for name, given, known in (
        ("strategy", rule.strategy, _STRATEGIES),
        ("score", rule.score, _SCORES),
        ("filter_type", rule.filter_type, _DIRECTIONS),
        ("top_p_mode", rule.top_p_mode, _TOP_P_MODES),
    ):
        if given not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}; got {given!r}")
    if len(rewards) != len(group_ids):
        raise ValueError(f"{len(rewards)} rewards for {len(group_ids)} group_ids")
    if not rewards:
        raise ValueError("the filter needs at least one rollout")
    for position, reward in enumerate(rewards):
        if not math.isfinite(reward):
            raise ValueError(f"reward {position} is {reward}; the filter needs finite rewards")
    for name, number in (("value", rule.value), ("selection_eps", rule.selection_eps)):
        if not math.isfinite(number):
            raise ValueError(f"{name} must be finite, got {number}")
    if rule.strategy == "top_p" and rule.score == "variance" and not 0 < rule.value <= 1:
        raise ValueError(f"top_p by variance needs a share in (0, 1], got {rule.value}")


def _group(rewards: Sequence[float]) -> _Group:
    total = _sum(rewards)
    mean = total / len(rewards)
    if len(rewards) < 2:
        std = math.nan
    elif min(rewards) == max(rewards):
        # A mean that rounds would give equal rewards a spread of about 1e-17.
        std = 0.0
    else:
        std = math.sqrt(_sum([(reward - mean) * (reward - mean) for reward in rewards]) / (len(rewards) - 1))
    return _Group(std, max(rewards), mean, total)


_SCORE_OF: dict[str, Callable[[_Group], float]] = {
    "std": lambda group: group.std,
    "variance": lambda group: group.std * group.std,
    "mean": lambda group: group.mean,
    "sum": lambda group: group.total,
}


def _select(rule: _Rule, exact_scores: Sequence[float]) -> list[int]:
    """Positions of the kept groups in the order of selection."""
    # The public code ranks in float32, where scores may tie that differ in float64.
    scores = list(exact_scores) if rule.score == "variance" else [_float32(each) for each in exact_scores]
    positions = [
        position
        for position, each in enumerate(scores)
        if (rule.include_zero or abs(each) > ZERO_STD) and not (rule.score == "variance" and math.isnan(each))
    ]
    if not positions:
        return []
    if rule.strategy == "top_p":
        if rule.score == "variance":
            return _smallest_set_reaching_share(rule, scores, positions)
        if rule.value >= 1.0:
            return positions
        if rule.top_p_mode == "softmax":
            return _softmax_nucleus(rule, scores, positions)
        return _linear_nucleus(rule, scores, positions)
    if rule.strategy == "min_p":
        return _within_share_of_best(rule, scores, positions)
    wanted = rule.value * len(scores) if rule.strategy == "top_k" else rule.value
    return _ranked(rule, scores, positions, nan_first=True)[: max(1, int(wanted))]


def _ranked(rule: _Rule, scores: Sequence[float], positions: Sequence[int], *, nan_first: bool) -> list[int]:
    """Positions from the score wanted most to the one wanted least, ties by position."""
    sign = -1.0 if rule.filter_type == "largest" else 1.0

    def key(position: int) -> tuple[bool, float]:
        is_nan = math.isnan(scores[position])
        return is_nan is not nan_first, 0.0 if is_nan else sign * scores[position]

    return sorted(positions, key=key)


def _linear_nucleus(rule: _Rule, scores: Sequence[float], positions: Sequence[int]) -> list[int]:
    threshold = rule.value * _sum([scores[position] for position in positions]) - rule.selection_eps
    # NaN sorts as the largest number does: first when descending, last when ascending.
    ranked = _ranked(rule, scores, positions, nan_first=rule.filter_type == "largest")
    reached, kept = 0.0, 0
    for position in ranked:
        if reached >= threshold or scores[position] <= 0:
            break
        reached += scores[position]
        kept += 1
    return ranked[:kept] if reached >= threshold else []


def _smallest_set_reaching_share(rule: _Rule, scores: Sequence[float], positions: Sequence[int]) -> list[int]:
    """The paper's rule: fewest groups whose scores sum to the share; those without a spread add nothing."""
    if rule.top_p_mode == "softmax":
        return _softmax_nucleus(rule, scores, positions)
    usable = [position for position in positions if scores[position] > 0]
    ranked = _ranked(rule, scores, usable, nan_first=False)
    # The slack absorbs the rounding of a sum that reaches its own total, as for a share of 1.
    threshold = rule.value * _sum([scores[position] for position in usable]) * (1 - 1e-12)
    threshold -= rule.selection_eps
    reached, kept = 0.0, 0
    while kept < len(ranked) and reached < threshold:
        reached += scores[ranked[kept]]
        kept += 1
    return ranked[:kept]


def _softmax_nucleus(rule: _Rule, scores: Sequence[float], positions: Sequence[int]) -> list[int]:
    sign = 1.0 if rule.filter_type == "largest" else -1.0
    logits = [sign * scores[position] for position in positions]
    if any(math.isnan(logit) for logit in logits):
        return list(positions)
    highest = max(logits)
    weights = [math.exp(logit - highest) for logit in logits]
    total = _sum(weights)
    probabilities = [_float32(weight / total) for weight in weights]
    ranked = sorted(range(len(positions)), key=lambda index: -probabilities[index])
    reached, kept = 0.0, 0
    for index in ranked:
        reached += probabilities[index]
        kept += 1
        if reached >= rule.value:
            break
    return [positions[index] for index in ranked[:kept]]


def _within_share_of_best(rule: _Rule, scores: Sequence[float], positions: Sequence[int]) -> list[int]:
    candidates = [scores[position] for position in positions]
    if any(math.isnan(each) for each in candidates):
        return []
    # In float32, as the scores are, because there value + 1e-10 is value, and 1 keeps the best itself.
    exact = rule.score == "variance"
    rounded = (lambda value: value) if exact else _float32
    slack = 1e-12 * max(map(abs, candidates)) if exact else 1e-10
    if rule.filter_type == "largest":
        floor = rounded(rounded(max(candidates) * rounded(rule.value)) - slack)
        return [position for position in positions if scores[position] >= floor]
    share = rule.value if exact else rounded(rule.value + 1e-10)
    ceiling = rounded(rounded(min(candidates) / share) + slack) if share else math.inf
    return [position for position in positions if scores[position] <= ceiling]


def _metrics(
    groups: Sequence[_Group], selected: Sequence[int], scores: Sequence[float]
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


_GROUP_MEASURES: dict[str, Callable[[_Group], float]] = {
    "std": lambda group: group.std,
    "max": lambda group: group.highest,
    "mean": lambda group: group.mean,
    "reward_std": lambda group: group.std,
    "reward_max": lambda group: group.highest,
    "reward_mean": lambda group: group.mean,
    "reward_sum": lambda group: group.total,
}


def _mean(values: Sequence[float]) -> float | None:
    return _none_unless_finite(_sum(values) / len(values))


def _none_unless_finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _sum(values: Sequence[float]) -> float:
    """Exactly rounded sum; infinite or NaN where it overflows, instead of an error."""
    try:
        return math.fsum(values)
    except (OverflowError, ValueError):
        return sum(values)


def _float32(value: float) -> float:
    """The nearest float32; infinite where it overflows."""
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded
