"""Which alerts of a scope are one item of the inbox. Pure.

An alert and the graver one that takes its place are one item. So are an alert whose steps a later attempt
replays and the same alert when it opens again among the replayed steps: nobody needs to be told twice.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from collapsewatch_server.attempts import Lineages
from collapsewatch_server.results.alert_book import Alert, Key


@dataclass
class Thread:
    """Alerts that are one item."""

    pk: int | None
    """None for a new one."""
    alerts: list[Alert]

    @property
    def is_superseded(self) -> bool:
        """Whether later attempts replayed all that it holds."""
        return all(alert.superseded for alert in self.alerts)


def threads_of(derived: Iterable[Alert], lineages: Lineages) -> list[Thread]:
    """The alerts by their items. A thread that is stored stays with the alert that it began with."""
    found: list[Thread] = []
    by_pk: dict[int, Thread] = {}
    chains = sorted(_chains(derived), key=lambda chain: (chain[0].thread_pk is None, chain[0].opened_step))
    for chain in chains:
        wanted = next((alert.thread_pk for alert in chain if alert.thread_pk is not None), None)
        if wanted is None:
            wanted = _replayed(chain, found, lineages)
        new = Thread(wanted, list(chain))
        taken = None if wanted is None else by_pk.get(wanted)
        if taken is not None and (taken.is_superseded or new.is_superseded):
            taken.alerts += chain
            continue
        if taken is not None:
            new.pk = None
        elif wanted is not None:
            by_pk[wanted] = new
        found.append(new)
    return found


def _chains(derived: Iterable[Alert]) -> list[list[Alert]]:
    """Alerts and those that took their place, the first of each chain being its beginning."""
    found: dict[Key, list[Alert]] = {}
    root_of: dict[Key, Key] = {}
    for alert in sorted(derived, key=lambda one: (one.opened_step, one.key)):
        before = alert.continues
        root = root_of.get(before, alert.key) if before is not None else alert.key
        root_of[alert.key] = root
        found.setdefault(root, []).append(alert)
    return list(found.values())


def _replayed(chain: Sequence[Alert], found: Iterable[Thread], lineages: Lineages) -> int | None:
    """The newest thread that was superseded and that this alert opens again within the replayed steps."""
    first = chain[0]
    candidates = [
        thread
        for thread in found
        if thread.pk is not None
        and thread.is_superseded
        and thread.alerts[0].rule == first.rule
        and first.opened_step <= last_known_step(thread.alerts[-1], lineages)
        and not first.superseded
    ]
    return max(candidates, key=lambda thread: thread.alerts[-1].opened_step).pk if candidates else None


def last_known_step(alert: Alert, lineages: Lineages) -> int:
    """Last step at which the alert was known to be open."""
    if alert.resolved_step is not None:
        return alert.resolved_step
    attempt = next(one for one in lineages.attempts if one.pk == alert.attempt_pk)
    return alert.opened_step if attempt.last_step is None else max(alert.opened_step, attempt.last_step)
