"""Token sequences cut where they part, so that what they share is read once. Pure Python: knows no model."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Segment:
    """A run of tokens that one or more sequences have in common, after all that stands above it."""

    depth: int
    """Number of segments above this one on the way to the root."""
    start: int
    """Position of its first token in every sequence that runs through it."""
    tokens: Tokens
    ends: int | None
    """The sequence that ends with this segment; none when all of them go on."""


def shared_segments(sequences: Sequence[Tokens], *, min_saved: int) -> list[Segment]:
    """The radix tree of the sequences, depth first: a segment's parent is the last one a level above it.

    A prefix becomes a segment of its own when that saves at least `min_saved` tokens, that is its length
    times the number of sequences below it less one. Every sequence ends in exactly one segment.

    Args:
        sequences: distinct, none empty.
        min_saved: 1 or more; 1 shares all that can be shared.
    """
    order = sorted(range(len(sequences)), key=lambda index: sequences[index])
    ordered = [sequences[index] for index in order]
    common = [0, *(_common_length(left, right) for left, right in itertools.pairwise(ordered))]
    segments: list[Segment] = []
    # Ranges of the sorted sequences, with how much of them the segments above have covered. A stack and no
    # recursion: the turns of one long trajectory make a chain as deep as it has turns.
    ranges = [(0, len(ordered), 0, 0)] if ordered else []
    while ranges:
        low, high, start, depth = ranges.pop()
        if high - low == 1:
            segments.append(Segment(depth, start, ordered[low][start:], ends=order[low]))
            continue
        shared = min(common[low + 1 : high], default=0)
        cuts = [low, *(cut for cut in range(low + 1, high) if common[cut] == shared), high]
        if (shared - start) * (high - low - 1) >= min_saved:
            # Sorted, so only the first of them can be as short as what all have in common.
            ends = len(ordered[low]) == shared
            segments.append(
                Segment(depth, start, ordered[low][start:shared], ends=order[low] if ends else None)
            )
            start, depth, cuts = shared, depth + 1, cuts[ends:]
        ranges += [(cut, following, start, depth) for cut, following in itertools.pairwise(cuts)][::-1]
    return segments


def _common_length(left: Tokens, right: Tokens) -> int:
    shorter = min(len(left), len(right))
    for position in range(shorter):
        if left[position] != right[position]:
            return position
    return shorter
