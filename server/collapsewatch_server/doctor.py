"""What a server needs: a database of its schema, a queue that evicts nothing, blobs, room, open files."""

import asyncio
import ipaddress
import resource
import socket
import time
import uuid
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redis
from pydantic import ValidationError
from sqlalchemy import make_url, select
from sqlalchemy.exc import SQLAlchemyError

from collapsewatch.blobs import open_blob_store
from collapsewatch.doctor.findings import Finding, Look, bad, go_through, note, ok, room
from collapsewatch_server.db import Database, now
from collapsewatch_server.launch.embedded import missing_module
from collapsewatch_server.migrations import knows_revision, newest_revision, stored_revision
from collapsewatch_server.queue.feed import connect
from collapsewatch_server.settings import ServerSettings, is_loopback
from collapsewatch_server.web.provider import Provider, ProviderProblem

_SKEW_SECONDS = 2.0
_FEW_FILES = 1024


def checks() -> list[Finding]:
    """What was found on this machine as a server."""
    try:
        settings = ServerSettings()
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        name = ".".join(str(part) for part in first["loc"]) or "settings"
        return [bad(name, first["msg"].removeprefix("Value error, "), "correct the variable")]
    looks: list[tuple[str, Look]] = [
        ("home", lambda: room("home", settings.home)),
        ("database", lambda: _database(settings)),
        ("redis", lambda: _redis(settings)),
        ("blobs", lambda: _blobs(settings)),
        ("address", lambda: _address(settings)),
        ("login", lambda: _login(settings)),
        ("open files", _open_files),
        ("worker", lambda: _worker(settings)),
    ]
    return list(go_through(looks))


def _database(settings: ServerSettings) -> list[Finding]:
    url = make_url(settings.effective_database_url)
    shown = url.render_as_string(hide_password=True)
    if url.drivername == "sqlite" and not Path(url.database or "").exists():
        return [note("database", f"there is none at {url.database} yet", "the first start makes it")]
    try:
        with (
            closing(Database(settings.effective_database_url)) as database,
            database.engine.connect().execution_options(begin="BEGIN") as connection,
        ):
            revision = stored_revision(connection)
            ahead = time.time() - float(connection.scalar(select(now())) or 0.0)
    except (SQLAlchemyError, ValueError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        return [
            bad("database", f"{shown}: {reason}", "check COLLAPSEWATCH_DATABASE_URL, and that it runs"),
        ]
    return [_schema(shown, revision), _clock(ahead)]


def _schema(shown: str, revision: str | None) -> Finding:
    newest = newest_revision()
    if revision == newest:
        return ok("database", f"{shown}, schema {revision}")
    if revision is None:
        return note("database", f"{shown} is empty", "the next start makes its tables")
    if knows_revision(revision):
        return note(
            "database", f"{shown} has schema {revision}, and this is {newest}", "the next start upgrades it"
        )
    return bad(
        "database",
        f"{shown} has schema {revision}, which this version does not know",
        "upgrade collapsewatch: a later version has written it",
    )


def _clock(ahead: float) -> Finding:
    if abs(ahead) <= _SKEW_SECONDS:
        return ok("clock", "agrees with the database's")
    way = "ahead of" if ahead > 0 else "behind"
    return note(
        "clock",
        f"this machine is {abs(ahead):.0f} s {way} the database",
        "synchronise both with NTP: leases go by the database's clock, ages on the page by this one's",
    )


def _redis(settings: ServerSettings) -> Finding:
    url = settings.effective_redis_url
    if url is None:
        return ok("redis", "none is used")
    try:
        with closing(connect(url)) as client:
            client.ping()
            return _eviction(client)
    except (redis.RedisError, ValueError) as error:
        return bad(
            "redis",
            f"it does not answer: {error}",
            "check COLLAPSEWATCH_REDIS_URL and that it runs; until then jobs start up to a second later",
        )


def _eviction(client: Any) -> Finding:
    try:
        found = client.config_get("maxmemory*")
    except redis.ResponseError:
        return note("redis", "it does not tell its eviction policy", "make sure that it is `noeviction`")
    policy, limit = found.get("maxmemory-policy", "noeviction"), int(found.get("maxmemory", 0))
    if policy == "noeviction" or limit == 0:
        return ok("redis", f"answers, maxmemory-policy {policy}")
    return bad(
        "redis",
        f"its maxmemory-policy is {policy}: it may drop what waits in the queue",
        "`redis-cli config set maxmemory-policy noeviction`, and the same in its configuration",
    )


def _blobs(settings: ServerSettings) -> list[Finding]:
    url = settings.effective_blob_url
    try:
        store = open_blob_store(url)
    except ValueError as error:
        return [bad("blobs", str(error), "correct COLLAPSEWATCH_BLOB_URL")]
    folder = Path(getattr(store, "folder", "/"))
    if settings.blob_url is None and not settings.home.exists():
        return [note("blobs", f"there is no {folder} yet", "the first start makes it")]
    key = f"health/{uuid.uuid4().hex}"
    try:
        store.write(key, b"doctor")
        is_same = store.read(key) == b"doctor"
    except (OSError, KeyError) as error:
        reason = getattr(error, "strerror", None) or error
        return [bad("blobs", f"{folder}: {reason}", "mount it, and give this user the right to write there")]
    finally:
        with suppress(OSError):
            store.delete(key)
    if not is_same:
        return [bad("blobs", f"{folder} answers with something else than was written", "check the mount")]
    return [ok("blobs", f"{folder} can be written and read"), room("blobs", folder)]


def _address(settings: ServerSettings) -> Finding:
    where = f"{settings.host}:{settings.port}"
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host.strip("[]"), settings.port))
        except OSError as error:
            return note(
                "address",
                f"{where}: {error.strerror or error}",
                "well when the server is running already; else choose another with --host and --port",
            )
    if is_loopback(settings.host):
        return ok("address", f"{where}, this machine alone")
    if settings.needs_login:
        return ok("address", f"{where} can be reached from elsewhere, and people sign in")
    return note(
        "address",
        f"{where} can be reached from elsewhere, and everybody who reaches it is let in",
        "unset COLLAPSEWATCH_INSECURE, so that people sign in; or let nobody else reach it",
    )


def _login(settings: ServerSettings) -> Finding | list[Finding]:
    if not settings.needs_login:
        return ok("login", "nobody signs in")
    found = [_transport(settings)]
    if settings.public_url is not None and not settings.trusted_proxies and _is_secure(settings.public_url):
        found.append(
            note(
                "proxy",
                "the proxy that makes it https is not named, so cookies are not kept to https, and the audit "
                "log has the proxy's address for everybody's",
                "set COLLAPSEWATCH_TRUSTED_PROXIES to its address; have it send X-Forwarded-For and -Proto",
            )
        )
    if any(ipaddress.ip_network(one).prefixlen == 0 for one in settings.trusted_proxies):
        found.append(
            bad("proxy", "every address counts as a trusted proxy", "name the proxies' own addresses alone")
        )
    if settings.oidc_issuer is not None:
        found.append(asyncio.run(_provider(settings)))
    return found


def _transport(settings: ServerSettings) -> Finding:
    """Whether passwords can be read on the way."""
    url = settings.public_url
    if url is not None:
        if _is_secure(url):
            return ok("login", f"people sign in at {url}")
    elif is_loopback(settings.host):
        return ok("login", "people sign in, on this machine")
    return note(
        "login",
        f"passwords and cookies go to {url or settings.host} unencrypted",
        "put a proxy with TLS before it, as docs/deploy.md shows, and set COLLAPSEWATCH_PUBLIC_URL to its "
        "https:// address",
    )


def _is_secure(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


async def _provider(settings: ServerSettings) -> Finding:
    try:
        await Provider(settings).look()
    except ProviderProblem as error:
        return bad("provider", str(error), "check COLLAPSEWATCH_OIDC_ISSUER, and that it can be reached")
    return ok("provider", f"{settings.oidc_issuer} answers as an OpenID provider")


def _open_files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft > _FEW_FILES or soft == resource.RLIM_INFINITY:
        return ok("open files", f"up to {soft}")
    return note(
        "open files",
        f"at most {soft}: every open page and waiting worker takes one",
        f"`ulimit -n {min(hard, 65536) if hard > 0 else 65536}`, or LimitNOFILE in the unit",
    )


def _worker(settings: ServerSettings) -> Finding:
    if not settings.embedded_worker:
        return ok("worker", "none is started here, as asked")
    missing = missing_module()
    if missing is None:
        return ok("worker", f"one is started with the server, on {settings.worker_device}")
    return bad("worker", f"it needs {missing}", "pip install 'collapsewatch[worker]', or serve --no-worker")
