"""The commands that read: `collapsewatch runs`, `show`, `metrics`, `alerts`, `rollouts`, `compare`, `export`.

Each asks the server, or one that is started on the home folder for as long as it takes. `--json` prints
what the API answers. They exit with 0, and with 2 when there is no such run or nobody to ask.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from collapsewatch.asking import tables

if TYPE_CHECKING:
    from collapsewatch.asking.reader import ServerReader

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="Name or id of the run.")]
ProjectOption = Annotated[str | None, typer.Option(help="Project; any when absent.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print what the API answers, as JSON.")]
UrlOption = Annotated[str | None, typer.Option(help="Server to ask; default: as for a trainer.")]
KeyOption = Annotated[
    str | None,
    typer.Option(help="Environment variable that holds the key; default: COLLAPSEWATCH_READ_KEY."),
]
ScopeOption = Annotated[
    str, typer.Option(help="first_turn, turn/<t>, trajectory, batch, or trainer for its own values.")
]
LimitOption = Annotated[int, typer.Option(min=1, max=1000, help="Most lines.")]
_NO_ANSWER = 2
_EXPORTS = {
    "csv": "series.csv",
    "parquet": "series.parquet",
    "html": "report.html",
    "png": "chart.png",
    "svg": "chart.svg",
}


@app.command()
def runs(
    project: ProjectOption = None,
    search: Annotated[str | None, typer.Option(help="Part of a name, an id or a tag.")] = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
    url: UrlOption = None,
    api_key_env: KeyOption = None,
) -> None:
    """List runs, newest first."""

    def answer(reader: "ServerReader") -> Any:
        found = [run for run in reader.runs(project) if search is None or _matches(run, search)]
        return {"runs": found[:limit]}

    _tell(_ask(answer, url, api_key_env), as_json, lambda found: tables.of_runs(found["runs"]))


@app.command()
def show(
    run: RunArgument,
    project: ProjectOption = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    api_key_env: KeyOption = None,
) -> None:
    """Say where a run stands: regime, newest values, alerts, scoring."""
    found = _ask(lambda reader: _run(reader, run, project), url, api_key_env)
    _tell(found, as_json, tables.of_run)


@app.command()
def metrics(
    run: RunArgument,
    metric: Annotated[
        list[str] | None, typer.Argument(help="Names of metrics; without any, the newest value of each.")
    ] = None,
    project: ProjectOption = None,
    scope: ScopeOption = "first_turn",
    since_step: Annotated[int, typer.Option(min=0, help="First step.")] = 0,
    max_points: Annotated[int, typer.Option(min=10, max=20_000, help="Most points of a series.")] = 2000,
    as_json: JsonOption = False,
    url: UrlOption = None,
    api_key_env: KeyOption = None,
) -> None:
    """Print series of a run, one line per step; tab-separated, so that other programs can read them."""

    def answer(reader: "ServerReader") -> Any:
        found = _run(reader, run, project)
        _check_scope(found, scope, metric or [])
        return reader.get(
            f"/runs/{found['run_id']}/series",
            scope=scope,
            metric=metric or None,
            since_step=since_step,
            max_points=max_points if metric else 10,
        )

    draw = tables.of_series if metric else tables.of_newest
    _tell(_ask(answer, url, api_key_env), as_json, lambda found: draw(found["series"]))


@app.command()
def alerts(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Name or id; all when absent.")] = None,
    project: ProjectOption = None,
    every: Annotated[bool, typer.Option("--all", help="Resolved ones as well.")] = False,
    severity: Annotated[list[str] | None, typer.Option(help="info, warning or critical; repeat it.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=500, help="Most lines.")] = 50,
    as_json: JsonOption = False,
    url: UrlOption = None,
    api_key_env: KeyOption = None,
) -> None:
    """List alerts, newest first."""

    def answer(reader: "ServerReader") -> Any:
        return reader.get(
            "/alerts",
            run=None if run is None else _run(reader, run, project)["run_id"],
            project=project,
            severity=severity or None,
            status=None if every else ["open", "acknowledged", "snoozed"],
            limit=limit,
        )

    _tell(_ask(answer, url, api_key_env), as_json, lambda found: tables.of_alerts(found["items"]))


@app.command()
def rollouts(
    run: RunArgument,
    index: Annotated[int | None, typer.Argument(min=0, help="Show this one whole.")] = None,
    project: ProjectOption = None,
    step: Annotated[int | None, typer.Option(min=0, help="The last step when absent.")] = None,
    group: Annotated[str | None, typer.Option(help="Of this prompt alone.")] = None,
    search: Annotated[str | None, typer.Option(help="Of any step, those whose responses hold this.")] = None,
    limit: LimitOption = 50,
    as_json: JsonOption = False,
    url: UrlOption = None,
    api_key_env: KeyOption = None,
) -> None:
    """List what the model wrote at a step, or show one rollout, or look for a text."""

    def answer(reader: "ServerReader") -> Any:
        base = f"/runs/{_run(reader, run, project)['run_id']}"
        if search is not None:
            # The newest steps first; the server looks for about a second.
            return reader.get(f"{base}/rollout-search", q=search, from_step=step, limit=min(limit, 200))
        if index is None:
            return reader.get(f"{base}/rollouts", step=step, group=group, limit=limit)
        at = step if step is not None else (reader.get(f"{base}/rollouts", limit=1) or {}).get("step")
        found = reader.get(f"{base}/rollouts/{at}/{index}")
        if found is None:
            raise typer.BadParameter(f"step {at} has no rollout {index}")
        return found

    draw = tables.of_rollouts if index is None else tables.of_rollout
    draw = draw if search is None else tables.of_hits
    _tell(_ask(answer, url, api_key_env), as_json, draw)


@app.command()
def compare(
    run: Annotated[list[str], typer.Argument(metavar="RUN RUN…", help="Names or ids, at most 20.")],
    project: ProjectOption = None,
    scope: ScopeOption = "first_turn",
    scalar: Annotated[list[str] | None, typer.Option(help="Also this value of the trainer's own.")] = None,
    as_json: JsonOption = False,
    url: UrlOption = None,
    api_key_env: KeyOption = None,
) -> None:
    """Lay the newest values of several runs side by side, and how their settings differ."""

    def answer(reader: "ServerReader") -> Any:
        run_ids = [_run(reader, each, project)["run_id"] for each in run]
        return reader.get("/compare", run=run_ids, scope=scope, scalar=scalar or None)

    _tell(_ask(answer, url, api_key_env), as_json, tables.of_comparison)


@app.command()
def export(
    run: Annotated[list[str], typer.Argument(metavar="RUN…", help="Names or ids, at most 20.")],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="File to write: .csv, .parquet, .html (a report), .png or .svg."),
    ],
    project: ProjectOption = None,
    scope: Annotated[str | None, typer.Option(help="Of this scope alone.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Of this metric alone; repeat it.")] = None,
    chart: Annotated[
        str, typer.Option(help="For a picture: quadrant, or a chart of the page such as retrieval.")
    ] = "quadrant",
    force: Annotated[bool, typer.Option("--force", help="Write over a file that exists.")] = False,
    url: UrlOption = None,
    api_key_env: KeyOption = None,
) -> None:
    """Write every value of runs, a report that opens offline, or a picture into a file."""
    kind = output.suffix.lower().removeprefix(".")
    if kind not in _EXPORTS:
        raise typer.BadParameter(f"the name must end with .{', .'.join(_EXPORTS)}; got {output.name!r}")
    if not output.parent.is_dir():
        raise typer.BadParameter(f"there is no folder {output.parent}")
    if output.exists() and not force:
        raise typer.BadParameter(f"{output} exists already; --force writes over it")

    def answer(reader: "ServerReader") -> int:
        run_ids = [_run(reader, each, project)["run_id"] for each in run]
        values = {"metric": metric or None} if kind in ("csv", "parquet") else {}
        picture = {"chart": chart} if kind in ("png", "svg") else {}
        path = f"/exports/{_EXPORTS[kind]}"
        return reader.save(path, output, run=run_ids, scope=scope, **values, **picture)

    typer.echo(f"{output}: {_ask(answer, url, api_key_env)} bytes")


def _ask(answer: "Callable[[ServerReader], Any]", url: str | None, api_key_env: str | None) -> Any:
    """What the question gives at the server that is there, or at one that is started for it."""
    from collapsewatch.asking.brief import brief_reader
    from collapsewatch.errors import CollapsewatchError

    try:
        with brief_reader(url, api_key_env) as reader:
            found = answer(reader)
    except (CollapsewatchError, OSError) as error:
        typer.echo(f"collapsewatch: {error}", err=True)
        raise typer.Exit(_NO_ANSWER) from error
    if found is None:
        typer.echo("collapsewatch: the server is of a version that does not know this", err=True)
        raise typer.Exit(_NO_ANSWER)
    return found


def _run(reader: "ServerReader", named: str, project: str | None) -> dict[str, Any]:
    from collapsewatch.asking.named import find_run

    return find_run(reader, named, project, lambda line: typer.echo(line, err=True))


def _check_scope(run: dict[str, Any], scope: str, names: list[str]) -> None:
    from collapsewatch.asking.errors import AskingFailedError

    known = run["metrics"].get(scope)
    if known is None:
        has = ", ".join(run["scopes"]) or "none yet"
        raise AskingFailedError(f"the run has no values in the scope {scope!r}; its scopes: {has}")
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None:
        raise AskingFailedError(f"the scope {scope!r} has no metric {unknown!r}; it has {', '.join(known)}")


def _matches(run: dict[str, Any], search: str) -> bool:
    texts = [run["name"], run["run_id"], *run["tags"]]
    return any(search.casefold() in text.casefold() for text in texts)


def _tell(found: Any, as_json: bool, draw: Callable[[Any], str]) -> None:
    typer.echo(json.dumps(found, ensure_ascii=False, indent=2) if as_json else draw(found))
