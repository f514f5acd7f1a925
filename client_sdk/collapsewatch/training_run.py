"""The run: what a trainer holds."""

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count
from threading import Event
from types import TracebackType
from typing import Any, Literal, Self

from collapsewatch.alerts import AlertCallback, AlertWatch, Severity
from collapsewatch.arguments import (
    Column,
    Scorer,
    finite_values,
    flat_values,
    range_argument,
    scorer_config,
    shard_argument,
    tags_argument,
    validated,
    why_dropped,
)
from collapsewatch.boundary import Boundary, log
from collapsewatch.clock import CLOCK
from collapsewatch.contracts.rollouts import (
    CrossLogProbs,
    ReasoningTags,
    Rollout,
    ScalarPoint,
    Shard,
)
from collapsewatch.contracts.runs import RunStart, RunState, RunUpdate
from collapsewatch.delivery import Delivery, End
from collapsewatch.encoding import batch_json, point_json
from collapsewatch.errors import DeliveryError, InvalidInputError
from collapsewatch.handles import RunConfig, RunSummary
from collapsewatch.launcher import Launch
from collapsewatch.lifetime import open_runs
from collapsewatch.plain import json_config, num_values, plain_step, plain_value
from collapsewatch.ready import MAX_VALUES_PER_POINT, ready_values
from collapsewatch.reentry import one_at_a_time
from collapsewatch.settings import Settings
from collapsewatch.showing import RunWindow, Shown
from collapsewatch.spool import RecordKind


class Run:
    """One training run. Open it with `init`; use it as a context manager, or call `finish`.

    No method raises into training code or waits for the network, `finish` and `show` aside, which wait for a
    bounded time. What a call was given is on disk when it returns and survives the process; it is sent from
    there, by this process or a later one. What will never be sent is logged on the logger `collapsewatch`,
    once per sort, and counted in `dropped`. Any thread may call it, and a signal's handler, whose calls are
    made up for at the end of the one in hand. In a forked child it does nothing: the parent has the run.
    """

    def __init__(
        self, start: RunStart, settings: Settings, boundary: Boundary, launch: Launch | None = None
    ) -> None:
        self.id = start.run_id
        self.project = start.project
        self.name = start.name
        self.attempt_id = None if start.attempt is None else start.attempt.attempt_id
        """Which start of the training this is; the same in all its processes."""
        self.mode = settings.mode
        self.url = f"{settings.url}/#/runs/{self.id}" if settings.url else ""
        """Page of this run; empty when the settings were unusable."""
        self._boundary = boundary
        self.config = RunConfig(start.config, self._update_config)
        """Hyperparameters, as entries or attributes."""
        self.summary = RunSummary({}, self.log)
        """The last value of every metric that this process has logged."""
        self._window = RunWindow(settings, self.id)
        # What is logged without a step must not make a resumed attempt replay the run from its beginning.
        self._last_step = 0 if start.attempt is None else start.attempt.from_step or 0
        self._counts_steps = True
        """No step was named so far, so that each call of `log` is a step."""
        self._state: Literal["open", "finished", "forked"] = "open"
        self._writer_id = start.writer_id
        # A random id for each batch would be a system call for each.
        self._batch_numbers = count()
        self._delivery: Delivery | None = None
        self._alerts: AlertWatch | None = None
        self.ended = Event()
        """Set once the run takes nothing in any more."""
        self._before_end: list[Callable[[], None]] = []
        if settings.mode == "online":
            self._alerts = AlertWatch(self.id, settings, boundary)
        if settings.mode != "disabled":
            rank = None if launch is None else launch.rank
            self._delivery = Delivery(start, settings, boundary, mode=settings.mode, rank=rank)
            open_runs.add(self)

    @property
    def dropped(self) -> dict[str, int]:
        """How much will never reach the server, by reason; empty when all is well.

        Keys are `<what>_<why>`: batches, values (of `log`), updates, runs; invalid, not_finite (NaN or an
        infinity), rejected (by the server), spool_full (too much waited, or the disk is full), damaged (by
        the disk), closed (after `finish`, or in a forked child).
        """
        return self._boundary.dropped

    @property
    def is_open(self) -> bool:
        """Whether it takes anything in: not after `finish`, and not in a forked child."""
        return self._state == "open"

    @one_at_a_time
    def log_rollouts(
        self,
        step: int,
        rollouts: Sequence[Rollout | Mapping[str, Any]] | None = None,
        *,
        prompts: Column | None = None,
        responses: Column | None = None,
        rewards: Column | None = None,
        group_ids: Column | None = None,
        prompt_token_ids: Column | None = None,
        response_token_ids: Column | None = None,
        response_log_probs: Column | None = None,
        reasonings: Column | None = None,
        actions: Column | None = None,
        successes: Column | None = None,
        policy_version: str | int | None = None,
        temperature: float | None = None,
        reward_range: tuple[float, float] | None = None,
        reasoning_tags: ReasoningTags | tuple[str, str] | None = None,
        cross_log_probs: CrossLogProbs | Mapping[str, Any] | None = None,
        shard: Shard | tuple[int, int] | None = None,
    ) -> None:
        """Hands over the rollouts of one training step, as `rollouts` or as columns.

        Everything is on disk when the call returns. Columns have one entry per rollout, may be lists,
        tuples, arrays or tensors, and describe single-turn rollouts; use `rollouts` for several turns. A
        batch that is invalid in any place is dropped as a whole.

        Args:
            prompts: all the model saw before its response, chat template applied, opening tag included.
            responses: all it wrote: reasoning, closing tag, action.
            group_ids: equal for rollouts of one prompt; identical prompts form a group when absent.
            prompt_token_ids: the sampler's own ids, without padding; better than text, where at hand.
            response_log_probs: log p of each response token under the sampler, in nats.
            reasonings, actions: the parts of the response, when the trainer has cut it itself.
            policy_version: fills `{policy_version}` in the scorer's checkpoint.
            temperature: sampling temperature; logits are divided by it when the batch is scored.
            reward_range: lowest and highest possible reward.
            reasoning_tags: a pair of opening and closing tag, or `ReasoningTags`; `<think>` when absent.
            cross_log_probs: the cross-scoring matrix, when the trainer computed it on its own policy.
            shard: (index, count) when several ranks hold a part of the step each; they are scored together.
        """
        if not self._is_sending("batches"):
            return
        columns = {
            "prompts": prompts,
            "responses": responses,
            "rewards": rewards,
            "group_ids": group_ids,
            "prompt_token_ids": prompt_token_ids,
            "response_token_ids": response_token_ids,
            "response_log_probs": response_log_probs,
            "reasonings": reasonings,
            "actions": actions,
            "successes": successes,
        }
        with self._boundary.guard("log_rollouts", reason="batches_invalid"):
            reward_min, reward_max = range_argument(reward_range)
            number, logged_at = plain_step(step), CLOCK.now()
            body = batch_json(
                rollouts,
                columns,
                cross_log_probs,
                batch_id=f"{self._writer_id}-{next(self._batch_numbers)}",
                step=number,
                policy_version=str(policy_version) if isinstance(policy_version, int) else policy_version,
                temperature=plain_value(temperature),
                reasoning_tags=tags_argument(reasoning_tags),
                reward_min=reward_min,
                reward_max=reward_max,
                attempt_id=self.attempt_id,
                logged_at=logged_at,
                shard=shard_argument(shard),
            )
            self._delivery_now.append_body(RecordKind.batch, body, 1, logged_at)
            self._last_step, self._counts_steps = number, False

    @one_at_a_time
    def log(self, values: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        """Hands over plain numbers of one step, such as success rate or KL.

        A value that is no finite number is dropped and counted; the others go. A value logged again for the
        same step replaces the first. A mapping among the values adds its entries as `name.entry`.

        Args:
            values: name → number; whatever `float()` takes, text excepted.
            step: the step last named to this run when absent; as long as none was named, each call is a step,
                counted from `from_step` or 0.
            commit: False keeps such a step open for the next call.
        """
        delivery = self._delivery
        if delivery is None or self._state != "open":
            self._is_sending("values")
            return
        # As good as the context manager, which would take longer to come and go than the writing does.
        try:
            if step is None:
                number = self._last_step
            else:
                number, self._counts_steps = plain_step(step), False
            ready = ready_values(values)
            if ready is not None:
                logged_at = CLOCK.now()
                body = point_json(number, ready, logged_at)
                delivery.append_body(RecordKind.scalars, body, len(ready), logged_at)
                self._last_step = number + 1 if self._counts_steps and commit is not False else number
                self.summary.note(ready)
                return
        except Exception as error:
            if not self._boundary.catch(error, "log", "values_invalid", num_values(values)):
                raise
            return
        problems: list[InvalidInputError] = []
        with self._boundary.guard("log", reason="values_invalid", count=num_values(values)):
            kept, problems = finite_values(flat_values(values))
            for start in range(0, len(kept), MAX_VALUES_PER_POINT):
                chunk = dict(kept[start : start + MAX_VALUES_PER_POINT])
                point = validated(ScalarPoint, step=number, values=chunk, logged_at=CLOCK.now())
                self._append(RecordKind.scalars, point, len(point.values))
            self._last_step = number + 1 if self._counts_steps and commit is not False else number
            self.summary.note(dict(kept))
        for problem in problems:
            self._boundary.refuse("log", problem, reason=why_dropped(problem))

    @one_at_a_time
    def set_scorer(
        self, scorer: Scorer, checkpoint: str | os.PathLike[str] | None = None, **options: Any
    ) -> None:
        """Says who scores the batches from here on.

        Args:
            scorer: `"policy"` (the checkpoint that wrote the batch, or the matrix sent with it),
                `"reference"` (a fixed model), `"lexical"` (no model), or a `ScorerConfig`.
            checkpoint: Hugging Face folder on the worker's host; for `policy` it may hold `{policy_version}`
                and `{step}`.
            options: further fields of `ScorerConfig`. Three of them score only a part, which the run's page
                then says: `num_samples` caps the scored reasonings per step, drawn with `seed`;
                `every_steps` takes the steps that it divides; `probe_group_ids` takes these groups alone.
                A change of them begins a new baseline.
        """
        if not self._is_sending("updates"):
            return
        with self._boundary.guard("set_scorer", reason="updates_invalid"):
            config = scorer_config(scorer, checkpoint=checkpoint, **options)
            self._append(RecordKind.update, RunUpdate(scorer=config))

    def _update_config(self, values: Mapping[str, Any]) -> None:
        if not self._is_sending("updates"):
            return
        with self._boundary.guard("config", reason="updates_invalid"):
            self._append(RecordKind.update, validated(RunUpdate, config=json_config(values)))

    def before_end(self, callback: Callable[[], None]) -> None:
        """Has a function called by `finish`, when all is sent."""
        self._before_end.append(callback)

    def on_alert(self, callback: AlertCallback, *, severity: Severity = "warning") -> None:
        """Has a function called with each `Alert` on this run that opens, gets graver or is resolved.

        Of those as grave as this or graver, from now on; what already stands is told at once, as opened. The
        function is called in a thread of its own, one alert at a time, some seconds after the alert; an error
        in it is logged and changes nothing. Without a server that answers it is not called.
        """
        if self._alerts is not None and self._state == "open":
            with self._boundary.guard("on_alert"):
                self._alerts.add(callback, severity)

    def should_stop(self, *, severity: Severity = "critical", rules: Collection[str] | None = None) -> bool:
        """Whether an alert on what this run's rollouts or values show stands open; answers at once.

        By what was last heard of the server, which is asked every few seconds from the first call on; False
        until it has answered. Alerts that somebody acknowledged or snoozed do not count: a person looks after
        them. Processes may hear of an alert at different times, so let rank 0 ask and tell the others.

        Args:
            severity: alerts as grave as this or graver.
            rules: only alerts of these rules, such as `("input_dependence",)`.
        """
        if self._alerts is not None and self._state == "open":
            with self._boundary.guard("should_stop"):
                return self._alerts.should_stop(severity, rules)
        return False

    def show(
        self, *, height: int = 720, days: float = 30, snapshot: bool = False, timeout_seconds: float = 10.0
    ) -> Shown:
        """Shows the run's page in the notebook that this runs in, and gives its link.

        The first call makes a read-only link for the run alone, which the page lists under Settings and can
        end; later calls use it again. Waits for the server for at most `timeout_seconds`.

        Args:
            height: of the frame, in pixels.
            days: after which the link ends, 366 at most.
            snapshot: show the run as it is now, instead of as it goes on; makes a new link each time.
        """
        with self._boundary.guard("show"):
            return self._window.show(
                self.name, height=height, days=days, snapshot=snapshot, timeout_seconds=timeout_seconds
            )
        return Shown("", "see the log", height)

    @one_at_a_time
    def finish(
        self, timeout_seconds: float = 30.0, *, state: Literal["finished", "failed"] = "finished"
    ) -> None:
        """Sends what is left, for at most `timeout_seconds`, and closes the run. Again is harmless.

        What is not sent by then stays on disk, for `collapsewatch sync` or the next `init`.

        Raises:
            DeliveryError: under `COLLAPSEWATCH_STRICT=1`, when something did not arrive.
        """
        open_runs.discard(self)
        if self._state != "open":
            return
        self._state = "finished"
        self.ended.set()
        if self._alerts is not None:
            self._alerts.close()
        if self._delivery is None:
            return
        with self._boundary.guard("finish"):
            last = RunUpdate(state=RunState(state), writer_id=self._writer_id)
            end = self._delivery.end(last, timeout_seconds)
            for each in self._before_end:
                each()
            self._tell_end(end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Finishes the run, as failed when the block failed; the block's error goes on its way."""
        is_clean = error is None or (isinstance(error, SystemExit) and error.code in (None, 0))
        if error is None:
            self.finish()
            return
        try:
            self.finish(state="finished" if is_clean else "failed")
        except DeliveryError as lost:
            # The training's own error matters more than what strict mode has to say.
            log.error("%s", lost, extra={"run": self.id})

    def __repr__(self) -> str:
        return f"<collapsewatch.Run {self.project}/{self.name} id={self.id} {self.mode}>"

    def _is_sending(self, what: str) -> bool:
        if self.mode == "disabled":
            return False
        if self._state == "open":
            return True
        self._boundary.drop(f"{what}_closed")
        self._boundary.report(f"closed {what}", "the run is %s; %s dropped", self._state, what)
        return False

    def _append(self, kind: RecordKind, model: ScalarPoint | RunUpdate, num: int = 1) -> None:
        self._delivery_now.append(kind, model, num)

    @property
    def _delivery_now(self) -> Delivery:
        assert self._delivery is not None
        return self._delivery

    def _tell_end(self, end: End) -> None:
        """Says what stays on disk and what was lost."""
        if end.num_left:
            state = (
                "is kept offline" if self.mode == "offline" else f"has {end.num_left} records left to send"
            )
            log.warning("run %s %s; to send it: %s", self.name, state, end.command, extra={"run": self.id})
        told = ", ".join(f"{reason} {count}" for reason, count in sorted(self.dropped.items()))
        if told:
            log.warning("run %s lost some of what was logged: %s", self.name, told, extra={"run": self.id})
        if not self._boundary.strict:
            return
        # What could not be sent as it was given has raised in its own call.
        if any(not reason.endswith(("_invalid", "_not_finite")) for reason in self.dropped):
            raise DeliveryError(f"not delivered: {told}")
        if end.num_left and self.mode == "online":
            raise DeliveryError(f"not delivered yet: {end.num_left} records; to send them: {end.command}")

    def leave_to_parent(self) -> None:
        """In a forked child: no thread, no spool, and new locks, for a fork may copy a held one."""
        self._state = "forked"
        self._alerts = None
        if self._delivery is not None:
            self._delivery.leave_to_parent()
        self._boundary = Boundary(strict=self._boundary.strict)
