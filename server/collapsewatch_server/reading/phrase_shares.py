"""How many responses have a phrase. Pure."""

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from collapsewatch.words import words_of
from collapsewatch_server.reading.traces import StoredRollout

_NAMES = re.compile(r"\w")

MAX_RESPONSES = 256
"""Of one step."""
MAX_CHARS = 20_000
"""Of one response, from its start."""


def phrase_words(phrase: str) -> str:
    """The words of a phrase as they are compared; of one that was cut off without its last, half word.

    Signs at its ends are left out: whether a sentence ends before a phrase says nothing about the phrase.
    """
    words = words_of(phrase.removesuffix("…"))
    words = words[:-1] if phrase.endswith("…") else words
    named = [at for at, word in enumerate(words) if _NAMES.match(word)]
    return " ".join(words[named[0] : named[-1] + 1]) if named else " ".join(words)


def distinct(phrases: Iterable[str]) -> list[str]:
    """The phrases, given as `phrase_words`, without those that hold an earlier one or are held by it."""
    found: list[str] = []
    for phrase in phrases:
        text = f" {phrase} "
        if phrase and not any(text in f" {other} " or f" {other} " in text for other in found):
            found.append(phrase)
    return found


def first_responses(rollouts: Sequence[StoredRollout]) -> list[str]:
    """First responses of at most `MAX_RESPONSES` rollouts, evenly taken from all, as words with one space
    before and after each."""
    texts = [rollout.turns[0].text for rollout in rollouts if rollout.turns]
    known = [text for text in texts if text is not None]
    stride = -(-len(known) // MAX_RESPONSES) or 1
    return [f" {' '.join(words_of(text[:MAX_CHARS]))} " for text in islice(known, 0, None, stride)]


def num_with(responses: Iterable[str], phrase: str) -> int:
    """How many of `first_responses` have the phrase, given as `phrase_words`."""
    wanted = f" {phrase} "
    return sum(wanted in response for response in responses)


def coarse_first(steps: Sequence[int]) -> list[int]:
    """The steps in an order in which the first few are spread over all of them."""
    found: dict[int, None] = {}
    stride = 1
    while stride < len(steps):
        stride *= 2
    while stride >= 1:
        found |= dict.fromkeys(steps[::stride])
        stride //= 2
    return list(found)
