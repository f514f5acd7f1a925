"""What every wire type has in common."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Name = Annotated[
    str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True, pattern=r"^[^\x00]+$")
]
"""A name that people read: project, run, metric, group. PostgreSQL stores no NUL."""

Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$")]
"""An id chosen by a client; uuid4 hex is the usual choice."""

Step = Annotated[int, Field(strict=True, ge=0, le=2**53)]
"""Training step. 2**53 is the largest integer that a browser reads exactly."""

FiniteFloat = Annotated[float, Field(allow_inf_nan=False)]


class WireModel(BaseModel):
    """Strict about names, immutable, and free of NaN: JSON has no such number."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
