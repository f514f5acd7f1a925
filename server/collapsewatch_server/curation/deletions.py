"""Takes the rows and blobs of deleted runs away, in pieces that nobody has to wait for."""

import time

from sqlalchemy import Table

from collapsewatch.blobs import BlobStore
from collapsewatch_server.db import Database
from collapsewatch_server.repositories import run_purge

_LOOK_SECONDS = 2.0


class Deletions:
    """Any number of servers may look; what one has taken away another does not find."""

    def __init__(self, database: Database, blobs: BlobStore) -> None:
        self._database = database
        self._blobs = blobs

    def look(self) -> None:
        """Takes away what it can in a second or two; the rest waits for the next look."""
        until = time.monotonic() + _LOOK_SECONDS
        with self._database.read_session() as session:
            going = run_purge.deleted(session)
        for run_pk in going:
            for table in run_purge.tables_of_runs():
                while self._remove_blobs(table, run_pk) or self._remove_rows(table, run_pk):
                    if time.monotonic() > until:
                        return

    def _remove_blobs(self, table: Table, run_pk: int) -> bool:
        """Whether there were any. Blobs go before the rows that name them, or nobody would know of them."""
        with self._database.read_session() as session:
            blob_keys = run_purge.some_blobs(session, table, run_pk)
        if not blob_keys:
            return False
        for blob_key in blob_keys:
            self._blobs.delete(blob_key)
        with self._database.write_session() as session:
            run_purge.forget_blobs(session, table, run_pk, blob_keys)
        return True

    def _remove_rows(self, table: Table, run_pk: int) -> bool:
        """Whether there were any that could go."""
        with self._database.read_session() as session:
            if not run_purge.any_left(session, table, run_pk):
                return False
        with self._database.write_session() as session:
            run_purge.remove_some(session, table, run_pk)
        return True
