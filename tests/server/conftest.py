"""A real server in a thread, on either deployment."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from collapsewatch_server.db import Database
from collapsewatch_server.migrations import upgrade
from collapsewatch_server.settings import ServerSettings
from tests.server.guarded import LEFT_ALONE, newcomer
from tests.server.live import LiveServer, Starter, started
from tests.server.notifying import House
from tests.server.receivers import HttpReceiver, http_receiver


@pytest.fixture
def start_server(deployment: Any) -> Iterator[Starter]:
    """Starts real servers in threads; several of them share the deployment."""
    yield from started(deployment.settings)


@pytest.fixture
def start_sqlite_server(tmp_path: Path) -> Iterator[Starter]:
    """The same for what has nothing to do with the database."""
    yield from started(lambda **changes: {"home": tmp_path, "embedded_worker": False, **changes})


@pytest.fixture
def live(start_server: Starter) -> LiveServer:
    """One server whose leases nobody loses by waiting; `LiveServer.lose_leases` ends them."""
    return start_server(lease_seconds=60.0, reconcile_seconds=0.1)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """A server that asks people to sign in; whoever uses its own client operates it."""
    home = tmp_path_factory.mktemp("guarded")
    servers = started(lambda **changes: {"home": home, "embedded_worker": False, "login": True, **changes})
    live = next(servers)(**LEFT_ALONE)
    with closing(newcomer(live, "olga", makes_operator=True)) as operator:
        live.http.cookies = operator.cookies
    live.http.headers["Origin"] = live.url
    yield live
    next(servers, None)


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
