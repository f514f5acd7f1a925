"""Looks for known vulnerabilities in what is installed: `python scripts/audit.py`, or `make audit`.

Asks the advisory service OSV about every installed package, by pip-audit, and not again on the same day while
nothing else is installed. A known vulnerability fails; a service that cannot be reached is said and fails
nothing, so that one can work without a network.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

OSV = "https://api.osv.dev/v1/query"
STAMP = Path(__file__).parents[1] / "build" / "audit" / "clean"
ACCEPTED: dict[str, str] = {}
"""Advisories that do not concern us, with the reason; there are none."""
_TIMEOUT_SECONDS = 15
# How the error ends that pip-audit shows when nobody answers it; everything else is a fault of the audit.
_AWAY = ("requests.exceptions.", "pip_audit._service.interface.ServiceError", "vulnerability feed")


def fingerprint(folder: Path | None, today: str) -> str:
    """Changes with what is installed, and every day: advisories are written of old versions, too."""
    found = distributions() if folder is None else distributions(path=[str(folder)])
    names = sorted({f"{one.name}=={one.version}" for one in found})
    return hashlib.sha256("\n".join([today, *ACCEPTED, *names]).encode()).hexdigest()


def command(folder: Path | None, osv_url: str, report: Path) -> list[str]:
    """What asks the service."""
    where = ["--local", "--skip-editable"] if folder is None else ["--path", str(folder)]
    options = ["--vulnerability-service", "osv", "--osv-url", osv_url, "--timeout", str(_TIMEOUT_SECONDS)]
    output = ["--progress-spinner", "off", "--format", "json", "--output", str(report)]
    accepted = [word for advisory in ACCEPTED for word in ("--ignore-vuln", advisory)]
    return [sys.executable, "-m", "pip_audit", *where, *options, *output, *accepted]


def vulnerable(report: dict[str, Any]) -> list[str]:
    """A line for each known vulnerability."""
    return [
        f"{package['name']} {package['version']}: {found['id']} "
        f"(mended in {', '.join(found['fix_versions']) or 'no version yet'}): {found['description'][:200]}"
        for package in report["dependencies"]
        for found in package.get("vulns", [])
    ]


def audit(folder: Path | None, osv_url: str, stamp: Path) -> int:
    """The exit status: 0 for nothing known or nobody to ask, 1 for a vulnerability, 2 for a broken audit."""
    now = fingerprint(folder, datetime.now(UTC).date().isoformat())
    if stamp.exists() and stamp.read_text() == now:
        print("Nothing was known against the installed packages earlier today, and they are the same.")
        return 0
    stamp.parent.mkdir(parents=True, exist_ok=True)
    report = stamp.with_name("report.json")
    report.unlink(missing_ok=True)
    asked = subprocess.run(  # noqa: S603 (our own interpreter, no shell)
        command(folder, osv_url, report), capture_output=True, text=True, check=False
    )
    if not report.exists():
        last = (asked.stderr.strip().splitlines() or ["it said nothing"])[-1]
        if any(sign in asked.stderr for sign in _AWAY):
            print(f"WARNING: not audited, the advisory service is away: {last[:200]}", file=sys.stderr)
            return 0
        print(f"the audit failed: {last[:1000]}", file=sys.stderr)
        return 2
    found = json.loads(report.read_text())
    lines = vulnerable(found)
    if lines:
        print("\n".join(["Known vulnerabilities:", *lines]), file=sys.stderr)
        return 1
    stamp.write_text(now)
    print(f"Nothing is known against the {len(found['dependencies'])} installed packages.")
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path, help="folder of packages; those of this interpreter when absent")
    parser.add_argument("--osv-url", default=OSV, help="where the advisory service answers")
    parser.add_argument("--stamp", type=Path, default=STAMP, help="file that remembers a clean audit")
    given = parser.parse_args()
    sys.exit(audit(given.path, given.osv_url, given.stamp))
