"""When a channel is told, of how much at once, and when it is tried again. Pure."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from collapsewatch_server.repositories.deliveries import Waiting


@dataclass(frozen=True)
class Retries:
    """How often, and how long apart, a message is tried."""

    max_attempts: int = 12
    first_seconds: float = 5.0
    longest_seconds: float = 900.0
    longest_asked_seconds: float = 3600.0
    """A receiver that asks to be left alone for longer is asked again after so long."""

    def wait_seconds(
        self, attempts: int, asked_seconds: float | None, generator: random.Random
    ) -> float | None:
        """How long until the next attempt after `attempts` that failed; none when it is given up.

        Twice as long after each, and by chance up to half of that shorter: channels that failed together
        do not come back together.
        """
        if attempts >= self.max_attempts:
            return None
        doubled = self.first_seconds * 2.0 ** min(attempts - 1, 40)
        waited = min(doubled, self.longest_seconds) * generator.uniform(0.5, 1.0)
        return max(waited, min(asked_seconds or 0.0, self.longest_asked_seconds))


def next_message(
    waiting: Sequence[Waiting],
    made_at: Sequence[float],
    *,
    digest_after: int,
    window_seconds: float,
    now: float,
) -> list[int]:
    """Changes that the next message tells of; empty while there is nothing to tell, or it has to wait.

    Each change has a message of its own until `digest_after` of them came within a window. What then comes
    waits until the window is over for the first of it, and is told in one message; a flood that finds a
    quiet channel is told at once.

    Args:
        made_at: when messages were made, at least those of the window before the first that waits.
    """
    if not waiting:
        return []
    first_at = min(one.planned_at for one in waiting)
    # Counted from where the first one came, and not from now: what waits together is told together, and does
    # not trickle out as older messages leave the window.
    num_recent = sum(at > first_at - window_seconds for at in made_at)
    if len(waiting) + num_recent <= digest_after:
        return [waiting[0].change_id]
    if num_recent == 0 or now - first_at >= window_seconds:
        return [one.change_id for one in waiting]
    return []
