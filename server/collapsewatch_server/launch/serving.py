"""One server process: its socket, its web server, its embedded worker, and an end that does not hang."""

import asyncio
import os
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from collapsewatch_server.app import create_app
from collapsewatch_server.auth import Purpose
from collapsewatch_server.launch.embedded import EmbeddedWorker, worker_environment
from collapsewatch_server.services import Services

_BACKLOG = 2048
_GRACE_SECONDS = 3


class PageServer(uvicorn.Server):
    """Uvicorn, but open event streams and waiting claims end when it is told to stop.

    Left alone it would wait for streams that never end by themselves.
    """

    def __init__(self, services: Services, url: str, on_ready: Callable[[], None]) -> None:
        config = uvicorn.Config(
            create_app(services.settings, services),
            log_config=None,
            access_log=False,
            server_header=False,
            # Whom to believe is said by `trusted_proxies` alone (`web.proxies`): uvicorn of itself believes
            # every program of this machine.
            proxy_headers=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=_GRACE_SECONDS,
        )
        super().__init__(config)
        self._services = services
        self._url = url
        self._on_ready = on_ready
        self._worker: EmbeddedWorker | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ctrl-C or SIGTERM."""
        self._services.close_hubs()
        super().handle_exit(sig, frame)
        # Uvicorn would raise the signal again after an orderly end, and the user would see a traceback.
        self._captured_signals.clear()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves, then starts the worker, which needs a server that answers."""
        await super().startup(sockets)
        if not self.started:
            return
        if self._services.settings.embedded_worker:
            keyring = self._services.keyring
            key = await asyncio.to_thread(keyring.replace, Purpose.worker, label=self._worker_label())
            environment = worker_environment(self._services.settings, self._url, key, os.environ)
            self._worker = EmbeddedWorker(environment)
            self._worker.start()
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops the worker first: it hands its job back while the server still answers."""
        if self._worker is not None:
            await self._worker.stop()
            await asyncio.to_thread(self._services.keyring.revoke_label, self._worker_label())
        await super().shutdown(sockets)

    def _worker_label(self) -> str:
        return f"embedded worker of {socket.gethostname()}, {self._url}"


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket, so that a port in use is found out before anything is started.

    Raises:
        OSError: the address is in use or is not one of this machine.
    """
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    # Inherited by its connections. asyncio would set it only on sockets that name their protocol, and an
    # answer whose head and body are two packets would wait 40 ms for the client's delayed acknowledgement.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def url_of(listening: socket.socket) -> str:
    """Address under which this machine reaches the socket."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 (compared, not bound)
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
