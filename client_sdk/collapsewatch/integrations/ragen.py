"""RAGEN: its own collapse detector, whose scores by the live policy are handed over with the batch.

    self.collapse_detector = watched_detector(CollapseDetector(...), run)

The detector is called every `compute_freq` steps, before the reward-variance filter drops groups, so the run
sees the whole batch. What it computes anyway is sent as the policy's own matrix: nothing is scored twice.

Source: RAGEN at 20daedc, `ragen/trainer/collapse_metrics.py` and `agent_trainer.py`.
"""

from collections.abc import Mapping, Sequence
from functools import wraps
from typing import Any

from collapsewatch.boundary import Boundary, is_strict
from collapsewatch.contracts.rollouts import ReasoningTags
from collapsewatch.training_run import Run

FIRST_TURN = "collapse_first_turn_sample"
"""How the detector calls the first turns."""


def watched_detector(detector: Any, run: Run, *, temperature: float | None = None) -> Any:
    """The detector itself, which from now on hands over what it is called with and what it finds.

    It must have `first_turn_enabled`. Its metrics are handed over under RAGEN's own names.

    Args:
        temperature: the sampling temperature, by which RAGEN's workers divide the logits.
    """
    watch = _Watch(detector, run, temperature)
    for name in ("compute_collapse_metrics", "_compute_metrics_for_pairs", "_compute_cross_log_probs"):
        setattr(detector, name, getattr(watch, name.lstrip("_"))(getattr(detector, name)))
    return detector


class _Watch:
    def __init__(self, detector: Any, run: Run, temperature: float | None) -> None:
        self._run, self._temperature = run, temperature
        self._boundary = Boundary(strict=is_strict())
        self._family: str | None = None
        self._columns: list[Any] = []
        self._scores: list[list[float]] | None = None

    def compute_collapse_metrics(self, plain: Any) -> Any:
        """The call that the trainer makes, with the batch before any filter."""

        @wraps(plain)
        def told(batch: Any, actor_compute_log_prob_fn: Any, global_step: int) -> Any:
            self._scores = None
            metrics = plain(batch, actor_compute_log_prob_fn, global_step)
            with self._boundary.guard("rollouts of RAGEN"):
                self._hand_over(batch, global_step)
                numbers = {name: value for name, value in metrics.items() if isinstance(value, int | float)}
                if numbers:
                    self._run.log(numbers, step=global_step)
            return metrics

        return told

    def compute_metrics_for_pairs(self, plain: Any) -> Any:
        """The call for one family of pairs, by its label."""

        @wraps(plain)
        def told(*args: Any, ema_key: str | None = None, **options: Any) -> Any:
            self._family = ema_key
            try:
                return plain(*args, ema_key=ema_key, **options)
            finally:
                self._family = None

        return told

    def compute_cross_log_probs(self, plain: Any) -> Any:
        """The scoring of one family: means per token, and sums."""

        @wraps(plain)
        def told(
            batch: Any, compute: Any, prompts: Any, unique_groups: Any, *args: Any, **options: Any
        ) -> Any:
            means, sums = plain(batch, compute, prompts, unique_groups, *args, **options)
            if self._family == FIRST_TURN:
                self._columns, self._scores = list(unique_groups), sums.tolist()
            return means, sums

        return told

    def _hand_over(self, batch: Any, step: int) -> None:
        data: Mapping[str, Any] = batch.non_tensor_batch or {}
        if "first_turn_prompt_ids" not in data or "group_ids" not in data:
            return
        prompts = [_ids(each) for each in data["first_turn_prompt_ids"]]
        reasonings = [_ids(each) for each in data["first_turn_reasoning_ids"]]
        groups = [str(int(each)) for each in data["group_ids"]]
        rewards = _rewards(batch, len(groups))
        rollouts = []
        for group, prompt, reasoning, reward in zip(groups, prompts, reasonings, rewards, strict=True):
            turn = {"prompt_token_ids": prompt, "response_token_ids": reasoning}
            rollout: dict[str, Any] = {"group_id": group, "turns": [turn]}
            rollouts.append(rollout if reward is None else {**rollout, "reward": reward})
        self._run.log_rollouts(
            step,
            rollouts,
            temperature=self._temperature,
            # RAGEN has cut the reasoning already, without its tags.
            reasoning_tags=ReasoningTags(whole_response=True),
            cross_log_probs=self._matrix(reasonings),
        )

    def _matrix(self, reasonings: Sequence[Sequence[int]]) -> dict[str, Any] | None:
        if self._scores is None:
            return None
        # The detector leaves out empty reasonings, and keeps the order of the others.
        rows = [row for row, reasoning in enumerate(reasonings) if reasoning]
        if len(rows) != len(self._scores):
            # It drew a sample of its own (`num_samples`), and does not say which.
            self._boundary.report(
                "ragen sample", "the detector scored %d of %d", len(self._scores), len(rows)
            )
            return None
        return {
            "rollout_indices": rows,
            "column_group_ids": [str(int(each)) for each in self._columns],
            "log_probs": self._scores,
            "token_counts": [len(reasonings[row]) for row in rows],
        }


def _ids(value: Any) -> list[int]:
    if value is None:
        return []
    to_list = getattr(value, "tolist", None)
    return [int(each) for each in (to_list() if callable(to_list) else value)]


def _rewards(batch: Any, count: int) -> list[float | None]:
    tensors = batch.batch
    for name in ("original_rm_scores", "rm_scores"):
        if tensors is not None and name in tensors.keys():  # noqa: SIM118 - a TensorDict iterates over its rows
            rewards: list[float | None] = tensors[name].sum(-1).tolist()
            return rewards
    return [None] * count
