"""Rollouts that come one by one, as reward functions and agents see them, brought together into steps."""

import threading
from collections.abc import Mapping
from typing import Any

from collapsewatch.boundary import Boundary, is_strict
from collapsewatch.training_run import Run


class RolloutCollector:
    """Hands over a step whenever it is full. Any thread may add to it."""

    def __init__(self, run: Run, *, batch_size: int, first_step: int = 1, **head: Any) -> None:
        """A collector for one run.

        Args:
            batch_size: rollouts of a step; the trainer's number of prompts times its samples of each.
            first_step: number of the first full step.
            head: further arguments of `Run.log_rollouts`, such as `temperature` and `reasoning_tags`.

        Raises:
            ValueError: a batch size below 1.
        """
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        self.run = run
        self.boundary = Boundary(strict=is_strict())
        self._batch_size, self._step, self._head = batch_size, first_step, head
        self._rollouts: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def add(self, *rollouts: Mapping[str, Any]) -> None:
        """Takes rollouts in; each in the form of `Rollout`."""
        with self._lock:
            self._rollouts += map(dict, rollouts)
            while len(self._rollouts) >= self._batch_size:
                full, self._rollouts = self._rollouts[: self._batch_size], self._rollouts[self._batch_size :]
                self.run.log_rollouts(self._step, full, **self._head)
                self._step += 1

    def flush(self) -> None:
        """Hands over what is there as a step of its own, as at the end of a training."""
        with self._lock:
            if self._rollouts:
                full, self._rollouts = self._rollouts, []
                self.run.log_rollouts(self._step, full, **self._head)
                self._step += 1
