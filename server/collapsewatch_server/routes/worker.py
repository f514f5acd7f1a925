"""What workers call: claim a job, keep it, hand in what came of it."""

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response, status
from starlette.concurrency import run_in_threadpool

from collapsewatch.contracts.scoring import ClaimRequest, Job, JobFailure, Lease, LeaseState, ScoringResult
from collapsewatch_server.reading.views import Accepted, JobStatusView
from collapsewatch_server.web.deps import (
    BODY_ERRORS,
    JobId,
    ServicesDep,
    WorkerCaller,
    body_of,
    errors,
    request_body,
)

router = APIRouter(prefix="/api/v1/worker", tags=["worker"], responses=errors(*BODY_ERRORS))


@router.post(
    "/claim",
    response_model=Job,
    responses={204: {"description": "There is no job."}},
    openapi_extra=request_body(ClaimRequest),
)
async def claim(
    caller: WorkerCaller,
    request: Request,
    services: ServicesDep,
    body: Annotated[ClaimRequest, Depends(body_of(ClaimRequest))],
) -> Job | Response:
    """Leases a job to the worker; waits up to `wait_seconds` for one. The lease ends unless it is kept."""
    deadline = time.monotonic() + body.wait_seconds
    claims = services.claims
    # Between two looks the call holds neither a thread nor a connection, however many workers wait.
    while not claims.closed and not await request.is_disconnected():
        sequence = claims.sequence
        job = await run_in_threadpool(services.queue.claim, body)
        if job is not None:
            return job
        left_seconds = deadline - time.monotonic()
        if left_seconds <= 0:
            break
        # Jobs that another server process queued ring no bell here.
        await claims.wait(sequence, min(services.settings.poll_seconds, left_seconds))
    return Response(status_code=status.HTTP_204_NO_CONTENT)


@router.post("/jobs/{job_id}/beat", openapi_extra=request_body(Lease))
def beat(
    caller: WorkerCaller,
    job_id: JobId,
    services: ServicesDep,
    body: Annotated[Lease, Depends(body_of(Lease))],
) -> LeaseState:
    """Begins the lease anew, while the worker holds it."""
    return LeaseState(held=services.queue.beat(job_id, body.worker))


@router.post("/jobs/{job_id}/done", openapi_extra=request_body(ScoringResult))
def done(
    caller: WorkerCaller,
    job_id: JobId,
    services: ServicesDep,
    body: Annotated[ScoringResult, Depends(body_of(ScoringResult, large=True))],
) -> Accepted:
    """Hands in a result. The first good one counts, whoever holds the lease by now."""
    return Accepted(accepted=services.results.accept(job_id, body))


@router.post("/jobs/{job_id}/fail", openapi_extra=request_body(JobFailure))
def fail(
    caller: WorkerCaller,
    job_id: JobId,
    services: ServicesDep,
    body: Annotated[JobFailure, Depends(body_of(JobFailure))],
) -> JobStatusView:
    """Says that a job went wrong: it goes back to its place in the queue, or it is dead."""
    return JobStatusView.model_validate({"status": services.queue.fail(job_id, body)})
