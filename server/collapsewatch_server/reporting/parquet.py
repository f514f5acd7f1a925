"""Series as a Parquet table of one row per value."""

import tempfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from collapsewatch_server.reporting.series import Part

_CHUNK_BYTES = 1 << 20
_BYTES_IN_MEMORY = 16 << 20
_NAME = pa.dictionary(pa.int32(), pa.string())
_SCHEMA = pa.schema(
    [
        ("run_id", _NAME),
        ("scope", _NAME),
        ("metric", _NAME),
        pa.field("step", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        ("low", pa.float64()),
        ("high", pa.float64()),
    ]
)


def parquet_file(parts: Iterable[Part]) -> IO[bytes]:
    """The table as Parquet, in a file that goes away when it is closed; read it from where it stands."""
    file: Any = tempfile.SpooledTemporaryFile(max_size=_BYTES_IN_MEMORY)  # noqa: SIM115 (the reader closes it)
    try:
        with pq.ParquetWriter(file, _SCHEMA, compression="zstd") as writer:
            for part in parts:
                writer.write_table(_table(part))
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file  # type: ignore[no-any-return]


def _table(part: Part) -> pa.Table:
    num = len(part.columns.steps)
    positions = pa.array(np.zeros(num, np.int32))
    names = [
        pa.DictionaryArray.from_arrays(positions, pa.array([name]))
        for name in (part.run_id, part.scope, part.metric)
    ]
    limits = [
        pa.nulls(num, pa.float64()) if limit is None else pa.array(limit, from_pandas=True)
        for limit in (part.columns.low, part.columns.high)
    ]
    return pa.Table.from_arrays(
        [*names, pa.array(part.columns.steps), pa.array(part.columns.values), *limits], schema=_SCHEMA
    )


def chunks_of(file: IO[bytes]) -> Iterator[bytes]:
    """The file's bytes, piece by piece; closes it at the end."""
    with file:
        while piece := file.read(_CHUNK_BYTES):
            yield piece
