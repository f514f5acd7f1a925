"""What the page reads of a run's steps."""

from typing import Annotated

from fastapi import APIRouter, Query

from collapsewatch_server.reading.step_views import KeptHistory, StepClock
from collapsewatch_server.web.deps import READ_ERRORS, RunId, ServicesDep, StepPath, errors

router = APIRouter(prefix="/api/v1", tags=["read"], responses=errors(*READ_ERRORS))


@router.get("/runs/{run_id}/clock")
def get_clock(run_id: RunId, services: ServicesDep) -> StepClock:
    """When the steps were, and at which ones another policy version begins."""
    return services.steps.clock(run_id)


@router.get("/runs/{run_id}/steps/{step}/kept")
def get_kept(
    run_id: RunId,
    step: StepPath,
    services: ServicesDep,
    window: Annotated[
        int, Query(ge=1, le=1000, description="Scored steps to read, this one included.")
    ] = 100,
) -> KeptHistory:
    """What each filter rule would have kept of the step's prompts, and when it last kept them."""
    return services.steps.kept(run_id, step, window)
