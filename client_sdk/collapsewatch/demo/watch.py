"""Runs the demo's trainings and shows where they are."""

import time
import uuid
from collections.abc import Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from collapsewatch.demo.home import DemoHome
from collapsewatch.demo.processes import Child, event_of, start_child
from collapsewatch.demo.scores import Scores
from collapsewatch.demo.service import Service, ServiceReader, child_environment
from collapsewatch.demo.timings import Timings

VARIANTS = {"plain": "GRPO", "filtered": "GRPO + filter"}
"""Both runs and what they are called in the progress bars; the first is the one that collapses."""
_TICK_SECONDS = 0.2


class Watch:
    """Starts warm-up and trainings in processes of their own, and draws a bar for each."""

    def __init__(self, home: DemoHome, console: Console, *, num_steps: int, seed: int) -> None:
        self.timings = Timings()
        self.children: list[Child] = []
        self.run_ids = {variant: uuid.uuid4().hex for variant in VARIANTS}
        self._home = home
        self._console = console
        self._num_steps = num_steps
        self._seed = seed
        self._lines: SimpleQueue[tuple[str, str]] = SimpleQueue()

    def warm_up(self, service: Service) -> None:
        """Trains the models that both runs start from.

        Raises:
            ChildFailedError: the warm-up or the service failed.
        """
        child = self._start("warm_up", "the warm-up", [])
        with self._progress() as progress:
            task = progress.add_task("Warm-up", total=None, note="base model, then fine-tuning")
            while not child.check():
                service.child.check()
                self._show_steps(progress, {"the warm-up": task})
        self.timings.mark("warm_up_seconds")

    def train(self, service: Service) -> None:
        """Trains both runs at the same time, and waits until every step is scored.

        Raises:
            ChildFailedError: a training or the service failed, or scoring has come to a halt.
        """
        trainings = {
            variant: self._start(
                "train",
                variant,
                ["--variant", variant, "--steps", str(self._num_steps), "--run-id", run_id],
            )
            for variant, run_id in self.run_ids.items()
        }
        pair = ",".join(self.run_ids.values())
        self._console.print(f"Both runs: {service.url}/#/compare?runs={pair}", soft_wrap=True)
        reader = ServiceReader(service.url)
        scores = Scores(reader, self.run_ids, VARIANTS, self.timings, self._console)
        with self._progress() as progress:
            tasks = {
                variant: progress.add_task(title, total=self._num_steps, note="")
                for variant, title in VARIANTS.items()
            }
            while not _have_all_ended(trainings.values()):
                service.child.check()
                self._show_steps(progress, tasks)
                self._show_scores(scores, progress, tasks)
            self.timings.mark("trained_seconds")
            self._show_steps(progress, tasks)
            self._wait_for_scores(service, scores, progress, tasks)
        self.timings.mark("scored_seconds")
        reader.close()

    def _wait_for_scores(
        self, service: Service, scores: Scores, progress: Progress, tasks: dict[str, TaskID]
    ) -> None:
        since = time.monotonic()
        scores.poll(now=True)
        total = scores.num_scored + scores.num_pending
        waiting = progress.add_task("Scoring the rest", total=total, note="")
        while scores.num_pending:
            service.child.check()
            scores.check_progress(since)
            time.sleep(_TICK_SECONDS)
            self._show_scores(scores, progress, tasks)
            progress.update(waiting, completed=scores.num_scored)
        progress.update(waiting, completed=scores.num_scored)
        if scores.num_dead:
            self._console.print(f"{scores.num_dead} batches could not be scored; see the page.", style="red")

    def _start(self, module: str, name: str, arguments: Sequence[str]) -> Child:
        child = start_child(
            name,
            [
                f"collapsewatch.demo.{module}",
                *("--folder", str(self._home.checkpoints)),
                *("--seed", str(self._seed)),
                *arguments,
            ],
            environment=child_environment(self._home.folder),
            log_path=self._home.folder / "logs" / f"{name.replace(' ', '_')}.log",
            on_line=lambda line: self._lines.put((name, line)),
        )
        self.children.append(child)
        return child

    def _show_steps(self, progress: Progress, tasks: dict[str, TaskID]) -> None:
        """Takes in what the children have told, waiting a moment for more."""
        deadline = time.monotonic() + _TICK_SECONDS
        while True:
            try:
                name, line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return
            event: dict[str, Any] = event_of(line) or {"event": "other"}
            if event["event"] == "step":
                progress.update(tasks[name], completed=event["done"], total=event.get("total"))
            elif event["event"] == "done" and event.get("dropped"):
                self._console.print(f"{name}: {event['dropped']} records were not delivered.", style="red")

    def _show_scores(self, scores: Scores, progress: Progress, tasks: dict[str, TaskID]) -> None:
        scores.poll()
        for variant, task in tasks.items():
            progress.update(task, note=scores.notes[variant])

    def _progress(self) -> Progress:
        return Progress(
            TextColumn("{task.description:<16}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
        )


def _have_all_ended(children: Iterable[Child]) -> bool:
    """Whether all have ended well; each is looked at, so that no failure waits for another child."""
    ended = [child.check() for child in children]
    return all(ended)
