"""Real receivers on loopback: HTTP that answers as it is told, and a mail server that keeps what it gets."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default as modern_policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session


@dataclass
class Answer:
    """What a receiver answers."""

    status: int = 200
    body: bytes = b"ok"
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Got:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    body: bytes


class HttpReceiver:
    """Keeps every request; answers by `answer`, which may be replaced at any time."""

    def __init__(self, port: int = 0, context: ssl.SSLContext | None = None) -> None:
        self.got: list[Got] = []
        self.answer: Callable[[Got], Answer] = lambda got: Answer()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {name.lower(): value for name, value in self.headers.items()}
                got = Got(self.path, headers, body)
                receiver.got.append(got)
                answer = receiver.answer(got)
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that went away is what some tests are about."""

        self._server = Server(("127.0.0.1", port), Handler)
        if context is not None:
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def url(self, path: str = "/hook", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"

    def stop(self) -> None:
        """Answers nobody any more; its port is free again."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


@contextmanager
def http_receiver(**options: Any) -> Iterator[HttpReceiver]:
    receiver = HttpReceiver(**options)
    try:
        yield receiver
    finally:
        receiver.stop()


@contextmanager
def dripping_receiver(first: bytes, drip: bytes, seconds: float) -> Iterator[int]:
    """Port of a receiver that sends a few bytes again and again, and never ends."""
    stopping = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    listening.settimeout(0.1)

    def serve_one(connection: socket.socket) -> None:
        with connection:
            try:
                connection.sendall(first)
                while not stopping.wait(seconds):
                    connection.sendall(drip)
            except OSError:
                pass

    def serve() -> None:
        while not stopping.is_set():
            try:
                connection, _ = listening.accept()
            except TimeoutError:
                continue
            connection.settimeout(5)
            threading.Thread(target=serve_one, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(listening.getsockname()[1])
    finally:
        stopping.set()
        thread.join(5)
        listening.close()


@dataclass
class Mailbox:
    """Mail that a real mail server has taken."""

    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    refusal: str = ""
    """What the server says to the next mail instead of taking it."""

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.refusal:
            return self.refusal
        content = envelope.content
        assert isinstance(content, bytes)
        mail = BytesParser(policy=modern_policy).parsebytes(content)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        return "250 taken"

    def url(self, host: str = "127.0.0.1") -> str:
        return (
            f"mailto://{host}:{self.port}?smtp={host}&from=watch@example.org&to=me@example.org&mode=insecure"
        )


@contextmanager
def mailbox() -> Iterator[Mailbox]:
    box = Mailbox()
    with socket.create_server(("127.0.0.1", 0)) as probe:
        box.port = probe.getsockname()[1]
    controller = Controller(box, hostname="127.0.0.1", port=box.port)
    controller.start()
    try:
        yield box
    finally:
        controller.stop()
