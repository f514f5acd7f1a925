"""Removes the text of batches that a project does not keep any longer; their numbers stay."""

import logging
from collections.abc import Sequence

from collapsewatch.blobs import BlobStore
from collapsewatch_server.db import Database
from collapsewatch_server.repositories import spent_texts
from collapsewatch_server.repositories.spent_texts import Cursor, SpentText

log = logging.getLogger(__name__)

_BATCHES_AT_ONCE = 20
"""Their results may be some MiB each."""


class TextRetention:
    """Any number of servers may look; what one has removed another does not find."""

    def __init__(
        self, database: Database, blobs: BlobStore, *, batches_at_once: int = _BATCHES_AT_ONCE
    ) -> None:
        self._database = database
        self._blobs = blobs
        self._batches_at_once = batches_at_once

    def runs(self, project_id: int, days: float) -> list[int]:
        """Row ids of the project's runs that have text to be removed."""
        with self._database.read_session() as session:
            return spent_texts.runs_with_due(session, project_id, days)

    def remove_some(self, run_pk: int, days: float, *, after: Cursor) -> tuple[int, Cursor | None]:
        """How many batches of the run lost their text, and where to go on; none at the end.

        The blobs go before the rows that name them. Whoever is stopped in between leaves rows that name
        nothing, and the next look finds them; the other way round text would stay of which nobody knows.
        """
        with self._database.read_session() as session:
            found = spent_texts.due(session, run_pk, days, after=after, limit=self._batches_at_once)
        if not found:
            return 0, None
        gone = [batch.batch_pk for batch in found if self._remove_blobs(batch)]
        return self._forget(gone), Cursor(found[-1].created_at, found[-1].batch_pk)

    def _remove_blobs(self, batch: SpentText) -> bool:
        """Whether nothing of it is left in the store."""
        try:
            for key in filter(None, (batch.tokens_key, batch.blob_key)):
                self._blobs.delete(key)
        except OSError as error:
            # The others go all the same, and this one is tried again at the next look.
            log.error(
                "the text of a batch cannot be removed",
                extra={"batch": batch.batch_pk, "error": error.strerror or type(error).__name__},
            )
            return False
        return True

    def _forget(self, batch_pks: Sequence[int]) -> int:
        with self._database.read_session() as session:
            instead = spent_texts.text_in_rows(session, batch_pks)
        with self._database.write_session() as session:
            return spent_texts.remove(session, batch_pks, instead)
