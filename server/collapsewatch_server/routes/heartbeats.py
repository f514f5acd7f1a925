"""Signs of life of trainers and workers."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response, status

from collapsewatch.contracts.runs import Heartbeat, HeartbeatReceipt
from collapsewatch.contracts.scoring import WorkerHeartbeat
from collapsewatch_server.web.deps import (
    BODY_ERRORS,
    AdmittedBeat,
    BeatingCaller,
    BeatingWorker,
    RunId,
    ServicesDep,
    beat_of,
    errors,
    request_body,
)

router = APIRouter(prefix="/api/v1", responses=errors(*BODY_ERRORS, 429))


@router.post("/runs/{run_id}/heartbeat", tags=["ingest"], openapi_extra=request_body(Heartbeat))
async def heartbeat(
    run_id: RunId,
    place: AdmittedBeat,
    caller: BeatingCaller,
    services: ServicesDep,
    body: Annotated[Heartbeat, Depends(beat_of(Heartbeat))],
) -> HeartbeatReceipt:
    """Says that a process that logs to the run is alive, and what waits in its spool.

    Send one every ten seconds or so: a run that is silent for longer than `stall_seconds` has stalled. Data
    is a sign of life as well.
    """
    run, _ = await place.check(services.runs.open_run, caller, run_id)
    receipt = await place.write(services.heartbeats.of_writer, run, body)
    services.meters.count_heartbeat("trainer")
    return receipt


@router.post(
    "/worker/heartbeat",
    tags=["worker"],
    status_code=status.HTTP_204_NO_CONTENT,
    response_class=Response,
    openapi_extra=request_body(WorkerHeartbeat),
)
async def worker_heartbeat(
    place: AdmittedBeat,
    caller: BeatingWorker,
    services: ServicesDep,
    body: Annotated[WorkerHeartbeat, Depends(beat_of(WorkerHeartbeat))],
) -> None:
    """Says that a worker is alive, with or without a job in hand; every five seconds or so."""
    await place.write(services.heartbeats.of_worker, body)
    services.meters.count_heartbeat("worker")
