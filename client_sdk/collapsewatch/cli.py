"""The command `collapsewatch`: finds the program behind a subcommand and hands it the arguments.

The programs live in other packages and need their extras, so they are named here as text and imported when
they are asked for. `collapsewatch --help` works with the light install.
"""

import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version as installed_version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from collapsewatch.asking.app import app as reading_app

# fmt: off
_SERVER = (
    "alembic", "apprise", "argon2", "authlib", "cryptography", "fastapi", "httpcore", "httpx2",
    "limits", "matplotlib", "numpy", "plotly", "prometheus_client",
    "psycopg", "pyarrow", "pydantic_settings", "redis", "sqlalchemy", "starlette", "tsdownsample", "uvicorn",
)
_WORKER = (
    "accelerate", "numpy", "peft", "pydantic_settings", "redis", "regex", "safetensors", "scipy", "sklearn",
    "tokenizers", "torch", "transformers",
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Program:
    """A typer application in another package, and what it needs."""

    target: str
    """`module:attribute`."""
    extra: str
    modules: tuple[str, ...]
    """Top-level modules that the extra brings: when one of these is missing, so is the extra."""


PROGRAMS = {
    "serve": Program("collapsewatch_server.main:serve_app", "server", _SERVER),
    "keys": Program("collapsewatch_server.main:keys_app", "server", _SERVER),
    "accounts": Program("collapsewatch_server.account_commands:accounts_app", "server", _SERVER),
    "backup": Program("collapsewatch_server.backup_command:backup_app", "server", _SERVER),
    "restore": Program("collapsewatch_server.backup_command:restore_app", "server", _SERVER),
    "audit": Program("collapsewatch_server.audit_command:audit_app", "server", _SERVER),
    "worker": Program("collapsewatch_worker.main:app", "worker", _WORKER),
    "demo": Program("collapsewatch.demo.main:app", "demo", (*_SERVER, *_WORKER, "rich")),
    "mcp": Program("collapsewatch.asking.mcp_server:app", "mcp", ("mcp",)),
    "import": Program("collapsewatch.importers.main:app", "import", ("pyarrow",)),
}

# Options belong to the program behind the subcommand, `--help` included.
_PASS_ON: dict[str, Any] = {
    "ignore_unknown_options": True,
    "allow_extra_args": True,
    "help_option_names": [],
}

app = typer.Typer(
    name="collapsewatch",
    help="Live monitor for template collapse in RL training of language-model agents.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(reading_app)


@app.command(context_settings=_PASS_ON)
def serve(context: typer.Context) -> None:
    """Serve the page and take in runs; one process with all it needs."""
    run_program("serve", context.args)


@app.command(context_settings=_PASS_ON)
def keys(context: typer.Context) -> None:
    """Make and withdraw the keys that programs send."""
    run_program("keys", context.args)


@app.command(context_settings=_PASS_ON)
def accounts(context: typer.Context) -> None:
    """Invite people, and help those who cannot sign in."""
    run_program("accounts", context.args)


@app.command(context_settings=_PASS_ON)
def backup(context: typer.Context) -> None:
    """Write everything the service keeps into one file."""
    run_program("backup", context.args)


@app.command(context_settings=_PASS_ON)
def restore(context: typer.Context) -> None:
    """Put a backup into an empty database."""
    run_program("restore", context.args)


@app.command(context_settings=_PASS_ON)
def audit(context: typer.Context) -> None:
    """Write who did what into a file."""
    run_program("audit", context.args)


@app.command(context_settings=_PASS_ON)
def worker(context: typer.Context) -> None:
    """Score batches on this machine's GPU or CPU."""
    run_program("worker", context.args)


@app.command(context_settings=_PASS_ON)
def demo(context: typer.Context) -> None:
    """Train two small agents and watch one of them collapse."""
    run_program("demo", context.args)


@app.command("import", context_settings=_PASS_ON)
def import_(context: typer.Context) -> None:
    """Turn rollouts that a trainer wrote to disk into a run."""
    run_program("import", context.args)


@app.command(context_settings=_PASS_ON)
def mcp(context: typer.Context) -> None:
    """Let an assistant read runs, by the Model Context Protocol."""
    run_program("mcp", context.args)


@app.command()
def check(
    run: Annotated[str, typer.Argument(help="Name or id of the run.")],
    project: Annotated[str | None, typer.Option(help="Project of the run; any when absent.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    url: Annotated[str | None, typer.Option(help="Server to ask; default: as for a trainer.")] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(help="Environment variable that holds the key; default: COLLAPSEWATCH_READ_KEY."),
    ] = None,
) -> None:
    """Say whether a run has raised a critical collapse alert, for scripts and CI.

    Exits with 3 when it has, with 0 when it has not, with 2 when there is no such run or it is not scored.
    Without a server, one is started on the home folder for as long as it takes.
    """
    from collapsewatch.asking.check_command import check as check_named

    raise typer.Exit(check_named(run, project, as_json, url, api_key_env))


@app.command(context_settings=_PASS_ON)
def doctor(context: typer.Context) -> None:
    """Look for the commonest mistakes of an installation, and say how to mend each."""
    from collapsewatch.doctor.main import app as doctor_app

    doctor_app(args=context.args, prog_name="collapsewatch doctor")


@app.command()
def sync(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="DIR", help="A spool, or a run's folder in it; default: this user's spool."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Server to send to; default: the one that each run was meant for.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the key; default: as for a trainer.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds without any success after which a server is given up.")
    ] = 120.0,
) -> None:
    """Send what runs have logged and could not deliver.

    Exits with 0 when nothing of it is left, else with 1. Runs whose process still lives are skipped.
    """
    from collapsewatch.sync_command import sync as sync_folder

    raise typer.Exit(sync_folder(directory, url, api_key_env, timeout))


@app.command()
def version() -> None:
    """Print the installed version."""
    print(installed_version("collapsewatch"))


def run_program(name: str, arguments: list[str], programs: dict[str, Program] = PROGRAMS) -> None:
    """Runs the program behind a subcommand.

    Raises:
        typer.Exit: code 1, when the program's extra is not installed.
        ImportError: any other failure to import; it is a defect and keeps its traceback.
    """
    program = programs[name]
    module, _, attribute = program.target.partition(":")
    try:
        application = getattr(import_module(module), attribute)
        application(args=arguments, prog_name=f"collapsewatch {name}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        # A module of the extra that cannot be found at all. When it is there and something inside it
        # is not, installing the extra would not help.
        if missing not in program.modules or find_spec(missing) is not None:
            raise
        print(
            f"`collapsewatch {name}` needs {missing}: pip install 'collapsewatch[{program.extra}]'",
            file=sys.stderr,
        )
        raise typer.Exit(1) from None


def main() -> None:
    """The console script."""
    app(prog_name="collapsewatch")


if __name__ == "__main__":
    main()
