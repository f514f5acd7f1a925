"""Hands the scalars of other tools' files to a run."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from collapsewatch.boundary import log
from collapsewatch.forwarders import tensorboard, wandb
from collapsewatch.forwarders.protobuf import DamagedMessageError
from collapsewatch.training_run import Run

BESIDE = re.compile(r"(^|[/_.\-])(kl|clip|clipfrac|grad_?norm|entropy|lr|learning_rate|loss)", re.IGNORECASE)
"""Names of what is worth seeing beside input dependence: KL, clip fraction, gradient norm, losses."""
_READERS: tuple[tuple[str, Callable[[Path], Iterator[tuple[int, dict[str, float]]]]], ...] = (
    (tensorboard.PATTERN, tensorboard.tensorboard_scalars),
    (wandb.PATTERN, wandb.wandb_scalars),
)


def scalars_of(path: str | Path) -> Iterator[tuple[int, dict[str, float]]]:
    """(step, {name: value}) of all event files and offline runs in a folder, or of one file.

    Files are read in the order of their names; of a value that comes twice for a step the later one counts.

    Raises:
        FileNotFoundError: nothing of the kind is there.
        DamagedMessageError: a file is damaged in its midst.
    """
    place = Path(path)
    files = [
        (file, read)
        for pattern, read in _READERS
        for file in ([place] if place.is_file() and place.match(pattern) else sorted(place.rglob(pattern)))
    ]
    if not files:
        raise FileNotFoundError(f"{place} holds no TensorBoard events and no offline run of W&B")
    for file, read in files:
        yield from read(file)


def forward(run: Run, path: str | Path, *, names: re.Pattern[str] | str | None = BESIDE) -> int:
    """Number of values that were handed to the run, each at the step that the other tool gave it.

    Again is harmless: a value of the same name and step replaces the first. Give the scalars of the training
    that the run is of: steps are not moved.

    Args:
        names: a pattern that is looked for in each name; None for all.

    Raises:
        FileNotFoundError: nothing of the kind is there.
    """
    pattern = re.compile(names) if isinstance(names, str) else names
    steps: dict[int, dict[str, float]] = {}
    try:
        for step, values in scalars_of(path):
            kept = {name: value for name, value in values.items() if pattern is None or pattern.search(name)}
            if kept and step >= 0:
                steps.setdefault(step, {}).update(kept)
    except DamagedMessageError as error:
        log.warning("%s; what came before it is handed over", error)
    for step, values in sorted(steps.items()):
        run.log(values, step=step)
    return sum(map(len, steps.values()))
