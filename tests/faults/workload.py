"""What the trainers of the fault suite log: made from a seed, so that every run of one seed logs the same.

Each start of a training salts what it logs with its number: which attempt owns a step shows in the numbers.

In the first half the reasoning repeats words of its prompt; then it becomes one template for all prompts,
so that a run has alerts which a fault could change.
"""

import random
from dataclasses import dataclass
from typing import Any

NUM_PROMPTS = 8
NUM_SAMPLES = 4
_COLOURS = ("amber", "coral", "olive", "pearl", "umber", "violet")
_THINGS = ("anchor", "beacon", "candle", "dagger", "engine")
_WORDS = tuple(f"{colour}{thing}" for colour in _COLOURS for thing in _THINGS)
_TEMPLATE = ("let", "us", "think", "step", "by", "and", "pick", "a", "safe", "move", "with", "some", "care")


@dataclass(frozen=True)
class Workload:
    """A run of `num_steps` steps, one batch and two scalars each."""

    seed: int
    num_steps: int
    pace_seconds: float
    """Mean pause between two steps; the pauses are no part of what is logged."""

    @property
    def collapse_step(self) -> int:
        """First step whose reasoning no longer depends on the prompt."""
        return max(13, self.num_steps // 2)

    def columns(self, step: int, salt: int = 0) -> dict[str, Any]:
        """Arguments of `log_rollouts` for one step; another salt makes another batch of the same kind."""
        drawn = random.Random(f"{self.seed}/{step}/{salt}")
        found: dict[str, Any] = {"prompts": [], "responses": [], "rewards": [], "group_ids": []}
        for group in range(NUM_PROMPTS):
            own = drawn.sample(_WORDS, 5)
            for _ in range(NUM_SAMPLES):
                found["prompts"].append(f"the room holds {' '.join(own)} <think>")
                found["responses"].append(
                    f"{self._reasoning(drawn, own, step)} </think> go {drawn.choice(own)}"
                )
                found["rewards"].append(float(drawn.random() < 0.5))
                found["group_ids"].append(f"s{step}g{group}")
        return found | {"reward_range": (0.0, 1.0)}

    def scalars(self, step: int, salt: int = 0) -> dict[str, float]:
        """Arguments of `log` for one step."""
        drawn = random.Random(f"{self.seed}/{step}/{salt}/scalars")
        return {"kl": drawn.random(), "loss": drawn.gauss(1.0, 0.1)}

    def _reasoning(self, drawn: random.Random, own: list[str], step: int) -> str:
        words = _TEMPLATE if step >= self.collapse_step else own
        shown = drawn.sample(words, min(len(words), 4)) + drawn.sample(_TEMPLATE, 3)
        return " ".join(drawn.sample(shown, len(shown)))


Salts = list[tuple[int, int]]
"""From which step on which salt, in the order of the steps."""


def salt_of(salts: Salts, step: int) -> int:
    """The salt of one step; 0 before the first."""
    return next((salt for from_step, salt in reversed(salts) if from_step <= step), 0)


def told(salts: Salts) -> str:
    """As an option of a command."""
    return ",".join(f"{from_step}:{salt}" for from_step, salt in salts)


def salts_from(text: str) -> Salts:
    """What `told` has said."""
    pairs = (part.split(":") for part in text.split(",") if part)
    return [(int(from_step), int(salt)) for from_step, salt in pairs]
