"""A reward-variance filter that lets starved prompts in again, so that a collapsed policy can recover.

A filter keeps what the policy already tells apart. Prompts whose rollouts are all alike are dropped step
after step, and they may be the very ones from which a collapsed policy could learn again.
"""

import math
import random
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from collapsewatch.filters.selection import (
    FilterSelection,
    GroupId,
    Log,
    grouped,
    selection,
    snr_filter,
)


@dataclass
class _Seen:
    """A prompt's history."""

    first: int
    """Step at which it was seen first."""
    last: int
    kept: int | None = None
    """Step at which it was last kept."""

    def starved(self, step: int) -> int:
        """Steps since it was last kept; one that never was counts the one at which it was seen first."""
        return step - (self.first - 1 if self.kept is None else self.kept)


class RecoveringFilter(Generic[GroupId]):
    """`snr_filter` with a memory: which prompts were kept when, and a share of the starved let in at times.

    A reset lets in `reset_share` of the groups that the rule drops in that step, those first that were kept
    longest ago. It happens every `reset_every` steps, and whenever coverage (of the prompts seen in the last
    `window` steps the share that was also kept in them) lies below `min_coverage`. Without either it is
    `snr_filter` with a report of starvation. Prompts are told apart by their group's id, so the id must be
    the same whenever the prompt comes again; prompts that never do make coverage the mean kept ratio.

    A group whose rewards are all equal has no advantage: what it brings is the rest of the loss, the KL and
    entropy terms.
    """

    def __init__(
        self,
        *,
        reset_every: int | None = None,
        min_coverage: float | None = None,
        reset_share: float = 0.25,
        window: int = 50,
        seed: int = 0,
        run: Log | None = None,
        **rule: Any,
    ) -> None:
        """The filter, which remembers nothing yet.

        Args:
            reset_share: share of the dropped groups, rounded up.
            seed: decides among groups that starve equally long.
            run: told at each step what was kept, dropped and let in, as `filter/…`.
            rule: options of `snr_filter`.

        Raises:
            ValueError: a number outside its range, or an unknown option.
        """
        if reset_every is not None and reset_every < 1:
            raise ValueError(f"reset_every must be at least 1, got {reset_every}")
        if min_coverage is not None and not 0 <= min_coverage <= 1:
            raise ValueError(f"min_coverage must lie in 0..1, got {min_coverage}")
        if not 0 < reset_share <= 1:
            raise ValueError(f"reset_share must lie above 0 and up to 1, got {reset_share}")
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window}")
        if rule:
            # A misspelt option shall not wait for the first batch.
            snr_filter([0.0, 1.0], ["a", "a"], **rule)
        self._reset_every, self._min_coverage, self._reset_share = reset_every, min_coverage, reset_share
        self._window, self._seed, self._run, self._rule = window, seed, run, rule
        self._seen: dict[Hashable, _Seen] = {}

    def __call__(
        self, rewards: Sequence[float], group_ids: Sequence[GroupId], *, step: int
    ) -> FilterSelection[GroupId]:
        """The groups to train on at this step.

        Args:
            step: rises from call to call; after a step back, what was remembered of later steps is forgotten.

        Raises:
            ValueError: as `snr_filter`.
        """
        found = snr_filter(rewards, group_ids, **self._rule)
        self._forget(step)
        for group in found.group_ids:
            self._seen.setdefault(group, _Seen(step, step)).last = step
        injected = self._injected(found, step)
        if injected:
            batch = grouped(rewards, group_ids)
            scores = [math.nan if score is None else score for score in found.scores]
            found = selection(found.rule, batch, scores, (*found.selected, *injected), injected)
        for group in found.selected_group_ids:
            self._seen[group].kept = step
        if self._run is not None:
            self._run.log({**found.told(), **self.starvation(step), **_counted(injected)}, step=step)
        return found

    def coverage(self, step: int) -> float:
        """Share of the prompts seen in the last `window` steps that was kept in them; 1 for none."""
        since = step - self._window
        seen = [each for each in self._seen.values() if each.last > since]
        kept = [each for each in seen if each.kept is not None and each.kept > since]
        return len(kept) / len(seen) if seen else 1.0

    def starvation(self, step: int) -> dict[str, float]:
        """What the filter withholds from the training, as scalars of a run."""
        waits = [each.starved(step) for each in self._seen.values() if each.last > step - self._window]
        return {
            "filter/coverage": self.coverage(step),
            "filter/longest_starved_steps": float(max(waits, default=0)),
            "filter/mean_starved_steps": sum(waits) / len(waits) if waits else 0.0,
        }

    def state_dict(self) -> dict[str, Any]:
        """What it remembers, for a checkpoint; JSON as far as the groups' ids are."""
        return {"seen": [[group, each.first, each.last, each.kept] for group, each in self._seen.items()]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a `state_dict`."""
        self._seen = {group: _Seen(first, last, kept) for group, first, last, kept in state["seen"]}

    def _forget(self, step: int) -> None:
        """Drops what lies before the window, and what lies ahead when the training has gone back."""
        since = step - self._window
        self._seen = {
            group: each for group, each in self._seen.items() if each.last > since and each.first < step
        }
        for each in self._seen.values():
            each.last = min(each.last, step - 1)
            if each.kept is not None and each.kept >= step:
                each.kept = None

    def _injected(self, found: FilterSelection[GroupId], step: int) -> tuple[int, ...]:
        """Positions of dropped groups to let in, those that starve longest first."""
        dropped = [number for number in range(len(found.group_ids)) if number not in set(found.selected)]
        if not dropped or not self._is_reset(found, step):
            return ()
        generator = random.Random(f"{self._seed} {step}")
        draws = {number: generator.random() for number in dropped}
        waits = {number: self._seen[found.group_ids[number]].starved(step) for number in dropped}
        ranked = sorted(dropped, key=lambda number: (-waits[number], draws[number]))
        return tuple(ranked[: math.ceil(self._reset_share * len(dropped))])

    def _is_reset(self, found: FilterSelection[GroupId], step: int) -> bool:
        if self._reset_every is not None and step > 0 and step % self._reset_every == 0:
            return True
        if self._min_coverage is None:
            return False
        # As it would be without a reset.
        kept = set(found.selected_group_ids)
        since = step - self._window
        num_covered = sum(
            group in kept or (each.kept is not None and each.kept > since)
            for group, each in self._seen.items()
        )
        return num_covered < self._min_coverage * len(self._seen)


def _counted(injected: tuple[int, ...]) -> dict[str, float]:
    return {"filter/injected_count": float(len(injected))}
