"""What the parent and its scoring process say to each other, as framed JSON over one pipe.

The parent sends `ScoringSettings` once and then one `Job` at a time; the answers are below. JSON and not
pickle: a frame is data whatever it holds.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from collapsewatch.contracts.scoring import JobFailure, ScoringResult


class Ready(BaseModel):
    """The scoring process has imported what it needs and waits for a job."""

    model_config = ConfigDict(frozen=True)
    kind: Literal["ready"] = "ready"


class Scored(BaseModel):
    """The job's result."""

    model_config = ConfigDict(frozen=True)
    kind: Literal["scored"] = "scored"
    result: ScoringResult


class Failed(BaseModel):
    """The job brought no result; the scoring process goes on."""

    model_config = ConfigDict(frozen=True)
    kind: Literal["failed"] = "failed"
    failure: JobFailure
    worn_out: bool = False
    """The process should be replaced: after an error on a GPU, every later call of it may fail too."""


Message = Ready | Scored | Failed

_MESSAGES: TypeAdapter[Message] = TypeAdapter(Annotated[Message, Field(discriminator="kind")])


def encoded(message: Message) -> bytes:
    """One frame."""
    return message.model_dump_json(exclude_none=True).encode()


def decoded(frame: bytes) -> Message:
    """The message of one frame."""
    return _MESSAGES.validate_json(frame)
