"""Looks for a text in a batch's rollouts. Pure.

Letters match whatever their case, and any whitespace matches any other, since models break lines anywhere.
Beside a sign it may be missing: a phrase of words and signs is written with spaces between all of them.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

from collapsewatch_server.reading.rollout_views import RolloutHit
from collapsewatch_server.reading.traces import Moment, StoredRollout

Where = Literal["response", "prompt", "all"]
Place = Literal["prompt", "response"]

# Of scripts without spaces every character is a word of its own.
_LETTER = re.compile(r"[^\W\u3040-\u30ff\u3400-\u9fff]")
_BEFORE_CHARS = 60
_AFTER_CHARS = 120
_MATCH_CHARS = 200
# These letters equal an ASCII one but for their case, so a text may match that does not hold its bytes.
_LIKE_ASCII = tuple(letter.encode() for letter in "\u017f\u212a\u0130\u0131")


class Wanted:
    """What is looked for."""

    def __init__(self, text: str, where: Where) -> None:
        """Raises ValueError when the text has no word."""
        words = text.split()
        if not words:
            raise ValueError("nothing but whitespace is looked for")
        self.where = where
        self.pattern = re.compile(_joined(words), re.IGNORECASE)
        # What stands in a JSON document as it is: nothing escaped, no letter of another case.
        self._needed = [word.lower().encode() for word in words if _stands_as_it_is(word)]

    def may_be_in(self, document: bytes) -> bool:
        """False when the JSON of a batch cannot hold it: to take it apart takes ten times as long."""
        lowered = document.lower()
        if all(word in lowered for word in self._needed):
            return True
        return not document.isascii() and any(letter in document for letter in _LIKE_ASCII)


class Found(NamedTuple):
    """The first match in a rollout, and how many there are."""

    turn: int
    place: Place
    text: str
    match: re.Match[str]
    num_matches: int


def found_in(wanted: Wanted, rollout: StoredRollout) -> Found | None:
    """Where the rollout has it; none where it has not."""
    first: tuple[int, Place, str, re.Match[str]] | None = None
    num_matches = 0
    for turn, place, text in _texts(rollout, wanted.where):
        for match in wanted.pattern.finditer(text):
            first = first or (turn, place, text, match)
            num_matches += 1
    return None if first is None else Found(*first, num_matches)


def hit_of(moment: Moment, index: int, rollout: StoredRollout, found: Found) -> RolloutHit:
    """What is answered of a rollout that has it."""
    start, end = found.match.span()
    return RolloutHit(
        step=moment.step,
        attempt_id=moment.attempt_id,
        index=index,
        group_id=rollout.group_id,
        reward=rollout.reward,
        success=rollout.success,
        turn=found.turn,
        place=found.place,
        before=found.text[max(0, start - _BEFORE_CHARS) : start],
        match=found.text[start : min(end, start + _MATCH_CHARS)],
        after=found.text[end : end + _AFTER_CHARS],
        num_matches=found.num_matches,
    )


def _joined(words: list[str]) -> str:
    """A pattern of the words with whitespace between them."""
    pattern = re.escape(words[0])
    for before, word in pairwise(words):
        gap = r"\s+" if _LETTER.fullmatch(before[-1]) and _LETTER.fullmatch(word[0]) else r"\s*"
        pattern += gap + re.escape(word)
    return pattern


def _stands_as_it_is(word: str) -> bool:
    return word.isascii() and word.isprintable() and '"' not in word and "\\" not in word


def _texts(rollout: StoredRollout, where: Where) -> Iterator[tuple[int, Place, str]]:
    for number, turn in enumerate(rollout.turns):
        if where != "response" and turn.prompt is not None:
            yield number, "prompt", turn.prompt
        if where != "prompt" and turn.text is not None:
            yield number, "response", turn.text
