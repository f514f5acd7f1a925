"""The command `collapsewatch doctor`."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated

import typer

from collapsewatch.cli import PROGRAMS
from collapsewatch.doctor.findings import Finding, note

# Role, where its checks are, and the program whose extra brings what they need.
ROLES = {
    "trainer": ("collapsewatch.doctor.trainer", None),
    "server": ("collapsewatch_server.doctor", "serve"),
    "worker": ("collapsewatch_worker.doctor", "worker"),
}
_MARKS = {"ok": "ok  ", "note": "note", "bad": "BAD "}

app = typer.Typer(name="doctor", add_completion=False, pretty_exceptions_enable=False)


@app.command()
def doctor(
    roles: Annotated[
        list[str] | None,
        typer.Argument(metavar="[trainer] [server] [worker]", help="Default: whatever is installed here."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Look for the commonest mistakes, and say how to mend each.

    Reads the same COLLAPSEWATCH_… variables as the programs themselves. Changes nothing. Exits with 1 when
    something is wrong, else with 0.
    """
    unknown = set(roles or []) - ROLES.keys()
    if unknown:
        raise typer.BadParameter(f"roles are {', '.join(ROLES)}, got {sorted(unknown)[0]!r}")
    asked = roles or [role for role in ROLES if _missing(role) is None]
    found = {role: _checks(role) for role in ROLES if role in asked}
    if as_json:
        rows = [{"role": role, **asdict(finding)} for role, all_of in found.items() for finding in all_of]
        typer.echo(json.dumps(rows, indent=2))
    else:
        for role, findings in found.items():
            _show(role, findings)
    if any(finding.level == "bad" for findings in found.values() for finding in findings):
        raise typer.Exit(1)


def _checks(role: str) -> list[Finding]:
    missing = _missing(role)
    if missing is not None:
        module, extra = missing
        return [
            Finding("bad", "installed", f"it needs {module}", f"pip install 'collapsewatch[{extra}]'"),
        ]
    found: list[Finding] = import_module(ROLES[role][0]).checks()
    return found or [note("checks", "nothing was looked at", "")]


def _missing(role: str) -> tuple[str, str] | None:
    """A module that the role lacks here, and the extra that brings it."""
    program = ROLES[role][1]
    if program is None:
        return None
    needed = PROGRAMS[program]
    missing = next((module for module in needed.modules if find_spec(module) is None), None)
    return None if missing is None else (missing, needed.extra)


def _show(role: str, findings: Iterable[Finding]) -> None:
    typer.echo(f"{role}")
    for finding in findings:
        typer.echo(f"  {_MARKS[finding.level]}  {finding.subject}: {finding.message}")
        if finding.mend:
            typer.echo(f"        -> {finding.mend}")
