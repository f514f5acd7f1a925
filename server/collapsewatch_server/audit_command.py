"""The command `collapsewatch audit`."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Annotated, TextIO

import typer
from sqlalchemy.exc import SQLAlchemyError

from collapsewatch_server.accounts.audit_reading import AuditReading
from collapsewatch_server.accounts.audit_views import AuditEntryView
from collapsewatch_server.commands import (
    HomeOption,
    check_is_there,
    note_at_the_machine,
    reason_of,
    settings_of,
    stop,
)
from collapsewatch_server.db import Database
from collapsewatch_server.reporting.audit_table import csv_chunks

audit_app = typer.Typer(
    name="audit",
    help="Read who did what, when, from where.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_ACTION = "Only what is called so, such as run.delete, or run for all of that kind."


@audit_app.callback()
def audit() -> None:
    """Read who did what, when, from where."""


@audit_app.command("export")
def export(
    file: Annotated[Path, typer.Argument(help="CSV file to make; - writes to the terminal.")],
    action: Annotated[str | None, typer.Option(help=_ACTION)] = None,
    home: HomeOption = None,
) -> None:
    """Write the audit log into a file that only its owner can read, newest entry first."""
    settings = settings_of(home=home)
    try:
        check_is_there(settings.effective_database_url)
        with closing(Database(settings.effective_database_url)) as database:
            num = _write(AuditReading(database).all(project_id=None, action=action), file)
            note_at_the_machine(database, "audit.export", f"{num} entries")
    except FileExistsError as error:
        raise stop(f"{file} exists already; name another file") from error
    except (ValueError, OSError, SQLAlchemyError) as error:
        raise stop(f"the audit log was not exported: {reason_of(error)}") from error
    typer.echo(f"{num} entries", err=True)


def _write(pages: Iterable[list[AuditEntryView]], path: Path) -> int:
    """Number of entries that were written."""
    num = 0

    def counted() -> Iterator[list[AuditEntryView]]:
        nonlocal num
        for page in pages:
            num += len(page)
            yield page

    with _opened(path) as out:
        out.writelines(csv_chunks(counted()))
    return num


def _opened(path: Path) -> TextIO:
    if str(path) == "-":
        return os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", newline="")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    return os.fdopen(descriptor, "w", encoding="utf-8", newline="")
