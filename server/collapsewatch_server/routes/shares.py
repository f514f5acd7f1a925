"""Links by which people show runs to others: made, listed and ended from the page."""

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.concurrency import run_in_threadpool

from collapsewatch_server.sharing.views import ShareDraft, ShareList, ShareReceipt, ShareView
from collapsewatch_server.web.deps import (
    READ_ERRORS,
    ServicesDep,
    data_of,
    errors,
    request_body,
)
from collapsewatch_server.web.noting import note_target
from collapsewatch_server.web.traffic import Costly

router = APIRouter(prefix="/api/v1/shares", tags=["shares"], responses=errors(*READ_ERRORS))

ShareId = Annotated[int, Path(ge=1, lt=2**63)]
OfRun = Annotated[
    str | None,
    Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$", description="Only links that show this run."),
]


@router.get("")
def list_shares(services: ServicesDep, run: OfRun = None) -> ShareList:
    """Links, newest first, also those that ended in the last 30 days. Their tokens are not answered."""
    return services.shares.listed(run)


@router.post(
    "",
    status_code=201,
    responses=errors(400, 403, 408, 409, 413, 415, 429),
    openapi_extra=request_body(ShareDraft),
)
async def create_share(
    request: Request,
    turn: Costly,
    services: ServicesDep,
    body: Annotated[ShareDraft, Depends(data_of(ShareDraft))],
) -> ShareReceipt:
    """Makes a link; it is answered this once. Whoever has it can read what it shows, and nothing else.

    A snapshot keeps of each run every point of series up to 10,000 points and every scored step up to
    2,000 of them; of more, the extremes, evenly taken steps, and those where alerts opened.
    """
    shown = ", with what the model wrote" * body.with_rollouts
    note_target(
        request, f"{body.title!r}, {body.mode} of {', '.join(body.run_ids)}{shown}", run_ids=body.run_ids
    )
    made = await run_in_threadpool(services.shares.create, body)
    note_target(request, f"link {made.share.share_id}")
    return made


@router.delete("/{share_id}", responses=errors(403))
def revoke_share(share_id: ShareId, services: ServicesDep) -> ShareView:
    """Ends a link: from the next request on nobody can read anything by it. Again is harmless."""
    return services.shares.revoke(share_id)
