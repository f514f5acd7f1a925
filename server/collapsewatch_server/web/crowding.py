"""Refuses documents of very many small values before they are parsed.

A body is limited in bytes, but its values are not all alike: an empty object takes three bytes on the wire
and 150 in memory, and each value that is wrong takes an error of a few hundred.
"""

import re

from collapsewatch_server.errors import BodyTooLarge, ErrorDetail

MAX_CONTAINERS = 2_000_000
"""Objects and arrays; a batch of 100,000 rollouts with token ids has a third of it."""
MAX_NAMES = 2_000_000
"""Names in objects; a batch of 100,000 rollouts has about 800,000."""
MAX_VALUES = 24_000_000
"""Values in arrays and objects; ids and log-probs of 1,024 rollouts of 8,000 tokens are 16 million."""

# Nothing is tried twice, and one that is never closed goes to the end: else a few megabytes of `\"` would
# take hours, in which no other thread runs.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


def refuse_crowded(document: bytes | bytearray) -> None:
    """Passes what the server can hold in memory.

    Raises:
        BodyTooLarge: too many values, names or containers.
    """
    if _excess(document) is None:
        return
    # Prompts hold braces and commas too: only what is outside of strings counts.
    excess = _excess(_STRING.sub(b"", document))
    if excess is not None:
        what, given, limit = excess
        raise BodyTooLarge(
            f"the body may hold {limit} {what}",
            [ErrorDetail(loc="body", message=f"more than {limit} {what}", given=str(given))],
        )


def _excess(document: bytes | bytearray) -> tuple[str, int, int] | None:
    counts = (
        ("objects and arrays", document.count(b"{") + document.count(b"["), MAX_CONTAINERS),
        ("names", document.count(b":"), MAX_NAMES),
        ("values", document.count(b","), MAX_VALUES),
    )
    return next((count for count in counts if count[1] > count[2]), None)
