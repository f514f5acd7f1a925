"""Request bodies: read up to a limit, unfolded up to a limit, checked, and explained when they are wrong."""

import asyncio
import logging
import math
import zlib
from collections.abc import Callable, Iterator
from typing import TypeVar

import zstandard
from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import ClientDisconnect

from collapsewatch_server.errors import (
    BodyTooLarge,
    BodyTooSlow,
    ErrorDetail,
    InvalidBody,
    MalformedRequest,
    UnsupportedEncoding,
    wrong,
)
from collapsewatch_server.web.crowding import refuse_crowded
from collapsewatch_server.web.gate import Place
from collapsewatch_server.web.previews import preview

log = logging.getLogger(__name__)

Model = TypeVar("Model", bound=BaseModel)

SMALL_BODY_BYTES = 4 * 2**20
"""Limit of every body that is no batch and no result."""
TINY_BODY_BYTES = 64 * 2**10
"""Limit of what comes every few seconds."""
_MAX_DETAILS = 20
_MAX_LISTED = 10_000
_ABSENT = object()
# One kilobyte of zstd unfolds to 32 MiB at most, so a bomb is noticed before it costs memory.
_SLICE_BYTES = 1 << 10
_MAX_WINDOW_BYTES = 1 << 27
_GZIP_WINDOW_BITS = 31
# How much larger rollouts are than their compressed form, most of the time.
_USUAL_RATIO = 4
_SLOWEST_BYTES_PER_SECOND = 16 * 2**10


async def read_model(
    request: Request,
    model: type[Model],
    *,
    max_request_bytes: int,
    max_bytes: int,
    body_seconds: float,
    place: Place,
    count: Callable[[int], None] = lambda num_bytes: None,
) -> Model:
    """The body as a `model`.

    Args:
        max_request_bytes: limit as sent.
        max_bytes: limit after decompression.
        body_seconds: how long it may take to arrive, besides what its size allows.
        place: where the bytes of all requests together are counted.
        count: is told how many bytes have come, and before that how many are announced.

    Raises:
        MalformedRequest, BodyTooLarge, BodyTooSlow, UnsupportedEncoding, InvalidBody, TooBusy; what `count`
        raises.
    """
    # The content type is not asked for: `curl -d` sends that of a form, and every such call needs a key.
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in _UNFOLDERS:
        raise UnsupportedEncoding(
            "the body may be plain, zstd or gzip", [wrong("content-encoding", "unknown encoding", encoding)]
        )
    declared = _declared_bytes(request, max_request_bytes)
    count(declared)
    # A guess, so that what will not fit is told so before it is sent.
    place.hold(min(declared * (1 if encoding == "identity" else _USUAL_RATIO), max_bytes))

    def come(num_bytes: int) -> None:
        count(num_bytes)
        place.hold(num_bytes)

    body = await _read(request, max_request_bytes, body_seconds, come)
    place.expect_answer()
    parsed, num_bytes = await place.parse(_parse, model, body, encoding, max_bytes, place.hold)
    place.settle(num_bytes)
    return parsed


def _declared_bytes(request: Request, max_bytes: int) -> int:
    declared = request.headers.get("content-length", "")
    if not declared.isdecimal() or len(declared) > 20:
        return 0
    if int(declared) > max_bytes:
        raise _too_large(max_bytes, "as sent", int(declared))
    return int(declared)


async def _read(
    request: Request, max_bytes: int, body_seconds: float, hold: Callable[[int], None]
) -> bytearray:
    body = bytearray()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + body_seconds
    try:
        async with asyncio.timeout_at(deadline) as clock:
            async for chunk in request.stream():
                body += chunk
                if len(body) > max_bytes:
                    raise _too_large(max_bytes, "as sent", len(body))
                hold(len(body))
                clock.reschedule(deadline + len(body) / _SLOWEST_BYTES_PER_SECOND)
    except ClientDisconnect:
        raise MalformedRequest(f"the connection ended after {len(body)} bytes of the body") from None
    except TimeoutError:
        raise BodyTooSlow(
            f"only {len(body)} bytes of the body came within {loop.time() - deadline + body_seconds:.0f} s"
        ) from None
    return body


def _parse(
    model: type[Model], body: bytearray, encoding: str, max_bytes: int, hold: Callable[[int], None]
) -> tuple[Model, int]:
    """The body as a `model`, and its size without its compression."""
    document = unfold(body, encoding, max_bytes, hold)
    if not document:
        raise MalformedRequest("the body is empty", [wrong("body", f"a {model.__name__} is expected", "")])
    refuse_crowded(document)
    try:
        # Strict about the bytes too: invalid UTF-8, lone surrogates and depths above 200 are errors here.
        parsed = model.model_validate_json(document)
    except ValidationError as error:
        raise _refusal(error, document) from None
    except RecursionError:
        raise MalformedRequest("the body is nested too deeply") from None
    _refuse_unstorable(model, parsed)
    return parsed, len(document)


def unfold(
    body: bytes | bytearray,
    encoding: str,
    max_bytes: int,
    hold: Callable[[int], None] = lambda num_bytes: None,
) -> bytes:
    """The body without its compression, stopped at the limit; `hold` is told how large it has become.

    Raises:
        BodyTooLarge: more than `max_bytes`.
        MalformedRequest: not what the encoding says, cut short, or followed by more.
    """
    pieces = []
    num_bytes = 0
    try:
        for piece in _UNFOLDERS[encoding](body):
            num_bytes += len(piece)
            if num_bytes > max_bytes:
                raise _too_large(max_bytes, "after decompression", None)
            hold(num_bytes)
            pieces.append(piece)
    except (zstandard.ZstdError, zlib.error) as error:
        raise MalformedRequest(
            f"the body is not {encoding}", [wrong("body", str(error), body[:40])]
        ) from None
    return b"".join(pieces)


def _unfold_zstd(body: bytes | bytearray) -> Iterator[bytes]:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES).decompressobj()
    for start in range(0, len(body), _SLICE_BYTES):
        if decompressor.eof:
            raise MalformedRequest(f"{len(body) - start} bytes follow the end of the compressed body")
        yield decompressor.decompress(body[start : start + _SLICE_BYTES])
    if not decompressor.eof:
        raise MalformedRequest(f"the compressed body is cut short after {len(body)} bytes")
    if decompressor.unused_data:
        raise MalformedRequest(f"{len(decompressor.unused_data)} bytes follow the end of the compressed body")


def _unfold_gzip(body: bytes | bytearray) -> Iterator[bytes]:
    decompressor = zlib.decompressobj(wbits=_GZIP_WINDOW_BITS)
    waiting = bytes(body)
    while waiting and not decompressor.eof:
        yield decompressor.decompress(waiting, 1 << 20)
        waiting = decompressor.unconsumed_tail
    if not decompressor.eof:
        raise MalformedRequest(f"the compressed body is cut short after {len(body)} bytes")
    if decompressor.unused_data:
        raise MalformedRequest(f"{len(decompressor.unused_data)} bytes follow the end of the compressed body")


def _unfold_plain(body: bytes | bytearray) -> Iterator[bytes]:
    yield bytes(body)


_UNFOLDERS = {"identity": _unfold_plain, "zstd": _unfold_zstd, "gzip": _unfold_gzip}


def _too_large(max_bytes: int, when: str, given: int | None) -> BodyTooLarge:
    shown = "more" if given is None else f"{given} bytes or more"
    return BodyTooLarge(
        f"the body may hold {max_bytes} bytes {when}",
        [ErrorDetail(loc="body", message=f"larger than {max_bytes} bytes {when}", given=shown)],
    )


def details_of(error: ValidationError, *, with_given: bool = True) -> list[ErrorDetail]:
    """What pydantic found, as details: at most twenty of them."""
    found = error.errors(include_url=False, include_context=False, include_input=with_given)
    details = [_detail(item) for item in found[:_MAX_DETAILS]]
    if len(found) > _MAX_DETAILS:
        rest = f"{len(found) - _MAX_DETAILS} more errors are not listed"
        details.append(ErrorDetail(loc="", message=rest))
    return details


def _detail(item: ErrorDetails) -> ErrorDetail:
    loc = ".".join(str(part) for part in item["loc"])
    if item.get("input", _ABSENT) is _ABSENT:
        return ErrorDetail(loc=loc, message=item["msg"])
    return wrong(loc, item["msg"], item["input"])


def _refusal(error: ValidationError, document: bytes) -> MalformedRequest | InvalidBody:
    num_errors = error.error_count()
    if num_errors > _MAX_LISTED:
        message = f"the body is not a {error.title}: {num_errors} errors"
        return InvalidBody(message, [ErrorDetail(loc="", message=f"{num_errors} errors, too many to list")])
    (first_found, *_) = error.errors(include_url=False, include_input=False)
    if first_found["type"] == "json_invalid":
        return MalformedRequest("the body is not JSON", [wrong("body", first_found["msg"], document[:400])])
    # What was given may be a list of millions, and all of it would be made again for its first characters.
    details = details_of(error, with_given=len(document) <= SMALL_BODY_BYTES)
    first = details[0]
    where = f" at `{first.loc}`" if first.loc else ""
    return InvalidBody(f"the body is not a {error.title}{where}: {first.message}", details)


def _refuse_unstorable(model: type[BaseModel], parsed: BaseModel) -> None:
    """Free JSON may hold NaN and names may hold NUL, which PostgreSQL cannot store: refused on both."""
    details: list[ErrorDetail] = []
    for name, value in parsed:
        if name in ("rollouts", "cross_log_probs", "evaluations", "template_evidence", "traceback", "error"):
            continue  # kept as JSON or cleaned, and numbers are checked by their types
        details += list(_unstorable(name, value))[: _MAX_DETAILS - len(details)]
    if details:
        first = details[0]
        message = f"the body is not a {model.__name__} at `{first.loc}`: {first.message}"
        raise InvalidBody(message, details)


def _unstorable(loc: str, value: object) -> Iterator[ErrorDetail]:
    if isinstance(value, str) and "\x00" in value:
        yield wrong(loc, "NUL characters cannot be stored", value)
    elif isinstance(value, float) and not math.isfinite(value):
        yield ErrorDetail(loc=loc, message="Input should be a finite number", given=str(value))
    elif isinstance(value, BaseModel):
        for name, field in value:
            yield from _unstorable(f"{loc}.{name}", field)
    elif isinstance(value, dict):
        for key, item in value.items():
            if "\x00" in str(key):
                yield wrong(loc, "NUL characters cannot be stored", key)
            yield from _unstorable(f"{loc}.{preview(key).strip(chr(34))}", item)
    elif isinstance(value, list | tuple):
        for position, item in enumerate(value):
            yield from _unstorable(f"{loc}.{position}", item)
