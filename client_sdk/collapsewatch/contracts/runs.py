"""What a client says about a run, and what it is told."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, JsonValue

from collapsewatch.contracts.base import FiniteFloat, Identifier, Name, Step, WireModel
from collapsewatch.contracts.scoring import ScorerConfig

Count = Annotated[int, Field(ge=0, le=2**53)]


class RunState(StrEnum):
    """Where a run is in its life. Clients say `running`, `finished` or `failed`; the server sees the rest."""

    running = "running"
    stalled = "stalled"
    """No sign of life for a while; the next one makes it `running` again."""
    crashed = "crashed"
    """No sign of life for so long that nobody expects one; the next one makes it `running` all the same."""
    finished = "finished"
    failed = "failed"


class ResumePolicy(StrEnum):
    """What opening a run may find."""

    allow = "allow"
    """Goes on with the run of this id, or begins it."""
    must = "must"
    """The run must be there."""
    never = "never"
    """The run must be new. Its first start may be sent again, if it names its attempt or its writer."""


class AttemptStart(WireModel):
    """One start of the training behind a run. Processes of one start share it.

    A later attempt supersedes the steps that it replays: all from its first step on.
    """

    attempt_id: Identifier
    started_at: Annotated[float, Field(ge=0, lt=2**40)]
    """Seconds since 1970 by the trainer's clock. Orders the attempts, in whatever order they arrive."""
    from_step: Step | None = None
    """First step that this attempt replays or adds; the first step that arrives when absent."""


class RunStart(WireModel):
    """Opens a run. Sending it again is harmless; see `ResumePolicy` for one that must be new."""

    run_id: Identifier
    project: Name
    name: Name
    config: dict[str, JsonValue] = Field(default_factory=dict)
    tags: list[Name] = Field(default_factory=list, max_length=50)
    scorer: ScorerConfig | None = None
    """Who scores the run's batches; `lexical` when absent."""
    resume: ResumePolicy = ResumePolicy.allow
    attempt: AttemptStart | None = None
    """Absent: the run has one attempt, which began when the server first heard of the run."""
    writer_id: Identifier | None = None
    """The process that sends, when a run has several; see `Heartbeat`."""


class RunUpdate(WireModel):
    """Changes what is given, leaves the rest."""

    state: RunState | None = None
    """`running`, `finished` or `failed`."""
    scorer: ScorerConfig | None = None
    config: dict[str, JsonValue] | None = None
    """Hyperparameters to add, or to put in the place of those of the same names."""
    writer_id: Identifier | None = None
    """Whose state it is. With several writers the run ends when the last of its newest attempt has ended."""


class Heartbeat(WireModel):
    """A sign of life from one process that logs to a run, and what still waits in its spool.

    Nothing does once the process has said by `RunUpdate` how it ended: that is its last record.
    """

    writer_id: Identifier
    attempt_id: Identifier | None = None
    host: Name | None = None
    rank: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    is_alive: bool = True
    """False when the spool of a dead process is shipped: that is no sign of life."""
    spool_records: Count = 0
    """Records that wait on the trainer's disk."""
    spool_bytes: Count = 0
    spool_oldest_seconds: Annotated[FiniteFloat, Field(ge=0)] = 0.0
    """Age of the oldest of them."""
    dropped: dict[Name, Count] = Field(default_factory=dict, max_length=100)
    """What will never arrive, by reason, since the process began."""


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


class HeartbeatReceipt(WireModel):
    state: RunState
    """State of the run after the sign of life."""
