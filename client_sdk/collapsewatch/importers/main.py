"""The program behind `collapsewatch import`."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from collapsewatch.arguments import tags_argument, validated
from collapsewatch.asking.errors import AskingFailedError
from collapsewatch.asking.service import named_key, service_for
from collapsewatch.cli import PROGRAMS
from collapsewatch.contracts.rollouts import ReasoningTags
from collapsewatch.errors import InvalidInputError, SettingsError
from collapsewatch.importers.columns import mapping_of
from collapsewatch.importers.files import Reading, Watch
from collapsewatch.importers.formats import Format
from collapsewatch.importers.importing import first_step, import_steps, summary
from collapsewatch.importers.plan import Plan, ScorerChoice, absolute_model, model_root
from collapsewatch.importers.progress import Progress
from collapsewatch.importers.registry import AUTO, FORMAT_NAMES, chosen_format
from collapsewatch.importers.sending import BatchOptions
from collapsewatch.importers.steps import ImportFailedError, Problems

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_NEEDED = tuple(dict.fromkeys((*PROGRAMS["serve"].modules, *PROGRAMS["worker"].modules)))


@app.command()
def import_rollouts(
    path: Annotated[Path, typer.Argument(help="A file of rollouts, or the folder that a trainer fills.")],
    format_name: Annotated[str, typer.Option("--format", help=f"{AUTO}, {', '.join(FORMAT_NAMES)}.")] = AUTO,
    project: Annotated[str, typer.Option("--project", help="Project of the run.")] = "default",
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the run.", show_default="that of the file")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            help="Checkpoint folder to score with; one with {step} or {policy_version} in it counts as the "
            "policy, any other as a fixed reference. Without one, words are compared.",
        ),
    ] = None,
    scorer: Annotated[
        str | None, typer.Option("--scorer", help="policy, reference or lexical, instead of what follows.")
    ] = None,
    lexical: Annotated[str | None, typer.Option("--lexical", help="group_centroid or tfidf_prompt.")] = None,
    num_samples: Annotated[
        int | None, typer.Option("--num-samples", help="Score at most so many reasonings of a step.")
    ] = None,
    every_steps: Annotated[
        int | None, typer.Option("--every-steps", help="Score the steps that this number divides.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=COLUMN", help="Column of a field, such as prompt=question."),
    ] = None,
    step: Annotated[
        int | None, typer.Option("--step", min=0, help="Step of a file that does not say it.")
    ] = None,
    part: Annotated[str, typer.Option("--part", help="train or eval, where a trainer keeps both.")] = "train",
    tags: Annotated[
        tuple[str, str] | None,
        typer.Option("--tags", metavar="OPEN CLOSE", help="Reasoning tags.", show_default="<think> </think>"),
    ] = None,
    whole_response: Annotated[
        bool, typer.Option("--whole-response", help="The whole response is reasoning.")
    ] = False,
    reward_range: Annotated[
        tuple[float, float] | None,
        typer.Option("--reward-range", metavar="LOWEST HIGHEST", help="Possible rewards."),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", help="Sampling temperature; for --model.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Go on with what is still written.")] = False,
    until_idle: Annotated[
        float | None,
        typer.Option(
            "--until-idle", min=0.0, metavar="SECONDS", help="End a follow when nothing came so long."
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad row.")] = False,
    wait: Annotated[
        bool, typer.Option(help="Wait until all is scored; a service started here always is waited for.")
    ] = True,
    stall: Annotated[
        float, typer.Option(min=1.0, help="Seconds without a score after which the scoring is given up.")
    ] = 600.0,
    url: Annotated[
        str | None, typer.Option("--url", help="Server to send to.", show_default="as for a trainer")
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(
            "--api-key-env",
            help="Environment variable that holds the key to send with; COLLAPSEWATCH_READ_KEY holds the "
            "one to look with at how it goes, where people sign in.",
        ),
    ] = None,
) -> None:
    """Turn rollouts that a trainer wrote to disk into a run, with all its pages and alerts.

    The same file again is the same run, and nothing is sent twice. Without a server, one is started for as
    long as it takes. Exits with 0 when all that could be read is there and scored, else with 1.
    """
    progress = Progress()
    watch = Watch(follows=follow, idle_seconds=until_idle)
    reading = Reading(
        Problems(progress.tell, strict=strict), watch, progress.meter, step=step, part=_part(part)
    )
    reading.is_folder = path.is_dir()
    try:
        reading.mapping = mapping_of(columns or [])
        plan = Plan(
            path=path,
            format="",
            project=project,
            name=name,
            scorer=ScorerChoice(absolute_model(model), scorer, lexical, num_samples, every_steps),
            options=BatchOptions(_tags(tags, whole_response), reward_range, temperature),
            reading={"mapping": dict(sorted(reading.mapping.items())), "step": step, "part": part},
        )
        with _stopping(watch):
            format_ = _format(format_name, path, reading, progress)
            is_whole = _run(
                replace(plan, format=format_.name),
                format_,
                reading,
                progress,
                waits=wait,
                stall_seconds=stall,
                server=(url, named_key(api_key_env)),
            )
    except (ImportFailedError, AskingFailedError, SettingsError) as error:
        progress.tell(f"collapsewatch import: {error}")
        raise typer.Exit(1) from error
    raise typer.Exit(0 if is_whole else 1)


def _format(name: str, path: Path, reading: Reading, progress: Progress) -> Format:
    """The format of the path; of a folder that is followed, once there is something in it."""
    is_told = False
    while True:
        try:
            return chosen_format(name, path, has_mapping=bool(reading.mapping))
        except ImportFailedError:
            if not path.is_dir() or not reading.watch.wait():
                raise
            if not is_told:
                progress.tell(f"{path}: nothing in it is known yet; waiting for more")
                is_told = True


def _run(
    plan: Plan,
    format_: Format,
    reading: Reading,
    progress: Progress,
    *,
    waits: bool,
    stall_seconds: float,
    server: tuple[str | None, str | None],
) -> bool:
    """Whether all of it is there and scored."""
    # Before a service is started, one learns whether there is anything to import.
    first, steps = first_step(format_, plan, reading)
    progress.tell(f"{plan.path}: {format_.name}")
    options = [] if plan.scorer.model is None else ["--checkpoint-root", str(model_root(plan.scorer.model))]
    with service_for(*server, tell=progress.tell, needed=_NEEDED, options=options) as service:
        outcome = import_steps(
            plan,
            first,
            steps,
            reading,
            service,
            progress,
            waits=waits or service.child is not None,
            stall_seconds=stall_seconds,
        )
    progress.close()
    summary(outcome, typer.echo)
    if service.child is None:
        typer.echo(f"page {service.settings.url}/#/runs/{outcome.start.run_id}")
    return outcome.is_whole


@contextmanager
def _stopping(watch: Watch) -> Iterator[None]:
    """While something is followed, the first Ctrl-C or SIGTERM ends the following and not the import."""
    if not watch.follows:
        yield
        return

    def stop(number: int, frame: FrameType | None) -> None:
        watch.stopped.set()
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    before: dict[int, Any] = {
        number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tags(pair: tuple[str, str] | None, whole_response: bool) -> ReasoningTags:
    try:
        return validated(
            ReasoningTags, **{**tags_argument(pair).model_dump(), "whole_response": whole_response}
        )
    except InvalidInputError as error:
        raise ImportFailedError(f"--tags: {error}") from error


def _part(part: str) -> str:
    if part not in ("train", "eval"):
        raise typer.BadParameter(f"train or eval, got {part!r}", param_hint="--part")
    return part
