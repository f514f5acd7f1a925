"""`python -m benchmarks.alerts`: false alarms and delays of the alert rules, beside plain detectors.

`QUICK=1` gives the short form. `ROLLOUTS=<folder>` names the folder of recorded runs (`*.rollouts.jsonl.gz`);
`flat_healthy_s1` has to be among them. A whole run leaves build/bench/alerts.json and fills docs/alerts.md
and its plot; the short form leaves the documentation as it is.
"""

import os
import sys
import time
from importlib.metadata import version
from pathlib import Path

from benchmarks.alerts import recorded, run
from benchmarks.alerts.cases import DRIFTS, RULE_CASES, STABLE
from benchmarks.alerts.plot import Line, svg
from benchmarks.alerts.report import SHORT, Report, block, write_document
from benchmarks.alerts.run import DriftResult, Effort
from benchmarks.common import machine

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "build" / "bench" / "alerts.json"
DOCUMENT = ROOT / "docs" / "alerts.md"
PLOT = ROOT / "docs" / "alerts.svg"
ROLLOUTS = ROOT / "tests" / "data" / "rollouts"
HEALTHY = "flat_healthy_s1"

WHOLE = Effort(num_stable=8000, num_drifts=40, starts=tuple(range(20, 104, 3)))
QUICK = Effort(num_stable=400, num_drifts=8, starts=(20, 50, 80))


def main() -> None:
    """Measures, prints the tables, and keeps a whole run."""
    is_quick = os.environ.get("QUICK", "") not in ("", "0")
    folder = Path(os.environ.get("ROLLOUTS") or ROLLOUTS)
    if HEALTHY not in recorded.names(folder):
        sys.exit(
            f"{folder} holds no {HEALTHY}.rollouts.jsonl.gz; name the folder of recorded runs by ROLLOUTS"
        )
    report = measured(QUICK if is_quick else WHOLE, folder, is_quick=is_quick)
    print(block(report, PLOT.name))
    RESULT.parent.mkdir(parents=True, exist_ok=True)
    RESULT.write_text(report.as_json())
    print(f"\n{RESULT.relative_to(ROOT)}")
    if not is_quick:
        PLOT.write_text(svg([_line(drift) for drift in report.drifts]))
        write_document(DOCUMENT, report, PLOT.name)
        print("\n".join(str(path.relative_to(ROOT)) for path in (DOCUMENT, PLOT)))


def measured(effort: Effort, folder: Path, *, is_quick: bool) -> Report:
    """Everything, telling how far it has come."""
    begun = time.process_time()
    stable = []
    for seed, setting in enumerate(STABLE):
        stable.append(run.stable(setting, effort, seed))
        _tell(f"stable: {setting.name}", begun)
    for_all = run.tuned_for_all(stable)
    beside = {result.setting.name: result for result in stable}
    drifts = []
    for seed, case in enumerate(DRIFTS):
        drifts.append(run.drift(case, beside[case.setting.name], for_all, effort, 100 + seed))
        _tell(case.name, begun)
    rules = [
        run.rule(case, beside[case.setting.name], effort, 200 + seed) for seed, case in enumerate(RULE_CASES)
    ]
    _tell("other rules", begun)
    drifts += run.recorded_drifts(folder, HEALTHY, for_all, effort)
    _tell("recorded drift", begun)
    terser = run.terser_runs(folder, HEALTHY)
    whole = run.whole_runs(folder)
    _tell("recorded runs", begun)
    libraries = {name: version(name) for name in ("numpy", "scikit-learn", "pydantic")}
    return Report(
        measured_on=machine(libraries),
        is_quick=is_quick,
        seconds=time.process_time() - begun,
        fold_milliseconds=run.fold_milliseconds(),
        stable=stable,
        for_all=for_all,
        drifts=drifts,
        rules=rules,
        terser=terser,
        whole=whole,
    )


def _tell(what: str, begun: float) -> None:
    print(f"{time.process_time() - begun:5.0f} s  {what}", file=sys.stderr, flush=True)


def _line(drift: DriftResult) -> Line:
    name, theirs = drift.best_peer()
    return Line(
        title=drift.name,
        ours=drift.warning.median,
        ours_p95=drift.warning.p95,
        theirs=theirs.median,
        theirs_p95=theirs.p95,
        their_name=SHORT[name],
    )


if __name__ == "__main__":
    main()
