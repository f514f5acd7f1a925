"""Documents of very many small values are refused before they are parsed, however they are made up."""

import json
import time

import pytest

from collapsewatch_server.errors import BodyTooLarge
from collapsewatch_server.web.crowding import MAX_CONTAINERS, refuse_crowded

CROWD = b"[" * (MAX_CONTAINERS + 1)


def test_what_stands_in_strings_does_not_count() -> None:
    refuse_crowded(json.dumps({"prompt": CROWD.decode(), "and": '\\"' + "{" * MAX_CONTAINERS}).encode())


@pytest.mark.parametrize("end", [b"", b'"', b"\\", b'\\"', b'""', b'"x\\"'])
def test_what_stands_outside_of_them_does(end: bytes) -> None:
    with pytest.raises(BodyTooLarge, match="objects and arrays"):
        refuse_crowded(CROWD + end)


@pytest.mark.parametrize("piece", [b'\\"', b"\\\\", b'""', b'"', b'x\\"'])
def test_a_string_that_is_never_closed_takes_no_longer_than_any_other(piece: bytes) -> None:
    start = time.thread_time()
    with pytest.raises(BodyTooLarge):
        refuse_crowded(CROWD + b'"' + piece * 200_000)
    # It took more than five minutes, with the interpreter's lock held.
    assert time.thread_time() - start < 10
