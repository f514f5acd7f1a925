"""What parameters of routes name, as words for the audit log, and the projects that it belongs to."""

from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from collapsewatch_server.account_tables import Account, Invitation
from collapsewatch_server.alert_tables import AlertRow, AlertRule
from collapsewatch_server.channel_tables import Channel
from collapsewatch_server.share_tables import Share, ShareRun
from collapsewatch_server.tables import ApiKey, Project, Run

_LARGEST_ID = 2**63 - 1
_SHOWN_CHARS = 120


class Place(NamedTuple):
    """A parameter of a route, such as `run_id`, and what was given for it."""

    kind: str
    value: str

    @property
    def words(self) -> str:
        """What is said of it when nothing is known of it."""
        return f"{self.kind.removesuffix('_id')} {self.value[:_SHOWN_CHARS]}"


class Named(NamedTuple):
    """What a parameter names."""

    words: str
    project_ids: frozenset[int] = frozenset()


def named(session: Session, place: Place) -> Named:
    """What the parameter names; the parameter itself where there is no such thing."""
    find = _FINDERS.get(place.kind)
    if find is None:
        return Named(place.words)
    return find(session, place.value) or Named(place.words)


def _run(session: Session, run_id: str) -> Named | None:
    row = session.execute(select(Run.name, Run.project_id).where(Run.run_id == run_id)).first()
    return None if row is None else Named(f"run {row[0]!r} ({run_id})", frozenset({row[1]}))


def _project(session: Session, project_id: int) -> Named | None:
    name = session.scalar(select(Project.name).where(Project.id == project_id))
    return None if name is None else Named(f"project {name!r}", frozenset({project_id}))


def _project_name(session: Session, name: str) -> Named | None:
    project_id = session.scalar(select(Project.id).where(Project.name == name))
    return None if project_id is None else Named(f"project {name!r}", frozenset({project_id}))


def _alert(session: Session, alert_id: int) -> Named | None:
    statement = (
        select(AlertRow.title, Run.name, Run.project_id)
        .outerjoin(Run, Run.id == AlertRow.run_pk)
        .where(AlertRow.id == alert_id)
    )
    row = session.execute(statement).first()
    if row is None:
        return None
    title, run, project_id = row
    words = f"alert {alert_id} {title!r}" + ("" if run is None else f" of run {run!r}")
    return Named(words, _ids(project_id))


def _rule(session: Session, rule_id: int) -> Named | None:
    row = session.execute(
        select(AlertRule.name, AlertRule.project, AlertRule.run_id).where(AlertRule.id == rule_id)
    ).first()
    if row is None:
        return None
    name, project, run_id = row
    found = _project_name(session, project) if project else _run(session, run_id) if run_id else None
    return Named(f"rule {rule_id} {name!r}", frozenset() if found is None else found.project_ids)


def _channel(session: Session, channel_id: int) -> Named | None:
    row = session.execute(select(Channel.name, Channel.project).where(Channel.id == channel_id)).first()
    if row is None:
        return None
    found = _project_name(session, row[1]) if row[1] else None
    return Named(f"channel {channel_id} {row[0]!r}", frozenset() if found is None else found.project_ids)


def _share(session: Session, share_id: int) -> Named | None:
    title = session.scalar(select(Share.title).where(Share.id == share_id))
    if title is None:
        return None
    shown = select(Run.project_id).join(ShareRun, ShareRun.run_pk == Run.id)
    projects = session.scalars(shown.where(ShareRun.share_pk == share_id).distinct())
    return Named(f"link {share_id} {title!r}", frozenset(projects))


def _key(session: Session, key_id: int) -> Named | None:
    row = session.execute(
        select(ApiKey.purpose, ApiKey.label, ApiKey.project_id).where(ApiKey.id == key_id)
    ).first()
    return None if row is None else Named(f"{row[0]} key {key_id} {row[1]!r}", _ids(row[2]))


def _account(session: Session, account_id: int) -> Named | None:
    name = session.scalar(select(Account.name).where(Account.id == account_id))
    return None if name is None else Named(f"account {name!r}")


def _invitation(session: Session, invitation_id: int) -> Named | None:
    row = session.execute(
        select(Invitation.label, Invitation.project_id).where(Invitation.id == invitation_id)
    ).first()
    return None if row is None else Named(f"invitation {invitation_id} {row[0]!r}", _ids(row[1]))


def _ids(project_id: int | None) -> frozenset[int]:
    return frozenset() if project_id is None else frozenset({project_id})


def _by_id(find: Callable[[Session, int], Named | None]) -> Callable[[Session, str], Named | None]:
    def look_up(session: Session, value: str) -> Named | None:
        # Longer than any id that a database can hold, and no number, is nobody's.
        is_id = value.isascii() and value.isdecimal() and int(value[:20]) <= _LARGEST_ID
        return find(session, int(value)) if is_id and len(value) <= 20 else None

    return look_up


_FINDERS: dict[str, Callable[[Session, Any], Named | None]] = {
    "run_id": _run,
    "project": _project_name,
    "project_id": _by_id(_project),
    "alert_id": _by_id(_alert),
    "rule_id": _by_id(_rule),
    "channel_id": _by_id(_channel),
    "share_id": _by_id(_share),
    "key_id": _by_id(_key),
    "account_id": _by_id(_account),
    "invitation_id": _by_id(_invitation),
}
