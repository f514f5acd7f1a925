"""A real server in a thread, on either deployment."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from collapsewatch_server.auth import Purpose
from collapsewatch_server.db import Database
from collapsewatch_server.launch.serving import PageServer, open_socket, url_of
from collapsewatch_server.migrations import upgrade
from collapsewatch_server.services import build_services
from collapsewatch_server.settings import ServerSettings
from tests.server.live import LiveServer
from tests.server.notifying import House
from tests.server.receivers import HttpReceiver, http_receiver

Starter = Callable[..., LiveServer]


@pytest.fixture
def start_server(deployment: Any) -> Iterator[Starter]:
    """Starts real servers in threads; several of them share the deployment."""
    yield from _starter(deployment.settings)


@pytest.fixture
def start_sqlite_server(tmp_path: Path) -> Iterator[Starter]:
    """The same for what has nothing to do with the database."""
    yield from _starter(lambda **changes: {"home": tmp_path, "embedded_worker": False, **changes})


@pytest.fixture
def live(start_server: Starter) -> LiveServer:
    """One server with short leases."""
    return start_server(lease_seconds=1.0, reconcile_seconds=0.1)


def _starter(settings: Callable[..., dict[str, Any]]) -> Iterator[Starter]:
    running: list[tuple[LiveServer, threading.Thread]] = []

    def start(**changes: Any) -> LiveServer:
        services = build_services(ServerSettings(**settings(**changes)))
        services.prepare()
        listening = open_socket("127.0.0.1", 0)
        url = url_of(listening)
        ready = threading.Event()
        server = PageServer(services, url, ready.set)
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
        thread.start()
        assert ready.wait(20)
        live = LiveServer(
            url,
            services,
            httpx.Client(base_url=url, timeout=20, trust_env=False),
            services.keyring.create(Purpose.ingest, project=None, label="test"),
            services.keyring.create(Purpose.worker, project=None, label="test"),
            server,
        )
        running.append((live, thread))
        return live

    yield start
    for live, thread in running:
        live.http.close()
        live.server.handle_exit(15, None)
        thread.join(15)
        assert not thread.is_alive()


@pytest.fixture
def house(deployment: Any) -> Iterator[House]:
    settings = ServerSettings(**deployment.settings())
    database = Database(settings.effective_database_url)
    upgrade(database.engine)
    house = House(database, settings.home)
    yield house
    for notifier in house.notifiers:
        notifier.close()
    database.close()


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with http_receiver() as one:
        yield one


@pytest.fixture
def quiet(start_server: Starter) -> LiveServer:
    """A server whose watch sees nothing of its own accord."""
    return start_server(watch_seconds=0.1, stall_seconds=86_400, lag_seconds=86_400)
