"""The web application: routes, one shape for errors, and what runs beside the requests."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from typing import Any

from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from collapsewatch_server.db import is_away
from collapsewatch_server.errors import (
    ErrorBody,
    ErrorContent,
    InvalidRequest,
    NotReady,
    ServerError,
    wrong,
)
from collapsewatch_server.meters import MeterMiddleware
from collapsewatch_server.openapi.schema import openapi_document
from collapsewatch_server.routes import (
    alert_rules,
    alerts,
    audit,
    channels,
    compare,
    exports,
    health,
    heartbeats,
    ingest,
    jobs,
    keys,
    people,
    prometheus,
    provider,
    retention,
    rollouts,
    run_admin,
    runs,
    service,
    session,
    shared,
    shares,
    standing,
    steps,
    stream,
    worker,
)
from collapsewatch_server.routes.pages import mount_page, warm_page
from collapsewatch_server.services import Services, build_services
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.web.compression import CompressionMiddleware
from collapsewatch_server.web.deps import errors
from collapsewatch_server.web.guard import guard
from collapsewatch_server.web.heads import HeadMiddleware
from collapsewatch_server.web.proxies import ProxyMiddleware
from collapsewatch_server.web.security import SecurityMiddleware
from collapsewatch_server.web.traffic import counted

log = logging.getLogger(__name__)


def create_app(settings: ServerSettings, services: Services | None = None) -> FastAPI:
    """The application; its lifespan brings the database up to date, runs the reconciler and the watch."""
    app = FastAPI(
        title="collapsewatch",
        version=version("collapsewatch"),
        lifespan=_lifespan,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
        redirect_slashes=False,
        dependencies=[Depends(counted), Depends(guard)],
        responses=errors(414, 429),
    )
    app.state.services = services or build_services(settings)
    app.add_middleware(HeadMiddleware)
    app.add_middleware(CompressionMiddleware)
    app.add_middleware(SecurityMiddleware, any_host=settings.insecure or settings.needs_login)
    app.add_middleware(MeterMiddleware, meters=app.state.services.meters)
    # Around all others: what they know of a request's sender is what the proxies say.
    app.add_middleware(
        ProxyMiddleware, trusted=settings.trusted_proxies, user_header=settings.proxy_user_header
    )
    for routes in (
        ingest,
        heartbeats,
        standing,
        runs,
        steps,
        run_admin,
        rollouts,
        compare,
        service,
        session,
        provider,
        people,
        keys,
        retention,
        audit,
        stream,
        jobs,
        alerts,
        alert_rules,
        channels,
        exports,
        shares,
        shared,
        worker,
        health,
        prometheus,
    ):
        app.include_router(routes.router)
    mount_page(app)
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign]
    app.add_exception_handler(ServerError, _on_server_error)
    app.add_exception_handler(RequestValidationError, _on_invalid_request)
    app.add_exception_handler(HTTPException, _on_http_error)
    app.add_exception_handler(SQLAlchemyError, _on_database_error)
    app.add_exception_handler(Exception, _on_bug)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    services: Services = app.state.services
    await run_in_threadpool(services.prepare)
    services.open_hubs()
    stopping = asyncio.Event()
    loops = [asyncio.create_task(repeated.run(stopping)) for repeated in services.repeated]
    tasks: list[asyncio.Task[Any]] = []
    if services.bell is not None:
        tasks.append(asyncio.create_task(services.bell.listen()))
    # Compressing the page and its chart library takes a second that the first visitor need not wait for.
    tasks.append(asyncio.create_task(asyncio.to_thread(warm_page)))
    try:
        yield
    finally:
        services.close_hubs()
        stopping.set()
        # Waited for, not cancelled: their threads may hold a connection.
        await asyncio.gather(*loops)
        await _cancel(tasks)
        await run_in_threadpool(services.close)


async def _cancel(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


async def _on_server_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServerError)
    return JSONResponse(error.body().model_dump(mode="json"), error.status_code, error.all_headers())


async def _on_invalid_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    details = [
        wrong(".".join(str(part) for part in item["loc"]), item["msg"], item.get("input"))
        for item in error.errors()
    ]
    first = details[0]
    message = f"the request is wrong at `{first.loc}`: {first.message}"
    return await _on_server_error(request, InvalidRequest(message, details))


async def _on_http_error(request: Request, error: Exception) -> Response:
    """Errors of the framework: no such route, a method that the route does not know."""
    assert isinstance(error, HTTPException)
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    content = ErrorContent(
        code=code,
        message=f"{error.detail}: {request.method} {request.url.path[:200]}",
        details=[wrong("path", str(error.detail), request.url.path)],
    )
    body = ErrorBody(error=content).model_dump(mode="json")
    return JSONResponse(body, error.status_code, dict(error.headers or {}))


async def _on_database_error(request: Request, error: Exception) -> Response:
    if not is_away(error):
        raise error
    log.error("the database does not answer", extra={"error": str(error)[:300]})
    return await _on_server_error(request, NotReady("the database does not answer; try again"))


async def _on_bug(request: Request, error: Exception) -> Response:
    """The server raises the error again after this answer, and so it is logged with its traceback."""
    return await _on_server_error(request, ServerError("the server made a mistake; its log says which"))
