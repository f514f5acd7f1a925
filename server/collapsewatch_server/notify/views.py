"""What the channels' routes take and answer. No answer holds an address or a secret, but once a new one."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr

from collapsewatch_server.alerts.transitions import Severity
from collapsewatch_server.reading.views import Iso, View

ChannelKind = Literal["webhook", "apprise"]
Change = Literal["opened", "escalated", "acknowledged", "snoozed", "snooze_ended", "reopened", "resolved"]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^\S(.*\S)?$")]
Project = Annotated[str, Field(min_length=1, max_length=200)]
DigestAfter = Annotated[int, Field(ge=1, le=1000)]
WindowSeconds = Annotated[float, Field(gt=0, le=86_400)]


class _Given(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True, extra="forbid", hide_input_in_errors=True)


class ChannelDraft(_Given):
    """A new channel."""

    name: Name
    kind: ChannelKind
    url: SecretStr
    """Of a webhook `https://…`; of Apprise one of its URLs, such as `slack://…` or `mailtos://…`."""
    secret: SecretStr | None = None
    """With which a webhook's messages are signed, 16 to 200 characters; made up when absent."""
    project: Project | None = None
    """Only what is about runs of this project; everything, and the service, when absent."""
    min_severity: Severity = "warning"
    changes: list[Change] = Field(default_factory=list)
    """Only these kinds of changes; all when empty."""
    digest_after: DigestAfter = 5
    """When more changes than this come within a window, one message lists them."""
    window_seconds: WindowSeconds = 60.0
    enabled: bool = True


class ChannelUpdate(_Given):
    """What is to be different; what is absent stays."""

    name: Name | None = None
    url: SecretStr | None = None
    secret: SecretStr | None = None
    new_secret: bool = False
    """Make up a new secret, which the answer shows once."""
    project: Project | None = None
    all_projects: bool = False
    """Take the restriction to one project away."""
    min_severity: Severity | None = None
    changes: list[Change] | None = None
    digest_after: DigestAfter | None = None
    window_seconds: WindowSeconds | None = None
    enabled: bool | None = None
    """When it is switched off, what still waits for it is dropped."""


class ChannelView(View):
    """A channel, without what only its owner may know."""

    channel_id: int
    name: str
    kind: ChannelKind
    target: str
    """As much of its address as may be seen."""
    project: str | None
    min_severity: Severity
    changes: list[Change]
    digest_after: int
    window_seconds: float
    enabled: bool
    num_waiting: int
    """Changes that it has not been told of yet."""
    last_sent_at: Iso | None
    failed_at: Iso | None
    """When a message was given up; none once a later one was sent."""
    problem: str
    """Why it was given up."""
    created_at: Iso
    updated_at: Iso


class ChannelList(View):
    channels: list[ChannelView]


class ChannelReceipt(View):
    """The channel as it is now."""

    channel: ChannelView
    secret: str | None
    """A secret that was made up for it, shown this once."""


class DeliveryView(View):
    """One message to one channel."""

    delivery_id: str
    kind: Literal["change", "digest", "test"]
    status: Literal["waiting", "sent", "failed"]
    num_changes: int
    attempts: int
    status_code: int | None
    """HTTP status of the last answer."""
    answer: str
    """The start of the last answer, or why there was none."""
    created_at: Iso
    next_at: Iso | None
    finished_at: Iso | None
    changes: list[dict[str, JsonValue]]
    """What it tells of, as a webhook is told."""


class DeliveryList(View):
    deliveries: list[DeliveryView]
    next_before: int | None
    """Pass it as `before` for the older ones; none when there are none."""


class Deleted(View):
    deleted: bool
