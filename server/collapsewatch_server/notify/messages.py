"""What a message says: as JSON for programs, as text for people. Pure."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from collapsewatch_server.reading.views import iso
from collapsewatch_server.repositories.deliveries import ChangeFacts
from collapsewatch_server.tables import Json

MOST_LISTED = 50
"""A digest of more changes tells of so many, and the number of the others."""
_TITLE_CHARS = 200
_WORDS = {
    "opened": "Opened",
    "escalated": "Now graver",
    "acknowledged": "Acknowledged",
    "snoozed": "Snoozed",
    "snooze_ended": "Snooze ended",
    "reopened": "Reopened",
    "resolved": "Resolved",
}
_REASONS = {
    "hand": "by hand",
    "superseded": "a later attempt replayed its step",
    "withdrawn": "seen in step order, with all that came late, it never was",
    "switched_off": "its rule was switched off",
}
_KINDS = {"critical": "failure", "warning": "warning", "info": "info"}


class Text(NamedTuple):
    """A message for people."""

    title: str
    """One line."""
    body: str
    kind: str
    """`info`, `success`, `warning` or `failure`."""


def message_of(facts: Sequence[ChangeFacts], public_url: str | None) -> Json:
    """The message that tells of these changes, without what differs between channels."""
    listed = [_change(one, public_url) for one in facts[:MOST_LISTED]]
    return {
        "kind": "change" if len(facts) == 1 else "digest",
        "num_changes": len(facts),
        "num_left_out": len(facts) - len(listed),
        "changes": listed,
    }


def test_message() -> Json:
    """The message of the test button."""
    return {"kind": "test", "num_changes": 0, "num_left_out": 0, "changes": []}


def body_of(message: Json, *, delivery_id: str, channel: str, created_at: float) -> bytes:
    """The bytes that a webhook posts: the same at every attempt, since the signature is over them."""
    document = {"delivery_id": delivery_id, "channel": channel, "created_at": iso(created_at), **message}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def text_of(message: Json) -> Text:
    """The message for people."""
    changes = message["changes"]
    if message["kind"] == "test":
        return Text(
            "collapsewatch: a test", "This channel works: changes of alerts will be told here.", "info"
        )
    if len(changes) == 1 and message["num_changes"] == 1:
        (change,) = changes
        return Text(_line(_head(change)), "\n".join(_told(change)), _kind(change))
    title = f"collapsewatch: {message['num_changes']} changes of alerts"
    lines = [
        f"- {_line(_head(change))}" + (f"  {change['url']}" if change["url"] else "") for change in changes
    ]
    if message["num_left_out"]:
        lines.append(f"and {message['num_left_out']} more")
    kinds = [_kind(change) for change in changes]
    gravest = next((kind for kind in ("failure", "warning", "info", "success") if kind in kinds), "info")
    return Text(title, "\n".join(lines), gravest)


def _change(facts: ChangeFacts, public_url: str | None) -> Json:
    change, alert = facts.change, facts.alert
    return {
        "change_id": change.id,
        "change": change.change,
        "severity": change.severity,
        "at": iso(change.at),
        "by": change.by,
        "reason": change.reason,
        "alert_id": alert.id,
        "thread_id": change.thread_pk,
        "rule": alert.rule,
        "scope": alert.scope,
        "title": alert.title,
        "message": alert.message,
        "evidence": alert.evidence,
        "opened_step": alert.opened_step,
        "resolved_step": alert.resolved_step,
        "project": facts.project,
        "run_id": facts.run_id,
        "run_name": facts.run_name,
        "attempt_id": facts.attempt_id,
        "url": _url(facts, public_url),
    }


def _url(facts: ChangeFacts, public_url: str | None) -> str | None:
    return None if public_url is None else f"{public_url.rstrip('/')}/#/alerts/{facts.alert.id}"


def _head(change: Json) -> str:
    about = "the service" if change["run_id"] is None else f"{change['run_name']} ({change['project']})"
    what = _WORDS.get(change["change"], change["change"])
    return f"[{change['severity']}] {what}: {change['title']} – {about}"


def _told(change: Json) -> list[str]:
    lines = [change["message"]]
    if change["opened_step"] is not None:
        lines.append(f"Since step {change['opened_step']}, scope {change['scope']}.")
    reason = _REASONS.get(change["reason"] or "")
    if reason or change["by"]:
        words = _WORDS.get(change["change"], change["change"])
        who = f" by {change['by']}" if change["by"] else ""
        why = f" ({reason})" if reason and not (who and change["reason"] == "hand") else ""
        lines.append(f"{words}{who}{why}.")
    lines.append(f"Rule {change['rule']}.")
    if change["url"]:
        lines.append(change["url"])
    return lines


def _kind(change: Json) -> str:
    return "success" if change["change"] == "resolved" else _KINDS.get(change["severity"], "info")


def _line(text: str) -> str:
    """One line: a name with a line break in it could add headers to a mail."""
    return "".join(c if c.isprintable() else " " for c in text)[:_TITLE_CHARS]
