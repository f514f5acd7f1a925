"""Which formats there are, and which of them a path is."""

from collections.abc import Callable
from pathlib import Path

from collapsewatch.importers.columns import ColumnsFormat
from collapsewatch.importers.files import refuse_pickle
from collapsewatch.importers.formats import Format
from collapsewatch.importers.nemo_rl import NemoRlFormat
from collapsewatch.importers.ragen import RagenFormat
from collapsewatch.importers.recorded import RecordedFormat
from collapsewatch.importers.skyrl import SkyrlFormat
from collapsewatch.importers.steps import ImportFailedError
from collapsewatch.importers.traces import TracesFormat
from collapsewatch.importers.trl import TrlFormat
from collapsewatch.importers.verl import VerlFormat

AUTO = "auto"
# The narrow ones first: many files have a prompt and a response.
_FORMATS: tuple[Callable[[], Format], ...] = (
    TrlFormat,
    NemoRlFormat,
    VerlFormat,
    SkyrlFormat,
    RagenFormat,
    TracesFormat,
    RecordedFormat,
    ColumnsFormat,
)
FORMAT_NAMES = tuple(make().name for make in _FORMATS)
"""What `--format` takes, beside `auto`."""


def chosen_format(name: str, path: Path, *, has_mapping: bool = False) -> Format:
    """A reader of its own for this import.

    Args:
        name: of a format, or `auto` for whichever the path looks like.
        has_mapping: columns were named, which speaks for a plain file where nothing narrower fits.

    Raises:
        ImportFailedError: no such path or format, a pickled file, or one that looks like nothing known.
    """
    if not path.exists():
        raise ImportFailedError(f"{path}: there is no such file or folder")
    if path.is_file():
        refuse_pickle(path)
    if name != AUTO:
        found = next((made for make in _FORMATS if (made := make()).name == name), None)
        if found is None:
            raise ImportFailedError(f"--format {name}: must be {AUTO} or one of {', '.join(FORMAT_NAMES)}")
        return found
    return detect(path, has_mapping=has_mapping)


def detect(path: Path, *, has_mapping: bool = False) -> Format:
    """The first format that claims the path.

    Raises:
        ImportFailedError: none does.
    """
    for make in _FORMATS:
        found = make()
        if found.claims(path):
            return found
    if has_mapping and ColumnsFormat().files_of(path):
        return ColumnsFormat()
    if path.is_dir():
        for file in sorted(path.iterdir()):
            refuse_pickle(file)
    looked_for = "\n".join(f"  {made.name}: {made.files}" for made in (make() for make in _FORMATS))
    raise ImportFailedError(
        f"{path}: looks like no known format; say --format, or name the columns by --map\n{looked_for}"
    )
