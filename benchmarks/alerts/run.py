"""Measures the product's folds and the plain detectors on the same evaluations."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path as Folder

import numpy as np

from benchmarks.alerts import recorded
from benchmarks.alerts.cases import CHANGE_AT, NUM_AFTER, STABLE, Drift, RuleCase
from benchmarks.alerts.peers import BEGIN, PEERS, Peer, Series, first_alarm, num_alarms, series_of, tuned
from benchmarks.alerts.simulation import Setting, simulated
from benchmarks.alerts.watching import Delays, FalseAlarms, Opened, openings
from collapsewatch_server.alerts.rules import DEPENDENCE_RULE
from collapsewatch_server.folds.evaluation import Evaluation
from collapsewatch_server.folds.run_fold import FoldState, fold, initial_state

WARNING = f"{DEPENDENCE_RULE} warning"
CRITICAL = f"{DEPENDENCE_RULE} critical"
_RUN = 211
"""Evaluations of one stable run: 200 after the baseline."""


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    num_stable: int
    """Evaluations of each stable series, about."""
    num_drifts: int
    """Runs of each drift."""
    starts: tuple[int, ...]
    """Where drift begins in a recorded run."""


@dataclass
class StableResult:
    setting: Setting
    ours: FalseAlarms
    runs: list[Series]
    evaluations: list[list[Evaluation]]
    usual: dict[str, int] = field(default_factory=dict)
    """False alarms of each peer as published."""
    tuned: dict[str, float] = field(default_factory=dict)
    """Parameter of each peer at our rate of false warnings."""


@dataclass(frozen=True)
class DriftResult:
    name: str
    warning: Delays
    critical: Delays
    peers: dict[str, Delays]
    """With one parameter for all runs, at our rate of false alarms on all stable series together."""
    told: dict[str, Delays]
    """With the parameter of this setting, at our rate on its own stable series: unknown beforehand."""
    usual: dict[str, Delays]
    """As published."""

    def best_peer(self) -> tuple[str, Delays]:
        """The peer that finds soonest, with one parameter for all runs."""
        return best(self.peers)


@dataclass(frozen=True)
class RuleResult:
    case: RuleCase
    ours: Delays
    false_alarms: int
    num_evaluations: int
    peers: dict[str, Delays]


@dataclass(frozen=True)
class WholeRun:
    name: str
    num_evaluations: int
    ours: list[Opened]
    peers: dict[str, int | None]
    """First alarm of each, as published, by evaluation."""


def best(peers: dict[str, Delays]) -> tuple[str, Delays]:
    """The peer with the smallest median; of equal ones the one that misses less, then the smaller p95."""

    def rank(name: str) -> tuple[float, int, float]:
        delays = peers[name]
        return (delays.median or np.inf, delays.num_missed, delays.p95 or np.inf)

    name = min(peers, key=rank)
    return name, peers[name]


def stable(setting: Setting, effort: Effort, seed: int) -> StableResult:
    """False alarms of all rules together and of every peer, on runs of 200 evaluations after the baseline."""
    wanted = effort.num_stable // (2 if setting.num_prompts >= 64 else 1)
    generator = np.random.default_rng(seed)
    result = StableResult(setting, FalseAlarms(), [], [])
    while result.ours.num_evaluations < wanted:
        evaluations = simulated(setting, _RUN, generator)
        result.ours.add(openings(evaluations), _RUN - BEGIN)
        result.runs.append(series_of(evaluations))
        # Of the first setting alone the other rules' metrics are read again.
        if setting in (STABLE[0], STABLE[1]):
            result.evaluations.append(evaluations)
    for peer in PEERS:
        result.usual[peer.name] = num_alarms(peer, result.runs, peer.usual)
        result.tuned[peer.name] = tuned(peer, result.runs, num_warnings([result]))
    return result


def num_warnings(results: Sequence[StableResult]) -> int:
    """False warnings of our rule on retrieval."""
    return sum(result.ours.by_rule.get((DEPENDENCE_RULE, "warning"), 0) for result in results)


def tuned_for_all(results: Sequence[StableResult]) -> dict[str, float]:
    """Each peer's parameter at our rate on all stable series together, as a product would have to ship it."""
    runs = [series for result in results for series in result.runs]
    return {peer.name: tuned(peer, runs, num_warnings(results)) for peer in PEERS}


def drift(
    case: Drift, beside: StableResult, for_all: dict[str, float], effort: Effort, seed: int
) -> DriftResult:
    """Delays on simulated runs whose skill changes after 20 evaluations."""
    generator = np.random.default_rng(seed)
    runs = [
        simulated(case.setting, CHANGE_AT + NUM_AFTER, generator, case.path) for _ in range(effort.num_drifts)
    ]
    found = [openings(run, until=frozenset({WARNING, CRITICAL})) for run in runs]
    series = [series_of(run) for run in runs]
    return _drift_result(case.name, found, series, [CHANGE_AT] * len(runs), for_all, beside.tuned)


def _drift_result(
    name: str,
    found: Sequence[Sequence[Opened]],
    series: Sequence[Series],
    begins: Sequence[int],
    for_all: dict[str, float],
    told: dict[str, float],
) -> DriftResult:
    def of_peers(parameter: Callable[[Peer], float]) -> dict[str, Delays]:
        return {
            peer.name: Delays(
                tuple(
                    first_alarm(peer, one, parameter(peer), begin)
                    for one, begin in zip(series, begins, strict=True)
                )
            )
            for peer in PEERS
        }

    return DriftResult(
        name,
        _delays(found, begins, DEPENDENCE_RULE, ("warning", "critical")),
        _delays(found, begins, DEPENDENCE_RULE, ("critical",)),
        of_peers(lambda peer: for_all[peer.name]),
        of_peers(lambda peer: told[peer.name]),
        of_peers(lambda peer: peer.usual),
    )


def _delays(
    found: Sequence[Sequence[Opened]], begins: Sequence[int], rule: str, severities: Sequence[str]
) -> Delays:
    delays = []
    for alerts, begin in zip(found, begins, strict=True):
        after = [
            one.index - begin + 1
            for one in alerts
            if one.rule == rule and one.severity in severities and one.index >= begin
        ]
        delays.append(min(after, default=None))
    return Delays(tuple(delays))


_RULE_PEERS = tuple(peer for peer in PEERS if peer.name.startswith(("two evaluations", "CUSUM")))


def rule(case: RuleCase, beside: StableResult, effort: Effort, seed: int) -> RuleResult:
    """Delays of one of the other rules, beside the plain detectors on the same metric."""
    generator = np.random.default_rng(seed)
    number = max(effort.num_drifts // 2, 5)
    runs = [simulated(case.setting, CHANGE_AT + NUM_AFTER, generator, case.path) for _ in range(number)]
    found = [openings(run, until=frozenset({f"{case.rule} {case.severity}"})) for run in runs]
    count = beside.ours.by_rule.get((case.rule, case.severity), 0)
    stable_series = [_of_metric(run, case) for run in beside.evaluations]
    peers = {}
    for peer in _RULE_PEERS:
        parameter = tuned(peer, stable_series, count)
        peers[peer.name] = Delays(
            tuple(first_alarm(peer, _of_metric(run, case), parameter, CHANGE_AT) for run in runs)
        )
    severities = ("warning", "critical") if case.severity == "warning" else (case.severity,)
    ours = _delays(found, [CHANGE_AT] * number, case.rule, severities)
    return RuleResult(case, ours, count, beside.ours.num_evaluations, peers)


def _of_metric(run: Sequence[Evaluation], case: RuleCase) -> Series:
    """The metric in place of accuracy, turned over where a rise is looked for."""
    values = np.array([evaluation.value(case.metric) or 0.0 for evaluation in run])
    return {"retrieval_accuracy": 1.0 / np.maximum(values, 0.02) if case.rises else values}


def recorded_drifts(
    folder: Folder, name: str, for_all: dict[str, float], effort: Effort
) -> list[DriftResult]:
    """Delays on a recorded healthy run, 8 rollouts a prompt, whose traces are exchanged from some step on."""
    steps = recorded.load(folder, name, num_rollouts=8)
    before = [recorded.evaluation_of(step, number) for number, step in enumerate(steps)]
    states = _states(before)
    told = {peer.name: tuned(peer, [series_of(before)], 0) for peer in PEERS}
    results = []
    for label, shares in (
        ("all traces exchanged", [1.0] * 12),
        ("3 of 4 traces exchanged", [0.75] * 12),
        ("half of the traces exchanged", [0.5] * 12),
        ("ramp to all over 12", [min((k + 1) / 12, 1.0) for k in range(16)]),
        ("all for 5, then back", [1.0] * 5 + [0.0] * 7),
    ):
        starts = [start for start in effort.starts if start + len(shares) <= len(steps)]
        found, series = [], []
        for start in starts:
            generator = np.random.default_rng(start)
            tail = [
                recorded.evaluation_of(recorded.swapped(steps[start + k], share, generator), start + k)
                for k, share in enumerate(shares)
            ]
            opened = openings(tail, states[start])
            found.append([Opened(one.index + start, one.rule, one.severity) for one in opened])
            series.append(series_of([*before[:start], *tail]))
        results.append(_drift_result(f"recorded: {label}", found, series, starts, for_all, told))
    return results


def _states(evaluations: Sequence[Evaluation]) -> list[FoldState]:
    """The state before each evaluation."""
    states = [initial_state()]
    for evaluation in evaluations:
        states.append(fold(states[-1], evaluation)[0])
    return states


def terser_runs(folder: Folder, name: str) -> list[tuple[float, float, list[Opened]]]:
    """(share of the words at the end, its skill over that of the whole text, what opened), ever terser.

    From step 20 on words go evenly, more from step to step until step 60, and stay away to the end.
    """
    steps, found = recorded.load(folder, name), []
    for last in (0.9, 0.8, 0.7, 0.6):
        generator, evaluations = np.random.default_rng(0), []
        for number, step in enumerate(steps):
            kept = 1.0 - (1.0 - last) * min(max(number - 20, 0) / 40, 1.0)
            text = recorded.terser(step, kept, generator) if kept < 1.0 else step
            evaluations.append(recorded.evaluation_of(text, number))
        skills = [evaluation.value("retrieval_skill") or 0.0 for evaluation in evaluations]
        ratio = float(np.mean(skills[60:]) / np.mean(skills[1:BEGIN]))
        found.append((last, ratio, openings(evaluations)))
    return found


def whole_runs(folder: Folder) -> list[WholeRun]:
    """Every recorded run as it was, by our rules and by the peers as published."""
    results = []
    for name in recorded.names(folder):
        evaluations = [
            recorded.evaluation_of(step, number) for number, step in enumerate(recorded.load(folder, name))
        ]
        series = series_of(evaluations)
        first = {peer.name: first_alarm(peer, series, peer.usual, 0) for peer in PEERS}
        peers = {key: None if value is None else value - 1 for key, value in first.items()}
        results.append(WholeRun(name, len(evaluations), openings(evaluations), peers))
    return results


def fold_milliseconds(seed: int = 0) -> float:
    """What one evaluation costs the folds, 8 prompts."""
    evaluations = simulated(STABLE[0], 150, np.random.default_rng(seed))
    begun = time.process_time()
    openings(evaluations)
    return 1000.0 * (time.process_time() - begun) / len(evaluations)
