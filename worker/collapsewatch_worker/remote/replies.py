"""What every engine's client shares: what is served, what is scored, and numbers that can be trusted.

Legend: T reasoning tokens.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Protocol

import numpy as np

from collapsewatch_worker.errors import EngineNotUsable
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
    source: tuple[str, ...] = ()
    """Names and paths of what is loaded: two answers about the same weights are equal in all fields."""


@dataclass(frozen=True)
class Other:
    """The engine has something else loaded than the checkpoint that was asked for."""

    names: tuple[str, ...]
    """Names, paths and versions of what it has."""
    is_later: bool
    """One of them is a later version of the checkpoint, by its number: the engine has moved on."""

    def __str__(self) -> str:
        return ", ".join(repr(name) for name in self.names) or "no model"


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

    def serving(self, checkpoint: str | None) -> Serving | Other:
        """The model that will be scored with, or what is loaded instead.

        Args:
            checkpoint: what must be loaded; None takes what there is.
        """

    def check_vocabulary(self, highest_token_id: int) -> None:
        """Raises BatchNotScorable when the model has no such token; before anything is scored."""

    def token_log_probs(self, pair: Pair, serving: Serving) -> Floats:
        """Log-probability of each reasoning token [T] in nats at temperature 1; errors as `EngineApi`.

        An impossible token has -inf.
        """


def is_checkpoint(served: str | None, checkpoint: str) -> bool:
    """Whether a served name or path means this checkpoint: equal, or the same up to leading folders."""
    if not served:
        return False
    served_parts, wanted_parts = PurePosixPath(served).parts, PurePosixPath(checkpoint).parts
    return served_parts[-len(wanted_parts) :] == wanted_parts


def is_later(served: str | None, checkpoint: str) -> bool:
    """Whether a served name is that of a later version: the same, but for a larger last number."""
    if not served:
        return False
    served_parts, wanted_parts = PurePosixPath(served).parts, PurePosixPath(checkpoint).parts
    num_parts = min(len(served_parts), len(wanted_parts))
    # `step-40` becomes `step-`, `40` and an empty end: texts and numbers by turns.
    found = re.split(r"([0-9]+)", "/".join(served_parts[len(served_parts) - num_parts :]))
    wanted = re.split(r"([0-9]+)", "/".join(wanted_parts[len(wanted_parts) - num_parts :]))
    if found[::2] != wanted[::2] or found[1:-2] != wanted[1:-2] or len(wanted) < 3:
        return False
    return int(found[-2]) > int(wanted[-2])


def checked_log_prob(value: object, position: int) -> float:
    """A log-probability in nats; -inf, in JSON `-Infinity`, is that of an impossible token.

    Args:
        position: of the token in its reasoning, for the message.

    Raises:
        EngineNotUsable: no number, or none that is the log of a probability.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
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
