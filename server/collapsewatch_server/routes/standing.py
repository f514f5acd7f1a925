"""What trainers ask about the alerts on their runs."""

from fastapi import APIRouter

from collapsewatch.contracts.standing import StandingAlerts
from collapsewatch_server.web.deps import READ_ERRORS, AdmittedBeat, BeatingCaller, RunId, ServicesDep, errors

router = APIRouter(prefix="/api/v1", tags=["ingest"], responses=errors(*READ_ERRORS, 401, 403, 429))


@router.get("/runs/{run_id}/alerts/standing")
async def standing_alerts(
    run_id: RunId, place: AdmittedBeat, caller: BeatingCaller, services: ServicesDep
) -> StandingAlerts:
    """Alerts on the run that are not resolved; for a trainer that stops itself. Ask every few seconds."""
    run, _ = await place.check(services.runs.open_run, caller, run_id)
    return await place.check(services.standing.of_run, run.id)
