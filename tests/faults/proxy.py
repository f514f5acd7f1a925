"""The network between two processes, as a TCP proxy that can cut it, silence it, or lose answers.

It also writes down what was asked and answered: what a client saw is nowhere else to be found.
"""

import contextlib
import re
import select
import socket
import struct
import threading
import time
from dataclasses import dataclass
from enum import StrEnum
from types import TracebackType
from typing import Self

_SLICE_SECONDS = 0.02
_SEND_SECONDS = 30.0
_PIECE_BYTES = 1 << 16
_REQUEST = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.1\r\n")
_ANSWER = re.compile(rb"HTTP/1\.1 (\d{3}) ")
_RUN_OR_JOB = re.compile(r"(/runs|/jobs)/[^/]+")


class Network(StrEnum):
    """What becomes of the bytes."""

    up = "up"
    reset = "reset"
    """Connections are reset, open ones and new ones."""
    silent = "silent"
    """Nothing arrives and nobody is told: a pulled cable."""
    loses_answers = "loses_answers"
    """Every request arrives, and every second answer gets lost: everything is sent twice."""


@dataclass
class Exchange:
    """One request, and what came of it."""

    method: str
    path: str
    started: float
    status: int = 0
    """0: no answer came through."""
    seconds: float = 0.0
    """Until the answer began, or the connection ended."""
    end: str = "waiting"
    """`answered`; `lost` by this network; `client` or `server`, whoever closed before an answer."""
    body: str = ""
    """Start of an answer from 400 up."""

    @property
    def route(self) -> str:
        """Method and path without ids."""
        path = _RUN_OR_JOB.sub(r"\1/…", self.path)
        return f"{self.method} {path}"


class Proxy:
    """Listens on a port of its own and passes on to another of this machine."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._network = Network.up
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._num_answers = 0
        self._exchanges: list[Exchange] = []
        self._open: set[int] = set()
        self._wanted = ""
        self._caught = threading.Event()
        self._let_go = threading.Event()
        self.num_lost_answers = 0
        self.num_cut = 0
        """Connections that were reset, or silenced with something to say."""
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listening.settimeout(_SLICE_SECONDS)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    @property
    def has_request(self) -> bool:
        """Whether a request is on its way or being answered now."""
        return bool(self._open)

    @property
    def num_exchanges(self) -> int:
        """How many requests came by so far."""
        return len(self._exchanges)

    def exchanges(self, since: int = 0) -> list[Exchange]:
        """Requests and what came of them, without the first `since`."""
        with self._lock:
            return self._exchanges[since:]

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._let_go.set()
        for thread in list(self._threads):
            thread.join(5)
        self._listening.close()

    def become(self, network: Network) -> None:
        """Changes the network, for open connections too."""
        self._network = network

    def catch_answer(self, path_end: str) -> threading.Event:
        """Set once this holds a good answer to a POST to such a path, which nobody gets before `let_go`.

        What was asked for is done by then, and whoever asked does not know it.
        """
        self._caught.clear()
        self._let_go.clear()
        self._wanted = path_end
        return self._caught

    def let_go(self) -> None:
        """The caught answer is lost, its connection reset."""
        self._wanted = ""
        self._let_go.set()

    def _accept(self) -> None:
        while not self._stopped.is_set():
            try:
                client, _ = self._listening.accept()
            except TimeoutError:
                continue
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            client.settimeout(_SEND_SECONDS)
            with socket.create_connection(("127.0.0.1", self._target_port), 5) as server:
                server.settimeout(_SEND_SECONDS)
                _Carrying(self, client, server).run()
            return
        # Reached when the server does not listen: the client is refused as if it had asked directly.

    def begin(self, exchange: Exchange) -> None:
        with self._lock:
            self._exchanges.append(exchange)
            self._open.add(id(exchange))

    def end(self, exchange: Exchange, how: str) -> None:
        exchange.end, exchange.seconds = how, time.monotonic() - exchange.started
        with self._lock:
            self._open.discard(id(exchange))

    def loses(self, exchange: Exchange) -> bool:
        """Whether this answer does not get through."""
        is_good = 200 <= exchange.status < 300 and exchange.method == "POST"
        if self._wanted and is_good and exchange.path.endswith(self._wanted):
            self._wanted = ""
            self._caught.set()
            self._let_go.wait()
            return True
        with self._lock:
            if self._network is not Network.loses_answers:
                return False
            self._num_answers += 1
            self.num_lost_answers += self._num_answers % 2
            return bool(self._num_answers % 2)

    @property
    def network(self) -> Network:
        return self._network

    def pause(self) -> bool:
        """Waits a moment; whether it goes on."""
        return not self._stopped.wait(_SLICE_SECONDS)

    @property
    def is_stopped(self) -> bool:
        return self._stopped.is_set()


class _Carrying:
    """One connection of a client, and ours to the server."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._exchange: Exchange | None = None

    def run(self) -> None:
        how = "lost"
        try:
            how = self._carry()
        finally:
            if self._exchange is not None:
                self._proxy.end(self._exchange, how)

    def _carry(self) -> str:
        """Carries until one side closes; what an open request then came to."""
        was_silent = False
        while not self._proxy.is_stopped:
            readable, _, _ = select.select([self._client, self._server], [], [], _SLICE_SECONDS)
            if self._proxy.network is Network.reset:
                self._proxy.num_cut += 1
                _reset(self._client)
                return "lost"
            if self._proxy.network is Network.silent:
                self._proxy.num_cut += self._client in readable and not was_silent
                was_silent |= self._client in readable
                self._proxy.pause()
                continue
            for source in readable:
                try:
                    piece = source.recv(_PIECE_BYTES)
                except ConnectionError:
                    piece = b""
                if not piece:
                    return "client" if source is self._client else "server"
                if source is self._client:
                    self._begin(piece)
                    self._server.sendall(piece)
                elif self._answer_is_lost(piece):
                    _reset(self._client)
                    return "lost"
                else:
                    self._client.sendall(piece)
        return "lost"

    def _begin(self, piece: bytes) -> None:
        request = _REQUEST.match(piece)
        if self._exchange is None and request is not None:
            path = request[2].decode().partition("?")[0]
            self._exchange = Exchange(request[1].decode(), path, time.monotonic())
            self._proxy.begin(self._exchange)

    def _answer_is_lost(self, piece: bytes) -> bool:
        answer, exchange = _ANSWER.match(piece), self._exchange
        if exchange is None or answer is None:
            return False
        exchange.status = int(answer[1])
        if exchange.status >= 400:
            exchange.body = piece[-200:].decode(errors="replace")
        is_lost = self._proxy.loses(exchange)
        self._exchange = None
        self._proxy.end(exchange, "lost" if is_lost else "answered")
        return is_lost


def _reset(connection: socket.socket) -> None:
    """Closes it with a reset instead of an orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
