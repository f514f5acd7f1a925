"""What the operator can set: one class, read once in `main`, passed on."""

import ipaddress
import json
import os
import re
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from collapsewatch_server.notify.guard import parse_host

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
_MEBIBYTE = 2**20


class ServerSettings(BaseSettings):
    """Settings of the server, from `COLLAPSEWATCH_…` variables; the defaults run on a laptop."""

    model_config = SettingsConfigDict(
        env_prefix="COLLAPSEWATCH_",
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
        validate_default=True,
    )

    home: Path = Path("~/.collapsewatch")
    """Folder in which the embedded form keeps everything."""
    database_url: SecretStr | None = None
    """`postgresql://user:password@host/name` or `sqlite:////path`; a file in the home folder when absent."""
    redis_url: SecretStr | None = None
    """Redis that suggests the next job and rings for live events; both go without it when absent."""
    blob_url: str | None = None
    """Where the batches lie: `file:///path` or a folder; `blobs` in the home folder when absent."""
    host: str = "127.0.0.1"
    """Address to listen on; at one that other machines can reach people have to sign in."""
    port: Annotated[int, Field(ge=0, le=65535)] = 7788
    """Port to listen on; 0 takes a free one and prints it."""
    insecure: bool = False
    """Let everybody in who reaches the address, also from other machines."""
    login: bool = False
    """Have people sign in at an address of this machine alone as well, such as behind a proxy."""
    session_days: Annotated[float, Field(gt=0, le=90)] = 14.0
    """How long a browser stays signed in without being used."""
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """Networks of the proxies in front, separated by commas: only theirs are believed of `X-Forwarded-…`."""
    proxy_user_header: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,99}$")] | None = None
    """Header in which a trusted proxy says whom it has signed in, such as `X-Forwarded-User`."""
    proxy_operators: Annotated[tuple[str, ...], NoDecode] = ()
    """Names in that header, separated by commas, of those who operate the service."""
    oidc_issuer: str | None = None
    """OpenID provider by which people sign in besides passwords, such as `https://login.example.com`."""
    oidc_client_id: str | None = None
    """Name by which the provider knows this service."""
    oidc_client_secret: SecretStr | None = None
    """Secret that the provider gave to this service; none for a public client."""
    oidc_name: Annotated[str, Field(min_length=1, max_length=40)] = "your organisation"
    """What the button for signing in by the provider calls it."""
    oidc_operators: Annotated[tuple[str, ...], NoDecode] = ()
    """Verified e-mail addresses or subjects at the provider, by commas, of those who operate the service."""
    oidc_join: Literal["invited", "everyone"] = "invited"
    """Who gets an account by the provider: those invited by their e-mail address, or everyone."""
    audit_days: Annotated[float, Field(ge=1, le=36_500)] = 365.0
    """How long the audit log remembers what people did; of more than a million entries the oldest go."""
    worker_key: SecretStr | None = None
    """A worker key that is accepted besides those the server has made, for deployments that choose it."""
    max_request_bytes: Annotated[int, Field(gt=0)] = 64 * _MEBIBYTE
    """Largest request body as sent, in bytes."""
    max_batch_bytes: Annotated[int, Field(gt=0)] = 256 * _MEBIBYTE
    """Largest request body after decompression, in bytes."""
    max_intake_bytes: Annotated[int, Field(gt=0)] = 512 * _MEBIBYTE
    """Most bytes of request bodies, decompressed, that are taken in at once; the next are told to wait."""
    max_intake_requests: Annotated[int, Field(gt=0)] = 256
    """Most requests with data that are taken in at once; the next are told to wait."""
    body_seconds: Annotated[float, Field(gt=0, le=3600)] = 30.0
    """How long a body may take to arrive, besides a second for each 16 KiB of it."""
    rate_reads: Annotated[int, Field(ge=0)] = 12_000
    """Requests of one key or session in a minute that read something; 0 for any number, here and below."""
    rate_writes: Annotated[int, Field(ge=0)] = 1_200
    """The same of those by which people change something."""
    rate_ingest: Annotated[int, Field(ge=0)] = 60_000
    """The same of those by which trainers send data; signs of life are never refused for their number."""
    rate_worker: Annotated[int, Field(ge=0)] = 60_000
    """The same of the calls of workers."""
    rate_links: Annotated[int, Field(ge=0)] = 30_000
    """The same of those by one shared link."""
    rate_entry: Annotated[int, Field(ge=0)] = 120
    """The same of attempts to sign in or to join, right ones among them."""
    rate_bytes: Annotated[int, Field(ge=0)] = 8192 * _MEBIBYTE
    """Bytes of bodies, as sent, of one key or session in a minute; 0 for any number."""
    rate_address_times: Annotated[int, Field(ge=1, le=1000)] = 4
    """An address may do so many times what one key or session may in a minute: an office is behind one."""
    max_streams: Annotated[int, Field(ge=0)] = 500
    """Live streams of one key or session that are open at once; a browser has one for all its tabs."""
    lease_seconds: Annotated[float, Field(gt=0, le=3600)] = 5.0
    """How long a job stays with a worker that no longer says it is alive."""
    max_starts: Annotated[int, Field(ge=1, le=100)] = 3
    """A job that was started this often without a result is dead until someone retries it."""
    reconcile_seconds: Annotated[float, Field(gt=0, le=60)] = 1.0
    """How often expired leases are taken back and queued jobs pushed again."""
    poll_seconds: Annotated[float, Field(gt=0, le=10)] = 1.0
    """How often a waiting claim looks for a job; one that this server queued wakes it at once."""
    shard_wait_seconds: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """How long a step of which some ranks have sent their part waits for the others after the last part."""
    max_waiting_batches: Annotated[int, Field(ge=1, le=100_000)] = 64
    """Batches of one run that wait in line; of more the oldest are deferred until nothing else waits."""
    max_deferred_batches: Annotated[int, Field(ge=0, le=1_000_000)] = 2000
    """Deferred batches of one run; of more, steps that no scorer takes and then the oldest are laid aside."""
    watch_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    """How often the watch looks for runs and workers that went silent, and for what waits too long."""
    stall_seconds: Annotated[float, Field(gt=0, le=86_400)] = 60.0
    """A run without any sign of life for so long has stalled."""
    crash_seconds: Annotated[float, Field(gt=0, le=604_800)] = 600.0
    """A run without any sign of life for so long has crashed."""
    quiet_seconds: Annotated[float, Field(gt=0, le=604_800)] = 600.0
    """A run that is alive but sends no data for so long, and for ten usual steps, raises an alert."""
    worker_seconds: Annotated[float, Field(gt=0, le=3600)] = 15.0
    """A worker without a sign of life for so long is gone."""
    lag_seconds: Annotated[float, Field(gt=0, le=86_400)] = 120.0
    """What waits for longer, in the queue or on a trainer's disk, raises an alert."""
    notify_seconds: Annotated[float, Field(gt=0, le=60)] = 1.0
    """How often changes of alerts are looked for that channels have to be told of."""
    public_url: Annotated[str, Field(pattern=r"^https?://[^\s?#]+$")] | None = None
    """Address under which people reach the page, for shared links and for those in messages."""
    allow_private_channels: bool = False
    """Let channels reach every address, also those of the own network and of this machine."""
    channel_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Hosts of the own network that channels may reach, `name` or `name:port`, separated by commas."""
    secret_key: SecretStr | None = None
    """Key that seals the channels' secrets in the database; one in the home folder when absent."""
    upgrade_backup: bool = True
    """Keep the rows in `backups` of the home folder before a new version changes the database's schema."""
    embedded_worker: bool = True
    """Start one worker process with the server."""
    worker_device: Annotated[
        str, Field(pattern=r"^(auto|cpu|cuda|cuda:\d+)(,(auto|cpu|cuda|cuda:\d+))*$")
    ] = "auto"
    """Devices of the embedded worker: `auto`, `cpu`, `cuda` (a process per GPU), `cuda:0`, or several."""
    checkpoint_roots: Annotated[tuple[Path, ...], NoDecode] = ()
    """Folders from which the embedded worker may load checkpoints, separated by `:`. Empty: it loads none."""
    log_level: LogLevel = "INFO"
    """Least severe message that is logged: `DEBUG`, `INFO`, `WARNING` or `ERROR`."""

    @field_validator(
        "database_url",
        "redis_url",
        "blob_url",
        "worker_key",
        "public_url",
        "secret_key",
        "proxy_user_header",
        "oidc_issuer",
        "oidc_client_id",
        "oidc_client_secret",
        mode="before",
    )
    @classmethod
    def _empty_is_absent(cls, value: object) -> object:
        # Compose files pass an unset variable on as an empty string.
        return None if value == "" else value

    @field_validator("home")
    @classmethod
    def _is_absolute(cls, home: Path) -> Path:
        return home.expanduser().absolute()

    @field_validator("checkpoint_roots", mode="before")
    @classmethod
    def _split_roots(cls, roots: object) -> object:
        if not isinstance(roots, str):
            return roots
        if roots.lstrip().startswith("["):
            return json.loads(roots)
        return [part for part in roots.split(os.pathsep) if part.strip()]

    @field_validator("checkpoint_roots")
    @classmethod
    def _are_absolute(cls, roots: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(root.expanduser().absolute() for root in roots)

    @field_validator("channel_hosts", "trusted_proxies", "proxy_operators", "oidc_operators", mode="before")
    @classmethod
    def _split_by_commas(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        return [part.strip() for part in given.split(",") if part.strip()]

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(ipaddress.ip_network(network, strict=False)) for network in networks)

    @field_validator("oidc_issuer")
    @classmethod
    def _is_private(cls, issuer: str | None) -> str | None:
        if issuer is not None and not is_private_url(issuer):
            raise ValueError(f"an issuer is an https:// address without query or fragment, got {issuer!r}")
        return issuer

    @field_validator("channel_hosts")
    @classmethod
    def _are_hosts(cls, hosts: tuple[str, ...]) -> tuple[str, ...]:
        for host in hosts:
            parse_host(host)
        return hosts

    @field_validator("secret_key")
    @classmethod
    def _is_long(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and len(key.get_secret_value()) < 32:
            raise ValueError("the secret key needs at least 32 random characters")
        return key

    @field_validator("worker_key")
    @classmethod
    def _is_a_key(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None and not re.fullmatch(r"cw_worker_[A-Za-z0-9_-]{32,200}", key.get_secret_value()):
            raise ValueError(
                "a worker key is `cw_worker_` and at least 32 random letters, digits, `-` or `_`"
            )
        return key

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> Self:
        if self.insecure and self.login:
            raise ValueError("either people sign in (login) or everybody is let in (insecure), not both")
        return self

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        """What tells who somebody is needs a service that asks, and all of what it works with."""
        for name in ("proxy_user_header", "oidc_issuer"):
            if getattr(self, name) is not None and not self.needs_login:
                raise ValueError(f"`{name}` is for a service that people sign in to: set `login` as well")
        if self.proxy_user_header is not None and not self.trusted_proxies:
            raise ValueError("`proxy_user_header` needs `trusted_proxies`: from anybody else it is worthless")
        if self.oidc_issuer is not None and self.oidc_client_id is None:
            raise ValueError("`oidc_issuer` needs `oidc_client_id`, which the provider gives")
        return self

    @model_validator(mode="after")
    def _largest_body_fits(self) -> Self:
        if 0 < self.rate_bytes < self.max_request_bytes:
            raise ValueError(
                f"rate_bytes has to be 0 or at least max_request_bytes ({self.max_request_bytes}), else the"
                f" largest body would never be taken; got {self.rate_bytes}"
            )
        return self

    @property
    def needs_login(self) -> bool:
        """Whether people have to sign in, and programs that read need a key."""
        return not self.insecure and (self.login or not is_loopback(self.host))

    @property
    def effective_database_url(self) -> str:
        """`database_url`, or a SQLite file in the home folder."""
        if self.database_url is not None:
            return self.database_url.get_secret_value()
        return f"sqlite:///{self.home / 'collapsewatch.db'}"

    @property
    def effective_redis_url(self) -> str | None:
        """`redis_url` as text."""
        return self.redis_url.get_secret_value() if self.redis_url else None

    @property
    def effective_blob_url(self) -> str:
        """`blob_url`, or the folder `blobs` of the home folder."""
        return self.blob_url or str(self.home / "blobs")


def is_loopback(host: str) -> bool:
    """Whether `host` names this machine alone: `localhost`, 127.0.0.0/8 or ::1, also in brackets."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_private_url(url: str) -> bool:
    """Whether nobody on the way can read or change what goes there: `https://`, or on this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    if not parts.hostname or parts.query or parts.fragment or parts.username:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname))
