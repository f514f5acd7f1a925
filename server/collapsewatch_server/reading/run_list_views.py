"""What the list of runs answers and takes: of each run what a line shows, and nothing that grows with it."""

from typing import Annotated, Any

from pydantic import Field, JsonValue

from collapsewatch.contracts.base import Name, WireModel
from collapsewatch.contracts.runs import RunState
from collapsewatch_server.reading.views import Iso, OpenAlerts, RegimeView, Sparkline, View

Notes = Annotated[str, Field(max_length=10_000, pattern=r"^[^\x00]*$")]


class RunRow(View):
    """One line of the list."""

    run_id: str
    project: str
    name: str
    given_name: str
    """What the trainer calls it, whatever people made of it."""
    state: RunState
    tags: list[str]
    notes: str
    archived: bool
    created_at: Iso
    updated_at: Iso
    last_seen_at: Iso | None
    """Last sign of life: a heartbeat of a living writer, or data."""
    last_step: int | None
    regime: RegimeView | None
    open_alerts: OpenAlerts
    latest: dict[str, float]
    """Newest retrieval skill, accuracy and chance, and `reward`, as far as there are any."""
    group: JsonValue
    """Value of the config key by which the list is grouped; none when the run has no such key."""


class RunRows(View):
    """Lines of the list, newest run first."""

    rows: list[RunRow]
    num_active: int
    """Runs of the project, or of all, that are not archived."""
    num_archived: int
    config_keys: list[str]
    """Keys of the configs of the answered runs, with dots for nesting; empty when runs were named."""


class Sparklines(View):
    """Retrieval skill of first turns by run; a run that has none, or is unknown, is not among them."""

    sparklines: dict[str, Sparkline]


class RunAbout(WireModel):
    """What people say of a run; what is absent stays."""

    name: Name | None = None
    """What people read. The trainer goes on under the name that it gave."""
    tags: Annotated[list[Name], Field(max_length=50)] | None = None
    notes: Notes | None = None
    archived: bool | None = None
    """Put away: complete, and left out of the list until somebody asks for it."""

    def given(self) -> dict[str, Any]:
        """What is to be changed; a tag that comes twice counts once."""
        given = self.model_dump(exclude_none=True)
        if self.tags is not None:
            given["tags"] = list(dict.fromkeys(self.tags))
        return given


class DeletedRun(View):
    """A run that is gone from sight."""

    run_id: str
