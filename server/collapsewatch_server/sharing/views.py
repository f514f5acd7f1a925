"""What the routes of links take and answer. A link's token is answered once, when it is made."""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from collapsewatch_server.reading.views import Iso, View

ShareKind = Literal["run", "comparison", "chart"]
ShareMode = Literal["live", "snapshot"]
RunIdText = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$")]
Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]+$")]
MAX_RUNS = 20
_DAY = 86_400.0


class _Given(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, extra="forbid")


class ChartLimits(_Given):
    """The only values that a link to a chart lets anybody read."""

    chart: Name
    """Which chart of the screen it is, such as `retrieval` or `quadrant`."""
    series: dict[Name, Annotated[list[Name], Field(min_length=1, max_length=50)]] = Field(
        default_factory=dict, max_length=10
    )
    """Metrics by scope."""
    trajectories: list[Name] = Field(default_factory=list, max_length=10)
    """Scopes whose way through the quadrant may be read."""
    group_by: list[Name] = Field(default_factory=list, max_length=20)
    """Of a comparison's chart: the settings by which its runs are grouped, whose values then stand on it."""
    tokens: bool = False
    """Of a comparison's chart: whether it may stand on the tokens that its runs have counted."""


class ShareDraft(_Given):
    """A new link."""

    title: Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*\S[^\x00]*$")]
    kind: ShareKind
    run_ids: Annotated[list[RunIdText], Field(min_length=1, max_length=MAX_RUNS)]
    """The runs that it shows, and no others."""
    view: Annotated[str, Field(max_length=4000, pattern=r"^#/[^\x00\s]*$")] = "#/"
    """Address of the screen after the page's own, with all that was chosen on it."""
    mode: ShareMode = "live"
    """`live` shows the runs as they are when it is opened, `snapshot` as they are now."""
    expires_in_seconds: Annotated[float, Field(ge=60, le=366 * _DAY)] = 30 * _DAY
    with_rollouts: bool = False
    """Whether the prompts, and what the model wrote, may be read in full."""
    limits: ChartLimits | None = None
    """Of a chart: what may be read. Only and always there for a chart."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> Self:
        if (self.kind == "chart") != (self.limits is not None):
            raise ValueError("`limits` is given for a chart, and only for a chart")
        if self.kind == "run" and len(self.run_ids) > 1:
            raise ValueError("a link to a run shows one run; share several as a comparison")
        if len(set(self.run_ids)) < len(self.run_ids):
            raise ValueError("each run is named once")
        if self.with_rollouts and (self.kind == "chart" or self.mode == "snapshot"):
            raise ValueError("what the model wrote is shown by live links to runs only")
        return self


class SharedRun(View):
    """A run that a link shows."""

    run_id: str
    name: str


class ShareView(View):
    """A link, without the token that opens it."""

    share_id: int
    title: str
    kind: ShareKind
    runs: list[SharedRun]
    """In their order; those that were deleted are missing."""
    view: str
    mode: ShareMode
    with_rollouts: bool
    status: Literal["good", "expired", "revoked"]
    frozen_at: Iso | None
    """Of a snapshot, the moment that it shows."""
    created_at: Iso
    expires_at: Iso
    revoked_at: Iso | None
    num_opened: int
    last_opened_at: Iso | None


class ShareList(View):
    shares: list[ShareView]


class ShareReceipt(View):
    """A new link. It cannot be shown again: only a hash of its token is stored."""

    share: ShareView
    token: str
    path: str
    """Where the page of this server opens it."""
    url: str | None
    """The whole address, where the operator has said under which one people reach the server."""


class SharedPage(View):
    """What somebody who opens a link is shown."""

    title: str
    kind: ShareKind
    runs: list[SharedRun]
    view: str
    mode: ShareMode
    with_rollouts: bool
    limits: ChartLimits | None
    frozen_at: Iso | None
    expires_at: Iso
