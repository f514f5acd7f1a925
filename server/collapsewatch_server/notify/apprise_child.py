"""Sends one message through Apprise, in a process that can do little else: run by `apprise_sender`.

Apprise has some hundred plugins, each with its own way to connect. Whatever they do, this process connects to
addresses of the open internet only (or to hosts the operator allows), starts no program, reads no file but
those of Python and of the certificate authorities, and ends by itself.
"""

import json
import logging
import os
import signal
import socket
import sys
import sysconfig
from pathlib import Path
from typing import Any

from collapsewatch_server.notify.guard import OutgoingGuard, Refused, Unreachable

CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
_SPARE_SECONDS = 2
_FORBIDDEN = (
    "subprocess.Popen",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
    "os.startfile",
)
_READABLE = (
    "/etc/ssl",
    "/etc/pki",
    "/etc/ca-certificates",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/usr/lib/ssl",
    "/usr/share/zoneinfo",
    "/usr/share/zoneinfo-icu",
    "/etc/localtime",
    "/etc/mime.types",
    os.devnull,
)


class Fence:
    """An audit hook: Python asks it before each connection, each program and each file."""

    def __init__(self, guard: OutgoingGuard) -> None:
        self._guard = guard
        self._resolve = socket.getaddrinfo
        self._named: set[tuple[str, int]] = set()
        prefixes = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), *filter(None, sys.path)}
        certificates = (os.environ.get(name) for name in CERTIFICATES)
        self._readable = tuple(
            os.path.realpath(one) for one in (*prefixes, *_READABLE, *filter(None, certificates))
        )
        self.reasons: list[str] = []
        """Why something was refused, for the one who set up the channel."""

    def close(self) -> None:
        """Stands from now on, until the end of the process."""
        socket.getaddrinfo = self._look_up
        sys.addaudithook(self._ask)

    def _look_up(self, host: Any, port: Any, *args: Any, **options: Any) -> Any:
        found = self._resolve(host, port, *args, **options)
        name = host.decode("ascii") if isinstance(host, bytes) else host
        if isinstance(name, str) and self._guard.is_named(name, int(port or 0)):
            self._named |= {(str(one[4][0]), int(one[4][1])) for one in found}
        return found

    def _ask(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            self._check_address(arguments[1])
        elif event == "open":
            self._check_file(arguments[0], arguments[1], arguments[2])
        elif event in _FORBIDDEN:
            self._refuse("a channel may not start programs")

    def _check_address(self, address: Any) -> None:
        if address is None:
            return
        if not isinstance(address, tuple):
            self._refuse("a channel may only speak to hosts of the internet")
        host, port = str(address[0]), int(address[1])
        if (host, port) in self._named or self._guard.is_named(host, port):
            return
        try:
            self._guard.check(host, host)
        except Refused as refused:
            self._refuse(str(refused))

    def _check_file(self, path: Any, mode: Any, flags: Any) -> None:
        if isinstance(path, int) or path is None:
            return
        name = os.path.realpath(os.fsdecode(path))
        is_writing = bool(int(flags or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) or (
            isinstance(mode, str) and any(letter in mode for letter in "wax+")
        )
        if name == os.devnull:
            return
        if is_writing or not any(name == one or name.startswith(one + os.sep) for one in self._readable):
            self._refuse("a channel may not use files of the server")

    def _refuse(self, reason: str) -> None:
        self.reasons.append(reason)
        # An error of the operating system is what plugins expect of a connection or a file.
        raise PermissionError(reason)


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main() -> None:
    """Reads one message from the standard input, sends it, and says how it went."""
    order = json.load(sys.stdin)
    signal.alarm(int(order["seconds"]) + _SPARE_SECONDS)
    print(json.dumps(_send(order)))  # noqa: T201 (the answer)


def _send(order: dict[str, Any]) -> dict[str, Any]:
    guard = OutgoingGuard(allow_private=order["allow_private"], hosts=order["hosts"])
    host = order.get("host")
    if host is not None:
        try:
            guard.addresses_of(host[0], host[1])
        except (Refused, Unreachable) as error:
            return {"is_sent": False, "answer": str(error), "may_retry": isinstance(error, Unreachable)}
    import apprise
    from requests import sessions

    # Also a redirect that a plugin would follow of its own accord ends as an error.
    vars(sessions)["DEFAULT_REDIRECT_LIMIT"] = 0
    kept = _Kept()
    apprise_log = logging.getLogger("apprise")
    apprise_log.addHandler(kept)
    apprise_log.propagate = False
    asset = apprise.AppriseAsset(
        app_id="collapsewatch",
        app_desc="collapsewatch",
        app_url="",
        async_mode=False,
        http_redirects=False,
        pgp_autogen=False,
        pem_autogen=False,
        storage_mode=apprise.PersistentStoreMode.MEMORY,
        service_timeout=float(order["seconds"]),
    )
    fence = Fence(guard)
    fence.close()
    service = apprise.Apprise(asset=asset)
    if not service.add(order["url"]):
        answer = " ".join([*fence.reasons, "Apprise does not understand the URL.", *kept.lines])
        return {"is_sent": False, "answer": answer, "may_retry": False}
    is_sent = bool(
        service.notify(
            body=order["body"],
            title=order["title"],
            notify_type=order["type"],
            body_format=apprise.NotifyFormat.TEXT,
            interpret_escapes=False,
        )
    )
    answer = " ".join([*fence.reasons, *kept.lines])
    return {"is_sent": is_sent, "answer": answer, "may_retry": not fence.reasons}


if __name__ == "__main__":
    # Nothing but the module's own folders is readable later; the current one is not among them.
    os.chdir(Path(os.sep))
    main()
