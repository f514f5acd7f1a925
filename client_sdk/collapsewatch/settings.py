"""Where a run is sent, with which key, and where that was said."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast, get_args
from urllib.parse import urlsplit

from collapsewatch.boundary import is_strict, log
from collapsewatch.errors import SettingsError

Mode = Literal["online", "offline", "disabled"]

DEFAULT_URL = "http://127.0.0.1:7788"
CREDENTIALS_FILE = "credentials.json"
DEFAULT_SPOOL_BYTES = 2**30
READ_KEY_HINT = (
    "People sign in to this server, and programs that read need a key for it: make one on the page at "
    "Settings, Keys, or on the server with `collapsewatch keys create --purpose read`, and set "
    "COLLAPSEWATCH_READ_KEY"
)
"""What to do where a server refuses a program that reads."""

ENVIRONMENT: dict[str, str] = {
    "COLLAPSEWATCH_URL": "Server that runs are sent to; default: the local server's, else " + DEFAULT_URL,
    "COLLAPSEWATCH_API_KEY": "Project key; default: the local server's, for that server only",
    "COLLAPSEWATCH_READ_KEY": "Key of the commands that read and of `run.show()`, where people sign in; "
    "default: the local server's, for that server only",
    "COLLAPSEWATCH_MODE": "`online`; `offline` to keep everything on disk until `collapsewatch sync`; "
    "`disabled` to make every call do nothing; default `online`",
    "COLLAPSEWATCH_HOME": "Folder where the local server leaves its credentials; default `~/.collapsewatch`",
    "COLLAPSEWATCH_SPOOL": "Folder where runs wait to be sent; default: `spool` in the home folder",
    "COLLAPSEWATCH_SPOOL_MAX_BYTES": "What one process may keep there; the oldest rollouts go first; "
    f"default {DEFAULT_SPOOL_BYTES}",
    "COLLAPSEWATCH_PROJECT": "Project when `init` names none; default `default`",
    "COLLAPSEWATCH_NAME": "Name of the run when `init` gives none; default: a readable one is drawn",
    "COLLAPSEWATCH_TAGS": "Tags when `init` gives none, separated by commas",
    "COLLAPSEWATCH_MIRROR": "What is mirrored with a W&B run of the same process when `init` does not say: "
    "`from_wandb`, `to_wandb`, `both`; default: nothing",
    "COLLAPSEWATCH_RUN_ID": "Run to open when `init` names none, for processes that log to one run",
    "COLLAPSEWATCH_ATTEMPT_ID": "Which start of the training this is, the same in all its processes; "
    "default: as torchrun or Slurm say, else a new one",
    "COLLAPSEWATCH_STRICT": "`1` makes the SDK raise instead of log, for tests of training code; default off",
}
"""Every variable the SDK reads, and what it is for."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What `init` works with. Arguments come before the environment, the environment before the file."""

    url: str
    """Scheme, host and port (and path prefix) of the server, without a slash at the end."""
    api_key: str | None = field(default=None, repr=False)
    """With which a trainer sends."""
    read_key: str | None = field(default=None, repr=False)
    """With which a program reads what people see, where they have to sign in."""
    mode: Mode = "online"
    strict: bool = False
    spool_root: Path | None = None
    """Where the spools of all processes lie; None: nowhere that is known, so below the temporary folder."""
    max_spool_bytes: int = DEFAULT_SPOOL_BYTES
    """What may wait for an absent server, as uncompressed JSON."""
    run_id: str | None = None
    attempt_id: str | None = None
    project: str | None = None
    name: str | None = None
    tags: tuple[str, ...] | None = None
    mirror: str | None = None
    retry_seconds: float = 0.5
    """First pause after a failed request; it doubles up to `max_retry_seconds`."""
    max_retry_seconds: float = 15.0


def load_settings(
    *,
    url: str | None = None,
    api_key: str | None = None,
    read_key: str | None = None,
    mode: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """The settings that hold for one run.

    A key goes to the server it was stored with and to no other: the key of the credentials file only to the
    file's url, and a key of the environment not to an argument `url` that differs from `COLLAPSEWATCH_URL`.

    Raises:
        SettingsError: an unusable url, key, mode or size.
    """
    stored = _stored_credentials(environ)
    environ_url = _optional_url(environ.get("COLLAPSEWATCH_URL"), "COLLAPSEWATCH_URL")
    chosen_url = _optional_url(url, "url") or environ_url or stored.url or DEFAULT_URL

    def key(given: str | None, variable: str, kept: str | None) -> str | None:
        if not given and environ_url in (None, chosen_url):
            given = environ.get(variable)
        if not given and stored.url == chosen_url:
            given = kept
        return _checked_key(given or None)

    return Settings(
        url=chosen_url,
        api_key=key(api_key, "COLLAPSEWATCH_API_KEY", stored.api_key),
        read_key=key(read_key, "COLLAPSEWATCH_READ_KEY", stored.read_key),
        mode=_checked_mode(mode or environ.get("COLLAPSEWATCH_MODE") or "online"),
        strict=is_strict(environ),
        spool_root=_spool_root(environ),
        max_spool_bytes=_checked_bytes(environ.get("COLLAPSEWATCH_SPOOL_MAX_BYTES")),
        run_id=environ.get("COLLAPSEWATCH_RUN_ID") or None,
        attempt_id=environ.get("COLLAPSEWATCH_ATTEMPT_ID") or None,
        project=environ.get("COLLAPSEWATCH_PROJECT") or None,
        name=environ.get("COLLAPSEWATCH_NAME") or None,
        tags=_tags(environ.get("COLLAPSEWATCH_TAGS")),
        mirror=environ.get("COLLAPSEWATCH_MIRROR") or None,
    )


def _tags(given: str | None) -> tuple[str, ...] | None:
    return tuple(tag.strip() for tag in given.split(",") if tag.strip()) if given else None


def _spool_root(environ: Mapping[str, str]) -> Path | None:
    given = environ.get("COLLAPSEWATCH_SPOOL")
    try:
        return (Path(given).expanduser() if given else home_folder(environ) / "spool").absolute()
    except (OSError, RuntimeError):
        # A container's user may have no home folder, and a working directory may be gone.
        return None


def _checked_bytes(given: str | None) -> int:
    if not given:
        return DEFAULT_SPOOL_BYTES
    if not given.strip().isdecimal() or not 2**20 <= int(given[:20]) <= 2**50:
        raise SettingsError(
            f"`COLLAPSEWATCH_SPOOL_MAX_BYTES` must be a number of bytes from {2**20} on, got {given[:40]!r}"
        )
    return int(given)


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder of the local server, `~/.collapsewatch` unless `COLLAPSEWATCH_HOME` says otherwise.

    Raises:
        RuntimeError: the user has no home folder.
    """
    given = environ.get("COLLAPSEWATCH_HOME")
    return Path(given).expanduser() if given else Path.home() / ".collapsewatch"


def normalised_url(url: str, source: str = "url") -> str:
    """The url in the spelling that is compared: lower-case host, no default port, no slash at the end.

    Raises:
        SettingsError: not an http(s) url, or one with a password, a query or a fragment.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except (AttributeError, TypeError, ValueError) as error:
        raise SettingsError(f"`{source}` is not a url: {error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"`{source}` must look like http://host:7788, got {url!r}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise SettingsError(f"`{source}` may hold no password, query or fragment; give the key as `api_key`")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    default_port = 443 if parts.scheme == "https" else 80
    suffix = "" if port in (None, default_port) else f":{port}"
    return f"{parts.scheme}://{host}{suffix}{parts.path.rstrip('/')}"


def _optional_url(url: str | None, source: str) -> str | None:
    return normalised_url(url, source) if url else None


def _checked_key(key: str | None) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str):
        raise SettingsError(f"the API key must be a string, got {type(key).__name__}")
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        # The key itself stays out of the message.
        raise SettingsError("the API key holds characters that no key has")
    return key or None


def _checked_mode(mode: str) -> Mode:
    if mode not in get_args(Mode):
        raise SettingsError(f"`mode` must be one of {', '.join(get_args(Mode))}, got {mode!r}")
    return cast(Mode, mode)


@dataclass(frozen=True, slots=True)
class _Stored:
    """What the local server has left in the home folder."""

    url: str | None = None
    api_key: str | None = None
    read_key: str | None = None


def _stored_credentials(environ: Mapping[str, str]) -> _Stored:
    """Url and keys that the local server left; nothing when there is no such file or it is unusable."""
    try:
        path = home_folder(environ) / CREDENTIALS_FILE
        stored = json.loads(path.read_text(encoding="utf-8"))
        # Earlier versions left no key for reading.
        read_key = stored.get("read_key")
        return _Stored(
            normalised_url(stored["url"], CREDENTIALS_FILE),
            str(stored["api_key"]),
            None if read_key is None else str(read_key),
        )
    except FileNotFoundError:
        return _Stored()
    except (OSError, RuntimeError, ValueError, TypeError, KeyError, SettingsError, AttributeError) as error:
        # RuntimeError: a container's user may have no home folder.
        log.warning("stored credentials ignored: %s: %s", type(error).__name__, error)
        return _Stored()
