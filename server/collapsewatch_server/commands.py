"""What the server's commands share."""

from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

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


def stop(message: str) -> typer.Exit:
    """What ends the command with code 1, after the reason was printed."""
    typer.echo(f"collapsewatch: {message}", err=True)
    return typer.Exit(1)
