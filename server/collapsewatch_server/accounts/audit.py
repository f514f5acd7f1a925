"""Who did what, when, from where."""

import logging
from collections.abc import Mapping
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from collapsewatch_server.access.roles import Identity
from collapsewatch_server.db import Database
from collapsewatch_server.repositories import audit, runs

log = logging.getLogger(__name__)

_MAX_TARGET_CHARS = 500


class Audit:
    """Writes the log. What cannot be written there is written to the server's own log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def note_call(
        self, path: Mapping[str, Any], action: str, caller: Identity, address: str, outcome: str
    ) -> None:
        """Notes a request that changed something, or was refused.

        Args:
            path: parameters of the route, which say what it was about.
            outcome: `done`, or the code of the error.
        """
        target = ", ".join(f"{name} {value}" for name, value in path.items())
        self.note(action, actor=caller.name, target=target, address=address, outcome=outcome, path=path)

    def note(
        self,
        action: str,
        *,
        actor: str,
        target: str = "",
        address: str = "",
        outcome: str = "done",
        path: Mapping[str, Any] | None = None,
    ) -> None:
        """Notes something that somebody did."""
        run_id = None if path is None else path.get("run_id")
        try:
            with self._database.write_session() as session:
                audit.add(
                    session,
                    actor=actor,
                    action=action,
                    target=target[:_MAX_TARGET_CHARS],
                    project_id=None if run_id is None else runs.project_of(session, str(run_id)),
                    address=address,
                    outcome=outcome,
                )
        except SQLAlchemyError as error:
            log.error(
                "the audit log could not be written",
                extra={
                    "actor": actor,
                    "action": action,
                    "target": target,
                    "outcome": outcome,
                    "error": type(error).__name__,
                },
            )
