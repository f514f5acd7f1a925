"""Rows of Parquet files, a few at a time, by pyarrow: the extra `import`, loaded on first use."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collapsewatch.importers.files import Reading, size_of
from collapsewatch.importers.steps import ImportFailedError, Place

SUFFIX = ".parquet"
_ROWS_AT_ONCE = 128


def column_names(path: Path) -> list[str]:
    """The columns of a Parquet file in their order; none when it is not one.

    Raises:
        ModuleNotFoundError: pyarrow is not installed.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        return [str(name) for name in parquet.read_schema(path).names]
    except (OSError, pyarrow.ArrowException):
        return []


def parquet_rows(path: Path, reading: Reading) -> Iterator[tuple[Place, dict[str, Any]]]:
    """The rows of a file with their places, numbered from 1.

    What cannot be read any more is counted and told.

    Raises:
        ImportFailedError: nothing of the file can be read.
        ModuleNotFoundError: pyarrow is not installed.
    """
    import pyarrow
    from pyarrow import parquet

    number = 0
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    yield Place(path, number), row
    except (OSError, pyarrow.ArrowException) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if number == 0:
            raise ImportFailedError(f"{path}: cannot be read: {reason}") from error
        reading.problems.skip(Place(path, number + 1), f"the rest cannot be read: {reason}", sort="damaged")
    reading.meter.num_done += size_of(path)
