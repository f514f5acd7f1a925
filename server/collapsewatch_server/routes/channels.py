"""Channels: where people are told what became of alerts."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.notify.views import (
    ChannelDraft,
    ChannelList,
    ChannelReceipt,
    ChannelUpdate,
    ChannelView,
    Deleted,
    DeliveryList,
    DeliveryView,
)
from collapsewatch_server.web.deps import (
    READ_ERRORS,
    ServicesDep,
    errors,
    private_data_of,
    request_body,
)
from collapsewatch_server.web.noting import note_target

router = APIRouter(prefix="/api/v1/channels", tags=["channels"], responses=errors(*READ_ERRORS))

ChannelId = Annotated[int, Path(ge=1, lt=2**63)]
_BODY_ERRORS = errors(400, 403, 408, 409, 413, 415, 429)


@router.get("")
def list_channels(services: ServicesDep) -> ChannelList:
    """All channels by name, and how each stands. Addresses and secrets are not answered."""
    return services.channels.all()


@router.post(
    "",
    status_code=201,
    responses=_BODY_ERRORS,
    openapi_extra=request_body(ChannelDraft),
)
async def create_channel(
    request: Request,
    services: ServicesDep,
    body: Annotated[ChannelDraft, Depends(private_data_of(ChannelDraft))],
) -> ChannelReceipt:
    """Makes a channel; the secret of a webhook is answered this once, if none was given."""
    # Not among the writes of data: a name that nobody resolves takes seconds.
    note_target(request, f"{body.name!r}", project=body.project)
    made = await run_in_threadpool(services.channels.create, body)
    note_target(request, f"channel {made.channel.channel_id}")
    return made


@router.get("/{channel_id}")
def get_channel(channel_id: ChannelId, services: ServicesDep) -> ChannelView:
    """One channel."""
    return services.channels.one(channel_id)


@router.patch(
    "/{channel_id}",
    responses=_BODY_ERRORS,
    openapi_extra=request_body(ChannelUpdate),
)
async def update_channel(
    channel_id: ChannelId,
    services: ServicesDep,
    body: Annotated[ChannelUpdate, Depends(private_data_of(ChannelUpdate))],
) -> ChannelReceipt:
    """Changes a channel; what is absent stays as it is."""
    return await run_in_threadpool(services.channels.update, channel_id, body)


@router.delete("/{channel_id}", responses=errors(403))
def delete_channel(channel_id: ChannelId, services: ServicesDep) -> Deleted:
    """Removes a channel, what waits for it, and its history."""
    services.channels.remove(channel_id)
    return Deleted(deleted=True)


@router.post("/{channel_id}/test", responses=errors(403, 429))
def test_channel(channel_id: ChannelId, services: ServicesDep) -> DeliveryView:
    """Sends a test message now, once, and answers what became of it."""
    return services.channels.test(channel_id)


@router.get("/{channel_id}/deliveries")
def list_deliveries(
    channel_id: ChannelId,
    services: ServicesDep,
    before: Annotated[
        int | None, Query(ge=1, lt=2**63, description="`next_before` of the last page.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> DeliveryList:
    """What was sent to the channel and what is being tried, newest first."""
    return services.channels.deliveries(channel_id, before, limit)
