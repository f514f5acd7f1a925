"""prime-rl: a monitor among its monitors, which takes its metrics and the episodes that were trained on.

    from collapsewatch.integrations.prime_rl import attach
    attach("sokoban", name="grpo")        # in the orchestrator's process, such as in an environment's module

Without any code, `collapsewatch import --follow outputs/run` reads the traces that its file monitor writes.

Source: prime-rl 0.8.0 (559b447), `src/prime_rl/monitors/__init__.py` and `base.py`.
"""

import asyncio
import math
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from collapsewatch.boundary import Boundary, is_strict
from collapsewatch.importers.traces import episode_rollouts
from collapsewatch.opening import init
from collapsewatch.training_run import Run


class CollapseWatchMonitor:
    """What prime-rl calls a `Monitor`."""

    def __init__(self, run: Run) -> None:
        """A monitor that hands over to this run."""
        self.run = run
        self.boundary = Boundary(strict=is_strict())

    async def init(self, **_: Any) -> None:
        """Nothing is left to do."""

    async def log(self, data: Any, step: int, kind: str = "train", subset: str = "effective") -> None:
        """Takes metrics, or episodes."""
        if isinstance(data, Mapping):
            await self.log_metrics(data, step=step)
        else:
            episodes = data if isinstance(data, list) else [data]
            await self.log_episodes(episodes, step=step, kind=kind, subset=subset)

    async def log_metrics(self, metrics: Mapping[str, Any], step: int) -> None:
        """Hands over the numbers of one step."""
        numbers = {
            name: value
            for name, value in metrics.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
        }
        if numbers:
            self.run.log(numbers, step=step)

    async def log_episodes(self, episodes: Sequence[Any], step: int, kind: str, subset: str) -> None:
        """Hands over the episodes that were trained on, which come once for each step."""
        if (kind, subset) == ("train", "effective"):
            # To make records of many episodes takes long: the dispatch of rollouts must not wait for it.
            await asyncio.to_thread(self._hand_over, list(episodes), step)

    async def finalize(self) -> None:
        """Finishes the run."""
        await asyncio.to_thread(self.run.finish)

    def _hand_over(self, episodes: Sequence[Any], step: int) -> None:
        with self.boundary.guard("rollouts of prime-rl"):
            rollouts = [rollout for each in episodes for rollout in episode_rollouts(each.to_record())]
            if rollouts:
                self.run.log_rollouts(step, rollouts)


def attach(project: str | None = None, *, run: Run | None = None, **options: Any) -> CollapseWatchMonitor:
    """A monitor that prime-rl calls from now on.

    Args:
        run: one that is open already.
        options: else those of `collapsewatch.init`.

    Raises:
        ModuleNotFoundError: prime-rl is not installed.
    """
    monitors = sys.modules.get("prime_rl.monitors") or import_module("prime_rl.monitors")
    monitor = CollapseWatchMonitor(init(project, **options) if run is None else run)
    monitors.MONITORS.append(monitor)
    return monitor
