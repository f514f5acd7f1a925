"""Where an item of the inbox stands, by what its rule says and by what people did. Pure.

The rule's word is derived anew whenever a late step arrives; actions are kept. So nothing here may depend on
how often, or in which order of arrival, the rule's word was derived.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from collapsewatch_server.alerts.transitions import RANK, Severity

State = Literal["open", "acknowledged", "snoozed", "resolved"]
Ended = Literal["rule", "hand", "superseded", "withdrawn", "switched_off"]
ActionKind = Literal["acknowledge", "snooze", "resolve", "reopen"]
Change = Literal["opened", "escalated", "acknowledged", "snoozed", "snooze_ended", "reopened", "resolved"]


@dataclass(frozen=True)
class RuleWord:
    """What the rule says of the thread's newest alert by now."""

    severity: Severity
    is_open: bool
    superseded: bool = False
    withdrawn: bool = False
    switched_off: bool = False
    """The project does not want this rule."""


@dataclass(frozen=True)
class Action:
    """Something that a person did."""

    kind: ActionKind
    severity: Severity
    """What the person saw."""
    until: float | None = None
    """End of a snooze."""
    over_rule: bool = False
    """A `reopen` of what the rule had resolved."""


@dataclass(frozen=True)
class Standing:
    """Where a thread stands."""

    state: State
    severity: Severity
    ended: Ended | None = None
    """Set when it is resolved."""
    snoozed_until: float | None = None
    """Set while it is snoozed."""


def standing(word: RuleWord, actions: Sequence[Action], now: float) -> Standing:
    """Where the thread stands at this moment.

    - History stays history: what was superseded, withdrawn or switched off is resolved, whatever people did.
    - An action says nothing about a graver alert that comes after it, which is open.
    - What the rule has resolved is resolved, unless a person opened it again afterwards; from then on only a
      person resolves it, or the clock ends its snooze.
    - Of what is left the last action counts.

    Args:
        actions: Oldest first.
        now: Seconds since 1970, by the clock that made the ends of the snoozes.
    """
    gone = _gone(word)
    if gone is not None:
        return Standing("resolved", word.severity, gone)
    known = [action for action in actions if RANK[action.severity] >= RANK[word.severity]]
    if not word.is_open and not _held_open(known):
        return Standing("resolved", word.severity, "rule")
    if not known or known[-1].kind == "reopen":
        return Standing("open", word.severity)
    last = known[-1]
    if last.kind == "acknowledge":
        return Standing("acknowledged", word.severity)
    if last.kind == "resolve":
        return Standing("resolved", word.severity, "hand")
    assert last.until is not None
    if now < last.until:
        return Standing("snoozed", word.severity, snoozed_until=last.until)
    return Standing("open", word.severity)


@dataclass(frozen=True)
class Told:
    """What changes have told of a thread so far."""

    state: State
    severity: Severity
    """The gravest that was ever told."""


def news(told: Told | None, now: Standing, *, by_hand: bool, is_passed: bool = False) -> Change | None:
    """What there is to tell of a thread that stands so now; none when it was told already.

    Comparing with what was told, rather than with where the thread stood, is what keeps a replayed attempt
    quiet: an alert that was superseded says nothing of it, and coming back at a replayed step it is no news.

    Args:
        told: None when nothing was ever told of it.
        by_hand: A person did it.
        is_passed: The attempt that replays it has come further than the alert was ever known to reach, so
            it will not come back as itself.
    """
    if now.ended == "superseded" and not is_passed:
        return None
    if told is None:
        # What was over before anybody heard of it is no news.
        if now.state == "resolved":
            return None
        return "reopened" if by_hand and now.state == "open" else "opened"
    if now.state != "resolved" and RANK[now.severity] > RANK[told.severity]:
        return "escalated"
    if now.state == told.state:
        return None
    if now.state == "open":
        return "snooze_ended" if told.state == "snoozed" and not by_hand else "reopened"
    return now.state


def told_by(told: Told | None, now: Standing) -> Told:
    """What has been told once this was."""
    return Told(now.state, now.severity if told is None else graver(told.severity, now.severity))


def refusal(current: Standing, kind: ActionKind) -> str | None:
    """Why the action makes no sense now; none when it does, or when all is as it asks already."""
    if current.ended in ("superseded", "withdrawn", "switched_off"):
        reason = {
            "superseded": "a later attempt replayed its step",
            "withdrawn": "with all steps in order it never was",
            "switched_off": "its rule is switched off for the project",
        }[current.ended]
        return f"the alert is history: {reason}"
    if current.state == "resolved" and kind in ("acknowledge", "snooze"):
        return "the alert is resolved; reopen it first"
    return None


def changes_nothing(current: Standing, kind: ActionKind) -> bool:
    """Whether all is as the action asks already; a second snooze sets another end, and so never."""
    done: dict[ActionKind, State] = {"acknowledge": "acknowledged", "resolve": "resolved", "reopen": "open"}
    return done.get(kind) == current.state


def graver(one: Severity, other: Severity) -> Severity:
    """The graver of the two."""
    return other if RANK[other] > RANK[one] else one


def _gone(word: RuleWord) -> Ended | None:
    if word.withdrawn:
        return "withdrawn"
    if word.superseded:
        return "superseded"
    return "switched_off" if word.switched_off else None


def _held_open(actions: Iterable[Action]) -> bool:
    """Whether a person opened it against the rule's word, and nobody resolved it since."""
    held = False
    for action in actions:
        if action.kind == "reopen" and action.over_rule:
            held = True
        elif action.kind == "resolve":
            held = False
    return held
