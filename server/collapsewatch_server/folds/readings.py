"""What the alert rules read of one evaluation, and of a baseline."""

from collapsewatch.contracts.scoring import MetricValue, ScopeEvaluation
from collapsewatch_server.alerts.rules import Reading, Reference
from collapsewatch_server.alerts.series import Measured
from collapsewatch_server.alerts.series_rules import TRACKED
from collapsewatch_server.folds.baseline import Window
from collapsewatch_server.folds.evaluation import Evaluation


def reading_of(evaluation: Evaluation) -> Reading:
    """What the alert on input dependence reads; the evaluation meets the gates."""
    scope = evaluation.evaluation
    scored = [prompt for prompt in scope.prompts if prompt.num_rows > 0]
    num_rows = sum(prompt.num_rows for prompt in scored)
    accuracy, chance = evaluation.value("retrieval_accuracy"), evaluation.value("retrieval_chance")
    if accuracy is None:
        accuracy = sum(prompt.num_rows * prompt.accuracy for prompt in scored) / num_rows
    if chance is None:
        chance = sum(prompt.num_rows * prompt.chance for prompt in scored) / num_rows
    return Reading(
        step=evaluation.step,
        skill=scope.metrics["retrieval_skill"],
        skills=tuple(evaluation.prompt_skills()),
        accuracies={(p.group_ids[0] if p.group_ids else str(i)): p.accuracy for i, p in enumerate(scored)},
        accuracy=accuracy,
        chance=chance,
        p_value=evaluation.value("retrieval_p_value"),
        conditional_entropy=evaluation.value("conditional_entropy"),
        reward=evaluation.value("reward"),
        zero_variance_fraction=evaluation.value("zero_variance_fraction"),
        mi_normalised=evaluation.value("mi_normalised"),
    )


def reference_of(window: Window) -> Reference:
    """What it is compared with."""
    accuracy, chance = window.mean("retrieval_accuracy"), window.mean("retrieval_chance")
    if accuracy is None:
        accuracy = window.skill if chance is None else chance + (1.0 - chance) * window.skill
    return Reference(
        skill=window.skill,
        accuracy=accuracy,
        first_step=window.first_step,
        last_step=window.last_step,
        conditional_entropy=window.mean("conditional_entropy"),
        reward=window.mean("reward"),
        zero_variance_fraction=window.mean("zero_variance_fraction"),
        mi_normalised=window.mean("mi_normalised"),
    )


def measured_of(evaluation: Evaluation, *, gated: bool) -> Measured:
    """What the rules on single metrics read.

    Args:
        gated: the evaluation does not meet the gates, so only what is measured on the whole batch counts.
    """
    scope = evaluation.evaluation
    values: dict[str, MetricValue] = {}
    for metric in TRACKED:
        found = evaluation.batch_metrics.get(metric)
        if found is None and not gated:
            found = scope.metrics.get(metric)
        if found is not None:
            values[metric] = found
    return Measured(
        step=evaluation.step,
        scope=scope.scope,
        values=values,
        num_prompts=scope.num_prompts,
        num_rollouts=_num_rollouts(scope),
    )


def _num_rollouts(scope: ScopeEvaluation) -> int | None:
    """Rollouts of one group, as far as the rows of the scope tell; those without reasoning are missing."""
    num_groups = sum(len(prompt.group_ids) for prompt in scope.prompts)
    if num_groups == 0:
        return None
    num_rows = scope.num_rows if scope.sampling is None else scope.sampling.num_rows_available
    if scope.sampling is not None and (scope.sampling.is_probe or scope.sampling.by_trainer):
        num_rows = scope.num_rows
    return round(num_rows / num_groups) or None
