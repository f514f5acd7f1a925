"""A callback for `transformers.Trainer`, and for every trainer made of it.

Source: transformers 5.23.0, `trainer_callback.py` and `trainer.py`.
"""

from collections.abc import Mapping
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from collapsewatch.alerts import Severity
from collapsewatch.arguments import Scorer
from collapsewatch.opening import init
from collapsewatch.training_run import Run


class CollapseWatchCallback(TrainerCallback):
    """Opens a run when the training begins, hands over what the trainer logs, and finishes it at the end.

    Rank 0 logs; the other ranks open no run. Rollouts come from the trainer: see `integrations.trl`.
    """

    def __init__(
        self,
        project: str | None = None,
        *,
        run: Run | None = None,
        scorer: Scorer | None = None,
        stop_on_alert: bool = False,
        severity: Severity = "critical",
        **options: Any,
    ) -> None:
        """A callback for one training.

        Args:
            run: one that is open already; it is not finished then.
            scorer: who scores the rollouts; see `Run.set_scorer`.
            stop_on_alert: ends the training, as if its last step were done, when `Run.should_stop` says so.
            severity: alerts as grave as this or graver end it.
            options: further arguments of `collapsewatch.init`.
        """
        self.run = run
        self._is_own = run is None
        self._project, self._scorer, self._options = project, scorer, options
        self._stop_on_alert, self._severity = stop_on_alert, severity

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Opens the run, with the trainer's arguments and the model's configuration as its config."""
        if self.run is not None or not state.is_world_process_zero:
            return
        options = dict(self._options)
        config = {**_config_of(args, kwargs.get("model")), **(options.pop("config", None) or {})}
        options.setdefault("name", args.run_name)
        if state.global_step:
            # A resumed training goes on after the step of its checkpoint.
            options.setdefault("from_step", state.global_step + 1)
        self.run = init(self._project, config=config, scorer=self._scorer, **options)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Hands over the numbers of one step."""
        numbers = {
            name: value
            for name, value in (logs or {}).items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        if self.run is not None and state.is_world_process_zero and numbers:
            self.run.log(numbers, step=state.global_step)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Ends the training, on all ranks at the same step, when an alert asks for it."""
        if self._stop_on_alert:
            stops = self.run is not None and self.run.should_stop(severity=self._severity)
            if _told_by_rank_0(stops):
                control.should_training_stop = True

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Finishes the run that it has opened."""
        if self._is_own and self.run is not None:
            self.run.finish()
            self.run = None


def _config_of(args: TrainingArguments, model: Any) -> dict[str, Any]:
    """The trainer's arguments, keys masked, and the model's configuration."""
    # The library leaves this call without annotations.
    arguments: Any = args
    config = dict(arguments.to_dict())
    of_model = getattr(getattr(model, "config", None), "to_dict", None)
    if callable(of_model):
        config["model"] = of_model()
    return config


def _told_by_rank_0(stops: bool) -> bool:
    """What rank 0 says: ranks that ended at different steps would wait for each other for ever."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() == 1:
        return stops
    box = [stops]
    dist.broadcast_object_list(box, src=0)
    return box[0]
