"""The settings: defaults that run on a laptop, a word on each, and no secret in sight."""

from pathlib import Path

import pytest

from collapsewatch_server.settings import ServerSettings


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ServerSettings.model_fields:
        monkeypatch.delenv(f"COLLAPSEWATCH_{name.upper()}", raising=False)


def test_the_defaults_keep_everything_in_the_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_HOME", "~/elsewhere")
    settings = ServerSettings()
    home = Path("~/elsewhere").expanduser()
    assert settings.home == home
    assert settings.effective_database_url == f"sqlite:///{home}/collapsewatch.db"
    assert settings.effective_blob_url == f"{home}/blobs"
    assert settings.effective_redis_url is None
    assert (settings.host, settings.port) == ("127.0.0.1", 7788)


def test_every_setting_says_what_it_is_for() -> None:
    for name, field in ServerSettings.model_fields.items():
        assert field.description, name


def test_an_empty_variable_is_an_absent_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "REDIS_URL", "BLOB_URL", "WORKER_KEY", "CHECKPOINT_ROOTS"):
        monkeypatch.setenv(f"COLLAPSEWATCH_{name}", "")
    settings = ServerSettings()
    absent = (settings.database_url, settings.redis_url, settings.blob_url, settings.worker_key)
    assert absent == (None, None, None, None)
    assert settings.checkpoint_roots == ()


@pytest.mark.parametrize("given", ["/a:/b", '["/a", "/b"]'])
def test_roots_come_as_a_path_list_or_as_json(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_CHECKPOINT_ROOTS", given)
    assert ServerSettings().checkpoint_roots == (Path("/a"), Path("/b"))


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_DATABASE_URL", "postgresql://me:hunter2@db/x")
    monkeypatch.setenv("COLLAPSEWATCH_WORKER_KEY", "cw_worker_" + "s" * 40)
    shown = repr(ServerSettings())
    assert "hunter2" not in shown
    assert "ssss" not in shown
