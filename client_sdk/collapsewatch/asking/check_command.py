"""The command `collapsewatch check`, run: looks, says what it found, and gives the exit code."""

import typer

from collapsewatch.asking.brief import brief_reader, tell
from collapsewatch.asking.check import Finding, Verdict, check_run
from collapsewatch.errors import CollapsewatchError


def check(named: str, project: str | None, as_json: bool, url: str | None, api_key_env: str | None) -> int:
    """The exit code: 3 after a critical collapse alert, 0 without one, 2 when nobody can tell."""
    try:
        with brief_reader(url, api_key_env) as reader:
            finding = check_run(reader, named, project, tell)
    except CollapsewatchError as error:
        finding = Finding(Verdict.unknown, str(error))
    if as_json:
        typer.echo(finding.as_json())
    else:
        shown = named if finding.name is None else f"{finding.project}/{finding.name}"
        typer.echo(f"{shown}: {finding.reason}", err=finding.verdict is Verdict.unknown)
    return int(finding.verdict)
