"""Counts requests before anything is done for them, and their bytes as they arrive."""

from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import Depends, Request

from collapsewatch_server.access.rules import RULES, Door, Rule
from collapsewatch_server.services import Services
from collapsewatch_server.throttling.traffic import Bucket, Sender, Traffic, sender_of
from collapsewatch_server.web.cookies import session_token
from collapsewatch_server.web.guard import credentials_of

_SAFE_METHODS = frozenset({"GET", "HEAD"})
# Whoever is told to wait would look dead. These pass a gate of their own, and cost little.
_SIGNS_OF_LIFE = ("/heartbeat", "/beat", "/alerts/standing")
_STREAM = "/stream"
_API = "/api/"
# A provider sends people back here, and each of them has it asked whether that is true.
_BACK = "/api/v1/session/provider/back"
# It writes to the database and to the blob store, and anybody may ask for it.
_READY = "/readyz"
_BUCKETS = {Door.trainers: Bucket.ingest, Door.workers: Bucket.worker, Door.link: Bucket.links}


async def counted(request: Request) -> None:
    """Counts the request.

    Raises:
        TooManyRequests: it is one too many.
    """
    traffic: Traffic = request.app.state.services.throttle.traffic
    sender = sender_of(_credential(request), credentials_of(request).address)
    request.state.sender = sender
    bucket = _bucket_of(request.method, request.scope["route"].path)
    if bucket is not None:
        traffic.count(bucket, sender)


async def streaming(request: Request) -> AsyncIterator[None]:
    """Around a live stream, which counts for as long as it is open and not by the minute.

    Raises:
        TooManyRequests: its caller has too many of them.
    """
    traffic: Traffic = request.app.state.services.throttle.traffic
    with traffic.streaming(request.state.sender):
        yield


LiveStream = Annotated[None, Depends(streaming)]
"""Parameter of a route that sends events."""


def _credential(request: Request) -> str | None:
    """What the request shows of itself. Of a link it is the link: all who have it are one caller."""
    token: str | None = request.path_params.get("token")
    return token or request.headers.get("authorization") or session_token(request)


def _bucket_of(method: str, path: str) -> Bucket | None:
    """Where the request counts; the page itself and the question whether the process lives count nowhere."""
    rule: Rule | Door | None = RULES.get((method, path))
    is_reading = method in _SAFE_METHODS
    if rule is None or rule is Door.everybody:
        if path == _BACK or not is_reading:
            return Bucket.entry
        return Bucket.reads if path == _READY or path.startswith(_API) else None
    if path.endswith((*_SIGNS_OF_LIFE, _STREAM)):
        return None
    if isinstance(rule, Door):
        return _BUCKETS[rule]
    return Bucket.reads if is_reading else Bucket.writes


class BodyCount:
    """Counts the bytes of one body: what is announced at once, and what comes beyond that as it comes."""

    def __init__(self, request: Request) -> None:
        services: Services = request.app.state.services
        self._traffic = services.throttle.traffic
        self._sender: Sender = request.state.sender
        self._num_counted = 0

    def come(self, num_bytes: int) -> None:
        """Notes that it has so many bytes in all. Raises TooManyRequests."""
        if num_bytes > self._num_counted:
            self._traffic.count_bytes(self._sender, num_bytes - self._num_counted)
            self._num_counted = num_bytes


async def costly(request: Request) -> AsyncIterator[None]:
    """Around an answer that takes seconds of a core: one caller has few of them made at once.

    Raises:
        TooManyRequests: its other ones were not done in time.
    """
    services: Services = request.app.state.services
    sender: Sender = request.state.sender
    async with services.throttle.turns.turn(sender.caller or sender.address):
        yield


Costly = Annotated[None, Depends(costly)]
"""Parameter of a route whose answer is one of these."""
