"""The command `collapsewatch accounts`: for whoever runs the service, on its own machine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from collapsewatch_server.access.roles import Role
from collapsewatch_server.accounts.people import NewLink
from collapsewatch_server.accounts.views import AccountChange
from collapsewatch_server.commands import (
    HomeOption,
    prepared,
    print_table,
    settings_of,
    shown_time,
    stop,
)
from collapsewatch_server.errors import ServerError
from collapsewatch_server.launch.credentials import CREDENTIALS_FILE
from collapsewatch_server.repositories import accounts
from collapsewatch_server.services import Services
from collapsewatch_server.settings import ServerSettings

accounts_app = typer.Typer(
    name="accounts",
    help="Invite people, and help those who cannot sign in.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
NameArgument = Annotated[str, typer.Argument(help="Name that the person signs in with.")]


@accounts_app.command("list")
def list_accounts(home: HomeOption = None) -> None:
    """List everybody who has an account."""
    with _services(settings_of(home=home)) as services:
        found = services.directory.listed().accounts
    header = ("id", "name", "operator", "signs in by", "created", "last seen", "closed")
    rows = [
        (
            str(one.id),
            one.name,
            "yes" if one.is_operator else "",
            one.signs_in_by,
            one.created_at,
            one.last_seen_at or "",
            one.closed_at or "",
        )
        for one in found
    ]
    print_table(header, rows)


@accounts_app.command("invite")
def invite(
    label: Annotated[str, typer.Argument(help="Whom it is for, for people.")],
    operator: Annotated[
        bool, typer.Option("--operator", help="Who joins may do everything, in every project.")
    ] = False,
    project: Annotated[str | None, typer.Option(help="Project in which who joins gets a role.")] = None,
    role: Annotated[
        str | None, typer.Option(help="viewer, editor or admin, in that project; viewer when absent.")
    ] = None,
    home: HomeOption = None,
) -> None:
    """Make a link by which somebody joins, once, within a week."""
    if role is not None and role not in Role.__members__:
        raise typer.BadParameter(f"viewer, editor or admin, got {role!r}", param_hint="--role")
    if role is not None and project is None:
        raise typer.BadParameter("a role is one in a project: add --project", param_hint="--role")
    if not 0 < len(label.strip()) <= 200:
        raise typer.BadParameter(f"1 to 200 characters, got {len(label)}", param_hint="LABEL")
    with _services(settings_of(home=home)) as services:
        project_id = None
        if project is not None:
            with services.database.read_session() as session:
                project_id = accounts.project_named(session, project)
            if project_id is None:
                raise stop(f"there is no project {project!r}")
        made = services.people.invite(
            label,
            makes_operator=operator,
            project_id=project_id,
            role=None if project_id is None else Role[role or "viewer"],
        )
        services.audit.note("invitation.create", target=label, project_id=project_id)
        _show_link(services, made)


@accounts_app.command("reset")
def reset(name: NameArgument, home: HomeOption = None) -> None:
    """Make a link by which somebody sets a new password, once, within a day."""
    with _services(settings_of(home=home)) as services:
        made = services.directory.reset_link(_id_of(services, name))
        services.audit.note("account.reset", target=f"account {name.lower()!r}")
        _show_link(services, made)


@accounts_app.command("close")
def close(name: NameArgument, home: HomeOption = None) -> None:
    """Close an account: who has it is signed out at once, and signs in no more."""
    with _services(settings_of(home=home)) as services:
        services.directory.change(_id_of(services, name), AccountChange(closed=True))
        services.audit.note("account.change", target=f"account {name.lower()!r}, closed")
    typer.echo(f"{name.lower()} is closed")


@contextmanager
def _services(settings: ServerSettings) -> Iterator[Services]:
    """The services; what they refuse ends the command."""
    services = prepared(settings)
    try:
        yield services
    except ServerError as error:
        raise stop(error.message) from error
    finally:
        services.close()


def _id_of(services: Services, name: str) -> int:
    with services.database.read_session() as session:
        account = accounts.named(session, name.lower())
    if account is None:
        raise stop(f"there is no account {name!r} that is open")
    return account.id


def _show_link(services: Services, made: NewLink) -> None:
    typer.echo(made.url(_page_url(services)))
    typer.echo(f"good once, until {shown_time(made.invitation.expires_at)}", err=True)


def _page_url(services: Services) -> str:
    """Address of the page: as the settings say, or as the last server of this home folder had it."""
    settings = services.settings
    if settings.public_url is not None:
        return settings.public_url
    try:
        left = json.loads((settings.home / CREDENTIALS_FILE).read_text(encoding="utf-8"))
        return str(left["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return f"http://{settings.host}:{settings.port}"
