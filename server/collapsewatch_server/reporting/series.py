"""Whole series of runs, a part at a time, so that a long run costs no more memory than its longest series."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from collapsewatch_server.db import Database
from collapsewatch_server.errors import RunNotFound
from collapsewatch_server.repositories import columns, metrics, runs
from collapsewatch_server.repositories.columns import Columns


class Part(NamedTuple):
    """One series of one run."""

    run_id: str
    scope: str
    metric: str
    columns: Columns


class Wanted(NamedTuple):
    """Which values are taken away: of all scopes, metrics and steps where nothing else is said."""

    run_ids: Sequence[str]
    scope: str | None = None
    metrics: Sequence[str] = ()
    from_step: int = 0
    to_step: int | None = None


class SeriesExport:
    """Reads the runs' own series, every point of them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def parts(self, wanted: Wanted) -> Iterator[Part]:
        """The series of one run after the other, by scope and metric; empty ones are left out.

        Raises:
            RunNotFound: one of the runs is not there; before anything is handed out.
        """
        places = [place for run_id in wanted.run_ids for place in self._places(run_id, wanted)]
        return self._read(places, wanted)

    def _places(self, run_id: str, wanted: Wanted) -> list[tuple[int, str, str, str]]:
        with self._database.read_session() as session:
            found = runs.find(session, run_id)
            if found is None:
                raise RunNotFound(run_id)
            run_pk = found[0].id
            names = metrics.names(session, run_pk)
        return [
            (run_pk, run_id, scope, metric)
            for scope, of_scope in names.items()
            for metric in of_scope
            if wanted.scope in (None, scope) and (not wanted.metrics or metric in wanted.metrics)
        ]

    def _read(self, places: Sequence[tuple[int, str, str, str]], wanted: Wanted) -> Iterator[Part]:
        for run_pk, run_id, scope, metric in places:
            # A session each: whoever reads slowly holds no transaction open.
            with self._database.read_session() as session:
                found = columns.read(session, run_pk, scope, metric, wanted.from_step)
            if wanted.to_step is not None:
                found = found.part(0, int(np.searchsorted(found.steps, wanted.to_step, side="right")))
            if len(found.steps):
                yield Part(run_id, scope, metric, found)
