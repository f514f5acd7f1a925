"""Evaluations for tests of the rules on single metrics."""

from collapsewatch.contracts.scoring import MetricValue
from collapsewatch_server.alerts.series import Measured


def measured(
    step: int,
    *,
    half_width: float = 0.05,
    scope: str = "first_turn",
    num_prompts: int = 8,
    num_rollouts: int | None = 8,
    **values: float,
) -> Measured:
    """One evaluation with these values; every interval reaches `half_width` of the value to either side."""
    return Measured(
        step=step,
        scope=scope,
        values={
            metric: MetricValue(
                value=value, low=value - half_width * abs(value), high=value + half_width * abs(value)
            )
            for metric, value in values.items()
        },
        num_prompts=num_prompts,
        num_rollouts=num_rollouts,
    )
