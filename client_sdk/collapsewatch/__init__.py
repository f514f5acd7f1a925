"""Live monitor for template collapse in RL training of language-model agents.

`init` opens a run, `Run.log_rollouts` hands over a step's rollouts. Names are loaded on first use, so that
importing the package costs a training script next to nothing.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collapsewatch.alerts import Alert
    from collapsewatch.contracts.rollouts import CrossLogProbs, ReasoningTags, Rollout, Shard, Turn
    from collapsewatch.contracts.scoring import ScorerConfig
    from collapsewatch.errors import CollapsewatchError, DeliveryError, InvalidInputError, SettingsError
    from collapsewatch.opening import init
    from collapsewatch.run import Run

    __version__: str

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
    "init",
]

_MODULES = {
    "Alert": "alerts",
    "CollapsewatchError": "errors",
    "CrossLogProbs": "contracts.rollouts",
    "DeliveryError": "errors",
    "InvalidInputError": "errors",
    "ReasoningTags": "contracts.rollouts",
    "Rollout": "contracts.rollouts",
    "Run": "run",
    "ScorerConfig": "contracts.scoring",
    "SettingsError": "errors",
    "Shard": "contracts.rollouts",
    "Turn": "contracts.rollouts",
    "init": "opening",
}


if not TYPE_CHECKING:  # A type checker must not take this for a promise that any name exists.

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from importlib.metadata import version

            value: object = version("collapsewatch")
        elif name in _MODULES:
            from importlib import import_module

            value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
