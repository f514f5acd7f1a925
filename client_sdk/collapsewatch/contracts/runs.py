"""What a client says about a run, and what it is told."""

from enum import StrEnum

from pydantic import Field, JsonValue

from collapsewatch.contracts.base import Identifier, Name, WireModel
from collapsewatch.contracts.scoring import ScorerConfig


class RunState(StrEnum):
    """Where a run is in its life."""

    running = "running"
    finished = "finished"
    failed = "failed"


class RunStart(WireModel):
    """Opens a run. Sending it again with the same id and name is harmless."""

    run_id: Identifier
    project: Name
    name: Name
    config: dict[str, JsonValue] = Field(default_factory=dict)
    tags: list[Name] = Field(default_factory=list, max_length=50)
    scorer: ScorerConfig | None = None
    """Who scores the run's batches; `lexical` when absent."""


class RunUpdate(WireModel):
    """Changes what is given, leaves the rest."""

    state: RunState | None = None
    scorer: ScorerConfig | None = None


class RunReceipt(WireModel):
    run_id: Identifier
    project: Name
    name: Name
    created: bool
    """False when the run was there already."""


class BatchReceipt(WireModel):
    batch_id: Identifier
    duplicate: bool
    """True when this batch had been accepted before; nothing was changed."""


class ScalarReceipt(WireModel):
    num_values: int
