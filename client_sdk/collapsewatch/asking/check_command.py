"""The command `collapsewatch check`, run: looks, says what it found, and gives the exit code."""

import typer

from collapsewatch.asking.check import Finding, Verdict, check_run
from collapsewatch.asking.reader import ServerReader
from collapsewatch.asking.service import named_key, service_for
from collapsewatch.cli import PROGRAMS
from collapsewatch.errors import CollapsewatchError


def check(named: str, project: str | None, as_json: bool, url: str | None, api_key_env: str | None) -> int:
    """The exit code: 3 after a critical collapse alert, 0 without one, 2 when nobody can tell."""
    try:
        with (
            service_for(
                url,
                named_key(api_key_env),
                tell=_tell,
                needed=PROGRAMS["serve"].modules,
                options=["--no-worker"],
                # An import would wait in vain for a worker of this one.
                is_shared=False,
            ) as service,
            ServerReader(service.settings) as reader,
        ):
            finding = check_run(reader, named, project, _tell)
    except CollapsewatchError as error:
        finding = Finding(Verdict.unknown, str(error))
    if as_json:
        typer.echo(finding.as_json())
    else:
        shown = named if finding.name is None else f"{finding.project}/{finding.name}"
        typer.echo(f"{shown}: {finding.reason}", err=finding.verdict is Verdict.unknown)
    return int(finding.verdict)


def _tell(line: str) -> None:
    typer.echo(line, err=True)
