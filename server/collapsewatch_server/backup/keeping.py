"""Makes backups and restores them."""

import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from collapsewatch.blobs import BlobNotFound, BlobStore
from collapsewatch_server.backup import archive, tables
from collapsewatch_server.backup.archive import ArchiveWriter, Contents, Manifest
from collapsewatch_server.db import Database
from collapsewatch_server.migrations import stored_revision, upgrade_within

_BLOBS = "blobs/"

Progress = Callable[[str], None]
"""Is told what is being done, for people."""


class NotEmpty(ValueError):
    """A backup is restored into an empty database only."""


def back_up(
    database: Database, blobs: BlobStore | None, path: Path, progress: Progress = lambda words: None
) -> Contents:
    """What the new file at `path` holds: the rows as of one moment, and the blobs that they name.

    The service may go on meanwhile. Blobs never change; one that is deleted meanwhile is counted as missing.

    Args:
        blobs: None for a backup of the rows alone.

    Raises:
        ValueError: the database has no schema yet.
        FileExistsError: something lies at `path`.
        OSError: it cannot be written.
    """
    contents = Contents()
    keys: list[str] = []
    with database.engine.connect().execution_options(begin="BEGIN") as connection:
        _see_one_moment(connection)
        revision = stored_revision(connection)
        if revision is None:
            raise ValueError("the database is empty: there is nothing to back up")
        manifest = Manifest(version("collapsewatch"), revision, time.time(), has_blobs=blobs is not None)
        with ArchiveWriter(path, manifest) as writer:
            for part in tables.dump(connection):
                writer.add(part.name, part.data)
                contents.rows[part.table] = contents.rows.get(part.table, 0) + part.num_rows
                keys.extend(part.blob_keys)
            connection.rollback()
            progress(f"{sum(contents.rows.values())} rows of {len(contents.rows)} tables")
            if blobs is not None:
                _add_blobs(writer, blobs, keys, contents)
                progress(f"{contents.num_blobs} blobs, {contents.num_blob_bytes} bytes")
            writer.finish(contents)
    return contents


def restore(
    database: Database, blobs: BlobStore, path: Path, progress: Progress = lambda words: None
) -> Contents:
    """What was in the backup and now is in the database, all of it or nothing, and in the blob store.

    The file is read through and checked before anything is written. Rows of an earlier version get the schema
    of that version first, and are then brought to the newest like any other database.

    Raises:
        BadArchive: the file is no backup, is cut short, or was changed.
        UnknownSchema: a newer version of the program made it.
        NotEmpty: the database holds something already.
        OSError: it cannot be read, or blobs cannot be written.
    """
    contents = archive.check(path)
    manifest = archive.read_manifest(path)
    progress("the backup is whole")
    with database.engine.begin() as connection:
        _take_as_long_as_it_takes(connection)
        found = inspect(connection).get_table_names()
        if found:
            raise NotEmpty(
                f"the database holds {len(found)} tables already; restore into an empty one: "
                "another --home, or a new PostgreSQL database"
            )
        upgrade_within(connection, manifest.revision)
        tables.clear(connection)
        members = _first_the_rows(archive.members(path), blobs, progress)
        counts = tables.load(connection, members)
        rows = {name: number for name, number in counts.items() if number}
        if rows != contents.rows:
            raise archive.BadArchive(f"{path} promises other rows than it holds: {contents.rows}, {rows}")
        upgrade_within(connection, "head")
    return contents


def _first_the_rows(
    members: Iterator[tuple[str, bytes]], blobs: BlobStore, progress: Progress
) -> Iterator[tuple[str, bytes]]:
    """The members up to the first blob; that one and what follows are written to the store at the end."""
    for name, data in members:
        if not name.startswith(_BLOBS):
            yield name, data
            continue
        progress("rows are back; now the blobs")
        for key, content in chain([(name, data)], members):
            blobs.write(key.removeprefix(_BLOBS), content)
        return


def _add_blobs(writer: ArchiveWriter, blobs: BlobStore, keys: list[str], contents: Contents) -> None:
    for key in dict.fromkeys(keys):
        try:
            data = blobs.read(key)
        except BlobNotFound:
            contents.missing_blobs.append(key)
            continue
        writer.add(f"{_BLOBS}{key}", data)
        contents.num_blobs += 1
        contents.num_blob_bytes += len(data)


def _see_one_moment(connection: Connection) -> None:
    # SQLite's readers always do.
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))
        _take_as_long_as_it_takes(connection)


def _take_as_long_as_it_takes(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        for limit in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            connection.execute(text(f"SET LOCAL {limit} = 0"))
