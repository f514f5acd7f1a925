"""Channels: where people are told what became of alerts."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.errors import ErrorDetail, ServerError
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
    Admitted,
    ServicesDep,
    data_of,
    errors,
    request_body,
)

router = APIRouter(prefix="/api/v1/channels", tags=["channels"], responses=errors(*READ_ERRORS))

Model = TypeVar("Model", bound=BaseModel)
ChannelId = Annotated[int, Path(ge=1, lt=2**63)]
_BODY_ERRORS = errors(400, 403, 408, 409, 413, 415, 429)


def _private(model: type[Model]) -> Callable[..., Awaitable[Model]]:
    """A dependency that reads a body with secrets in it: what was given is not shown in errors."""
    read = data_of(model)

    async def read_privately(request: Request, services: ServicesDep, place: Admitted) -> Model:
        try:
            return await read(request, services, place)
        except ServerError as error:
            error.details = [ErrorDetail(loc=one.loc, message=one.message) for one in error.details]
            raise

    return read_privately


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
    services: ServicesDep, body: Annotated[ChannelDraft, Depends(_private(ChannelDraft))]
) -> ChannelReceipt:
    """Makes a channel; the secret of a webhook is answered this once, if none was given."""
    # Not among the writes of data: a name that nobody resolves takes seconds.
    return await run_in_threadpool(services.channels.create, body)


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
    body: Annotated[ChannelUpdate, Depends(_private(ChannelUpdate))],
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
