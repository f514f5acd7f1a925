"""The series that every page shows: the same numbers for all, made from a seed."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FIRST_TURN = [
    "retrieval_skill",
    "diversity_ratio",
    "retrieval_accuracy",
    "retrieval_chance",
    "mi_seq",
    "mi_ceiling",
    "conditional_entropy",
    "reasoning_entropy",
    "log_evalue_warning",
    "log_evalue_critical",
]
BATCH = [
    "reward",
    "reward_variance",
    "zero_variance_fraction",
    "zero_variance_too_hard",
    "zero_variance_too_easy",
    "zero_variance_reward_insensitive",
    "zero_variance_tied",
    "valid_reasoning_rate",
    "reasoning_length",
    "compression_distance_ratio",
]
WITH_INTERVAL = {"retrieval_skill", "retrieval_accuracy", "mi_seq", "conditional_entropy"}
STARTED_AT = 1.76e9
SECONDS_A_STEP = 20.0


@dataclass(frozen=True)
class RunShape:
    """One run to fill in."""

    name: str
    num_steps: int
    num_metrics: int
    seed: int

    def names(self) -> dict[str, list[str]]:
        """Metrics by scope: what a scored batch has, and the rest as a trainer's own scalars."""
        scored = {"first_turn": FIRST_TURN[: self.num_metrics], "batch": BATCH[: self.num_metrics - 10]}
        rest = self.num_metrics - sum(map(len, scored.values()))
        names = {**scored, "trainer": [f"train/scalar_{number:02d}" for number in range(rest)]}
        return {scope: found for scope, found in names.items() if found}

    def values(self) -> Iterator[tuple[str, str, Floats]]:
        """Scope, name and values of each metric; one step of each is a spike that no page may lose."""
        steps = np.arange(self.num_steps)
        for number, (scope, name) in enumerate(
            (scope, name) for scope, names in self.names().items() for name in names
        ):
            generator = np.random.default_rng([self.seed, number])
            drift = 0.5 + 0.3 * np.sin(steps / self.num_steps * 9 + number)
            values = drift + generator.normal(0, 0.03, self.num_steps)
            values[self.spike] = 1.5
            yield scope, name, values

    @property
    def spike(self) -> int:
        """The step of the spike."""
        return self.num_steps * 2 // 3
