"""All rules on single metrics of one scope, folded together."""

from collapsewatch_server.alerts import series_words
from collapsewatch_server.alerts.series import Measured, RuleState, SeriesState, fold_series
from collapsewatch_server.alerts.series_rules import SERIES_RULES, TEXT_METRICS, TRACKED
from collapsewatch_server.alerts.transitions import AlertTransition


def fold_all(state: SeriesState, measured: Measured) -> tuple[SeriesState, list[AlertTransition]]:
    """State after one evaluation, and the alerts that open or clear at it."""
    return fold_series(
        state, measured, SERIES_RULES, TRACKED, opens=series_words.opens, clears=series_words.clears
    )


def restarted(
    state: SeriesState, reason: str, *, scope: str, scorer_changed: bool
) -> tuple[SeriesState, list[AlertTransition]]:
    """State at a new baseline: an open alert clears at its old limit, unless its numbers mean another thing.

    Args:
        reason: what changed, as a clause.
        scorer_changed: whether it was the scorer, without whom text metrics cannot be compared.
    """
    state = state.without_baselines()
    if not scorer_changed:
        return state, []
    kept: dict[str, RuleState] = dict(state.rules)
    ended = []
    for rule in SERIES_RULES:
        if rule.metric in TEXT_METRICS and rule.name in kept:
            opened = kept.pop(rule.name).open
            assert opened is not None
            ended.append(series_words.abandoned(rule, scope, opened, reason))
    return SeriesState(rules=kept), ended
