"""What is measured: runs to which nothing happens, runs to which something does."""

from dataclasses import dataclass

import numpy as np

from benchmarks.alerts.simulation import Floats, Path, Setting

STABLE = (
    Setting("8 prompts × 8, skill 0.8"),
    Setting("8 prompts × 8, skill 0.5", skill=0.5),
    Setting("8 prompts × 16, skill 0.3", skill=0.3, num_rollouts=16),
    Setting("16 prompts × 8, skill 0.6", num_prompts=16, skill=0.6),
    Setting("64 prompts × 8, skill 0.6", num_prompts=64, skill=0.6),
    Setting("skill with memory 0.9", skill=0.6, drift_spread=0.05, memory=0.9),
    Setting("skill with memory 0.98", skill=0.6, drift_spread=0.05, memory=0.98),
    Setting("one hub prompt", skill=0.7, hub=0.1),
    Setting("hub prompt and memory 0.9", skill=0.7, hub=0.1, drift_spread=0.05, memory=0.9),
    Setting("success near 1", success=0.95),
    Setting("success near 0", success=0.05),
)
"""Nothing happens. 8 prompts with 8 rollouts each is the least that the gates let through comfortably."""

CHANGE_AT = 20
NUM_AFTER = 40


@dataclass(frozen=True)
class Drift:
    """Something happens to skill from one evaluation on."""

    name: str
    setting: Setting
    factors: Floats
    """[NUM_AFTER] what skill is multiplied with."""

    @property
    def path(self) -> Path:
        return Path({"skill": np.concatenate([np.ones(CHANGE_AT), self.factors])})


def _constant(value: float) -> Floats:
    return np.full(NUM_AFTER, value)


def _ramp(num_evaluations: int) -> Floats:
    return np.maximum(1.0 - np.arange(1, NUM_AFTER + 1) / num_evaluations, 0.0)


def _reversal(num_evaluations: int) -> Floats:
    return (np.arange(NUM_AFTER) >= num_evaluations).astype(np.float64)


_SHAPES = (
    ("to chance", _constant(0.0)),
    ("to a quarter", _constant(0.25)),
    ("to a half", _constant(0.5)),
    ("ramp to chance over 20", _ramp(20)),
    ("to chance for 6, then back", _reversal(6)),
)
DRIFTS = tuple(
    Drift(f"{setting.name}: {name}", setting, factors)
    for setting in (STABLE[0], STABLE[1], STABLE[7])
    for name, factors in _SHAPES
)


@dataclass(frozen=True)
class RuleCase:
    """Something that one of the other rules looks for."""

    rule: str
    severity: str
    metric: str
    rises: bool
    what: str
    cause: str
    """Which of the simulation's quantities changes."""
    factor: float
    setting: Setting = STABLE[0]

    @property
    def path(self) -> Path:
        before = 0.0 if self.cause == "alike" else 1.0
        return Path({self.cause: np.concatenate([np.full(CHANGE_AT, before), _constant(self.factor)])})


RULE_CASES = (
    RuleCase(
        "mutual_information_fall", "warning", "mi_normalised", False, "to a quarter", "information", 0.25
    ),
    RuleCase("mutual_information_rise", "info", "mi_normalised", True, "× 2", "information", 2.0, STABLE[1]),
    RuleCase("reasoning_entropy_collapse", "warning", "conditional_entropy", False, "× 0.3", "entropy", 0.3),
    RuleCase("reasoning_entropy_explosion", "warning", "conditional_entropy", True, "× 3", "entropy", 3.0),
    RuleCase("reward_drop", "warning", "reward", False, "0.5 to 0.15", "success", 0.3),
    RuleCase("success_drop", "warning", "success", False, "0.5 to 0.15", "success", 0.3),
    RuleCase(
        "zero_variance_excess",
        "warning",
        "zero_variance_fraction",
        True,
        "9 of 10 groups made alike",
        "alike",
        0.9,
    ),
    RuleCase("reasoning_length_explosion", "warning", "reasoning_length", True, "× 3", "length", 3.0),
    RuleCase("reasoning_length_shrinkage", "info", "reasoning_length", False, "× 0.3", "length", 0.3),
    RuleCase("valid_reasoning_rate", "warning", "valid_reasoning_rate", False, "0.97 to 0.78", "valid", 0.8),
)
