"""The audit fails for what is known to be vulnerable, and for nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.receivers import Answer, Got, http_receiver

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "audit.py"
ADVISORY = {
    "id": "PYSEC-1",
    "summary": "Opens the door.",
    "affected": [
        {
            "package": {"name": "leaky", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "1.1"}]}],
        }
    ],
}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Two installed packages."""
    for name in ("leaky", "sound"):
        info = tmp_path / "packages" / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    return tmp_path / "packages"


def audit(packages: Path, osv_url: str) -> subprocess.CompletedProcess[str]:
    options = ["--path", str(packages), "--osv-url", osv_url, "--stamp", str(packages.parent / "stamp")]
    return subprocess.run(
        [sys.executable, str(SCRIPT), *options], capture_output=True, text=True, check=False
    )


def knows_of_leaky(got: Got) -> Answer:
    is_leaky = json.loads(got.body)["package"]["name"] == "leaky"
    return Answer(body=json.dumps({"vulns": [ADVISORY]} if is_leaky else {}).encode())


def test_a_known_vulnerability_fails_until_it_is_mended(packages: Path) -> None:
    with http_receiver() as osv:
        osv.answer = knows_of_leaky
        for _ in range(2):
            done = audit(packages, osv.url())
            assert done.returncode == 1, done.stderr
            assert "leaky 1.0: PYSEC-1 (mended in 1.1): Opens the door." in done.stderr
            assert "sound" not in done.stderr


def test_what_was_found_clean_is_not_asked_again_until_something_changes(packages: Path) -> None:
    with http_receiver() as osv:
        osv.answer = lambda got: Answer(body=b"{}")
        assert audit(packages, osv.url()).returncode == 0
        assert len(osv.got) == 2
        assert audit(packages, osv.url()).returncode == 0
        assert len(osv.got) == 2
        (packages / "sound-1.0.dist-info").rename(packages / "sound-1.1.dist-info")
        (packages / "sound-1.1.dist-info" / "METADATA").write_text("Name: sound\nVersion: 1.1\n")
        assert audit(packages, osv.url()).returncode == 0
        assert len(osv.got) == 4


@pytest.mark.parametrize("answer", [Answer(503), None], ids=["busy", "away"])
def test_without_anybody_to_ask_it_warns_and_goes_on(packages: Path, answer: Answer | None) -> None:
    with http_receiver() as osv:
        url = osv.url()
        osv.answer = lambda got: answer or Answer()
        if answer is not None:
            done = audit(packages, url)
    if answer is None:
        # The receiver has stopped.
        done = audit(packages, url)
    assert done.returncode == 0, done.stderr
    assert "WARNING: not audited" in done.stderr
    assert not (packages.parent / "stamp").exists()


def test_an_audit_that_breaks_is_not_taken_for_a_clean_one(packages: Path) -> None:
    with http_receiver() as osv:
        osv.answer = lambda got: Answer(body=b'{"vulns": "?"}')
        done = audit(packages, osv.url())
    assert done.returncode == 2, done.stderr
    assert "the audit failed" in done.stderr
