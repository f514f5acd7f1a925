"""The import from its first step to the last score."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

from collapsewatch.asking.reader import ServerReader
from collapsewatch.asking.service import Service
from collapsewatch.contracts.runs import RunStart
from collapsewatch.importers.files import Reading
from collapsewatch.importers.formats import Format
from collapsewatch.importers.plan import Plan, run_start_of, warning_about_tags
from collapsewatch.importers.progress import Progress
from collapsewatch.importers.scoring import Scoring
from collapsewatch.importers.sending import sender_of
from collapsewatch.importers.steps import ImportFailedError, Step


@dataclass(frozen=True)
class Outcome:
    """What became of an import."""

    start: RunStart
    num_sent: int
    num_known: int
    num_rollouts: int
    num_skipped: int
    num_repeated: int
    jobs: dict[str, int]
    """Batches by where their scoring stands; empty when nobody waited for it."""

    @property
    def is_whole(self) -> bool:
        """Whether all that was sent has its scores."""
        return not (self.jobs.get("dead", 0) or self.jobs.get("thinned", 0))


def first_step(format_: Format, plan: Plan, reading: Reading) -> tuple[Step, Iterator[Step]]:
    """The first step, and all of them.

    Raises:
        ImportFailedError: there is none.
    """
    steps = format_.steps(plan.path, reading)
    first = next(steps, None)
    if first is None:
        skipped = (
            f": all {reading.problems.num_skipped} rows were skipped" if reading.problems.num_skipped else ""
        )
        raise ImportFailedError(f"{plan.path}: no rollout could be read{skipped}")
    return first, chain([first], steps)


def import_steps(
    plan: Plan,
    first: Step,
    steps: Iterator[Step],
    reading: Reading,
    service: Service,
    progress: Progress,
    *,
    waits: bool,
    stall_seconds: float,
) -> Outcome:
    """Sends the steps and, unless told otherwise, waits until all are scored.

    Raises:
        ImportFailedError: something did not arrive, or is not scored.
    """
    warning = warning_about_tags(first, plan.options)
    if warning is not None:
        progress.tell(warning)
    start = run_start_of(plan, first)
    with ServerReader(service.settings) as reader:
        known = reader.batch_ids(start.run_id)
        scoring = Scoring(
            reader,
            start.run_id,
            on_change=progress.scored,
            tell=progress.tell,
            check=service.check,
            stall_seconds=stall_seconds,
        )
        with sender_of(
            start,
            service.settings,
            known=known,
            options=plan.options,
            scoring=scoring if waits else None,
            tell=progress.tell,
        ) as sender:
            for step in steps:
                sender.send(step)
                progress.read(step.number, len(step.rollouts))
        if waits:
            scoring.wait(0)
            error = reader.first_error(start.run_id) if scoring.jobs.get("dead") else None
            if error is not None:
                progress.tell(f"could not be scored: {error}")
    return Outcome(
        start=start,
        num_sent=sender.num_sent,
        num_known=sender.num_known,
        num_rollouts=progress.num_rollouts,
        num_skipped=reading.problems.num_skipped,
        num_repeated=reading.problems.num_repeated,
        jobs=scoring.jobs,
    )


def summary(outcome: Outcome, say: Callable[[str], None]) -> None:
    """Says what became of the import, in a few lines."""
    start = outcome.start
    parts = [f"{outcome.num_sent:,} steps sent"]
    if outcome.num_known:
        parts.append(f"{outcome.num_known:,} were there already")
    parts.append(f"{outcome.num_rollouts:,} rollouts read")
    if outcome.num_skipped:
        parts.append(f"{outcome.num_skipped:,} rows skipped")
    if outcome.num_repeated:
        parts.append(f"{outcome.num_repeated:,} repeated rows left out")
    if outcome.jobs:
        parts.append(f"{outcome.jobs.get('done', 0):,} batches scored")
    for status, told in (("dead", "could not be scored"), ("thinned", "were laid aside unscored")):
        if outcome.jobs.get(status):
            parts.append(f"{outcome.jobs[status]:,} {told}")
    say(f"{start.project}/{start.name}: {', '.join(parts)}")
    say(f"run {start.run_id}")
