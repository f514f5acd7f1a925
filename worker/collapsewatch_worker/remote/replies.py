"""What every engine's client shares: what is served, what is scored, and numbers that can be trusted.

Legend: T reasoning tokens.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

import numpy as np

from collapsewatch_worker.errors import CheckpointNotReady, EngineNotUsable
from collapsewatch_worker.metrics.arrays import Floats

# Float32 rounding may lift the log of a probability of 1 this far above 0; logits lie far beyond.
_ROUNDING = 1e-3


@dataclass(frozen=True)
class Serving:
    """The model that an engine has loaded."""

    name: str | None
    """How requests name it; None when they need not."""
    max_tokens: int | None
    """Most tokens of prompt and reasoning together; None when the engine does not say."""
    weight_version: str | None
    """Changes when a trainer writes new weights into the running engine; None when it does not say."""


@dataclass(frozen=True)
class Pair:
    """A reasoning to be scored after a prompt, both as token ids of at least one token."""

    prompt: tuple[int, ...]
    reasoning: tuple[int, ...]

    @property
    def token_ids(self) -> list[int]:
        """Both in a row, as engines take them."""
        return [*self.prompt, *self.reasoning]


class Engine(Protocol):
    """The client of one kind of engine."""

    def serving(self, checkpoint: str | None) -> Serving:
        """The model that will be scored with.

        Args:
            checkpoint: what must be loaded; None takes what there is.

        Raises:
            CheckpointNotReady: the engine serves another model.
        """

    def check_vocabulary(self, highest_token_id: int) -> None:
        """Raises BatchNotScorable when the model has no such token; before anything is scored."""

    def token_log_probs(self, pair: Pair, serving: Serving) -> Floats:
        """Log-probability of each reasoning token [T] in nats at temperature 1; errors as `EngineApi`."""


def is_checkpoint(served: str | None, checkpoint: str) -> bool:
    """Whether a served name or path means this checkpoint: equal, or the same up to leading folders."""
    if not served:
        return False
    served_parts, wanted_parts = PurePosixPath(served).parts, PurePosixPath(checkpoint).parts
    return served_parts[-len(wanted_parts) :] == wanted_parts


def serves_another(served: Sequence[str], checkpoint: str) -> CheckpointNotReady:
    """The error for an engine whose model is not the checkpoint of the batch."""
    names = ", ".join(repr(name) for name in served) or "no model"
    return CheckpointNotReady(f"the engine serves {names}, not the checkpoint {checkpoint!r}")


def checked_log_prob(value: object, position: int) -> float:
    """A log-probability in nats.

    Args:
        position: of the token in its reasoning, for the message.

    Raises:
        EngineNotUsable: no number, or none that is the log of a probability.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise EngineNotUsable(f"the engine gave no log-probability for reasoning token {position}: {value!r}")
    if value > _ROUNDING:
        raise EngineNotUsable(
            f"the engine gave {value:g} for reasoning token {position}, which is no log-probability: "
            "it may be set to return logits"
        )
    return float(value)


def checked_log_probs(values: Sequence[object]) -> Floats:
    """The same for the tokens of a reasoning [T]."""
    return np.array(
        [checked_log_prob(value, position) for position, value in enumerate(values)], dtype=np.float64
    )
