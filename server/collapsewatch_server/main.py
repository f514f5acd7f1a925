"""The commands `collapsewatch serve` and `collapsewatch keys`."""

import asyncio
import socket
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from collapsewatch_server.auth import Purpose
from collapsewatch_server.commands import (
    HomeOption,
    prepared,
    print_table,
    settings_of,
    shown_time,
    stop,
)
from collapsewatch_server.launch.credentials import CREDENTIALS_FILE, leave_credentials
from collapsewatch_server.launch.embedded import missing_module
from collapsewatch_server.launch.serving import PageServer, open_socket, url_of
from collapsewatch_server.logs import configure_logging
from collapsewatch_server.repositories import accounts, keys
from collapsewatch_server.settings import ServerSettings

serve_app = typer.Typer(name="serve", add_completion=False, pretty_exceptions_enable=False)
keys_app = typer.Typer(
    name="keys",
    help="Make and withdraw the keys that programs send.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@serve_app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    home: HomeOption = None,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Start no worker process.")] = False,
    worker_device: Annotated[
        str | None, typer.Option(help="Devices of the worker: auto, cpu, cuda, cuda:0, or several by commas.")
    ] = None,
    checkpoint_root: Annotated[
        list[Path] | None, typer.Option(help="Folder from which checkpoints may be loaded; may be repeated.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Let everybody in, also from other machines.")
    ] = False,
    login: Annotated[
        bool, typer.Option("--login", help="Have people sign in on this machine alone as well.")
    ] = False,
    log_level: Annotated[str | None, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = None,
) -> None:
    """Serve the page and take in runs; one process with all it needs.

    What is not given comes from COLLAPSEWATCH_… variables.
    """
    settings = settings_of(
        host=host,
        port=port,
        home=home,
        embedded_worker=False if no_worker else None,
        worker_device=worker_device,
        checkpoint_roots=tuple(checkpoint_root) if checkpoint_root else None,
        insecure=True if insecure else None,
        login=True if login else None,
        log_level=log_level.upper() if log_level else None,
    )
    configure_logging(settings.log_level)
    missing = missing_module() if settings.embedded_worker else None
    if missing is not None:
        typer.echo(f"No worker: it needs {missing}. pip install 'collapsewatch[worker]'", err=True)
        settings = settings.model_copy(update={"embedded_worker": False})
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        listening = open_socket(settings.host, settings.port)
    except OSError as error:
        raise stop(
            f"cannot listen on {settings.host} port {settings.port}: {error.strerror or error}. "
            "--port 0 takes a free port"
        ) from error
    with listening:
        _serve_on(listening, settings)


def _serve_on(listening: socket.socket, settings: ServerSettings) -> None:
    services = prepared(settings)
    url = url_of(listening)
    new_key = leave_credentials(settings.home, url, services.keyring)
    first = None
    if settings.needs_login and services.people.needs_first():
        first = services.people.first_link().url(settings.public_url or url)
    server = PageServer(services, url, lambda: _announce(settings, url, new_key, first))
    asyncio.run(server.serve(sockets=[listening]))
    if not server.started:
        raise typer.Exit(1)


def _announce(settings: ServerSettings, url: str, new_key: str | None, first_link: str | None) -> None:
    worker = f"one, on {settings.worker_device}" if settings.embedded_worker else "none started here"
    lines = [
        f"collapsewatch {version('collapsewatch')}",
        f"  page    {url}",
        f"  API     {url}/docs",
        f"  data    {settings.home}",
        f"  worker  {worker}",
    ]
    if new_key is not None:
        lines += [
            f"  key     {new_key}",
            "          for trainers; it is shown this once. Programs of this user on this machine",
            f"          find it in {settings.home / CREDENTIALS_FILE}",
        ]
    if first_link is not None:
        lines += [
            f"  start   {first_link}",
            "          makes whoever opens it first the operator of this service; good once, for a day",
        ]
    elif settings.needs_login:
        lines.append("  login   people sign in; `collapsewatch accounts` helps who cannot")
    typer.echo("\n".join(lines))


@keys_app.command("create")
def create_key(
    purpose: Annotated[
        Purpose, typer.Option(help="ingest: for trainers. worker: for workers. read: for what reads runs.")
    ] = Purpose.ingest,
    project: Annotated[
        str | None, typer.Option(help="The only project an ingest or read key is good for; any when absent.")
    ] = None,
    label: Annotated[str, typer.Option(help="What the key is for, for people.")] = "",
    days: Annotated[
        float | None, typer.Option(min=0.001, max=3660, help="Days that it is good; for ever when absent.")
    ] = None,
    home: HomeOption = None,
) -> None:
    """Make a key and show it, this once."""
    if purpose is Purpose.worker and project is not None:
        raise typer.BadParameter("a worker key serves every project", param_hint="--project")
    if project is not None and not 0 < len(project.strip()) <= 200:
        raise typer.BadParameter(f"1 to 200 characters, got {len(project)}", param_hint="--project")
    services = prepared(settings_of(home=home))
    seconds = None if days is None else days * 86_400
    name = project.strip() if project else None
    key = services.keyring.create(purpose, project=name, label=label, seconds=seconds)
    with services.database.read_session() as session:
        project_id = None if name is None else accounts.project_named(session, name)
    services.audit.note("key.create", target=f"{purpose} key {label!r}", project_id=project_id)
    services.close()
    typer.echo(key)


@keys_app.command("list")
def list_keys(home: HomeOption = None) -> None:
    """List all keys, without their secret part."""
    services = prepared(settings_of(home=home))
    header = ("id", "key", "purpose", "project", "label", "created", "expires", "last used", "revoked")
    rows = [
        (
            str(key.id),
            f"{key.prefix}…",
            key.purpose,
            project or "any",
            key.label,
            shown_time(key.created_at),
            shown_time(key.expires_at),
            shown_time(key.last_used_at),
            shown_time(key.revoked_at),
        )
        for key, project in services.keyring.all_keys()
    ]
    services.close()
    print_table(header, rows)


@keys_app.command("revoke")
def revoke_key(
    key_id: Annotated[int, typer.Argument(help="Id of the key, as `keys list` shows it.")],
    home: HomeOption = None,
) -> None:
    """Make a key worthless, from the next request on."""
    services = prepared(settings_of(home=home))
    revoked = services.keyring.revoke(key_id)
    if revoked:
        with services.database.read_session() as session:
            found = keys.find(session, key_id)
        project_id = None if found is None else found[0].project_id
        services.audit.note("key.revoke", target=f"key {key_id}", project_id=project_id)
    services.close()
    if not revoked:
        raise stop(f"there is no key {key_id} that is still good")
    typer.echo(f"key {key_id} is revoked")
