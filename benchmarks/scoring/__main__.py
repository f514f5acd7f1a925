"""`python -m benchmarks.scoring`: the engine beside naive pairs, the reference scheme and the bound.

`QUICK=1` gives the short form. A run of all sizes leaves build/bench/scoring.json and fills docs/scoring.md
and its plot; a run of named sizes only prints.
"""

import argparse
import os
import platform
import sys
import time
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import machine
from benchmarks.scoring import work as works
from benchmarks.scoring.memory import ROOT
from benchmarks.scoring.plot import svg
from benchmarks.scoring.report import Report, block, write_document
from benchmarks.scoring.run import Bench, Effort

RESULT = ROOT / "build" / "bench" / "scoring.json"
DOCUMENT = ROOT / "docs" / "scoring.md"
PLOT = ROOT / "docs" / "scoring.svg"

MOST_PAIRS = (16, 2)
"""Reasonings and prompts that (a) and (b) get: a forward pass of 16 rows is whole, and prompts differ."""
WHOLE = Effort(num_rounds=3, most_pairs=MOST_PAIRS, sizes=None)
QUICK = Effort(num_rounds=1, most_pairs=MOST_PAIRS, sizes=("short", "long", "few"))


def main() -> None:
    """Measures every size, or those that are named."""
    is_quick = os.environ.get("QUICK", "") not in ("", "0")
    effort = QUICK if is_quick else WHOLE
    sizes = {size.name: size for size in (*works.CPU_SIZES, *works.GPU_SIZES)}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sizes", nargs="*", help=f"{', '.join(sizes)}; all when absent")
    parser.add_argument(
        "--every-pair", action="store_true", help="let (a) and (b) run whole batches, which takes hours"
    )
    given = parser.parse_args()
    named = given.sizes
    if given.every_pair:
        effort = replace(effort, most_pairs=None)
    if unknown := set(named) - set(sizes):
        parser.error(f"no such size: {', '.join(sorted(unknown))}")
    # One thread: its CPU time is the figure that holds on a machine that has other work to do.
    torch.set_num_threads(1)
    load_before = os.getloadavg()[0]
    bench = Bench(effort)
    for name in named or effort.sizes or sizes:
        if sizes[name] in works.GPU_SIZES and not torch.cuda.is_available():
            print(f"{name}: skipped, there is no CUDA device here", flush=True)
            continue
        begun = time.monotonic()
        bench.run(sizes[name])
        print(f"{name}: {time.monotonic() - begun:.0f} s", flush=True)
    if not bench.measured:
        sys.exit("nothing was measured")
    load = {"load_before": load_before, "load_after": os.getloadavg()[0]}
    measured_on = _measured_on() | load | {"matmul_gflops": bench.matmul_gflops()}
    report = Report(measured_on, is_quick, bench.results(), bench.facts(), bench.breakdown)
    print(block(report, PLOT.name))
    # Figures of some sizes alone are for whoever works on them.
    if not named:
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(report.as_json())
        PLOT.write_text(svg(bench.groups()))
        write_document(DOCUMENT, report, PLOT.name)
        print("\n" + "\n".join(str(path.relative_to(ROOT)) for path in (RESULT, DOCUMENT, PLOT)))


def _measured_on() -> dict[str, Any]:
    libraries = {name: version(name) for name in ("torch", "transformers", "numpy")}
    return machine(libraries) | {"device": _device_name()}


def _device_name() -> str:
    """The name of the GPU, or of the processor, where the system tells it."""
    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "a processor without a name"


if __name__ == "__main__":
    main()
