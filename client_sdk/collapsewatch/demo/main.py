"""`collapsewatch demo`: a service, two trainings beside each other, and what came of them."""

import contextlib
import datetime
import json
import os
import signal
import sys
import time
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from collapsewatch.demo.home import DemoHome
from collapsewatch.demo.outcome import RunOutcome, outcome_json, outcome_table, read_outcome
from collapsewatch.demo.processes import ChildFailedError, stop_children
from collapsewatch.demo.service import Service, ServiceReader, StartingService, usable_port
from collapsewatch.demo.timings import Timings
from collapsewatch.demo.watch import VARIANTS, Watch

HONEST_LINE = (
    "Real sampling, real gradients, real scoring. One thing is arranged: the KL reference is a base model "
    "that mostly talks in generic phrases, so the pressure towards templates is built in."
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass(frozen=True, slots=True)
class Options:
    steps: int
    seed: int
    port: int | None
    home: Path | None
    browser: bool
    exit_when_done: bool
    json_path: Path | None


@app.command()
def demo(
    steps: Annotated[int, typer.Option(min=1, help="RL steps of each run.")] = 160,
    seed: Annotated[int, typer.Option(min=0, help="Seed of warm-up, prompts and sampling.")] = 1,
    port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port of the page; 0 for any free one.", show_default="7788 if free"
        ),
    ] = None,
    home: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the demo's service.", show_default="a fresh one in ~/.collapsewatch/demo"
        ),
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    exit_when_done: Annotated[
        bool, typer.Option("--exit-when-done", help="End when both are scored.")
    ] = False,
    json_path: Annotated[Path | None, typer.Option("--json", help="Write the outcome to this file.")] = None,
) -> None:
    """Train two small language-model agents on this computer's CPU and watch one of them collapse.

    Both see the same prompts and start from the same weights. One trains on every group of rollouts, its
    sibling drops the groups whose rewards do not vary. Ctrl-C stops everything.
    """
    options = Options(steps, seed, port, home, browser, exit_when_done, json_path)
    console = Console(highlight=False)
    if json_path is not None:
        # Before the training, not after it, one learns that there is no such place.
        json_path.parent.mkdir(parents=True, exist_ok=True)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        with DemoHome(options.home) as demo_home:
            _run(options, demo_home, console)
    except BlockingIOError:
        console.print(f"Another demo is running in {home}.", style="red")
        raise typer.Exit(1) from None
    except ChildFailedError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(1) from None
    except Stopped as stopped:
        console.print("Stopped.")
        raise typer.Exit(128 + stopped.number) from None


class Stopped(Exception):
    """Ctrl-C, or a signal to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def _stop(number: int, frame: FrameType | None) -> NoReturn:
    raise Stopped(number)


def _run(options: Options, home: DemoHome, console: Console) -> None:
    """The demo from its service to its table; whatever happens, its children are stopped."""
    watch = Watch(home, console, num_steps=options.steps, seed=options.seed)
    service_child = None
    try:
        with console.status("Starting the service"):
            starting = StartingService(home.folder, usable_port(options.port), home.checkpoints)
            service_child = starting.child
            service = starting.wait()
        watch.timings.service_is_up()
        _welcome(options, service, console)
        watch.warm_up(service)
        watch.train(service)
        _finish(options, service, watch, console)
    finally:
        # A second Ctrl-C must not leave processes behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        # The service last, so that it learns how the runs ended.
        stop_children(watch.children)
        stop_children([service_child] if service_child else [])


def _welcome(options: Options, service: Service, console: Console) -> None:
    console.print(f"\n[bold]Open [link={service.url}]{service.url}[/link][/bold] and watch.\n")
    console.print(HONEST_LINE + "\n")
    if options.browser and _has_screen():
        webbrowser.open(service.url)


def _has_screen() -> bool:
    """Whether a browser would get a window; without one, `webbrowser` may take over the terminal."""
    return sys.platform != "linux" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _finish(options: Options, service: Service, watch: Watch, console: Console) -> None:
    """Table and JSON; then the service stays until Ctrl-C, unless it shall not."""
    reader = ServiceReader(service.url)
    outcomes = [
        read_outcome(reader, watch.run_ids[variant], variant, watch.timings.service_up_at)
        for variant in VARIANTS
    ]
    reader.close()
    console.print(outcome_table(outcomes))
    if options.json_path is not None:
        document = _document(options, service, outcomes, watch.timings)
        options.json_path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    if options.exit_when_done:
        return
    console.print(f"\nThe page stays at {service.url} until you press Ctrl-C.")
    with contextlib.suppress(Stopped):
        while not service.child.check():
            time.sleep(0.5)


def _document(
    options: Options, service: Service, outcomes: list[RunOutcome], timings: Timings
) -> dict[str, Any]:
    return {
        "url": service.url,
        "seed": options.seed,
        "steps": options.steps,
        "finished_at": datetime.datetime.now(datetime.UTC).isoformat(),
        "timings": timings.as_json([outcome.first_alert_seconds for outcome in outcomes]),
        "runs": [outcome_json(outcome) for outcome in outcomes],
    }
