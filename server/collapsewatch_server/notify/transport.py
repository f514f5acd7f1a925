"""HTTP to addresses that were checked: connected as checked, no proxy, and all of it by a deadline."""

import ssl
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore
import httpx

from collapsewatch_server.notify.guard import OutgoingGuard


class Deadline:
    """When an exchange has to be over, however slowly the other side drips."""

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left.

        Raises:
            httpcore.TimeoutException: none.
        """
        left = self._until - time.monotonic()
        if left <= 0:
            raise httpcore.TimeoutException("the receiver took too long")
        return left


class GuardedTransport(httpx.BaseTransport):
    """A transport that connects to the very address that the guard has let pass.

    Certificates are still checked against the host's name, which the URL keeps.
    """

    def __init__(self, guard: OutgoingGuard, deadline: Deadline) -> None:
        self._pool = httpcore.ConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_keepalive_connections=0,
            network_backend=_Backend(guard, deadline),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """The answer; its body is not read yet.

        Raises:
            Refused, Unreachable: by the guard.
            httpx.TransportError: all else.
        """
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        try:
            response = self._pool.handle_request(
                httpcore.Request(request.method, url, headers=request.headers.raw, content=request.read())
            )
        except httpcore.TimeoutException as error:
            raise httpx.TimeoutException(str(error) or "it took too long") from error
        except (httpcore.NetworkError, httpcore.ProtocolError, ssl.SSLError) as error:
            raise httpx.TransportError(str(error) or type(error).__name__) from error
        body = response.stream
        assert isinstance(body, Iterable)
        return httpx.Response(response.status, headers=response.headers, stream=_Body(body, response))

    def close(self) -> None:
        """Closes the connection."""
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, chunks: Iterable[bytes], response: httpcore.Response) -> None:
        self._chunks = chunks
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from self._chunks
        except httpcore.TimeoutException as error:
            raise httpx.TimeoutException(str(error) or "it took too long") from error
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise httpx.TransportError(str(error) or type(error).__name__) from error

    def close(self) -> None:
        self._response.close()


class _Backend(httpcore.NetworkBackend):
    def __init__(self, guard: OutgoingGuard, deadline: Deadline) -> None:
        self._guard = guard
        self._deadline = deadline
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        found = self._guard.addresses_of(host, port)
        for position, address in enumerate(found):
            # Each later address gets a share of the time, in case an earlier one swallows packets.
            share = self._deadline.left() / (len(found) - position)
            try:
                stream = self._sockets.connect_tcp(address, port, timeout=share)
                return _Stream(stream, self._deadline)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if position + 1 == len(found):
                    raise
        raise AssertionError("the guard gives at least one address")


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left())

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left())

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        stream = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left())
        return _Stream(stream, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
