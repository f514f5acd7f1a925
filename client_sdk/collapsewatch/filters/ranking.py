"""Which groups a rule keeps, given what they are ranked by."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from collapsewatch.filters.rounding import ZERO_STD, exact_sum, float32

_STRATEGIES = ("top_p", "top_k", "top_k_abs", "min_p")
_SCORES = ("std", "variance", "mean", "sum")
_DIRECTIONS = ("largest", "smallest")
_TOP_P_MODES = ("linear", "softmax")


@dataclass(frozen=True)
class Group:
    """What a group's rewards come to."""

    std: float
    """NaN for a single rollout, so that it compares as the public code's does."""
    highest: float
    mean: float
    total: float


@dataclass(frozen=True)
class Rule:
    """How groups are chosen; see `snr_filter`."""

    strategy: str
    value: float
    score: str
    filter_type: str
    top_p_mode: str
    include_zero: bool
    selection_eps: float

    @property
    def name(self) -> str:
        """Such as `top_p 0.9 linear std`."""
        words = [self.strategy, f"{self.value:g}", self.top_p_mode if self.strategy == "top_p" else ""]
        words += [self.score, "" if self.filter_type == "largest" else self.filter_type]
        return " ".join(word for word in words if word)


def check_rule(rule: Rule) -> None:
    """Refuses a rule that cannot be followed.

    Raises:
        ValueError: an unknown name, a number that is not finite, or a share outside (0, 1].
    """
    for name, given, known in (
        ("strategy", rule.strategy, _STRATEGIES),
        ("score", rule.score, _SCORES),
        ("filter_type", rule.filter_type, _DIRECTIONS),
        ("top_p_mode", rule.top_p_mode, _TOP_P_MODES),
    ):
        if given not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}; got {given!r}")
    for name, number in (("value", rule.value), ("selection_eps", rule.selection_eps)):
        if not math.isfinite(number):
            raise ValueError(f"{name} must be finite, got {number}")
    if rule.strategy == "top_p" and rule.score == "variance" and not 0 < rule.value <= 1:
        raise ValueError(f"top_p by variance needs a share in (0, 1], got {rule.value}")


def group_of(rewards: Sequence[float]) -> Group:
    """Spread, best, mean and sum of a group's rewards."""
    total = exact_sum(rewards)
    mean = total / len(rewards)
    if len(rewards) < 2:
        std = math.nan
    elif min(rewards) == max(rewards):
        # A mean that rounds would give equal rewards a spread of about 1e-17.
        std = 0.0
    else:
        std = math.sqrt(
            exact_sum([(reward - mean) * (reward - mean) for reward in rewards]) / (len(rewards) - 1)
        )
    return Group(std, max(rewards), mean, total)


SCORE_OF: dict[str, Callable[[Group], float]] = {
    "std": lambda group: group.std,
    "variance": lambda group: group.std * group.std,
    "mean": lambda group: group.mean,
    "sum": lambda group: group.total,
}


def select(rule: Rule, exact_scores: Sequence[float]) -> list[int]:
    """Positions of the kept groups in the order of selection."""
    # The public code ranks in float32, where scores may tie that differ in float64.
    scores = list(exact_scores) if rule.score == "variance" else [float32(each) for each in exact_scores]
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


def _ranked(rule: Rule, scores: Sequence[float], positions: Sequence[int], *, nan_first: bool) -> list[int]:
    """Positions from the score wanted most to the one wanted least, ties by position."""
    sign = -1.0 if rule.filter_type == "largest" else 1.0

    def key(position: int) -> tuple[bool, float]:
        is_nan = math.isnan(scores[position])
        return is_nan is not nan_first, 0.0 if is_nan else sign * scores[position]

    return sorted(positions, key=key)


def _linear_nucleus(rule: Rule, scores: Sequence[float], positions: Sequence[int]) -> list[int]:
    threshold = rule.value * exact_sum([scores[position] for position in positions]) - rule.selection_eps
    # NaN sorts as the largest number does: first when descending, last when ascending.
    ranked = _ranked(rule, scores, positions, nan_first=rule.filter_type == "largest")
    reached, kept = 0.0, 0
    for position in ranked:
        if reached >= threshold or scores[position] <= 0:
            break
        reached += scores[position]
        kept += 1
    return ranked[:kept] if reached >= threshold else []


def _smallest_set_reaching_share(rule: Rule, scores: Sequence[float], positions: Sequence[int]) -> list[int]:
    """The paper's rule: fewest groups whose scores sum to the share; those without a spread add nothing."""
    if rule.top_p_mode == "softmax":
        return _softmax_nucleus(rule, scores, positions)
    usable = [position for position in positions if scores[position] > 0]
    ranked = _ranked(rule, scores, usable, nan_first=False)
    # The slack absorbs the rounding of a sum that reaches its own total, as for a share of 1.
    threshold = rule.value * exact_sum([scores[position] for position in usable]) * (1 - 1e-12)
    threshold -= rule.selection_eps
    reached, kept = 0.0, 0
    while kept < len(ranked) and reached < threshold:
        reached += scores[ranked[kept]]
        kept += 1
    return ranked[:kept]


def _softmax_nucleus(rule: Rule, scores: Sequence[float], positions: Sequence[int]) -> list[int]:
    sign = 1.0 if rule.filter_type == "largest" else -1.0
    logits = [sign * scores[position] for position in positions]
    if any(math.isnan(logit) for logit in logits):
        return list(positions)
    highest = max(logits)
    weights = [math.exp(logit - highest) for logit in logits]
    total = exact_sum(weights)
    probabilities = [float32(weight / total) for weight in weights]
    ranked = sorted(range(len(positions)), key=lambda index: -probabilities[index])
    reached, kept = 0.0, 0
    for index in ranked:
        reached += probabilities[index]
        kept += 1
        if reached >= rule.value:
            break
    return [positions[index] for index in ranked[:kept]]


def _within_share_of_best(rule: Rule, scores: Sequence[float], positions: Sequence[int]) -> list[int]:
    candidates = [scores[position] for position in positions]
    if any(math.isnan(each) for each in candidates):
        return []
    # In float32, as the scores are, because there value + 1e-10 is value, and 1 keeps the best itself.
    exact = rule.score == "variance"
    rounded = (lambda value: value) if exact else float32
    slack = 1e-12 * max(map(abs, candidates)) if exact else 1e-10
    if rule.filter_type == "largest":
        floor = rounded(rounded(max(candidates) * rounded(rule.value)) - slack)
        return [position for position in positions if scores[position] >= floor]
    share = rule.value if exact else rounded(rule.value + 1e-10)
    ceiling = rounded(rounded(min(candidates) / share) + slack) if share else math.inf
    return [position for position in positions if scores[position] <= ceiling]
