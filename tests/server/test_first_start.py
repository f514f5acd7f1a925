"""The first start of a service that asks people to sign in, as whoever starts it sees it."""

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.conftest import WaitUntil

PROGRAM = "import sys; from collapsewatch_server import main; main.serve_app(sys.argv[1:])"
BODY = {"name": "olga", "password": "four words nobody guesses"}


@contextmanager
def serving(home: Path, wait_until: WaitUntil) -> Iterator[tuple[str, list[str]]]:
    """Address of a started server and the lines that it has printed."""
    arguments = ["--login", "--no-worker", "--port", "0", "--home", str(home)]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reader.start()

    def is_there() -> bool:
        return any(re.match(r"  (start|login) ", line) for line in lines) or process.poll() is not None

    try:
        wait_until(is_there, "it says how to sign in", timeout_seconds=120)
        (address,) = re.findall(r"page +(http://\S+)", "".join(lines))
        yield address, lines
    finally:
        process.terminate()
        process.wait(60)
        reader.join(30)
        process.stdout.close()


def token_in(lines: list[str], address: str) -> str:
    (token,) = re.findall(re.escape(address) + r"/#/join/([A-Za-z0-9_-]{43})\n", "".join(lines))
    return str(token)


def join(address: str, token: str) -> int:
    headers = {"Origin": address}
    body = {**BODY, "token": token}
    return httpx.post(
        f"{address}/api/v1/session/join", json=body, headers=headers, timeout=60, trust_env=False
    ).status_code


@pytest.mark.integration
def test_the_link_of_the_first_start_is_replaced_by_the_next_and_gone_once_it_was_used(
    tmp_path: Path, wait_until: WaitUntil
) -> None:
    with serving(tmp_path, wait_until) as (address, lines):
        first = token_in(lines, address)
    with serving(tmp_path, wait_until) as (address, lines):
        second = token_in(lines, address)
        assert join(address, first) == 410
        assert httpx.get(f"{address}/api/v1/runs", timeout=60, trust_env=False).status_code == 401
        assert join(address, second) == 200
        assert join(address, second) == 410
    with serving(tmp_path, wait_until) as (address, lines):
        assert "/#/join/" not in "".join(lines)
