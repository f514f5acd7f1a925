"""Where people set up channels, try them and see what was sent."""

import json
import logging
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import SecretStr
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from collapsewatch_server.access.naming import check_named
from collapsewatch_server.access.visible import sees_everything
from collapsewatch_server.channel_tables import Channel, Delivery
from collapsewatch_server.db import Database
from collapsewatch_server.errors import ChannelConflict, ChannelNotFound, ChannelRefused, TooBusy
from collapsewatch_server.notify import apprise_sender, apprise_urls, signing, webhook
from collapsewatch_server.notify.guard import OutgoingGuard, Refused, Unreachable
from collapsewatch_server.notify.messages import test_message
from collapsewatch_server.notify.sending import Sender
from collapsewatch_server.notify.vault import Unsealable, Vault
from collapsewatch_server.notify.views import (
    ChannelDraft,
    ChannelList,
    ChannelReceipt,
    ChannelUpdate,
    ChannelView,
    DeliveryList,
    DeliveryView,
)
from collapsewatch_server.reading.views import iso
from collapsewatch_server.repositories import channels, clock, deliveries, runs
from collapsewatch_server.repositories.deliveries import Tally

log = logging.getLogger(__name__)

_MOST_CHANNELS = 100
_MOST_TESTS_AT_ONCE = 4
_SECRET_CHARS = (16, 200)
_PLAIN = ("name", "project", "min_severity", "changes", "digest_after", "window_seconds", "enabled")


class ChannelDesk:
    """Makes, changes, tries and removes channels."""

    def __init__(self, database: Database, guard: OutgoingGuard, vault: Vault, sender: Sender) -> None:
        self._database = database
        self._guard = guard
        self._vault = vault
        self._sender = sender
        self._tests = threading.BoundedSemaphore(_MOST_TESTS_AT_ONCE)

    def all(self) -> ChannelList:
        """Every channel, by name."""
        with self._database.read_session() as session:
            tallies = deliveries.tallies(session)
            rows = channels.all_rows(session)
        return ChannelList(channels=[_view(row, tallies.get(row.id, Tally())) for row in rows])

    def one(self, channel_id: int) -> ChannelView:
        """The channel.

        Raises:
            ChannelNotFound: there is none of that id.
        """
        with self._database.read_session() as session:
            return self._one(session, channel_id)

    def create(self, draft: ChannelDraft) -> ChannelReceipt:
        """The new channel, with its secret if one was made up.

        Raises:
            ChannelRefused: it may not have this address.
            ChannelConflict: there is one of that name.
            Forbidden, ProjectNotFound: the caller may not decide who is told of the project, or of all.
        """
        url = draft.url.get_secret_value().strip()
        self._check(draft.kind, url)
        secret, shown = self._secret_for(draft.kind, draft.secret, is_new=True)
        values = {name: getattr(draft, name) for name in _PLAIN}
        sealed = self._seal(url, secret)
        with _one_of_a_name(draft.name), self._database.write_session() as session:
            check_named(session, project=draft.project)
            _check_name(session, draft.name, None)
            if channels.count(session) >= _MOST_CHANNELS:
                raise ChannelConflict(f"there are {_MOST_CHANNELS} channels already")
            target = _masked(draft.kind, url)
            row = channels.add(session, kind=draft.kind, sealed=sealed, target=target, **values)
            view = self._one(session, row.id)
        log.info("channel made", extra={"channel": view.channel_id, "kind": view.kind})
        return ChannelReceipt(channel=view, secret=shown)

    def update(self, channel_id: int, update: ChannelUpdate) -> ChannelReceipt:
        """The channel as it is now, with its secret if a new one was made up.

        Raises:
            ChannelNotFound: there is none of that id.
            ChannelRefused: it may not have this address, or its old one cannot be read any more.
            ChannelConflict: there is another one of that name.
            Forbidden, ProjectNotFound: the caller may not decide who is told of the project, or of all.
        """
        kind = self.one(channel_id).kind
        url = update.url.get_secret_value().strip() if update.url is not None else None
        if url is not None:
            self._check(kind, url)
        secret, shown = self._secret_for(kind, update.secret, is_new=update.new_secret)
        values: dict[str, Any] = {
            name: getattr(update, name) for name in _PLAIN if getattr(update, name) is not None
        }
        if update.all_projects:
            values["project"] = None
        with _one_of_a_name(update.name), self._database.write_session() as session:
            if not channels.lock(session, channel_id):
                raise ChannelNotFound(channel_id)
            if "project" in values:
                check_named(session, project=values["project"])
            if update.name is not None:
                _check_name(session, update.name, channel_id)
            if url is not None or secret is not None:
                values |= self._resealed(session, channel_id, url, secret)
            if update.enabled is False:
                deliveries.forget_waiting(session, channel_id)
                # Why it failed no longer matters, and nobody is to be warned of it.
                values |= {"failed_at": None, "problem": ""}
            channels.change(session, channel_id, **values)
            session.expire_all()
            view = self._one(session, channel_id)
        log.info("channel changed", extra={"channel": channel_id})
        return ChannelReceipt(channel=view, secret=shown)

    def remove(self, channel_id: int) -> None:
        """Removes the channel, what waits for it, and its history.

        Raises:
            ChannelNotFound: there is none of that id.
        """
        with self._database.write_session() as session:
            if not channels.lock(session, channel_id):
                raise ChannelNotFound(channel_id)
            channels.remove(session, channel_id)
        log.info("channel removed", extra={"channel": channel_id})

    def test(self, channel_id: int) -> DeliveryView:
        """What became of one attempt to send a test message, which is made now and not repeated.

        Raises:
            ChannelNotFound: there is none of that id.
            TooBusy: too many are being tried.
        """
        with self._database.read_session() as session:
            channel = _found(session, channel_id)
            moment = clock.read(session)
        if not self._tests.acquire(blocking=False):
            raise TooBusy(f"{_MOST_TESTS_AT_ONCE} tests are under way", retry_after_seconds=10)
        try:
            delivery = Delivery(delivery_id=secrets.token_hex(16), message=test_message(), created_at=moment)
            outcome = self._sender.attempt(channel, delivery)
        finally:
            self._tests.release()
        with self._database.write_session() as session:
            if not channels.lock(session, channel_id):
                raise ChannelNotFound(channel_id)
            kept = deliveries.add(
                session,
                channel_id,
                [],
                delivery_id=delivery.delivery_id,
                kind="test",
                status="sent" if outcome.is_sent else "failed",
                message=delivery.message,
                attempts=1,
                answer=outcome.answer,
                status_code=outcome.status_code,
            )
            if outcome.is_sent:
                channels.note_success(session, channel_id)
        return _delivery_view(kept)

    def deliveries(self, channel_id: int, before: int | None, limit: int) -> DeliveryList:
        """What was sent to the channel, newest first.

        Raises:
            ChannelNotFound: there is none of that id.
        """
        with self._database.read_session() as session:
            _found(session, channel_id)
            rows = deliveries.of_channel(session, channel_id, before, limit + 1)
            # It may have told of other projects before it was for one alone.
            projects = None if sees_everything() else runs.project_names(session)
        shown = rows[:limit]
        older = shown[-1].id if len(rows) > limit else None
        return DeliveryList(deliveries=[_delivery_view(row, projects) for row in shown], next_before=older)

    def _one(self, session: Session, channel_id: int) -> ChannelView:
        row = _found(session, channel_id)
        return _view(row, deliveries.tallies(session).get(channel_id, Tally()))

    def _check(self, kind: str, url: str) -> None:
        check = webhook.check_url if kind == "webhook" else apprise_sender.check_url
        try:
            check(url, self._guard)
        except (ValueError, Refused, Unreachable) as error:
            raise ChannelRefused(str(error)) from None

    def _secret_for(
        self, kind: str, given: SecretStr | None, *, is_new: bool
    ) -> tuple[str | None, str | None]:
        """(the secret to store, the one to show); none when it stays as it is or there is none."""
        if kind != "webhook":
            if given is not None:
                raise ChannelRefused("only a webhook has a secret; Apprise's is in its URL")
            return None, None
        if given is not None:
            secret = given.get_secret_value()
            shortest, longest = _SECRET_CHARS
            if not shortest <= len(secret) <= longest or not (secret.isascii() and secret.isprintable()):
                raise ChannelRefused(f"a secret has {shortest} to {longest} printable ASCII characters")
            return secret, None
        made = signing.new_secret() if is_new else None
        return made, made

    def _seal(self, url: str, secret: str | None) -> str:
        try:
            return self._vault.seal({"url": url, "secret": secret or ""})
        except OSError as error:
            raise ChannelRefused(f"the key file cannot be used: {error.strerror}") from error
        except Unsealable as error:
            raise ChannelRefused(f"its secret cannot be stored: {error}") from error

    def _resealed(
        self, session: Session, channel_id: int, url: str | None, secret: str | None
    ) -> dict[str, Any]:
        row = _found(session, channel_id)
        old = {"url": "", "secret": ""}
        if url is None or (row.kind == "webhook" and secret is None):
            try:
                old = self._vault.open(row.sealed)
            except Unsealable:
                raise ChannelRefused(
                    "its old address cannot be read with this key; give address and secret anew"
                ) from None
        address = url or old["url"]
        sealed = self._seal(address, secret or old["secret"])
        return {"sealed": sealed, "target": _masked(row.kind, address)}


def _found(session: Session, channel_id: int) -> Channel:
    row = channels.find(session, channel_id)
    if row is None:
        raise ChannelNotFound(channel_id)
    return row


def _check_name(session: Session, name: str, channel_id: int | None) -> None:
    if channels.named(session, name) not in (None, channel_id):
        raise _taken(name)


@contextmanager
def _one_of_a_name(name: str | None) -> Iterator[None]:
    """Of two requests that come together, the second finds the name taken only when it is written."""
    try:
        yield
    except IntegrityError as error:
        raise _taken(name) from error


def _taken(name: str | None) -> ChannelConflict:
    return ChannelConflict(f"there is a channel {json.dumps(name, ensure_ascii=False)} already")


def _masked(kind: str, url: str) -> str:
    return webhook.masked(url) if kind == "webhook" else apprise_urls.masked(url)


def _view(row: Channel, tally: Tally) -> ChannelView:
    return ChannelView.model_validate(
        {
            "channel_id": row.id,
            "kind": row.kind,
            "target": row.target,
            **{name: getattr(row, name) for name in _PLAIN},
            "num_waiting": tally.num_waiting,
            "last_sent_at": _iso(tally.last_sent_at),
            "failed_at": _iso(row.failed_at),
            "problem": row.problem,
            "created_at": iso(row.created_at),
            "updated_at": iso(row.updated_at),
        }
    )


def _delivery_view(row: Delivery, projects: set[str] | None = None) -> DeliveryView:
    """The message, as far as it tells of these projects; all of it when none are named."""
    changes = [one for one in row.message["changes"] if projects is None or one["project"] in projects]
    return DeliveryView.model_validate(
        {
            "delivery_id": row.delivery_id,
            "kind": row.kind,
            "status": row.status,
            "num_changes": row.num_changes,
            "attempts": row.attempts,
            "status_code": row.status_code,
            "answer": row.answer,
            "created_at": iso(row.created_at),
            "next_at": _iso(row.next_at),
            "finished_at": _iso(row.finished_at),
            "changes": changes,
        }
    )


def _iso(moment: float | None) -> str | None:
    return None if moment is None else iso(moment)
