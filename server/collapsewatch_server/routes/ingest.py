"""What trainers call: open runs, send batches and scalars."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response, status

from collapsewatch.contracts.rollouts import RolloutBatch, ScalarBatch
from collapsewatch.contracts.runs import BatchReceipt, RunReceipt, RunStart, RunUpdate, ScalarReceipt
from collapsewatch_server.web.deps import (
    BODY_ERRORS,
    IngestCaller,
    OpenRunDep,
    ServicesDep,
    body_of,
    errors,
    request_body,
)

router = APIRouter(prefix="/api/v1", tags=["ingest"], responses=errors(*BODY_ERRORS))


@router.post(
    "/runs",
    status_code=status.HTTP_201_CREATED,
    responses={200: {"model": RunReceipt, "description": "The run was there already."}, **errors(409)},
    openapi_extra=request_body(RunStart),
    response_description="The run is open.",
)
def start_run(
    caller: IngestCaller,
    services: ServicesDep,
    response: Response,
    body: Annotated[RunStart, Depends(body_of(RunStart))],
) -> RunReceipt:
    """Opens a run. The client chooses the id; sending the same again is harmless."""
    receipt = services.runs.start_run(caller, body)
    if not receipt.created:
        response.status_code = status.HTTP_200_OK
    return receipt


@router.patch("/runs/{run_id}", openapi_extra=request_body(RunUpdate))
def update_run(
    opened: OpenRunDep,
    services: ServicesDep,
    body: Annotated[RunUpdate, Depends(body_of(RunUpdate))],
) -> RunReceipt:
    """Changes a run's state or scorer; what is not given stays as it is."""
    return services.runs.update_run(opened.run, opened.project, body)


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
def add_batch(
    opened: OpenRunDep,
    services: ServicesDep,
    response: Response,
    body: Annotated[RolloutBatch, Depends(body_of(RolloutBatch, large=True))],
) -> BatchReceipt:
    """Accepts one training step's rollouts. An answer of 2xx means that they are stored for good.

    The same batch sent again is answered with 200 and changes nothing. Several batches of one step are kept,
    and the one accepted last stands for the step; ranks of one trainer therefore gather their rollouts into
    one batch, which also gives the prompts more neighbours to be told from.
    """
    receipt = services.batches.add(opened.run, opened.project, body)
    if receipt.duplicate:
        response.status_code = status.HTTP_200_OK
    return receipt


@router.post("/runs/{run_id}/scalars", openapi_extra=request_body(ScalarBatch))
def add_scalars(
    opened: OpenRunDep,
    services: ServicesDep,
    body: Annotated[ScalarBatch, Depends(body_of(ScalarBatch, large=True))],
) -> ScalarReceipt:
    """Stores plain numbers of steps, such as success rate or KL, in the scope `trainer`."""
    return services.scalars.add(opened.run, opened.project, body)
