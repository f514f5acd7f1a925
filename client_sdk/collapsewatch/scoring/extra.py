"""Says which extra is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

_MODULES = ("numpy", "peft", "regex", "safetensors", "torch", "transformers")


@contextmanager
def needs_extra(doing: str) -> Iterator[None]:
    """A context that says how to install what a lazy import inside it does not find.

    Raises:
        ModuleNotFoundError: a module of the extra is not installed; any other keeps its own words.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _MODULES or find_spec(missing) is not None:
            raise
        raise ModuleNotFoundError(
            f"{doing} needs {missing}: pip install 'collapsewatch[scoring]'", name=error.name
        ) from None
