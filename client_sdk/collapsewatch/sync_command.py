"""`collapsewatch sync`: ships what is left in the spools, and says what became of it."""

import itertools
import logging
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import typer

from collapsewatch.boundary import Boundary
from collapsewatch.errors import SettingsError
from collapsewatch.leftovers import Leftover, LeftoverState, ship_leftover, spool_roots
from collapsewatch.settings import Settings, load_settings
from collapsewatch.spool import Spool, SpoolError
from collapsewatch.spool.folders import read_meta, writer_folders

_PROGRESS_SECONDS = 5.0
_MAX_NOTES = 20


class Notes(Boundary):
    """Shows what the sender reports, once per sort, and keeps it for the summary."""

    def __init__(self) -> None:
        super().__init__(strict=False)
        self._notes: dict[str, str] = {}

    def report(self, kind: str, message: str, *args: object, level: int = logging.WARNING) -> None:
        """Shows the first trouble of its kind."""
        if kind not in self._notes and len(self._notes) < _MAX_NOTES:
            self._notes[kind] = message % args
            typer.echo(f"  {self._notes[kind]}", err=True)

    def refusals(self) -> list[str]:
        """Why the server refused records."""
        return [note for kind, note in self._notes.items() if kind.startswith("rejected")]


def sync(directory: Path | None, url: str | None, api_key_env: str | None, timeout_seconds: float) -> int:
    """Ships all that is left below the folder; the exit code: 0 when nothing of it is left, else 1."""
    try:
        defaults = load_settings(url=url)
        api_key = _named_key(api_key_env)
    except SettingsError as error:
        typer.echo(str(error), err=True)
        return 1
    if directory is not None and not directory.is_dir():
        typer.echo(f"no such folder: {directory}", err=True)
        return 1
    roots = spool_roots(defaults) if directory is None else [directory]
    notes = Notes()
    results = list(_ship_all(roots, url, api_key, timeout_seconds, notes))
    if not results:
        typer.echo(f"nothing waits in {', '.join(map(str, roots))}")
        return 0
    return _summary(results, notes)


def _named_key(api_key_env: str | None) -> str | None:
    if api_key_env is None:
        return None
    key = os.environ.get(api_key_env)
    if not key:
        raise SettingsError(f"the environment has no variable {api_key_env}, which should hold the key")
    return key


def _ship_all(
    roots: list[Path], url: str | None, api_key: str | None, timeout_seconds: float, notes: Notes
) -> Iterator[Leftover]:
    silent: set[str] = set()
    for folder in itertools.chain.from_iterable(map(writer_folders, roots)):
        try:
            settings = _settings_for(folder, url, api_key)
        except (SpoolError, SettingsError, OSError) as error:
            result = Leftover(folder, LeftoverState.unreadable, reason=str(error))
        else:
            # A server that took nothing is not waited for again with every folder.
            patience_seconds = 0.0 if settings.url in silent else timeout_seconds
            with _progress() as watch:
                result = ship_leftover(
                    folder, settings, notes, patience_seconds=patience_seconds, on_begin=watch
                )
            if result.state is LeftoverState.left:
                silent.add(settings.url)
        typer.echo(_line_of(result))
        yield result


def _settings_for(folder: Path, url: str | None, api_key: str | None) -> Settings:
    """Where a folder is shipped to, and with which key.

    Raises:
        SpoolError: its meta file is unreadable, or somebody else wrote it.
        SettingsError: its url is unusable.
    """
    meta = read_meta(folder)
    if url is None and folder.stat().st_uid != os.geteuid():
        # Whoever wrote the folder chose the url, which must not be a way to get at keys.
        raise SpoolError(f"another user's; say --url {meta.url} to ship it with your key")
    return load_settings(url=url or meta.url, api_key=api_key)


@contextmanager
def _progress() -> Iterator[Callable[[Spool], None]]:
    """Says every few seconds what is left to go; hands out the function that is told the spool."""
    over = threading.Event()
    threads: list[threading.Thread] = []

    def tell(spool: Spool) -> None:
        while not over.wait(_PROGRESS_SECONDS):
            status = spool.status()
            typer.echo(f"  {status.num_records:,} records ({_size(status.num_bytes)}) to go")

    def watch(spool: Spool) -> None:
        threads.append(threading.Thread(target=tell, args=(spool,), daemon=True))
        threads[-1].start()

    try:
        yield watch
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _line_of(result: Leftover) -> str:
    place = f"{result.folder.parent.name}/{result.folder.name}"
    if result.meta is not None:
        place = f"{result.meta.project}/{result.meta.name} ({place})"
    match result.state:
        case LeftoverState.live:
            return f"{place}: skipped, a running process has it"
        case LeftoverState.unreadable:
            return f"{place}: left as it is: {result.reason}"
    parts = [f"sent {_counts(result.sent)}"]
    if result.dropped:
        parts.append(f"lost {_counts(result.dropped)}")
    if result.state in (LeftoverState.left, LeftoverState.refused):
        parts.append(f"left {result.left_records:,} records ({_size(result.left_bytes)}): {result.reason}")
    return f"{place}: {', '.join(parts)}"


def _summary(results: list[Leftover], notes: Notes) -> int:
    sent, dropped = Counter[str](), Counter[str]()
    for result in results:
        sent.update(result.sent)
        dropped.update(result.dropped)
    runs = {result.meta.run_id for result in results if result.meta is not None and any(result.sent.values())}
    num_left = sum(result.left_records for result in results)
    kept = (LeftoverState.left, LeftoverState.refused, LeftoverState.unreadable)
    num_kept = sum(result.state in kept for result in results)
    num_live = sum(result.state is LeftoverState.live for result in results)
    typer.echo(
        f"sent: runs {len(runs)}, batches {sent['batches']:,}, values {sent['values']:,}; "
        f"refused: {_counts(dropped)}; left: {num_left:,} records in {num_kept} folders"
        + (f"; {num_live} in use" if num_live else "")
    )
    for note in notes.refusals():
        typer.echo(f"  {note}")
    return 1 if num_kept else 0


def _counts(counts: Mapping[str, int]) -> str:
    told = [f"{what.replace('_', ' ')} {count:,}" for what, count in sorted(counts.items()) if count]
    return ", ".join(told) or "nothing"


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:.1f} MB"
