"""`run.config` and `run.summary`: mappings whose entries are attributes as well."""

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

from pydantic import JsonValue

from collapsewatch.plain import json_config


class _Handle(MutableMapping[str, Any]):
    """A mapping that tells of what is set in it."""

    def __init__(self, values: Mapping[str, Any], tell: Callable[[dict[str, Any]], None]) -> None:
        # Past our own `__setattr__`, which sets entries.
        vars(self).update(_values=dict(values), _tell=tell)

    def __getitem__(self, name: str) -> Any:
        return vars(self)["_values"][name]

    def __setitem__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __delitem__(self, name: str) -> None:
        del vars(self)["_values"][name]

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self)["_values"])

    def __len__(self) -> int:
        return len(vars(self)["_values"])

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(self)["_values"][name]
        except KeyError:
            raise AttributeError(f"no entry {name!r}; there are {', '.join(self) or 'none'}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self.update({name: value})

    def __repr__(self) -> str:
        return repr(vars(self)["_values"])


class RunConfig(_Handle):
    """The run's hyperparameters; what is set after `init` is sent as well."""

    def update(self, given: Any = (), /, allow_val_change: bool | None = None, **more: Any) -> None:
        """Sets entries: of a mapping, a namespace, a dataclass or a pydantic model, and those named.

        Args:
            allow_val_change: taken for the sake of calls that name it; every value may change.
        """
        entries = dict(vars(given)) if isinstance(given, Namespace) else given
        values = {} if entries == () else entries
        read = dict(values) if isinstance(values, Mapping) else _config_of(values)
        read |= more
        vars(self)["_values"].update(read)
        vars(self)["_tell"](read)

    def as_dict(self) -> dict[str, Any]:
        """All entries."""
        return dict(vars(self)["_values"])


class RunSummary(_Handle):
    """The last value of every metric; a number that is set is logged under its name."""

    def update(self, given: Any = (), /, **more: Any) -> None:
        """Sets entries."""
        values = {**dict(given), **more}
        vars(self)["_values"].update(values)
        vars(self)["_tell"](values)

    def note(self, values: Mapping[str, Any]) -> None:
        """Takes over what was logged."""
        vars(self)["_values"].update(values)


def _config_of(given: object) -> dict[str, JsonValue]:
    return json_config(given)
