"""Numbers for Prometheus."""

from collections.abc import Iterator

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from collapsewatch_server.reading.exposition import ServiceCollector
from collapsewatch_server.services import Services
from collapsewatch_server.web.deps import ServicesDep

router = APIRouter(tags=["health"])


@router.get("/metrics", response_class=Response)
def metrics(request: Request, services: ServicesDep) -> Response:
    """In Prometheus's text format: the state of the service, and what this process has counted.

    The state is read from the database at each scrape, and so it is the same whichever process is asked.
    """
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(_All(services)), headers={"Content-Type": content_type})


class _All(CollectorRegistry):
    """The process's own counters and what the database says, for one scrape."""

    def __init__(self, services: Services) -> None:
        super().__init__()
        self._services = services

    def collect(self) -> Iterator[Metric]:
        yield from self._services.meters.registry.collect()
        yield from ServiceCollector(self._services.service).collect()
