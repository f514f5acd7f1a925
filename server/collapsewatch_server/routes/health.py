"""Whether the process lives, and whether it can do its work."""

import shutil
import time
import uuid
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from fastapi import APIRouter, Response, status
from sqlalchemy.exc import SQLAlchemyError

from collapsewatch_server.db import answer_by
from collapsewatch_server.migrations import newest_revision
from collapsewatch_server.reading.views import Check, Health, Readiness
from collapsewatch_server.repositories import schema
from collapsewatch_server.services import Services
from collapsewatch_server.web.deps import ServicesDep

router = APIRouter(tags=["health"])

_PROBE = b"ready"
# Who asks gives up after seconds.
_PATIENCE_SECONDS = 5.0
_MIN_FREE_BYTES = 4 * 2**20


@router.get("/healthz")
async def healthz() -> Health:
    """Answers as long as the process does."""
    return Health(version=version("collapsewatch"))


@router.get("/readyz", responses={503: {"model": Readiness, "description": "The work cannot be done now."}})
def readyz(services: ServicesDep, response: Response) -> Readiness:
    """Asks the database, the blob store and Redis, each by using it, and whether a worker is there.

    Without a worker, without Redis, or when what runs beside the requests does not get on, the service is
    `degraded`: data is taken in, and scored or shown later.
    """
    with answer_by(time.monotonic() + _PATIENCE_SECONDS):
        return _readiness(services, response)


def _readiness(services: Services, response: Response) -> Readiness:
    checks = {
        "database": _timed(lambda: _check_database(services)),
        "blobs": _timed(lambda: _check_blobs(services)),
    }
    if services.settings.redis_url is not None:
        checks["redis"] = _timed(lambda: "" if services.feed.is_up() else "Redis does not answer")
    if not (checks["database"].ok and checks["blobs"].ok):
        response.status_code = status.HTTP_503_SERVICE_UNAVAILABLE
        return Readiness(status="not_ready", checks=checks)
    checks |= {one.name: _timed(one.problem) for one in services.repeated}
    checks["worker"] = _timed(lambda: _check_worker(services))
    return Readiness(status="ready" if all(c.ok for c in checks.values()) else "degraded", checks=checks)


def _timed(problem: Callable[[], str]) -> Check:
    start = time.perf_counter()
    message = problem()
    return Check(ok=not message, seconds=round(time.perf_counter() - start, 6), message=message)


def _check_database(services: Services) -> str:
    try:
        with services.database.read_session() as session:
            found = schema.revision(session)
        if found == (wanted := newest_revision()):
            # A full disk or a database that is only a copy still answers questions.
            with services.database.write_session() as session:
                schema.touch(session)
    except SQLAlchemyError as error:
        return f"the database cannot be written: {type(error).__name__}"
    if found != wanted:
        return f"the schema is {found}, expected {wanted}"
    url = services.database.url
    if url.drivername != "sqlite" or url.database is None:
        return ""
    return _check_database_file(Path(url.database))


def _check_database_file(file: Path) -> str:
    try:
        # One that was removed is still written by whoever has it open, and lost with the last of them.
        if not file.exists():
            return "the database's file is gone; what is written now is lost when the server ends"
        return _room(shutil.disk_usage(file.parent).free, "database")
    except OSError as error:
        return f"the database's folder cannot be read: {error.strerror or type(error).__name__}"


def _check_blobs(services: Services) -> str:
    key = f"health/{uuid.uuid4().hex}"
    try:
        try:
            services.blobs.write(key, _PROBE)
            found = services.blobs.read(key)
        finally:
            services.blobs.delete(key)
    except (OSError, KeyError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return f"the blob store does not work: {reason}"
    if found != _PROBE:
        return "the blob store answers with something else"
    disk = services.service.disk()
    return "" if disk is None else _room(disk.free_bytes, "blobs")


def _check_worker(services: Services) -> str:
    try:
        num_live = services.service.num_live_workers()
    except SQLAlchemyError as error:
        return f"nobody knows: {type(error).__name__}"
    return "" if num_live else "no worker is running: batches are taken in and scored once there is one"


def _room(free_bytes: int, what: str) -> str:
    # A nearly full disk still takes the small probe, and then refuses the next batch.
    return "" if free_bytes >= _MIN_FREE_BYTES else f"the disk of the {what} is full: {free_bytes} bytes left"
