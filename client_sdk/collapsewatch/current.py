"""The run that `init` opened last, and the package's own calls on it: `import collapsewatch as wandb`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from collapsewatch.boundary import Boundary, is_strict
from collapsewatch.errors import InvalidInputError
from collapsewatch.handles import RunConfig, RunSummary

if TYPE_CHECKING:
    from collapsewatch.training_run import Run

_current: "Run | None" = None
_boundary: Boundary | None = None


def set_current(run: "Run") -> None:
    """Makes this the run that the package's own calls go to."""
    global _current
    _current = run


def current_run() -> "Run | None":
    """The run that was opened last, unless it is finished."""
    return _current if _current is not None and _current.is_open else None


def log(values: Mapping[str, Any], step: int | None = None, commit: bool | None = None) -> None:
    """Hands plain numbers to the run that was opened last; see `Run.log`."""
    run = current_run()
    if run is None:
        _report_none("log")
        return
    run.log(values, step=step, commit=commit)


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """Finishes the run that was opened last, as failed with an exit code other than 0."""
    run = current_run()
    if run is not None:
        run.finish(state="failed" if exit_code else "finished")


def config() -> RunConfig:
    """The hyperparameters of the run that was opened last; empty without one."""
    run = current_run()
    return RunConfig({}, lambda values: _report_none("config")) if run is None else run.config


def summary() -> RunSummary:
    """The last values of the run that was opened last; empty without one."""
    return RunSummary({}, lambda values: _report_none("summary")) if _current is None else _current.summary


def watch(*args: object, **options: object) -> None:
    """Does nothing: gradients are not collected. Code that was written for W&B calls it."""


def define_metric(*args: object, **options: object) -> None:
    """Does nothing: every series has the step as its axis."""


def login(*args: object, **options: object) -> bool:
    """True: the key is in the environment, or the local server's."""
    return True


def _report_none(doing: str) -> None:
    global _boundary
    if _boundary is None or _boundary.strict is not is_strict():
        _boundary = Boundary(strict=is_strict())
    _boundary.refuse(
        doing, InvalidInputError("no run is open: call `init` first", kind="no run"), reason="values_closed"
    )
