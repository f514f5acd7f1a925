"""A database with channels on it, for the tests of what they are told."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from collapsewatch_server.db import Database
from collapsewatch_server.notify.desk import ChannelDesk
from collapsewatch_server.notify.guard import OutgoingGuard
from collapsewatch_server.notify.notifier import Notifier
from collapsewatch_server.notify.pacing import Retries
from collapsewatch_server.notify.sending import Sender
from collapsewatch_server.notify.vault import Vault
from collapsewatch_server.notify.views import ChannelDraft, DeliveryView
from tests.conftest import WaitUntil
from tests.server.receivers import HttpReceiver

SECRET = "a secret of the test"
QUICK = Retries(max_attempts=4, first_seconds=0.02, longest_seconds=0.05, longest_asked_seconds=0.4)


@dataclass
class House:
    """A database, channels on it, and servers that send."""

    database: Database
    home: Path
    guard: OutgoingGuard = field(default_factory=lambda: OutgoingGuard(allow_private=True))
    notifiers: list[Notifier] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def vault(self) -> Vault:
        return Vault(self.home, None)

    @property
    def desk(self) -> ChannelDesk:
        return ChannelDesk(self.database, self.guard, self.vault, Sender(self.guard, self.vault))

    def server(self, retries: Retries = QUICK, **options: Any) -> Notifier:
        notifier = Notifier(self.database, Sender(self.guard, self.vault), retries=retries, **options)
        self.notifiers.append(notifier)
        return notifier

    def channel(self, url: str, kind: Any = "webhook", **changes: Any) -> int:
        given = {"name": f"channel {next(self._numbers)}", "kind": kind, "url": SecretStr(url), **changes}
        if kind == "webhook":
            given.setdefault("secret", SecretStr(SECRET))
        return self.desk.create(ChannelDraft(**given)).channel.channel_id

    def log(self, channel_id: int) -> list[DeliveryView]:
        """Oldest first."""
        return self.desk.deliveries(channel_id, None, 1000).deliveries[::-1]


def told(receiver: HttpReceiver) -> list[list[int]]:
    """Changes of each message that was taken, in order."""
    return [[change["change_id"] for change in json.loads(got.body)["changes"]] for got in receiver.got]


def until(wait_until: WaitUntil, notifier: Notifier, condition: Callable[[], object]) -> None:
    def look() -> object:
        notifier.look()
        return condition()

    wait_until(look)


def settle(notifier: Notifier, seconds: float = 0.3) -> None:
    """Looks again and again until nothing is being sent, so that what must not happen had its chance."""
    until = time.monotonic() + seconds
    num_looks = 0
    while time.monotonic() < until or num_looks < seconds / 0.03 or (notifier._busy and num_looks < 1000):
        notifier.look()
        num_looks += 1
        time.sleep(0.02)


def last_status(house: House, channel_id: int) -> str:
    """Status of the channel's newest message; empty without any."""
    return next((one.status for one in house.log(channel_id)[-1:]), "")
