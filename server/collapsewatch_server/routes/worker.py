"""What workers call: claim a job, keep it, hand in what came of it."""

import time
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response, status

from collapsewatch.contracts.scoring import ClaimRequest, Job, JobFailure, Lease, LeaseState, ScoringResult
from collapsewatch_server.errors import TooBusy
from collapsewatch_server.reading.views import Accepted, JobStatusView
from collapsewatch_server.web.bodies import SMALL_BODY_BYTES
from collapsewatch_server.web.deps import (
    BODY_ERRORS,
    AdmittedWork,
    JobId,
    ServicesDep,
    WorkerCaller,
    errors,
    request_body,
    work_of,
)

router = APIRouter(prefix="/api/v1/worker", tags=["worker"], responses=errors(*BODY_ERRORS, 429))


@router.post(
    "/claim",
    response_model=Job,
    responses={204: {"description": "There is no job."}},
    openapi_extra=request_body(ClaimRequest),
)
async def claim(
    place: AdmittedWork,
    caller: WorkerCaller,
    request: Request,
    services: ServicesDep,
    body: Annotated[ClaimRequest, Depends(work_of(ClaimRequest))],
) -> Job | Response:
    """Leases a job to the worker; waits up to `wait_seconds` for one. The lease ends unless it is kept."""
    deadline = time.monotonic() + body.wait_seconds
    claims = services.claims
    # Between two looks the call holds neither a thread nor a connection, however many workers wait.
    while not claims.closed and not await request.is_disconnected():
        sequence = claims.sequence
        place.expect_answer()
        job = await place.write(services.queue.claim, body, caller.key_id)
        if job is not None:
            return job
        left_seconds = deadline - time.monotonic()
        if left_seconds <= 0:
            break
        # Jobs that another server process queued ring no bell here.
        await claims.wait(sequence, min(services.settings.poll_seconds, left_seconds))
    return Response(status_code=status.HTTP_204_NO_CONTENT)


async def _hears_of_refusals(services: ServicesDep) -> AsyncIterator[None]:
    """Around all else, so that no lease ends because its worker was told to come again."""
    try:
        yield
    except TooBusy:
        services.queue.missed()
        raise


@router.post(
    "/jobs/{job_id}/beat", openapi_extra=request_body(Lease), dependencies=[Depends(_hears_of_refusals)]
)
async def beat(
    place: AdmittedWork,
    caller: WorkerCaller,
    job_id: JobId,
    services: ServicesDep,
    body: Annotated[Lease, Depends(work_of(Lease))],
) -> LeaseState:
    """Begins the lease anew, while the worker holds it."""
    return LeaseState(held=await place.write(services.queue.beat, job_id, body.worker, caller.key_id))


@router.post("/jobs/{job_id}/done", responses=errors(409), openapi_extra=request_body(ScoringResult))
async def done(
    place: AdmittedWork,
    caller: WorkerCaller,
    job_id: JobId,
    services: ServicesDep,
    body: Annotated[ScoringResult, Depends(work_of(ScoringResult, max_bytes=None))],
) -> Accepted:
    """Hands in a result, of a job that was claimed with this key. The first good one counts."""
    return Accepted(accepted=await place.write(services.results.accept, job_id, body, caller.key_id))


@router.post("/jobs/{job_id}/fail", openapi_extra=request_body(JobFailure))
async def fail(
    place: AdmittedWork,
    caller: WorkerCaller,
    job_id: JobId,
    services: ServicesDep,
    body: Annotated[JobFailure, Depends(work_of(JobFailure, max_bytes=SMALL_BODY_BYTES))],
) -> JobStatusView:
    """Says that a job went wrong: it goes back to its place in the queue, or it is dead."""
    return JobStatusView.model_validate(
        {"status": await place.write(services.queue.fail, job_id, body, caller.key_id)}
    )
