"""The run that people mean when they give a name or an id."""

import re
from collections.abc import Callable
from typing import Any

from collapsewatch.asking.errors import AskingFailedError
from collapsewatch.asking.reader import ServerReader

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}")
"""What the server takes for an id; a name may hold more."""

Tell = Callable[[str], None]


class NoSuchRunError(AskingFailedError):
    """The server answers, and knows no such run."""


def find_run(reader: ServerReader, named: str, project: str | None, tell: Tell) -> dict[str, Any]:
    """The run of this id, else of this name, as its page shows it.

    Args:
        tell: told when several runs have the name; the one that was heard from last is meant.

    Raises:
        NoSuchRunError: there is none.
        AskingFailedError: the server does not answer.
    """
    run = reader.run(named) if _ID.fullmatch(named) else None
    if run is not None and project in (None, run["project"]):
        return run
    found = [each for each in reader.runs(project) if each["name"] == named]
    where = "" if project is None else f" in project {project}"
    if not found:
        raise NoSuchRunError(f"there is no run {named!r}{where}")
    latest = max(found, key=lambda each: each["last_seen_at"] or each["updated_at"])
    if len(found) > 1:
        tell(f"{len(found)} runs are called {named!r}; this is the one heard from last, {latest['run_id']}")
    run = reader.run(latest["run_id"])
    if run is None:
        raise NoSuchRunError(f"the run {named!r} is gone")
    return run
