"""Rules as TOML: what is written is read again, and every fault is named by its line and field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapsewatch_server.alerting import rule_files
from collapsewatch_server.alerts.custom import RuleText
from collapsewatch_server.errors import InvalidBody
from collapsewatch_server.reading.alert_views import DetectorChoice

DETECTORS = ("queue_lag", "input_dependence")
GOOD = """\
# Ours.
[[rule]]
name = "Reward is gone"
metric = "reward"
scope = "batch"
operator = "drop"
threshold = 0.5

[[rule]]
name = "KL"
metric = "kl"
scope = "trainer"
operator = ">"
threshold = 10
for_evaluations = 3
severity = "critical"
project = "sokoban"

[[detector]]
rule = "queue_lag"
enabled = false
"""

words = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=20)
rules = st.builds(
    RuleText,
    name=words,
    metric=words,
    scope=words,
    operator=st.sampled_from(["<", "<=", ">", ">="]),
    threshold=st.floats(allow_nan=False, allow_infinity=False),
    for_evaluations=st.integers(1, 100),
    severity=st.sampled_from(["info", "warning", "critical"]),
    project=st.none() | words,
    tag=st.none() | words,
    run=st.none() | st.just("r1"),
    enabled=st.booleans(),
)
choices = st.builds(
    DetectorChoice,
    project=st.none() | words,
    rule=st.sampled_from(DETECTORS),
    enabled=st.booleans(),
    severity=st.none() | st.just("info"),
)


def faults(text: str) -> list[tuple[str, str]]:
    with pytest.raises(InvalidBody) as caught:
        rule_files.read(text, DETECTORS)
    return [(one.loc, one.message) for one in caught.value.details]


def test_a_file_is_read() -> None:
    found = rule_files.read(GOOD, DETECTORS)
    assert [(one.name, one.operator, one.threshold) for one in found.rules] == [
        ("Reward is gone", "drop", 0.5),
        ("KL", ">", 10.0),
    ]
    assert [(one.rule, one.enabled, one.project) for one in found.detectors] == [("queue_lag", False, None)]


@given(st.lists(rules, max_size=4, unique_by=lambda one: one.name), st.lists(choices, max_size=3))
def test_what_is_written_is_read_again(
    given_rules: list[RuleText], given_choices: list[DetectorChoice]
) -> None:
    found = rule_files.read(rule_files.write(given_rules, given_choices), DETECTORS)
    assert (list(found.rules), list(found.detectors)) == (given_rules, given_choices)


@pytest.mark.parametrize(
    ("before", "after", "loc"),
    [
        ("threshold = 10", 'threshold = "ten"', "line 14: rule.2.threshold"),
        ('operator = ">"', 'operator = "=="', "line 13: rule.2.operator"),
        ("threshold = 0.5", "threshold = 1.5", "line 7: rule.1.threshold"),
        ("for_evaluations = 3", "for_evaluation = 3", "line 15: rule.2.for_evaluation"),
        ('metric = "kl"\n', "", "line 9: rule.2.metric"),
        ('rule = "queue_lag"', 'rule = "queue"', "line 20: detector.1.rule"),
        ('name = "KL"', 'name = "Reward is gone"', "line 10: rule.2.name"),
        ("enabled = false", 'enabled = "no"', "line 21: detector.1.enabled"),
        ("[[detector]]", "[[channel]]", "line 19: channel"),
    ],
)
def test_a_fault_is_named_by_its_line_and_field(before: str, after: str, loc: str) -> None:
    assert before in GOOD
    assert [where for where, _ in faults(GOOD.replace(before, after))] == [loc]


def test_what_is_no_toml_is_named_by_its_line() -> None:
    ((_, message),) = faults(GOOD.replace("threshold = 10", "threshold = "))
    assert "line 14" in message


def test_tables_without_headers_of_their_own_are_counted() -> None:
    inline = 'rule = [{ name = "a", metric = "m", operator = "<", threshold = "x" }]'
    assert [where for where, _ in faults(inline)] == ["rule.1.threshold"]


def test_several_faults_are_named_at_once() -> None:
    text = GOOD.replace("threshold = 10", "threshold = true").replace('severity = "critical"', "severity = 1")
    assert [where for where, _ in faults(text)] == ["line 14: rule.2.threshold", "line 16: rule.2.severity"]
