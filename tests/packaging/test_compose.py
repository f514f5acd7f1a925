"""The compose file names what exists: settings, Dockerfiles, commands."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from collapsewatch_server.settings import ServerSettings
from collapsewatch_worker.settings import WorkerSettings

ROOT = Path(__file__).parents[2]


def services() -> dict[str, dict[str, Any]]:
    loaded: dict[str, dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return loaded


def test_every_variable_of_server_and_workers_is_a_setting() -> None:
    for name, service in services().items():
        known = {
            f"COLLAPSEWATCH_{field.upper()}"
            for field in (WorkerSettings if name.startswith("worker") else ServerSettings).model_fields
        }
        given = {key for key in service.get("environment", {}) if key.startswith("COLLAPSEWATCH_")}
        assert given <= known, f"{name}: {given - known}"


def test_every_dockerfile_is_there_and_copies_what_exists() -> None:
    for service in services().values():
        if "build" not in service:
            continue
        dockerfile = ROOT / service["build"]["dockerfile"]
        for line in dockerfile.read_text().splitlines():
            if line.startswith("COPY"):
                assert all((ROOT / name).exists() for name in line.split()[1:-1])


def test_only_the_page_is_published_and_only_on_loopback() -> None:
    published = {name: service["ports"] for name, service in services().items() if "ports" in service}
    assert published == {"server": ["127.0.0.1:7788:7788"]}


def test_people_sign_in_with_the_settings_as_compose_passes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unset variable arrives as its default, which is often an empty string."""
    for name, value in services()["server"]["environment"].items():
        given = re.sub(r"\$\{\w+(?::-([^}]*))?\}", lambda match: match[1] or "", str(value))
        monkeypatch.setenv(name, given)
    monkeypatch.setenv("COLLAPSEWATCH_WORKER_KEY", "cw_worker_" + "x" * 43)
    settings = ServerSettings()
    assert settings.needs_login
    assert (settings.oidc_issuer, settings.proxy_user_header, settings.trusted_proxies) == (None, None, ())
    for example in re.findall(r"^#(\w+)=(.+)$", (ROOT / ".env.example").read_text(), flags=re.MULTILINE):
        monkeypatch.setenv(*example)
    assert ServerSettings().oidc_issuer == "https://login.example.com"


def test_no_secret_has_a_default() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for name in ("POSTGRES_PASSWORD", "COLLAPSEWATCH_WORKER_KEY"):
        assert f"${{{name}:?" in text
        assert not re.search(rf"\$\{{{name}:-", text)
