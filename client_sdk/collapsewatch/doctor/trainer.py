"""What a trainer needs: a server that answers, a key that it takes, clocks that agree, room for the spool."""

import os
import time
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path
from uuid import uuid4

import httpx

from collapsewatch.doctor.findings import Finding, Look, bad, go_through, note, ok, room
from collapsewatch.errors import SettingsError
from collapsewatch.settings import Settings, load_settings
from collapsewatch.wire import connect

_SECONDS = 5.0
_SKEW_SECONDS = 5.0
# The server's own header has whole seconds, and the answer was on its way.
_BLUR_SECONDS = 2.0


def checks() -> list[Finding]:
    """What was found on this machine as a trainer."""
    try:
        settings = load_settings()
    except SettingsError as error:
        return [bad("settings", str(error), "correct the variable")]
    looks: list[tuple[str, Look]] = [
        ("server", lambda: _server(settings)),
        ("key", lambda: _key(settings)),
        ("read key", lambda: _read_key(settings)),
        ("spool", lambda: _spool(settings)),
    ]
    return list(go_through(looks))


def _server(settings: Settings) -> list[Finding]:
    try:
        with connect(settings) as client:
            answer = client.get("/healthz", timeout=_SECONDS)
            here = time.time()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return [
            bad(
                "server",
                f"nothing answers at {settings.url}: {error}",
                "start it with `collapsewatch serve`, or set COLLAPSEWATCH_URL to where it runs; "
                "what is logged meanwhile waits on disk",
            )
        ]
    try:
        its_version = str(answer.json()["version"])
    except (ValueError, KeyError, TypeError):
        return [
            bad(
                "server",
                f"something else answers at {settings.url} (HTTP {answer.status_code})",
                "set COLLAPSEWATCH_URL to the address of collapsewatch, and its path behind a proxy",
            )
        ]
    return [_same_version(settings.url, its_version), _clock(answer.headers.get("date"), here)]


def _same_version(url: str, its_version: str) -> Finding:
    mine = version("collapsewatch")
    if its_version == mine:
        return ok("server", f"{url} answers, version {its_version}")
    return note(
        "server",
        f"{url} runs version {its_version}, and this is {mine}",
        "upgrade the older one; the server first",
    )


def _clock(date: str | None, here: float) -> Finding:
    try:
        there = parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return note("clock", "the server's answer has no date", "let the proxy pass the header Date on")
    ahead = here - there
    if abs(ahead) <= _SKEW_SECONDS + _BLUR_SECONDS:
        return ok("clock", "agrees with the server's")
    way = "ahead of" if ahead > 0 else "behind"
    return bad(
        "clock",
        f"this machine is {abs(ahead):.0f} s {way} the server",
        "synchronise both with NTP (`timedatectl set-ntp true`): starts of a run are ordered by their clocks",
    )


def _key(settings: Settings) -> Finding:
    if settings.api_key is None:
        return bad(
            "key",
            f"there is none for {settings.url}",
            "make one on the server with `collapsewatch keys create --purpose ingest`, and set "
            "COLLAPSEWATCH_API_KEY",
        )
    try:
        status = _status_with_key(settings)
    except (httpx.HTTPError, httpx.InvalidURL):
        return note("key", "nobody could be asked", "mend the way to the server first")
    if status == 404:
        return ok("key", "the server takes it")
    if status in (401, 403):
        return bad(
            "key",
            "the server refuses it" if status == 401 else "it is good, and not for trainers",
            "make one with `collapsewatch keys create --purpose ingest`; what is logged waits on disk",
        )
    return note("key", f"the server answered with {status}", "try again when it is less busy")


def _read_key(settings: Settings) -> Finding:
    """Whether programs here may read what people see; a trainer that only sends does without."""
    try:
        with connect(settings, reads=True) as client:
            status = client.get("/api/v1/metrics-info", timeout=_SECONDS).status_code
    except (httpx.HTTPError, httpx.InvalidURL):
        return note("read key", "nobody could be asked", "mend the way to the server first")
    if status == 200:
        return ok("read key", "the commands that read, and `run.show()`, are answered")
    if status in (401, 403):
        has = "is refused" if settings.read_key is not None else "is missing"
        return note(
            "read key",
            f"people sign in to this server, and the key with which programs read {has}; training needs none",
            "for the commands that read and for `run.show()` make one on the page at Settings, Keys, or with "
            "`collapsewatch keys create --purpose read`, and set COLLAPSEWATCH_READ_KEY",
        )
    return note("read key", f"the server answered with {status}", "try again when it is less busy")


def _status_with_key(settings: Settings) -> int:
    with connect(settings) as client:
        # Of a run that cannot exist: whoever is let in hears that there is none.
        path = f"/api/v1/runs/doctor-{uuid4().hex}/alerts/standing"
        headers = {"Authorization": f"Bearer {settings.api_key}"}
        return client.get(path, headers=headers, timeout=_SECONDS).status_code


def _spool(settings: Settings) -> list[Finding]:
    if settings.spool_root is None:
        return [bad("spool", "this user has no home folder", "set COLLAPSEWATCH_SPOOL to a folder of a disk")]
    root = settings.spool_root
    place = next(path for path in (root, *root.parents) if path.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        return [bad("spool", f"{place} cannot be written", "set COLLAPSEWATCH_SPOOL to a folder that can")]
    return [room("spool", root), _left(root)]


def _left(root: Path) -> Finding:
    sizes = [file.stat().st_size for file in root.glob("**/*") if file.is_file()] if root.exists() else []
    total = sum(sizes)
    if total < 2**20:
        return ok("spool", "nothing to speak of waits in it")
    return note(
        "spool",
        f"{total / 2**20:.0f} MiB wait in {root}",
        "`collapsewatch sync` sends what ended trainings left",
    )
