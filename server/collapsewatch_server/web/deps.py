"""What the routes share: the services of the process, who calls, and checked bodies and parameters."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from fastapi import Depends, Path, Query, Request, Security
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel

from collapsewatch.blobs import BlobStore, open_blob_store
from collapsewatch.contracts.metrics import FIRST_TURN_SCOPE
from collapsewatch_server.alerting.desk import AlertDesk
from collapsewatch_server.alerting.rules import RuleBook
from collapsewatch_server.alerts.watch import Limits
from collapsewatch_server.auth import Caller, Keyring, Purpose
from collapsewatch_server.db import Database
from collapsewatch_server.errors import CrossSite, ErrorBody, TooBusy
from collapsewatch_server.events import EventHub, RedisBell
from collapsewatch_server.inbox.standing import Standing
from collapsewatch_server.ingest.batches import BatchIntake
from collapsewatch_server.ingest.runs import RunIntake
from collapsewatch_server.ingest.scalars import ScalarIntake
from collapsewatch_server.liveness.earshot import Earshot
from collapsewatch_server.liveness.heartbeats import Heartbeats
from collapsewatch_server.liveness.watch import Watch
from collapsewatch_server.meters import Meters
from collapsewatch_server.migrations import upgrade
from collapsewatch_server.notify.desk import ChannelDesk
from collapsewatch_server.notify.guard import OutgoingGuard
from collapsewatch_server.notify.notifier import Notifier
from collapsewatch_server.notify.sending import Sender
from collapsewatch_server.notify.vault import Vault
from collapsewatch_server.queue.admission import Admission
from collapsewatch_server.queue.feed import Feed, open_feed
from collapsewatch_server.queue.leases import JobQueue
from collapsewatch_server.reading.alerts import AlertReading
from collapsewatch_server.reading.answers import Reading
from collapsewatch_server.reading.service import ServiceReading
from collapsewatch_server.repeating import Repeated
from collapsewatch_server.results.writer import Results
from collapsewatch_server.retention import SECONDS_BETWEEN_LOOKS, Retention
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.tables import Run
from collapsewatch_server.web.bodies import SMALL_BODY_BYTES, TINY_BODY_BYTES, read_model
from collapsewatch_server.web.gate import IntakeGate, Place, beat_gate, work_gate

Model = TypeVar("Model", bound=BaseModel)

_BUSY_SECONDS = 15.0


@dataclass(frozen=True)
class Services:
    """Everything a request may need; one of each in a process."""

    settings: ServerSettings
    gate: IntakeGate
    """For what brings data."""
    beats: IntakeGate
    """For signs of life."""
    work: IntakeGate
    """For what workers ask and bring."""
    database: Database
    blobs: BlobStore
    feed: Feed
    hub: EventHub
    claims: EventHub
    """Wakes the claims that wait for a job."""
    bell: RedisBell | None
    keyring: Keyring
    runs: RunIntake
    batches: BatchIntake
    scalars: ScalarIntake
    queue: JobQueue
    results: Results
    reading: Reading
    heartbeats: Heartbeats
    standing: Standing
    watch: Watch
    service: ServiceReading
    alerts: AlertReading
    desk: AlertDesk
    rules: RuleBook
    channels: ChannelDesk
    notifier: Notifier
    meters: Meters
    repeated: tuple[Repeated, ...]
    """What runs beside the requests."""

    def prepare(self) -> None:
        """Brings the database up to date and lets the operator's own worker key in."""
        upgrade(self.database.engine)
        if self.settings.worker_key is not None:
            key = self.settings.worker_key.get_secret_value()
            self.keyring.admit(key, Purpose.worker, project=None, label="from the environment")

    def open_hubs(self) -> None:
        """Binds what waits in this process to the running event loop."""
        self.hub.open()
        self.claims.open()

    def close_hubs(self) -> None:
        """Ends the open streams and the waiting claims; may be called from a signal handler."""
        self.hub.close()
        self.claims.close()

    def close(self) -> None:
        """Gives all connections back."""
        self.notifier.close()
        if self.bell is not None:
            self.bell.close()
        self.feed.close()
        self.database.close()


def build_services(settings: ServerSettings) -> Services:
    """The services for these settings; nothing is opened yet."""
    database = Database(settings.effective_database_url)
    blobs = open_blob_store(settings.effective_blob_url)
    redis_url = settings.effective_redis_url
    hub, claims = EventHub(), EventHub()
    feed = open_feed(redis_url, claims.ring)
    bell = RedisBell(redis_url, hub) if redis_url else None
    ring = bell.ring if bell else hub.ring
    limits = _limits(settings)
    # Looks that come a little late are no break: a busy machine is not a deaf one.
    earshot = Earshot(max(3 * settings.watch_seconds, _BUSY_SECONDS))
    admission = Admission(settings.max_waiting_batches, settings.max_deferred_batches)
    queue = JobQueue(
        database,
        feed,
        ring,
        admission,
        Earshot(max(3 * settings.reconcile_seconds, settings.lease_seconds / 2)),
        lease_seconds=settings.lease_seconds,
        max_starts=settings.max_starts,
        shard_wait_seconds=settings.shard_wait_seconds,
    )
    watch = Watch(database, ring, earshot, limits)
    results = Results(database, ring)
    channels, notifier = _channels(settings, database)
    desk = AlertDesk(database, ring)
    return Services(
        settings=settings,
        gate=IntakeGate(max_bytes=settings.max_intake_bytes, max_requests=settings.max_intake_requests),
        beats=beat_gate(),
        work=work_gate(settings.max_intake_bytes),
        database=database,
        blobs=blobs,
        feed=feed,
        hub=hub,
        claims=claims,
        bell=bell,
        keyring=Keyring(database),
        runs=RunIntake(database, ring),
        batches=BatchIntake(database, blobs, feed, ring, admission),
        scalars=ScalarIntake(database, ring),
        queue=queue,
        results=results,
        reading=Reading(database),
        heartbeats=Heartbeats(database, earshot, fresh_seconds=min(5.0, settings.stall_seconds / 10)),
        standing=Standing(database),
        watch=watch,
        service=ServiceReading(database, settings.effective_blob_url, limits),
        alerts=AlertReading(database),
        desk=desk,
        rules=RuleBook(database, ring),
        channels=channels,
        notifier=notifier,
        meters=Meters(),
        repeated=(
            Repeated("reconciler", queue.reconcile, settings.reconcile_seconds),
            Repeated("watch", watch.look, settings.watch_seconds),
            Repeated("snoozes", desk.look, settings.watch_seconds),
            Repeated("late folds", results.late.look, settings.reconcile_seconds),
            Repeated("retention", Retention(database).look, SECONDS_BETWEEN_LOOKS),
            Repeated("notifier", notifier.look, settings.notify_seconds),
        ),
    )


def _channels(settings: ServerSettings, database: Database) -> tuple[ChannelDesk, Notifier]:
    guard = OutgoingGuard(allow_private=settings.allow_private_channels, hosts=settings.channel_hosts)
    key = settings.secret_key.get_secret_value() if settings.secret_key is not None else None
    vault = Vault(settings.home, key)
    sender = Sender(guard, vault)
    return (
        ChannelDesk(database, guard, vault, sender),
        Notifier(database, sender, public_url=settings.public_url),
    )


def _limits(settings: ServerSettings) -> Limits:
    return Limits(
        stall_seconds=settings.stall_seconds,
        crash_seconds=settings.crash_seconds,
        worker_seconds=settings.worker_seconds,
        lag_seconds=settings.lag_seconds,
        quiet_seconds=settings.quiet_seconds,
    )


async def services_of(request: Request) -> Services:
    """The services of the process that serves the request."""
    services: Services = request.app.state.services
    return services


ServicesDep = Annotated[Services, Depends(services_of)]

RunId = Annotated[
    str, Path(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$", description="Id that the client chose.")
]
JobId = Annotated[int, Path(ge=1, lt=2**63)]
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


def beat_of(model: type[Model]) -> Callable[..., Awaitable[Model]]:
    """The same for a sign of life."""
    return _body_of(model, admitted_beat, TINY_BODY_BYTES)


def work_of(
    model: type[Model], *, max_bytes: int | None = TINY_BODY_BYTES
) -> Callable[..., Awaitable[Model]]:
    """The same for what a worker says; without `max_bytes` as large as a batch may be."""
    return _body_of(model, admitted_work, max_bytes)


def _body_of(
    model: type[Model], place_of: Callable[..., AsyncIterator[Place]], max_bytes: int | None
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
            body_seconds=settings.body_seconds,
            place=place,
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


async def same_origin(request: Request) -> None:
    """Comes back unless a page of another origin sent the request.

    Browsers say where a request comes from and pages cannot make them lie; programs say nothing.

    Raises:
        CrossSite: it comes from elsewhere.
    """
    site = request.headers.get("sec-fetch-site", "same-origin")
    origin = request.headers.get("origin")
    foreign = origin is not None and _netloc(origin) != request.headers.get("host")
    if foreign or site not in ("same-origin", "none"):
        raise CrossSite("a page of another origin may not change anything here")


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:  # such as `http://[`
        return None


def _reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


_ERRORS = {
    400: "The body is not JSON, is empty, is cut short, or is not compressed as it says.",
    401: "No key, or one that is unknown or was revoked.",
    403: "The key is for another purpose or another project; or a page of another origin asks.",
    404: "There is nothing of this id.",
    408: "The body did not arrive in time.",
    409: "What is there already contradicts the request; nothing was changed.",
    413: "The body is larger than the server accepts, as sent or after decompression.",
    415: "The content encoding is neither zstd nor gzip.",
    422: "A field of the body or a parameter is wrong; `details` says which, and what was given.",
    429: "More arrives than can be taken in; keep the data and send it again after `Retry-After` seconds.",
    503: "The database does not answer at the moment; try again after `Retry-After` seconds.",
}
BODY_ERRORS = (400, 401, 403, 404, 408, 413, 415, 422, 503)
"""Of every route that takes a body and a key."""
READ_ERRORS = (404, 422, 503)
"""Of every route that reads something by name."""
