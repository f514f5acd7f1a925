"""Tells the channels what became of alerts: plans, sends, and tries again until it is sent or given up.

All that is to be sent lies in the database before it is sent. A server that dies between a receiver's answer
and the note of it leads to one repetition, with the same delivery id; nothing else is sent twice.
"""

import logging
import random
import secrets
import threading
import time
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from collapsewatch_server.alerts.transitions import RANK
from collapsewatch_server.alerts.watch import CHANNEL_RULE, channel_scope
from collapsewatch_server.channel_tables import Channel, Delivery
from collapsewatch_server.db import Database
from collapsewatch_server.notify.messages import message_of
from collapsewatch_server.notify.outcome import Outcome
from collapsewatch_server.notify.pacing import Retries, next_message
from collapsewatch_server.notify.sending import Sender
from collapsewatch_server.repositories import channels, clock, deliveries
from collapsewatch_server.repositories.deliveries import ChangeFacts

log = logging.getLogger(__name__)

# Longer than any attempt takes, so that no other server begins it a second time.
_LEASE_SECONDS = 60.0
_MOST_CHANNELS_AT_ONCE = 8
_CLOSE_SECONDS = 5.0
_KEPT_SECONDS = 30 * 86_400.0
_FORGET_EVERY_SECONDS = 3600.0


class _Step(NamedTuple):
    """What to send next; nothing when there is no delivery."""

    channel: Channel
    delivery: Delivery


class Notifier:
    """Any number of servers may look; a lease makes sure that one at a time sends to a channel."""

    def __init__(
        self,
        database: Database,
        sender: Sender,
        *,
        public_url: str | None = None,
        retries: Retries | None = None,
    ) -> None:
        """The service.

        Args:
            sender: how one attempt is made.
            public_url: where people reach the page, for links.
            retries: how often a message is tried.
        """
        self._database = database
        self._sender = sender
        self._public_url = public_url
        self._retries = retries or Retries()
        self._owner = secrets.token_hex(8)
        self._generator = random.Random()
        self._stopping = threading.Event()
        self._guard = threading.Condition()
        self._busy: set[int] = set()
        self._forgot_at = time.monotonic()

    def look(self) -> None:
        """Plans what is new and begins to send what is due; does not wait until it is sent."""
        with self._database.read_session() as session:
            is_new = deliveries.any_unplanned(session)
        while is_new and not self._stopping.is_set():
            is_new = self._plan() > 0
        with self._database.read_session() as session:
            found = deliveries.channels_with_work(session)
        for channel_id in found:
            self._begin(channel_id)
        if time.monotonic() - self._forgot_at > _FORGET_EVERY_SECONDS:
            self._forgot_at = time.monotonic()
            with self._database.write_session() as session:
                deliveries.forget(session, _KEPT_SECONDS)

    def close(self) -> None:
        """Waits a little for what is being sent; what is not sent then is sent after the next start."""
        self._stopping.set()
        with self._guard:
            self._guard.wait_for(lambda: not self._busy, _CLOSE_SECONDS)

    def _plan(self) -> int:
        """Number of changes for which it is decided now who is told of them."""
        with self._database.write_session() as session:
            found = deliveries.take_unplanned(session)
            if found:
                rows = channels.kept_rows(session)
                pairs = [(row.id, one.change.id) for one in found for row in rows if wants(row, one)]
                deliveries.plan(session, [one.change.id for one in found], pairs)
        return len(found)

    def _begin(self, channel_id: int) -> None:
        with self._guard:
            if channel_id in self._busy or len(self._busy) >= _MOST_CHANNELS_AT_ONCE:
                return
            self._busy.add(channel_id)
        # A thread of its own for each channel: one that answers slowly makes no other wait. Not one that the
        # process would wait for at its end.
        threading.Thread(target=self._serve, args=(channel_id,), daemon=True, name="notify").start()

    def _serve(self, channel_id: int) -> None:
        """Sends until nothing is due."""
        try:
            while not self._stopping.is_set():
                step = self._next(channel_id)
                if step is None:
                    break
                self._note(step, self._sender.attempt(step.channel, step.delivery))
            with self._database.write_session() as session:
                channels.release(session, channel_id, owner=self._owner)
        except Exception as error:
            # The lease runs out, and a later look goes on.
            facts = {"channel": channel_id, "error": type(error).__name__}
            log.exception("a channel could not be served", extra=facts)
        finally:
            with self._guard:
                self._busy.discard(channel_id)
                self._guard.notify_all()

    def _next(self, channel_id: int) -> _Step | None:
        """The message that is due now; made when it was none before."""
        with self._database.read_session() as session:
            channel = channels.find(session, channel_id)
            if channel is None or not self._due(session, channel):
                return None
        with self._database.write_session() as session:
            channel = channels.claim(session, channel_id, owner=self._owner, lease_seconds=_LEASE_SECONDS)
            due = self._due(session, channel) if channel is not None else None
            if channel is None or not due:
                return None
            delivery = due if isinstance(due, Delivery) else self._make(session, channel, due)
        return _Step(channel, delivery)

    def _due(self, session: Session, channel: Channel) -> Delivery | list[int] | None:
        """The message to try now, or the changes that a new one tells of."""
        moment = clock.read(session)
        delivery = deliveries.in_hand(session, channel.id)
        if delivery is not None:
            return delivery if (delivery.next_at or 0.0) <= moment else None
        found = deliveries.waiting(session, channel.id)
        since = min((one.planned_at for one in found), default=moment) - channel.window_seconds
        return next_message(
            found,
            deliveries.made_since(session, channel.id, since, limit=channel.digest_after + 1),
            digest_after=channel.digest_after,
            window_seconds=channel.window_seconds,
            now=moment,
        )

    def _make(self, session: Session, channel: Channel, change_ids: list[int]) -> Delivery:
        message = message_of(deliveries.facts(session, change_ids), self._public_url)
        return deliveries.add(
            session,
            channel.id,
            change_ids,
            delivery_id=secrets.token_hex(16),
            kind=message["kind"],
            status="waiting",
            message=message,
            attempts=0,
            answer="",
        )

    def _note(self, step: _Step, outcome: Outcome) -> None:
        """Writes down what became of the attempt, and when the next one is."""
        channel, delivery = step
        attempts = delivery.attempts + 1
        wait_seconds = None
        if not outcome.is_sent and outcome.may_retry:
            wait_seconds = self._retries.wait_seconds(attempts, outcome.retry_after_seconds, self._generator)
        status = "sent" if outcome.is_sent else "failed" if wait_seconds is None else "waiting"
        with self._database.write_session() as session:
            # The channel first, as everywhere: who changes or removes it goes on to its messages.
            channels.lock(session, channel.id)
            if not deliveries.note_attempt(
                session,
                delivery.id,
                status=status,
                answer=outcome.answer,
                status_code=outcome.status_code,
                wait_seconds=wait_seconds,
            ):
                # The channel was removed or switched off meanwhile.
                return
            if status == "sent":
                channels.note_success(session, channel.id)
            elif status == "failed":
                channels.note_failure(session, channel.id, outcome.problem)
        facts: dict[str, Any] = {"channel": channel.id, "delivery": delivery.delivery_id}
        facts |= {"attempts": attempts, "status_code": outcome.status_code}
        if status == "failed":
            log.error("a message was given up", extra=facts)
        elif status == "waiting":
            log.warning("a message did not get through and is tried again", extra=facts)
        else:
            log.info("a message was sent", extra=facts)


def wants(channel: Channel, facts: ChangeFacts) -> bool:
    """Whether the channel is to be told of the change. Pure."""
    alert, change = facts.alert, facts.change
    if not channel.enabled or (channel.project is not None and channel.project != facts.project):
        return False
    if channel.changes and change.change not in channel.changes:
        return False
    if RANK[change.severity] < RANK[channel.min_severity]:
        return False
    # A channel that does not work is no place to say so.
    return (alert.rule, alert.scope) != (CHANNEL_RULE, channel_scope(channel.id))
