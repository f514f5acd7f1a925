"""The commands `collapsewatch backup` and `collapsewatch restore`."""

import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.exc import SQLAlchemyError

from collapsewatch.blobs import open_blob_store
from collapsewatch_server.backup import keeping
from collapsewatch_server.commands import (
    HomeOption,
    check_is_there,
    note_at_the_machine,
    reason_of,
    settings_of,
    stop,
)
from collapsewatch_server.db import Database
from collapsewatch_server.migrations import UnknownSchema
from collapsewatch_server.notify.vault import KEY_FILE

backup_app = typer.Typer(name="backup", add_completion=False, pretty_exceptions_enable=False)
restore_app = typer.Typer(name="restore", add_completion=False, pretty_exceptions_enable=False)


@backup_app.command()
def backup(
    file: Annotated[
        Path | None, typer.Argument(help="File to make; default: collapsewatch-<time>.tar in this folder.")
    ] = None,
    home: HomeOption = None,
    no_blobs: Annotated[
        bool, typer.Option("--no-blobs", help="Leave the rollouts out: metrics, alerts and settings only.")
    ] = False,
) -> None:
    """Write everything the service keeps into one file, while it goes on.

    Database and blob store are those of COLLAPSEWATCH_… variables or of the home folder. The file can be
    restored into SQLite and into PostgreSQL. The key that opens the channels' secrets is not in it.
    """
    settings = settings_of(home=home)
    path = file or Path(f"collapsewatch-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}.tar")
    try:
        blobs = None if no_blobs else open_blob_store(settings.effective_blob_url)
        check_is_there(settings.effective_database_url)
        with closing(Database(settings.effective_database_url)) as database:
            contents = keeping.back_up(database, blobs, path, typer.echo)
            note_at_the_machine(database, "backup.make", str(path))
    except (ValueError, OSError, SQLAlchemyError) as error:
        raise stop(f"no backup was made: {reason_of(error)}") from error
    if contents.missing_blobs:
        typer.echo(f"{len(contents.missing_blobs)} blobs that rows name were missing already", err=True)
    typer.echo(f"{path} holds it, {path.stat().st_size} bytes")
    key = settings.home / KEY_FILE
    if settings.secret_key is None and key.exists():
        typer.echo(f"Keep {key} in another place: it opens the channels' secrets, and is not in the backup.")


@restore_app.command()
def restore(
    file: Annotated[Path, typer.Argument(help="What `collapsewatch backup` made.")],
    home: HomeOption = None,
) -> None:
    """Put a backup into an empty database and a blob store; all of it or nothing.

    Database and blob store are those of COLLAPSEWATCH_… variables or of the home folder.
    """
    settings = settings_of(home=home)
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        blobs = open_blob_store(settings.effective_blob_url)
        with closing(Database(settings.effective_database_url)) as database:
            contents = keeping.restore(database, blobs, file, typer.echo)
            note_at_the_machine(database, "backup.restore", str(file))
    except (UnknownSchema, ValueError, OSError, SQLAlchemyError) as error:
        raise stop(f"nothing was restored: {reason_of(error)}") from error
    typer.echo(f"{sum(contents.rows.values())} rows and {contents.num_blobs} blobs are back")
