"""What trainers call: open runs, send batches and scalars."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Response, status

from collapsewatch.contracts.rollouts import RolloutBatch, ScalarBatch
from collapsewatch.contracts.runs import BatchReceipt, RunReceipt, RunStart, RunUpdate, ScalarReceipt
from collapsewatch_server.web.deps import (
    BODY_ERRORS,
    Admitted,
    IngestCaller,
    OpenRunDep,
    ServicesDep,
    data_of,
    errors,
    request_body,
)

router = APIRouter(prefix="/api/v1", tags=["ingest"], responses=errors(*BODY_ERRORS, 429))

Late = Annotated[
    bool,
    Header(
        alias="X-Collapsewatch-Late",
        description="`1` for what comes from the spool of a process that has ended: it is no sign of life.",
    ),
]


@router.post(
    "/runs",
    status_code=status.HTTP_201_CREATED,
    responses={200: {"model": RunReceipt, "description": "The run was there already."}, **errors(409)},
    openapi_extra=request_body(RunStart),
    response_description="The run is open.",
)
async def start_run(
    place: Admitted,
    caller: IngestCaller,
    services: ServicesDep,
    response: Response,
    body: Annotated[RunStart, Depends(data_of(RunStart))],
    late: Late = False,
) -> RunReceipt:
    """Opens a run, or resumes it. The client chooses the id; sending the same again is harmless.

    A new `attempt` supersedes what earlier ones sent from its first step on; all of it can still be read by
    attempt. With `resume` set to `must` the run has to be there (404), with `never` it must not be (409),
    unless it is the same start again, which is known by its `attempt` or else by its `writer_id`.
    """
    receipt = await place.write(partial(services.runs.start_run, late=late), caller, body)
    if not receipt.created:
        response.status_code = status.HTTP_200_OK
    return receipt


@router.patch("/runs/{run_id}", openapi_extra=request_body(RunUpdate))
async def update_run(
    place: Admitted,
    opened: OpenRunDep,
    services: ServicesDep,
    body: Annotated[RunUpdate, Depends(data_of(RunUpdate))],
    late: Late = False,
) -> RunReceipt:
    """Changes a run's state, scorer or config entries; what is not given stays as it is."""
    return await place.write(partial(services.runs.update_run, late=late), opened.run, opened.project, body)


@router.post(
    "/runs/{run_id}/batches",
    status_code=status.HTTP_202_ACCEPTED,
    responses={
        200: {"model": BatchReceipt, "description": "The batch had been accepted before."},
        **errors(409),
    },
    openapi_extra=request_body(RolloutBatch),
    response_description="The batch is stored and will be scored.",
)
async def add_batch(
    place: Admitted,
    opened: OpenRunDep,
    services: ServicesDep,
    response: Response,
    body: Annotated[RolloutBatch, Depends(data_of(RolloutBatch, large=True))],
    late: Late = False,
) -> BatchReceipt:
    """Accepts one training step's rollouts. An answer of 2xx means that they are stored for good.

    The same batch sent again is answered with 200 and changes nothing. Several batches of one step are kept,
    and the one logged last stands for the step. Ranks that hold parts of a step say so with `shard`: the
    parts are scored together, which gives the prompts more neighbours to be told from.
    """
    receipt = await place.write(partial(services.batches.add, late=late), opened.run, opened.project, body)
    services.meters.count_batch(
        duplicate=receipt.duplicate, num_rollouts=len(body.rollouts), num_bytes=place.num_bytes
    )
    if receipt.duplicate:
        response.status_code = status.HTTP_200_OK
    return receipt


@router.post("/runs/{run_id}/scalars", openapi_extra=request_body(ScalarBatch))
async def add_scalars(
    place: Admitted,
    opened: OpenRunDep,
    services: ServicesDep,
    body: Annotated[ScalarBatch, Depends(data_of(ScalarBatch, large=True))],
    late: Late = False,
) -> ScalarReceipt:
    """Stores plain numbers of steps, such as success rate or KL, in the scope `trainer`: at most 50,000."""
    receipt = await place.write(partial(services.scalars.add, late=late), opened.run, opened.project, body)
    services.meters.count_scalars(receipt.num_values)
    return receipt
