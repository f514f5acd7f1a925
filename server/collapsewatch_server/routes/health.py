"""Whether the process lives, and whether it can do its work."""

import time
import uuid
from collections.abc import Callable
from importlib.metadata import version

from fastapi import APIRouter, Response, status
from sqlalchemy.exc import SQLAlchemyError

from collapsewatch_server.migrations import newest_revision
from collapsewatch_server.reading.views import Check, Health, Readiness
from collapsewatch_server.repositories import schema
from collapsewatch_server.web.deps import Services, ServicesDep

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> Health:
    """Answers as long as the process does."""
    return Health(version=version("collapsewatch"))


@router.get("/readyz", responses={503: {"model": Readiness, "description": "The work cannot be done now."}})
def readyz(services: ServicesDep, response: Response) -> Readiness:
    """Asks the database, the blob store and Redis, each by using it."""
    checks = {
        "database": _timed(lambda: _check_database(services)),
        "blobs": _timed(lambda: _check_blobs(services)),
    }
    if services.settings.redis_url is not None:
        checks["redis"] = _timed(lambda: "" if services.feed.is_up() else "Redis does not answer")
    if not (checks["database"].ok and checks["blobs"].ok):
        response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
        return Readiness(status="not_ready", checks=checks)
    return Readiness(status="ready" if all(c.ok for c in checks.values()) else "degraded", checks=checks)


def _timed(problem: Callable[[], str]) -> Check:
    start = time.perf_counter()
    message = problem()
    return Check(ok=not message, seconds=round(time.perf_counter() - start, 6), message=message)


def _check_database(services: Services) -> str:
    try:
        with services.database.read_session() as session:
            found = schema.revision(session)
    except SQLAlchemyError as error:
        return f"the database does not answer: {type(error).__name__}"
    wanted = newest_revision()
    return "" if found == wanted else f"the schema is {found}, expected {wanted}"


def _check_blobs(services: Services) -> str:
    key = f"health/{uuid.uuid4().hex}"
    try:
        services.blobs.write(key, b"ready")
        found = services.blobs.read(key)
        services.blobs.delete(key)
    except (OSError, KeyError) as error:
        return f"the blob store does not work: {type(error).__name__}"
    return "" if found == b"ready" else "the blob store answers with something else"
