import json
import stat
from collections import UserDict
from pathlib import Path

import pytest

from collapsewatch.errors import SettingsError
from collapsewatch.settings import DEFAULT_URL, ENVIRONMENT, Settings, load_settings, normalised_url


def stored(home: Path, url: str = "http://127.0.0.1:9000", key: str = "file-key") -> dict[str, str]:
    (home / "credentials.json").write_text(json.dumps({"url": url, "api_key": key}))
    return {"COLLAPSEWATCH_HOME": str(home)}


def test_without_any_setting_the_local_server_is_used(tmp_path: Path) -> None:
    settings = load_settings(environ={"COLLAPSEWATCH_HOME": str(tmp_path)})
    assert (settings.url, settings.api_key, settings.mode) == (DEFAULT_URL, None, "online")


def test_the_local_servers_credentials_are_used_when_nothing_else_is_given(tmp_path: Path) -> None:
    settings = load_settings(environ=stored(tmp_path))
    assert (settings.url, settings.api_key) == ("http://127.0.0.1:9000", "file-key")


@pytest.mark.parametrize("url", ["http://127.0.0.1:9000/", "HTTP://127.0.0.1:9000"])
def test_the_stored_key_goes_to_its_own_server_by_any_spelling(tmp_path: Path, url: str) -> None:
    assert load_settings(url=url, environ=stored(tmp_path)).api_key == "file-key"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9001",
        "https://127.0.0.1:9000",
        "http://example.com:9000",
        "http://127.0.0.1.example.com:9000",
        "http://127.0.0.1:9000/other",
        "http://localhost:9000",
    ],
)
@pytest.mark.parametrize("way", ["argument", "environment"])
def test_the_stored_key_never_goes_to_another_server(tmp_path: Path, url: str, way: str) -> None:
    environ = stored(tmp_path)
    if way == "environment":
        settings = load_settings(environ={**environ, "COLLAPSEWATCH_URL": url})
    else:
        settings = load_settings(url=url, environ=environ)
    assert settings.url == url
    assert settings.api_key is None


def test_arguments_come_before_the_environment_and_the_environment_before_the_file(tmp_path: Path) -> None:
    environ = {**stored(tmp_path), "COLLAPSEWATCH_URL": "http://env:1", "COLLAPSEWATCH_API_KEY": "env-key"}
    from_environment = load_settings(environ=environ)
    assert (from_environment.url, from_environment.api_key) == ("http://env:1", "env-key")
    from_arguments = load_settings(url="http://arg:1", api_key="arg-key", environ=environ)
    assert (from_arguments.url, from_arguments.api_key) == ("http://arg:1", "arg-key")


def test_a_key_stays_with_the_environments_server_when_the_argument_names_another(tmp_path: Path) -> None:
    environ = {
        "COLLAPSEWATCH_HOME": str(tmp_path),
        "COLLAPSEWATCH_URL": "http://env:1",
        "COLLAPSEWATCH_API_KEY": "k",
    }
    assert load_settings(url="http://other:1", environ=environ).api_key is None
    assert load_settings(url="http://env:1/", environ=environ).api_key == "k"


def test_the_key_for_reading_is_kept_to_its_server_as_well(tmp_path: Path) -> None:
    kept = {"url": "http://127.0.0.1:9000", "api_key": "file-key", "read_key": "file-read"}
    (tmp_path / "credentials.json").write_text(json.dumps(kept))
    home = {"COLLAPSEWATCH_HOME": str(tmp_path)}
    assert load_settings(environ=home).read_key == "file-read"
    assert load_settings(url="http://named:1", environ=home).read_key is None
    environ = {**home, "COLLAPSEWATCH_READ_KEY": "env-read", "COLLAPSEWATCH_URL": "http://env:1"}
    from_environment = load_settings(environ=environ)
    assert (from_environment.api_key, from_environment.read_key) == (None, "env-read")
    assert load_settings(url="http://other:1", environ=environ).read_key is None
    assert load_settings(read_key="given", environ=environ).read_key == "given"
    assert "env-read" not in repr(from_environment)


def test_an_earlier_servers_credentials_have_no_key_for_reading(tmp_path: Path) -> None:
    settings = load_settings(environ=stored(tmp_path))
    assert (settings.api_key, settings.read_key) == ("file-key", None)


def test_an_environment_key_alone_goes_to_the_named_server(tmp_path: Path) -> None:
    environ = {"COLLAPSEWATCH_HOME": str(tmp_path), "COLLAPSEWATCH_API_KEY": "k"}
    assert load_settings(url="http://named:1", environ=environ).api_key == "k"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"url": "http://x:1"}', '{"url": 3, "api_key": "k"}', "\xff"]
)
def test_an_unusable_credentials_file_is_ignored(tmp_path: Path, content: str) -> None:
    (tmp_path / "credentials.json").write_bytes(content.encode("latin-1"))
    assert load_settings(environ={"COLLAPSEWATCH_HOME": str(tmp_path)}).url == DEFAULT_URL


@pytest.mark.parametrize(
    "url",
    [
        "ftp://x",
        "127.0.0.1:7788",
        "http://",
        "http://u:secret@x",
        "http://x:99999",
        "http://x?a=b",
        "http://[::",
    ],
)
def test_an_unusable_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        load_settings(url=url, environ={"COLLAPSEWATCH_HOME": "/nowhere"})
    assert "secret" not in str(refusal.value)


def test_a_url_is_compared_in_one_spelling() -> None:
    assert normalised_url(" https://Host.Example:443/path/ ") == "https://host.example/path"
    assert normalised_url("http://[::1]:7788") == "http://[::1]:7788"


@pytest.mark.parametrize("key", ["a\nb", "schlüssel", "two words"])
def test_an_unusable_key_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(SettingsError) as refusal:
        load_settings(api_key=key, environ={"COLLAPSEWATCH_HOME": "/nowhere"})
    assert key not in str(refusal.value)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(SettingsError, match="offlin"):
        load_settings(environ={"COLLAPSEWATCH_HOME": "/nowhere", "COLLAPSEWATCH_MODE": "offlin"})


def test_the_spool_lies_in_the_home_folder_unless_told_otherwise(tmp_path: Path) -> None:
    home = {"COLLAPSEWATCH_HOME": str(tmp_path)}
    assert load_settings(environ=home).spool_root == tmp_path / "spool"
    elsewhere = load_settings(environ={**home, "COLLAPSEWATCH_SPOOL": str(tmp_path / "elsewhere")})
    assert elsewhere.spool_root == tmp_path / "elsewhere"


@pytest.mark.parametrize("size", ["-1", "1e9", "10", "much", "9" * 30])
def test_an_unusable_spool_size_is_refused(tmp_path: Path, size: str) -> None:
    environ = {"COLLAPSEWATCH_HOME": str(tmp_path), "COLLAPSEWATCH_SPOOL_MAX_BYTES": size}
    with pytest.raises(SettingsError, match="SPOOL_MAX_BYTES"):
        load_settings(environ=environ)


def test_the_key_is_not_part_of_the_settings_text() -> None:
    assert "hidden" not in repr(Settings(url="http://x", api_key="hidden"))


def test_every_variable_that_is_read_is_documented(tmp_path: Path) -> None:
    read: set[str] = set()

    class Spy(UserDict[str, str]):
        def __getitem__(self, name: str) -> str:
            read.add(name)
            return super().__getitem__(name)

        def __contains__(self, name: object) -> bool:
            read.add(str(name))
            return super().__contains__(name)

    load_settings(environ=Spy({"COLLAPSEWATCH_HOME": str(tmp_path)}))
    assert read == set(ENVIRONMENT)


def test_a_world_of_no_home_folder_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    settings = load_settings(environ={})
    assert (settings.url, settings.spool_root) == (DEFAULT_URL, None)


def test_a_file_of_someone_else_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environ = stored(tmp_path)

    def refuse(self: Path, *args: object, **kwargs: object) -> str:
        raise PermissionError(13, "Permission denied")

    # The tests may run as root, whom no mode bits stop.
    monkeypatch.setattr(Path, "read_text", refuse)
    assert load_settings(environ=environ).api_key is None
    assert stat.S_ISREG((tmp_path / "credentials.json").stat().st_mode)
