"""The service about itself, for the page."""

from fastapi import APIRouter

from collapsewatch_server.reading.service_views import ServiceView
from collapsewatch_server.web.deps import ServicesDep, errors

router = APIRouter(prefix="/api/v1", tags=["read"], responses=errors(503))


@router.get("/service")
def get_service(services: ServicesDep) -> ServiceView:
    """The queue, the workers, what waits on the trainers' disks, and what is wrong with any of it."""
    return services.service.service()
