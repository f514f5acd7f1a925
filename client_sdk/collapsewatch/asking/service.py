"""Who is asked, or takes an import: a server that answers, or one started on the home folder meanwhile."""

import fcntl
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO
from urllib.parse import urlsplit

from collapsewatch.asking.errors import AskingFailedError
from collapsewatch.asking.reader import answers
from collapsewatch.demo.processes import Child, ChildFailedError, start_child, stop_children
from collapsewatch.errors import SettingsError
from collapsewatch.settings import DEFAULT_URL, Settings, home_folder, load_settings

_START_SECONDS = 120.0
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PAGE = re.compile(r"https?://\S+:\d+")
Tell = Callable[[str], None]


@dataclass(frozen=True)
class Service:
    """A server that answers."""

    settings: Settings
    child: Child | None = None
    """The one that was started here."""

    def check(self) -> None:
        """Does nothing while it runs, or when somebody else runs it.

        Raises:
            AskingFailedError: it has ended.
        """
        if self.child is None:
            return
        try:
            if not self.child.check():
                return
        except ChildFailedError as error:
            raise AskingFailedError(str(error)) from error
        raise AskingFailedError(f"the service ended:\n{self.child.last_lines()}")


def named_key(variable: str | None) -> str | None:
    """The key in that environment variable; None when none is named.

    Raises:
        AskingFailedError: there is no such variable.
    """
    if variable is None:
        return None
    key = os.environ.get(variable)
    if not key:
        raise AskingFailedError(f"the environment has no variable {variable}, which should hold the key")
    return key


@contextmanager
def service_for(
    url: str | None,
    api_key: str | None,
    *,
    tell: Tell,
    needed: Sequence[str],
    options: Sequence[str] = (),
    is_shared: bool = True,
    read_key: str | None = None,
) -> Iterator[Service]:
    """The server to talk to: the named one, or the local one, or one of our own that ends with the block.

    Args:
        needed: modules without which none can be started here.
        options: further options of `collapsewatch serve`, for one that is started here.
        is_shared: others may use what is started here, while it is there; else they wait for its end.
        read_key: for what is read; `api_key` is for what is sent.

    Raises:
        AskingFailedError: the named server does not answer, or none can be started.
    """
    try:
        settings = load_settings(url=url, api_key=api_key, read_key=read_key)
        home = home_folder().absolute()
    except (SettingsError, RuntimeError) as error:
        raise AskingFailedError(str(error)) from error
    if url or os.environ.get("COLLAPSEWATCH_URL"):
        if not answers(settings.url):
            raise AskingFailedError(
                f"no server answers at {settings.url}; without --url and COLLAPSEWATCH_URL one is started"
            )
        yield Service(settings)
        return
    with _local_service(home, (api_key, read_key), tell, needed, options, is_shared) as service:
        yield service


@contextmanager
def _local_service(
    home: Path,
    given_keys: tuple[str | None, str | None],
    tell: Tell,
    needed: Sequence[str],
    options: Sequence[str],
    is_shared: bool,
) -> Iterator[Service]:
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        starting, using = (home / "import-start.lock").open("ab"), (home / "import-use.lock").open("ab")
    except OSError as error:
        raise AskingFailedError(f"{home}: {error.strerror}") from error
    child = None
    with starting, using:
        try:
            # Of two that begin at once, one starts the service and the other finds it.
            fcntl.flock(starting, fcntl.LOCK_EX)
            api_key, read_key = given_keys
            service = Service(load_settings(api_key=api_key, read_key=read_key))
            if not answers(service.settings.url):
                child = _start(home, service.settings.url, tell, needed, options)
                service = Service(_local_settings(home), child)
            fcntl.flock(using, fcntl.LOCK_SH)
            if child is None or is_shared:
                fcntl.flock(starting, fcntl.LOCK_UN)
            yield service
        finally:
            if child is not None:
                _wait_for_others(using, tell)
                stop_children([child])


def _wait_for_others(using: IO[bytes], tell: Tell) -> None:
    """Returns when no other import uses the service that this one started."""
    try:
        fcntl.flock(using, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        tell("another import uses the service that was started here; it is kept until that has ended")
        with suppress(KeyboardInterrupt):
            fcntl.flock(using, fcntl.LOCK_EX)


def _start(home: Path, url: str, tell: Tell, needed: Sequence[str], options: Sequence[str]) -> Child:
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise AskingFailedError(
            f"no server answers at {url}, and to start one here needs {', '.join(missing)}: "
            "pip install 'collapsewatch[server,worker]'"
        )
    lines: SimpleQueue[str] = SimpleQueue()
    tell(f"no server answers at {url}: starting one in {home}")
    child = start_child(
        "the service",
        ["collapsewatch.cli", "serve", "--home", str(home), "--port", str(_free_port(url)), *options],
        environment={**_environment(os.environ), "COLLAPSEWATCH_HOME": str(home)},
        log_path=home / "logs" / "import-service.log",
        on_line=lines.put,
    )
    try:
        _wait_until_up(child, lines)
    except BaseException:
        stop_children([child])
        raise
    return child


def _wait_until_up(child: Child, lines: "SimpleQueue[str]") -> None:
    deadline = time.monotonic() + _START_SECONDS
    page: str | None = None
    while time.monotonic() < deadline:
        with suppress(Empty):
            match = _PAGE.search(lines.get(timeout=0.1))
            page = page or (match.group() if match else None)
        try:
            has_ended = child.check()
        except ChildFailedError as error:
            raise AskingFailedError(str(error)) from error
        if has_ended:
            raise AskingFailedError(f"the service ended at once:\n{child.last_lines()}")
        if page is not None and answers(page):
            return
    raise AskingFailedError(
        f"the service did not answer within {_START_SECONDS:.0f} s:\n{child.last_lines()}"
    )


def _local_settings(home: Path) -> Settings:
    """Address and key that the service has just left in its home."""
    return load_settings(environ={"COLLAPSEWATCH_HOME": str(home)})


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The settings of the user's own service; its lines come at once, and it needs no bar of progress."""
    return {**environ, "PYTHONUNBUFFERED": "1", "TOKENIZERS_PARALLELISM": "false"}


def _free_port(url: str) -> int:
    """The port under which the local server was last known, else the usual one, else any that is free.

    Trainers find the server by what it leaves in the home folder: a port that stays the same stays right.
    """
    for candidate in (url, DEFAULT_URL):
        parts = urlsplit(candidate)
        if parts.hostname in _LOOPBACK and parts.port and _is_free(parts.port):
            return parts.port
    return 0


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
