"""The alert benchmark measures what it says: drift, plain detectors, delays, what the document gets."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.alerts import recorded, report
from benchmarks.alerts.cases import CHANGE_AT, DRIFTS, NUM_AFTER, RULE_CASES, STABLE, RuleCase
from benchmarks.alerts.peers import PEERS, Series, first_alarm, num_alarms, series_of, tuned
from benchmarks.alerts.plot import Line, svg
from benchmarks.alerts.recorded import Trace
from benchmarks.alerts.run import best
from benchmarks.alerts.simulation import Setting, simulated
from benchmarks.alerts.watching import Delays, openings, rate_with_interval
from collapsewatch_server.alerts.catalogue import DETECTORS

ROLLOUTS = Path(__file__).parents[1] / "data" / "rollouts"
FIXED, TWICE, CUSUM, SPREAD, SUCCESS = PEERS


def _series(*values: float) -> Series:
    column = np.array(values)
    return {"retrieval_accuracy": column, "success": column, "reward_std": column}


def _step(num_groups: int = 8, num_rollouts: int = 8) -> list[Trace]:
    return [
        Trace(f"g{group}", f"prompt {group}", f"reasoning of {group} number {k}", 0.0)
        for group in range(num_groups)
        for k in range(num_rollouts)
    ]


def _strangers(step: list[Trace]) -> list[int]:
    """Per group, how many of its traces were written for another prompt."""
    return [
        sum(trace.reasoning.split()[2] != trace.group[1:] for trace in step if trace.group == f"g{group}")
        for group in range(8)
    ]


@pytest.mark.parametrize(("share", "number"), [(0.0, 0), (0.25, 2), (0.5, 4), (1.0, 8)])
def test_that_share_of_every_prompts_traces_is_exchanged(share: float, number: int) -> None:
    step = _step()
    drifted = recorded.swapped(step, share, np.random.default_rng(0))
    assert _strangers(drifted) == [number] * 8
    assert sorted(trace.reasoning for trace in drifted) == sorted(trace.reasoning for trace in step)
    assert [(trace.group, trace.prompt) for trace in drifted] == [
        (trace.group, trace.prompt) for trace in step
    ]


def test_exchanged_traces_come_from_many_prompts() -> None:
    """All from one other prompt would be retrieved as well as before, under another name."""
    drifted = recorded.swapped(_step(), 1.0, np.random.default_rng(1))
    for group in range(8):
        sources = {trace.reasoning.split()[2] for trace in drifted if trace.group == f"g{group}"}
        assert len(sources) == 7


def test_full_exchange_of_a_recorded_step_leaves_no_skill() -> None:
    steps = recorded.load(ROLLOUTS, "flat_healthy_s1", num_rollouts=8)
    generator = np.random.default_rng(0)
    whole = [recorded.evaluation_of(steps[at], at).value("retrieval_skill") or 0.0 for at in (30, 50, 70)]
    gone = [
        recorded.evaluation_of(recorded.swapped(steps[at], 1.0, generator), at).value("retrieval_skill")
        or 0.0
        for at in (30, 50, 70)
    ]
    assert min(whole) > 0.8
    assert max(gone) < 0.15


def test_terser_reasoning_keeps_the_order_and_the_share_of_its_words() -> None:
    [trace] = recorded.terser(
        [Trace("g", "p", " ".join(map(str, range(20))), 0.0)], 0.7, np.random.default_rng(0)
    )
    words = [int(word) for word in trace.reasoning.split()]
    assert len(words) == 14
    assert words == sorted(words)


def test_recorded_collapse_is_found_and_the_healthy_run_is_silent() -> None:
    opened = {}
    for run in ("flat_nf_s1", "flat_healthy_s1"):
        steps = recorded.load(ROLLOUTS, run)[:60]
        found = openings([recorded.evaluation_of(step, number) for number, step in enumerate(steps)])
        opened[run] = {one.severity: one.index for one in found if one.severity != "info"}
    assert opened["flat_healthy_s1"] == {}
    assert abs(opened["flat_nf_s1"]["warning"] - 32) <= 2
    assert abs(opened["flat_nf_s1"]["critical"] - 41) <= 3


def test_simulated_run_has_the_skill_that_it_is_told() -> None:
    setting = Setting("test", skill=0.6, prompt_spread=0.1)
    evaluations = simulated(setting, 400, np.random.default_rng(0))
    skills = [evaluation.value("retrieval_skill") or 0.0 for evaluation in evaluations]
    assert np.mean(skills) == pytest.approx(0.6, abs=0.01)
    assert np.corrcoef(skills[:-1], skills[1:])[0, 1] == pytest.approx(0.0, abs=0.15)


def test_wave_with_memory_is_remembered() -> None:
    setting = Setting("test", skill=0.6, prompt_spread=0.0, num_prompts=64, drift_spread=0.05, memory=0.95)
    evaluations = simulated(setting, 400, np.random.default_rng(0))
    skills = [evaluation.value("retrieval_skill") or 0.0 for evaluation in evaluations]
    assert np.corrcoef(skills[:-1], skills[1:])[0, 1] > 0.6


def test_hub_takes_reasonings_of_others_and_keeps_its_own() -> None:
    setting = Setting("test", skill=0.6, hub=0.3)
    evaluations = simulated(setting, 200, np.random.default_rng(0))
    accuracies = np.array([[prompt.accuracy for prompt in one.evaluation.prompts] for one in evaluations])
    assert accuracies[:, 0].mean() > 0.7
    # Of the others' 0.6 + 0.4 / 8, three tenths are gone.
    assert accuracies[:, 1:].mean() == pytest.approx(0.7 * 0.65, abs=0.04)


def test_intervals_of_simulated_runs_hold_the_truth() -> None:
    setting = Setting("test", skill=0.6, prompt_spread=0.1, num_prompts=32)
    found = [
        one.evaluation.metrics["retrieval_skill"] for one in simulated(setting, 400, np.random.default_rng(0))
    ]
    held = [(metric.low or 0.0) <= 0.6 <= (metric.high or 0.0) for metric in found]
    assert 0.88 < np.mean(held) < 0.99


def test_fixed_threshold_goes_off_once_for_each_stretch() -> None:
    series = _series(*[0.9] * 11, 0.4, 0.4, 0.9, 0.4)
    assert num_alarms(FIXED, [series], 0.5) == 2
    assert first_alarm(FIXED, series, 0.5, 11) == 1


def test_two_in_a_row_needs_two() -> None:
    series = _series(*[0.8] * 11, 0.3, 0.8, 0.3, 0.3)
    assert first_alarm(TWICE, series, 0.5, 11) == 4
    assert first_alarm(TWICE, series, 0.3, 11) is None


def test_cusum_is_the_hand_worked_sum() -> None:
    # Baseline mean 0.5 and standard deviation 0.1 · √(10/9); a value of 0.3 adds 2 / √(10/9) − 0.5 each time.
    series = _series(0.5, *[0.4, 0.6] * 5, *[0.3] * 6)
    each = 2.0 / np.sqrt(10.0 / 9.0) - 0.5
    assert first_alarm(CUSUM, series, 3.5 * each, 11) == 4
    assert first_alarm(CUSUM, series, 6.5 * each, 11) is None


def test_ragens_stops_ask_for_a_row() -> None:
    gone = _series(*[0.4] * 10, *[0.01] * 10)
    assert first_alarm(SPREAD, gone, 0.1, 0) == 20
    assert first_alarm(SPREAD, _series(*[0.4] * 10, *[0.01] * 9, 0.4), 0.1, 0) is None
    assert first_alarm(SUCCESS, _series(0.5, *[0.0] * 5), 0.01, 0) == 6


def test_tuned_parameter_is_the_most_sensitive_that_is_as_silent() -> None:
    generator = np.random.default_rng(0)
    runs = [_series(*generator.normal(0.7, 0.05, 200).clip(0, 1).tolist()) for _ in range(5)]
    parameter = tuned(FIXED, runs, 2)
    assert num_alarms(FIXED, runs, parameter) <= 2
    following = FIXED.candidates[FIXED.candidates.index(parameter) + 1]
    assert num_alarms(FIXED, runs, following) > 2


def test_series_have_the_value_of_every_evaluation() -> None:
    evaluations = simulated(STABLE[0], 5, np.random.default_rng(0))
    series = series_of(evaluations)
    assert series["retrieval_accuracy"].tolist() == [one.value("retrieval_accuracy") for one in evaluations]


def test_missed_runs_count_in_the_quantiles() -> None:
    delays = Delays((1, 2, 3, None, None))
    assert (delays.median, delays.p95, delays.num_missed) == (3.0, None, 2)
    assert Delays((1, None, None)).median is None
    assert Delays((*range(1, 20), None)).p95 == 19.0


def test_best_peer_finds_soonest_and_a_missed_one_is_never_best() -> None:
    peers = {"late": Delays((9, 9)), "missed": Delays((None, None)), "soon": Delays((2, 2))}
    assert best(peers)[0] == "soon"


def test_rate_of_no_alarm_has_the_known_upper_end() -> None:
    assert rate_with_interval(0, 1000) == pytest.approx((0.0, 0.0, 3.6889), abs=1e-3)
    rate, low, high = rate_with_interval(4, 2000)
    assert (rate, low, high) == pytest.approx((2.0, 0.5449, 5.1209), abs=1e-3)


def test_every_change_begins_where_it_says() -> None:
    for drift in DRIFTS:
        factors = drift.path.factors["skill"]
        assert factors.size == CHANGE_AT + NUM_AFTER
        assert np.all(factors[:CHANGE_AT] == 1.0)
        assert factors[CHANGE_AT] < 1.0


def test_every_rule_on_a_metric_has_its_case() -> None:
    rules = {name for name, detector in DETECTORS.items() if detector.scope != "service"}
    assert {case.rule for case in RULE_CASES} == rules - {"input_dependence"}


@pytest.mark.parametrize("case", RULE_CASES, ids=lambda case: case.rule)
def test_each_rule_sees_its_change(case: RuleCase) -> None:
    run = simulated(case.setting, CHANGE_AT + NUM_AFTER, np.random.default_rng(1), case.path)
    first = [one.index for one in openings(run) if one.rule == case.rule]
    assert first
    assert first[0] >= CHANGE_AT


def test_document_gets_what_stands_between_the_markers() -> None:
    text = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    assert report.replaced(text, "new") == f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n"
    with pytest.raises(ValueError, match="once each"):
        report.replaced("nothing", "new")


def test_plot_says_which_runs_were_missed() -> None:
    drawn = svg(
        [Line("a drop", 3.0, 5.0, None, None, "CUSUM"), Line("a <ramp>", 12.0, 14.0, 9.0, 10.0, "fixed")]
    )
    assert "CUSUM: missed" in drawn
    assert "a &lt;ramp&gt;" in drawn
    with pytest.raises(ValueError, match="at least one change"):
        svg([])
