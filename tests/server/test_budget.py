import math
from pathlib import Path

import pytest

from collapsewatch_server.alerts import budget, catalogue, watch
from collapsewatch_server.alerts.catalogue import DETECTORS, error_budget
from collapsewatch_server.alerts.series_rules import SERIES_RULES
from collapsewatch_server.alerts.series_words import WORDS
from collapsewatch_server.alerts.transitions import Severity

SCOPES = ["first_turn", "trajectory", *(f"turn/{turn}" for turn in range(200))]
DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


@pytest.mark.parametrize("severity", ["info", "warning", "critical"])
def test_all_rules_in_all_scopes_stay_within_the_runs_budget(severity: Severity) -> None:
    total = budget.total_alpha(error_budget(SCOPES), severity)
    assert 0.0 < total <= budget.TOTAL[severity] * (1.0 + 1e-12)


@pytest.mark.parametrize("severity", ["info", "warning", "critical"])
def test_rules_use_up_their_severity(severity: Severity) -> None:
    assert math.fsum(budget.SHARES[severity].values()) == pytest.approx(1.0)


def test_shares_of_two_hundred_turns_are_a_telescoping_sum() -> None:
    turns = math.fsum(budget.scope_share(f"turn/{turn}") for turn in range(200))
    assert turns == pytest.approx((1.0 - 1.0 / 201) / 32)
    assert budget.scope_share("turn/0") == pytest.approx(1 / 64)


def test_rule_on_the_batch_does_not_divide_its_part() -> None:
    share = budget.share_of("reward_drop", "warning", "first_turn", of_batch=True)
    assert share.run_length == pytest.approx(500 * 32)
    assert budget.share_of("input_dependence", "warning", "first_turn").run_length == pytest.approx(
        500 / (3 / 4 * 7 / 8)
    )


def test_rule_without_a_rate_is_refused() -> None:
    with pytest.raises(KeyError):
        budget.share_of("input_dependence", "info", "first_turn")


def test_every_rule_declares_itself() -> None:
    assert set(DETECTORS) == {
        "input_dependence",
        "valid_reasoning_rate",
        *(rule.name for rule in SERIES_RULES),
        *watch.SEVERITIES,
    }
    assert set(WORDS) == {rule.name for rule in SERIES_RULES}
    for detector in DETECTORS.values():
        assert detector.wording
        assert detector.condition
        assert bool(detector.metrics) == (detector.scope != "service")


@pytest.mark.parametrize("name", sorted(DETECTORS))
def test_no_title_passes_a_verdict_on_the_run(name: str) -> None:
    assert not any(word in DETECTORS[name].wording.lower() for word in ("failing", "failed", "healthy"))


def test_the_documentation_shows_the_rules_as_they_are() -> None:
    assert catalogue.markdown_table() in DOCUMENT.read_text()


def test_answer_of_the_api_holds_the_split() -> None:
    answer = DETECTORS["input_dependence"].to_json()
    assert answer["severities"] == ["info", "warning", "critical"]
    assert [one["severity"] for one in answer["false_alarms"]] == ["warning", "critical"]
    assert answer["false_alarms"][0]["alpha"] == pytest.approx(0.002 * 3 / 4 * 7 / 8)
