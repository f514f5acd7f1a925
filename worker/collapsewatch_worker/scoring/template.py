"""Evidence of a template without log-probabilities: how much texts of different prompts have in common.

Source: docs/metrics.md section 6. Pure.

Legend: R reasonings, W words of all of them, S places where a run of words starts.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from collapsewatch.words import words_of
from collapsewatch_worker.scoring.batching import Ints


@dataclass(frozen=True)
class SharedPhrase:
    """A run of words that reasonings of several prompts have in common."""

    text: str
    """The words in lower case, joined by spaces."""
    num_words: int
    prompt_coverage: float
    """Share of the prompts of which at least one reasoning has it, 0..1."""
    row_coverage: float
    """Share of the reasonings that have it, 0..1."""


def compression_ratio(texts: Sequence[str]) -> float:
    """Compressed bytes ÷ bytes of the texts, one after the other; small when they repeat each other.

    Raises:
        ValueError: there is no text.
    """
    data = "\n".join(texts).encode()
    if not any(texts):
        raise ValueError("compression needs at least one text that is not empty")
    return _compressed(data) / len(data)


def compression_distance(first: bytes, second: bytes) -> float:
    """Normalised compression distance: about 0 for equal texts, about 1 for unrelated ones.

    (C(xy) − min(C(x), C(y))) ÷ max(C(x), C(y)), averaged over both orders, with C of zlib.
    """
    alone = sorted((_compressed(first), _compressed(second)))
    together = (_compressed(first + second) + _compressed(second + first)) / 2
    return (together - alone[0]) / alone[1]


def compression_distance_ratio(
    reasonings: Sequence[str],
    prompt_of_R: Ints,
    *,
    generator: np.random.Generator,
    max_pairs: int = 512,
) -> float:
    """Mean compression distance within a prompt ÷ across prompts; → 1 when the prompt no longer matters.

    Both texts of a pair are cut to the length of the shorter, so that length alone tells nothing.

    Args:
        reasonings: texts, length R; empty ones are left out.
        prompt_of_R: each reasoning's prompt.
        generator: draws the pairs when there are more than `max_pairs` of a kind.
        max_pairs: most pairs within, and across.

    Raises:
        ValueError: no two reasonings of one prompt, or none of two prompts, or all texts are equal.
    """
    own_R = np.asarray(prompt_of_R, dtype=np.int64)
    kept = [row for row, reasoning in enumerate(reasonings) if reasoning]
    first, second = np.triu_indices(len(kept), k=1)
    pairs = (
        np.array(kept, dtype=np.int64)[np.stack([first, second], axis=1)] if kept else np.empty((0, 2), int)
    )
    is_within = own_R[pairs[:, 0]] == own_R[pairs[:, 1]]
    means = []
    for kind, chosen in (("of one prompt", pairs[is_within]), ("of two prompts", pairs[~is_within])):
        if not len(chosen):
            raise ValueError(f"the compression distance needs two reasonings {kind}")
        if len(chosen) > max_pairs:
            chosen = chosen[generator.choice(len(chosen), size=max_pairs, replace=False)]
        means.append(
            float(np.mean([_equal_length_distance(reasonings[i], reasonings[j]) for i, j in chosen]))
        )
    within, across = means
    if across <= 0:
        raise ValueError("all reasonings are equal: the ratio of two zero distances says nothing")
    return within / across


def shared_phrases(
    reasonings: Sequence[str],
    prompt_of_R: Ints,
    *,
    min_words: int = 4,
    min_prompts: int = 2,
    max_phrases: int | None = 20,
    max_words_read: int = 400,
) -> list[SharedPhrase]:
    """The longest runs of words shared by reasonings of many prompts, longest first: the template.

    A run inside a longer one is left out, unless more prompts have the shorter one. Ties in length go to
    the run that more reasonings have, then to the alphabet.

    Args:
        reasonings: texts, length R.
        prompt_of_R: each reasoning's prompt.
        min_words: words of the shortest run, at least 1.
        min_prompts: prompts that must have it, at least two.
        max_phrases: most runs that come back; all of them when None.
        max_words_read: words read of each reasoning, from its start.

    Raises:
        ValueError: `min_words` below 1, or `min_prompts` below 2.
    """
    if min_words < 1:
        raise ValueError(f"a phrase has at least 1 word, got {min_words}")
    if min_prompts < 2:
        raise ValueError(f"a shared phrase has at least 2 prompts, got {min_prompts}")
    own_R = np.asarray(prompt_of_R, dtype=np.int64)
    num_prompts = len(np.unique(own_R))
    words_R = [words_of(reasoning)[:max_words_read] for reasoning in reasonings]
    found: list[tuple[tuple[str, ...], int, int]] = []
    shorter: dict[tuple[str, ...], tuple[int, int]] = {}
    for shared in _shared_by_length(words_R, own_R, min_words, min_prompts):
        for phrase, (num, _) in shared.items():
            for part in (phrase[1:], phrase[:-1]):
                if part in shorter and shorter[part][0] <= num:
                    del shorter[part]
        found += [(phrase, *counts) for phrase, counts in shorter.items()]
        shorter = shared
    found += [(phrase, *counts) for phrase, counts in shorter.items()]
    phrases = [
        SharedPhrase(" ".join(phrase), len(phrase), num / num_prompts, rows / len(reasonings))
        for phrase, num, rows in found
    ]
    phrases.sort(key=lambda phrase: (-phrase.num_words, -phrase.row_coverage, phrase.text))
    return phrases[:max_phrases]


def _shared_by_length(
    words_R: list[list[str]], own_R: Ints, min_words: int, needed: int
) -> Iterator[dict[tuple[str, ...], tuple[int, int]]]:
    """For each length from `min_words` on: shared runs, with the numbers of prompts and rows that have them.

    A run is known by a number; that of a longer run follows from the two it overlaps with, so the work per
    length does not grow with the length.
    """
    words = [word for of_row in words_R for word in of_row]
    row_W = np.repeat(np.arange(len(words_R)), [len(of_row) for of_row in words_R])
    numbers: dict[str, int] = {}
    # Where a run starts among all words, and its number.
    start_S = np.arange(len(words))
    run_S = np.array([numbers.setdefault(word, len(numbers)) for word in words], dtype=np.int64)
    length = 1
    while start_S.size:
        is_shared_S = _num_distinct(own_R[row_W[start_S]], run_S)[run_S] >= needed
        start_S, run_S = start_S[is_shared_S], _renumbered(run_S[is_shared_S])
        if length >= min_words and start_S.size:
            num_prompts = _num_distinct(own_R[row_W[start_S]], run_S).tolist()
            num_rows = _num_distinct(row_W[start_S], run_S).tolist()
            first = np.unique(run_S, return_index=True)[1]
            yield {
                tuple(words[start : start + length]): (num_prompts[run], num_rows[run])
                for run, start in enumerate(start_S[first].tolist())
            }
        goes_on_S = (np.diff(start_S) == 1) & (np.diff(row_W[start_S]) == 0)
        pairs = run_S[:-1] * len(words) + run_S[1:]
        start_S, run_S = start_S[:-1][goes_on_S], _renumbered(pairs[goes_on_S])
        length += 1


def _num_distinct(values_S: Ints, run_S: Ints) -> Ints:
    """How many different values each run meets."""
    width = int(values_S.max(initial=0)) + 1
    return np.bincount(np.unique(run_S * width + values_S) // width)


def _renumbered(run_S: Ints) -> Ints:
    """The same runs, counted from 0 without a gap."""
    numbers: Ints = np.unique(run_S, return_inverse=True)[1]
    return numbers


def _equal_length_distance(first: str, second: str) -> float:
    x, y = first.encode(), second.encode()
    length = min(len(x), len(y))
    return compression_distance(x[:length], y[:length])


def _compressed(data: bytes) -> int:
    return len(zlib.compress(data, 9))
