"""What the API answers about the steps of a run."""

from collapsewatch_server.reading.views import View


class Checkpoint(View):
    """The first step that a policy wrote."""

    step: int
    policy_version: str
    """As the trainer named it."""


class StepClock(View):
    """When the steps of a run were, and which policies wrote them."""

    steps: list[int]
    """At most 1,001, in order; between two of them time passes about evenly."""
    times: list[float]
    """Seconds since 1970 by the trainer's clock, one for each of `steps`."""
    checkpoints: list[Checkpoint]
    """Where another policy version than before begins to write. Empty when there are more than 200 of them:
    such names count steps and mark nothing."""
    reason: str | None
    """Why there is no checkpoint."""


class RuleHistory(View):
    """What one filter rule would have kept over the steps that were read."""

    rule: str
    """Such as `top_p 0.9 linear std`."""
    kept_ratio: float
    """Groups kept ÷ groups seen, over all steps; 0 to 1."""
    coverage: float
    """Share of the distinct groups that it kept at least once; 0 to 1."""


class GroupHistory(View):
    """What became of one prompt group of the step."""

    group_id: str
    num_seen: int
    """Steps that had it, of those that were read."""
    all_fail_since: int | None
    """First step since which all its rewards were at the bottom whenever it came; none when they are not."""
    last_kept: dict[str, int | None]
    """Last step at which each rule would have kept it, perhaps this one; none when at none that was read."""


class KeptHistory(View):
    """What filter rules would have kept until a step: which prompts they starve."""

    step: int
    from_step: int
    """First step that was read."""
    num_steps: int
    """Scored steps that were read."""
    rules: list[RuleHistory]
    groups: list[GroupHistory]
    """Those of the step, in its order."""
