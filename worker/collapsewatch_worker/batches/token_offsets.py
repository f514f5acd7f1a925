"""Where each token lies in the decoded text. Pure."""

from collections.abc import Callable, Sequence

REPLACEMENT = "\ufffd"
"""What a decoder writes for bytes that are not (yet) a character."""

Decode = Callable[[Sequence[int]], str]


def token_ends(ids: Sequence[int], decode: Decode) -> tuple[str, list[int]]:
    """The decoded text, and for each token the character position at which it ends.

    Tokens that hold part of a character end where the character begins, except the last of them.
    """
    pieces = [decode([token]) for token in ids]
    text = decode(ids)
    if "".join(pieces) != text:
        return _ends_in_context(ids, decode)
    ends, end = [], 0
    for piece in pieces:
        end += len(piece)
        ends.append(end)
    return text, ends


def _ends_in_context(ids: Sequence[int], decode: Decode) -> tuple[str, list[int]]:
    """The same for decoders whose output depends on the neighbours: joining spaces, split characters."""
    text = ""
    ends: list[int] = []
    # Each token is decoded behind the last complete ones, so that spaces between them come out right.
    context, read = 0, 0
    for position in range(len(ids)):
        before = decode(ids[context:read])
        after = decode(ids[context : position + 1])
        if not after.endswith(REPLACEMENT) or position == len(ids) - 1:
            text += after[len(before) :]
            context, read = read, position + 1
        ends.append(len(text))
    return text, ends


def covered_tokens(ends: Sequence[int], start: int, end: int) -> tuple[int, int]:
    """Half-open range of the tokens that lie within the characters [start, end).

    A token that also holds a character before `start` or from `end` on is left out, as is all after it.
    """
    first = next((i for i in range(len(ends)) if (ends[i - 1] if i else 0) >= start), len(ends))
    last = next((i for i in range(len(ends)) if ends[i] > end), len(ends))
    return first, max(first, last)


def find_tokens(ids: Sequence[int], wanted: Sequence[int], start: int = 0) -> int:
    """Position from `start` on at which a non-empty run of tokens first occurs, -1 when it does not."""
    width = len(wanted)
    wanted = list(wanted)
    for position in range(start, len(ids) - width + 1):
        if list(ids[position : position + width]) == wanted:
            return position
    return -1
