"""What the routes share: who calls, and checked bodies and parameters."""

import math
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel

from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch_server.auth import Caller, Purpose
from collapsewatch_server.errors import ErrorBody, ErrorDetail, ServerError, TooBusy
from collapsewatch_server.services import Services
from collapsewatch_server.tables import Run
from collapsewatch_server.web.bodies import SMALL_BODY_BYTES, TINY_BODY_BYTES, read_model
from collapsewatch_server.web.gate import Place
from collapsewatch_server.web.traffic import BodyCount

Model = TypeVar("Model", bound=BaseModel)


async def services_of(request: Request) -> Services:
    """The services of the process that serves the request; those of a snapshot where a link shows one."""
    services: Services = getattr(request.state, "frozen_services", None) or request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]

RunId = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$", description="Id that the client chose.")
]
JobId = Annotated[int, Path(ge=1, lt=2**63)]


async def compared_run_ids(
    run: Annotated[
        list[Annotated[str, Query(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$")]],
        Query(min_length=1, max_length=20, description="Ids of the runs, in the order in which they stand."),
    ],
) -> list[str]:
    """The runs that are compared, each once."""
    return list(dict.fromkeys(run))


ComparedRunIds = Annotated[list[str], Depends(compared_run_ids)]
StepPath = Annotated[int, Path(ge=0, le=2**53)]
ScopeQuery = Annotated[
    str,
    Query(
        alias="scope",
        max_length=200,
        pattern=r"^[^\x00]+$",
        description="`first_turn`, `turn/<t>`, `trajectory`, `batch` or `trainer`.",
    ),
]
SinceStep = Annotated[int, Query(ge=0, le=2**53, description="First step to answer with.")]
DEFAULT_SCOPE = FIRST_TURN_SCOPE
# A name and a password are one packet.
_ENTRY_SECONDS = 5.0

_ingest_key = HTTPBearer(
    scheme_name="IngestKey",
    bearerFormat="cw_ingest_…",
    description="Key of a project's trainers: `collapsewatch keys create --purpose ingest`.",
    auto_error=False,
)
_worker_key = HTTPBearer(
    scheme_name="WorkerKey",
    bearerFormat="cw_worker_…",
    description="Key of the workers: `collapsewatch keys create --purpose worker`.",
    auto_error=False,
)
Credentials = HTTPAuthorizationCredentials | None


async def admitted(services: ServicesDep) -> AsyncIterator[Place]:
    """A place among the requests that bring data. List it first, so that refusing one costs nothing."""
    with services.gate.admit() as place:
        yield place


async def admitted_beat(services: ServicesDep) -> AsyncIterator[Place]:
    """A place among the signs of life."""
    try:
        with services.beats.admit() as place:
            yield place
    except TooBusy:
        # It lives, and nobody has heard it.
        services.heartbeats.missed()
        raise


async def admitted_work(services: ServicesDep) -> AsyncIterator[Place]:
    """A place among the calls of workers."""
    with services.work.admit() as place:
        yield place


async def admitted_entry(services: ServicesDep) -> AsyncIterator[Place]:
    """A place among those who are not signed in yet."""
    with services.entries.admit() as place:
        yield place


Admitted = Annotated[Place, Depends(admitted)]
AdmittedBeat = Annotated[Place, Depends(admitted_beat)]
AdmittedWork = Annotated[Place, Depends(admitted_work)]


async def _caller(request: Request, services: Services, place: Place, purpose: Purpose) -> Caller:
    return await place.check(services.keyring.check, request.headers.get("authorization"), purpose)


async def ingest_caller(
    request: Request,
    services: ServicesDep,
    place: Admitted,
    _: Annotated[Credentials, Security(_ingest_key)],
) -> Caller:
    """Whose ingest key came along."""
    return await _caller(request, services, place, Purpose.ingest)


async def beating_caller(
    request: Request,
    services: ServicesDep,
    place: AdmittedBeat,
    _: Annotated[Credentials, Security(_ingest_key)],
) -> Caller:
    """Whose ingest key came along with a sign of life."""
    return await _caller(request, services, place, Purpose.ingest)


async def beating_worker(
    request: Request,
    services: ServicesDep,
    place: AdmittedBeat,
    _: Annotated[Credentials, Security(_worker_key)],
) -> Caller:
    """Whose worker key came along with a sign of life."""
    return await _caller(request, services, place, Purpose.worker)


async def worker_caller(
    request: Request,
    services: ServicesDep,
    place: AdmittedWork,
    _: Annotated[Credentials, Security(_worker_key)],
) -> Caller:
    """Whose worker key came along."""
    return await _caller(request, services, place, Purpose.worker)


IngestCaller = Annotated[Caller, Depends(ingest_caller)]
BeatingCaller = Annotated[Caller, Depends(beating_caller)]
BeatingWorker = Annotated[Caller, Depends(beating_worker)]
WorkerCaller = Annotated[Caller, Depends(worker_caller)]


@dataclass(frozen=True)
class OpenRun:
    """A run that the caller may write to."""

    run: Run
    project: str


async def open_run(run_id: RunId, caller: IngestCaller, services: ServicesDep, place: Admitted) -> OpenRun:
    """The run of the path, for a caller that may write to it."""
    run, project = await place.check(services.runs.open_run, caller, run_id)
    return OpenRun(run, project)


OpenRunDep = Annotated[OpenRun, Depends(open_run)]


def data_of(model: type[Model], *, large: bool = False) -> Callable[..., Awaitable[Model]]:
    """A dependency that reads the body as a `model`; list it last, so that keys are checked before."""
    return _body_of(model, admitted, None if large else SMALL_BODY_BYTES)


def private_data_of(model: type[Model]) -> Callable[..., Awaitable[Model]]:
    """The same for a body with secrets in it: what was given is not shown in errors, which end up in logs."""
    return _privately(data_of(model), admitted)


def entry_of(model: type[Model]) -> Callable[..., Awaitable[Model]]:
    """The same for what people say before they are signed in."""
    read = _body_of(model, admitted_entry, TINY_BODY_BYTES, most_seconds=_ENTRY_SECONDS)
    return _privately(read, admitted_entry)


def _privately(
    read: Callable[..., Awaitable[Model]], place_of: Callable[..., AsyncIterator[Place]]
) -> Callable[..., Awaitable[Model]]:
    async def read_privately(
        request: Request, services: ServicesDep, place: Annotated[Place, Depends(place_of)]
    ) -> Model:
        try:
            return await read(request, services, place)
        except ServerError as error:
            error.details = [ErrorDetail(loc=one.loc, message=one.message) for one in error.details]
            raise

    return read_privately


def beat_of(model: type[Model]) -> Callable[..., Awaitable[Model]]:
    """The same for a sign of life."""
    return _body_of(model, admitted_beat, TINY_BODY_BYTES)


def work_of(
    model: type[Model], *, max_bytes: int | None = TINY_BODY_BYTES
) -> Callable[..., Awaitable[Model]]:
    """The same for what a worker says; without `max_bytes` as large as a batch may be."""
    return _body_of(model, admitted_work, max_bytes)


def _body_of(
    model: type[Model],
    place_of: Callable[..., AsyncIterator[Place]],
    max_bytes: int | None,
    *,
    most_seconds: float = math.inf,
) -> Callable[..., Awaitable[Model]]:
    async def read(
        request: Request, services: ServicesDep, place: Annotated[Place, Depends(place_of)]
    ) -> Model:
        settings = services.settings
        limit = min(max_bytes or settings.max_batch_bytes, settings.max_batch_bytes)
        return await read_model(
            request,
            model,
            max_request_bytes=min(settings.max_request_bytes, limit),
            max_bytes=limit,
            body_seconds=min(settings.body_seconds, most_seconds),
            place=place,
            count=BodyCount(request).come,
        )

    return read


def request_body(model: type[BaseModel]) -> dict[str, Any]:
    """What the OpenAPI page says of a body that a route reads."""
    content = {"application/json": {"schema": _reference(model)}}
    return {"requestBody": {"required": True, "content": content}}


def errors(*status_codes: int) -> dict[int | str, dict[str, Any]]:
    """What the OpenAPI page says of a route's errors."""
    # Spelt out, because the event stream's own media type is not that of its errors.
    content = {"application/json": {"schema": _reference(ErrorBody)}}
    return {code: {"description": _ERRORS[code], "content": content} for code in status_codes}


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


_ERRORS = {
    400: "The body is not JSON, is empty, is cut short, or is not compressed as it says.",
    401: "No key, or one that is unknown or was revoked.",
    403: "The key is for another purpose or another project; or a page of another origin asks.",
    404: "There is nothing of this id.",
    408: "The body did not arrive in time.",
    409: "What is there already contradicts the request; nothing was changed.",
    410: "The link expired or was withdrawn, or what it led to was removed.",
    413: "The body is larger than the server accepts, as sent or after decompression.",
    414: "The address is longer than the server reads.",
    415: "The content encoding is neither zstd nor gzip.",
    422: "A field of the body or a parameter is wrong; `details` says which, and what was given.",
    429: "More arrives than can be taken in (`too_busy`), or from this caller or its address than may "
    "(`too_many_requests`); keep the data and send it again after `Retry-After` seconds.",
    502: "The provider that signs people in does not answer.",
    503: "The database does not answer at the moment; try again after `Retry-After` seconds.",
}
BODY_ERRORS = (400, 401, 403, 404, 408, 413, 415, 422, 503)
"""Of every route that takes a body and a key."""
READ_ERRORS = (404, 422, 503)
"""Of every route that reads something by name."""
