"""The scoring jobs of a run, and another try for one that was laid aside."""

from fastapi import APIRouter

from collapsewatch_server.reading.views import JobList, JobStatus, JobStatusView
from collapsewatch_server.web.deps import READ_ERRORS, JobId, RunId, ServicesDep, errors

router = APIRouter(prefix="/api/v1", tags=["jobs"], responses=errors(*READ_ERRORS))


@router.get("/runs/{run_id}/jobs")
def list_jobs(run_id: RunId, services: ServicesDep, status: JobStatus | None = None) -> JobList:
    """The run's jobs, newest first; the dead ones carry the traceback of their last failure."""
    return services.reading.jobs(run_id, status)


@router.post("/runs/{run_id}/jobs/{job_id}/retry", responses=errors(403, 409, 410))
def retry_job(run_id: RunId, job_id: JobId, services: ServicesDep) -> JobStatusView:
    """Queues a dead or thinned job again.

    For the page: a browser may send it from the page's own origin only.
    """
    services.queue.retry(services.reading.find_run(run_id), job_id)
    return JobStatusView(status="queued")
