"""Batches counted: what was sent, and what became of it."""

from dataclasses import dataclass, field
from typing import Self

Key = tuple[str, int]
"""Attempt and step of a batch: what a later attempt replays is another batch."""


@dataclass
class Account:
    """Batches of one or more runs."""

    num_sent: int = 0
    """Batches whose `log_rollouts` had returned, and those that arrived although it had not."""
    num_accepted: int = 0
    num_scored: int = 0
    """Done, and with a result that holds numbers."""
    num_dead: int = 0
    num_dropped: int = 0
    """Dropped by a trainer that had no room, and counted by it."""
    num_lost: int = 0
    """Sent, not accepted, and not said to be dropped."""
    num_duplicated: int = 0
    """More than one batch or more than one set of results for one step of one attempt."""
    problems: list[str] = field(default_factory=list)

    def add(self, other: Self) -> None:
        self.num_sent += other.num_sent
        self.num_accepted += other.num_accepted
        self.num_scored += other.num_scored
        self.num_dead += other.num_dead
        self.num_dropped += other.num_dropped
        self.num_lost += other.num_lost
        self.num_duplicated += other.num_duplicated
        self.problems += other.problems

    @property
    def is_clean(self) -> bool:
        """Whether every batch has one end, and each is the one that it should have."""
        has_ends = self.num_scored + self.num_dead == self.num_accepted
        return has_ends and not (self.num_lost or self.num_duplicated or self.problems)

    def __str__(self) -> str:
        return (
            f"sent {self.num_sent}, accepted {self.num_accepted}, scored {self.num_scored}, "
            f"dead-lettered {self.num_dead}, lost {self.num_lost}, duplicated {self.num_duplicated}"
        )


@dataclass
class Sent:
    """What a run's trainers sent, and what may become of it."""

    keys: set[Key]
    dead: frozenset[int] = frozenset()
    """Steps that nobody can score; all others must be scored."""
    num_dropped: int = 0
    """Batches that the trainers dropped and told; so many may be missing."""
    state: str = "finished"
    """What the run says of itself in the end."""
    num_attempts: int = 1
    opened: frozenset[str] = frozenset()
    """Rules of the watch that may have opened an alert about it."""
    still_open: frozenset[str] = frozenset()
    """Those that stay open."""
