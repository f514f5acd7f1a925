"""What the server's commands share."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from sqlalchemy import inspect, make_url
from sqlalchemy.exc import OperationalError

from collapsewatch_server.account_tables import AuditEntry
from collapsewatch_server.accounts.audit import AT_THE_MACHINE, Audit
from collapsewatch_server.db import Database
from collapsewatch_server.migrations import UnknownSchema
from collapsewatch_server.services import Services, build_services
from collapsewatch_server.settings import ServerSettings

HomeOption = Annotated[Path | None, typer.Option(help="Folder in which everything is kept.")]


def settings_of(**given: Any) -> ServerSettings:
    """The settings: what is given and not None, the rest from COLLAPSEWATCH_… variables.

    Raises:
        typer.Exit: code 1, when they make no sense; the reason was printed.
    """
    try:
        return ServerSettings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        message = first["msg"].removeprefix("Value error, ")
        raise stop(f"{place}: {message}" if place else message) from error


def check_is_there(database_url: str) -> None:
    """Comes back unless the database is a file that is not there.

    Raises:
        ValueError: it is. SQLite would make an empty one of a name that was mistyped.
    """
    url = make_url(database_url)
    if url.drivername == "sqlite" and not Path(url.database or "").exists():
        raise ValueError(f"there is no database at {url.database}")


def reason_of(error: Exception) -> str:
    """What went wrong, in a line."""
    cause = getattr(error, "orig", None)
    lines = str(cause if cause is not None else error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def note_at_the_machine(database: Database, action: str, target: str) -> None:
    """Notes in the audit log what a command did; a database of an earlier version has none yet."""
    if inspect(database.engine).has_table(AuditEntry.__tablename__):
        Audit(database).note(action, actor=AT_THE_MACHINE, target=target)


def prepared(settings: ServerSettings) -> Services:
    """The services, with the database as this version wants it.

    Raises:
        typer.Exit: code 1, when the database cannot be opened; the reason was printed.
    """
    try:
        services = build_services(settings)
        services.prepare()
    except (UnknownSchema, ValueError) as error:
        raise stop(str(error)) from error
    except OperationalError as error:
        raise stop(f"the database cannot be opened: {reason_of(error)}") from error
    return services


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Prints columns as wide as what stands in them."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    for row in [header, *rows]:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def shown_time(seconds: float | None) -> str:
    """The time, given in seconds since 1970, for people; nothing for none."""
    return "" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def stop(message: str) -> typer.Exit:
    """What ends the command with code 1, after the reason was printed."""
    typer.echo(f"collapsewatch: {message}", err=True)
    return typer.Exit(1)
