"""One attempt to send a message, whatever kind of channel it goes to."""

from collapsewatch_server.channel_tables import Channel, Delivery
from collapsewatch_server.notify import apprise_sender, webhook
from collapsewatch_server.notify.guard import OutgoingGuard
from collapsewatch_server.notify.messages import body_of, text_of
from collapsewatch_server.notify.outcome import Outcome, failed
from collapsewatch_server.notify.vault import Unsealable, Vault


class Sender:
    """Opens a channel's secret and speaks to it."""

    def __init__(self, guard: OutgoingGuard, vault: Vault) -> None:
        self._guard = guard
        self._vault = vault

    def attempt(self, channel: Channel, delivery: Delivery) -> Outcome:
        """What became of it."""
        try:
            secret = self._vault.open(channel.sealed)
        except Unsealable as error:
            return failed(str(error), may_retry=False)
        except OSError as error:
            return failed(f"the key file cannot be read: {error.strerror}")
        if channel.kind == "apprise":
            return apprise_sender.send(self._guard, url=secret["url"], text=text_of(delivery.message))
        body = body_of(
            delivery.message,
            delivery_id=delivery.delivery_id,
            channel=channel.name,
            created_at=delivery.created_at,
        )
        return webhook.send(
            self._guard,
            url=secret["url"],
            secret=secret["secret"],
            delivery_id=delivery.delivery_id,
            body=body,
        )
