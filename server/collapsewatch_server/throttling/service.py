"""All that slows callers down, one of each in a process."""

from dataclasses import dataclass

from collapsewatch_server.repeating import Repeated
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.throttling.guesses import Guesses
from collapsewatch_server.throttling.sharing import SECONDS_BETWEEN_LOOKS, SharedTraffic
from collapsewatch_server.throttling.traffic import Bucket, Rates, Traffic
from collapsewatch_server.throttling.turns import CostlyTurns


@dataclass(frozen=True)
class Throttle:
    """What requests, guesses and costly answers pass."""

    traffic: Traffic
    guesses: Guesses
    turns: CostlyTurns
    shared: SharedTraffic | None
    """Adds up what several server processes count; none without Redis."""

    @property
    def repeated(self) -> tuple[Repeated, ...]:
        """What it does beside the requests."""
        if self.shared is None:
            return ()
        return (Repeated("traffic", self.shared.look, SECONDS_BETWEEN_LOOKS),)

    def close(self) -> None:
        """Gives all connections back."""
        self.guesses.close()
        if self.shared is not None:
            self.shared.close()


def build_throttle(settings: ServerSettings) -> Throttle:
    """The limits that the settings say."""
    rates = Rates(
        {
            Bucket.reads: settings.rate_reads,
            Bucket.writes: settings.rate_writes,
            Bucket.ingest: settings.rate_ingest,
            Bucket.worker: settings.rate_worker,
            Bucket.links: settings.rate_links,
            Bucket.entry: settings.rate_entry,
        },
        num_bytes=settings.rate_bytes,
        address_times=settings.rate_address_times,
        streams=settings.max_streams,
    )
    traffic, redis_url = Traffic(rates), settings.effective_redis_url
    shared = None if redis_url is None else SharedTraffic(traffic, redis_url)
    return Throttle(traffic, Guesses(redis_url), CostlyTurns(), shared)
