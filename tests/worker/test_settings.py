"""The worker's settings: read from the environment, validated, and safe to pass on."""

import os
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from collapsewatch_worker.settings import ScoringSettings, WorkerSettings


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("COLLAPSEWATCH_"):
            monkeypatch.delenv(name)


def test_defaults_need_nothing_but_a_laptop() -> None:
    settings = WorkerSettings()
    assert settings.server_url.startswith("http://127.0.0.1:")
    assert settings.device == "auto"
    assert settings.redis_url is None
    assert settings.checkpoint_roots == ()
    assert settings.effective_blob_url == str(Path("~/.collapsewatch/blobs").expanduser())


def test_every_setting_is_described_and_has_a_default() -> None:
    for name, field in WorkerSettings.model_fields.items():
        assert field.description, name
        assert not field.is_required(), name


def test_checkpoint_roots_are_split_like_a_path_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_CHECKPOINT_ROOTS", os.pathsep.join(["/models", "/runs/check points"]))
    assert WorkerSettings().checkpoint_roots == (Path("/models"), Path("/runs/check points"))
    monkeypatch.setenv("COLLAPSEWATCH_CHECKPOINT_ROOTS", '["/a", "/b"]')
    assert WorkerSettings().checkpoint_roots == (Path("/a"), Path("/b"))
    monkeypatch.setenv("COLLAPSEWATCH_CHECKPOINT_ROOTS", "")
    assert WorkerSettings().checkpoint_roots == ()


def test_empty_variables_count_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_REDIS_URL", "")
    monkeypatch.setenv("COLLAPSEWATCH_BLOB_URL", "")
    monkeypatch.setenv("COLLAPSEWATCH_HOME", "/var/lib/watch")
    settings = WorkerSettings()
    assert settings.redis_url is None
    assert settings.effective_blob_url == "/var/lib/watch/blobs"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEVICE", "gpu0"),
        ("DTYPE", "int8"),
        ("SERVER_URL", "127.0.0.1:7788"),
        ("CLAIM_WAIT_SECONDS", "0"),
        ("NUM_TORCH_THREADS", "0"),
        ("LOG_LEVEL", "loud"),
    ],
)
def test_a_bad_value_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"COLLAPSEWATCH_{name}", value)
    with pytest.raises(ValidationError):
        WorkerSettings()


def test_what_the_command_line_gives_wins_and_is_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_DEVICE", "cpu")
    monkeypatch.setenv("COLLAPSEWATCH_CHECKPOINT_ROOTS", "/models")
    settings = WorkerSettings()
    changed = settings.changed(device="cuda:1", server_url=None)
    assert changed.device == "cuda:1"
    assert changed.checkpoint_roots == (Path("/models"),)
    assert changed.server_url == settings.server_url
    with pytest.raises(ValidationError):
        settings.changed(device="tpu")


def test_the_scoring_process_learns_no_secret() -> None:
    settings = WorkerSettings(
        worker_key=SecretStr("key-that-is-secret"), redis_url=SecretStr("redis://:password@host")
    )
    sent = settings.for_scoring("worker-1").model_dump_json()
    assert "secret" not in sent
    assert "password" not in sent
    assert ScoringSettings.model_validate_json(sent) == settings.for_scoring("worker-1")
