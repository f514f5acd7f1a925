"""Live events for open pages, by server-sent events."""

import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.sse import EventSourceResponse, ServerSentEvent
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.access.visible import seeing
from collapsewatch_server.errors import Forbidden, Unauthorised
from collapsewatch_server.events import follow
from collapsewatch_server.repositories.events import StoredEvent
from collapsewatch_server.web.deps import READ_ERRORS, ServicesDep, errors
from collapsewatch_server.web.guard import StillSeen
from collapsewatch_server.web.traffic import LiveStream

router = APIRouter(prefix="/api/v1", tags=["read"], responses=errors(*READ_ERRORS))

_EVENTS_PER_LOOK = 500
_RECONNECT_MILLISECONDS = 1000
_LARGEST_ID = 2**63 - 1


@router.get("/stream", response_class=EventSourceResponse)
async def stream(
    live: LiveStream,
    request: Request,
    services: ServicesDep,
    run_id: Annotated[str | None, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$")] = None,
    resume_after: Annotated[
        int | None, Query(alias="last_event_id", ge=0, le=_LARGEST_ID, description="As `Last-Event-ID`.")
    ] = None,
    last_event_id: Annotated[int | None, Header(ge=0, le=_LARGEST_ID)] = None,
    max_missed: Annotated[
        int | None, Query(ge=0, description="Begin with `hello` when more events than these were missed.")
    ] = None,
) -> AsyncIterator[ServerSentEvent]:
    """Events of one run or of all: `run`, `batch`, `metrics`, `alert`, `job`.

    A new stream begins with `hello`, which carries the newest id. One that resumes, by the header
    `Last-Event-ID` or the parameter of that name, begins with what it has missed: nothing is lost by a broken
    connection or a restart of the server. Events are kept for a day, the last million of them: one that
    resumes after an older one begins with `hello` too, and has to load again what it shows. It ends, within
    seconds, with the session or the key that it was asked for with.
    `data` is `{"run_id", "project", "step"?, "scope"?, …}`.
    """
    reading = services.reading
    # The browser's own header is the newer of the two when it reconnects by itself.
    start = last_event_id if last_event_id is not None else resume_after
    oldest, newest = await run_in_threadpool(reading.kept_event_ids)
    # An id that is still to come is from a database that is no more; waiting for it would be silence. What
    # came between one of long ago and the oldest is gone.
    # A page that was asleep for a night loads everything sooner than it hears of every step.
    too_many = max_missed is not None and start is not None and newest - start > max_missed
    if start is None or too_many or not oldest - 1 <= start <= newest:
        start = newest
        yield ServerSentEvent(
            event="hello", id=str(start), data={"last_event_id": start}, retry=_RECONNECT_MILLISECONDS
        )
    else:
        # The headers reach the page with the first bytes, so that it knows that the stream is open.
        yield ServerSentEvent(comment="resumed", retry=_RECONNECT_MILLISECONDS)

    still = StillSeen(request)

    async def read_after(event_id: int) -> list[StoredEvent]:
        # Asked at each look: a stream stays open for days, and whoever signs out expects it to go quiet.
        with seeing(await still.visible()):
            return await run_in_threadpool(reading.events_after, event_id, run_id, _EVENTS_PER_LOOK)

    try:
        async for event in follow(services.hub, read_after, start):
            yield ServerSentEvent(
                event=event.kind,
                id=str(event.event_id),
                raw_data=json.dumps(event.data, separators=(",", ":")),
            )
    except (Unauthorised, Forbidden):
        # The page asks again, and then it is told.
        return
