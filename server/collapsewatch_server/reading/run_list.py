"""The list of runs, put together from rows."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue
from sqlalchemy.orm import Session

from collapsewatch.contracts.metrics import BATCH_SCOPE, FIRST_TURN_SCOPE
from collapsewatch.contracts.runs import RunState
from collapsewatch_server.db import Database
from collapsewatch_server.reading.run_list_views import RunRow, RunRows, Sparklines
from collapsewatch_server.reading.views import OpenAlerts, RegimeView, Sparkline, iso
from collapsewatch_server.repositories import alerts, evaluations, metrics, run_list
from collapsewatch_server.repositories.evaluations import Standing
from collapsewatch_server.repositories.run_list import ListedRun

_SHOWN = ("retrieval_skill", "retrieval_accuracy", "retrieval_chance")
# The first scope counts that has a value, so a run without first turns shows its trajectories.
_LATEST = [
    *((FIRST_TURN_SCOPE, metric) for metric in _SHOWN),
    *(("trajectory", metric) for metric in _SHOWN),
    (BATCH_SCOPE, "reward"),
]
_MAX_KEYS = 300
_MAX_TEXT = 200
_DIGITS = 4


class RunListReading:
    """Reads the list, and changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def rows(
        self,
        project: str | None,
        *,
        archived: bool,
        run_ids: Sequence[str] = (),
        group_key: str | None = None,
        limit: int,
    ) -> RunRows:
        """Lines of the project's runs, or of all, newest first; only of the named ones when any are."""
        with self._database.read_session() as session:
            listed = run_list.page(session, project, archived=archived, run_ids=run_ids, limit=limit)
            num_active, num_archived = run_list.counts(session, project)
            with_keys = not run_ids
            configs = {}
            if with_keys or group_key is not None:
                flat = run_list.configs(session, [run.run_pk for run in listed])
                configs = {run_pk: dict(_flattened(config)) for run_pk, config in flat.items()}
            rows = _rows(session, listed, configs, group_key)
        keys = sorted({key for config in configs.values() for key in config}) if with_keys else []
        return RunRows(
            rows=rows, num_active=num_active, num_archived=num_archived, config_keys=keys[:_MAX_KEYS]
        )

    def sparklines(self, run_ids: Sequence[str], max_points: int) -> Sparklines:
        """Retrieval skill of first turns of these runs, as much of it as so few points can show."""
        with self._database.read_session() as session:
            id_of = run_list.pks(session, run_ids)
            found = run_list.sparklines(session, list(id_of), FIRST_TURN_SCOPE, "retrieval_skill", max_points)
        return Sparklines(
            sparklines={id_of[run_pk]: sparkline(points) for run_pk, points in found.items() if points}
        )


def sparkline(points: Sequence[tuple[int, float]]) -> Sparkline:
    """The points as the API answers them: a line a few dozen pixels high needs no more digits."""
    return Sparkline(
        steps=[step for step, _ in points], values=[round(value, _DIGITS) for _, value in points]
    )


def _rows(
    session: Session,
    listed: Sequence[ListedRun],
    configs: Mapping[int, Mapping[str, JsonValue]],
    group_key: str | None,
) -> list[RunRow]:
    run_pks = [run.run_pk for run in listed]
    if not run_pks:
        return []
    standings = evaluations.standings(session, run_pks)
    open_alerts = alerts.open_counts(session, run_pks)
    latest = metrics.latest(session, run_pks, _LATEST)
    return [
        RunRow(
            run_id=run.run_id,
            project=run.project,
            name=run.name,
            given_name=run.given_name,
            state=RunState(run.state),
            tags=run.tags,
            notes=run.notes,
            archived=run.archived_at is not None,
            created_at=iso(run.created_at),
            updated_at=iso(run.updated_at),
            last_seen_at=None if run.last_seen_at is None else iso(run.last_seen_at),
            last_step=run.last_step,
            regime=_regime(standings.get(run.run_pk)),
            open_alerts=OpenAlerts(**open_alerts[run.run_pk]),
            latest=latest[run.run_pk],
            group=None if group_key is None else configs[run.run_pk].get(group_key),
        )
        for run in listed
    ]


def _regime(standing: Standing | None) -> RegimeView | None:
    if standing is None or standing.regime is None:
        return None
    return RegimeView(
        scope=standing.scope, regime=standing.regime, reason=standing.reason or "", step=standing.step
    )


def _flattened(config: Mapping[str, JsonValue], prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """(key, value) of all that is a plain value, or a list of such; keys of inner tables after a dot."""
    for name, value in config.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _flattened(value, f"{key}.")
        elif isinstance(value, list):
            if not any(isinstance(one, dict | list) for one in value):
                yield key, ", ".join(str(one) for one in value)[:_MAX_TEXT]
        else:
            yield key, value[:_MAX_TEXT] if isinstance(value, str) else value
