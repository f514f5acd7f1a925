"""The worker's settings: read from the environment, validated, and safe to pass on."""

import os
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError
from typer.testing import CliRunner

from collapsewatch_worker.main import app
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
        ("DEVICE", "cuda:0,tpu"),
        ("TOKEN_BUDGET", "8"),
        ("MODEL_MEMORY", "much"),
        ("MODEL_MEMORY", "24 apples"),
        ("DEVICE_MAP", "balanced"),
        ("ENGINE", "llama.cpp"),
        ("ENGINE", "vllm"),
        ("ENGINE_URL", "http://127.0.0.1:8000"),
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


def test_memory_and_devices_are_read_as_people_write_them() -> None:
    for size in ("auto", "24GiB", "1.5 TiB", "60%", "1000"):
        assert WorkerSettings(model_memory=size).for_scoring("w").model_memory == size
    assert WorkerSettings(device="cuda:0,cuda:1").device == "cuda:0,cuda:1"


def test_one_model_on_all_gpus_leaves_no_device_to_choose() -> None:
    assert WorkerSettings(device="cuda", device_map="auto").for_scoring("w").device_map == "auto"
    with pytest.raises(ValidationError, match="takes all GPUs"):
        WorkerSettings(device="cuda:1", device_map="auto")


def test_an_engine_is_named_together_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLLAPSEWATCH_ENGINE_URL", "")
    assert WorkerSettings().engine_url is None
    with pytest.raises(ValidationError, match="needs its address"):
        WorkerSettings(engine="sglang")
    with pytest.raises(ValidationError, match="set `engine` as well"):
        WorkerSettings(engine_url="http://engine:8000")


def test_the_engines_key_reaches_the_scoring_process_and_no_log() -> None:
    settings = WorkerSettings(
        engine="vllm", engine_url="http://engine:8000/", engine_key=SecretStr("key-of-the-engine")
    )
    scoring = settings.for_scoring("worker-1")
    received = ScoringSettings.model_validate_json(scoring.model_dump_json())
    assert received.engine_key is not None
    assert received.engine_key.get_secret_value() == "key-of-the-engine"
    assert received.engine_url == "http://engine:8000"
    assert "key-of-the-engine" not in repr(received) + repr(settings)


def test_a_fault_of_several_settings_is_told_without_the_keys() -> None:
    variables = {
        "COLLAPSEWATCH_ENGINE": "vllm",
        "COLLAPSEWATCH_ENGINE_KEY": "key-of-the-engine",
        "COLLAPSEWATCH_WORKER_KEY": "key-of-the-worker",
    }
    told = CliRunner().invoke(app, [], env=variables)
    assert told.exit_code == 2
    assert "needs its address" in told.output
    assert "key-of-the" not in told.output


@pytest.mark.parametrize(
    ("option", "value", "place"),
    [
        ("--device", "tpu", "device"),
        ("--dtype", "int8", "dtype"),
        ("--model-memory", "much", "model_memory"),
        ("--device-map", "balanced", "device_map"),
        ("--token-budget", "8", "token_budget"),
        ("--engine", "llama.cpp", "engine"),
        ("--engine-url", "engine:8000", "engine_url"),
    ],
)
def test_every_option_of_the_worker_reaches_its_setting(option: str, value: str, place: str) -> None:
    told = CliRunner().invoke(app, [option, value], env={"COLUMNS": "200"})
    assert told.exit_code == 2
    assert f"{place}: " in told.output
