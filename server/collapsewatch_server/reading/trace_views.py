"""What the API answers about the traces of an alert."""

from collapsewatch_server.reading.views import View


class Trace(View):
    """One response, with the end of what the model saw before it."""

    group_id: str
    step: int
    attempt_id: str
    turn: int
    """Which turn of its rollout it is, from 0."""
    reward: float | None
    """Of the whole rollout; none where the trainer gave none."""
    success: bool | None
    prompt: str | None
    """The last 600 characters; none where it came as token ids."""
    prompt_left_out: int
    """Characters before them."""
    response: str
    """The first 1,500 characters. Text as the model wrote it, never markup."""
    response_left_out: int
    """Characters after them."""


class PromptTraces(View):
    """What was answered to one prompt that drove the alert."""

    group_ids: list[str]
    preview: str
    traces: list[Trace]
    """At the alert's step: the first 2 of the batch, in its order."""
    baseline: Trace | None
    """One of the baseline's last step, to compare: to this prompt, else to one of its group. When there is
    none for any of the prompts, the first one has the first response of that step."""
    is_same_prompt: bool
    """Whether `baseline` answers the very same prompt."""


class AlertTraces(View):
    """What the model wrote when the alert opened."""

    step: int | None
    baseline_step: int | None
    prompts: list[PromptTraces]
    """At most 4, those that fell furthest first."""
    reason: str | None
    """Why there are none, or not all."""
    baseline_reason: str | None
    """Why there is nothing to compare with, or not all."""
