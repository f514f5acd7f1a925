"""The start of a value as JSON, short whatever it is, for error messages."""

import json
from itertools import islice

MAX_PREVIEW_CHARS = 200
_MAX_ITEMS = 8
_MAX_DEPTH = 3


def preview(value: object, max_chars: int = MAX_PREVIEW_CHARS) -> str:
    """The start of `value` as JSON, at most `max_chars` characters; never walks through a large value."""
    text = _render(value, max_chars, _MAX_DEPTH)
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _render(value: object, max_chars: int, depth: int) -> str:
    if isinstance(value, bytes | bytearray):
        value = bytes(value[:max_chars]).decode("utf-8", "backslashreplace")
    if isinstance(value, str):
        return json.dumps(value[:max_chars], ensure_ascii=False).encode("utf-8", "replace").decode()
    if value is None or isinstance(value, bool | float):
        return json.dumps(value)
    if isinstance(value, int):
        # str() of an int with thousands of digits is quadratic, and refused from 4,300 on.
        return str(value) if value.bit_length() < 1000 else f"an integer of {value.bit_length()} bits"
    if isinstance(value, dict):
        return _container(
            "{}", [(str(k), v) for k, v in islice(value.items(), _MAX_ITEMS)], len(value), max_chars, depth
        )
    if isinstance(value, list | tuple | set | frozenset):
        return _container("[]", [("", v) for v in islice(value, _MAX_ITEMS)], len(value), max_chars, depth)
    return repr(value)[:max_chars]


def _container(brackets: str, items: list[tuple[str, object]], size: int, max_chars: int, depth: int) -> str:
    if depth == 0 and size:
        return f"{brackets[0]}…{brackets[1]}"
    parts = []
    num_chars = 0
    for key, item in items:
        text = _render(item, max_chars, depth - 1)
        parts.append(f"{json.dumps(key, ensure_ascii=False)}: {text}" if brackets == "{}" else text)
        num_chars += len(parts[-1])
        if num_chars > max_chars:
            break
    if len(parts) < size:
        parts.append("…")
    return brackets[0] + ", ".join(parts) + brackets[1]
