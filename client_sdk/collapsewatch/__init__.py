"""Live monitor for template collapse in RL training of language-model agents.

`init` opens a run, `Run.log_rollouts` hands over a step's rollouts. Names are loaded on first use, so that
importing the package costs a training script next to nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collapsewatch import filters, scoring
    from collapsewatch.alerts import Alert
    from collapsewatch.contracts.rollouts import CrossLogProbs, ReasoningTags, Rollout, Shard, Turn
    from collapsewatch.contracts.scoring import ScorerConfig
    from collapsewatch.current import define_metric, finish, log, login, watch
    from collapsewatch.errors import CollapsewatchError, DeliveryError, InvalidInputError, SettingsError
    from collapsewatch.handles import RunConfig, RunSummary
    from collapsewatch.opening import init
    from collapsewatch.training_run import Run

    __version__: str
    run: Run | None
    """The run that was opened last; None once it is finished."""
    config: RunConfig
    """Its hyperparameters."""
    summary: RunSummary
    """Its last values."""

__all__ = [
    "Alert",
    "CollapsewatchError",
    "CrossLogProbs",
    "DeliveryError",
    "InvalidInputError",
    "ReasoningTags",
    "Rollout",
    "Run",
    "ScorerConfig",
    "SettingsError",
    "Shard",
    "Turn",
    "__version__",
    "define_metric",
    "filters",
    "finish",
    "init",
    "log",
    "login",
    "scoring",
    "watch",
]

_MODULES = {
    "Alert": "alerts",
    "CollapsewatchError": "errors",
    "CrossLogProbs": "contracts.rollouts",
    "DeliveryError": "errors",
    "InvalidInputError": "errors",
    "ReasoningTags": "contracts.rollouts",
    "Rollout": "contracts.rollouts",
    "Run": "training_run",
    "ScorerConfig": "contracts.scoring",
    "SettingsError": "errors",
    "Shard": "contracts.rollouts",
    "Turn": "contracts.rollouts",
    "define_metric": "current",
    "finish": "current",
    "init": "opening",
    "log": "current",
    "login": "current",
    "watch": "current",
}
_OF_THE_RUN = {"config": "config", "run": "current_run", "summary": "summary"}
"""What changes with the run that is open, so that it is asked for each time."""
_ROOMS = ("filters", "scoring")
"""Modules that `import collapsewatch` alone makes reachable."""


if not TYPE_CHECKING:  # A type checker must not take this for a promise that any name exists.

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            value: object = version("collapsewatch")
        elif name in _OF_THE_RUN:
            from collapsewatch import current

            return getattr(current, _OF_THE_RUN[name])()
        elif name in _ROOMS:
            from importlib import import_module

            value = import_module(f"{__name__}.{name}")
        elif name in _MODULES:
            from importlib import import_module

            value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
