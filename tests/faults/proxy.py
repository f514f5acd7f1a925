"""The network between two processes, as a TCP proxy that can cut it, silence it, or lose answers."""

import contextlib
import select
import socket
import struct
import threading
from enum import StrEnum
from types import TracebackType
from typing import Self

_SLICE_SECONDS = 0.02
_SEND_SECONDS = 30.0
_PIECE_BYTES = 1 << 16


class Network(StrEnum):
    """What becomes of the bytes."""

    up = "up"
    reset = "reset"
    """Connections are reset, open ones and new ones."""
    silent = "silent"
    """Nothing arrives and nobody is told: a pulled cable."""
    loses_answers = "loses_answers"
    """Every request arrives, and every second answer gets lost: everything is sent twice."""


class Proxy:
    """Listens on a port of its own and passes on to another of this machine."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._network = Network.up
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._num_waiting = 0
        self._num_answers = 0
        self.num_lost_answers = 0
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listening.settimeout(_SLICE_SECONDS)
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    @property
    def has_request(self) -> bool:
        """Whether a request is on its way or being answered now."""
        return self._num_waiting > 0

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in list(self._threads):
            thread.join(5)
        self._listening.close()

    def become(self, network: Network) -> None:
        """Changes the network, for open connections too."""
        self._network = network

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
                self._carry(client, server)
            return
        # Reached when the server does not listen: the client is refused as if it had asked directly.

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        waiting = False
        try:
            while not self._stopped.is_set():
                readable, _, _ = select.select([client, server], [], [], _SLICE_SECONDS)
                if self._network is Network.reset:
                    _reset(client)
                    return
                if self._network is Network.silent:
                    self._stopped.wait(_SLICE_SECONDS)
                    continue
                for source in readable:
                    piece = source.recv(_PIECE_BYTES)
                    if not piece:
                        return
                    if source is server and waiting:
                        waiting = self._note(waiting, False)
                        if self._loses_this_answer():
                            _reset(client)
                            return
                    elif source is client:
                        waiting = self._note(waiting, True)
                    (server if source is client else client).sendall(piece)
        finally:
            self._note(waiting, False)

    def _note(self, was_waiting: bool, is_waiting: bool) -> bool:
        with self._lock:
            self._num_waiting += is_waiting - was_waiting
        return is_waiting

    def _loses_this_answer(self) -> bool:
        with self._lock:
            if self._network is not Network.loses_answers:
                return False
            self._num_answers += 1
            self.num_lost_answers += self._num_answers % 2
            return bool(self._num_answers % 2)


def _reset(connection: socket.socket) -> None:
    """Closes it with a reset instead of an orderly end."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()
