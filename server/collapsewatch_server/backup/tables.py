"""Rows of every table as JSON lines that either database can take back.

The tables are read from the database and not from this program, so a backup can be made before an upgrade,
and one of an earlier version can be restored.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import zstandard
from sqlalchemy import JSON, Column, Connection, MetaData, Table, Text, bindparam, cast, func, select, text

_NOT_DUMPED = {"alembic_version", "login_sessions"}
"""Whoever restores signs in anew: a session that somebody ended meanwhile must not come to life again."""
_ROWS_PER_PART = 20_000
_BYTES_PER_PART = 16 << 20
_MOST_PART_BYTES = 1 << 30
_NAME = re.compile(r"tables/(?P<table>[a-z_]+)/\d+\.zst")
BLOB_KEY_COLUMNS = frozenset({"blob_key", "snapshot_key"})
"""Columns of these names hold keys of blobs, in whatever table."""


@dataclass(frozen=True)
class Part:
    """Some rows of one table."""

    table: str
    name: str
    """Of the member in the archive."""
    data: bytes
    num_rows: int
    blob_keys: tuple[str, ...]


def tables_of(connection: Connection) -> list[Table]:
    """The tables of the database; what others refer to comes before them."""
    metadata = MetaData(info={"is_sqlite": connection.dialect.name == "sqlite"})
    metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name not in _NOT_DUMPED]


def dump(connection: Connection) -> Iterator[Part]:
    """All rows, as the transaction of the connection sees them."""
    for table in tables_of(connection):
        yield from _parts(connection, table)


def load(connection: Connection, parts: Iterator[tuple[str, bytes]]) -> dict[str, int]:
    """Number of rows by table, after they were added to the tables, which must be empty.

    Args:
        parts: Names and contents of members, in the order of `dump`.

    Raises:
        ValueError: a part does not fit the tables.
    """
    tables = {table.name: table for table in tables_of(connection)}
    counts = dict.fromkeys(tables, 0)
    for name, data in parts:
        match = _NAME.fullmatch(name)
        if match is None or match["table"] not in tables:
            raise ValueError(f"the backup has rows of a table that this schema does not have: {name!r}")
        table = tables[match["table"]]
        counts[table.name] += _insert(connection, table, data)
    if connection.dialect.name == "postgresql":
        for table in tables.values():
            _count_on(connection, table)
    return counts


def clear(connection: Connection) -> None:
    """Removes the rows that migrations have put into a new database."""
    for table in reversed(tables_of(connection)):
        connection.execute(table.delete())


def _parts(connection: Connection, table: Table) -> Iterator[Part]:
    columns = list(table.columns)
    key = next((place for place, column in enumerate(columns) if column.name in BLOB_KEY_COLUMNS), None)
    head = json.dumps([column.name for column in columns]).encode()
    query = select(*(_read(column) for column in columns)).order_by(*table.primary_key.columns)
    rows = connection.execution_options(stream_results=True, yield_per=1000).execute(query)
    lines, num_bytes, num_parts = [head], 0, 0
    keys: list[str] = []

    def part() -> Part:
        data = zstandard.ZstdCompressor(level=3, write_checksum=True).compress(b"\n".join(lines))
        name = f"tables/{table.name}/{num_parts:06d}.zst"
        return Part(table.name, name, data, len(lines) - 1, tuple(keys))

    for row in rows:
        line = json.dumps(list(row), separators=(",", ":")).encode()
        lines.append(line)
        num_bytes += len(line)
        # Empty once the blob was removed on purpose.
        if key is not None and row[key]:
            keys.append(row[key])
        if len(lines) > _ROWS_PER_PART or num_bytes > _BYTES_PER_PART:
            yield part()
            lines, num_bytes, keys, num_parts = [head], 0, [], num_parts + 1
    if len(lines) > 1:
        yield part()


def _insert(connection: Connection, table: Table, data: bytes) -> int:
    content = zstandard.ZstdDecompressor().decompress(data, max_output_size=_MOST_PART_BYTES)
    head, *lines = content.split(b"\n")
    names = json.loads(head)
    unknown = [name for name in names if name not in table.columns]
    if unknown:
        raise ValueError(f"the table {table.name!r} has no column {unknown[0]!r}")
    statement = table.insert().values({name: _written(table.columns[name]) for name in names})
    rows = [
        {f"v_{name}": value for name, value in zip(names, json.loads(line), strict=True)} for line in lines
    ]
    if rows:
        connection.execute(statement, rows)
    return len(rows)


def _read(column: Column[Any]) -> Any:
    # JSON stays the text that it is: decoded, the database's null and JSON's null would be one.
    return cast(column, Text).label(column.name) if isinstance(column.type, JSON) else column


def _written(column: Column[Any]) -> Any:
    if not isinstance(column.type, JSON):
        return bindparam(f"v_{column.name}", type_=column.type)
    value: Any = bindparam(f"v_{column.name}", type_=Text())
    # SQLite keeps JSON as text; a cast to a type that it does not know would make numbers of it.
    return value if column.table.metadata.info.get("is_sqlite") else cast(value, column.type)


def _count_on(connection: Connection, table: Table) -> None:
    # What counts the ids has not seen those that came with the rows.
    for column in table.primary_key.columns:
        sequence = connection.scalar(
            text("SELECT pg_get_serial_sequence(:table, :column)"),
            {"table": table.name, "column": column.name},
        )
        newest = connection.scalar(select(func.max(column))) if sequence else None
        if newest is not None:
            connection.execute(text("SELECT setval(:name, :value)"), {"name": sequence, "value": newest})
