"""Who did what, when, from where: the log is written here."""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from collapsewatch_server.db import Database
from collapsewatch_server.repositories import audit, audit_subjects
from collapsewatch_server.repositories.audit_subjects import Place

log = logging.getLogger(__name__)

AT_THE_MACHINE = "operator at the machine"
"""Who runs a command of the server's own host."""
BY_ITSELF = "collapsewatch"
"""Who does what nobody asked for at that moment, such as removing what is too old."""
_MAX_CHARS = {"actor": 200, "target": 500, "address": 100}


@dataclass
class Subject:
    """What an action is about: found by the parameters of the route, and completed by the route itself."""

    words: list[str] = field(default_factory=list)
    """For people, joined by commas."""
    project_ids: set[int] = field(default_factory=set)
    """Projects that it concerns: the log gets an entry for each, so that the admins of each read of it."""
    places: list[Place] = field(default_factory=list)
    """Runs, alerts and projects by the names that clients give them; looked up when the entry is written."""

    @property
    def text(self) -> str:
        """What the entry says."""
        return ", ".join(word for word in self.words if word)


class Audit:
    """Writes the log. What cannot be written there is written to the server's own log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def subject_of(self, path: Mapping[str, Any]) -> Subject:
        """What the parameters of a route name, as it is called now: what is deleted has no name later."""
        subject = Subject()
        places = [Place(kind, str(value)) for kind, value in path.items()]
        try:
            with self._database.read_session() as session:
                for place in places:
                    found = audit_subjects.named(session, place)
                    subject.words.append(found.words)
                    subject.project_ids |= found.project_ids
        except (SQLAlchemyError, ValueError):
            # Such as a zero byte within an id: the route will refuse it, and what was tried is noted.
            subject.words = [place.words for place in places]
        return subject

    def note_subject(self, subject: Subject, action: str, *, actor: str, address: str, outcome: str) -> None:
        """Notes a request that changed something, or was refused.

        Args:
            outcome: `done`, or the code of the error.
        """
        self._note(subject, action=action, actor=actor, address=address, outcome=outcome)

    def note(
        self,
        action: str,
        *,
        actor: str = AT_THE_MACHINE,
        target: str = "",
        project_id: int | None = None,
        address: str = "",
        outcome: str = "done",
    ) -> None:
        """Notes something that somebody did."""
        subject = Subject(words=[target], project_ids=set() if project_id is None else {project_id})
        self._note(subject, action=action, actor=actor, address=address, outcome=outcome)

    def _note(self, subject: Subject, **said: str) -> None:
        values = {name: _storable(value, _MAX_CHARS.get(name)) for name, value in said.items()}
        values["target"] = _storable(subject.text, _MAX_CHARS["target"])
        try:
            project_ids = self._projects_of(subject)
            with self._database.write_session() as session:
                for project_id in project_ids:
                    audit.add(session, project_id=project_id, **values)
        except SQLAlchemyError as error:
            log.error("the audit log could not be written", extra={**values, "error": type(error).__name__})

    def _projects_of(self, subject: Subject) -> Iterable[int | None]:
        found = set(subject.project_ids)
        if subject.places:
            # Many alerts may be handled at once, and on SQLite every write waits for every other.
            with self._database.read_session() as session:
                for place in subject.places:
                    found |= audit_subjects.named(session, place).project_ids
        return sorted(found) or [None]


def _storable(text: str, max_chars: int | None) -> str:
    # PostgreSQL's text holds neither zero bytes nor halves of characters.
    clean = text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
    if max_chars is None or len(clean) <= max_chars:
        return clean
    return clean[: max_chars - 1] + "…"
